r"""How much an answer gives away when the teachers agree: Renyi divergences that depend on the votes.

All of this is private: the votes are. q is an upper bound of P(the answer is not i*), i* the class with the most votes.
Every curve bounds D_a(M(D) || M(D')) for these votes D and every neighbour D', at orders a > 1.

    GNMax   q = sum_{j != i*} P(Z > (n_i* - n_j)/(sqrt 2 s)); Papernot et al. 2018, Proposition 7 and Theorem 6
    LNMax   q = sum_{j != i*} (2 + g d_j)/(4 e^{g d_j}), d_j = n_i* - n_j, g = 1/scale; Papernot et al. 2017, Lemma 4
            and Theorem 3
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from .aggregators import GRID

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
ORDERS = np.concatenate((np.arange(2.0, 100.0, 0.5), np.logspace(2.0, math.log10(500.0), 100)))
"""Those of the papers' own evaluation."""
TIE = 1.0 / GRID
"""Sums that differ by less than a grid step may tie, and a tie may go to another class: gaps are smaller by this."""


def gaps(counts: Counts) -> Floats:
    """n_i* - n_j for all other classes, smallest first: shape (queries, classes - 1)."""
    ordered = np.sort(counts, axis=1)[:, ::-1].astype(np.float64)
    return np.asarray(ordered[:, :1] - ordered[:, 1:])


def log_wrong(counts: Counts, noise: float) -> Floats:
    """log q of GNMax, at most log(1 - 1/classes): no class is likelier than i*."""
    parts = log_ndtr(-(gaps(counts) - TIE) / (math.sqrt(2.0) * noise))
    return np.minimum(logsumexp(parts, axis=1), math.log1p(-1.0 / counts.shape[1]))


def log_wrong_laplace(counts: Counts, noise: float) -> Floats:
    """log q of LNMax."""
    scaled = gaps(counts) / noise
    parts = np.log(2.0 + scaled) - math.log(4.0) - scaled
    return np.minimum(logsumexp(parts, axis=1), math.log1p(-1.0 / counts.shape[1]))


def gaussian_curve(log_q: Floats, noise: float, orders: Floats) -> Floats:
    r"""Renyi divergences of GNMax, (queries, orders): at most a/noise^2, and less where q is small.

    With m2 = noise sqrt(log 1/q), m1 = m2 + 1, e_i = m_i/noise^2, for orders a <= m1 and q in the range of the theorem:

        log((1 - q) A^{a-1} + q B^{a-1})/(a - 1),  A = (1 - q)/(1 - (q e^{e2})^{1 - 1/m2}),  B = e^{e1}/q^{1/(m1 - 1)}
    """
    log_q, a = np.asarray(log_q, dtype=np.float64)[:, None], np.asarray(orders, dtype=np.float64)[None]
    variance = noise * noise
    plain = np.broadcast_to(a / variance, (log_q.shape[0], a.shape[1]))
    with np.errstate(all="ignore"):
        m2 = noise * np.sqrt(-log_q)
        m1, e1, e2 = m2 + 1, (m2 + 1) / variance, m2 / variance
        limit = (m2 - 1) * e2 - m2 * (np.log1p(1 / (m1 - 1)) + np.log1p(1 / (m2 - 1)))
        inside = (m1 >= a) & (m2 > 1) & (log_q <= limit) & (-log_q > e2)
        log_right = _log1mexp(log_q)
        log_a = (a - 1) * (log_right - _log1mexp((log_q + e2) * (1 - 1 / m2)))
        log_b = (a - 1) * (e1 - log_q / (m1 - 1))
        found = np.logaddexp(log_right + log_a, log_q + log_b) / (a - 1)
    return np.where(inside & np.isfinite(found), np.clip(found, 0.0, plain), np.where(log_q == -np.inf, 0.0, plain))


def laplace_curve(log_q: Floats, noise: float, orders: Floats) -> Floats:
    r"""Renyi divergences of LNMax, g = 1/noise, e = 2 g, l = a - 1: at most e and 2 g^2 a, and where q is below
    (e^e - 1)/(e^{2e} - 1),

        log((1 - q) ((1 - q)/(1 - e^e q))^l + q e^{e l})/l
    """
    log_q, tilt = np.asarray(log_q, dtype=np.float64)[:, None], np.asarray(orders, dtype=np.float64)[None] - 1
    e = 2.0 / noise
    plain = np.broadcast_to(np.minimum(e, e * e * (tilt + 1) / 2), (log_q.shape[0], tilt.shape[1]))
    with np.errstate(all="ignore"):
        log_right = _log1mexp(log_q)
        first = log_right + tilt * (log_right - _log1mexp(log_q + e))
        found = np.logaddexp(first, log_q + e * tilt) / tilt
        inside = log_q < -e - np.log1p(np.exp(-e))  # (e^e - 1)/(e^{2e} - 1) = 1/(e^e + 1)
    return np.where(inside & np.isfinite(found), np.clip(found, 0.0, plain), np.where(log_q == -np.inf, 0.0, plain))


def log_shares(agreement: Floats, threshold: float, noise: float) -> tuple[Floats, Floats]:
    """log P(the check is passed) and log P(it is not), for what is compared with the threshold."""
    away = (round(threshold * GRID) / GRID - TIE / 2 - np.asarray(agreement, dtype=np.float64)) / noise
    return log_ndtr(-away), log_ndtr(away)


def check_curve(log_passed: Floats, log_failed: Floats, noise: float, orders: Floats) -> Floats:
    """Renyi divergences of the check alone, by the theorem for GNMax with noise sqrt(2) times as large."""
    return gaussian_curve(np.minimum(log_passed, log_failed), math.sqrt(2.0) * noise, orders)


def joint_curve(agreement: Floats, threshold: float, noise: float, answer: Floats, orders: Floats) -> Floats:
    r"""Renyi divergences of a check and the answer that may follow it, as one release; answer (queries, orders).

    The neighbour's agreement t' is within one vote of t, and the sum over outcomes is convex in P'(passed), so its
    largest value is at an end:

        max_{t' in t +- 1} log(P0^a P0'^{1-a} + P1^a P1'^{1-a} e^{(a-1) answer})/(a - 1)

    It is never above a/(2 noise^2) + answer, the cost of a Gaussian check and an answer; that stands where NaN would.
    """
    a = np.asarray(orders, dtype=np.float64)[None]
    here = [part[:, None] for part in log_shares(agreement, threshold, noise)]
    found = np.zeros_like(answer)
    for move in (-1.0, 1.0):
        there = [part[:, None] for part in log_shares(np.asarray(agreement) + move, threshold, noise)]
        with np.errstate(invalid="ignore", over="ignore"):
            passed = a * here[0] + (1 - a) * there[0] + (a - 1) * answer
            failed = a * here[1] + (1 - a) * there[1]
            found = np.maximum(found, np.logaddexp(passed, failed) / (a - 1))
    plain = a / (2 * noise * noise) + answer
    return np.where(np.isnan(found), plain, np.minimum(found, plain))


def _log1mexp(x: Floats) -> Floats:
    """log(1 - e^x) for x <= 0. Reference: Maechler 2012."""
    with np.errstate(all="ignore"):
        return np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
