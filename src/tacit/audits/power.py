r"""The chance that a test refutes: exactly, for rates that a faulty training would have.

Hits are Binomial(n_in, p) and alarms Binomial(n_out, q). A test refutes a claim from some number of hits on, which
rises with the alarms; so its power is

    \sum_a P[alarms = a] P[hits >= h(a)],    h(a) the fewest hits that refute at a alarms.

For events h is computed at some numbers of alarms, and in between that of the next larger one is used, so the power is
never overstated. A sequential game averages two e-processes, so it is enough that one of them
reaches twice the need. Only the e-process on counts at one threshold is used here, which understates the power.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..core import Claim, Counts, Estimate, lower_proportion, upper_proportion
from .bounds.anytime import Anytime, AnytimeCurve
from .bounds.estimators import ClopperPearson
from .bounds.exact import ExactCurve

Whole = NDArray[np.int64]
GROWS = 1.2
"""How fast the numbers of alarms grow at which the fewest hits are computed, past the first few."""
CONFIDENCE = 0.95


@dataclass
class Power:
    """The power of the test that judged a game: its claim, confidence, and numbers of runs."""

    claim: Claim
    confidence: float
    n_in: int
    n_out: int
    sequential: bool = False
    known: dict[int, int] = field(default_factory=dict)

    def chance(self, counts: Counts, note: str) -> Estimate:
        """The power at rates that runs with a planted fault have shown, with limits for both rates (Bonferroni)."""
        each = 1 - (1 - CONFIDENCE) / 4
        p, q = counts.true_positives / counts.n_in, counts.false_positives / counts.n_out
        low = self.at(
            float(lower_proportion(counts.true_positives, counts.n_in, each)),
            float(upper_proportion(counts.false_positives, counts.n_out, each)),
        )
        high = self.at(
            float(upper_proportion(counts.true_positives, counts.n_in, each)),
            float(lower_proportion(counts.false_positives, counts.n_out, each)),
        )
        high = max(low, high)  # sums that are both 1 differ by their rounding
        middle = min(max(self.at(p, q), low), high)
        return Estimate(middle, low, high, CONFIDENCE, counts.n_in + counts.n_out, note)

    def at(self, p: float, q: float) -> float:
        """P[the claim is refuted] at a true-positive rate p and a false-positive rate q."""
        alarms = np.arange(self.n_out + 1)
        weight = stats.binom.pmf(alarms, self.n_out, q)
        likely = alarms[weight > 1e-9]
        nodes = self.nodes[np.searchsorted(self.nodes, likely)]
        use = np.array([self.fewest(int(node)) for node in nodes])
        return float(min(1.0, np.sum(weight[likely] * stats.binom.sf(use - 1, self.n_in, p))))

    @functools.cached_property
    def nodes(self) -> Whole:
        """Numbers of alarms from none to all."""
        found = [0]
        while found[-1] < self.n_out:
            found.append(min(self.n_out, max(found[-1] + 1, int(GROWS * found[-1]))))
        return np.array(found)

    def fewest(self, alarms: int) -> int:
        """The fewest hits that refute at so many alarms; one more than there are runs when none do."""
        if alarms not in self.known:
            low, high = alarms * self.n_in // max(self.n_out, 1), self.n_in + 1  # no fewer can be too many
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if self.refuted(middle, alarms) else (middle + 1, high)
            self.known[alarms] = low
        return self.known[alarms]

    def refuted(self, hits: int, alarms: int) -> bool:
        """Whether these counts refute the claim."""
        if hits > self.n_in:
            return True
        return self._test(Counts(hits, alarms, self.n_in, self.n_out))

    @property
    def _test(self) -> Callable[[Counts], bool]:
        bound, event = self.claim.bound, self.claim.event
        confidence = (1 + self.confidence) / 2 if self.sequential else self.confidence
        if event is None and self.sequential:
            return lambda counts: Anytime(bound.delta).ruled_out(bound.epsilon, counts, confidence)
        if event is None:
            return lambda counts: ClopperPearson(bound.delta).read(counts, self.confidence) > bound.epsilon
        use = AnytimeCurve if self.sequential else ExactCurve
        return lambda counts: use(event, bound.adjacency, bound.delta).ruled_out(1.0, counts, confidence)
