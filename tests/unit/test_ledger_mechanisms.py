"""Mechanisms that pay a real ledger: charged before the draw, the same answer for the same key, refused when spent."""

import numpy as np
import pytest

from tacit import events, mechanism
from tacit.core import BudgetExceeded, Mismatch
from tacit.ledger import Ledger
from tacit.loss import privacy_loss
from tacit.mechanism import Account


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "b.db", epsilon=1.0, delta=1e-6, unit="record")


def test_a_release_is_charged_and_a_retry_returns_the_same_answer(ledger):
    first = mechanism.laplace(100, sensitivity=1, epsilon=0.25, ledger=ledger, key="count")
    again = mechanism.laplace(100, sensitivity=1, epsilon=0.25, ledger=ledger, key="count")
    assert again.value == first.value
    assert again.receipt == first.receipt
    assert ledger.remaining() == 0.75
    assert ledger.verify(first.receipt).ok
    with pytest.raises(Mismatch):
        mechanism.laplace(100, sensitivity=1, epsilon=0.5, ledger=ledger, key="count")


def test_four_quarters_fill_the_budget_and_nothing_is_drawn_after(ledger):
    for _ in range(4):
        mechanism.laplace(100, sensitivity=1, epsilon=0.25, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        mechanism.laplace(100, sensitivity=1, epsilon=0.25, ledger=ledger)
    assert len(ledger.entries()) == 4


def test_real_numbers_fill_the_budget_as_well(ledger):
    for _ in range(10):
        mechanism.laplace(np.array([0.1, 1 / 3]), sensitivity=0.7, epsilon=0.1, ledger=ledger)
    assert ledger.remaining() < 1e-9


def test_gaussian_releases_and_choices_are_charged(ledger):
    mechanism.gaussian(100, sensitivity=1, epsilon=0.2, delta=1e-7, ledger=ledger)
    mechanism.exponential([1.0, 2.0, 3.0], sensitivity=1.0, epsilon=0.1, ledger=Account(ledger, analyst="ann"))
    assert [entry.analyst for entry in ledger.entries()] == ["", "ann"]
    assert 0.0 < ledger.remaining() < 1.0


def test_the_ledgers_neighbours_are_taken(tmp_path):
    replaced = Ledger.create(tmp_path / "r.db", epsilon=1.0, delta=0.0, unit="record", adjacency="replace")
    answer = mechanism.laplace(100, sensitivity=1, epsilon=0.5, ledger=replaced)
    assert answer.adjacency == "replace"
    assert replaced.remaining() == pytest.approx(0.5, abs=1e-9)
    with pytest.raises(Mismatch):
        mechanism.laplace(100, sensitivity=1, epsilon=0.1, ledger=replaced, adjacency="add-remove")


WHOLE = {
    "laplace": lambda ledger, epsilon: mechanism.laplace(3, sensitivity=1, epsilon=epsilon, ledger=ledger),
    "top": lambda ledger, epsilon: mechanism.top([1, 2, 3, 4], 3, sensitivity=1, epsilon=epsilon, ledger=ledger),
    "sparse vector": lambda ledger, epsilon: mechanism.above_threshold(
        [1, 2, 3], 2, sensitivity=1, epsilon=epsilon, count=3, ledger=ledger
    ),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.55, 1.1, 2.35, 1.1161659479787571, 1.4281684985421803])
@pytest.mark.parametrize("release", WHOLE)
def test_a_release_may_take_all_that_remains(tmp_path, release, epsilon, adjacency):
    """Parts of epsilon are rounded so that they add up to no more than it, as the ledger reads them: as written."""
    own = Ledger.create(tmp_path / "w.db", epsilon=epsilon, delta=0.0, unit="record", adjacency=adjacency)
    WHOLE[release](own, own.remaining())
    assert own.remaining() < 1e-12
    assert own.verify().ok


def test_an_event_that_was_calibrated_to_the_whole_budget_may_be_its_only_charge(tmp_path):
    """Calibration goes by epsilon at delta; delta at that epsilon may be proven a little less sharply."""
    fitted = events.ObjectivePerturbation(10.570302788076052, 0.31250000000000006, 2.7855193639957037)
    event = events.Compose((fitted, events.Gaussian(211.40605576152103)))
    loss = privacy_loss(event, "replace")
    assert loss.epsilon(1e-6).upper <= 1 < 1e6 * loss.delta(1.0).upper
    own = Ledger.create(tmp_path / "w.db", epsilon=1.0, delta=1e-6, unit="record", adjacency="replace")
    own.charge(event, key="whole")
    assert own.remaining() == 0
    assert own.verify().ok
