"""Mechanisms that pay a real ledger: charged before the draw, the same answer for the same key, refused when spent."""

import numpy as np
import pytest

from tacit import mechanism
from tacit.core import BudgetExceeded, Mismatch
from tacit.ledger import Ledger
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
