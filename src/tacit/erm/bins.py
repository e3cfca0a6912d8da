r"""Features cut into cells by public facts alone, and cells joined to bins by their noisy counts.

A number has CELLS cells of equal width on the scale asinh(v/g), g = 0.001 max(|low|, |high|), which tells small amounts
apart in a wide range, and one more cell where it is missing. A narrow range far from 0 is cut evenly. A category has
one cell per word and one for anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core import BadInput
from ..core.randomness import Source
from ..data import Schema
from ..data.encoding import GRAIN, width
from .losses import Floats
from .noise import gaussian

CELLS = 256
WIDE = 8
"""No bin is wider than this part of the range."""
NARROW = 1e-3
"""Width of a range on the scale asinh(v/g) below which that scale is straight, and rounding would blur its cells."""
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Records by cell: `places` (records, features), and how many cells each feature has.

    `ordered` says which features are numbers: the last cell of those is for missing values.
    """

    places: Whole
    counts: tuple[int, ...]
    ordered: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.places.shape[0], self.places.shape[1]

    @property
    def numbers(self) -> int:
        """How many features are numbers."""
        return sum(self.ordered)


def cells_of_array(x: Floats, bounds: tuple[Floats, Floats]) -> Cells:
    """Cells of numbers within public bounds; a value that is not finite is missing."""
    low, high = bounds
    grain = GRAIN * np.maximum(np.abs(low), np.abs(high))
    first, last = np.arcsinh(low / grain), np.arcsinh(high / grain)
    missing = ~np.isfinite(x)
    value = np.clip(np.where(missing, low, x), low, high)
    bent = (np.arcsinh(value / grain) - first) / np.maximum(last - first, NARROW)
    return _numbered(np.where(last - first < NARROW, (value - low) / (high - low), bent), missing)


def cells_of_table(x: NDArray[np.float32], schema: Schema) -> Cells:
    """Cells of an encoded table: see `data/encoding.py` for what its columns hold."""
    parts: list[Cells] = []
    first = 0
    for column in schema.features:
        block = x[:, first : first + width(column)].astype(np.float64)
        first += width(column)
        if column.kind == "text":
            raise BadInput(f"Column {column.name!r} is a text, which has no cells.", fix="Leave it out of the schema.")
        if column.kind == "category":
            parts.append(Cells(block.argmax(axis=1)[:, None].astype(np.int64), (block.shape[1],), (False,)))
            continue
        share = (block[:, 0] + 1) / 2
        if column.kind == "number":
            low, high = column.limits
            top = math.asinh(1 / GRAIN)
            ends = [math.asinh(end / (GRAIN * max(abs(low), abs(high)))) for end in (low, high)]
            if ends[1] - ends[0] >= NARROW:
                share = (block[:, 1] * top - ends[0]) / (ends[1] - ends[0])
        parts.append(_numbered(share[:, None], block[:, -1:] > 0))
    return Cells(
        np.concatenate([part.places for part in parts], axis=1),
        tuple(count for part in parts for count in part.counts),
        tuple(flag for part in parts for flag in part.ordered),
    )


def _numbered(share: Floats, missing: NDArray[np.bool_]) -> Cells:
    place = np.clip(np.floor(share * CELLS), 0, CELLS - 1).astype(np.int64)
    features = share.shape[1]
    return Cells(np.where(missing, CELLS, place), (CELLS + 1,) * features, (True,) * features)


@dataclass(frozen=True)
class Bins:
    """Which bin each cell of each feature belongs to; `most` bins of a number and one for missing values."""

    of_cell: tuple[Whole, ...]
    widths: tuple[int, ...]

    @property
    def width(self) -> int:
        return sum(self.widths)

    def rows(self, cells: Cells) -> sparse.csr_matrix:
        """One indicator per feature: rows of norm sqrt(features)."""
        size, features = cells.shape
        starts = np.concatenate(([0], np.cumsum(self.widths)[:-1]))
        places = np.stack([bins[cells.places[:, k]] for k, bins in enumerate(self.of_cell)], axis=1) + starts
        ends = np.arange(0, size * features + 1, features)
        return sparse.csr_matrix((np.ones(size * features), places.ravel(), ends), shape=(size, self.width))


def widths(cells: Cells, most: int) -> tuple[int, ...]:
    """How many bins each feature has: a public number. The last bin of a number is for missing values."""
    return tuple(most + 1 if flag else count for flag, count in zip(cells.ordered, cells.counts, strict=True))


def equal_bins(cells: Cells, most: int) -> Bins:
    """Bins of as many cells each: no record is looked at."""
    even = np.append(np.arange(CELLS) * most // CELLS, most).astype(np.int64)
    found = [even if flag else np.arange(n) for flag, n in zip(cells.ordered, cells.counts, strict=True)]
    return Bins(tuple(found), widths(cells, most))


def counted_bins(cells: Cells, size: int, parts: int, noise: float, rng: Source) -> Bins:
    """Cut numbers into bins by noisy counts of cells. A bin holds a share 1/`parts` of `size` records, or is a share
    1/WIDE of the range wide, whichever comes first: at most parts + WIDE bins. Rare large amounts have bins too.

    Guarantee: `Gaussian(noise)`; a record adds 1 to one cell of each number, so its contribution is sqrt(numbers).
    """
    places = [cells.places[:, k] for k in np.flatnonzero(cells.ordered)]
    counts = np.stack([np.bincount(place, minlength=CELLS + 1)[:CELLS] for place in places]).astype(np.float64)
    noisy = iter(gaussian(counts, math.sqrt(len(places)), noise, rng))
    found = [
        np.append(joined(next(noisy), size / parts, parts + WIDE), parts + WIDE) if flag else np.arange(n)
        for flag, n in zip(cells.ordered, cells.counts, strict=True)
    ]
    return Bins(tuple(found), widths(cells, parts + WIDE))


def joined(counts: Floats, enough: float, most: int) -> Whole:
    """The bin of each cell: a bin is closed when it holds `enough` or is wide, and before a cell that holds so much."""
    bins, held, current, first = np.zeros(len(counts), dtype=np.int64), 0.0, 0, 0
    for cell, count in enumerate(counts):
        full = held >= enough or (held > enough / 4 and count >= enough) or cell - first >= len(counts) // WIDE
        if full and current < most - 1:
            current, held, first = current + 1, 0.0, cell
        bins[cell] = current
        held += max(float(count), 0.0)
    return bins
