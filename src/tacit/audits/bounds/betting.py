r"""Betting on the scores themselves: an e-process that reads them at several levels at once.

A claim says P(A) - e^a Q(A) <= delta(a) for every event A and every a. With levels t_1 < t_2 < ... and weights w_k >= 0

    phi(s) = sum_k w_k 1{s >= t_k},   psi(s) = sum_k w_k e^{a_k} 1{s >= t_k}:
    E_P phi - E_Q psi <= sum_k w_k delta(a_k) = c.

So a run with the record and one without, with a stake l that keeps both factors from being negative, and any b', have

    E (1 + l (phi(s) - b' - c)) (1 - l (psi(s') - b')) <= ((2 + l (E_P phi - E_Q psi - c)) / 2)^2 <= 1:

a bet that a true claim does not lose. Wealth is the product over pairs of runs, averaged over bets. All of them are
fixed beforehand, so it reaches 1/error with probability at most `error` (Ville 1939). Only c depends on the claim, and
a claim that allows more has a larger one, so it is never ruled out sooner. Wealth depends on the scores by how many
runs of each side reach each level.

Reference: docs/proofs/auditing.md, Theorem 7; Waudby-Smith and Ramdas 2024, section 4 (betting on bounded means).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...core import Adjacency, Counts, Event
from .families import member

Floats = NDArray[np.float64]
PLACES: Floats = np.linspace(1.75, -1.75, 8)
"""Normal quantiles of the shares of runs without the record that are meant to reach each level; any are valid."""
SHARES: Floats = special.ndtr(PLACES)
GRID: Floats = np.linspace(-6.0, 6.0, 49)
"""The values of a: those of negative a follow from the positive ones."""
FAR: Floats = np.array([0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0])
"""How many deviations apart the sides may be: a_k is then the log-likelihood ratio of two normals at level k."""
STAKES: Floats = np.geomspace(0.03, 0.95, 10)
SOLVENT = 0.999
"""No bet may lose more than this share of its wealth at once."""
_WEIGHT: Floats = np.repeat(np.concatenate(([np.ones(PLACES.size)], np.eye(PLACES.size))), FAR.size, axis=0)
"""Bets on all levels together, and on each by itself, for every distance; both kinds get half of the wealth."""
_SHARE: Floats = np.repeat([0.5, *[0.5 / PLACES.size] * PLACES.size], FAR.size)[:, None] / (FAR.size * STAKES.size)
_PLACE = np.abs(np.clip(-np.outer(FAR, PLACES) - (FAR**2)[:, None] / 2, -6, 6)[..., None] - GRID).argmin(axis=2)
_PLACE = np.tile(_PLACE, (PLACES.size + 1, 1))
_PHI, _PSI = (
    np.concatenate((np.zeros((len(_WEIGHT), 1)), np.cumsum(part, axis=1)), axis=1)
    for part in (_WEIGHT, _WEIGHT * np.exp(GRID[_PLACE]))
)
_USUAL: Floats = (_WEIGHT * np.exp(GRID[_PLACE])) @ SHARES
"""b' of every bet."""
_STAKE: Floats = STAKES / np.maximum(np.maximum(_PSI[:, -1] - _USUAL, _USUAL), _PHI[:, -1] / 2)[:, None]


def levels(scores: Floats) -> tuple[float, ...]:
    """Levels that about `SHARES` of some scores reach; the scores are not judged."""
    finite = scores[np.isfinite(scores)]
    return tuple(np.quantile(finite, 1 - SHARES).tolist()) if finite.size else ()


def log_wealth(room: Floats, counts: Counts) -> float:
    """log of the mean wealth of all bets against a claim with delta(a) = `room` on the grid.

    Minus infinity where there is nothing to bet on: no levels, or another number of runs on either side.
    """
    reached = np.array(counts.levels, dtype=np.float64).reshape(-1, 2)
    if len(reached) != PLACES.size or counts.n_in != counts.n_out:
        return -math.inf
    inside, outside = (-np.diff(np.concatenate(([counts.n_in], side, [0.0]))) for side in reached.T)
    expected = _USUAL + (_WEIGHT * room[_PLACE]).sum(axis=1)
    first = _STAKE[..., None] * (_PHI - expected[:, None])[:, None]
    second = -_STAKE[..., None] * (_PSI - _USUAL[:, None])[:, None]
    won = np.log1p(np.maximum(first, -SOLVENT)) @ inside + np.log1p(second) @ outside
    won[(first < -SOLVENT).any(axis=2)] = -np.inf  # a stake that this bet could not pay
    return float(special.logsumexp(won, b=np.broadcast_to(_SHARE, won.shape)))


def of_pair(epsilon: float, delta: float) -> Floats:
    """delta(a) of (epsilon, delta)-DP: the largest value at the corners of its region (Kairouz et al. 2015)."""
    corner, grown = (1 - delta) * float(special.expit(-epsilon)), np.exp(GRID)
    return np.asarray(np.maximum(np.maximum(delta, 1 - corner - grown * corner), 1 - grown * (1 - delta)))


@lru_cache(maxsize=64)
def of_event(event: Event, factor: float, adjacency: Adjacency, delta: float) -> Floats:
    """delta(a) of an event with its noise scaled by `factor`, certified from above.

    For negative a the definition is applied to the complement, with P and Q exchanged: 1 - e^a (1 - delta(-a)).
    """
    loss = member(event, factor, adjacency)
    above = loss.deltas(GRID[GRID >= 0])
    below = 1 - np.exp(GRID[GRID < 0]) * (1 - above[:0:-1])
    return np.asarray(np.minimum(np.concatenate((below, above)), of_pair(loss.epsilon(delta).upper, delta)))
