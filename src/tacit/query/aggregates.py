"""Counts, sums, means and variances: which terms they need, and how noisy terms become an answer with its error.

Noisy terms are private already: whatever is computed here of them is free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Array
from ..core.errors import BadInput
from .engines import Opened
from .grids import PRIVATE, SQUARE, Grid, bounds_of
from .terms import Numbers, People, Rows, Share, Term, Total
from .values import Value, is_whole, number_of

Floats = NDArray[np.float64]
Noisy = Callable[[Term], Any]
"""The noisy whole numbers of a term, one for each group."""
Reach = Callable[[Term, float], float]
"""How far the noise of a term reaches, up to a chance of failure."""


@dataclass(frozen=True)
class Figure:
    """One answer for each group: `value` is off by at most `error`, each with the stated confidence."""

    value: Array
    error: Floats


class Aggregate(ABC):
    """A statistic of every group. Frozen and public."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The default name of this aggregate in an answer."""

    @abstractmethod
    def terms(self, table: Opened) -> tuple[Term, ...]:
        """What noise is added to."""

    @abstractmethod
    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        """The answer from noisy terms; together they fail with probability at most `failure`."""

    def stated(self, table: Opened, reach: Reach, failure: float) -> float | None:
        """The error where it is known beforehand; None where it depends on the data."""
        return None

    def checked(self, table: Opened, known: Callable[[str], object]) -> Aggregate:
        """Itself with its bounds filled in; `known` gives those of the schema."""
        return self


@dataclass(frozen=True)
class Count(Aggregate):
    """Rows, at most `max_rows` of a person."""

    @property
    def name(self) -> str:
        return "count"

    def terms(self, table: Opened) -> tuple[Term, ...]:
        return (Rows(),)

    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        return _plain(noisy(Rows()), reach(Rows(), failure))

    def stated(self, table: Opened, reach: Reach, failure: float) -> float:
        return reach(Rows(), failure)


@dataclass(frozen=True)
class Users(Aggregate):
    """The number of different people."""

    @property
    def name(self) -> str:
        return "users"

    def terms(self, table: Opened) -> tuple[Term, ...]:
        return (People(),)

    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        return _plain(noisy(People()), reach(People(), failure))

    def stated(self, table: Opened, reach: Reach, failure: float) -> float:
        return reach(People(), failure)


@dataclass(frozen=True)
class Bounded(Aggregate):
    """An aggregate of numbers within bounds."""

    column: str
    bounds: Any = None
    found: bool = False
    """Whether the bounds were found privately: the grid may then not depend on the column's type."""

    def checked(self, table: Opened, known: Callable[[str], object]) -> Bounded:
        number_of(table, self.column)  # refuses a column that is absent or holds no numbers
        given = self.bounds if self.bounds is not None else known(self.column)
        return replace(self, bounds=bounds_of(given, self.column))

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds; where they are still to be found, (-1, 1): grids are relative, so the noise is the same."""
        return (-1.0, 1.0) if self.bounds == PRIVATE else self.bounds

    @property
    def private(self) -> bool:
        return bool(self.bounds == PRIVATE)

    @abstractmethod
    def grid(self, table: Opened) -> Grid:
        """The steps that values are put on."""

    @property
    def _given(self) -> bool:
        return not (self.private or self.found)

    def _value(self, table: Opened, form: str) -> Value:
        return Value(self.column, self.grid(table), form, self._given)

    def within(self, largest: float) -> Bounded:
        """Itself with bounds that were found privately."""
        return replace(self, bounds=(-largest, largest), found=True)


@dataclass(frozen=True)
class Sum(Bounded):
    """The sum of a column; a person's sum in a group is clipped to what `max_rows` rows can hold."""

    @property
    def name(self) -> str:
        return f"sum({self.column})"

    def grid(self, table: Opened) -> Grid:
        return Grid.of_sum(self.ends, _native(self, table))

    def terms(self, table: Opened) -> tuple[Term, ...]:
        return (Total(self._value(table, "steps")),)

    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        (term,), grid = self.terms(table), self.grid(table)
        steps = noisy(term)
        value = steps if grid.spacing == 1 else steps.astype(np.float64) * float(grid.spacing)
        return _plain(value, reach(term, failure) * float(grid.spacing))

    def stated(self, table: Opened, reach: Reach, failure: float) -> float | None:
        (term,) = self.terms(table)
        return None if self.private else reach(term, failure) * float(self.grid(table).spacing)


@dataclass(frozen=True)
class Mean(Bounded):
    """The mean of a column over rows that hold a number, at most `max_rows` of a person."""

    @property
    def name(self) -> str:
        return f"mean({self.column})"

    def grid(self, table: Opened) -> Grid:
        return Grid.of_mean(self.ends, _native(self, table))

    def terms(self, table: Opened) -> tuple[Term, ...]:
        value = self._value(table, "centred")
        return Share(value), Numbers(self.column)

    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        """The sum and the number are each within their reach; the error is the farthest that the ratio can be."""
        grid, (total, number) = self.grid(table), self.terms(table)
        lower, upper = self.ends
        value, low, high = ratio(_pair(noisy, reach, total, failure / 2), _pair(noisy, reach, number, failure / 2))
        middle, spacing = lower + float(grid.middle * grid.spacing), float(grid.spacing)
        value, low, high = (np.clip(middle + spacing * part, lower, upper) for part in (value, low, high))
        return Figure(value, np.maximum(high - value, value - low) + (0.0 if grid.whole else spacing / 2))


@dataclass(frozen=True)
class Variance(Bounded):
    """The variance of a column (divided by the number of rows), at most `max_rows` rows of a person."""

    @property
    def name(self) -> str:
        return f"variance({self.column})"

    def grid(self, table: Opened) -> Grid:
        return Grid.of_mean(self.ends, _native(self, table))

    def squares(self, table: Opened) -> Grid:
        """A coarser grid, so that squares stay within 64 bits."""
        return Grid.of_mean(self.ends, _native(self, table), SQUARE)

    def terms(self, table: Opened) -> tuple[Term, ...]:
        """The first and last are those of the mean: both together cost no more than the variance alone."""
        square = Value(self.column, self.squares(table), "square", self._given)
        return Share(self._value(table, "centred")), Share(square), Numbers(self.column)

    def figure(self, table: Opened, noisy: Noisy, reach: Reach, failure: float) -> Figure:
        """E[y^2] - E[y]^2 with y the distance from the middle, each moment within its own reach."""
        first, second, number = self.terms(table)
        fine, coarse, count = self.grid(table), self.squares(table), _pair(noisy, reach, number, failure / 3)
        apart = float(fine.middle * fine.spacing - coarse.middle * coarse.spacing)
        mean = [apart + float(fine.spacing) * part for part in ratio(_pair(noisy, reach, first, failure / 3), count)]
        (squares,), step = second.values, float(coarse.spacing) ** 2
        square = [step * (part + squares.half) for part in ratio(_pair(noisy, reach, second, failure / 3), count)]
        least = np.where((mean[1] <= 0) & (mean[2] >= 0), 0.0, np.minimum(mean[1] ** 2, mean[2] ** 2))
        parts = square[0] - mean[0] ** 2, square[1] - np.maximum(mean[1] ** 2, mean[2] ** 2), square[2] - least
        most = float(coarse.reach * coarse.spacing) ** 2
        value, low, high = (np.clip(part, 0.0, most) for part in parts)
        rounding = 0.0 if coarse.whole else 2 * coarse.reach * step  # each moment is rounded by half a step
        return Figure(value, np.maximum(high - value, value - low) + rounding)


Pair = tuple[Floats, float]


def ratio(total: Pair, number: Pair) -> tuple[Floats, Floats, Floats]:
    """total/number with the least and the largest that it can be; a number of rows is at least 1.

    The ratio is monotone in each, so its extremes are at the corners. Where there may be nobody, the ratio is drawn
    towards 0: it is divided by how far the number may be off.
    """
    (s, off), (n, away) = total, number
    few, many = np.maximum(n - away, 1.0), np.maximum(n + away, 1.0)
    corners = np.stack([end / rows for end in (s - off, s + off) for rows in (few, many)])
    value = s / np.maximum(n, np.where(n - away < 1, max(away, 1.0), 1.0))
    low, high = corners.min(axis=0), corners.max(axis=0)
    return np.clip(value, low, high), low, high


def _pair(noisy: Noisy, reach: Reach, term: Term, failure: float) -> Pair:
    return np.asarray(noisy(term), dtype=np.float64), reach(term, failure)


def _plain(value: NDArray[np.generic], error: float) -> Figure:
    return Figure(value, np.full(value.shape, float(error)))


def _native(aggregate: Bounded, table: Opened) -> bool:
    """Whole-number columns are added as they are, unless the grid must not depend on the bounds."""
    return aggregate._given and is_whole(table, aggregate.column)


def check_aggregates(found: dict[str, Any]) -> None:
    """At least one aggregate, each made by a function of this room."""
    if not found:
        raise BadInput("Ask for at least one aggregate.", fix="aggregate(n=count(), total=sum(column, bounds)).")
    for name, aggregate in found.items():
        if not isinstance(aggregate, Aggregate):
            raise BadInput(f"{name} is no aggregate.", fix="Use count(), users(), sum(), mean() or variance().")
