"""One run that was made by somebody: a thousand null replays with canaries sorted by their coins, and a mutant.

As in test_audits_games_validity: a check allows binom(1000, 0.05) up to its 1 - 1e-8 quantile; seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from tacit.audits import OneRun
from tacit.audits.bounds.one_run import guessed
from tacit.core import source
from tacit.core.randomness import Seeded
from tacit.study.taken_model import told

REPLAYS, ERROR, CANARIES = 1000, 0.05, 200
MOST = stats.binom.ppf(1 - 1e-8, REPLAYS, ERROR)


def alarms(epsilon, chance):
    """A model tells every canary's coin truly with probability e^epsilon / (1 + e^epsilon), by two answers only."""
    found, rows = 0, np.arange(CANARIES)[:, None].astype(float)
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        coins = np.sort(rng.random(CANARIES) < 0.5)
        said = np.where(rng.random(CANARIES) < 1 / (1 + np.exp(-epsilon)), coins, ~coins)
        model = lambda x, said=said: np.stack([-1.0 * said[x[:, 0].astype(int)], np.zeros(len(x))], axis=1)  # noqa: E731
        scores = told(model, rows, np.ones(CANARIES, dtype=int), coins, mixed := chance(seed))
        found += OneRun(0.0).chance(guessed(scores, ties=mixed), epsilon) <= ERROR
    return found


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_a_true_claim_is_seldom_refuted(epsilon):
    assert alarms(epsilon, source) <= MOST


def test_mutant_rows_in_the_order_of_their_coins():
    class Unmixed(Seeded):
        def permutation(self, count):
            return np.arange(count)

    assert alarms(0.0, Unmixed) > MOST
