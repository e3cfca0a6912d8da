"""The contour of large losses: against stored references, against a plain convolution, and its parts one by one."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.core.events import Gaussian, Laplace, Poisson, Repeat
from tacit.loss import jumps, privacy_loss
from tacit.loss.jumps import MANY, WORK, _certain, _contour
from tacit.loss.noise import GaussianNoise, log1p
from tacit.loss.pairs import Location
from tacit.loss.quadrature import NotMet
from tacit.loss.steps import lower_step, upper_step
from tacit.loss.tilted import Sum

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "accounting.json").read_text(encoding="utf-8"))
RARE = {
    "one large loss among few": (1.2713, 0.0187, 6, 5.1e-14),
    "hundreds of steps, hardly any moves": (0.9188, 1.58e-4, 280, 3.35e-18),
    "two steps": (1.14, 0.0443, 2, 7.6e-8),
}


def removal(noise, rate):
    return Location(GaussianNoise(noise), ((1 - rate, 0.0), (rate, 1.0)))


def test_log1p_keeps_small_complex_numbers():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    x = 10 ** rng.uniform(-20, 3, 300) * np.exp(2j * np.pi * rng.uniform(size=300))
    x = np.append(x, [1e-18, 1e-19j, -1e-15 + 3e-8j])
    with mpmath.workdps(50):
        for found, at in zip(log1p(x), x, strict=True):
            right = mpmath.log(1 + mpmath.mpc(complex(at)))
            assert abs(mpmath.mpc(complex(found)) - right) <= 1e-15 * abs(right)


def drawn(noise, rate, steps, delta, epsilon, *, apart=False, work=0):
    total = Sum.of(((removal(noise, rate), steps),), 0.0, math.log(delta))
    certain, aim = _certain(total, epsilon) if apart else math.inf, math.log(1e-8 * delta)
    return _contour(total, math.log(delta), aim, epsilon, certain, work)


@pytest.mark.parametrize("work", [0, WORK], ids=["negligible", "counted"])
def test_stored_references_lie_inside(work):
    """The same delta another way: wherever this contour can be drawn, the reference is a root within its ends."""
    count = 0
    for case in GOLDEN if work else GOLDEN[::4]:
        if case["steps"] < (MANY if work else 2) or case["rate"] == 1 or case["epsilon"] == 0:
            continue
        try:
            line = drawn(*case.values(), work=work)
        except NotMet:
            continue
        low, high = line.delta(case["epsilon"])
        slack = 1e-11 * max(1.0, line.tilt * case["epsilon"]) * case["delta"]
        assert low <= case["delta"] + slack
        assert case["delta"] - slack <= high
        count += 1
    assert count >= (5 if work else 12)


@pytest.mark.parametrize("case", RARE.values(), ids=RARE)
def test_huge_losses_may_be_set_apart(case):
    epsilon = privacy_loss(Repeat(Poisson(case[1], Gaussian(case[0])), case[2]), "add-remove").epsilon(case[3]).upper
    plain, apart = (drawn(*case, epsilon, apart=choice) for choice in (False, True))
    assert apart.runs.p > 0
    (low, high), (other_low, other_high) = plain.delta(epsilon), apart.delta(epsilon)
    assert max(low, other_low) <= min(high, other_high)
    assert max(high - low, other_high - other_low) <= 1e-6 * high


@pytest.mark.parametrize("case", RARE.values(), ids=RARE)
def test_agrees_with_a_convolution_of_positive_numbers(case):
    """Upper and lower lattices composed by plain products: nothing cancels, so tiny deltas keep their digits."""
    noise, rate, steps, delta = case
    found = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), "add-remove").epsilon(delta)
    assert found.upper - found.lower <= 1e-6 * found.upper
    width = found.upper / 250
    low = _delta(lower_step, removal(noise, rate), steps, delta, width, found.upper)
    high = _delta(upper_step, removal(noise, rate), steps, delta, width, found.lower)
    assert low <= delta <= high
    assert high <= 3 * low


def _delta(make, pair, steps, delta, width, epsilon):
    step = make(pair, width, math.log(delta / steps) - 12)
    last = math.ceil((8 * epsilon - step.losses[0]) / width)
    far = step.infinite + float(step.mass[last:].sum())
    mass, power, count = step.mass[:last], np.ones(1), steps
    size = last + math.ceil(-steps * min(step.losses[0], 0.0) / width)
    while count:
        if count % 2:
            power = np.convolve(power, mass)[:size]
        mass, count = np.convolve(mass, mass)[:size], count // 2
    losses = steps * step.losses[0] + width * np.arange(power.size)
    counted = far if make is upper_step else 0.0
    return float(power @ -np.expm1(np.minimum(epsilon - losses, 0.0))) + steps * counted


BETWEEN = {
    "many small losses or a large one": (1.2873503557830230, 0.0011247349013469553, 4206, 3.591061363117788e-15),
    "with many more steps": (0.9578403413133607, 0.00039949360878368514, 77860, 1.3982591459367373e-14),
    "with less of delta": (1.6227408737900024, 0.00033339869815964256, 531, 2.6932648656640973e-17),
}


@pytest.mark.parametrize("case", BETWEEN.values(), ids=BETWEEN)
def test_runs_of_small_losses_may_have_their_own_contour(case):
    """Two ways to divide the losses give the same delta; without the runs of small ones it would be too small."""
    noise, rate, steps, delta = case
    found = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), "add-remove").epsilon(delta)
    assert found.upper - found.lower <= 1e-7 * found.upper
    line = drawn(*case, found.upper, work=WORK)
    low, high = line.delta(found.upper)
    assert high <= delta * (1 + 1e-6)
    assert low >= delta * (1 - 1e-6)
    assert replace(line, runs=replace(line.runs, small=None, log_c=-math.inf)).delta(found.upper)[1] < 0.99 * delta


def test_another_division_says_the_same(monkeypatch):
    case = BETWEEN["many small losses or a large one"]
    epsilon = 0.538
    first = drawn(*case, epsilon, work=WORK)
    monkeypatch.setattr(jumps, "SHARES", 0.8 * jumps.SHARES)
    second = drawn(*case, epsilon, work=WORK)
    sums = [line.runs.small.sums(epsilon)[0] for line in (first, second)]
    assert max(sums) > 1.1 * min(sums)
    (low, high), (other_low, other_high) = first.delta(epsilon), second.delta(epsilon)
    assert max(low, other_low) <= min(high, other_high)
    assert max(high - low, other_high - other_low) <= 1e-6 * high


def test_ends_hold_away_from_their_epsilon_too():
    """Runs of small losses count again where epsilon is small; without them the ends would miss the truth."""
    noise, rate, steps, delta = RARE["one large loss among few"]
    loss = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), "add-remove")
    epsilon = loss.epsilon(delta).upper
    line = drawn(noise, rate, steps, delta, epsilon, apart=False)
    missed = 0
    for share in (0.02, 0.1, 0.5, 0.9, 1.1):
        truth = loss.delta(share * epsilon)
        low, high = line.delta(share * epsilon)
        assert low <= truth.upper
        assert truth.lower <= high
        missed += truth.lower > replace(line, runs=None).delta(share * epsilon)[1]
    assert missed


def test_lower_ends_keep_outcomes_of_positive_probability():
    """Laplace noise: two atoms hold almost everything, and both ends must keep them where they are."""
    for noise, steps, delta in ((100.0, 10_000, 1e-5), (10.0, 1000, 1e-6), (1.0, 100, 1e-5)):
        found = privacy_loss(Repeat(Laplace(noise), steps), "add-remove").epsilon(delta)
        assert found.gap <= 1e-4


def test_billions_of_steps_are_answered():
    found = privacy_loss(Repeat(Poisson(1 / 60_000, Gaussian(270.6)), 3_600_000_000), "replace").epsilon(1e-5)
    assert found.gap <= 1e-4


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "adjacency", "group"),
    [
        (0.0021, 0.695, 63, 1.5e-16, "add-remove", 5),
        (0.0201, 0.691, 2, 1.2e-6, "zero-out", 5),
        (0.0005, 0.409, 9, 1.7e-4, "zero-out", 2),
        (0.00011, 1.71, 5, 1.1e-14, "replace", 1),
        (0.027, 1.03, 8, 3.4e-5, "replace", 1),
        (0.00014, 0.883, 2, 1.7e-9, "replace", 1),
    ],
)
def test_groups_and_replacement_are_met(rate, noise, steps, delta, adjacency, group):
    """Larger shifts and losses without a lower end; the lattice, which shares nothing with the contours, agrees."""
    loss = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), adjacency, group=group)
    found = loss.epsilon(delta)
    assert found.upper - found.lower <= 1e-6 * found.upper
    other = loss._directions[0].reader.lattice.epsilon(delta)
    assert other.lower <= found.upper
    assert found.lower <= other.upper
