r"""Looking as often as one likes: an e-process that may stop at any time and still be valid.

At a threshold fixed beforehand runs are coins with unknown rates p (with the record) and q (without). For every (p, q)

    M_t / L_t(p, q),   M_t = the likelihood averaged over Jeffreys priors,   L_t(p, q) = the likelihood,

is a nonnegative martingale that starts at 1 when (p, q) is true, so that it ever reaches 1/error has probability at
most `error` (Ville 1939). A claim is ruled out as soon as M_t / L_t(p, q) >= 1/error for all (p, q) that it allows; all
claims together share one event, so every reading at the time of stopping is valid. Where the runs were also counted at
further levels of the score, it is averaged with the wealth of bets on these (`betting`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...core import Counts, check
from . import betting
from .estimators import Estimator
from .families import Family
from .frontier import GRID, Frontier, of_event, of_pair
from .search import Search, largest

Floats = NDArray[np.float64]


def log_evidence(frontier: Frontier, counts: Counts) -> float:
    r"""At most log M / sup L over the rates (p, q) with p <= T(q).

    For q above its own share and p kept to its own share at most, L rises in p and falls in q, so on [q_j, q_{j+1}] it
    is at most L(T(q_{j+1}), q_j).
    """
    a, b = counts.true_positives, counts.n_in - counts.true_positives
    c, d = counts.false_positives, counts.n_out - counts.false_positives
    share_in, share_out = a / max(counts.n_in, 1), c / max(counts.n_out, 1)
    p = np.minimum(frontier.tpr[1:], share_in)
    q = np.maximum(GRID[:-1], share_out)
    allowed = _log_likelihood(a, b, p) + _log_likelihood(c, d, q)
    return float(_log_mixture(a, b) + _log_mixture(c, d) - allowed.max())


@dataclass(frozen=True)
class Anytime(Estimator):
    """Lower bound for any mechanism that stays valid whenever the game is stopped."""

    delta: float
    method = "e-process"

    def read(self, counts: Counts, confidence: float) -> float:
        return largest(lambda epsilon: self.ruled_out(epsilon, counts, confidence))

    def ruled_out(self, epsilon: float, counts: Counts, confidence: float) -> bool:
        """Whether (epsilon, delta) is ruled out by now."""
        evidence = log_evidence(of_pair(epsilon, self.delta), counts)
        if counts.levels:
            evidence = _both(evidence, betting.log_wealth(betting.of_pair(epsilon, self.delta), counts))
        return evidence >= _need(confidence)


@dataclass(frozen=True)
class AnytimeCurve(Family):
    """Lower bound within the claimed event's family that stays valid whenever the game is stopped."""

    method = "e-process, trade-off curve"

    def read(self, counts: Counts, confidence: float) -> float:
        return self.reading(lambda s: self.ruled_out(s, counts, confidence), Search())

    def ruled_out(self, factor: float, counts: Counts, confidence: float) -> bool:
        """Whether the member with its noise scaled by `factor` is ruled out by now."""
        evidence = log_evidence(of_event(self.event, factor, self.adjacency), counts)
        if counts.levels:
            room = betting.of_event(self.event, factor, self.adjacency, self.delta)
            evidence = _both(evidence, betting.log_wealth(room, counts))
        return evidence >= _need(confidence)


def _both(one: float, other: float) -> float:
    """Logarithm of the mean of two e-processes, given their logarithms. The mean is an e-process too."""
    return float(np.logaddexp(one, other) - math.log(2))


def _need(confidence: float) -> float:
    return -math.log(1 - check.probability("confidence", confidence, zero=False, one=False))


def _log_mixture(hits: int, misses: int) -> float:
    """log of the probability of a sequence under the Jeffreys prior Beta(1/2, 1/2)."""
    return float(special.betaln(hits + 0.5, misses + 0.5) - special.betaln(0.5, 0.5))


def _log_likelihood(hits: int, misses: int, rate: Floats) -> Floats:
    return np.asarray(special.xlogy(hits, rate) + special.xlog1py(misses, -rate))
