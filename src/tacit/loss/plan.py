"""A plan of private training: public parameters only, from which sampler, clip, noise and event all follow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound, Side
from ..core.errors import BadInput, PrivacyWarning, Unsupported
from ..core.events import Event, family
from .calibration import calibrate
from .dispatch import privacy_loss
from .reading import samplings, training_event


@dataclass(frozen=True)
class Plan:
    r"""`steps` releases of sum_{i in batch} clip(g_i, C) + N(0, (z C)^2 I), C = clip_norm, z = noise_multiplier.

    `public_size` is a public number of records (never the private count); it scales gradients, not the claim.

    Guarantee: `event` under `adjacency`, for the training that follows this plan.
    Caller ensures: one `unit` contributes at most one clipped vector per step.
    """

    public_size: int
    rate: float
    steps: int
    noise_multiplier: float
    clip_norm: float = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    sampling: str = "poisson"
    unit: str = "record"

    def __post_init__(self) -> None:
        set_: Callable[[str, object], None] = partial(object.__setattr__, self)
        set_("public_size", check.whole("public_size", self.public_size))
        set_("rate", check.probability("rate", self.rate, zero=False))
        set_("steps", check.whole("steps", self.steps))
        set_("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        set_("clip_norm", check.positive("clip_norm", self.clip_norm))
        set_("adjacency", Adjacency.of(self.adjacency))
        if self.sampling != "poisson":
            raise Unsupported(f"training with {self.sampling} sampling", self.adjacency, fix="Use poisson.")

    @property
    def event(self) -> Event:
        """What the training releases: all its noisy sums."""
        return training_event(self.noise_multiplier, self.rate, self.steps)

    @property
    def sensitivity(self) -> float:
        """Largest change of one step's sum between neighbours."""
        return self.clip_norm * self.adjacency.sensitivity

    @property
    def expected_batch(self) -> float:
        """rate x public_size: what sums are divided by, a public number."""
        return self.rate * self.public_size

    def bound(self, delta: float) -> Bound:
        """The proven claim for the whole plan."""
        self._warn(check.delta(delta))
        return self._bound(self.event, delta)

    def spent(self, step: int, delta: float) -> Bound:
        """What the first `step` steps have released so far; a claim about them alone (soundness rule 3)."""
        step = check.whole("step", step, least=0)
        if step > self.steps:
            raise BadInput(f"step must be at most {self.steps}, got {step}.")
        if step == 0:
            return self._made(0.0, check.delta(delta), self.event)
        return self._bound(replace(self, steps=step).event, delta)

    def calibrated(self, *, epsilon: float, delta: float) -> Plan:
        """The same plan with the least noise that keeps its claim at most `epsilon`."""
        self._warn(check.delta(delta))
        setting = calibrate(epsilon=epsilon, delta=delta, rate=self.rate, steps=self.steps, adjacency=self.adjacency)
        return replace(self, noise_multiplier=setting.noise_multiplier)

    def _bound(self, event: Event, delta: float) -> Bound:
        return self._made(privacy_loss(event, self.adjacency).epsilon(delta).upper, delta, event)

    def _made(self, epsilon: float, delta: float, event: Event) -> Bound:
        return Bound(
            epsilon=epsilon,
            delta=delta,
            side=Side.UPPER,
            confidence=1.0,
            method="privacy-loss distribution",
            adjacency=self.adjacency,
            unit=self.unit,
            assumes=family(event),
            assumptions=(*(text for _, text in samplings(event)), f"one {self.unit} gives one clipped vector per step"),
        )

    def _warn(self, delta: float) -> None:
        if delta >= 1 / self.public_size:
            warnings.warn(
                f"delta {delta:g} is not below 1/public_size = {1 / self.public_size:g}: "
                "publishing a whole record now and then would be allowed.",
                PrivacyWarning,
                stacklevel=3,
            )


def plan(
    public_size: int,
    *,
    epsilon: float,
    delta: float,
    epochs: float = 20,
    batch_size: int | None = None,
    clip_norm: float = 1.0,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Plan:
    """A plan that meets (epsilon, delta): rate = batch_size / public_size, steps = epochs / rate, least noise.

    Without `batch_size`: about 2 sqrt(public_size), rounded up to a power of two, at most a quarter of the data.
    """
    size = check.whole("public_size", public_size)
    if batch_size is None:
        batch_size = min(2 ** math.ceil(math.log2(2 * math.sqrt(size))), max(size // 4, 1))
    batch = check.whole("batch_size", batch_size)
    if batch > size:
        raise BadInput(f"batch_size must be at most public_size {size}, got {batch}.")
    rate = batch / size
    steps = max(1, round(check.positive("epochs", epochs) / rate))
    start = Plan(size, rate, steps, 1.0, clip_norm, Adjacency.of(adjacency))
    return start.calibrated(epsilon=epsilon, delta=delta)
