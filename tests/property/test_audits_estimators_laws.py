"""Laws of every estimator: better guesses, more confidence asked, larger delta."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.audits import Anytime, ClopperPearson, Curve, Exact, ExactCurve
from tacit.core import Adjacency, Counts
from tacit.core.events import Gaussian, Laplace

N = 200
SLACK = 0.02
"""Readings are found to a thousandth of a factor or of epsilon; only the side is certified."""
MAKE = {
    "exact": Exact,
    "exact gaussian": lambda delta: ExactCurve(Gaussian(1.0), Adjacency.ADD_REMOVE, delta),
    "anytime": Anytime,
    "clopper-pearson": ClopperPearson,
    "gaussian": lambda delta: Curve(Gaussian(1.0), Adjacency.ADD_REMOVE, delta),
    "laplace": lambda delta: Curve(Laplace(1.0), Adjacency.ADD_REMOVE, delta),
}
EVERY = pytest.mark.parametrize("make", MAKE.values(), ids=list(MAKE))
guesses = st.integers(0, N)


@EVERY
@settings(max_examples=15, deadline=None)
@given(hits=guesses, alarms=guesses, more=st.integers(0, 20))
def test_a_stronger_attack_gives_no_smaller_bound(make, hits, alarms, more):
    use = make(1e-3)
    weak = use.read(Counts(hits, alarms, N, N), 0.95)
    strong = use.read(Counts(min(hits + more, N), max(alarms - more, 0), N, N), 0.95)
    assert strong >= weak - SLACK


@EVERY
@settings(max_examples=6, deadline=None)
@given(hits=guesses, alarms=guesses)
def test_more_confidence_or_delta_gives_no_larger_bound(make, hits, alarms):
    counts = Counts(hits, alarms, N, N)
    assert make(1e-3).read(counts, 0.99) <= make(1e-3).read(counts, 0.9) + SLACK
    assert make(1e-2).read(counts, 0.95) <= make(1e-3).read(counts, 0.95) + SLACK


@EVERY
@settings(max_examples=12, deadline=None)
@given(hits=guesses, alarms=guesses)
def test_no_bound_is_above_what_was_attainable(make, hits, alarms):
    counts = Counts(hits, alarms, N, N)
    use = make(1e-3)
    assert 0.0 <= use.read(counts, 0.95) <= use.attainable(counts, 0.95) + SLACK


@settings(max_examples=12, deadline=None)
@given(hits=guesses, alarms=guesses)
def test_the_family_reading_is_never_below_the_assumption_free_one(hits, alarms):
    """A curve inside the (epsilon, delta) region rules out more."""
    counts = Counts(hits, alarms, N, N)
    free = MAKE["clopper-pearson"](1e-3).read(counts, 0.95)
    assert MAKE["gaussian"](1e-3).read(counts, 0.95) >= free - 1e-6
