r"""The exponential mechanism over ranges too large to list: a utility that is constant between breakpoints.

The range [lower, upper] is cut into `grid` equal cells (2^40 unless told otherwise), and the candidates are their
midpoints. A utility that changes only at the breakpoints makes pieces of many cells each. A piece is drawn with
probability proportional to (cells) e^{utility/scale}, then a cell of it uniformly: exactly the exponential mechanism
over all cells, without listing them. Records touch the draw only through the whole number of their cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import BoundedRange
from . import scales
from .charging import Offer, Random, Terms
from .choices import Distances, by_weight
from .exact import uniform_below
from .inputs import Floats, array_of, clamped, collected, plain, records, span
from .selection import scale_of

Whole = NDArray[np.int64]
CELLS = 2**40


@dataclass(frozen=True)
class Cells:
    """A public range cut into equal cells."""

    lower: float
    upper: float
    count: int

    @classmethod
    def of(cls, bounds: object, grid: int) -> Cells:
        if check.whole("grid", grid) > 2**52:
            raise BadInput("grid must be at most 2^52 cells.")
        return cls(*span(bounds), int(grid))

    def index(self, values: Floats) -> Whole:
        """The first cell whose midpoint is at or above each value, from 0 to `count`: one record at a time."""
        share = (values - self.lower) / (self.upper - self.lower)
        return np.minimum(np.maximum(np.ceil(share * self.count - 0.5), 0), self.count).astype(np.int64)

    def holding(self, values: Floats) -> Whole:
        """The cell that holds each value: one record at a time."""
        share = (values - self.lower) / (self.upper - self.lower)
        return np.minimum(np.floor(share * self.count), self.count - 1).astype(np.int64)

    def middle(self, cell: int) -> float:
        """The middle of a cell as the nearest float: a whole number where the middle is one."""
        (a, b), (c, d) = self.lower.as_integer_ratio(), self.upper.as_integer_ratio()
        part, whole = 2 * int(cell) + 1, 2 * self.count
        return (a * d * (whole - part) + c * b * part) / (b * d * whole)


def exponential_range(
    utility: object,
    breaks: object,
    *,
    bounds: tuple[float, float],
    sensitivity: float,
    epsilon: float,
    monotone: bool = False,
    grid: int = CELLS,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Choose a number of a public range by a utility that is constant between breakpoints.

    `utility`: one number for each piece, in rising order of the pieces: one more than there are breakpoints.
    `breaks`: where the utility changes; values of people are allowed here.

    Guarantee: `BoundedRange(epsilon)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: at no number does the utility move by more than `sensitivity`; the bounds are public.
    Edge cases: breakpoints beyond the bounds are moved to them, and NaN to the lower one.
    Error: the utility of the choice is below that of the best cell by at most `error`, with probability `confidence`.
    Reference: McSherry and Talwar 2007; docs/proofs/sampling.md, Theorem 8.
    """
    terms = Terms(ledger, key, rng, adjacency)
    cells = Cells.of(bounds, grid)
    epsilon = check.positive("epsilon", epsilon)
    event = BoundedRange(epsilon)
    scale = scale_of(sensitivity, epsilon, monotone, terms.neighbours)
    utility, places = collected(utility), records(breaks)
    if plain(array_of(utility)).size != places.size + 1:
        raise BadInput("utility must hold one number more than there are breakpoints.")
    asked = cells, float(sensitivity), bool(monotone)
    error = reach(scale, cells, confidence)
    offer = Offer("exponential_range", event, terms.neighbours, error, confidence, asked=asked)

    def draw(chance: Source) -> float:
        edges = np.sort(cells.index(clamped(places, (cells.lower, cells.upper))), kind="stable")
        heights = Distances.of(utility, scale).values  # each number as it is: an array of one type would round some
        return cells.middle(chosen_cell(edges, heights, cells, scale, chance))

    return offer.drawn(draw, terms)


def by_rank(held: Whole, share: Fraction) -> tuple[Whole, Whole]:
    r"""Pieces of a range, as for `chosen_cell`, with the heights of the exponential mechanism on ranks.

    `held`: the cell of each of n records. A cell with L records below it and U records in it or below it has the height
    -max(0, L - q n, q n - U), q = `share`, in units of 1/denominator. That is minus the distance of q n from the ranks
    [L, U] that the cell holds. A cell in which many records lie together holds many ranks.
    """
    held = np.sort(held)
    ends = np.append((held[1:] != held[:-1]).nonzero()[0] + 1, held.size)[: held.size]  # where each cell's records end
    cells, upto = held[ends - 1], np.append(0, ends) * share.denominator
    wanted = share.numerator * held.size
    heights = np.empty(2 * cells.size + 1, np.int64)
    heights[::2] = -np.abs(upto - wanted)
    heights[1::2] = -np.maximum(np.maximum(upto[:-1] - wanted, wanted - upto[1:]), 0)
    edges = np.repeat(cells, 2)
    edges[1::2] += 1
    return edges, heights


def chosen_cell(edges: Whole, heights: NDArray[np.generic], cells: Cells, scale: Fraction, source: Source) -> int:
    """A cell with probability proportional to e^{height/scale}; piece i holds the cells edges[i-1] .. edges[i] - 1."""
    ends = np.empty(edges.size + 2, np.int64)
    ends[0], ends[1:-1], ends[-1] = 0, edges, cells.count
    sizes = ends[1:] - ends[:-1]
    some = sizes.nonzero()[0]
    counts = sizes[some]
    piece = by_weight(Distances.of(heights[some], scale), source, counts)
    return int(ends[some[piece]]) + int(uniform_below(source, int(counts[piece]), 1)[0])


def reach(scale: Fraction, cells: Cells, confidence: float) -> float:
    """scale log(cells/failure): McSherry and Talwar 2007."""
    failure = scales.each_failure(confidence, 1)
    return float(scale) * (math.log(cells.count) - math.log(failure)) * (1 + 1e-12)
