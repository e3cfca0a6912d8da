"""The abstract privacy loss of an event under an adjacency: what it costs, read as certified intervals."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from . import check
from .interval import Interval

SHARES = (0.0, 0.3, 0.1, 0.03, 0.01)
"""Shares of delta tried in `posterior`; each gives a valid bound."""


class PrivacyLoss(ABC):
    """A privacy loss: a commutative monoid under composition, read as certified intervals.

    Laws: `a + b == b + a` in every reading; `n * a` equals a added n times; the loss of `NoOp` is neutral;
    `delta(epsilon)` never rises with epsilon; post-processing never adds.
    """

    @abstractmethod
    def delta(self, epsilon: float) -> Interval:
        """Smallest delta for which (epsilon, delta)-DP holds."""

    @abstractmethod
    def epsilon(self, delta: float) -> Interval:
        """Smallest epsilon for which (epsilon, delta)-DP holds."""

    def deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper ends of `delta` at many rising epsilons."""
        return np.array([self.delta(float(epsilon)).upper for epsilon in epsilons])

    @abstractmethod
    def tradeoff(self, fpr: float) -> Interval:
        """Largest true-positive rate any attack can have at false-positive rate `fpr`."""

    def tradeoffs(self, fprs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Upper ends for `tradeoff` at many false-positive rates, made for speed: some may lie above its own."""
        return np.array([self.tradeoff(float(fpr)).upper for fpr in fprs])

    @abstractmethod
    def advantage(self) -> Interval:
        """Largest true-positive minus false-positive rate of any attack: delta(0)."""

    def accuracy(self, prior: float) -> Interval:
        r"""Largest probability of guessing rightly which of two neighbouring data sets was used, one having `prior`.

        max(p, 1 - p) + min(p, 1 - p) delta(|log(p/(1 - p))|): the best attack's mean belief in what it guesses.
        Reference: docs/proofs/mechanisms.md, Theorem 4.
        """
        p = check.probability("prior", prior)
        rare, common = min(p, 1 - p), max(p, 1 - p)
        if rare == 0:
            return Interval(1.0, 1.0)
        found = self.delta(math.log(common) - math.log(rare))
        return Interval(min(common + rare * found.lower, 1.0), min(common + rare * found.upper, 1.0))

    def posterior(self, prior: float, delta: float = 0.0) -> Interval:
        r"""Largest belief in one of two neighbouring data sets, after the release, of whoever gave it `prior` before.

        Outputs of probability at most `delta` are left out, if that data set is the true one. Odds grow at most by e^l,
        l = epsilon(t delta) - log(1 - t) for every t in [0, 1), and by at least e^epsilon(delta) where it is attained.
        What belief may fall to is 1 - posterior(1 - prior, delta).
        Reference: docs/proofs/mechanisms.md, Theorem 4.
        """
        p, delta = check.probability("prior", prior), check.delta(delta)
        if p in (0.0, 1.0):
            return Interval(p, p)
        least = self.epsilon(delta)
        if delta == 0:
            return Interval(_updated(p, least.lower), _updated(p, least.upper))
        most = min(self.epsilon(share * delta).upper - math.log1p(-share) for share in SHARES)
        return Interval(_updated(p, least.lower), _updated(p, max(most, least.lower)))

    @abstractmethod
    def __add__(self, other: PrivacyLoss) -> PrivacyLoss: ...

    @abstractmethod
    def __rmul__(self, times: int) -> PrivacyLoss: ...


def _updated(prior: float, log_odds: float) -> float:
    """The belief whose odds are e^log_odds times those of `prior`."""
    return prior / (prior + (1 - prior) * math.exp(-log_odds))
