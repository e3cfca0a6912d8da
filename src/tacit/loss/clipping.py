r"""How one contribution is kept within `clip_norm`: a choice of the plan, from which its releases follow.

With G the gradient of one unit by all trained parameters together and C = clip_norm, a contribution is

    flat        min(1, C/|G|) G
    per layer   (min(1, C_l/|G_l|) G_l)_l with \sum_l C_l^2 = C^2, where G_l is the part of G in layer l
    automatic   C/(|G| + gamma) G
    adaptive    flat, with a C that follows a quantile of the norms, released each step

Guarantee: its norm is at most C in all four (per layer: the root of the sum of squares of the C_l). So one unit moves a
step's sum by at most C under add-remove and zero-out, and by 2 C under replace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..core import check
from ..core.errors import BadInput
from ..core.events import Compose, Event, Gaussian

SMALLEST = 1e-20
"""The least C: noise of a smaller one may be lost in single precision."""
DECISION = 0.5
"""What one unit adds to a count of yes and no, centred: plus or minus a half."""


@dataclass(frozen=True)
class Clipping:
    """One way to bound a contribution. `Clipping.of` accepts its name."""

    name: ClassVar[str]
    registry: ClassVar[dict[str, type[Clipping]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Clipping.registry[cls.name] = cls

    @staticmethod
    def of(clipping: Clipping | str) -> Clipping:
        """The kind of clipping with this name, or the value itself."""
        if isinstance(clipping, Clipping):
            return clipping
        if clipping not in Clipping.registry:
            raise BadInput(f"clipping {clipping!r} is not known.", fix=f"Use one of: {', '.join(Clipping.registry)}.")
        return Clipping.registry[clipping]()

    def release(self, noise_multiplier: float, expected_batch: float) -> Event:
        """What one step releases about its sample."""
        return Gaussian(noise_multiplier)

    def shares(self, layers: tuple[str, ...]) -> tuple[float, ...]:
        """The clip norm of every group of parameters as a share of C; their squares add up to 1."""
        return (1.0,)


@dataclass(frozen=True)
class Flat(Clipping):
    """The whole gradient is shortened to C where it is longer. Reference: Abadi et al. 2016, Algorithm 1."""

    name: ClassVar[str] = "flat"


FLAT = Flat()


@dataclass(frozen=True)
class PerLayer(Clipping):
    r"""Every layer's part is shortened on its own, to C_l = C w_l / (\sum_k w_k^2)^{1/2}.

    `weights` names layers or blocks (a module's path covers what lies below it) with their w_l; without it every module
    that holds parameters has the same. Reference: McMahan et al. 2018, section 3 (per-layer clipping).
    """

    name: ClassVar[str] = "per-layer"
    weights: tuple[tuple[str, float], ...] | Mapping[str, float] = ()

    def __post_init__(self) -> None:
        pairs = self.weights.items() if isinstance(self.weights, Mapping) else self.weights
        checked = tuple((str(layer), check.positive(f"the weight of {layer}", weight)) for layer, weight in pairs)
        object.__setattr__(self, "weights", checked)

    def shares(self, layers: tuple[str, ...]) -> tuple[float, ...]:
        given = dict(self.weights)
        weights = [given.get(layer, 1.0) for layer in layers]
        total = math.sqrt(math.fsum(weight**2 for weight in weights))
        return tuple(weight / total for weight in weights)


@dataclass(frozen=True)
class Automatic(Clipping):
    """Every gradient is brought to length near C, short ones too: C |G|/(|G| + gamma) < C, so C scales the learning
    rate and need not be tuned. Reference: Bu et al. 2023 (Automatic Clipping), section 4 (AUTO-S, gamma 0.01)."""

    name: ClassVar[str] = "automatic"
    gamma: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check.positive("gamma", self.gamma))


@dataclass(frozen=True)
class Adaptive(Clipping):
    r"""Clipping at a norm C that follows the `quantile` of the gradients' norms.

    After every step C <- C e^{-speed (b - quantile)}, where

        b = 1/2 + (\sum_i (1[|G_i| <= C] - 1/2) + N(0, (z_b/2)^2)) / expected_batch

    is released beside the sum: one unit moves the count by at most 1/2, so it is a Gaussian of multiplier z_b =
    `count_noise` on the same sample. By default z_b = expected_batch / 10, a standard deviation of a twentieth of b.
    The plan's `clip_norm` is where C starts. Reference: Andrew et al. 2021, Algorithm 1 and Theorem 1.
    """

    name: ClassVar[str] = "adaptive"
    quantile: float = 0.5
    speed: float = 0.2
    count_noise: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantile", check.probability("quantile", self.quantile))
        object.__setattr__(self, "speed", check.positive("speed", self.speed))
        if self.count_noise is not None:
            object.__setattr__(self, "count_noise", check.positive("count_noise", self.count_noise))

    def count_multiplier(self, expected_batch: float) -> float:
        """z_b: noise of the count over the half that one unit moves it."""
        return expected_batch / 10 if self.count_noise is None else self.count_noise

    def release(self, noise_multiplier: float, expected_batch: float) -> Event:
        return Compose((Gaussian(noise_multiplier), Gaussian(self.count_multiplier(expected_batch))))

    def next(self, clip_norm: float, noisy_count: float, expected_batch: float) -> float:
        r"""The next C from \sum_i (b_i - 1/2) plus noise: post-processing of what was released."""
        share = min(max(DECISION + noisy_count / expected_batch, 0.0), 1.0)
        return max(clip_norm * math.exp(-self.speed * (share - self.quantile)), SMALLEST)
