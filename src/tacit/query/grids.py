"""Public bounds, and the grid of whole steps that values are put on before they are added.

Values are clipped and rounded to whole steps row by row, so that sums in an engine are sums of whole numbers. They are
exact, equal in every order, and never moved by more than the stated number of steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..core import check
from ..core.errors import Argument, BadInput
from ..mechanism.inputs import power_of_two, span

FINE = 2**20
"""Steps that the largest value of a sum or a mean has at least half of."""
SQUARE = 2**15
"""Steps for a variance: squares of 2^31 rows stay within 64 bits."""
LARGEST_WHOLE = 2**31
"""Whole-number columns whose bounds are at most this large are added as they are."""
PRIVATE = "private"


@dataclass(frozen=True)
class Grid:
    """A value x becomes floor((clip(x) - offset)/spacing + 1/2), a whole number of steps in [low, high]."""

    lower: float
    upper: float
    offset: float
    spacing: Fraction
    low: int
    high: int

    @classmethod
    def of_sum(cls, bounds: tuple[float, float], whole: bool) -> Grid:
        """A grid around 0: steps are what a sum adds."""
        lower, upper = bounds
        most = max(abs(lower), abs(upper))
        spacing = _spacing(most, FINE, whole and _are_whole(bounds))
        return cls(
            lower, upper, 0.0, spacing, math.ceil(Fraction(lower) / spacing), math.floor(Fraction(upper) / spacing)
        )

    @classmethod
    def of_mean(cls, bounds: tuple[float, float], whole: bool, fine: int = FINE) -> Grid:
        """A grid that begins at the lower bound: [0, steps]."""
        lower, upper = bounds
        width = Fraction(upper) - Fraction(lower)
        spacing = _spacing(float(width), fine, whole and _are_whole(bounds) and width <= fine)
        return cls(lower, upper, lower, spacing, 0, math.floor(width / spacing))

    @property
    def ends(self) -> tuple[float, float]:
        """Where the first and the last step lie: beyond them values are cut, so that rounding stays within."""
        return self.offset + float(self.low * self.spacing), self.offset + float(self.high * self.spacing)

    @property
    def middle(self) -> int:
        return (self.low + self.high) // 2

    @property
    def reach(self) -> int:
        """The farthest that a step is from the middle."""
        return max(self.high - self.middle, self.middle - self.low)

    @property
    def most(self) -> int:
        """The farthest that a step is from 0, at least 1."""
        return max(abs(self.low), abs(self.high), 1)

    @property
    def whole(self) -> bool:
        return self.spacing == 1 and self.offset == math.floor(self.offset)


def bounds_of(given: object, column: str) -> tuple[float, float] | str:
    """Two finite numbers, or the word "private"."""
    if isinstance(given, str) and given == PRIVATE:
        return PRIVATE
    if given is None:
        raise BadInput(
            f"Column {column!r} needs bounds: what lies beyond them is moved to them.",
            fix=(
                *("Give ", Argument("bounds", ("lower", "upper")), " that are known without the data, a range in "),
                *(Argument("schema"), ", or ", Argument("bounds", "private"), "."),
            ),
        )
    lower, upper = span(given)
    check.positive("the larger of the bounds", max(abs(lower), abs(upper)))
    if not upper - lower >= 1e-9 * max(abs(lower), abs(upper)):
        raise BadInput((Argument("bounds"), f" must be farther apart, got ({lower:g}, {upper:g})."))
    return lower, upper


def _are_whole(bounds: tuple[float, float]) -> bool:
    return all(float(end).is_integer() and abs(end) <= LARGEST_WHOLE for end in bounds)


def _spacing(most: float, fine: int, whole: bool) -> Fraction:
    """1 for whole numbers, else the least power of two of which `most` is at most `fine` steps."""
    if whole:
        return Fraction(1)
    exact = Fraction(most) / fine
    found = power_of_two(exact)
    return found if found == exact else 2 * found
