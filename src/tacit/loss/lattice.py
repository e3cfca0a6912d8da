"""Reading one direction of a composition from lattices, fine enough for the gap that was asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import TacitError
from ..core.interval import Interval
from .cached import cached
from .closed import head_of, tail_of
from .noise import Array
from .pairs import LOSS, Discrete, Pair
from .quadrature import NotMet
from .steps import LARGEST, lower_step, origin_of, upper_step
from .tilted import Bounding, chernoff, conversion
from .window import TOLD, Counts, TooLarge, Window, compose, log_moments, lost, moment_doubt, rounding

Composition = tuple[tuple[Pair, int], ...]
Profile = tuple[tuple[Array, Array], tuple[Array, Array], float]
TILTS = np.geomspace(1e-2, 2e5, 48)
SLACK = 8.5
"""Mass beyond e^-SLACK delta/steps is cut from one step: far losses would make all tilts but small ones explode."""
STEEPEST = 8.0
"""Largest tilt times width: beyond, neighbouring points would differ by more than numbers can hold."""
POINTS, CLOSE = 1 << 17, 1e-2
"""Points of a window beyond which it is not made finer; half as many where the gap is close enough."""
SIZES = 1e-4, 1e-8, 1e-14
"""Deltas that are read from different levels of a pair."""
MOST_TURNS = 10
"""How often a lattice is made finer, or coarser, before what is known must do."""
SHARE, LED = 0.85, 0.9
"""Of the tilt at which Chernoff's bound is least; and of a bound, below which an end shows that it was far off."""
FIRST = 512
"""Points of a window that are looked at first."""
TRIED = 400
"""Widths tried where outcomes are scattered."""


@dataclass(frozen=True)
class Lattice:
    """One direction: pairs with their counts, and the gap aimed at."""

    pairs: Composition
    aim: float = 6e-4
    tight: bool = True
    """Whether the lower end is wanted; without it, it is 0 and costs nothing."""

    @property
    def largest(self) -> float:
        """The supremum of the loss; no epsilon beyond it is needed."""
        if any(pair.infinite > 0 for pair, _ in self.pairs):
            return math.inf
        sums = math.fsum(count * (pair.largest + 2 * pair.doubt + LOSS) for pair, count in self.pairs)
        return max(sums, 0.0) * (1 + 1e-15 * (len(self.pairs) + 8))

    @property
    def _reached(self) -> float:
        """The supremum of the loss, from below."""
        if any(pair.lower.infinite > 0 for pair, _ in self.pairs):
            return math.inf
        return max(math.fsum(count * (pair.lower.largest - LOSS) for pair, count in self.pairs), 0.0)

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        """Smallest epsilon with delta(epsilon) <= delta; anything up to `known` is as good as `known`."""
        if delta == 0:
            return Interval(min(self._reached * (1 - 4e-15 * (len(self.pairs) + 8)), self.largest), self.largest)
        if self.leveled:
            return self._level(delta).epsilon(delta, known)
        if self.largest <= known:
            return Interval(0.0, self.largest)
        left = delta - self._infinite
        if left <= 1e-14 * delta:
            told = _told((pair.lower, count) for pair, count in self.pairs)
            return Interval(math.inf if told > delta else 0.0, math.inf)
        log_mass = math.log(left / self._steps) - SLACK
        coarse = self._coarse(log_mass)
        left = delta - lost(coarse) * (1 + TOLD)  # what a moment does not see counts against delta
        if left <= 0:
            return Interval(0.0, math.inf)
        ending: Bounding = lambda t, log_m: (log_m - math.log(left) + conversion(t)) / t  # noqa: E731
        bound, tilt = _chernoff(coarse, ending)
        sure = bound + moment_doubt(coarse, tilt) / tilt + rounding(coarse, tilt)[1]
        if sure <= known:
            return Interval(0.0, known if sure > 0 else 0.0)
        read = lambda low, high: Interval(_solve(low, delta) if low else 0.0, _solve(high, delta))  # noqa: E731
        found, most = self._refined(SHARE * tilt, bound, log_mass, read, known, ending), min(self.largest, sure)
        return found if found.upper <= most else Interval(min(found.lower, most), most)

    def delta(self, epsilon: float) -> Interval:
        """Smallest delta at this epsilon."""
        if self.leveled:
            levels = [self._level(size).delta(epsilon) for size in SIZES]
            least = max(item.lower for item in levels)
            return Interval(least, max(min(item.upper for item in levels), least))
        rough = min(0.0, _chernoff(self._coarse(-700.0), chernoff(epsilon))[0])
        log_mass = rough - math.log(self._steps) - 20.0
        _, tilt = _chernoff(self._coarse(log_mass), chernoff(epsilon))
        read = lambda low, high: Interval(low.delta(epsilon) if low else 0.0, high.delta(epsilon))  # noqa: E731
        found = self._refined(tilt, epsilon, log_mass, read)
        return Interval(found.lower, min(found.upper, 1.0))

    def tail(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of delta(epsilon) + e^epsilon fpr."""
        (low, least), (high, most), told = self.profile
        upper = tail_of(high, most, most, fpr).upper
        return Interval(min(tail_of(low, least, least, fpr, beyond=told).lower, upper), upper)

    def head(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of 1 - e^-epsilon (1 - delta(epsilon) - fpr)."""
        (low, least), (high, most), told = self.profile
        upper = head_of(high, most, most, fpr).upper
        return Interval(min(head_of(low, least, least, fpr, beyond=told).lower, upper), upper)

    def heads_and_tails(self, fprs: Array) -> tuple[Array, Array]:
        """Upper ends of `head` and of `tail` at many rates: the same operations, with each exponential taken once."""
        epsilons, most = self.profile[1]
        shrink, grow = np.exp(-epsilons), np.exp(np.minimum(epsilons, 700.0))
        heads = np.array([1 - (shrink * np.maximum(1 - most - fpr, 0.0)).max() for fpr in fprs])
        tails = np.array([(most + grow * fpr).min() for fpr in fprs])
        return np.minimum(heads, 1.0), np.minimum(tails, 1.0)

    @property
    def profile(self) -> Profile:
        """Epsilons from 0 up with lower ends of delta, others with upper ends, and the least delta beyond.

        For reading a trade-off curve many times. Ends are linear in e^epsilon between epsilons of their own side alone.
        """
        if self._profile is None:
            raise NotMet
        return self._profile

    @cached
    def _profile(self) -> Profile | None:
        """None where no lattice holds it, which is found out once."""
        try:
            return self._read_profile()
        except (NotMet, ArithmeticError, ValueError) as error:
            if isinstance(error, TacitError):
                raise
            return None

    def _read_profile(self) -> Profile:
        if self.leveled:
            return self._level(SIZES[1]).profile
        low, high = self._windows
        none = np.zeros(1), np.zeros(1)
        return (low.bends if low else none), high.bends, (low.infinite if low else 0.0)

    def deltas(self, epsilons: Array) -> Array:
        """Upper ends of delta at many epsilons, from one lattice, or from one for each level."""
        if self.leveled:
            return np.asarray(np.min([self._level(size).deltas(epsilons) for size in SIZES], axis=0))
        return self._windows[1].deltas(epsilons)

    @cached
    def _windows(self) -> tuple[Window | None, Window]:
        """The whole composition from both sides, fine enough for delta(0)."""
        found: list[tuple[Window | None, Window]] = []

        def ends(low: Window | None, high: Window) -> Interval:
            found.append((low, high))
            return Interval(low.delta(0.0) if low else 0.0, high.delta(0.0))

        self._refined(0.0, 0.0, math.log(1e-16 / self._steps), ends)
        if not found:
            raise NotMet
        return found[-1]

    @property
    def leveled(self) -> bool:
        """Whether some pair was computed in several ways."""
        return any(pair.leveled for pair, _ in self.pairs)

    def _level(self, delta: float) -> Lattice:
        return Lattice(tuple((pair.level(delta), count) for pair, count in self.pairs), self.aim, self.tight)

    @property
    def _infinite(self) -> float:
        """The chance that some step tells all."""
        return _told(self.pairs)

    @property
    def _steps(self) -> int:
        return sum(count for _, count in self.pairs)

    def _refined(
        self,
        tilt: float,
        anchor: float,
        log_mass: float,
        read: Callable[[Window | None, Window], Interval],
        enough: float = 0.0,
        ending: Bounding | None = None,
    ) -> Interval:
        """Refine the lattice until the gap is as small as aimed at, refining no longer pays, or the work is too large.

        Every reading is certified, so what is known is their intersection. An upper end of at most `enough` will do.
        Where a coarse lattice was far off, tilt and anchor follow from the finer one, by the bound that is `ending`.
        """
        width, known, before = self._fitted(self._span(log_mass) / 100), Interval(0.0, math.inf), math.inf
        failed = 0.0
        for _ in range(MOST_TURNS):
            try:
                origins = self._origins(width, log_mass)
                above = self._lattices(width, log_mass, 1, origins)
                if ending is not None and known.upper < LED * anchor:
                    anchor, tilt = _chernoff(above, ending)
                    anchor, tilt = min(anchor, known.upper), SHARE * tilt
                steep = min(tilt, STEEPEST / width)
                high = compose(above, steep, 1, anchor)
                if enough and read(None, high).upper <= enough:
                    return Interval(known.lower, max(enough, known.lower))
                low = compose(self._lattices(width, log_mass, -1, origins), steep, -1, anchor) if self.tight else None
            except TooLarge as error:
                if math.isfinite(known.upper) or width > LARGEST / 8:
                    return known
                failed, width = width, width * max(8.0, error.factor)
                continue
            found, upper = read(low, high), known.upper
            known = Interval(
                max(known.lower, found.lower), max(min(known.upper, found.upper), known.lower, found.lower)
            )
            gap = found.gap if low else _change(upper, found.upper)
            idle = (known.gap > 0.8 * before and known.upper > 0.95 * upper) if low else gap == 0
            finer = self._fitted(width * max(0.1, min(0.6, 0.8 * math.sqrt(self.aim / max(gap, self.aim)))))
            done = gap <= self.aim or known.upper <= max(enough, 1e-9) or found.lower == math.inf or idle
            work = max(high.losses.size * width, 2 * len(self.pairs) * self._span(log_mass)) / finer
            large = work > (POINTS if known.gap > CLOSE else POINTS / 2)
            if done or finer >= width or large or finer <= failed:
                return known
            width, before = finer, known.gap
        return known

    def _origins(self, width: float, log_mass: float) -> list[float | None]:
        """Origins that both sides share; None where a pair has different ones for either side."""
        return [origin_of(pair, width, log_mass) if pair.upper is pair.lower else None for pair, _ in self.pairs]

    def _lattices(self, width: float, log_mass: float, sign: int, origins: Sequence[float | None]) -> Counts:
        make = upper_step if sign > 0 else lower_step
        pairs = zip(self.pairs, origins, strict=True)
        return [(make(pair, width, log_mass, origin), count) for (pair, count), origin in pairs]

    def _coarse(self, log_mass: float) -> Counts:
        return self._lattices(self._span(log_mass) / 600, log_mass, 1, [None] * len(self.pairs))

    def _span(self, log_mass: float) -> float:
        reaches = [pair.reach(log_mass) for pair, _ in self.pairs]
        low, high = min(low for low, _ in reaches), max(high for _, high in reaches)
        return max(min(high, LARGEST) - max(low, -LARGEST), 1e-9)

    def _fitted(self, width: float) -> float:
        """The next smaller width that divides the common step of the pairs' own lattices."""
        steps = {pair.grid[1] if pair.grid else 0.0 for pair, _ in self.pairs}
        step = steps.pop()
        if steps or step == 0.0:
            return self._suited(width)
        if all(isinstance(pair, Discrete) for pair, _ in self.pairs):
            return step
        return step / math.ceil(step / width) if step > width / 2 else step * math.floor(width / step)

    def _suited(self, width: float) -> float:
        """A somewhat smaller width at which scattered outcomes lie near lattice points, which lower ends gain from."""
        outcomes = [(pair.scattered, count) for pair, count in self.pairs]
        if len(outcomes) > 8 or any(found is None for found, _ in outcomes):
            return width
        widths = width * np.linspace(0.7, 1.0, TRIED)[:, None]
        costs = np.zeros(TRIED)
        for found, count in outcomes:
            losses, mass = found or (np.zeros(1), np.zeros(1))
            away = losses - losses[int(mass.argmax())]
            costs += widths[:, 0] * (np.abs(away / widths - np.rint(away / widths)) @ (count * mass * np.abs(away)))
        return float(widths[int(costs.argmin()), 0])


def _chernoff(parts: Counts, bound: Bounding) -> tuple[float, float]:
    """The least bound, and its tilt."""
    tilts = TILTS
    for _ in range(2):
        values = bound(tilts, log_moments(parts, tilts))
        best = int(np.argmin(values))
        found = float(values[best]), float(tilts[best])
        tilts = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, tilts.size - 1)], 15)
    return found


def _change(before: float, now: float) -> float:
    """A guess of how far an upper end is from the truth: widths shrink tenfold and errors with their square."""
    return (before - now) / (50 * max(now, 1e-9)) if math.isfinite(before) else math.inf


def _told(pairs: Iterable[tuple[Pair, int]]) -> float:
    """The chance that some step tells all."""
    return -math.expm1(math.fsum(count * math.log1p(-pair.infinite) for pair, count in pairs))


def _solve(window: Window, delta: float) -> float:
    """The end of epsilon on this window's side.

    The upper one has delta there at most `delta`, the lower one more than `delta`; both are verified by evaluation.
    """
    points = np.concatenate([[0.0], window.losses[window.losses > 0]])
    if points.size > 2 * FIRST:  # every epsilon that is shown to be an end is one: look at some first
        near = int(np.searchsorted(points, window.anchor))  # far from the anchor a window from below shows nothing
        around = points[max(near - FIRST // 8, 0) : near + FIRST // 8]
        points = np.union1d(np.append(points[:: points.size // FIRST], points[-1]), around)
    for _ in range(8):
        values = window.deltas(points)
        if window.sign < 0:
            values = np.maximum.accumulate(values[::-1])[::-1]
        above = np.flatnonzero(values > delta)
        if not above.size:
            return 0.0
        last = int(above[-1])
        if last + 1 == points.size:
            return math.inf if window.sign > 0 else float(points[-1])
        points = np.linspace(points[last], points[last + 1], 33)
        if points[-1] - points[0] <= 1e-9 * points[-1]:
            break
    return float(points[-1] if window.sign > 0 else points[0])
