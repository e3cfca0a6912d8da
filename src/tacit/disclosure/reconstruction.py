r"""Reconstruct a secret column from answers about subsets: too many answers that are too accurate give it away.

Each of n people holds a bit. An attacker asks how many of a random subset hold a 1, m times, and looks for numbers in
[0, 1] whose sums over the subsets fit all answers best: a linear program. Rounded, and corrected bit by bit where that
fits better, they are the bits of almost everybody as long as errors stay below about sqrt(n)/2.
Reference: Dinur and Nissim 2003, Theorem 3; Dwork, McSherry and Talwar 2007 (linear programming, 1-norm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source, check, source

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
MOST = 4096
"""People whose bits are reconstructed at most: the linear program is dense."""


@dataclass(frozen=True)
class Reconstruction:
    """`bits` that fit the answers; `fractions` are the numbers before rounding, `misfit` the largest error of a sum."""

    bits: Bits
    fractions: Floats
    misfit: float

    def accuracy(self, truth: object) -> float:
        """The share of bits that are right: 0.5 is what guessing gets for fair bits."""
        real = np.asarray(truth).astype(bool)
        if real.shape != self.bits.shape:
            raise BadInput("The truth must hold one bit for each person.")
        return float(np.mean(real == self.bits))


def random_subsets(people: int, queries: int, rng: Source | int | np.random.Generator | None) -> NDArray[np.bool_]:
    """Subsets in which everybody is with probability 1/2: one row for each query."""
    return source(rng).coins((check.whole("queries", queries), check.whole("people", people)))


def reconstruct(subsets: object, answers: object, *, errors: str = "bounded") -> Reconstruction:
    """Find bits whose sums over `subsets` (m x n, 0 or 1) are near `answers` (m numbers).

    errors: "bounded" minimises the largest error, best where noise has a limit; "heavy" minimises the sum of errors,
    best where some answers are far off (Laplace noise).
    """
    matrix, given = _checked(subsets, answers)
    if errors not in ("bounded", "heavy"):
        raise BadInput(f"errors must be bounded or heavy, got {check.told(errors)}.")
    fractions = (_least_largest if errors == "bounded" else _least_sum)(matrix, given)
    bits = _descended(matrix, given, fractions >= 0.5)
    return Reconstruction(bits, fractions, float(np.abs(matrix @ fractions - given).max(initial=0.0)))


def attainable(epsilon: float) -> float:
    """The largest expected share of fair bits that any attacker gets right from an epsilon-DP release.

    Each bit is a test between two neighbouring tables (replace): right with probability at most e^eps/(1 + e^eps).
    Reference: Kairouz, Oh and Viswanath 2015, Theorem 2.1 (the trade-off region at equal priors).
    """
    return 1 / (1 + math.exp(-check.nonnegative("epsilon", epsilon)))


def _checked(subsets: object, answers: object) -> tuple[Floats, Floats]:
    matrix = np.asarray(subsets, dtype=np.float64)
    given = np.asarray(answers, dtype=np.float64).ravel()
    if matrix.ndim != 2 or matrix.shape[0] != given.size or given.size == 0:
        raise BadInput("subsets must be a matrix with one row for each answer.")
    if matrix.shape[1] > MOST:
        raise BadInput(f"At most {MOST:,} people are reconstructed at a time, got {matrix.shape[1]:,}.")
    if not (np.isin(matrix, (0.0, 1.0)).all() and np.isfinite(given).all()):
        raise BadInput("subsets hold 0 or 1, and answers finite numbers.")
    return matrix, given


def _least_largest(matrix: Floats, given: Floats) -> Floats:
    """min t with -t <= Q x - a <= t and 0 <= x <= 1."""
    rows, people = matrix.shape
    ones = np.ones((rows, 1))
    above, below = np.hstack((matrix, -ones)), np.hstack((-matrix, -ones))
    goal = np.r_[np.zeros(people), 1.0]
    return _solved(goal, np.vstack((above, below)), np.r_[given, -given], [(0, 1)] * people + [(0, None)])[:people]


def _least_sum(matrix: Floats, given: Floats) -> Floats:
    """min sum t_i with -t_i <= (Q x - a)_i <= t_i and 0 <= x <= 1."""
    rows, people = matrix.shape
    eye = np.eye(rows)
    sides = np.vstack((np.hstack((matrix, -eye)), np.hstack((-matrix, -eye))))
    goal = np.r_[np.zeros(people), np.ones(rows)]
    return _solved(goal, sides, np.r_[given, -given], [(0, 1)] * people + [(0, None)] * rows)[:people]


def _descended(matrix: Floats, given: Floats, bits: Bits) -> Bits:
    """Flip one bit after another, the best first, while that lowers the sum of squared errors.

    Flipping x_j by d changes it by |q_j|^2 - 2 d <q_j, r>, r = a - Q x: the bits near 1/2 are settled by all answers.
    """
    x, size = bits.astype(np.float64), (matrix**2).sum(axis=0)
    rest = given - matrix @ x
    for _ in range(10 * len(x)):
        step = 1 - 2 * x
        change = size - 2 * step * (matrix.T @ rest)
        best = int(np.argmin(change))
        if change[best] >= -1e-9:
            break
        rest -= matrix[:, best] * step[best]
        x[best] += step[best]
    return x > 0.5


def _solved(goal: Floats, sides: Floats, limits: Floats, ranges: list[tuple[float, float | None]]) -> Floats:
    from scipy.optimize import linprog

    found = linprog(goal, A_ub=sides, b_ub=limits, bounds=ranges, method="highs-ipm")
    if found.x is None:
        raise BadInput("The linear program has no solution.", fix="Are the answers sums over the subsets?")
    return np.asarray(found.x, dtype=np.float64)
