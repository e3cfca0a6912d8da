"""Bets on the levels of a score, looked at after every few runs: claims that are exactly met, odd scores, and mutants.

Scores are drawn here; levels, counts and wealth are the library's own. A true claim may ever be refuted in a share of
0.05 of the replays; checks allow binom(REPLAYS, 0.05) up to its 1 - 1e-6 quantile. benchmarks/betting_nulls.py plays
thousands of each case.
"""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audits.bounds import betting
from tacit.audits.bounds.anytime import _both, log_evidence
from tacit.audits.bounds.frontier import of_event, of_pair
from tacit.core import Adjacency, Counts
from tacit.core.events import Gaussian

REPLAYS, ERROR, PAIRS, STEP = 150, 0.05, 96, 8
ADD = Adjacency.ADD_REMOVE
GAUSSIAN = betting.of_event(Gaussian(1.0), 1.0, ADD, 1e-5), of_event(Gaussian(1.0), 1.0, ADD)
PAIR = betting.of_pair(1.0, 0.02), of_pair(1.0, 0.02)


def normal(rng, present):
    return rng.normal(size=present.size) + present


def cauchy(rng, present):
    """The same two laws, told in numbers with heavy tails: any growing function of the score is as good."""
    return np.tan(math.pi * (stats.norm.cdf(normal(rng, present)) - 0.5))


def rounded(rng, present):
    return np.round(normal(rng, present))


def worst(rng, present):
    """The worst (1, 0.02) mechanism: 0 and 3 tell all, 1 and 2 are a biased coin (Kairouz et al. 2015)."""
    right = rng.random(present.size) < 1 / (1 + math.exp(-1.0))
    return np.where(rng.random(present.size) < 0.02, 3.0 * present, 1.0 + (present == right))


def failing(rng, present):
    """A third of the runs fails and counts as wrong."""
    failed = rng.random(present.size) < 0.3
    return np.where(failed, np.where(present, -np.inf, np.inf), normal(rng, present))


def constant(rng, present):
    return np.zeros(present.size)


CASES = {
    "normal": (normal, GAUSSIAN),
    "heavy tails": (cauchy, GAUSSIAN),
    "ties": (rounded, GAUSSIAN),
    "failures": (failing, GAUSSIAN),
    "constant": (constant, (betting.of_pair(0.0, 0.0), of_pair(0.0, 0.0))),
    "the worst pair": (worst, PAIR),
    "nothing is told": (lambda rng, present: rng.normal(size=present.size), (betting.of_pair(0, 0), of_pair(0, 0))),
}


def ever(scores, claim, seed, pairs=PAIRS):
    """Whether a true claim is ever refuted by runs that are looked at after every few pairs."""
    rng, (room, frontier) = np.random.default_rng(seed), claim
    calibration = scores(rng, np.zeros(16, dtype=bool))
    levels = np.array(betting.levels(calibration) or [0.0] * betting.PLACES.size)
    inside, outside = (scores(rng, np.full(pairs, coin)) for coin in (True, False))
    hits, alarms = (np.cumsum(side[:, None] >= levels, axis=0) for side in (inside, outside))
    for n in range(STEP, pairs + 1, STEP):
        reached = tuple(zip(hits[n - 1].tolist(), alarms[n - 1].tolist(), strict=True))
        counts = Counts(*reached[5], n, n, reached)
        if _both(log_evidence(frontier, counts), betting.log_wealth(room, counts)) >= -math.log(ERROR):
            return True
    return False


def alarms(name, replays=REPLAYS):
    return sum(ever(*CASES[name], seed) for seed in range(replays))


@pytest.mark.parametrize("name", CASES)
def test_a_true_claim_is_seldom_ever_refuted(name):
    assert alarms(name) <= stats.binom.ppf(1 - 1e-6, REPLAYS, ERROR)


def test_a_false_claim_is_refuted():
    assert sum(ever(lambda rng, present: normal(rng, 3 * present), GAUSSIAN, seed) for seed in range(10)) == 10


def test_mutant_a_bet_that_forgets_what_the_claim_allows():
    """With four fifths of delta(a) a true claim loses bets that it should not."""
    found = sum(ever(normal, (0.8 * GAUSSIAN[0], GAUSSIAN[1]), seed) for seed in range(40))
    assert found > stats.binom.ppf(1 - 1e-6, 40, ERROR)


def test_mutant_only_forward_rooms():
    """Negative a with the delta of positive ones: the complement is forgotten."""
    room = PAIR[0].copy()
    room[betting.GRID < 0] = room[betting.GRID > 0][::-1]
    found = sum(ever(worst, (room, PAIR[1]), seed) for seed in range(40))
    assert found > stats.binom.ppf(1 - 1e-6, 40, ERROR)
