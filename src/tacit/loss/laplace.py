r"""Where the loss of mixtures of Laplace noise has given values, in closed form between neighbouring places.

Right of a place z, up to the next one, with t = (x - z)/b,

    P = A e^{-t} + B e^{t},   Q = C e^{-t} + D e^{t},

A and C from the parts at or left of z, B and D from those right of it. P = e^l Q at

    t = log(1 + (A + B)(e^{l - l_z} - 1)/(B - e^l D))/2,

l_z the loss at z. The loss at the computed place is right to a few units of the last digit, however flat it is
(docs/proofs/rounding.md, Lemma 3).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .cells import Array

Parts = tuple[tuple[float, float], ...]


@lru_cache(maxsize=256)
def _table(p: Parts, q: Parts, scale: float) -> tuple[Array, ...]:
    """Places, and for each of them A, B, C, D."""
    z = np.unique([place for _, place in (*p, *q)])
    sides = []
    for parts in (p, q):
        weights, places = (np.array(column) for column in zip(*parts, strict=True))
        terms = weights * np.exp(-np.abs(z[:, None] - places) / scale)
        left = places <= z[:, None]
        sides += [np.where(left, terms, 0.0).sum(axis=1), np.where(left, 0.0, terms).sum(axis=1)]
    return z, *sides


def laplace_position(p: Parts, q: Parts, scale: float, at_places: Array, losses: Array) -> Array:
    """The largest x with loss at most the given one; `at_places` are the losses at the places, rising."""
    z, a, b, _, d = _table(p, q, scale)
    index = np.searchsorted(at_places, losses, side="right")
    k = np.clip(index - 1, 0, z.size - 2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ahead = (a + b)[k] * np.expm1(losses - at_places[k]) / (b[k] - np.exp(losses) * d[k])
        t = np.where(ahead >= 0, np.log1p(ahead) / 2, np.inf)
    x = np.minimum(z[k] + scale * t, z[k + 1])
    return np.where(index == 0, -np.inf, np.where(index == z.size, np.inf, x))


def places_of(p: Parts, q: Parts, scale: float) -> Array:
    """The places of all parts of both mixtures, in rising order."""
    return _table(p, q, scale)[0]
