"""The privacy loss of a composition: a lazy multiset of releases, read only when asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import chain
from typing import ParamSpec, TypeVar

import numpy as np

from ..core import check
from ..core.errors import BadInput, TacitError
from ..core.interval import Interval
from ..core.privacy_loss import PrivacyLoss
from .cached import cached
from .closed import Direction, head_of, tail_of
from .noise import Array
from .pairs import Pair
from .quadrature import NotMet
from .readers import APART, Fast, Sure, deltas_at_most, direction, heads_and_tails
from .renyi import TILTS, Renyi, delta_at, divergences, improved
from .saddle import GAP

CLOSE = 1e-2
"""A gap of one direction below which the other one need not be told apart from it."""
T = TypeVar("T")
Given = ParamSpec("Given")


def held(read: Callable[Given, T]) -> Callable[Given, T]:
    """A reading whose numbers all fit into floats, or one sentence."""

    @wraps(read)
    def guarded(*given: Given.args, **named: Given.kwargs) -> T:
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                return read(*given, **named)
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, TacitError):
                raise
            raise BadInput(
                "The loss of this event is larger than numbers can hold.",
                fix="So little noise, or so large an epsilon, protects nobody.",
            ) from error

    return guarded


@dataclass(frozen=True)
class Release:
    """One release: its dominating pair when P holds the record (`remove`) and when Q holds it (`add`).

    `tight` says that some data and queries attain both pairs; otherwise the lower end of a reading is 0.
    """

    remove: Pair
    add: Pair
    tight: bool = True

    @classmethod
    def symmetric(cls, pair: Pair, *, tight: bool = True) -> Release:
        return cls(pair, pair, tight)

    @classmethod
    def mirrored(cls, pair: Pair) -> Release:
        return cls(pair, pair.mirrored())


@dataclass(frozen=True)
class Composed(PrivacyLoss):
    """Releases with their counts. Both directions stay separate to the last step (Lebeda et al. 2024).

    With a release of which only a Renyi curve is known, the whole is read from the sum of Renyi curves.
    """

    releases: tuple[tuple[Release, int], ...] = ()
    curves: tuple[tuple[Renyi, int], ...] = ()
    gap: float | None = field(default=GAP, compare=False)
    """The relative gap at which a contour's search for sharper ends of epsilon stops; ends are proven at any gap.

    None: no contour is tried in the first direction.
    """

    @classmethod
    def of(cls, losses: Sequence[Composed]) -> Composed:
        """The sum of losses, put in order once."""
        return cls(_merged(*(loss.releases for loss in losses)), _merged(*(loss.curves for loss in losses)))

    def __add__(self, other: PrivacyLoss) -> Composed:
        return Composed.of((self, other)) if isinstance(other, Composed) else NotImplemented

    def __rmul__(self, times: int) -> Composed:
        times = check.whole("the number of repetitions", times, least=0)
        if times == 0:
            return Composed()
        releases = tuple((release, times * count) for release, count in self.releases)
        return Composed(releases, tuple((curve, times * count) for curve, count in self.curves))

    @held
    def epsilon(self, delta: float) -> Interval:
        delta = check.delta(delta)
        if self.curves:
            return Interval(0.0, improved(self.renyi(TILTS), TILTS, delta) if delta > 0 else math.inf)
        first, *rest = self._directions
        found = first.epsilon(delta)
        for other in rest:
            enough = found.upper if not self._tight or found.gap <= CLOSE else found.lower
            found = _larger(found, other.epsilon(delta, enough))
        return self._honest(found)

    def estimate(self, delta: float) -> tuple[float, bool] | None:
        """Epsilon of the first direction to about a percent, without proof, and whether reading it exactly is quick.

        None where it has no contour: then reading epsilon is all that can be done.
        """
        way = self._directions[0] if self.releases and not self.curves else None
        reader = way.reader if isinstance(way, Sure) else way
        if not isinstance(reader, Fast):
            return None
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                return reader.saddle.estimate(delta)
        except (NotMet, ArithmeticError, ValueError):
            return None

    @held
    def delta(self, epsilon: float) -> Interval:
        epsilon = check.nonnegative("epsilon", epsilon)
        if self.curves:
            return Interval(0.0, delta_at(self.renyi(TILTS), TILTS, epsilon))
        first, *rest = self._directions
        found = first.delta(epsilon)
        for other in rest:  # at 0 delta is the total variation distance, the same from both sides
            again = other.delta(epsilon)
            found = _larger(found, again) if epsilon > 0 else _both(found, again)
        return self._honest(found)

    @held
    def deltas(self, epsilons: Array) -> Array:
        """Upper ends of delta at many epsilons."""
        if self.curves:
            curve = self.renyi(TILTS)
            return np.array([delta_at(curve, TILTS, float(epsilon)) for epsilon in epsilons])
        return np.asarray(np.max([deltas_at_most(way, epsilons) for way in self._directions], axis=0))

    def advantage(self) -> Interval:
        return self._advantage

    @held
    def tradeoff(self, fpr: float) -> Interval:
        r"""max over directions of inf_K H_K(P, Q) + K fpr; K < 1 is read from the other direction.

        Reference: Dong, Roth and Su 2022, Gaussian differential privacy; H_K(P, Q) = 1 - K + K H_{1/K}(Q, P).
        """
        fpr = check.probability("fpr", fpr)
        if self.curves:
            return Interval(fpr, float(self._renyi_powers(np.array([fpr]))[0]))
        ways = self._directions
        curves = [_smaller(way.tail(fpr), back.head(fpr)) for way, back in zip(ways, reversed(ways), strict=True)]
        best = curves[0] if len(curves) == 1 else _larger(*curves)
        lower, upper = max(self._honest(best).lower, fpr), max(best.upper, fpr)
        if upper - lower > APART * (upper - fpr):
            upper = max(min(upper, fpr + self._advantage.upper), lower)
        return Interval(lower, upper)

    @held
    def tradeoffs(self, fprs: Array) -> Array:
        """Upper ends for `tradeoff` at many false-positive rates, made for speed: some may lie above its own."""
        fprs = np.array([check.probability("fpr", float(fpr)) for fpr in fprs])
        if self.curves:
            return self._renyi_powers(fprs)
        heads, tails = zip(*(heads_and_tails(way, fprs) for way in self._directions), strict=True)
        curves = [np.minimum(tail, head) for tail, head in zip(tails, reversed(heads), strict=True)]
        return np.asarray(np.max([*curves, fprs], axis=0))

    def renyi(self, tilts: Array) -> Array:
        """Renyi divergence of order 1 + t from above, the larger of both directions."""
        known = sum((count * curve.curve(tilts) for curve, count in self.curves), np.zeros_like(tilts))
        remove = sum((count * divergences(item.remove, tilts) for item, count in self.releases), np.zeros_like(tilts))
        if all(item.add is item.remove for item, _ in self.releases):
            return np.asarray(known + remove)
        add = sum((count * divergences(item.add, tilts) for item, count in self.releases), np.zeros_like(tilts))
        return np.asarray(known + np.maximum(remove, add))

    def _renyi_powers(self, fprs: Array) -> Array:
        curve, epsilons = self.renyi(TILTS), np.linspace(0.0, 30.0, 301)
        deltas = np.array([delta_at(curve, TILTS, float(epsilon)) for epsilon in epsilons])
        tails, heads = ([way(epsilons, deltas, deltas, float(fpr)).upper for fpr in fprs] for way in (tail_of, head_of))
        return np.minimum(tails, heads)

    def _honest(self, found: Interval) -> Interval:
        """Where a pair may not be attained, only the upper end is claimed."""
        return found if self._tight else Interval(0.0, found.upper)

    @property
    def _tight(self) -> bool:
        return all(release.tight for release, _ in self.releases)

    @property
    def symmetric(self) -> bool:
        """Whether both directions are the same."""
        return all(release.remove == release.add for release, _ in self.releases)

    @cached
    def _advantage(self) -> Interval:
        return self.delta(0.0)

    @cached
    def _directions(self) -> tuple[Direction, ...]:
        remove = tuple((release.remove, count) for release, count in self.releases)
        add = tuple((release.add, count) for release, count in self.releases)
        first = direction(remove, tight=self._tight, gap=self.gap)
        return (first,) if remove == add else (first, direction(add, tight=self._tight, gap=self.gap or GAP))


def _merged(*several: tuple[tuple[T, int], ...]) -> tuple[tuple[T, int], ...]:
    """The sum of multisets, in an order of its own so that a + b and b + a are equal."""
    counts: dict[T, int] = {}
    for item, count in chain(*several):
        counts[item] = counts.get(item, 0) + count
    return tuple(sorted(counts.items(), key=repr))


def _larger(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.lower, b.lower), max(a.upper, b.upper))


def _both(a: Interval, b: Interval) -> Interval:
    """What two readings of one number say together."""
    lower = max(a.lower, b.lower)
    return Interval(lower, max(min(a.upper, b.upper), lower))


def _smaller(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.lower, b.lower), min(a.upper, b.upper))
