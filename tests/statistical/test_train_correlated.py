"""Correlated noise: C y = Z with the right Z, less noise on sums at the same epsilon.

Fixed seeds; each test errs with probability below 1e-6.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tacit.core import BadInput, Unsupported
from tacit.core.events import BandedFactorisation, Gaussian
from tacit.loss import Plan, plan, privacy_loss
from tacit.loss.cyclic import coefficients, cyclic_event
from tacit.train import private
from tacit.train.noise.correlated import Correlated

SIZE, STEPS, BANDS = 4000, 6, 3
PLAN = Plan(20, 0.5, STEPS, 1.5, clip_norm=0.4, adjacency="zero-out", sampling="cyclic", bands=BANDS)


def matrix(bands: int, steps: int) -> np.ndarray:
    event = cyclic_event(1.0, bands, steps, steps)
    shares = (*event.coefficients, *[0.0] * (event.steps - len(event.coefficients)))
    return np.array(
        [[shares[row - column] if row >= column else 0.0 for column in range(steps)] for row in range(steps)]
    )


def released(mutant: object = None) -> np.ndarray:
    """(steps, size): what each step adds for a model that no example moves, at the sum's scale."""
    model = nn.Linear(SIZE // 2, 2, bias=False)
    nn.init.zeros_(model.weight)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), PLAN, rng=7)
    if mutant is not None:
        mutant(step)
    data = torch.zeros(20, SIZE // 2), torch.zeros(20, dtype=torch.long)
    found = []
    for batch in step.batches(data):
        before = model.weight.detach().clone()
        try:
            step(batch)
        except KeyboardInterrupt:
            step(batch)
        found.append((before - model.weight.detach()).double().numpy().ravel() * PLAN.expected_batch)
    return np.array(found)


def independent(values: np.ndarray, scale: float) -> bool:
    """Rows are N(0, scale^2 I) and do not know each other."""
    z = values / scale
    level = 1e-7
    n = z.size
    variance = stats.chi2.ppf(level, n) < np.square(z).sum() < stats.chi2.isf(level, n)
    cross = (z @ z.T)[~np.eye(len(z), dtype=bool)] / math.sqrt(z.shape[1])
    return bool(variance and np.abs(cross).max() < stats.norm.isf(level / len(cross)))


def test_the_encoder_makes_the_noise_white_again() -> None:
    noise = released()
    assert independent(matrix(BANDS, STEPS) @ noise, 1.5 * 0.4)
    assert not independent(noise, 1.5 * 0.4)
    np.testing.assert_allclose(matrix(BANDS, STEPS) @ noise, released(forget), rtol=0, atol=1e-4)  # the same draws


def forget(step: object) -> None:
    step._release.correlated = Correlated(1)


def turned(step: object) -> None:
    step._release.correlated.coefficients = tuple(-share for share in step._release.correlated.coefficients)


def short(step: object) -> None:
    step._release.correlated = Correlated(2)


def interrupted(step: object) -> None:
    """Every step breaks off once with its noise made, and is taken again."""
    whole, seen = step._next_norm, []

    def once(*args: object) -> float:
        seen.append(step.done)
        if seen.count(step.done) == 1:
            raise KeyboardInterrupt
        return whole(*args)

    step._next_norm = once


def test_a_step_taken_again_meets_the_same_past() -> None:
    assert np.array_equal(released(interrupted), released())


@pytest.mark.parametrize("mutant", [forget, turned, short])
def test_other_noise_is_caught(mutant: object) -> None:
    assert not independent(matrix(BANDS, STEPS) @ released(mutant), 1.5 * 0.4)


def test_the_whole_matrix_squares_to_prefix_sums() -> None:
    root = matrix(12, 12)
    np.testing.assert_allclose(root @ root, np.tril(np.ones((12, 12))), atol=1e-12)
    assert coefficients(4) == (1.0, 0.5, 0.375, 0.3125)


@pytest.mark.parametrize(("passes", "batches", "bands"), [(1, 8, 8), (3, 8, 4), (4, 5, 5)])
def test_the_claim_is_one_gaussian_of_the_stated_sensitivity(passes: int, batches: int, bands: int) -> None:
    made = replace(PLAN, public_size=800, rate=1 / batches, steps=passes * batches, noise_multiplier=3.0, bands=bands)
    assert isinstance(made.event, BandedFactorisation)
    moved = math.sqrt(passes * math.fsum(share**2 for share in coefficients(bands)))
    expected = privacy_loss(Gaussian(3.0 / moved), "zero-out").epsilon(1e-5).upper
    assert made.bound(1e-5).epsilon <= expected * (1 + 1e-6)
    if passes > 1:  # in the first and only pass, the last columns are cut off: a unit there moves less
        assert made.bound(1e-5).epsilon > 0.9 * expected


def test_sums_are_less_noisy_at_the_same_epsilon() -> None:
    """Mean squared error of all prefix sums, each plan calibrated to the same claim: from C^{-1} itself."""
    error = {}
    for bands in (1, 16):
        kind = {"adjacency": "zero-out", "sampling": "cyclic", "bands": bands}
        made = plan(3200, epsilon=2.0, delta=1e-5, epochs=4, batch_size=100, **kind)
        assert 1.99 < made.bound(1e-5).epsilon <= 2.0
        sums = np.tril(np.ones((made.steps, made.steps))) @ np.linalg.inv(matrix(bands, made.steps))
        error[bands] = made.noise_multiplier**2 * np.square(sums).sum(1).mean()
    assert error[16] < 0.5 * error[1]


def test_batches_come_round_in_one_order() -> None:
    model = nn.Linear(3, 2)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, rng=1)
    seen = []
    for batch in step.batches((torch.randn(20, 3), torch.zeros(20, dtype=torch.long))):
        seen.append(batch.index.tolist())
        step(batch)
    assert seen == seen[:2] * 3
    assert sorted(seen[0] + seen[1]) == list(range(20))


def test_a_restored_run_remembers_its_noise() -> None:
    data = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    found = []
    state = None
    for start in (0, 3):
        torch.manual_seed(start)
        model = nn.Linear(3, 2)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, rng=2)
        if start:
            step.load_state_dict(state)
        for batch in step.batches(data):
            step(batch)
            if step.done == 3 and not start:
                state = {**step.state_dict(), "model": {k: v.clone() for k, v in model.state_dict().items()}}
                assert len(state["noise"]) == BANDS - 1
        found.append(model.weight.detach().clone())
    assert torch.equal(*found)


def test_spent_grows_with_every_pass() -> None:
    spent = [PLAN.spent(step, 1e-5).epsilon for step in range(STEPS + 1)]
    assert spent == sorted(spent)
    assert spent[-1] == PLAN.bound(1e-5).epsilon


def test_what_does_not_combine_is_refused() -> None:
    with pytest.raises(BadInput, match="cyclic"):
        Plan(100, 0.1, 10, 1.0, bands=4)
    with pytest.raises(BadInput, match="clip norm that stays"):
        Plan(100, 0.1, 10, 1.0, adjacency="zero-out", sampling="cyclic", bands=4, clipping="adaptive")
    with pytest.raises(Unsupported, match="cyclic"):
        Plan(100, 0.1, 10, 1.0, sampling="cyclic", bands=4)
    with pytest.raises(BadInput, match="at most 2000 steps"):
        Plan(10_000, 0.1, 3000, 1.0, adjacency="zero-out", sampling="cyclic", bands=11)
