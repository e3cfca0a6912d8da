r"""What each event costs: one short function per event, open to new ones by `@loss_of.register`.

A function here returns the dominating pairs its theorem gives for the event under the adjacency and raises
`Unsupported` where there is no theorem. Counts are the business of `Repeat` and `Compose` alone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput, Unsupported
from ..core.events import (
    ZCDP,
    AboveThreshold,
    Allocation,
    ApproximateDP,
    BandedFactorisation,
    BoundedRange,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    MatrixFactorisation,
    NoisyMax,
    NonPrivate,
    NoOp,
    ObjectivePerturbation,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
)
from ..core.privacy_loss import PrivacyLoss
from .allocation import allocated
from .composed import Composed, Release
from .factorised import sensitivity
from .iterate import last_iterate
from .noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise, Noise
from .objective import Folded
from .pairs import Bracketed, Discrete, Halves, Location, Pair, Parts, RangePair
from .renyi import Renyi
from .selection import selected
from .truncated import Weighted, cut, truncated

LARGEST_GROUP = 200
"""A sampled group of k is a mixture of k + 1 noises; beyond, reading it takes minutes."""


def privacy_loss(event: Event, adjacency: Adjacency | str, *, group: int = 1) -> PrivacyLoss:
    """What `event` costs when data sets differ in `group` records under `adjacency`.

    Guarantee: every reading of the result is an interval that holds the true value.
    """
    group = check.whole("group", group)
    try:
        return loss_of(event, Adjacency.of(adjacency), group)
    except (OverflowError, ZeroDivisionError):
        raise BadInput("This event has numbers too large or too small to compute with.") from None


@singledispatch
def loss_of(event: Event, adjacency: Adjacency, group: int) -> Composed:
    """The open registry behind `privacy_loss`."""
    raise Unsupported(event, adjacency)


def once(release: Release) -> Composed:
    return Composed(((release, 1),))


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
    """Lap(c, z) against Lap(0, z); in any dimension the whole shift on one axis is worst (docs/proofs, Lemma 3)."""
    return once(_shift(LaplaceNoise(event.noise_multiplier), group * adjacency.sensitivity))


@loss_of.register
def _(event: RandomizedResponse, adjacency: Adjacency, group: int) -> Composed:
    """Truth, the neighbour's truth, and the k - 2 answers that say nothing; one slot per record."""
    others = event.categories - 1
    lie = 1 / (math.exp(event.epsilon) + others)
    truth = 1 - others * lie if event.epsilon < 30 else 1 / (1 + others * math.exp(-event.epsilon))
    atoms = ((truth, lie), (lie, truth)) + (((others - 1) * lie,) * 2,) * (others > 1)
    return group * once(Release.symmetric(Discrete(atoms, (-event.epsilon, event.epsilon) if event.epsilon else None)))


@loss_of.register
def _(event: DiscreteGaussian, adjacency: Adjacency, group: int) -> Composed:
    """The shift by the whole sensitivity is worst, as for any log-concave noise. Reference: docs/proofs, Lemma 3."""
    noise = DiscreteGaussianNoise(event.noise_multiplier * event.sensitivity)
    return once(_shift(noise, group * adjacency.sensitivity * event.sensitivity))


@loss_of.register
def _(event: DiscreteLaplace, adjacency: Adjacency, group: int) -> Composed:
    """In any dimension the whole shift on one axis is worst. Reference: docs/proofs, Lemma 3."""
    noise = DiscreteLaplaceNoise(event.noise_multiplier * event.sensitivity)
    return once(_shift(noise, group * adjacency.sensitivity * event.sensitivity))


@loss_of.register
def _(event: BoundedRange, adjacency: Adjacency, group: int) -> Composed:
    """Ranges add over a group, as the triangle inequality for log ratios."""
    return once(Release.symmetric(RangePair(group * event.epsilon), tight=False)) if event.epsilon else Composed()


@loss_of.register
def _(event: NoisyMax, adjacency: Adjacency, group: int) -> Composed:
    """Gumbel noise is the exponential mechanism; the others are only pure.

    Reference: Dong, Durfee and Rogers 2020; McKenna and Sheldon 2020, Permute-and-flip.
    """
    if event.noise == "gumbel":
        return loss_of(BoundedRange(event.epsilon), adjacency, group)
    return loss_of(ApproximateDP(event.epsilon), adjacency, group)


@loss_of.register
def _(event: AboveThreshold, adjacency: Adjacency, group: int) -> Composed:
    """Reference: Dwork and Roth 2014, section 3.6 (sparse vector)."""
    return loss_of(ApproximateDP(event.epsilon), adjacency, group)


@loss_of.register
def _(event: PartitionSelection, adjacency: Adjacency, group: int) -> Composed:
    return loss_of(ApproximateDP(event.epsilon, event.delta), adjacency, group)


@loss_of.register
def _(event: ApproximateDP, adjacency: Adjacency, group: int) -> Composed:
    """With delta tell all, else randomized response. Reference: Kairouz, Oh and Viswanath 2015, Theorem 3.3.

    A group of k is (k epsilon, delta (e^{k epsilon} - 1)/(e^epsilon - 1))-DP: the triangle inequality, summed.
    """
    epsilon, delta = group * event.epsilon, event.delta
    if group > 1 and delta > 0:
        growth = math.expm1(epsilon) / math.expm1(event.epsilon) if event.epsilon else float(group)
        delta = min(delta * growth, 1.0)
    if epsilon == 0 and delta == 0:
        return Composed()
    if delta >= 1 or epsilon > 600:
        return loss_of(NonPrivate(), adjacency, group)
    more = (1 - delta) / (1 + math.exp(-epsilon))
    less = (1 - delta) / (1 + math.exp(epsilon))
    atoms = ((more, less), (less, more)) + (((delta, 0.0), (0.0, delta)) if delta else ())
    told = (_written(event.delta),) * 2 if group == 1 else None
    return once(Release.symmetric(Discrete(atoms, (-epsilon, epsilon) if epsilon else None, told)))


@loss_of.register
def _(event: Repeat, adjacency: Adjacency, group: int) -> Composed:
    return event.steps * loss_of(event.event, adjacency, group)


@loss_of.register
def _(event: Compose, adjacency: Adjacency, group: int) -> Composed:
    total = Composed()
    for part in event.events:
        total = total + loss_of(part, adjacency, group)
    return total


@loss_of.register
def _(event: Poisson, adjacency: Adjacency, group: int) -> Composed:
    r"""A sample holds j of the group's records with probability Bin(group, rate)(j); they move the sum by at most j.

    Remove: sum_j w_j g(x - j) against g(x); add: the mirror image; replace: against sum_j w_j g(x + j).
    Reference: docs/proofs/accounting.md, Lemma 1 (Zhu, Dong and Wang 2022 for one record).
    """
    if event.rate == 0:
        return Composed()
    if event.rate == 1:
        return loss_of(event.event, adjacency, group)
    inner = loss_of(event.event, Adjacency.ADD_REMOVE, 1)
    base = _plain(inner)
    if base is None:
        return _sampled_atoms(event, inner, adjacency, group)
    noise, shift = base
    if group > LARGEST_GROUP:
        raise Unsupported(event, adjacency, fix=f"Sampled groups have at most {LARGEST_GROUP} records here.")
    weights = [math.comb(group, j) * event.rate**j * (1 - event.rate) ** (group - j) for j in range(group + 1)]
    moved: Parts = tuple((weight, shift * j) for j, weight in enumerate(weights) if weight > 0)
    if adjacency is Adjacency.REPLACE:
        return once(Release.symmetric(Location(noise, moved, tuple((weight, -place) for weight, place in moved))))
    return once(Release.mirrored(Location(noise, moved)))


@loss_of.register
def _(event: TruncatedPoisson, adjacency: Adjacency, group: int) -> Composed:
    """Reference: docs/proofs/mechanisms.md, Theorem 1."""
    size = event.size
    if size is None:
        raise Unsupported(event, adjacency, fix="The chance of a cut depends on the public number of records: size.")
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    if event.cap >= size or event.rate == 0:
        return loss_of(Poisson(event.rate, event.event), adjacency, 1)
    inner = loss_of(event.event, Adjacency.ADD_REMOVE, 1)
    base = _plain(inner)
    if base is not None:
        return once(truncated(event, size, *base, adjacency))
    if adjacency is Adjacency.REPLACE:
        raise Unsupported(event, adjacency, fix="Here only additive noise is supported for replace.")
    if adjacency is Adjacency.ZERO_OUT and inner.releases:
        raise Unsupported(event, adjacency, fix="Here only additive noise is supported for zero-out.")
    if not inner.releases and not inner.curves:
        return Composed()
    rho, exchanged = cut(event, size), loss_of(event.event, Adjacency.REPLACE, 1)
    parts = ((1 - rho, inner), (rho, exchanged))
    pair = Weighted(tuple((weight, _sampled(event, part, adjacency, event.rate)) for weight, part in parts))
    return once(replace(Release.mirrored(pair), tight=False))


@loss_of.register
def _(event: FixedSize, adjacency: Adjacency, group: int) -> Composed:
    r"""Replace one: H_K <= H_K((1 - q) Q + q P, Q) for K >= 1, q = batch/size, where (P, Q) is the pair of `event`.

    The whole profile (K < 1 by symmetry) is what composes; the pair for K >= 1 alone does not (Lebeda et al. 2024).
    Attained, and so a lower bound: all others contribute -1 and the record 1, or the other way round.
    Reference: docs/proofs/accounting.md; Zhu, Dong and Wang 2022.
    """
    if adjacency is not Adjacency.REPLACE:
        raise Unsupported(
            event, adjacency, fix="A fixed batch size is not defined when a record is added: use replace."
        )
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    if event.batch == event.size:
        return loss_of(event.event, adjacency, group)
    inner = loss_of(event.event, adjacency, 1)
    sampled = _sampled(event, inner, adjacency, event.batch / event.size)
    tight = isinstance(sampled, Location) and all(item.tight for item, _ in inner.releases)
    above = Halves(sampled)
    return once(Release(Bracketed(above, sampled), Bracketed(above, sampled.mirrored()), tight))


@loss_of.register
def _(event: Shuffled, adjacency: Adjacency, group: int) -> Composed:
    """Given the shuffle, a replaced record changes one batch: one release of `event`, without amplification.

    Reference: joint convexity over the shuffle; Chua et al. 2024 show that amplification as if Poisson is false.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        raise Unsupported(
            event, adjacency, fix="Another record shifts all batches of a shuffle: use replace or zero-out."
        )
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    inner = loss_of(event.event, adjacency, 1)
    return replace(inner, releases=tuple((replace(item, tight=False), count) for item, count in inner.releases))


@loss_of.register
def _(event: Allocation, adjacency: Adjacency, group: int) -> Composed:
    """Once in t steps: balls and bins. k times: k passes of once in floor(t/k).

    Reference: Chua et al. 2025; Feldman and Shenfeld 2025, on k-out-of-t allocation.
    """
    base = _plain(loss_of(event.event, Adjacency.ADD_REMOVE, 1))
    if adjacency is Adjacency.REPLACE or group > 1 or base is None or type(base[0]) is not GaussianNoise:
        raise Unsupported(
            event, adjacency, fix="Random allocation is supported for one Gaussian, add-remove or zero-out."
        )
    noise, shift = base
    steps = event.steps // event.times
    if steps == 1:
        return event.times * loss_of(event.event, adjacency, 1)
    release = replace(allocated(noise.scale / shift, steps), tight=event.times == 1)
    return event.times * once(release)


@loss_of.register
def _(event: ZCDP, adjacency: Adjacency, group: int) -> Composed:
    """rho a; a group of k has k^2 rho. Reference: Bun and Steinke 2016, Concentrated differential privacy."""
    rho = group**2 * event.rho
    return Composed(curves=((Renyi("zCDP", (rho,), lambda tilts: rho * (1 + tilts)), 1),)) if rho else Composed()


@loss_of.register
def _(event: RepeatAndSelect, adjacency: Adjacency, group: int) -> Composed:
    """Renyi bounds for the best of K runs. Reference: Papernot and Steinke 2022, Theorems 2 and 6."""
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    inner = loss_of(event.event, adjacency, 1)
    return Composed(curves=((selected(event, inner, adjacency), 1),))


@loss_of.register
def _(event: MatrixFactorisation | BandedFactorisation, adjacency: Adjacency, group: int) -> Composed:
    """One Gaussian whose shift is how far a record can move C G. Reference: docs/proofs/mechanisms.md, Theorem 2."""
    attained, bound = (group * adjacency.sensitivity * value for value in sensitivity(event))
    if bound == 0:
        return Composed()
    above, below = (Location(GaussianNoise(event.noise_multiplier), ((1.0, value),)) for value in (bound, attained))
    exact = attained >= bound * (1 - 1e-9)
    return once(Release.symmetric(above) if exact else Release.symmetric(Bracketed(above, below)))


@loss_of.register
def _(event: ObjectivePerturbation, adjacency: Adjacency, group: int) -> Composed:
    """With the record the determinant is larger, so only that direction pays for it; replacing pays in both.

    Reference: docs/proofs/mechanisms.md, Theorem 3.
    """
    if group > 1:
        raise Unsupported(event, adjacency, fix="Objective perturbation is supported for one record.")
    growth = event.smoothness / event.regularization
    if adjacency is Adjacency.REPLACE:
        return once(Release.symmetric(Folded(event.noise_multiplier, 2.0, growth, 2), tight=False))
    remove, add = (Folded(event.noise_multiplier, 1.0, kappa, 1) for kappa in (growth, 0.0))
    return once(Release(remove, add, tight=False))


@loss_of.register
def _(event: LastIterate, adjacency: Adjacency, group: int) -> Composed:
    """Reference: docs/proofs/dynamics.md, Theorems 1 and 2."""
    return last_iterate(event, adjacency, group)


def _shift(noise: Noise, distance: float) -> Release:
    return Release.symmetric(Location(noise, ((1.0, distance),)))


def _plain(loss: Composed) -> tuple[Noise, float] | None:
    """The noise and shift of one additive release; several Gaussians on one sample are one of the joint multiplier."""
    pairs = [(release.remove, count) for release, count in loss.releases]
    if (
        not pairs
        or loss.curves
        or not all(isinstance(pair, Location) and len(pair.p) == len(pair.q) == 1 for pair, _ in pairs)
    ):
        return None
    located = [(pair, count) for pair, count in pairs if isinstance(pair, Location)]
    if all(type(pair.noise) is GaussianNoise for pair, _ in located):
        total = math.fsum(count * (pair.p[0][1] / pair.noise.scale) ** 2 for pair, count in located)
        return GaussianNoise(1 / math.sqrt(total)), 1.0
    pair, count = located[0]
    return (pair.noise, pair.p[0][1]) if len(located) == 1 and count == 1 else None


def _sampled(event: Event, inner: Composed, adjacency: Adjacency, rate: float) -> Pair:
    """((1 - rate) Q + rate P, Q) of one release, or of several Gaussian ones."""
    base = _plain(inner)
    if base is not None:
        noise, shift = base
        return Location(noise, ((1 - rate, 0.0), (rate, shift)))
    pairs = [(release.remove, count) for release, count in inner.releases]
    if len(pairs) != 1 or pairs[0][1] != 1 or inner.curves or not isinstance(pairs[0][0], Discrete):
        raise Unsupported(event, adjacency, fix="Sampling is supported for one release, or for several Gaussian ones.")
    told = pairs[0][0].told and (_written(rate) * pairs[0][0].told[0], Fraction(0))
    return Discrete(tuple(((1 - rate) * q + rate * p, q) for p, q in pairs[0][0].atoms), told=told)


def _written(number: float) -> Fraction:
    """A number as it is written."""
    return Fraction(repr(float(number)))


def _sampled_atoms(event: Poisson, inner: Composed, adjacency: Adjacency, group: int) -> Composed:
    """One finite pair on a sample, for one record added or removed. Reference: Zhu, Dong and Wang 2022."""
    if not inner.releases and not inner.curves:
        return Composed()
    if adjacency is Adjacency.REPLACE or group > 1:
        raise Unsupported(event, adjacency, fix="Here only additive noise is supported for replace and for groups.")
    return once(Release.mirrored(_sampled(event, inner, adjacency, event.rate)))
