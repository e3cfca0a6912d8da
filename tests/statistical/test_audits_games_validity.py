"""The other games: one run and the e-process, over a thousand null replays each, and their mutants.

As in test_audits_validity: a check allows binom(1000, 0.05) up to its 1 - 1e-8 quantile; seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from tacit.audits import AnytimeCurve, OneRun
from tacit.audits.bounds.anytime import log_evidence
from tacit.audits.bounds.frontier import of_event, of_pair
from tacit.audits.bounds.one_run import guessed, too_many
from tacit.core import Adjacency, Counts, Scores, source
from tacit.core.events import Gaussian

REPLAYS, ERROR = 1000, 0.05
MOST = stats.binom.ppf(1 - 1e-8, REPLAYS, ERROR)
ADD = Adjacency.ADD_REMOVE


def canaries(seed, draw, m=200):
    rng = np.random.default_rng(seed)
    coins = rng.random(m) < 0.5
    return Scores(draw(rng, coins), coins, attack="canary", randomised=True)


def randomized_response(epsilon):
    """Each canary's coin is told truly with probability e^epsilon / (1 + e^epsilon): tight for pure epsilon.

    Ties are broken by a draw, which knows nothing of the coins.
    """
    return lambda rng, coins: (
        np.where(rng.random(coins.size) < 1 / (1 + np.exp(-epsilon)), coins, ~coins) + 0.5 * rng.random(coins.size)
    )


def gaussian(mu):
    return lambda rng, coins: rng.normal(size=coins.size) + mu * coins


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_one_run_for_any_mechanism(epsilon, share):
    draw = randomized_response(epsilon)
    alarms = 0
    for seed in range(REPLAYS):
        alarms += OneRun(0.0).chance(guessed(canaries(seed, draw), share), epsilon) <= ERROR
    assert alarms <= MOST
    assert alarms > 5  # a test that never rejects would be no use: it is nearly tight here


@pytest.mark.parametrize("levels", [1, 2, 3, 7])
@pytest.mark.parametrize("sort", [False, True])
def test_one_run_with_ties_whatever_the_order_of_the_rows(levels, sort):
    """Nothing is told, scores have few levels, and rows may come sorted by their coins (soundness rule 27)."""
    alarms = drawn = broken_by_order = 0
    for seed in range(REPLAYS):
        scores = canaries(seed, lambda rng, coins: rng.integers(0, levels, coins.size).astype(float), 200)
        if sort:
            scores = scores.take(np.argsort(scores.member, kind="stable"))
        alarms += OneRun(0.0).chance(guessed(scores), 0.0) <= ERROR
        drawn += OneRun(0.0).chance(guessed(scores, ties=source(seed)), 0.0) <= ERROR
        broken_by_order += OneRun(0.0).chance(by_the_order_of_the_rows(scores), 0.0) <= ERROR
    assert max(alarms, drawn) <= MOST
    assert broken_by_order > MOST or not sort or levels == 7  # the mutant refutes the truth


def by_the_order_of_the_rows(scores, share=0.2):
    """The mutant: a stable sort, so that ties go to whoever comes last."""
    half, order = int(share * len(scores) / 2), np.argsort(scores.score, kind="stable")
    right = int(scores.member[order[-half:]].sum() + (~scores.member[order[:half]]).sum())
    return Counts(right, 2 * half - right, len(scores), len(scores))


@pytest.mark.parametrize("mu", [0.5, 1.666])
def test_one_run_by_the_curve(mu):
    frontier = of_event(Gaussian(1 / mu), 1.0, ADD)
    alarms = sum(too_many(frontier, guessed(canaries(seed, gaussian(mu)), 0.2), ERROR) for seed in range(REPLAYS))
    assert alarms <= MOST


def test_mutant_the_best_of_many_guess_counts():
    """What peers ship (defects D2 and D8): the number of guesses is picked after the coins are read."""
    shares, alarms = np.linspace(0.02, 1.0, 25), 0
    for seed in range(REPLAYS):
        scores = canaries(seed, gaussian(0.0))
        alarms += any(OneRun(0.0).chance(guessed(scores, share), 0.0) <= ERROR for share in shares)
    assert alarms > MOST


def test_mutant_counting_only_the_canaries_that_were_guessed():
    """m is all canaries played (soundness rule 19): at a large delta the smaller m refutes the truth.

    The junk mechanism tells everything with probability m delta and nothing otherwise.
    """
    m, delta = 100, 0.002
    wrong = right = 0
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        told = rng.random() < m * delta
        scores = canaries(seed, gaussian(100.0 if told else 0.0), m)
        counts = guessed(scores, 0.1)
        fewer = Counts(counts.true_positives, counts.false_positives, 10, 10)
        wrong += OneRun(delta).chance(fewer, 0.0) <= ERROR
        right += OneRun(delta).chance(counts, 0.0) <= ERROR
    assert wrong > MOST
    assert right <= MOST


def walks(seed, p, q, n):
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.random(n) < p), np.cumsum(rng.random(n) < q)


LOOKS = np.unique(np.geomspace(4, 400, 25).astype(int))


def crossings(frontier, p, q):
    """How many of a thousand null walks are ever ruled out, looking 25 times."""
    found = 0
    for seed in range(REPLAYS):
        hits, alarms = walks(seed, p, q, LOOKS[-1])
        found += any(
            log_evidence(frontier, Counts(int(hits[n - 1]), int(alarms[n - 1]), int(n), int(n))) >= -np.log(ERROR)
            for n in LOOKS
        )
    return found


def test_the_e_process_may_be_watched():
    """Rates on the frontier itself: the claim is true and as tight as can be."""
    frontier, use = of_event(Gaussian(1 / 0.925), 1.0, ADD), AnytimeCurve(Gaussian(1 / 0.925), ADD, 1e-5)
    p, q = stats.norm.cdf(0.4625), stats.norm.cdf(-0.4625)
    assert crossings(frontier, p, q) <= MOST
    assert use.ruled_out(1.0, Counts(95, 5, 100, 100), 0.95)


@pytest.mark.slow
def test_the_e_process_for_any_mechanism():
    assert crossings(of_pair(0.0, 0.0), 0.5, 0.5) <= MOST
    assert crossings(of_pair(1.0, 0.0), np.e / (1 + np.e), 1 / (1 + np.e)) <= MOST


def test_mutant_watching_a_fixed_sample_bound():
    """The same walks, judged at every look by a likelihood ratio without the mixture's price."""
    found = 0
    for seed in range(REPLAYS):
        hits, _ = walks(seed, 0.5, 0.5, LOOKS[-1])
        shares = hits[LOOKS - 1] / LOOKS
        found += bool((shares - 0.5 > 1.645 * 0.5 / np.sqrt(LOOKS)).any())
    assert found > MOST


def test_sequential_finds_half_the_noise_within_a_hundred_pairs():
    """Claim epsilon 4 at 1e-5 (mu 0.925), noise halved: the median number of pairs, threshold fixed beforehand."""
    mu, frontier, needed = 0.925, of_event(Gaussian(1 / 0.925), 1.0, ADD), []
    for seed in range(101):
        rng = np.random.default_rng(seed)
        hits = np.cumsum(rng.normal(2 * mu, 1, 400) >= mu)
        alarms = np.cumsum(rng.normal(0, 1, 400) >= mu)
        stops = (
            n
            for n in range(8, 401, 2)
            if log_evidence(frontier, Counts(int(hits[n - 1]), int(alarms[n - 1]), n, n)) >= -np.log(ERROR)
        )
        needed.append(next(stops, 1000))
    assert np.median(needed) <= 100
