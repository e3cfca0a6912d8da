r"""Noisy tables made to agree: non-negative whole numbers that add up, because all are tables of one made-up table.

The joint distribution p of all columns minimises sum over tables S of |N M_S p - y_S|^2, where M_S adds p up to the
table S and y_S is noisy. It is found by mirror descent with the entropy, p <- p exp(-step M'(N M p - y))/Z, which stays
non-negative and adds up. N p is then rounded to whole numbers whose running sums are off by less than one.
Computed of noisy tables alone, so it is free.
Reference: McKenna, Sheldon and Miklau 2019 (mirror descent on marginals); Beck and Teboulle 2003.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Subset = tuple[int, ...]
MOST = 200_000
"""Cells of all columns together."""
ROUNDS = 400


def check_cells(sizes: tuple[int, ...]) -> None:
    """Refuse columns that have too many combinations."""
    cells = int(np.prod([float(size) for size in sizes]))
    if cells > MOST:
        raise BadInput(
            f"The columns have {cells:,} combinations; tables that add up are made of at most {MOST:,}.",
            fix="Leave columns out, take fewer bins, or use synthesize.",
        )


def agreed(tables: Mapping[Subset, NDArray[np.integer]], sizes: tuple[int, ...]) -> dict[Subset, Whole]:
    """The tables again, each of the same synthetic people."""
    check_cells(sizes)
    noisy = {columns: table.astype(np.float64) for columns, table in tables.items()}
    total = max(round(float(np.mean([table.sum() for table in noisy.values()]))), 0)
    people = rounded(_fitted(noisy, sizes, float(max(total, 1))) * total, total)
    return {columns: _table(people, columns) for columns in tables}


def rounded(expected: Floats, total: int) -> Whole:
    """Whole numbers that add up to `total`, each running sum within one of the expected one."""
    sums = np.floor(np.cumsum(expected.ravel()) + 0.5).astype(np.int64)
    sums[-1:] = total
    return np.diff(np.minimum(sums, total), prepend=0).reshape(expected.shape)


def _fitted(noisy: Mapping[Subset, Floats], sizes: tuple[int, ...], total: float) -> Floats:
    shares: Floats = np.full(sizes, 1 / np.prod(sizes))
    step, loss, slope = 1.0, *_loss(shares, noisy, total)
    for _ in range(ROUNDS):
        exponent = -step / (total * len(noisy)) * slope
        moved = shares * np.exp(exponent - exponent.max())
        moved /= moved.sum()
        found, next_slope = _loss(moved, noisy, total)
        if found <= loss:
            shares, loss, slope, step = moved, found, next_slope, step * 1.5
        else:
            step /= 2
    return shares


def _loss(shares: Floats, noisy: Mapping[Subset, Floats], total: float) -> tuple[float, Floats]:
    """Half the sum of squared differences, and its slope for each cell, over N."""
    loss, slope = 0.0, np.zeros_like(shares)
    for columns, table in noisy.items():
        off = total * _table(shares, columns) - table
        loss += 0.5 * float((off**2).sum())
        slope += _spread_out(off, columns, shares.ndim)
    return loss, slope


Joint = TypeVar("Joint", Whole, Floats)


def _table(joint: Joint, columns: Subset) -> Joint:
    """Some columns of a joint table; they stand in rising order."""
    return np.add.reduce(joint, axis=tuple(axis for axis in range(joint.ndim) if axis not in columns))  # type: ignore[no-any-return]


def _spread_out(table: Floats, columns: Subset, axes: int) -> Floats:
    return np.expand_dims(table, tuple(axis for axis in range(axes) if axis not in columns))
