"""What a release on a random part of the records costs."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from ...core.adjacency import Adjacency
from ...core.errors import Unsupported
from ...core.events import Allocation, Event, FixedSize, Poisson, Shuffled, TruncatedPoisson
from ..allocation import allocated
from ..bounded import Halves
from ..composed import Composed, Release
from ..computed import Bracketed, Weighted
from ..few_outcomes import allocated_exactly
from ..noise import GaussianNoise, Noise
from ..objective import Folded
from ..pairs import Discrete, Location, Pair, Parts
from ..truncated import cut, truncated
from .registry import loss_of, once, written

_NOTHING = Release.symmetric(Discrete(((1.0, 1.0),)))
LARGEST_GROUP = 200
"""A sampled group of k is a mixture of k + 1 noises; beyond, reading it takes minutes."""


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
    if group > LARGEST_GROUP:
        raise Unsupported(event, adjacency, fix=f"Sampled groups have at most {LARGEST_GROUP} records here.")
    above = _moved(event.rate, *base, adjacency, group)
    if _known(inner):
        return once(above)
    least = _plain(inner, "lower")
    below = _NOTHING if least is None else _moved(event.rate, *least, adjacency, group)
    return once(Release(Bracketed(above.remove, below.remove), Bracketed(above.add, below.add)))


def _moved(rate: float, noise: Noise, shift: float, adjacency: Adjacency, group: int) -> Release:
    """Additive noise on a sample that holds some of the group's records."""
    weights = [math.comb(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(group + 1)]
    moved: Parts = tuple((weight, shift * j) for j, weight in enumerate(weights) if weight > 0)
    if adjacency is Adjacency.REPLACE:
        return Release.symmetric(Location(noise, moved, tuple((weight, -place) for weight, place in moved)))
    return Release.mirrored(Location(noise, moved))


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
        found = truncated(event, size, *base, adjacency)
        return once(found if _known(inner) else replace(found, tight=False))
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
    tight = isinstance(sampled, Location) and _known(inner) and all(item.tight for item, _ in inner.releases)
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
    """Once in t steps: balls and bins of any release with one dominating pair. k times: once in each of k blocks.

    Reference: docs/proofs/accounting.md, Theorems 5 and 6; Feldman and Shenfeld 2025, on k-out-of-t allocation.
    """
    if adjacency is Adjacency.REPLACE or group > 1:
        raise Unsupported(
            event, adjacency, fix="Random allocation is supported for one record, add-remove or zero-out."
        )
    inner = loss_of(event.event, Adjacency.ADD_REMOVE, 1)
    if not inner.releases and not inner.curves:
        return Composed()
    if event.steps == event.times:
        return event.times * inner
    tight = _known(inner) and all(item.tight for item, _ in inner.releases)
    only = inner.releases[0][0].remove if len(inner.releases) == 1 and inner.releases[0][1] == 1 else None
    exact = None if only is None or inner.curves else allocated_exactly(only, event.times, event.steps)
    if exact is not None:
        return once(replace(Release.mirrored(exact), tight=tight))
    base = _plain(inner)
    try:
        pair = Location(base[0], ((1.0, base[1]),)) if base else _only(event, inner, adjacency)
    except Unsupported:
        if event.steps // event.times > 1:
            raise
        return _loose(event.times * inner)
    if pair.infinite >= 1:
        return once(Release.symmetric(pair, tight=tight))  # whoever takes part is told, in both directions
    found = Composed(allocated(pair, event.times, event.steps))
    return found if tight else _loose(found)


def _loose(loss: Composed) -> Composed:
    """A loss that keeps its upper end only."""
    return Composed(tuple((replace(item, tight=False), count) for item, count in loss.releases), loss.curves)


def _only(event: Event, inner: Composed, adjacency: Adjacency) -> Pair:
    """The pair of a single release."""
    if (
        len(inner.releases) != 1
        or inner.releases[0][1] != 1
        or inner.curves
        or inner.releases[0][0].remove.leveled  # computed for one delta, not for what a sum of ratios makes of it
    ):
        raise Unsupported(
            event, adjacency, fix="Allocation is supported for one release, or for several Gaussian ones."
        )
    pair = inner.releases[0][0].remove.upper
    if isinstance(pair, Folded):
        raise Unsupported(
            event, adjacency, fix="Allocation is supported for releases with one pair for both directions."
        )
    return pair


def _known(loss: Composed) -> bool:
    """Whether every pair is known, and not only between two others."""
    return all(item.remove.upper is item.remove.lower for item, _ in loss.releases)


def _plain(loss: Composed, end: str = "upper") -> tuple[Noise, float] | None:
    """The noise and shift of one additive release; several Gaussians on one sample are one of the joint multiplier."""
    pairs: list[tuple[Pair, int]] = [(getattr(release.remove, end), count) for release, count in loss.releases]
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
    told = pairs[0][0].told and (written(rate) * pairs[0][0].told[0], Fraction(0))
    return Discrete(tuple(((1 - rate) * q + rate * p, q) for p, q in pairs[0][0].atoms), told=told)


def _sampled_atoms(event: Poisson, inner: Composed, adjacency: Adjacency, group: int) -> Composed:
    """One finite pair on a sample, for one record added or removed. Reference: Zhu, Dong and Wang 2022."""
    if not inner.releases and not inner.curves:
        return Composed()
    if adjacency is Adjacency.REPLACE or group > 1:
        raise Unsupported(event, adjacency, fix="Here only additive noise is supported for replace and for groups.")
    return once(Release.mirrored(_sampled(event, inner, adjacency, event.rate)))
