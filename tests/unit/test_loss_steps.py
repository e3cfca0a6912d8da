"""One step on a lattice lies above the true profile from above, and below it from below, and both are close."""

import numpy as np
import pytest

from tacit.loss import window
from tacit.loss.bounded import Halves, RangePair
from tacit.loss.noise import DiscreteGaussianNoise, GaussianNoise, LaplaceNoise
from tacit.loss.pairs import Discrete, Location
from tacit.loss.steps import Step, lower_step, upper_step


def sampled(noise_multiplier: float, rate: float) -> Location:
    return Location(GaussianNoise(noise_multiplier), ((1 - rate, 0.0), (rate, 1.0)))


PAIRS = {
    "gaussian": Location(GaussianNoise(1.0), ((1.0, 1.0),)),
    "remove": sampled(1.1, 0.05),
    "add": sampled(1.1, 0.05).mirrored(),
    "rare": sampled(0.8, 3e-4),
    "replace": Location(GaussianNoise(1.0), ((0.9, 0.0), (0.1, 1.0)), ((0.9, 0.0), (0.1, -1.0))),
    "laplace": Location(LaplaceNoise(1.0), ((1.0, 1.0),)),
    "sampled laplace": Location(LaplaceNoise(0.5), ((0.8, 0.0), (0.2, 1.0))),
    "range": RangePair(1.5),
    "three outcomes": Discrete(((0.5, 0.2), (0.3, 0.3), (0.2, 0.5))),
    "fixed size": Halves(sampled(0.55, 0.05)),
}


def profile(pair, epsilon):
    p, q = pair.masses(np.array([epsilon]))
    return pair.infinite + p[1] - np.exp(epsilon) * q[1]


def on_lattice(step, epsilon):
    return step.infinite + step.mass @ np.maximum(0.0, 1 - np.exp(epsilon - step.losses))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("width", [0.05, 0.01, 0.002])
def test_lattices_enclose_the_profile(name, width):
    pair = PAIRS[name]
    low, high = lower_step(pair, width, -50.0), upper_step(pair, width, -50.0)
    assert low.mass.min() >= 0
    assert high.mass.min() >= 0
    for epsilon in np.concatenate([np.linspace(-1.0, 3.0, 41), [-1e-3, 1e-4, 2.5 * width]]):
        exact = profile(pair, float(epsilon))
        assert on_lattice(low, epsilon) <= exact * (1 + 1e-9) + 1e-14
        assert on_lattice(high, epsilon) >= exact * (1 - 1e-9) - 1e-14


@pytest.mark.parametrize("name", ["gaussian", "remove", "replace"])
def test_both_lattices_are_second_order(name):
    pair = PAIRS[name]
    gaps = []
    for width in (0.02, 0.01):
        ends = [on_lattice(make(pair, width, -50.0), 0.3) for make in (lower_step, upper_step)]
        gaps.append(ends[1] - ends[0])
    assert gaps[1] < gaps[0] / 3.2


def test_the_enclosure_can_fail():
    """A lattice of a slightly noisier pair is not an upper bound."""
    noisier = Location(GaussianNoise(1.01), ((1.0, 1.0),))
    assert on_lattice(upper_step(noisier, 0.002, -50.0), 0.3) < profile(PAIRS["gaussian"], 0.3)


@pytest.mark.parametrize("rate", [1.0, 1 - 1e-9])
@pytest.mark.parametrize("noise", [GaussianNoise(0.1), GaussianNoise(0.08), DiscreteGaussianNoise(0.15)])
def test_losses_above_37_keep_their_size_in_both_directions(noise, rate):
    """Outcomes of P beyond a loss have at least e^loss times their Q mass; the mirrored pair had them all at 37."""
    still = ((1 - rate, 0.0),) if rate < 1 else ()
    for pair in (Location(noise, (*still, (rate, 1.0))), Location(noise, (*still, (rate, 1.0))).mirrored()):
        for loss in (15.0, 18.0, 30.0, 45.0, 200.0):
            p, q = pair.masses(np.array([-loss, loss]))
            assert p[2] >= q[2] * np.exp(loss) * (1 - 1e-6)
            assert p[0] <= q[0] * np.exp(-loss) * (1 + 1e-6)
            step = upper_step(pair, 0.5, -700.0)
            assert on_lattice(step, loss) >= (p[2] - q[2] * np.exp(loss)) * (1 - 1e-9)
    plain = Location(noise, ((1.0, 1.0),))
    if rate == 1:
        for loss in (40.0, 100.0):
            there, back = (pair.masses(np.array([loss]))[0][1] for pair in (plain, plain.mirrored()))
            assert back == pytest.approx(there, rel=1e-9)


def test_a_thinned_step_has_no_smaller_moments():
    """The fast path for windows: blocks of points have moments that are at least those of the points, and close."""
    rng = np.random.default_rng(3)
    step = Step(0.3, 1e-3, -5000, rng.exponential(size=20_001) ** 4 / 1e6, 0.0)
    coarse = window.thinned(step)
    tilts = np.array([-20.0, -3.0, -0.1, 0.0, 0.1, 3.0, 20.0])
    fine, rough = step.log_moments(tilts), coarse.log_moments(tilts)
    assert coarse.mass.size <= window.BLOCKS + 1
    assert np.all(rough >= fine - 1e-12)
    assert np.all(rough <= fine + 1e-2)
    assert window.thinned(coarse) is coarse
