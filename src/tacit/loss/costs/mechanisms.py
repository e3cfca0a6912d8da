"""What a single release costs: the pairs of noise on a number, of a choice, or of a stated guarantee."""

from __future__ import annotations

import math

from ...core.adjacency import Adjacency
from ...core.events import (
    ZCDP,
    AboveThreshold,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyMax,
    NonPrivate,
    NoOp,
    PartitionSelection,
    RandomizedResponse,
)
from ..bounded import Huge, RangePair
from ..composed import Composed, Release
from ..noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise, Noise
from ..pairs import Discrete, Location
from ..renyi import Renyi
from .registry import loss_of, once, written

HUGE = 600.0
"""From this epsilon on a pure release is known by its epsilon alone: e^epsilon is near the end of what numbers hold."""


@loss_of.register
def _(event: NoOp, adjacency: Adjacency, group: int) -> Composed:
    return Composed()


@loss_of.register
def _(event: NonPrivate, adjacency: Adjacency, group: int) -> Composed:
    return once(Release.symmetric(Discrete(((1.0, 0.0), (0.0, 1.0)))))


@loss_of.register
def _(event: Gaussian, adjacency: Adjacency, group: int) -> Composed:
    """N(c, z^2) against N(0, z^2), c = group x sensitivity. Reference: Balle and Wang 2018."""
    return once(_shift(GaussianNoise(event.noise_multiplier), group * adjacency.sensitivity))


@loss_of.register
def _(event: Laplace, adjacency: Adjacency, group: int) -> Composed:
    """Lap(c, z) against Lap(0, z); in any dimension the whole shift on one axis is worst.

    Reference: docs/proofs/accounting.md, Lemma 3.
    """
    return once(_shift(LaplaceNoise(event.noise_multiplier), group * adjacency.sensitivity))


@loss_of.register
def _(event: RandomizedResponse, adjacency: Adjacency, group: int) -> Composed:
    """Truth, the neighbour's truth, and the k - 2 answers that say nothing; one slot per record."""
    if event.epsilon > HUGE:
        return group * once(Release.symmetric(Huge(event.epsilon)))
    others = event.categories - 1
    lie = 1 / (math.exp(event.epsilon) + others)
    truth = 1 / (1 + others * math.exp(-event.epsilon))  # 1 - others * lie would lose the digits of a lie
    atoms = ((truth, lie), (lie, truth)) + (((others - 1) * lie,) * 2,) * (others > 1)
    return group * once(Release.symmetric(Discrete(atoms, (-event.epsilon, event.epsilon) if event.epsilon else None)))


@loss_of.register
def _(event: DiscreteGaussian, adjacency: Adjacency, group: int) -> Composed:
    """The shift by the whole sensitivity is worst, as for any log-concave noise.

    Reference: docs/proofs/accounting.md, Lemma 3.
    """
    noise = DiscreteGaussianNoise(event.noise_multiplier * event.sensitivity)
    return once(_shift(noise, group * adjacency.sensitivity * event.sensitivity))


@loss_of.register
def _(event: DiscreteLaplace, adjacency: Adjacency, group: int) -> Composed:
    """In any dimension the whole shift on one axis is worst. Reference: docs/proofs/accounting.md, Lemma 3."""
    noise = DiscreteLaplaceNoise(event.noise_multiplier * event.sensitivity)
    return once(_shift(noise, group * adjacency.sensitivity * event.sensitivity))


@loss_of.register
def _(event: BoundedRange, adjacency: Adjacency, group: int) -> Composed:
    """Ranges add over a group, as the triangle inequality for log ratios."""
    if group * event.epsilon > HUGE:
        return once(Release.symmetric(Huge(group * event.epsilon), tight=False))
    return once(Release.symmetric(RangePair(group * event.epsilon), tight=False)) if event.epsilon else Composed()


@loss_of.register
def _(event: NoisyMax, adjacency: Adjacency, group: int) -> Composed:
    """Gumbel noise is the exponential mechanism; the others are only pure.

    Reference: Dong, Durfee and Rogers 2020; McKenna and Sheldon 2020, Permute-and-flip.
    """
    if event.noise == "gumbel":
        return loss_of(BoundedRange(event.epsilon), adjacency, group)
    return _stated(event.epsilon, 0.0, group, tight=False)


@loss_of.register
def _(event: AboveThreshold, adjacency: Adjacency, group: int) -> Composed:
    """Reference: Dwork and Roth 2014, section 3.6 (sparse vector)."""
    return _stated(event.epsilon, 0.0, group, tight=False)


@loss_of.register
def _(event: PartitionSelection, adjacency: Adjacency, group: int) -> Composed:
    return _stated(event.epsilon, event.delta, group, tight=False)


@loss_of.register
def _(event: ApproximateDP, adjacency: Adjacency, group: int) -> Composed:
    """The worst release that is (epsilon, delta)-DP; for a group of several nobody knows whether it is reached."""
    return _stated(event.epsilon, event.delta, group, tight=group == 1)


@loss_of.register
def _(event: ZCDP, adjacency: Adjacency, group: int) -> Composed:
    """rho a; a group of k has k^2 rho. Reference: Bun and Steinke 2016, Concentrated differential privacy."""
    rho = group**2 * event.rho
    return Composed(curves=((Renyi("zCDP", (rho,), lambda tilts: rho * (1 + tilts)), 1),)) if rho else Composed()


def _stated(epsilon: float, delta: float, group: int, *, tight: bool) -> Composed:
    """With delta tell all, else randomized response. Reference: Kairouz, Oh and Viswanath 2015, Theorem 3.3.

    A group of k is (k epsilon, delta (e^{k epsilon} - 1)/(e^epsilon - 1))-DP: the triangle inequality, summed. Of all
    that is (epsilon, delta)-DP this pair is the worst, so it is `tight` for one record of whatever is known by that
    alone. A mechanism of which more is known, and a group, stay below it.
    """
    told = (written(delta),) * 2 if group == 1 else None
    if group > 1 and delta > 0:
        log_growth = log_expm1(group * epsilon) - log_expm1(epsilon) if epsilon else math.log(group)
        delta = min(math.exp(min(math.log(delta) + log_growth, 0.0)) * (1 + 1e-14), 1.0)
    epsilon = group * epsilon
    if epsilon == 0 and delta == 0:
        return Composed()
    if delta >= 1:
        return once(Release.symmetric(Discrete(((1.0, 0.0), (0.0, 1.0))), tight=tight))
    if epsilon > HUGE:
        return once(Release.symmetric(Huge(epsilon, delta), tight=tight))
    more = (1 - delta) / (1 + math.exp(-epsilon))
    less = (1 - delta) / (1 + math.exp(epsilon))
    atoms = ((more, less), (less, more)) + (((delta, 0.0), (0.0, delta)) if delta else ())
    return once(Release.symmetric(Discrete(atoms, (-epsilon, epsilon) if epsilon else None, told), tight=tight))


def log_expm1(x: float) -> float:
    """log(e^x - 1) for x > 0, however large."""
    return x + math.log(-math.expm1(-x))


def _shift(noise: Noise, distance: float) -> Release:
    return Release.symmetric(Location(noise, ((1.0, distance),)))
