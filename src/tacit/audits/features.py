"""Ways to turn what a mechanism releases into one number that tells two data sets apart.

Each feature is fitted on some runs and applied to others; which one is used is then chosen on yet others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Feature = Callable[[Floats], Floats]
BINS = 24
COORDINATES = 8


def fitted(inside: Floats, outside: Floats) -> Iterator[tuple[str, Feature]]:
    """Every feature, by name, fitted on runs (runs x numbers) on the first and on the second data set."""
    gap = np.abs(inside.mean(axis=0) - outside.mean(axis=0)) / (inside.std(axis=0) + outside.std(axis=0) + 1e-300)
    for j in np.argsort(-gap, kind="stable")[:COORDINATES].tolist():
        yield from _coordinate(j, inside[:, j], outside[:, j])
    if inside.shape[1] > 1:
        along = projection(inside, outside)
        yield "projection", along
        ratio = binned(along(inside), along(outside))
        yield "histogram of the projection", lambda runs: ratio(along(runs))
    yield "exact value", exact(inside, outside)
    fine = binned(grain(inside).min(axis=1), grain(outside).min(axis=1))
    yield "grain of the floating-point number", lambda runs: fine(grain(runs).min(axis=1))


def _coordinate(j: int, inside: Floats, outside: Floats) -> Iterator[tuple[str, Feature]]:
    sign = 1.0 if inside.mean() >= outside.mean() else -1.0
    middle = float(np.median(np.concatenate((inside, outside))))
    yield f"value {j}", lambda runs: sign * runs[:, j]
    yield f"distance of value {j}", lambda runs: np.abs(runs[:, j] - middle)
    yield f"nearness of value {j}", lambda runs: -np.abs(runs[:, j] - middle)
    ratio = binned(inside, outside)
    yield f"histogram of value {j}", lambda runs: ratio(runs[:, j])


def projection(inside: Floats, outside: Floats) -> Feature:
    """Along Sigma^-1 (difference of the means): the likelihood ratio of normals with one covariance (Fisher 1936)."""
    both = np.concatenate((inside - inside.mean(axis=0), outside - outside.mean(axis=0)))
    covariance = both.T @ both / len(both)
    ridge = 1e-6 * float(np.trace(covariance)) / len(covariance) + 1e-300
    direction = np.linalg.solve(
        covariance + ridge * np.eye(len(covariance)), inside.mean(axis=0) - outside.mean(axis=0)
    )
    return lambda runs: np.asarray(runs @ direction)


def binned(inside: Floats, outside: Floats) -> Feature:
    """log ratio of the counts, plus one half, in bins with equally many runs."""
    edges = np.unique(np.quantile(np.concatenate((inside, outside)), np.linspace(0, 1, BINS + 1)[1:-1]))
    hits, others = (np.bincount(np.searchsorted(edges, side), minlength=edges.size + 1) for side in (inside, outside))
    ratio = np.log(hits + 0.5) - np.log(others + 0.5)
    return lambda values: np.asarray(ratio[np.searchsorted(edges, values)])


def exact(inside: Floats, outside: Floats) -> Feature:
    """log ratio of the counts, plus one half, of each released value as it is; values not seen before say nothing."""
    hits, others = (Counter(row.tobytes() for row in side) for side in (inside, outside))
    seen = {row: float(np.log(hits[row] + 0.5) - np.log(others[row] + 0.5)) for row in hits | others}
    return lambda runs: np.array([seen.get(row.tobytes(), 0.0) for row in runs])


def grain(runs: Floats) -> Floats:
    """log2 of the lowest set bit of each number: noise added in floating point leaves holes there (Mironov 2012)."""
    mantissa, exponent = np.frexp(runs)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.log2(np.maximum(whole & -whole, 1).astype(np.float64))
    return np.where(runs == 0, 2000.0, exponent - 53 + lowest)
