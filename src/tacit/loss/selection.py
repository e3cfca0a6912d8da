r"""The best of K private runs, K random: Renyi bounds.

Truncated negative binomial K of shape eta and mean m, with success parameter gamma:

    eps'(a) = eps(a) + (1 + eta)(1 - 1/b) eps(b) + (1 + eta) log(1/gamma)/b + log(m)/(a - 1)      for every b > 1.

Poisson K of mean m, where the run is also (e, d)-DP with e^e <= 1 + 1/(a - 1):

    eps'(a) = eps(a) + m d + log(m)/(a - 1).

Reference: Papernot and Steinke 2022, Theorems 2 and 6.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.events import RepeatAndSelect
from .composed import Composed
from .noise import Array
from .renyi import TILTS, Renyi


def selected(event: RepeatAndSelect, inner: Composed, adjacency: Adjacency) -> Renyi:
    """The curve of the selection from the loss of one run."""
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            one = inner.renyi(TILTS)
            curve = _poisson(event.mean, inner, one) if event.shape is None else _binomial(event.mean, event.shape, one)
    except ArithmeticError:
        raise BadInput("One run of the selection loses more privacy than numbers can hold.") from None

    def read(tilts: Array) -> Array:
        """Divergences rise with the order, so the next larger order of the grid bounds from above."""
        index = np.searchsorted(TILTS, tilts * (1 - 1e-12), side="left")
        return np.asarray(np.where(index < TILTS.size, curve[np.minimum(index, TILTS.size - 1)], np.inf))

    return Renyi(f"selection from {event} under {adjacency}", (), read)


def _binomial(mean: float, shape: float, one: Array) -> Array:
    exponent, orders = failure_exponent(mean, shape), 1 + TILTS
    extra = float(np.min((1 + shape) * ((1 - 1 / orders) * one + exponent / orders)))
    return one + extra + math.log(mean) / TILTS


def _poisson(mean: float, inner: Composed, one: Array) -> Array:
    deltas = inner.deltas(np.log1p(1 / TILTS[::8]))
    spread = np.repeat(deltas, 8)[: TILTS.size]
    extra = np.concatenate([spread[8:], np.full(8, 1.0)])
    return one + mean * extra + max(math.log(mean), 0.0) / TILTS


def failure_exponent(mean: float, shape: float) -> float:
    r"""y = log(1/gamma) at which the truncated negative binomial of this shape has at least this mean.

    mean = shape (1 - gamma)/(gamma (1 - gamma^shape)), and (1/gamma - 1)/log(1/gamma) for shape 0: it rises with y.
    For shapes near -1 gamma is far smaller than a float can hold, so only its logarithm appears.
    """
    low, high, goal = math.log(1e-18), math.log(1e4 * (1 + math.log(mean)) / (1 + min(shape, 0.0))), math.log(mean)
    for _ in range(200):
        middle = (low + high) / 2
        y = math.exp(middle)
        enough = _log_mean(y, shape) > goal + 4e-15 * (1 + y)  # more than rounding can take away
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)


def _log_mean(y: float, shape: float) -> float:
    grown = y + math.log(-math.expm1(-y))  # log(1/gamma - 1)
    z = abs(shape) * y
    if z < 1e-17:  # as for shape 0: they differ by z/2
        return grown - math.log(y)
    least = math.log(-math.expm1(-z)) + (z if shape < 0 else 0.0)  # log |1 - gamma^shape|
    return math.log(abs(shape)) + grown - least
