"""Do the intervals of rates and areas hold as often as they say? Normal scores, whose true curve is known.

Each check allows binom(replays, error) up to its 1 - 1e-8 quantile, so all of them together flake below 1e-7.
"""

import numpy as np
import pytest
from scipy import special, stats

from tacit.core import Scores

REPLAYS = 400


def replay(seed, n=400, shift=1.0):
    rng = np.random.default_rng(seed)
    score = np.concatenate((rng.normal(shift, 1, n), rng.normal(0, 1, n)))
    return Scores(score, np.arange(2 * n) < n, attack="a", randomised=False)


@pytest.mark.parametrize("fpr", [0.02, 0.1])
def test_rate_interval_covers(fpr):
    truth = special.ndtr(1.0 - special.ndtri(1 - fpr))
    found = [replay(seed).tpr(fpr, 0.9) for seed in range(REPLAYS)]
    missed = sum(not estimate.lower <= truth <= estimate.upper for estimate in found)
    assert missed <= stats.binom.ppf(1 - 1e-8, REPLAYS, 0.1)
    # a mutant: an interval of the members' counts at the empirical threshold alone misses far more often
    naive = 0
    for seed in range(REPLAYS):
        made = replay(seed)
        rate = made.roc().at(fpr)
        half = special.ndtri(0.95) * np.sqrt(rate * (1 - rate) / 400)
        naive += not rate - half <= truth <= rate + half
    assert naive > stats.binom.ppf(1 - 1e-8, REPLAYS, 0.1)


@pytest.mark.parametrize(("n", "shift"), [(8, 0.0), (100, 1.0), (50, 3.5)])
def test_area_interval_covers(n, shift):
    truth = special.ndtr(shift / np.sqrt(2))
    found = [replay(seed, n, shift).auc(0.95) for seed in range(REPLAYS)]
    missed = sum(not estimate.lower <= truth <= estimate.upper for estimate in found)
    assert missed <= stats.binom.ppf(1 - 1e-8, REPLAYS, 0.05)


def test_the_normal_interval_of_an_area_is_a_mutant():
    """DeLong's, near the end of the scale: too narrow far more often than it says."""
    missed = 0
    for seed in range(REPLAYS):
        made = replay(seed, 50, 3.5)
        above = made.members[:, None] > made.nonmembers
        spread = np.sqrt(above.mean(1).var(ddof=1) / 50 + above.mean(0).var(ddof=1) / 50)
        missed += abs(above.mean() - special.ndtr(3.5 / np.sqrt(2))) > special.ndtri(0.975) * spread
    assert missed > stats.binom.ppf(1 - 1e-8, REPLAYS, 0.05)
