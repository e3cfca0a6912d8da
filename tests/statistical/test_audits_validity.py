"""Is a 95 % lower bound false at most 5 % of the time? A thousand null replays of every estimator, and its mutants.

A null replay plays an exact mechanism whose epsilon is known; a false alarm is a bound above it. Every check allows
binom(1000, 0.05) up to its 1 - 1e-8 quantile (91), so that all of them together flake below 1e-6 - with fixed seeds
they do not flake at all. The mutants are what peers ship or what a hasty reader would write; each must exceed 91.
"""

import numpy as np
import pytest
from scipy import stats

from tacit.audits import ClopperPearson, Curve, Exact, ExactCurve, Limits, choose, lower_bound
from tacit.audits.bounds.estimators import both_limits, ratio_epsilon
from tacit.audits.choice import count
from tacit.audits.scoring import balanced, scored
from tacit.core import Adjacency, Counts, Evaluation, Scores, lower_proportion
from tacit.core.events import Gaussian, Laplace
from tacit.loss import privacy_loss

REPLAYS, ERROR = 1000, 0.05
MOST = stats.binom.ppf(1 - 1e-8, REPLAYS, ERROR)
ADD = Adjacency.ADD_REMOVE
GAUSSIAN, LAPLACE = Gaussian(1.0), Laplace(1.0)


def noise(kind, rng, n):
    return {"nothing": rng.normal, "gaussian": rng.normal, "laplace": rng.laplace}[kind](0.0, 1.0, n)


def replay(kind, seed, runs=200, shift=1.0):
    """The exact mechanism with sensitivity 1 and noise 1; kind "nothing" has no shift, so epsilon is 0."""
    rng = np.random.default_rng([seed, runs])
    coins = balanced(runs, rng)
    return scored(noise(kind, rng, runs) + (0.0 if kind == "nothing" else shift) * coins, coins)


def false_alarms(kind, truth, delta):
    """The whole procedure: split, choose, bound, by Clopper and Pearson."""
    alarms = 0
    for seed in range(REPLAYS):
        first, second = replay(kind, seed).split(seed)
        rule = {"delta": delta, "adjacency": ADD, "confidence": 1 - ERROR}
        alarms += lower_bound(second, choose(first, **rule), **rule).epsilon > truth
    return alarms


@pytest.mark.parametrize(
    ("kind", "truth", "delta"),
    [
        ("nothing", 0.0, 0.0),
        ("laplace", 1.0, 0.0),
        ("gaussian", privacy_loss(GAUSSIAN, ADD).epsilon(0.05).upper, 0.05),
    ],
)
def test_clopper_pearson_after_choosing(kind, truth, delta):
    assert false_alarms(kind, truth, delta) <= MOST


@pytest.mark.parametrize("event", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("threshold", [0.5, 1.5])
def test_the_curve_inside_its_family(event, threshold):
    """A bound above the claim is a violated curve (test_audits_estimators), so one reading per replay will do."""
    use, kind, alarms = Curve(event, ADD, 1e-5), type(event).__name__.lower(), 0
    for seed in range(REPLAYS):
        limits = Limits.of(count(replay(kind, seed), threshold), 1 - ERROR)
        alarms += limits.tpr > limits.fpr and use.violated(1.0, limits)
    assert alarms <= MOST


@pytest.mark.parametrize("event", [GAUSSIAN, LAPLACE], ids=["gaussian", "laplace"])
def test_the_curve_after_choosing(event):
    use, kind, alarms = Curve(event, ADD, 1e-5), type(event).__name__.lower(), 0
    for seed in range(REPLAYS):
        first, second = replay(kind, seed).split(seed, share=0.2)
        choice = choose(first, delta=1e-5, adjacency=ADD, confidence=1 - ERROR)
        limits = Limits.of(count(second.scores, choice.threshold), 1 - ERROR)
        alarms += limits.tpr > limits.fpr and use.violated(1.0, limits)
    assert alarms <= MOST


@pytest.mark.parametrize(("event", "threshold"), [(GAUSSIAN, 0.5), (GAUSSIAN, 1.3), (LAPLACE, 0.5)])
def test_the_exact_test_inside_its_family(event, threshold):
    """Counts are drawn directly, as the threshold is fixed; far fewer false alarms than 5 % would be waste."""
    use, law = ExactCurve(event, ADD, 1e-5), {GAUSSIAN: stats.norm, LAPLACE: stats.laplace}[event]
    rng = np.random.default_rng(7)
    hits = rng.binomial(60, law.sf(threshold - 1), REPLAYS)
    others = rng.binomial(60, law.sf(threshold), REPLAYS)
    pairs, times = np.unique(np.stack((hits, others), axis=1), axis=0, return_counts=True)
    alarms = sum(
        int(n) for (hit, other), n in zip(pairs.tolist(), times, strict=True)
        if use.ruled_out(1.0, Counts(hit, other, 60, 60), 1 - ERROR)
    )  # fmt: skip
    assert alarms <= MOST
    assert alarms > 3


@pytest.mark.parametrize(
    ("p", "q", "epsilon"), [(0.5, 0.5, 0.0), (np.e * 0.1, 0.1, 1.0), (1 - 0.1, 1 - np.e * 0.1, 1.0)]
)
def test_the_exact_test_of_any_mechanism(p, q, epsilon):
    """The order is that of composed noise, so away from the middle of a bare pair's frontier the test is cautious."""
    rng = np.random.default_rng(8)
    hits, others = rng.binomial(80, p, REPLAYS), rng.binomial(80, q, REPLAYS)
    pairs, times = np.unique(np.stack((hits, others), axis=1), axis=0, return_counts=True)
    alarms = sum(
        int(n) for (hit, other), n in zip(pairs.tolist(), times, strict=True)
        if Exact(0.0).ruled_out(epsilon, Counts(hit, other, 80, 80), 1 - ERROR)
    )  # fmt: skip
    assert 0 < alarms <= MOST


def test_failed_runs_never_add_alarms():
    """A tenth of the runs fails, more often with the canary than without: still no false alarms at epsilon 0."""
    alarms = 0
    for seed in range(REPLAYS):
        scores = replay("nothing", seed)
        rng = np.random.default_rng(seed)
        lost = rng.random(len(scores)) < np.where(scores.member, 0.2, 0.0)
        holed = scored(np.where(lost, np.nan, scores.score), scores.member)
        alarms += ClopperPearson(0.0).read(count(holed, 0.0), 1 - ERROR) > 0
    assert alarms <= MOST


def test_mutant_dropping_failed_runs_at_a_score_of_ones_liking():
    """Throwing away the canary's low runs is how a crash becomes a refutation."""
    alarms = 0
    for seed in range(REPLAYS):
        scores = replay("nothing", seed)
        kept = scores.take(np.flatnonzero(~(scores.member & (scores.score < -0.5))))
        alarms += ClopperPearson(0.0).read(count(kept, 0.0), 1 - ERROR) > 0
    assert alarms > MOST


def every_way(inside, outside):
    """(hits, alarms) at thresholds in both tails, for members above or below, and with the sides exchanged."""
    ranks = np.unique(np.geomspace(1, inside.size / 2, 60).astype(int))
    for sign in (1, -1):
        for one, other in ((sign * inside, sign * outside), (sign * outside, sign * inside)):
            one, other = np.sort(one), np.sort(other)
            at = np.concatenate((one[-ranks], other[-ranks]))
            yield one.size - np.searchsorted(one, at), other.size - np.searchsorted(other, at)


def test_mutant_uncorrected_maximum_over_thresholds():
    """What a peer ships (defect D7): the best threshold and direction of the scores that give the bound."""
    alarms, n = 0, 2500
    for seed in range(REPLAYS):
        inside, outside = np.random.default_rng(seed).normal(size=(2, n))
        hits, others = (np.concatenate(counts) for counts in zip(*every_way(inside, outside), strict=True))
        # a threshold shows something only where the rates differ by three deviations
        far = (hits - others) ** 2 > 5 * (hits + others)
        if far.any():
            alarms += ratio_epsilon(*both_limits(hits[far], others[far], n, n, 1 - ERROR), 0.0).max() > 0
    assert alarms > MOST


def test_mutant_peeking():
    """Looking after every run and stopping at the first success (soundness rule 18), the other side well known."""
    n_in, alarms = np.arange(5, 1001), 0
    fpr = float(both_limits(0, 10_000, 1, 20_000, 1 - ERROR)[1])
    for seed in range(REPLAYS):
        hits = np.cumsum(np.random.default_rng(seed).random(1000) < 0.5)[4:]
        promising = hits > n_in * fpr
        tpr = lower_proportion(hits[promising], n_in[promising], 1 - ERROR / 2)
        alarms += bool((tpr > fpr).any())
    assert alarms > MOST


def test_mutant_wrong_adjacency():
    """A game that replaces a record moves the sum by 2; against an add-remove claim it refutes right code (rule 17)."""
    use, alarms = Curve(GAUSSIAN, ADD, 1e-5), 0
    right = Curve(GAUSSIAN, Adjacency.REPLACE, 1e-5)
    right_alarms = 0
    for seed in range(REPLAYS):
        limits = Limits.of(count(replay("gaussian", seed, shift=2.0), 1.0), 1 - ERROR)
        alarms += use.violated(1.0, limits)
        right_alarms += right.violated(1.0, limits)
    assert alarms > MOST
    assert right_alarms <= MOST


def test_mutant_shared_order_against_an_amplified_claim():
    """Runs that share one batch order have no amplification: the record is in the known batch or is not (rule 16)."""
    from tacit.core.events import Poisson

    use, alarms = Curve(Poisson(0.1, GAUSSIAN), ADD, 1e-5), 0
    for seed in range(200):
        alarms += use.violated(1.0, Limits.of(count(replay("gaussian", seed), 0.5), 1 - ERROR))
    assert alarms > 150


def test_mutant_gaussian_reading_of_laplace():
    """Outside of its family the curve over-reads: exact Laplace noise with epsilon 1 reads about 4.5 (rule 15)."""
    use = Curve(GAUSSIAN, ADD, 1e-5)
    tpr = 1 - 0.5 * np.exp(-0.5)
    assert use.epsilon(Limits(tpr, 1 - tpr)) == pytest.approx(4.53, abs=0.01)
    reading = lower_bound(
        Evaluation(replay("laplace", 0, runs=20_000)),
        _fixed(0.5),
        delta=1e-5,
        adjacency=ADD,
        confidence=0.95,
        event=GAUSSIAN,
    )
    assert reading.epsilon > 3.5


def _fixed(threshold):
    from tacit.audits import Choice

    return Choice("canary", threshold)


def test_mutants_are_not_merely_noisy():
    """The same null, judged right, on the mutants' sample size: the line between them is the rule, not the luck."""
    alarms = 0
    for seed in range(REPLAYS):
        scores: Scores = replay("nothing", seed, runs=1000)
        alarms += ClopperPearson(0.0).read(count(scores, 0.0), 1 - ERROR) > 0
    assert alarms <= MOST
