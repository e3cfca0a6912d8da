"""What an output can express, and how a 0 of it is read."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tacit.attacks.threshold import modified_entropy
from tacit.core import Observations, Resolution, observations
from tacit.core.resolution import are_shares, printed_decimals

RNG = np.random.default_rng(0)
SHARES = RNG.dirichlet(np.full(5, 0.1), 400)


@pytest.mark.parametrize(("decimals", "kind"), [(2, "f8"), (3, "f8"), (4, "f8"), (4, "f4"), (2, "f4")])
def test_printed_decimals_are_found_in_any_number_type(decimals, kind):
    assert printed_decimals(SHARES.round(decimals).astype(kind)) == decimals


@pytest.mark.parametrize("kind", ["f8", "f4", "f2"])
def test_numbers_that_were_not_printed_have_no_decimals(kind):
    assert printed_decimals(SHARES.astype(kind)) is None


def test_shares_and_logits_are_told_apart():
    assert all(are_shares(part) for part in (SHARES, SHARES.astype("f2"), *(SHARES.round(k) for k in (1, 2, 3, 4))))
    assert are_shares(np.log(SHARES + 1e-9)) is False
    assert are_shares(4 * RNG.random((400, 5))) is False
    assert are_shares(RNG.random((400, 5))) is None  # one-against-rest scores: neither


def test_a_zero_of_a_forest_costs_no_more_than_a_vote():
    """The cliff from 1/50 to 0 was 700 wide; now it is as wide as that from 2/50 to 1/50, about."""
    votes = np.stack((np.arange(51), 50 - np.arange(51)), axis=1) / 50
    margin = Observations.from_probabilities(votes, np.zeros(51, int)).margin[:, 0]
    steps = np.diff(margin)
    assert (steps > 0).all()
    assert steps.max() < 4 * np.sort(steps)[-3]
    assert np.abs(margin).max() < 6


@pytest.mark.parametrize(
    "form", [lambda p: p, lambda p: p.astype("f4"), lambda p: p.astype("f2"), lambda p: p.round(4)]
)
def test_margins_agree_across_output_forms(form):
    """Where both can express it, the margin is the same; where one cannot, it ends there."""
    logits = RNG.normal(size=(500, 4)) * 3
    label = RNG.integers(0, 4, 500)
    exact = Observations.from_logits(logits, label)
    shares = np.exp(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    found = Observations.from_probabilities(form(shares), label).margin[:, 0]
    inside = np.abs(exact.margin[:, 0]) < 4
    np.testing.assert_allclose(found[inside], exact.margin[inside, 0], atol=0.05)
    assert np.corrcoef(found, exact.margin[:, 0])[0, 1] > 0.97


def test_one_of_two_columns_may_be_coarser():
    """1 - p in half precision steps by 5e-4 near 1, p near 0 by 6e-8: each zero is read at its own step."""
    p = np.linspace(0, 1, 4001).astype("f2")
    found = Resolution.of(np.stack((1 - p, p), axis=1))
    assert found.added[0] > 5 * found.added[1] or found.added[1] < 2e-4
    assert found.added[0] == pytest.approx(0.25 * float((1 - p)[(1 - p) > 0].min()))


def test_an_output_without_zeros_is_left_alone():
    np.testing.assert_array_equal(Resolution.of(SHARES + 1e-3).raised(SHARES + 1e-3), SHARES + 1e-3 + 1e-30)
    seen = Observations.from_probabilities(np.array([[1e-25, 1 - 1e-25]]), [0])
    assert seen.margin[0, 0] == pytest.approx(np.log(1e-25))


@pytest.mark.parametrize("kind", ["f8", "f4"])
def test_rounding_errors_are_zeros_unless_the_output_has_small_shares(kind):
    """A vote share that misses 0 by 1 ulp of 1 is no share; a softmax that says 1e-7, or 1e-25, means what it says."""
    votes = (np.arange(101) / 100).astype(kind)
    votes[0] = np.finfo(kind).eps
    table = np.stack((votes, votes[::-1], np.full_like(votes, 0.5)), axis=1)
    assert Resolution.of(table).added == (pytest.approx(0.25 * 0.01),)
    for share in (7e-7, 1e-25):
        table[50, 2] = share
        assert Resolution.of(table).added == (1e-30,)


def test_references_are_read_as_the_target_is():
    """A target that prints two decimals and references that do not: the same record gets nearly the same margin."""
    from tacit.study.outputs import Reading

    label = RNG.integers(0, 5, 400)
    reading = Reading.of(SHARES.round(2), label)
    read = reading.coarsest([SHARES])
    one, other = (reading.observe([part], np.ones((400, 1)), read).margin for part in (SHARES.round(2), SHARES))
    np.testing.assert_allclose(one, other)
    assert read.decimals == 2


def test_labels_alone_are_read_as_sure():
    seen = Observations.from_probabilities(np.eye(3), [0, 1, 0])
    assert seen.margin[0, 0] == seen.margin[1, 0] > 5
    assert seen.margin[2, 0] < -5


def test_ratios_of_shares_are_not_drawn_together():
    """Relative attacks compare a share with its mean over models: of a coarse output, nothing may be added to both."""
    shares = np.array([[[1, 0, 2], [0, 3, 0]], [[1, 1, 1], [2, 1, 0]]]) / 3
    seen = Observations.from_probabilities(shares, [0, 1])
    assert np.allclose(seen.probability, [[1 / 3, 0], [1 / 3, 1 / 3]], atol=1e-3)
    assert (seen.probability > 0).all()
    assert seen.margin[0, 1] > -5
    two = Observations.from_probabilities(np.array([[[0.0, 1.0], [0.5, 0.5]]] * 30), [0] * 30)
    assert 0 < two.probability[0, 0] < 1e-2


def _many_classes():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(200), 3000).astype(np.float32), rng.integers(0, 200, 3000)


@pytest.mark.parametrize("build", [Observations.from_probabilities, Observations.from_logits])
def test_some_records_at_a_time_give_the_same(monkeypatch, build):
    shares, label = _many_classes()
    whole = build(shares, label)
    entropy = modified_entropy(replace(whole, member=np.arange(3000)[:, None] < 9)).score
    monkeypatch.setattr(observations, "BLOCK", 1000)
    part = build(shares, label)
    for name in ("margin", "loss", "probability", "logits"):
        assert np.array_equal(whole.need(name), part.need(name))
    assert np.array_equal(entropy, modified_entropy(replace(part, member=np.arange(3000)[:, None] < 9)).score)


def _peak(act):
    tracemalloc.start()
    act()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_answers_of_many_classes_are_not_copied_several_times(monkeypatch):
    """The logits that are kept, and little beside them; all records at once are the mutant."""
    shares, label = _many_classes()
    size = 8 * shares.size
    assert _peak(lambda: Observations.from_probabilities(shares, label)) > 3 * size
    monkeypatch.setattr(observations, "BLOCK", 20_000)
    assert _peak(lambda: Observations.from_probabilities(shares, label)) < 2 * size
    seen = Observations.from_probabilities(shares, label, member=np.arange(3000) < 9)
    assert _peak(lambda: modified_entropy(seen)) < 0.5 * size
