r"""Sensitivity of a matrix mechanism: how far one record can move C G.

Taking part in the steps S with vectors of norm at most 1, a record moves it by at most

    sqrt( sum over i, j in S of |c_i . c_j| ),   c_i the columns of C,

and where these products are not negative, equal vectors attain it. The largest value over all patterns S is bounded by
two rounds of the same search: r_i = |c_i|^2 + the best that others can add to i, then the best sum of r_i.

Reference: docs/proofs/mechanisms.md, Theorem 2.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.events import BandedFactorisation, CyclicPoisson, MatrixFactorisation
from .noise import Array


def sensitivity(event: MatrixFactorisation | BandedFactorisation) -> tuple[float, float]:
    """(attained, bound): a movement that some record makes, and one that none exceeds."""
    if isinstance(event, BandedFactorisation):
        return banded_sensitivity(event), banded_sensitivity(event)
    steps, apart = len(event.encoder), event.separation
    count = min(event.participations, -(-steps // apart))
    columns = np.zeros((steps, steps))
    for place, row in enumerate(event.encoder):
        columns[place, : place + 1] = row
    unit = float(np.abs(columns).max()) or 1.0  # so that squares neither overflow nor vanish
    products = (columns / unit).T @ (columns / unit)
    far = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))) >= apart
    others = np.zeros((steps, steps + 1))
    for _ in range(count - 1):
        others = _next(np.where(far, np.abs(products), 0.0), others, apart)
    most = np.diag(products) + others[:, -1]
    pattern, bound = heaviest(most, count, apart)
    attained = float(products[np.ix_(pattern, pattern)].sum())
    rounding = 1 + 4 * steps * float(np.finfo(float).eps)
    return unit * math.sqrt(max(attained, 0.0) / rounding), unit * math.sqrt(bound * rounding)


def banded_sensitivity(event: BandedFactorisation) -> float:
    r"""sqrt(\sum_k |c_{k separation}|^2): columns that one record meets do not overlap, and earlier ones are longer.

    Column p has the entries c_0 .. c_{b-1}, cut off at the last row. Reference: docs/proofs/mechanisms.md, Theorem 2.
    """
    count = min(event.participations, -(-event.steps // event.separation))
    unit = max(map(abs, event.coefficients)) or 1.0  # so that squares neither overflow nor vanish
    squares = [(share / unit) ** 2 for share in event.coefficients]
    last = event.steps - (count - 1) * event.separation
    whole, cut = math.fsum(squares), math.fsum(squares[:last])
    rounding = 1 + 8 * float(np.finfo(float).eps)
    return unit * math.sqrt(((count - 1) * whole + cut) * rounding)


def turns(event: CyclicPoisson) -> tuple[tuple[float, int], ...]:
    r"""(length, count) of the columns that a record of the first group meets: no other group has more or longer ones.

    All but the last are whole, the last one may be cut off at the last row.
    """
    count = -(-event.steps // event.cycle)
    unit = max(map(abs, event.coefficients)) or 1.0
    squares = [(share / unit) ** 2 for share in event.coefficients]
    rounding = 1 + 8 * float(np.finfo(float).eps)
    whole, cut = (
        unit * math.sqrt(math.fsum(squares[:rows]) * rounding)
        for rows in (None, event.steps - (count - 1) * event.cycle)
    )
    return ((whole, count),) if whole == cut else ((whole, count - 1), (cut, 1))


def heaviest(weights: Array, count: int, apart: int) -> tuple[list[int], float]:
    """The pattern of at most `count` places, `apart` from each other, with the largest sum of weights; and that sum."""
    tables = [np.zeros((1, weights.size + 1))]
    for _ in range(count):
        tables.append(_next(weights[None, :], tables[-1], apart))
    pattern, place = [], weights.size
    for table in reversed(tables[1:]):
        while place > 0 and table[0, place] == table[0, place - 1]:
            place -= 1
        if place == 0:
            break
        pattern.append(place - 1)
        place = max(place - apart, 0)
    return pattern, float(tables[-1][0, -1])


def _next(weights: Array, fewer: Array, apart: int) -> Array:
    """best[row, n]: the largest sum over the first n places with one place more than in `fewer`."""
    best = np.zeros_like(fewer)
    for n in range(1, weights.shape[1] + 1):
        best[:, n] = np.maximum(best[:, n - 1], weights[:, n - 1] + fewer[:, max(n - apart, 0)])
    return best
