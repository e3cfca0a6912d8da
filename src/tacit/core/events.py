"""Events: frozen, public, serialisable descriptions of a release.

An event holds public parameters only and its meaning never changes: a new meaning is a new event. What it costs is
not its business; `tacit.privacy_loss(event, adjacency)` says that. Counts live in `Repeat` alone, so that no leaf can
forget them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import check
from .errors import BadInput
from .event import SCHEMA as SCHEMA
from .event import Event as Event
from .event import check_event
from .event import family as family
from .event import rescaled as rescaled


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
    r"""One of k categories: the truth with probability e^epsilon / (e^epsilon + k - 1), else another one, uniformly."""

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


@dataclass(frozen=True)
class Poisson(Event):
    """`event` on a sample that takes each record independently with probability `rate`.

    Several releases on one sample are `Poisson(rate, Compose(...))`, never a `Compose` of `Poisson`s.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        self._set("rate", check.probability("rate", self.rate))
        check_event(self.event)


@dataclass(frozen=True)
class TruncatedPoisson(Event):
    """Like `Poisson`, but a sample of more than `cap` records is cut down to `cap` of them, chosen uniformly.

    `size` is the public number of records, which the chance of a cut depends on.
    """

    rate: float
    cap: int
    event: Event
    size: int | None = None

    def __post_init__(self) -> None:
        self._set("rate", check.probability("rate", self.rate))
        self._set("cap", check.whole("cap", self.cap))
        if self.size is not None:
            self._set("size", check.whole("size", self.size))
        check_event(self.event)


@dataclass(frozen=True)
class FixedSize(Event):
    """`event` on a uniform sample of exactly `batch` of `size` records, drawn without replacement."""

    batch: int
    size: int
    event: Event

    def __post_init__(self) -> None:
        self._set("batch", check.whole("batch", self.batch))
        self._set("size", check.whole("size", self.size))
        if self.batch > self.size:
            raise BadInput(f"batch must be at most size {self.size}, got {self.batch}.")
        check_event(self.event)


@dataclass(frozen=True)
class Shuffled(Event):
    """One pass: a secret shuffle puts the records into `batches` batches, and `event` is released on each in turn."""

    batches: int
    event: Event

    def __post_init__(self) -> None:
        self._set("batches", check.whole("batches", self.batches))
        check_event(self.event)


@dataclass(frozen=True)
class Allocation(Event):
    """`steps` releases of `event`; each record, independently, takes part in `times` of them, chosen uniformly.

    With times = 1 this is balls and bins, one pass over the data.
    """

    times: int
    steps: int
    event: Event

    def __post_init__(self) -> None:
        self._set("times", check.whole("times", self.times))
        self._set("steps", check.whole("steps", self.steps))
        if self.times > self.steps:
            raise BadInput(f"times must be at most steps {self.steps}, got {self.times}.")
        check_event(self.event)


@dataclass(frozen=True)
class RepeatAndSelect(Event):
    r"""`event` run K times, K random, and only the best run released.

    `shape` eta > -1: K is truncated negative binomial with mean `mean` (0: logarithmic, 1: geometric);
    None: K is Poisson with mean `mean`, and K = 0 releases nothing.
    """

    event: Event
    mean: float
    shape: float | None = 1.0

    def __post_init__(self) -> None:
        check_event(self.event)
        self._set("mean", check.positive("mean", self.mean))
        if self.shape is not None:
            shape = float(self.shape)
            if not shape > -1:
                raise BadInput(f"shape must be above -1, got {self.shape!r}.")
            if not self.mean > 1:
                raise BadInput(f"mean must be above 1 for a truncated negative binomial, got {self.mean!r}.")
            self._set("shape", shape)


@dataclass(frozen=True)
class MatrixFactorisation(Event):
    r"""C G + N(0, (z s)^2), row after row: C = encoder, row k of G the clipped sum of step k, z = noise_multiplier.

    s bounds the norm of one record's contribution to one step. A record takes part in at most `participations` steps,
    any two of them at least `separation` apart. Row k of `encoder` holds its k entries up to the diagonal, so steps may
    be chosen adaptively; every row released is C G + noise, and sums of gradients are post-processing.
    """

    noise_multiplier: float
    encoder: tuple[tuple[float, ...], ...]
    participations: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("encoder", check.triangle("encoder", self.encoder))
        self._set("participations", check.whole("participations", self.participations))
        self._set("separation", check.whole("separation", self.separation))


@dataclass(frozen=True)
class BandedFactorisation(Event):
    r"""`MatrixFactorisation` of a matrix that need not be written out: c_0 .. c_{b-1} along its first b diagonals.

    The matrix has `steps` rows, and C_kl = c_{k-l} for 0 <= k - l < b, c = coefficients. A record takes part in at most
    `participations` steps, any two of them at least `separation` >= b apart: it never meets its own correlated noise.
    """

    noise_multiplier: float
    coefficients: tuple[float, ...]
    steps: int
    participations: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("coefficients", check.reals("coefficients", self.coefficients))
        self._set("steps", check.whole("steps", self.steps))
        self._set("participations", check.whole("participations", self.participations))
        self._set("separation", check.whole("separation", self.separation))
        if len(self.coefficients) > self.separation:
            raise BadInput(
                f"A banded factorisation has at most separation = {self.separation} coefficients.",
                fix="Write the matrix out in MatrixFactorisation.",
            )


@dataclass(frozen=True)
class ObjectivePerturbation(Event):
    r"""argmin over theta of sum_i f_i(theta) + (lambda/2) |theta|^2 + b . theta,  b ~ N(0, (z s)^2 I), exactly.

    f_i(theta) = l_i(x_i . theta), convex and twice differentiable, with |grad f_i| <= s and second derivatives at most
    smoothness; lambda = regularization, both for the sum, not for the mean; z = noise_multiplier.
    """

    noise_multiplier: float
    smoothness: float
    regularization: float

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("smoothness", check.nonnegative("smoothness", self.smoothness))
        self._set("regularization", check.positive("regularization", self.regularization))


@dataclass(frozen=True)
class LastIterate(Event):
    r"""The last of `steps` iterates of noisy gradient descent, when no other is ever seen:

        theta <- Pi(theta - eta ((sum_{i in batch} grad f_i(theta) + N(0, (z l)^2 I))/b + lambda theta)), b = rate size.

    Every f_i is convex, l-Lipschitz (l = lipschitz) and smoothness-smooth; eta = step_size, lambda = regularization,
    z = noise_multiplier. Batches are Poisson samples of at most `size` records; rate 1 takes all. Pi projects onto a
    convex set of this `diameter`; without one there is no projection. The start does not depend on the data.
    """

    noise_multiplier: float
    steps: int
    step_size: float
    lipschitz: float
    smoothness: float
    size: int
    rate: float = 1.0
    regularization: float = 0.0
    diameter: float | None = None

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "step_size", "lipschitz"):
            self._set(name, check.positive(name, getattr(self, name)))
        for name in ("smoothness", "regularization"):
            self._set(name, check.nonnegative(name, getattr(self, name)))
        for name in ("steps", "size"):
            self._set(name, check.whole(name, getattr(self, name)))
        self._set("rate", check.probability("rate", self.rate, zero=False))
        if self.diameter is not None:
            self._set("diameter", check.positive("diameter", self.diameter))
        steepest = self.smoothness + 2 * self.regularization
        if self.step_size * steepest > 2:
            raise BadInput(
                f"step_size must be at most 2/(smoothness + 2 regularization) = {2 / steepest:g}, "
                f"got {self.step_size:g}: a longer step does not contract."
            )


@dataclass(frozen=True)
class Repeat(Event):
    """`event`, `steps` times, adaptively, each time with fresh randomness. Equals `Compose((event,) * steps)`."""

    event: Event
    steps: int

    def __post_init__(self) -> None:
        check_event(self.event)
        self._set("steps", check.whole("steps", self.steps))


@dataclass(frozen=True)
class Compose(Event):
    """All of `events`, in order, adaptively."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if isinstance(self.events, Event) or not isinstance(self.events, Iterable):
            raise BadInput("Compose takes a sequence of events.")
        self._set("events", tuple(self.events))
        for event in self.events:
            check_event(event)
