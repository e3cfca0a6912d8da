"""Whole procedures: correlated noise over many steps, the minimiser of a noisy objective, the last of many iterates."""

from __future__ import annotations

from dataclasses import dataclass

from .. import check
from ..errors import BadInput
from ..event import Event


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
class CyclicPoisson(Event):
    r"""C G + N(0, (z s)^2), row after row, on samples from `cycle` groups of records that take turns.

    C has `steps` rows and C_kl = c_{k-l} for 0 <= k - l < b, c = coefficients, z = noise_multiplier; row k of G is the
    clipped sum of step k, and s bounds the norm of one record's contribution to one step. Every record belongs to one
    group. Step k samples group k mod `cycle`, each of its records independently with probability `rate`. `cycle` >= b:
    no record meets its own correlated noise.
    """

    noise_multiplier: float
    rate: float
    coefficients: tuple[float, ...]
    steps: int
    cycle: int

    def __post_init__(self) -> None:
        self._set("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        self._set("rate", check.probability("rate", self.rate))
        self._set("coefficients", check.reals("coefficients", self.coefficients))
        self._set("steps", check.whole("steps", self.steps))
        self._set("cycle", check.whole("cycle", self.cycle))
        if len(self.coefficients) > self.cycle:
            raise BadInput(
                f"Cyclic Poisson sampling of {self.cycle} groups takes at most {self.cycle} coefficients.",
                fix="Use at least as many groups as the noise has bands.",
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
