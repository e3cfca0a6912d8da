"""The game of all updates under a true claim whose steps depend on the steps before, a thousand null replays each.

Each replay is four runs of 50 steps N(coin + b_t, 3^2), b_t a function of the steps before: by adaptive composition
exactly `Repeat(Gaussian(3), 50)`. As in test_audits_validity, a check allows binom(1000, 0.05) up to its 1 - 1e-8
quantile; seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

from tacit.audits.bounds.exact import ExactCurve
from tacit.audits.stepping import View
from tacit.core import Adjacency, Counts
from tacit.core.events import Gaussian

STEPS, NOISE, RUNS, REPLAYS, ERROR = 50, 3.0, 4, 1000, 0.05
MOST = stats.binom.ppf(1 - 1e-8, REPLAYS, ERROR)
ENOUGH = int(MOST) + 9
STEP = ExactCurve(Gaussian(NOISE), Adjacency.ADD_REMOVE, 1e-5)
ALLOWED = 2 * stats.norm.cdf(0.5 / NOISE) - 1
SHAPE = (REPLAYS, RUNS, STEPS)


def replays(coins, strength, noise=NOISE):
    """Updates along the canary, (replays, runs, steps); what else is released leans on what the steps before showed."""
    rng = np.random.default_rng(3)
    shown, seen = np.zeros(SHAPE), np.zeros(SHAPE[:2])
    for t in range(STEPS):
        leak = coins[:, :, t] + noise * rng.normal(size=SHAPE[:2])
        shown[:, :, t] = leak + strength * np.tanh(seen / np.sqrt(t + 1) / noise)
        seen += leak
    return shown


def per_run():
    return np.repeat((np.arange(RUNS) % 2 == 0)[None, :, None], REPLAYS, axis=0).repeat(STEPS, axis=2)


def per_step():
    return np.random.default_rng(4).random(SHAPE) < 0.5


def alarms(coins, shown, threshold=0.5, enough=REPLAYS):
    """How many of the replays rule the claim out, guessing at a threshold fixed beforehand; it stops at `enough`."""
    guess = shown >= threshold
    sums = [part.sum(axis=(1, 2)) for part in (guess & coins, guess & ~coins, coins, ~coins)]
    apart = sums[0] / sums[2] - sums[1] / sums[3]
    found = 0
    for row in np.stack(sums, axis=1)[apart > ALLOWED].tolist():  # what the claim allows cannot rule it out
        found += STEP.ruled_out(1.0, Counts(*row), 1 - ERROR)
        if found >= enough:
            break
    return found


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_with_a_coin_per_step_a_true_claim_stands(strength):
    coins = per_step()
    assert 3 < alarms(coins, replays(coins, strength)) <= MOST


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_scores_may_take_the_steps_before_off(strength):
    """The view of `audit(game="updates")` that sees noise coming back: a function of this step and those before."""
    coins = per_step()
    view = View(np.zeros((STEPS, 1)), np.zeros(0), np.ones(STEPS), behind=True)
    shown = view(replays(coins, strength).reshape(-1, STEPS, 1)).reshape(SHAPE)
    assert alarms(coins, shown) <= MOST


def test_with_a_coin_per_run_it_stands_where_steps_are_scored_alike():
    coins = per_run()
    assert alarms(coins, replays(coins, 0.0)) <= MOST


def test_mutant_a_coin_per_run_where_they_are_not():
    """The assumption that the bound prints is needed: without it a true claim is refuted too often."""
    coins = per_run()
    assert alarms(coins, replays(coins, 3.0), enough=ENOUGH) == ENOUGH


def test_mutant_scores_that_know_the_steps_to_come():
    """Smoothing over the next steps mixes their coins in; where runs carry one coin, that sums up the leak."""
    coins = per_run()
    shown = replays(coins, 0.0)
    width = 9
    ahead = np.stack([shown[:, :, t : t + width].mean(axis=2) for t in range(STEPS)], axis=2)
    assert alarms(coins, ahead, enough=ENOUGH) == ENOUGH


def test_mutant_half_of_the_noise():
    coins = per_step()
    assert alarms(coins, replays(coins, 0.0, noise=NOISE / 2), enough=ENOUGH) == ENOUGH
