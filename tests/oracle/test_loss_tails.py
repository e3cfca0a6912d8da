"""Single releases where probabilities are hardly numbers, against 60 digits: both ends of epsilon hold."""

from __future__ import annotations

import math

import mpmath
import pytest

from tacit.core.events import (
    AboveThreshold,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Laplace,
    NoisyMax,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from tacit.loss import privacy_loss

Atoms = list[tuple[mpmath.mpf, mpmath.mpf]]
NUMBER = mpmath.mpf
pytestmark = pytest.mark.usefixtures("digits")


@pytest.fixture
def digits():
    with mpmath.workdps(60):
        yield


def response(epsilon: float, categories: int, rate: float = 1.0) -> Atoms:
    """P and Q of all answers, on a sample of this rate."""
    truth, q = mpmath.exp(NUMBER(epsilon)), NUMBER(rate)
    lie = 1 / (truth + categories - 1)
    atoms = [(truth * lie, lie), (lie, truth * lie), ((categories - 2) * lie,) * 2]
    return [((1 - q) * absent + q * present, absent) for present, absent in atoms]


def integers(scale: float, power: int, shift: int, rate: float = 1.0) -> Atoms:
    """P and Q of noise e^{-|k/s|^power/power} on the integers, moved by `shift` on a sample of this rate."""
    s, q, reach = NUMBER(scale), NUMBER(rate), math.ceil(48 * scale) + 3 * shift + 12
    mass = [mpmath.exp(-((k / s) ** power) / power) for k in range(2 * reach + 1)]
    whole = 2 * mpmath.fsum(mass) - mass[0]
    at = lambda k: mass[abs(k)] / whole  # noqa: E731
    return [((1 - q) * at(k) + q * at(k - shift), at(k)) for k in range(-reach, reach + shift + 1)]


def truth(atoms: Atoms, epsilon: float) -> mpmath.mpf:
    """delta(epsilon), the larger of both directions."""
    grown = mpmath.exp(NUMBER(epsilon))
    ways = (atoms, [(q, p) for p, q in atoms])
    return max(mpmath.fsum(p - grown * q for p, q in way if p > grown * q) for way in ways)


FAR = {
    "many answers": (RandomizedResponse(0.0544866826492157, 1000), 2e-229, response(0.0544866826492157, 1000)),
    "a million answers": (RandomizedResponse(0.15205634942775093, 10**6), 1e-24, response(0.15205634942775093, 10**6)),
    "hardly any epsilon": (RandomizedResponse(2.9869647597225396e-06, 3), 1e-36, response(2.9869647597225396e-06, 3)),
    "a sampled answer": (
        Poisson(0.024424905185662017, RandomizedResponse(6.45912928779411e-05, 1000)),
        1e-54,
        response(6.45912928779411e-05, 1000, 0.024424905185662017),
    ),
    "a jump": (DiscreteGaussian(0.1085627481489622), 1.6e-243, integers(0.1085627481489622, 2, 1)),
    "e^epsilon is no number": (DiscreteGaussian(0.0918718850244623), 6e-4, integers(0.0918718850244623, 2, 1)),
    "nearly all sampled": (
        Poisson(0.9999999974092781, DiscreteGaussian(0.05)),
        6e-4,
        integers(0.05, 2, 1, 0.9999999974092781),
    ),
    "Q is no number": (DiscreteGaussian(0.14625, 28), 2.4e-262, integers(0.14625 * 28, 2, 28)),
    "flat losses": (DiscreteLaplace(3.0), 1e-200, integers(3.0, 1, 1)),
}


@pytest.mark.parametrize("case", FAR)
def test_ends_at_the_rim_of_what_numbers_hold(case):
    """Once, 47 of 700 such ends were wrong: digits of a truth lost, a tail of Q read as 0, a jump on its other side."""
    event, delta, atoms = FAR[case]
    found = privacy_loss(event, "add-remove").epsilon(delta)
    assert truth(atoms, found.upper) <= delta
    assert found.lower == 0 or truth(atoms, found.lower) >= delta
    for epsilon in (0.0, found.lower / 2, found.lower, found.upper):
        there = privacy_loss(event, "add-remove").delta(epsilon)
        assert there.lower <= truth(atoms, epsilon) <= there.upper


def test_losses_of_many_answers_add_up_to_no_less():
    for epsilon, categories in ((1e-6, 3), (1.1554223797059364e-05, 1000), (0.3, 10**6)):
        found = privacy_loss(Repeat(RandomizedResponse(epsilon, categories), 7), "replace").epsilon(0.0)
        assert found.lower <= NUMBER(epsilon) * 7 <= found.upper
    third = privacy_loss(Laplace(3.0), "add-remove").epsilon(1e-300)
    assert third.upper >= NUMBER(1) / 3 - NUMBER(10) ** -290


def test_what_is_known_by_its_epsilon_alone_has_no_lower_end():
    r"""Once, a group of two under ApproximateDP(1) read [0.76, 0.76] at epsilon 0: no such release is above 0.64.

    From 1-DP to the group of two, false alarms a become at most g(g(a)), g(a) = min(e a, 1 - (1 - a)/e): the largest
    g(g(a)) - a is (e - 1)/e at a = 1/(e (1 + e)) (Dong, Roth and Su 2022, Theorem 2.14).
    """
    found = privacy_loss(ApproximateDP(1.0), "add-remove", group=2).delta(0.0)
    assert found.lower <= 1 - 1 / math.e <= found.upper
    single = privacy_loss(ApproximateDP(1.0), "add-remove").delta(0.0)
    assert single.lower > 0.4621
    named: list[Event] = [AboveThreshold(1.0), NoisyMax(1.0, "laplace"), NoisyMax(1.0, "exponential")]
    for event in (*named, PartitionSelection(1.0, 1e-3)):
        there = privacy_loss(event, "add-remove").delta(0.0)
        assert there.lower == 0.0 < single.lower <= there.upper


def test_an_outcome_beside_epsilon_may_be_beyond_it():
    """At the loss of an outcome rounding decides on which side of epsilon it is: the upper end has both."""
    for scale in (0.31, 0.37, 0.43, 0.59, 0.71):
        atoms = integers(scale, 2, 1)
        for loss in ((k - 0.5) / scale**2 for k in (1, 2, 3)):
            for epsilon in (math.nextafter(loss, 0.0), loss, loss * (1 + 1e-15)):
                found = privacy_loss(DiscreteGaussian(scale), "add-remove").delta(epsilon)
                assert found.lower <= truth(atoms, epsilon) <= found.upper
    for largest in (0.003162711054780501, 0.11, 0.7, 1.3, 2.9):
        atoms = response(largest, 3)
        for epsilon in (math.nextafter(largest, 0.0), largest * (1 - 1e-15)):
            found = privacy_loss(RandomizedResponse(largest, 3), "add-remove").delta(epsilon)
            assert found.lower <= truth(atoms, epsilon) <= found.upper
