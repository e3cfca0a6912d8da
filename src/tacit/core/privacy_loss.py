"""What an event costs under an adjacency, as the other rooms see it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .interval import Interval


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

    @abstractmethod
    def tradeoff(self, fpr: float) -> Interval:
        """Largest true-positive rate any attack can have at false-positive rate `fpr`."""

    @abstractmethod
    def advantage(self) -> Interval:
        """Largest true-positive minus false-positive rate of any attack: delta(0)."""

    @abstractmethod
    def __add__(self, other: PrivacyLoss) -> PrivacyLoss: ...

    @abstractmethod
    def __rmul__(self, times: int) -> PrivacyLoss: ...
