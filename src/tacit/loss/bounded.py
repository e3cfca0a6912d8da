"""Dominating pairs that are known by a bound alone: by an epsilon, by a range, or by one half of their losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import EPS, Array
from .pairs import Pair


@dataclass(frozen=True)
class Huge(Pair):
    """(epsilon, delta)-DP with an epsilon so large that e^epsilon is no number; to a lattice its loss is infinite."""

    epsilon: float
    delta: float = 0.0

    def mirrored(self) -> Huge:
        return self

    @property
    def infinite(self) -> float:
        return self.delta

    @property
    def largest(self) -> float:
        return self.epsilon

    def masses(self, losses: Array) -> tuple[Array, Array]:
        p, q = np.zeros(losses.size + 1), np.zeros(losses.size + 1)
        p[-1] = q[0] = 1 - self.delta
        return p, q

    def reach(self, log_mass: float) -> tuple[float, float]:
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class RangePair(Pair):
    r"""The worst pair of all with losses in [t, t + epsilon]: H_K = (e^{epsilon/2} - sqrt K)^2 / (e^epsilon - 1).

    Q(L > l) = (e^{(epsilon - l)/2} - 1)/(e^epsilon - 1), P(L > l) = (e^epsilon - e^{(epsilon + l)/2})/(e^epsilon - 1).
    Reference: Dong, Durfee and Rogers 2020, maximised over t.
    """

    epsilon: float

    def mirrored(self) -> RangePair:
        return self

    def masses(self, losses: Array) -> tuple[Array, Array]:
        e = self.epsilon
        l = np.concatenate([[-e], np.clip(losses, -e, e), [e]])  # noqa: E741
        scale = math.expm1(e)
        p = np.exp((e + l[:-1]) / 2) * np.expm1(np.diff(l) / 2) / scale
        q = -np.exp((e - l[:-1]) / 2) * np.expm1(-np.diff(l) / 2) / scale
        return p, q

    def reach(self, log_mass: float) -> tuple[float, float]:
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class Halves(Pair):
    r"""Losses above 0 from `above`, losses below 0 from `below`, and what is missing at 0.

    The pair of a symmetric adjacency whose theorem bounds H_K for K >= 1 by `above`; K < 1 follows from
    H_K(P, Q) = 1 - K + K H_{1/K}(Q, P), so `below` is the mirror image of `above`.
    """

    above: Pair

    def mirrored(self) -> Halves:
        return self

    def renyi(self, tilts: Array) -> Array | None:
        """Positive losses have at most the moment of `above`, all others at most 1."""
        curve = self.above.renyi(tilts)
        return None if curve is None else np.logaddexp(tilts * curve, 0.0) / tilts

    @property
    def infinite(self) -> float:
        return self.above.infinite

    def masses(self, losses: Array) -> tuple[Array, Array]:
        edges = np.union1d(losses, [0.0])
        p_up, q_up = self.above.masses(edges)
        p_down, q_down = self.above.mirrored().masses(edges)
        zero = int(np.searchsorted(edges, 0.0))
        p, q = (np.where(np.arange(edges.size + 1) <= zero, *pick) for pick in ((p_down, p_up), (q_down, q_up)))
        p[zero] += max(1.0 - self.infinite - float(p.sum()), 0.0) + 1024 * EPS  # at least what is missing
        q[zero] += max(1.0 - float(q.sum()), 0.0)
        if edges.size == losses.size:
            return p, q
        keep = np.concatenate([np.arange(zero), [zero], np.arange(zero + 2, edges.size + 1)])
        p[zero], q[zero] = p[zero] + p[zero + 1], q[zero] + q[zero + 1]
        return p[keep], q[keep]

    def reach(self, log_mass: float) -> tuple[float, float]:
        return min(self.above.mirrored().reach(log_mass)[0], 0.0), max(self.above.reach(log_mass)[1], 0.0)
