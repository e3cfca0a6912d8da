"""Exact tests: against brute force, against the claim, and tighter than limits."""

import numpy as np
import pytest
from scipy import special, stats

from tacit.audits import ClopperPearson, Curve, Exact, ExactCurve
from tacit.audits.bounds.exact import NUISANCE, unlikely
from tacit.audits.bounds.frontier import pair_limit
from tacit.core import Adjacency, BadInput, Counts, clopper_pearson
from tacit.core.events import Gaussian, Poisson, RandomizedResponse
from tacit.loss import privacy_loss

ADD = Adjacency.ADD_REMOVE


def brute_force(limit, counts, error):
    """The worst p-value of the outcomes with as many or fewer alarms: rates on a fine grid, all counts enumerated."""
    n, m = counts.n_in, counts.n_out
    low = stats.beta.ppf(error, np.arange(n + 1).clip(1e-300), n - np.arange(n + 1) + 1)
    high = stats.beta.ppf(1 - error, np.arange(m + 1) + 1, (m - np.arange(m + 1)).clip(1e-300))
    share = lambda n: special.ndtri((np.arange(n + 1) + 0.5) / (n + 1))  # noqa: E731
    low[0], high[m] = 0.0, 1.0
    spread = np.hypot((share(n) - special.ndtri(low))[:, None], special.ndtri(high) - share(m))
    statistic = share(n)[:, None] - share(m) - spread
    best = 0.0
    for alarms in range(counts.false_positives + 1):
        seen = statistic[counts.true_positives, alarms]
        low, high = clopper_pearson(alarms, m, 1 - NUISANCE * error)
        for q in np.linspace(low, high, 60):
            weight = stats.binom.pmf(np.arange(n + 1), n, min(float(limit(q)), 1.0))[:, None]
            weight = weight * stats.binom.pmf(np.arange(m + 1), m, q)
            best = max(best, weight[statistic >= seen - 1e-9].sum())
    return best + NUISANCE * error


@pytest.mark.parametrize("counts", [Counts(15, 6, 20, 20), Counts(30, 2, 40, 25), Counts(9, 9, 10, 30)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_unlikely_is_brute_force_and_never_bolder(counts, epsilon):
    """The smallest error at which the claim falls lies at the brute-force value or a little above it."""
    limit = lambda q: pair_limit(epsilon, 0.01, q)  # noqa: E731
    for error in np.geomspace(1e-4, 0.5, 9):
        truth = brute_force(limit, counts, error)
        if unlikely(limit, counts, error):
            assert truth <= error + 1e-9
        else:
            assert truth > 0.9 * error


@pytest.mark.parametrize("epsilon", [0.2, 0.8, 1.6])
def test_better_guesses_rule_out_whatever_worse_ones_do(epsilon):
    """Every outcome of 18 runs each: one hit more, or one alarm less, never brings a claim back."""
    limit = lambda q: pair_limit(epsilon, 0.01, q)  # noqa: E731
    found = np.array([[unlikely(limit, Counts(h, a, 18, 18), 0.05) for a in range(19)] for h in range(19)])
    assert found.any()
    assert not found.all()
    assert (found[1:] >= found[:-1]).all()
    assert (found[:, :-1] >= found[:, 1:]).all()


def test_all_hits_and_fewer_alarms_never_read_less():
    """A test that asks the rates of one interval alone read 3.62 with 21 alarms and 3.57 with 20."""
    found = [Exact(1e-3).read(Counts(200, alarms, 200, 200), 0.95) for alarms in range(26, 14, -1)]
    assert (np.diff(found) >= -2e-3).all()


def test_reading_exceeds_the_claim_exactly_when_it_is_ruled_out():
    for event in (Gaussian(1.0), Poisson(0.3, Gaussian(0.8)), RandomizedResponse(1.0)):
        use, claim = ExactCurve(event, ADD, 1e-3), privacy_loss(event, ADD).epsilon(1e-3).upper
        for hits in range(40, 100, 25):
            counts = Counts(hits, 25, 100, 100)
            assert (use.read(counts, 0.95) > claim) == use.ruled_out(1.0, counts, 0.95)


def test_the_free_reading_is_ruled_out_only_with_the_curve():
    """The curve lies inside the (epsilon, delta) region, so one error covers both readings."""
    event = Gaussian(1.0)
    claim = privacy_loss(event, ADD).epsilon(1e-3).upper
    for hits in range(40, 100, 4):
        counts = Counts(hits, 10, 100, 100)
        if Exact(1e-3).ruled_out(claim, counts, 0.95):
            assert ExactCurve(event, ADD, 1e-3).ruled_out(1.0, counts, 0.95)


def test_tighter_than_limits():
    counts = Counts(690, 310, 1000, 1000)
    assert ExactCurve(Gaussian(1.0), ADD, 1e-5).read(counts, 0.95) > Curve(Gaussian(1.0), ADD, 1e-5).read(counts, 0.95)
    assert Exact(1e-5).read(counts, 0.95) > ClopperPearson(1e-5).read(counts, 0.95)
    study = Counts(4922, 174, 100_000, 100_000)
    assert Exact(1e-5).read(study, 1 - 1e-10) > 2.8


def test_attainable_is_the_joint_probability_of_all_right():
    """All right has probability (e^epsilon / (1 + e^epsilon))^{2n} at the worst."""
    n, error = 1000, 0.05
    joint = (error * (1 - NUISANCE)) ** (1 / (2 * n))
    assert Exact(0.0).attainable(Counts(0, 0, n, n), 0.95) == pytest.approx(np.log(joint / (1 - joint)), abs=0.05)


def test_nothing_shown_is_zero():
    for use in (Exact(1e-5), ExactCurve(Gaussian(1.0), ADD, 1e-5)):
        assert use.read(Counts(10, 10, 50, 50), 0.95) == 0.0
        assert use.read(Counts(0, 50, 50, 50), 0.95) == 0.0
        with pytest.raises(BadInput):
            use.read(Counts(10, 10, 50, 50), 1.0)
