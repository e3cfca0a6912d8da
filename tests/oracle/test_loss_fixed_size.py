"""Fixed-size sampling under replace, composed by somebody else: dp-accounting's lattice, fed with our one-step profile.

The peer has no accounting of its own for it but Renyi, where replace-one forgets a factor 2 (docs/pitfalls.md).
"""

import math

import numpy as np
import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # noqa: E402
from scipy.special import ndtr  # noqa: E402

from tacit.core.events import FixedSize, Gaussian, Repeat  # noqa: E402
from tacit.loss import privacy_loss  # noqa: E402


def profile(epsilon, noise, rate):
    """H of (1 - q) N(0, z^2) + q N(2, z^2) against N(0, z^2) at e^epsilon >= 1, by its threshold."""
    x = noise**2 / 2 * np.log1p(np.expm1(epsilon) / rate) + 1
    power = (1 - rate) * ndtr(-x / noise) + rate * ndtr((2 - x) / noise)
    return power - np.exp(epsilon) * ndtr(-x / noise)


def composed_by_peer(noise, rate, steps, delta, grid, reach):
    """Profiles at both signs of epsilon, connected by chords: an upper bound, in the peer's code."""
    rungs = np.arange(-int(reach / grid), int(reach / grid) + 1)
    size = grid * np.abs(rungs)
    above = profile(size, noise, rate)
    deltas = np.where(rungs >= 0, above, 1 - np.exp(-size) * (1 - above))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(grid, rungs, deltas)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(steps).get_epsilon_for_delta(delta)


CASES = [
    ((1.5, 10, 1000, 200, 1e-5), 1e-3, 20.0),
    pytest.param((1.1, 256, 60_000, 14_062, 1e-5), 2e-4, 30.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("setting", "grid", "reach"), CASES)
def test_upper_and_lower_end(setting, grid, reach):
    noise, batch, size, steps, delta = setting
    ours = privacy_loss(Repeat(FixedSize(batch, size, Gaussian(noise)), steps), "replace").epsilon(delta)
    theirs = composed_by_peer(noise, batch / size, steps, delta, grid, reach)
    assert ours.upper == pytest.approx(theirs, rel=5e-3)
    event = dp_accounting.PoissonSampledDpEvent(batch / size, dp_accounting.GaussianDpEvent(noise / 2))
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=grid)
    attained = accountant.compose(event, steps).get_epsilon(delta)
    assert ours.lower == pytest.approx(attained, rel=5e-3)
    assert ours.lower < ours.upper


def test_one_step_is_exact():
    ours = privacy_loss(FixedSize(10, 100, Gaussian(1.0)), "replace")
    for epsilon in (0.1, 1.0, 2.0):
        assert ours.delta(epsilon).upper == pytest.approx(float(profile(epsilon, 1.0, 0.1)), rel=2e-3)
        assert ours.delta(epsilon).lower == pytest.approx(float(profile(epsilon, 1.0, 0.1)), rel=2e-3)


def test_the_lower_end_by_simulation():
    """All others give -1 and the record 1: 50 steps, Hoeffding at 1e-8."""
    rng, runs, steps, noise, rate = np.random.default_rng(3), 200_000, 50, 2.0, 0.1
    total = np.zeros(runs)
    for _ in range(steps):
        x = rng.normal(size=runs) * noise + 2.0 * (rng.random(runs) < rate)
        total += np.log1p(rate * np.expm1((4 * x - 4) / (2 * noise**2)))
    margin = math.sqrt(math.log(2 / 1e-8) / (2 * runs))
    seen = float(np.mean(-np.expm1(np.minimum(1.0 - total, 0.0))))
    found = privacy_loss(Repeat(FixedSize(10, 100, Gaussian(noise)), steps), "replace").delta(1.0)
    assert found.lower - margin <= seen <= found.upper + margin
    assert (
        seen
        > privacy_loss(Repeat(FixedSize(10, 100, Gaussian(1.2 * noise)), steps), "replace").delta(1.0).lower + margin
    )
