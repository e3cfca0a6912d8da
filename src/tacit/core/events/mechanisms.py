"""Releases that stand alone: noise added to a number, a choice among few, or a guarantee taken as it is stated."""

from __future__ import annotations

from dataclasses import dataclass

from .. import check
from ..errors import BadInput
from ..event import Event


@dataclass(frozen=True)
class Gaussian(Event):
    r"""f(D) + N(0, (z s)^2 I): s bounds the Euclidean norm of one record's contribution, z = noise_multiplier."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True)
class Laplace(Event):
    r"""f(D) + Lap(z s)^d, where s bounds the L1 norm of one record's contribution and z = noise_multiplier."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True)
class RandomizedResponse(Event):
    r"""One of k categories: the truth with probability e^epsilon / (e^epsilon + k - 1), else another one, uniformly.

    Whoever does not take part answers all the same, or how many answer is never seen: a bound says so, and under
    add-remove neighbours nothing would hold otherwise.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))
        self._set("categories", check.whole("categories", self.categories, least=2))


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    r"""f(D) + N_Z(0, (z s)^2) for one integer f: s = sensitivity bounds one contribution, z = noise_multiplier.

    N_Z(0, v) has probability proportional to e^{-k^2/2v} on the integers.
    """

    noise_multiplier: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("sensitivity", check.whole("sensitivity", self.sensitivity))


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    r"""f(D) + Lap_Z(z s)^d for integer f, s = sensitivity bounds the L1 norm of one contribution, z = noise_multiplier.

    Lap_Z(b) has probability proportional to e^{-|k|/b} on the integers.
    """

    noise_multiplier: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("sensitivity", check.whole("sensitivity", self.sensitivity))


@dataclass(frozen=True)
class BoundedRange(Event):
    r"""A choice y with log Pr[M(D) = y]/Pr[M(D') = y] in [t, t + epsilon] for some t: the exponential mechanism."""

    epsilon: float

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))


@dataclass(frozen=True)
class NoisyMax(Event):
    """The index of the largest score plus noise: Gumbel (the exponential mechanism), exponential or Laplace."""

    epsilon: float
    noise: str = "gumbel"

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))
        if self.noise not in ("gumbel", "exponential", "laplace"):
            raise BadInput(f"noise must be gumbel, exponential or laplace, got {self.noise!r}.")


@dataclass(frozen=True)
class AboveThreshold(Event):
    """The first query found above a noisy threshold (sparse vector, one positive answer): epsilon-DP as a whole."""

    epsilon: float

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))


@dataclass(frozen=True)
class ApproximateDP(Event):
    """Anything (epsilon, delta)-DP under the adjacency it is analysed for, of which nothing else is known."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))
        self._set("delta", check.delta(self.delta))


@dataclass(frozen=True)
class PartitionSelection(Event):
    """Keys released only when enough people hold them, (epsilon, delta)-DP as a whole."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        self._set("epsilon", check.nonnegative("epsilon", self.epsilon))
        self._set("delta", check.delta(self.delta))


@dataclass(frozen=True)
class ZCDP(Event):
    r"""Anything with Renyi divergence of order a at most rho a, for all a > 1, and of which nothing else is known."""

    rho: float

    def __post_init__(self) -> None:
        self._set("rho", check.nonnegative("rho", self.rho))


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without protection: epsilon is infinite."""


@dataclass(frozen=True)
class NoOp(Event):
    """Nothing is released."""
