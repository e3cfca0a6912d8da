"""A distribution over several columns whose dependencies form a tree, fitted to noisy tables, and rows drawn from it.

p(x) = prod over edges p(x_i, x_j) / prod over columns p(x_i)^{edges - 1}: the distribution of largest entropy with the
given tables of pairs. Noisy tables are first made to agree. Each column's shares are the mean of all measurements of
them, weighted by how noisy each was. Then every pair's table is scaled to the shares of its columns.
Reference: McKenna, Miklau and Sheldon 2021 (MST); Chow and Liu 1968.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Source

Floats = NDArray[np.float64]
Edge = tuple[int, int]
ROUNDS = 200


@dataclass(frozen=True)
class TreeModel:
    """Shares of each column's values, and of pairs along a tree."""

    shares: tuple[Floats, ...]
    pairs: Mapping[Edge, Floats]
    total: int

    def rows(self, count: int, source: Source) -> NDArray[np.int64]:
        """`count` rows of codes: from a column to its neighbours along the tree, as evenly as whole numbers allow."""
        codes = np.zeros((count, len(self.shares)), dtype=np.int64)
        done: set[int] = set()
        for root in range(len(self.shares)):
            if root in done:
                continue
            codes[:, root] = spread(self.shares[root], count, source)
            done.add(root)
            waiting = [root]
            while waiting:
                parent = waiting.pop()
                for child, table in self._children(parent, done):
                    for value in range(len(table)):
                        own = np.flatnonzero(codes[:, parent] == value)
                        codes[own, child] = spread(table[value], own.size, source)
                    done.add(child)
                    waiting.append(child)
        return codes

    def _children(self, parent: int, done: set[int]) -> list[tuple[int, Floats]]:
        found = []
        for (i, j), table in self.pairs.items():
            if parent == i and j not in done:
                found.append((j, table))
            elif parent == j and i not in done:
                found.append((i, table.T))
        return found


def fitted(
    singles: Sequence[Floats], pairs: Mapping[Edge, Floats], single_spread: float, pair_spread: float
) -> TreeModel:
    """Fit noisy counts; the spreads are the deviations of their noise, 0 where a table was not measured."""
    total = max(float(np.mean([table.sum() for table in singles])), 1.0)
    shares = []
    for column, table in enumerate(singles):
        sums, weights = table / single_spread**2, np.full(table.shape, 1 / single_spread**2)
        for (i, j), pair in pairs.items():
            if column in (i, j):
                other = pair.shape[1] if column == i else pair.shape[0]
                sums = sums + pair.sum(axis=1 if column == i else 0) / (other * pair_spread**2)
                weights = weights + 1 / (other * pair_spread**2)
        shares.append(_simplex(sums / weights / total))
    scaled = {(i, j): _nearest(table / total, shares[i], shares[j]) for (i, j), table in pairs.items()}
    return TreeModel(tuple(shares), scaled, round(total))


def _simplex(values: Floats) -> Floats:
    """The nearest non-negative numbers that add up to 1 (Duchi et al. 2008): noise around 0 is cut off."""
    flat = np.sort(values.ravel())[::-1]
    above = np.cumsum(flat) - 1
    count = int(np.flatnonzero(flat - above / np.arange(1, flat.size + 1) > 0)[-1]) + 1
    return np.asarray(np.maximum(values - above[count - 1] / count, 0.0))


def _nearest(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest non-negative table, in Euclidean norm, whose margins are given (Dykstra 1983)."""
    height, width = table.shape
    kept = np.zeros_like(table)
    for _ in range(ROUNDS):
        off_rows, off_columns = rows - table.sum(axis=1), columns - table.sum(axis=0)
        table = table + off_rows[:, None] / width + off_columns[None, :] / height - off_rows.sum() / (height * width)
        table, kept = np.maximum(table + kept, 0.0), np.minimum(table + kept, 0.0)
    return _scaled(table, rows, columns)


def _scaled(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Iterative proportional fitting to the shares of both columns (Deming and Stephan 1940)."""
    table = table + 1e-9 * np.outer(rows, columns)
    for _ in range(ROUNDS):
        table = table * (rows / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        off = table.sum(axis=0)
        table = table * (columns / np.maximum(off, 1e-300))
        if np.abs(off - columns).max() < 1e-9:
            break
    return table


def spread(weights: Floats, count: int, source: Source) -> NDArray[np.int64]:
    """`count` codes in shares of the weights, each share rounded down or up, in random order."""
    total = float(weights.sum())
    shares = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    numbers = np.floor(shares * count).astype(np.int64)
    rest = count - int(numbers.sum())
    if rest > 0:
        part = np.maximum(shares * count - numbers, 0.0) + 1e-12
        chosen = np.argsort(np.log(np.maximum(source.uniform(len(part)), 1e-300)) / part)[::-1][:rest]
        numbers[chosen] += 1
    found = np.repeat(np.arange(len(weights)), numbers)
    return found[source.permutation(count)]
