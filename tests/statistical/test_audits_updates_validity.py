"""The game of all updates under a true claim whose steps depend on the steps before.

Each replay is ten runs of 200 steps N(coin + b_t, 3^2), b_t a function of the steps before: by adaptive composition
exactly `Repeat(Gaussian(3), 200)`. At 95 % at most 5 % of 120 replays may refute it; 21 or more have probability below
1e-6 then. Fixed seeds.
"""

import numpy as np
import pytest

from tacit.audits.choice import count
from tacit.audits.exact import ExactCurve
from tacit.core import Adjacency, Scores
from tacit.core.events import Gaussian

STEPS, NOISE, RUNS, REPLAYS = 200, 3.0, 10, 120
STEP = ExactCurve(Gaussian(NOISE), Adjacency.ADD_REMOVE, 1e-5)


def replay(seed, coins, strength, noise=NOISE):
    """(runs, steps) of updates along the canary; what else is released leans towards what the steps before showed."""
    rng = np.random.default_rng(seed)
    shown, seen = np.zeros((RUNS, STEPS)), np.zeros(RUNS)
    for t in range(STEPS):
        leak = coins[:, t] + noise * rng.normal(size=RUNS)
        shown[:, t] = leak + strength * np.tanh(seen / np.sqrt(t + 1) / noise)
        seen += leak
    return Scores(shown.ravel(), coins.ravel(), attack="canary", randomised=True)


def per_run(seed):
    return np.repeat(np.arange(RUNS)[:, None] % 2 == 0, STEPS, axis=1)


def per_step(seed):
    return np.random.default_rng([seed, 1]).random((RUNS, STEPS)) < 0.5


def alarms(coins, strength, noise=NOISE):
    scores = (replay(seed, coins(seed), strength, noise) for seed in range(REPLAYS))
    return sum(STEP.ruled_out(1.0, count(item, 0.5), 0.95) for item in scores)


@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_with_a_coin_per_step_a_true_claim_stands(strength):
    assert alarms(per_step, strength) < 21


def test_with_a_coin_per_run_it_stands_where_steps_are_scored_alike():
    assert alarms(per_run, 0.0) < 21


def test_mutant_a_coin_per_run_where_they_are_not():
    """The assumption that the bound prints is needed: without it a true claim is refuted nearly always."""
    assert alarms(per_run, 3.0) > 100


def test_mutant_half_of_the_noise():
    assert alarms(per_step, 0.0, noise=NOISE / 2) > 100
