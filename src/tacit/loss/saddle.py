"""Epsilon and delta of composed Gaussian location pairs by the contour integral: its place, and verified ends."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ..core.interval import Interval
from . import power
from .cached import cached
from .contour import EASY, WORK, Contour, contour
from .jumps import jump_contour
from .noise import Array, GaussianNoise
from .pairs import Location, Pair
from .quadrature import NotMet, TooMuch
from .rough import rough
from .tilted import Sum, Tilted, best_tilt, chernoff, conversion, one_conversion

GAP = 1e-6
FLOOR = 1e-9
"""An answer counts as met when its gap is at most GAP relative to epsilon, or FLOOR absolutely."""
COARSE = 1e-4
"""The relative gap that a contour of large losses is drawn for where it cannot be drawn for `GAP`."""
ENOUGH = 4e-4
"""A relative gap that the lattice would not beat."""
SHARES = 1.0, 0.93
"""Of the best tilt: where it takes too much work, a smaller one may not."""
MOVED, DRAWN = 0.01, 5
"""A contour of large losses is drawn again, so often at most, where its own root is farther than this from where it
was drawn."""
UNKNOWN = Interval(0.0, math.inf)
STEEP = 200.0
"""Half the squared distance of the places of one step, in units of the noise, beyond which the lattice is asked alone:
of 40 random events none had a contour."""
DELTAS = -30.0, -10.0
"""Logarithms of deltas for which a contour is drawn first."""
MOST_LINES, MODEST, LONGEST = 12, 10_000_000, 4000
"""For trade-off curves: contours at most, (node, frequency) pairs of each, and frequencies, as each is read often."""
SHARP, FAINT, FARTHEST, SHORT = 1e-5, 1e-16, 600.0, 0.1
"""For them, too: the relative gap of delta up to which a contour serves other epsilons than its own; a delta and an
epsilon at which they end; and how far to go where none could be drawn."""
DIGITS = 16.0
"""The log of how much larger than delta the integrand may be before rounding hides the answer."""


class Wide(NotMet):
    """The ends that were `found` hold, but are so far apart that the lattice may do better."""

    def __init__(self, found: Interval) -> None:
        super().__init__()
        self.found = found


@dataclass(frozen=True)
class Saddle:
    """One direction: Gaussian location pairs with counts; plain Gaussians are summed into one."""

    pairs: tuple[tuple[Location, int], ...]
    gaussian: float = 0.0
    gap: float = GAP
    """The relative gap of epsilon at which the search for a sharper contour ends."""

    @classmethod
    def of(cls, counted: tuple[tuple[Pair, int], ...], gap: float = GAP) -> Saddle | None:
        """None where a pair is not a Gaussian location pair."""
        mixed: list[tuple[Location, int]] = []
        squares = 0.0
        for pair, count in counted:
            if not (isinstance(pair, Location) and type(pair.noise) is GaussianNoise):
                return None
            if len(pair.p) == len(pair.q) == 1:
                squares += count * ((pair.p[0][1] - pair.q[0][1]) / pair.noise.scale) ** 2
            else:
                mixed.append((pair, count))
        return cls(tuple(mixed), math.sqrt(squares), gap) if mixed else None

    @property
    def steep(self) -> bool:
        """Whether one step has losses so large that no contour is known to have met its budget."""
        return any(
            (max(place for _, place in pair.p) ** 2 + min(place for _, place in pair.q) ** 2) / 2
            > STEEP * pair.noise.scale**2
            for pair, _ in self.pairs
        )

    def estimate(self, delta: float) -> tuple[float, bool]:
        """Epsilon to about a percent, without proof, and whether the plain contour has it: then `epsilon` is quick.

        Raises NotMet where delta(0) seems to be below delta.
        """
        log_delta = math.log(delta)
        total = Sum.of(self.pairs, self.gaussian, log_delta)
        tilted, least = _begun(total, log_delta)
        guess = _guess(tilted, log_delta)
        try:
            found, place = _drawn(contour(total, tilted, log_delta, guess, work=EASY), delta, guess)
            if _met(found, self.gap):
                return place, True
        except NotMet:
            pass
        return rough(total.parts, self.gaussian, log_delta, least / tilted.tilt), False

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        """Smallest epsilon with delta(epsilon) <= delta, or [0, known] where it is at most `known`.

        Raises NotMet when the error budget cannot be met.
        """
        log_delta = math.log(delta)
        total = Sum.of(self.pairs, self.gaussian, log_delta)
        if known > 0 and _at_most(total, known, log_delta):
            return Interval(0.0, known)
        tilted, least = _begun(total, log_delta)
        if least <= -0.01 and tilted.trusted:
            return Interval(0.0, 0.0)
        guess, found, decays = max(_guess(tilted, log_delta), known), UNKNOWN, True
        try:
            found, guess = _drawn(contour(total, tilted, log_delta, guess, work=EASY), delta, guess)
        except NotMet as error:
            decays = isinstance(error, TooMuch)
        if not _met(found, self.gap):
            if not found.upper < 1.1 * found.lower:
                guess = rough(total.parts, self.gaussian, log_delta, least / tilted.tilt)
            found = _searched(total, delta, guess, found, decays=decays, gap=self.gap)
            if not _near(found) and self.gap < COARSE:  # where it cannot be so sharp it may be less sharp
                found = _searched(total, delta, guess, found, decays=decays, gap=COARSE)
        if not _near(found):
            raise Wide(found)
        return found

    def delta(self, epsilon: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        return self._line(epsilon)[1]

    def deltas(self, epsilons: Array) -> Array:
        """Upper ends of delta at many rising epsilons; a contour serves all those at which it has the usual gap.

        Raises NotMet when the error budget cannot be met.
        """
        found, line = np.empty(epsilons.shape), None
        for place, epsilon in enumerate(epsilons.tolist()):
            near = None if line is None else _delta(line, epsilon)
            if near is None or near.upper - near.lower > GAP * near.upper:
                line, near = self._line(epsilon)
            found[place] = near.upper
        return found

    def tail(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of delta(epsilon) + e^epsilon fpr. Raises NotMet as `delta` does."""
        return power.tail(self._near, fpr)

    def head(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of 1 - e^-epsilon (1 - delta(epsilon) - fpr). Raises NotMet as `delta` does."""
        return power.head(self._near, fpr)

    def _near(self, epsilon: float) -> tuple[Interval, float]:
        """Ends of delta, and its derivative without proof, from one of the contours for trade-off curves.

        Raises NotMet where none of them is sharp.
        """
        before = bisect_right(self._lines, epsilon, key=lambda item: item[0])
        for _, line, gap in self._lines[max(before - 1, 0) : before + 1]:
            found = _delta(line, epsilon)
            if found.upper - found.lower <= gap * found.upper:
                return found, line.sums(epsilon)[1]
        raise NotMet

    @cached
    def _lines(self) -> list[tuple[float, Contour, float]]:
        """Contours for trade-off curves by rising epsilon, each with the gap up to which it serves other epsilons.

        The next contour is drawn where the last one no longer serves, so no reading depends on earlier readings.
        """
        lines: list[tuple[float, Contour, float]] = []
        epsilon, failed = 0.0, 0
        while len(lines) + failed < MOST_LINES and failed < 2 and epsilon < FARTHEST:
            try:
                line, found = self._line(epsilon, MODEST)
            except NotMet:
                epsilon, failed = 2 * epsilon + SHORT, failed + 1
                continue
            if found.upper <= FAINT or line.u.size > LONGEST:
                break
            gap = max(SHARP, 3 * (found.upper - found.lower) / found.upper)
            lines.append((epsilon, line, gap))
            epsilon = _served(line, epsilon, gap)
        return lines

    def _line(self, epsilon: float, work: int = WORK) -> tuple[Contour, Interval]:
        """A contour for delta(epsilon), and its ends there: the sharpest, where none has the usual gap.

        What is cut for a small delta may leave losses so large that only one for a larger delta can be drawn.
        """
        best: tuple[Contour, Interval] | None = None
        for line in self._drawn(epsilon, work):
            found = _delta(line, epsilon)
            if best is None or found.upper - found.lower < best[1].upper - best[1].lower:
                best = line, found
            if found.upper - found.lower <= GAP * found.upper:
                return line, found
        if best is None:
            raise NotMet
        if best[1].upper - best[1].lower > ENOUGH * best[1].upper:
            raise Wide(best[1])
        return best

    def _drawn(self, epsilon: float, work: int) -> Iterator[Contour]:
        """Contours for delta(epsilon): plain ones that follow what is found, or else that of large losses."""
        log_delta, met = DELTAS[0], False
        for turn in range(4):
            total = Sum.of(self.pairs, self.gaussian, log_delta)
            try:
                tilted = _best(total, epsilon)
                log_bound = tilted.log_m + one_conversion(tilted.tilt) - tilted.tilt * epsilon
                line = contour(total, tilted, max(log_delta, log_bound - 8.0), epsilon, work=work)
            except NotMet:
                if met or turn + 1 >= len(DELTAS):
                    break
                log_delta = DELTAS[turn + 1]
                continue
            met = True
            yield line
            found = _delta(line, epsilon)
            close = found.lower > 0.5 * found.upper
            log_delta = math.log(found.lower) if close else max(min(log_bound, log_delta) - 8.0, -650.0)
        for log_delta in DELTAS[::-1] if epsilon > 0 and not met else ():
            with suppress(NotMet):
                yield jump_contour(Sum.of(self.pairs, self.gaussian, log_delta), log_delta, epsilon, GAP)


def _served(line: Contour, epsilon: float, gap: float) -> float:
    """Find by doubling, then halving, an epsilon up to which a contour serves that was drawn for a smaller one."""
    total, slope = line.sums(epsilon)
    step, good, doubling = max(total / -slope, 1e-9) if slope < 0 else SHORT, epsilon, True
    for _ in range(24):
        found = _delta(line, good + step)
        if found.upper > FAINT and found.upper - found.lower <= gap * found.upper:
            good += step
            step = 2 * step if doubling else step
        else:
            doubling, step = False, step / 2
            if step < 0.1 * (good - epsilon):
                break
    return good + step


def _delta(line: Contour, epsilon: float) -> Interval:
    low, high = (min(max(end, 0.0), 1.0) for end in line.delta(epsilon))
    return Interval(min(low, high), high)


def _begun(total: Sum, log_delta: float) -> tuple[Tilted, float]:
    """The tilt at which Chernoff's bound of epsilon is least, and that bound times the tilt."""
    start = math.sqrt(-2 * log_delta / total.variance)
    tilted = total.at(best_tilt(total, lambda t, log_m: (log_m + conversion(t) - log_delta) / t, start))
    return tilted, tilted.log_m + one_conversion(tilted.tilt) - log_delta


def _guess(tilted: Tilted, log_delta: float) -> float:
    """Leading order at the saddle point: delta is about M(t) e^{-t epsilon}/(t (1 + t) sqrt(2 pi) spread).

    Never above Chernoff's bound.
    """
    t = tilted.tilt
    factor = math.log(t * (1 + t) * tilted.spread) + 0.5 * math.log(2 * math.pi)
    return max((tilted.log_m - log_delta - max(factor, -one_conversion(t))) / t, 0.0)


def _at_most(total: Sum, epsilon: float, log_delta: float) -> bool:
    """Whether delta(epsilon) <= delta is easily shown: by Chernoff's bound, by a bound of |M|, or by a coarse sum."""
    try:
        tilted = _best(total, epsilon)
        log_share = tilted.log_m - tilted.tilt * epsilon - log_delta
        shown = log_share + one_conversion(tilted.tilt) <= -0.01 or log_share + tilted.log_peak() <= -0.01
        if shown and tilted.trusted:
            return True
        return contour(total, tilted, log_delta, epsilon, coarse=True).delta(epsilon)[1] <= math.exp(log_delta)
    except NotMet:
        return False


def _searched(total: Sum, delta: float, guess: float, found: Interval, *, decays: bool, gap: float) -> Interval:
    """Search the interval of epsilon by contours, starting from a guess.

    The contour at the guess comes first if the integrand `decays` there and enough digits are left; otherwise contours
    of large losses come first.
    """
    if guess == 0:
        raise NotMet
    log_delta, tilted = math.log(delta), _best(total, guess, sharp=True)
    hidden = tilted.log_m - tilted.tilt * guess - log_delta > DIGITS
    again = (None,) * DRAWN
    order = (*again, *SHARES) if hidden or not decays else (*SHARES, *again)
    tried = math.inf
    for share in order:
        if share is None and abs(guess - tried) <= MOVED * guess:
            continue  # drawn there already
        try:
            if share is None:
                tried = guess
                line = jump_contour(total, log_delta, guess, gap)
            else:
                line = contour(total, total.at(share * tilted.tilt), log_delta, guess)
        except NotMet:
            continue
        best, place = _drawn(line, delta, guess)
        found = _sharper(found, best)
        if _met(found, gap) or (hidden and share):
            break
        if share is None:
            guess = max(place, guess / 2) if place < math.inf else guess
        elif best.upper < 2 * best.lower:  # else its root is rounding
            guess = place
    return found


def _drawn(line: Contour, delta: float, guess: float) -> tuple[Interval, float]:
    """Verified ends of epsilon, and where the sum has it."""
    root, slope = _root(line, delta, guess)
    return _verified(line, delta, root, slope), root


def _near(found: Interval) -> bool:
    return found.upper - found.lower <= ENOUGH * min(found.upper, 1e9)


def _met(found: Interval, gap: float) -> bool:
    return found.upper - found.lower <= max(gap * min(found.upper, 1e300), FLOOR)


def _best(total: Sum, epsilon: float, *, sharp: bool = False) -> Tilted:
    """Where Chernoff's bound of delta(epsilon) is least."""
    return total.at(best_tilt(total, chernoff(epsilon), epsilon / total.variance - 0.5, sharp=sharp))


def _sharper(a: Interval, b: Interval) -> Interval:
    return a if a.upper - a.lower <= b.upper - b.lower else b


def _root(line: Contour, delta: float, guess: float) -> tuple[float, float]:
    """Where the sum is `delta`, and its slope: Newton's method on its log, kept inside a bracket.

    0 where the sum is below `delta` from the start.
    """
    low, high, epsilon = 0.0, math.inf, guess
    for _ in range(60):
        value, slope = line.sums(epsilon)
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        if epsilon == 0.0 and value <= delta:
            return 0.0, slope
        move = math.log(value / delta) * value / slope if value > 0 and slope < 0 else math.inf
        if abs(move) <= 1e-6 * epsilon:
            return max(epsilon - move, 0.0), slope
        epsilon -= move
        if not low < epsilon < high:
            epsilon = (low + high) / 2 if math.isfinite(high) else 2 * low + 1e-3
            if high < 1e-12:
                epsilon = 0.0
    return epsilon, slope


def _verified(line: Contour, delta: float, epsilon: float, slope: float) -> Interval:
    """Two ends around the root, each shown to be one by evaluating delta there."""
    if epsilon == 0.0 and line.delta(0.0)[1] <= delta:
        return Interval(0.0, 0.0)
    if slope >= 0:
        return UNKNOWN
    low, high = line.ends(epsilon, delta)
    margin = 1.1 * max(high - delta, delta - low, 0.0) / -slope + 2e-16 * epsilon
    for _ in range(4 if margin < math.inf else 0):
        low, high = max(epsilon - margin, 0.0), epsilon + margin
        if line.shows(low, high, delta):
            return Interval(low, high)
        margin *= 2
    return UNKNOWN
