"""Estimators worked by hand, and the equivalence that makes a curve test a test of the claim."""

import math

import numpy as np
import pytest
from scipy import special

from tacit.audits import ClopperPearson, Curve, Exact, ExactCurve, Limits
from tacit.audits.bounds.estimators import ratio_epsilon
from tacit.audits.bounds.methods import estimator
from tacit.core import Adjacency, BadInput, Counts
from tacit.core.events import Compose, Gaussian, Laplace, Poisson, RandomizedResponse, Repeat, rescaled
from tacit.loss import privacy_loss

ADD = Adjacency.ADD_REMOVE


def test_ratio_by_hand_both_ways():
    assert ratio_epsilon(0.5, 0.1, 0.0) == pytest.approx(math.log(5))
    assert ratio_epsilon(0.9, 0.5, 0.0) == pytest.approx(math.log(5))
    assert ratio_epsilon(0.5, 0.1, 0.1) == pytest.approx(math.log(4))
    assert ratio_epsilon(0.1, 0.5, 0.0) == 0.0
    assert ratio_epsilon(0.0, 0.5, 0.1) == 0.0


def test_the_case_study_is_reproduced():
    """Tramer et al. 2022: 4,922 and 174 of 100,000 each; epsilon >= 2.79 at 99.99999999 % (claimed: 0.21)."""
    counts = Counts(4922, 174, 100_000, 100_000)
    assert ClopperPearson(1e-5).read(counts, 1 - 1e-10) == pytest.approx(2.795, abs=5e-4)
    assert ClopperPearson(1e-5).read(counts, 0.95) == pytest.approx(3.17, abs=5e-3)


@pytest.mark.parametrize(("runs", "most"), [(100, 3.28), (1000, 5.60), (10_000, 7.90), (100_000, 10.21)])
def test_attainable_maximum(runs, most):
    """A perfect attacker with n + n runs at 95 %."""
    assert ClopperPearson(0.0).attainable(Counts(3, 2, runs, runs), 0.95) == pytest.approx(most, abs=0.01)


def test_attainable_grows_with_runs_and_ignores_the_guesses():
    use = Curve(Gaussian(1.0), ADD, 1e-5)
    assert use.attainable(Counts(0, 9, 50, 50), 0.95) == use.attainable(Counts(50, 0, 50, 50), 0.95)
    assert use.attainable(Counts(0, 0, 50, 50), 0.95) < use.attainable(Counts(0, 0, 500, 500), 0.95)


def test_gaussian_curve_has_the_closed_form():
    """mu = Phi^-1(1 - FPR) - Phi^-1(1 - TPR), and epsilon from mu."""
    limits = Limits(0.6, 0.1)
    mu = special.ndtri(0.9) + special.ndtri(0.6)
    expected = privacy_loss(Gaussian(1 / mu), ADD).epsilon(1e-5)
    assert Curve(Gaussian(3.0), ADD, 1e-5).epsilon(limits) == pytest.approx(expected.lower, rel=1e-4)


def test_reading_does_not_depend_on_the_noise_that_was_claimed():
    readings = [Curve(Gaussian(z), ADD, 1e-5).epsilon(Limits(0.6, 0.1)) for z in (0.3, 1.0, 5.0)]
    assert readings == pytest.approx([readings[0]] * 3, rel=1e-4)


EVENTS = [
    Gaussian(1.0),
    Laplace(1.0),
    Repeat(Gaussian(2.0), 5),
    Compose((Gaussian(1.5), Gaussian(2.0))),
    Poisson(0.2, Gaussian(1.0)),
]


@pytest.mark.parametrize(
    ("event", "adjacency"), [*((event, ADD) for event in EVENTS), *((event, Adjacency.REPLACE) for event in EVENTS[:4])]
)
@pytest.mark.parametrize("fpr", [0.003, 0.1, 0.6])
def test_bound_exceeds_the_claim_exactly_when_its_curve_is_violated(event, adjacency, fpr):
    loss, use = privacy_loss(event, adjacency), Curve(event, adjacency, 1e-5)
    claim, allowed = loss.epsilon(1e-5).upper, loss.tradeoff(fpr).upper
    for step in (-1e-2, -1e-6, -1e-9, 0.0, 1e-9, 1e-6, 1e-2):
        limits = Limits(min(allowed * (1 + step), 1 - 1e-12), fpr)
        violated = allowed < limits.tpr
        assert use.violated(1.0, limits) == violated
        assert (use.epsilon(limits) > claim) == violated


def test_an_event_without_noise_is_a_family_of_one():
    event = RandomizedResponse(1.0)
    assert rescaled(event, 2.0) == event
    use = Curve(event, ADD, 0.0)
    allowed = privacy_loss(event, ADD).tradeoff(0.2).upper
    assert use.epsilon(Limits(allowed + 1e-6, 0.2)) > privacy_loss(event, ADD).epsilon(0.0).upper
    assert use.epsilon(Limits(allowed - 1e-6, 0.2)) == 0.0


def test_nothing_shown_is_zero_not_negative():
    for use in (ClopperPearson(1e-5), Curve(Gaussian(1.0), ADD, 1e-5)):
        assert use.read(Counts(5, 50, 100, 100), 0.95) == 0.0


def test_every_guess_right_is_finite_for_the_curve():
    epsilon = Curve(Gaussian(1.0), ADD, 1e-5).read(Counts(100, 0, 100, 100), 0.95)
    assert 10 < epsilon < math.inf


def test_confidence_must_leave_room():
    with pytest.raises(BadInput):
        ClopperPearson(0.0).read(Counts(1, 1, 2, 2), 1.0)


def test_estimators_are_found_by_their_stored_names():
    given = {"delta": 1e-5, "adjacency": ADD, "event": Gaussian(1.0)}
    assert estimator("clopper-pearson", **given) == ClopperPearson(1e-5)
    assert estimator("trade-off curve", **given) == Curve(Gaussian(1.0), ADD, 1e-5)
    assert estimator("exact test", **given) == Exact(1e-5)
    assert estimator("exact test, trade-off curve", **given) == ExactCurve(Gaussian(1.0), ADD, 1e-5)
    assert estimator("trade-off curve", **{**given, "event": None}) is None
    assert estimator("a dream", **given) is None


def test_limits_hold_together():
    limits = Limits.of(Counts(90, 10, 100, 100), 0.95)
    # each is one-sided at 97.5 %: beta quantiles
    assert limits.tpr == pytest.approx(special.betaincinv(90, 11, 0.025))
    assert limits.fpr == pytest.approx(special.betaincinv(11, 90, 0.975))
    assert np.isclose(limits.tpr, 1 - limits.fpr)
