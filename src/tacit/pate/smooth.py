r"""How the data-dependent cost of a run changes from teacher to teacher: its smooth sensitivity, and its distance.

At one order a the cost of a run is f(D) = sum_i psi(k_i, t_i) over queries. t_i are the votes of the winner, and k_i
its lead in steps of 1/STEPS vote, rounded down, where the lead of votes n is the G with

    (classes - 1) P(N(0, 2 s^2) > G) = q(n) = sum_{j != i*} P(N(0, 2 s^2) > n_i* - n_j)

One teacher moves G by at most 2, hence k by at most 2 STEPS, and t by at most 1, in all queries at once. So

    A_d = sum_i max { |psi(k, t) - psi(k', t')| : (k, t) within d such moves of (k_i, t_i), (k', t') one move on }

bounds how far f moves between neighbours at distance d. Then S = max_d e^{-beta d} A_d is a smooth sensitivity:
|f(D) - f(D')| <= S(D) and S(D) <= e^beta S(D'). F_d = sum_i max psi over the same window bounds f at distance d, so the
least d with F_d above a limit moves by at most 1 from neighbour to neighbour.
Reference: Nissim, Raskhodnikova and Smith 2007; Papernot et al. 2018, appendix; docs/proofs/pate.md, Theorems 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from ..core import BadInput
from .aggregators import Aggregator, ConfidentGNMax, Counts, GNMax, InteractiveGNMax
from .dependence import TIE, Floats, gaps, gaussian_curve, joint_curve

STEPS = 4
"""Steps of the lead in one vote."""
ROOM = 1e-9
"""Relative room for the rounding of sums, which floating point computes to about 1e-12."""


def lead(counts: Counts, noise: float) -> NDArray[np.int64]:
    """k for every query: never more than the true lead."""
    classes = counts.shape[1]
    log_q = logsumexp(log_ndtr(-gaps(counts) / (math.sqrt(2.0) * noise)), axis=1)
    found = -ndtri_exp(np.minimum(log_q - math.log(classes - 1), math.log(0.5))) * math.sqrt(2.0) * noise
    return np.asarray(np.floor(np.clip(found * STEPS * (1 - ROOM), 0, None)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Cost:
    """psi as a table (leads, votes of the winner); for a rule without a check the votes make no difference."""

    table: Floats
    noise: float
    order: float

    @classmethod
    def of(cls, rule: Aggregator, teachers: int, classes: int, order: float) -> Cost:
        if isinstance(rule, InteractiveGNMax) or not isinstance(rule, GNMax | ConfidentGNMax):
            raise BadInput(
                f"No smooth sensitivity is known here for {type(rule).__name__}.", fix="Use GNMax or ConfidentGNMax."
            )
        places = np.arange(teachers * STEPS + 1) / STEPS
        log_q = log_ndtr(-(places - TIE) / (math.sqrt(2.0) * rule.noise_answer)) + math.log(classes - 1)
        log_q, orders = np.minimum(log_q, math.log1p(-1.0 / classes)), np.array([order])
        answer = np.minimum.accumulate(gaussian_curve(log_q, rule.noise_answer, orders)[:, 0])
        if isinstance(rule, GNMax):
            return cls(answer[:, None], rule.noise_answer, order)
        shape = (places.size, teachers + 1)
        votes = np.broadcast_to(np.arange(teachers + 1.0), shape).ravel()
        answers = np.broadcast_to(answer[:, None], shape).reshape(-1, 1)
        table = joint_curve(votes, rule.threshold, rule.noise_select, answers, orders).reshape(shape)
        return cls(table, rule.noise_answer, order)

    def _place(self, counts: Counts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        rows, columns = self.table.shape
        return np.minimum(lead(counts, self.noise), rows - 1), np.minimum(counts.max(axis=1), columns - 1)

    def total(self, counts: Counts) -> float:
        """The sum f of the costs psi of all queries; computed from votes, so private."""
        return float(self.table[self._place(counts)].sum())

    def largest_sensitivity(self, queries: int) -> float:
        """A public number that S never exceeds, whatever the votes on so many queries are."""
        return float(self._jumps().max()) * queries * (1 + ROOM) + self._rounding(queries)

    def sensitivity(self, counts: Counts, beta: float) -> float:
        """S, a little enlarged."""
        place, jump = self._place(counts), self._jumps()
        ceiling, most, distance = float(jump.max()) * len(counts), 0.0, 0
        while ceiling * math.exp(-beta * distance) > most:
            most = max(most, float(jump[place].sum()) * math.exp(-beta * distance))
            jump, distance = widened(jump), distance + 1
        return most * (1 + ROOM) + self._rounding(len(counts))

    def distance(self, counts: Counts, limit: float, most: int) -> int:
        """How many teachers must change before the cost can be above `limit`, minus 1: -1 where it is now; at most
        `most`.
        """
        place, table = self._place(counts), self.table
        for moved in range(most + 1):
            if float(table[place].sum()) * (1 + ROOM) > limit:
                return moved - 1
            wider = widened(table)
            if np.array_equal(wider, table):  # nobody can make it cost more
                break
            table = wider
        return most

    def _rounding(self, queries: int) -> float:
        """A public number above the error of f in floating point."""
        return float(self.table.max()) * queries * 2.0**-45

    def _jumps(self) -> Floats:
        """The largest change of psi when one vote changes, for every entry of the table."""
        highest, lowest = widened(self.table), -widened(-self.table)
        return np.asarray(np.maximum(highest - self.table, self.table - lowest))


def widened(table: Floats) -> Floats:
    """Largest entry that one changed vote can reach: the lead moves by up to 2, the winner's count by up to 1."""
    return np.asarray(maximum_filter(table, (4 * STEPS + 1, 3), mode="nearest"))
