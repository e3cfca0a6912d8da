r"""From counts to epsilon. Every estimator here reads the same two limits, so that one joint event pays for all.

A fixed threshold turns runs into counts: `true_positives` of `n_in` runs with the record, `false_positives` of `n_out`
without. Clopper and Pearson limits, each with half of the error, hold together with the stated confidence:

    TPR >= tpr  and  FPR <= fpr.                                                                            (*)

Everything below is a deterministic consequence of (*), so reading several bounds from it costs no further error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import Counts, check, lower_proportion, upper_proportion

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """A lower limit of the true-positive rate and an upper limit of the false-positive rate that hold together."""

    tpr: float
    fpr: float

    @classmethod
    def of(cls, counts: Counts, confidence: float) -> Limits:
        """The two limits that counts give at this confidence."""
        tpr, fpr = both_limits(counts.true_positives, counts.false_positives, counts.n_in, counts.n_out, confidence)
        return cls(float(tpr), float(fpr))


def both_limits(
    true_positives: ArrayLike, false_positives: ArrayLike, n_in: int, n_out: int, confidence: float
) -> tuple[Floats, Floats]:
    """The limits of (*), for one or many counts."""
    check.probability("confidence", confidence, zero=False, one=False)
    each = (1 + confidence) / 2
    return lower_proportion(true_positives, n_in, each), upper_proportion(false_positives, n_out, each)


def ratio_epsilon(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    r"""max(ln((TPR - delta) / FPR), ln((1 - FPR - delta) / (1 - TPR)), 0): both directions of the definition.

    Reference: Kairouz, Oh and Viswanath 2015, Theorem 2.1 (the region of (epsilon, delta)-DP tests).
    """
    tpr, fpr = np.asarray(tpr, float), np.asarray(fpr, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = np.log(np.maximum(tpr - delta, 0.0)) - np.log(fpr)
        backward = np.log(np.maximum(1 - fpr - delta, 0.0)) - np.log1p(-tpr)
    return np.asarray(np.maximum(np.fmax(forward, backward), 0.0))


class Estimator(ABC):
    """A way to read epsilon at `delta` from counts."""

    method: str
    delta: float
    assumptions: ClassVar[tuple[str, ...]] = (
        "runs are independent of each other",
        "how guesses are made was fixed before these runs were looked at",
    )

    @property
    def assumes(self) -> str | None:
        """The family of mechanisms the reading stays in; None when it is true of any mechanism."""
        return None

    @abstractmethod
    def read(self, counts: Counts, confidence: float) -> float:
        """Read the lower bound on epsilon from the counts of a game."""

    def attainable(self, counts: Counts, confidence: float) -> float:
        """What it would have said, had every guess been right."""
        levels = ((counts.n_in, 0),) * len(counts.levels)
        return self.read(Counts(counts.n_in, 0, counts.n_in, counts.n_out, levels), confidence)


class LimitsEstimator(Estimator):
    """An estimator that reads the two limits of (*), and so may share them with others."""

    @abstractmethod
    def epsilon(self, limits: Limits) -> float:
        """The largest epsilon that the limits rule out from below."""

    def read(self, counts: Counts, confidence: float) -> float:
        return self.epsilon(Limits.of(counts, confidence))


@dataclass(frozen=True)
class ClopperPearson(LimitsEstimator):
    """Lower bound for any mechanism, from Clopper-Pearson limits of both rates.

    Reference: Jagielski et al. 2020, section 3; Tramer et al. 2022.
    """

    delta: float
    method = "clopper-pearson"

    def epsilon(self, limits: Limits) -> float:
        return float(ratio_epsilon(limits.tpr, limits.fpr, self.delta))
