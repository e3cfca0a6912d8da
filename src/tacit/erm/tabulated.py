r"""A declared loss as a table: its slope at public margins, straight lines between them.

What is minimised is the table. The declared functions are called at public margins alone, before any record is read, so
whatever they remember or mix, no record can reach another through them. The table is convex, and as steep and curved as
its constants say, at every margin: they are read off it. Reference: docs/proofs/erm.md, Theorem 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import BadInput, check
from .losses import Floats, MarginLoss

NEAR, FINE, FAR, COARSE = 16.0, 256, 1e4, 1000
KNOTS = np.concatenate(
    (
        -np.geomspace(FAR, NEAR, COARSE)[:-1],
        np.arange(-NEAR * FINE, NEAR * FINE + 1) / FINE,
        np.geomspace(NEAR, FAR, COARSE)[1:],
    )
)
"""Public margins: 1/256 apart up to 16, then growing by 0.6 % up to 10,000. Beyond, the slope stays what it is."""
ROUNDED = 1 + 1e-12
"""The curvature of the table is enlarged by this for the rounding of quotients."""


@dataclass(frozen=True, eq=False)
class Tabulated:
    """A convex loss whose slope is `slopes` at `margins`, straight between them and constant beyond.

    `lipschitz` and `smoothness` hold at every margin. The least value is 0.
    """

    margins: Floats
    slopes: Floats
    lipschitz: float
    smoothness: float

    @classmethod
    def of(cls, loss: MarginLoss) -> Tabulated:
        """The table of a declared loss. Raises BadInput where the loss contradicts what is declared."""
        steepest, most_curved = checked_constants(loss)
        slopes = np.maximum.accumulate(np.clip(checked_slopes(loss), -steepest, steepest))
        margins, slopes = _level(KNOTS, slopes, most_curved)
        bends = np.diff(slopes) / np.diff(margins)
        return cls(margins, slopes, steepest, max(most_curved, ROUNDED * float(bends.max())))

    def slope(self, margin: Floats) -> Floats:
        return np.asarray(np.interp(margin, self.margins, self.slopes))

    def curvature(self, margin: Floats) -> Floats:
        bends = np.concatenate(([0.0], np.diff(self.slopes) / np.diff(self.margins), [0.0]))
        return np.asarray(bends[np.searchsorted(self.margins, margin)])

    def value(self, margin: Floats) -> Floats:
        """The integral of the slope, from the margin where the loss is least."""
        place = np.clip(np.searchsorted(self.margins, margin) - 1, 0, len(self.margins) - 1)
        start = self.margins[place]
        found = self._starts()[place] + (self.slopes[place] + self.slope(margin)) / 2 * (margin - start)
        return np.asarray(np.maximum(found, 0.0))

    def _starts(self) -> Floats:
        """The value of the table at each of `margins`: the integral of its slopes, 0 where it is least."""
        steps = np.diff(self.margins) * (self.slopes[1:] + self.slopes[:-1]) / 2
        whole = np.concatenate(([0.0], np.cumsum(steps)))
        return np.asarray(whole - self._least(whole))

    def _least(self, whole: Floats) -> float:
        """The least value between any two margins: where the slope passes through 0."""
        low, high = self.slopes[:-1], self.slopes[1:]
        crossed = (low < 0) & (high > 0)
        with np.errstate(all="ignore"):
            below = np.where(crossed, low**2 * np.diff(self.margins) / (2 * (high - low)), 0.0)
        return float(min(whole.min(), (whole[:-1] - below).min()))


def _level(margins: Floats, slopes: Floats, most_curved: float) -> tuple[Floats, Floats]:
    """Lead a slope that falls at the last margin, or rises at the first, to 0: a loss that is never negative does."""
    first, last = float(slopes[0]), float(slopes[-1])
    if last < 0:
        margins, slopes = np.append(margins, margins[-1] + max(1.0, -last / most_curved)), np.append(slopes, 0.0)
    if first > 0:
        margins, slopes = np.append(margins[0] - max(1.0, first / most_curved), margins), np.append(0.0, slopes)
    return margins, slopes


def checked_constants(loss: Any) -> tuple[float, float]:
    """The declared constants of something that has all parts of a loss."""
    for name in ("value", "slope", "curvature"):
        if not callable(getattr(loss, name, None)):
            raise BadInput(f"loss needs a function {name}(margins) and the numbers lipschitz and smoothness.")
    return check.positive("lipschitz", loss.lipschitz), check.positive("smoothness", loss.smoothness)


def checked_slopes(loss: MarginLoss) -> Floats:
    """Slopes at KNOTS. Raises where they, or values and curvatures, contradict each other or the constants."""
    steepest, most_curved, margins = loss.lipschitz, loss.smoothness, KNOTS
    slope, curvature, value = (_asked(each, margins) for each in (loss.slope, loss.curvature, loss.value))
    if not np.all(value >= 0):
        raise BadInput("The loss is negative somewhere.", fix="Add a constant to it: weights stay the same.")
    if not np.all(np.abs(slope) <= steepest * (1 + 1e-9)):
        raise BadInput("The loss is steeper than its declared lipschitz constant.")
    if not np.all((curvature >= 0) & (curvature <= most_curved * (1 + 1e-9))):
        raise BadInput("The loss is not convex, or more curved than its declared smoothness.")
    step, room = np.diff(margins), 1e-9 * (1 + np.abs(slope[1:]))
    rise = np.diff(slope)
    if not np.all((rise >= -room) & (rise <= most_curved * step + room)):
        raise BadInput("The slope of the loss falls somewhere, or rises faster than its declared smoothness.")
    run = np.diff(value)
    off = 1e-9 * (1 + np.abs(value[1:]) + np.abs(value[:-1]))
    if not np.all((run >= slope[:-1] * step - off) & (run <= slope[1:] * step + off)):
        raise BadInput("`slope` is not the slope of `value`.")
    return slope


def _asked(function: Callable[[Floats], Floats], margins: Floats) -> Floats:
    """Evaluate a declared function at the margins. It is refused if one margin's value depends on the others."""
    found = np.array(function(margins.copy()), dtype=np.float64)
    if found.shape != margins.shape:
        raise BadInput("value, slope and curvature of a loss must return one number for each margin.")
    some = np.asarray(function(margins[::-7].copy()))
    if not np.allclose(some, found[::-7], rtol=1e-9, atol=0.0, equal_nan=True):
        raise BadInput("The loss of one margin depends on the other margins.", fix="Treat each margin by itself.")
    return found
