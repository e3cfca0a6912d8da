"""Every step of two runs as a game: near the truth with two runs, and no further."""

import numpy as np
import pytest

from tacit.audits import Choice, Played, demonstrate_updates, stated, verify
from tacit.core import BadInput, Evidence, Mismatch, Scores, Verdict
from tacit.core.events import Gaussian, Poisson, Repeat

STEPS = 4000
PLAYED = Played("updates", "gradient", 2)


def steps(noise, rate=1.0, seed=0, length=STEPS):
    """<noisy update, canary> of every step, in runs with the canary (sampled at `rate`) and runs without."""
    rng = np.random.default_rng(seed)
    inside = (rng.random(STEPS) < rate) + noise * rng.normal(size=STEPS)
    outside = noise * rng.normal(size=STEPS)
    return Scores(
        np.concatenate((inside, outside)),
        np.arange(2 * STEPS) < STEPS,
        attack="canary",
        randomised=True,
        record=np.arange(2 * STEPS) % length,
        target=np.arange(2 * STEPS) // length,
    )


def test_two_runs_come_near_the_truth():
    event = Repeat(Gaussian(3.0), STEPS)
    claim = stated(event, delta=1e-5)
    (shown,) = demonstrate_updates(steps(3.0), claim=claim, confidence=0.95, rng=0, played=PLAYED)
    assert 0.8 * claim.bound.epsilon < shown.bound.epsilon <= claim.bound.epsilon
    assert shown.bound.assumes == "Repeat(Gaussian, steps=4000)"
    assert "given the steps before" in " ".join(shown.bound.assumptions)
    assert "scored alike in every run" in shown.bound.assumptions[-1]
    assert verify(Evidence("m", claim, (shown,))).ok


def test_a_coin_per_step_asks_for_less_belief():
    scores, coins = steps(3.0, length=200), np.random.default_rng(5).random(2 * STEPS) < 0.5
    scores = Scores(
        scores.score, coins, attack="canary", randomised=True, record=scores.record, target=scores.target
    )  # fmt: skip
    claim = stated(Repeat(Gaussian(3.0), 200), delta=1e-5)
    (shown,) = demonstrate_updates(scores, claim=claim, confidence=0.95, rng=0, played=PLAYED)
    assert not any("alike" in text for text in shown.bound.assumptions)


def test_a_run_longer_than_its_claim_is_not_what_was_claimed():
    claim = stated(Repeat(Gaussian(3.0), 200), delta=1e-5)
    with pytest.raises(Mismatch, match="A run has 201 steps and the claim counts 200"):
        demonstrate_updates(steps(3.0, length=201), claim=claim, confidence=0.95, rng=0, played=PLAYED)


def test_too_little_noise_is_refuted_and_the_right_amount_is_not():
    event = Repeat(Poisson(0.5, Gaussian(1.5)), 200)
    claim = stated(event, delta=1e-5)
    for noise, verdict in ((1.0, Verdict.REFUTED), (1.5, Verdict.CONSISTENT)):
        shown = demonstrate_updates(steps(noise, 0.5, length=200), claim=claim, confidence=0.95, rng=0, played=PLAYED)
        assert Evidence("m", claim, shown).verdict is verdict


def test_a_fixed_threshold_uses_every_step():
    claim = stated(Repeat(Gaussian(3.0), STEPS), delta=1e-5)
    (shown,) = demonstrate_updates(
        steps(3.0), claim=claim, confidence=0.95, rng=0, played=PLAYED, choice=Choice("canary", 0.5)
    )
    assert shown.counts.n_in == STEPS


@pytest.mark.parametrize("claim", [(1.0, 1e-5), Gaussian(1.0)])
def test_only_repeated_events_have_steps(claim):
    with pytest.raises(BadInput, match="Repeat"):
        demonstrate_updates(steps(1.0), claim=stated(claim, delta=1e-5), confidence=0.95, rng=0, played=PLAYED)
