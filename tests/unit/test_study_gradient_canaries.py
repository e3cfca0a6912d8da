"""White-box audit of our own DP-SGD with gradient canaries, small."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tacit import Plan
from tacit.audits import stated
from tacit.core import Verdict
from tacit.core.randomness import Seeded
from tacit.data import load
from tacit.study.gradient_canaries import Trial, Watched

DELTA = 1e-5


def trial(canaries, steps=100, rate=0.05, records=300):
    data = load("digits")
    plan = Plan(records + canaries // 2, rate, steps, 1.0).calibrated(epsilon=4.0, delta=DELTA)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 160), nn.Tanh(), nn.Linear(160, 10))
    return Trial(data.x[:records], data.y[:records], network, plan, canaries)


def test_a_canary_moves_its_own_coordinate_by_the_clip_norm_and_nothing_else():
    """At rate 1 and next to no noise an update shows every canary that is in at 1 and every other at 0."""
    subject = trial(40, records=30)
    subject = replace(subject, plan=Plan(50, 1.0, 1, 1e-6, clip_norm=0.3))
    coins = np.arange(40) % 2 == 0
    seen = []
    spied = replace(subject)
    object.__setattr__(spied, "_ratio", lambda values: seen.append(values) or np.zeros(40))
    spied.scores(coins, Seeded(2))
    np.testing.assert_allclose(seen[0], coins, atol=1e-3)


def test_a_real_record_leaves_the_traces_alone():
    subject = trial(8, records=20)
    model = Watched(subject.network, 8)
    x, y, marks = subject._records(np.zeros(8, dtype=bool))
    subject._loss(model, (x, y, marks)).sum().backward()
    assert not model.trace.weight.grad.any()
    assert model.network[0].weight.grad.any()


def test_the_score_is_the_logarithm_of_the_likelihood_ratio():
    subject = trial(4, records=20)
    z, q = subject.plan.noise_multiplier, subject.plan.rate
    values = np.array([-2.0, 0.0, 0.5, 3.0])
    normal = lambda v, mean: np.exp(-0.5 * ((v - mean) / z) ** 2)  # noqa: E731
    expected = np.log(((1 - q) * normal(values, 0) + q * normal(values, 1)) / normal(values, 0))
    np.testing.assert_allclose(subject._ratio(values), expected, atol=1e-12)


def shown(subject, factor, seed):
    """Evidence about the subject's own claim from a run with `factor` times its noise; 1,600 canaries are guessed."""
    noisy = replace(subject.plan, noise_multiplier=factor * subject.plan.noise_multiplier)
    claim = stated(subject.plan, delta=DELTA)
    return replace(subject, plan=noisy).audit(claim, confidence=0.95, chance=Seeded(seed), share=0.2)


@pytest.mark.slow
def test_our_own_training_is_consistent_and_shown_to_leak_a_good_part_of_its_claim():
    """100 steps at rate 0.05, 18,010 parameters and 8,000 canaries.

    A hundred simulated observers were right 1,228 times on average, with a standard deviation of 18. Six of those below
    the mean still show epsilon 1.08, six above it show 2.4 of the claimed 4. Reshuffled coins that show more than 0.3
    are seven off.
    """
    subject = trial(8000)
    evidence = shown(subject, 1.0, 3)
    assert evidence.verdict is Verdict.CONSISTENT
    assert 1.0 < evidence.lower.bound.epsilon < 2.5
    found = {control.name: float(control.found.split()[-1]) for control in evidence.controls}
    assert found["null"] < 0.3
    assert found["planted leak"] > 4
    assert subject.parameters > 10_000


@pytest.mark.slow
def test_half_of_the_noise_is_refuted_and_more_of_it_leaks_less():
    """Half: 1,554 right on average, six standard deviations below show 4.7. Two and a half: 1.0 is seven above."""
    subject = trial(8000)
    assert shown(subject, 0.5, 4).verdict is Verdict.REFUTED
    assert shown(subject, 2.5, 4).lower.bound.epsilon < 1.0
