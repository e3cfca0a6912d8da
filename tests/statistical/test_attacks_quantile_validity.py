"""Quantile regression accuses no more non-members than it promised, and a careless form of it does.

One judged non-member per replay, fixed seeds: the number of false alarms is at most binomial, and beyond the limit used
here with probability 1e-6.
"""

import numpy as np
from scipy import stats

from tacit import attacks
from tacit.attacks.quantile import p_values, regression
from tacit.core import Observations

REPLAYS, FPR = 120, 0.1
LIMIT = stats.binom.isf(1e-6, REPLAYS, FPR)


def replay(seed, known=40, features=32):
    """One judged non-member and some known ones: nearly as many features as records to learn from."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(known + 1, features))
    margin = x[:, 0] + np.exp(0.5 * x[:, 1]) * rng.normal(size=known + 1)
    member = np.zeros((known + 1, 1), dtype=bool)
    seen = Observations(member=member, margin=margin[:, None], features=x, record=np.arange(known + 1))
    return seen.select(records=[known]), seen.select(records=np.arange(known))


def test_promised_rate_holds():
    alarms = sum(int(attacks.accuse(*replay(seed), FPR, seed).accused[0]) for seed in range(REPLAYS))
    assert 1 <= alarms <= LIMIT


def test_calibrating_on_the_fitted_records_would_break_it():
    alarms = 0
    for seed in range(REPLAYS):
        judged, known = replay(seed)
        rule = regression(known, 0)
        alarms += int(p_values(rule(known), rule(judged))[0] <= FPR)
    assert alarms > LIMIT


def test_p_values_are_exact_for_scores_without_ties_and_the_mutant_without_one_is_not():
    """P[p <= a] = floor(a (n + 1)) / (n + 1), over 100,000 replays; each check errs with at most 1e-6."""
    rng, replays = np.random.default_rng(0), 100_000
    for n, fpr in ((19, 0.05), (9, 0.05), (30, 0.2)):
        scores = rng.normal(size=(replays, n + 1))
        above = (scores[:, 1:] >= scores[:, :1]).sum(1)
        promised = np.floor(fpr * (n + 1)) / (n + 1)
        low, high = stats.binom.ppf([5e-7, 1 - 5e-7], replays, promised)
        assert low <= ((1 + above) / (n + 1) <= fpr).sum() <= high
        by_function = [p_values(row[1:], row[:1])[0] for row in scores[:200]]
        np.testing.assert_allclose(by_function, (1 + above[:200]) / (n + 1))
        if n == 9:
            assert (above / n <= fpr).sum() > stats.binom.isf(1e-6, replays, fpr)


def test_ties_never_help():
    assert p_values(np.zeros(9), np.zeros(1))[0] == 1.0
    assert p_values(np.zeros(9), np.ones(1))[0] == 0.1
