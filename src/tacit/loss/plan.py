"""A plan of private training: public parameters only, from which sampler, clip, noise and event all follow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound
from ..core.errors import BadInput, PrivacyWarning
from ..core.events import Event
from ..core.shown import small, table
from .calibration import least_noise
from .clipping import FLAT, SMALLEST, Clipping
from .conditions import conditions, upper_bound
from .dispatch import privacy_loss
from .sampling import POISSON, Sampling


@dataclass(frozen=True)
class Plan:
    r"""The public parameters of a private training; sampler, clipping, noise and event follow from them.

    It makes `steps` releases of sum_{i in batch} clip(g_i, C) + N(0, (z C)^2 I), C = clip_norm, z = noise_multiplier.
    `public_size` is a public number of units (never the private count); it scales gradients, not the claim. `sampling`
    says how a batch, a share `rate` of the units, is drawn. It is a `Sampling` or its name, and each has its own event:
    "poisson" (each unit with probability rate), "fixed-size" (exactly rate x public_size, without replacement),
    "shuffled" (passes of 1/rate batches in a shuffled order). Or "allocation" (passes in which each unit picks one of
    1/rate steps), "cyclic" (1/rate batches that come round in one order), "full" (all, rate 1). `clipping` is one of
    "flat", "per-layer", "automatic", "adaptive", or a `Clipping`. `bands`: noise correlated over so many steps of
    cyclic batches. `delta`: the delta that the noise was calibrated for, if any. The claim is stated at it,
    and nothing else depends on it.

    Guarantee: `event` under `adjacency`, for the training that follows this plan.
    Caller ensures: one `unit` contributes at most one clipped vector per step.
    """

    public_size: int
    rate: float
    steps: int
    noise_multiplier: float
    clip_norm: float = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    sampling: Sampling = POISSON
    unit: str = "record"
    clipping: Clipping = FLAT
    bands: int = 1
    delta: float | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_: Callable[[str, object], None] = partial(object.__setattr__, self)
        set_("public_size", check.whole("public_size", self.public_size))
        set_("rate", check.probability("rate", self.rate, zero=False))
        set_("steps", check.whole("steps", self.steps))
        set_("noise_multiplier", check.positive("noise_multiplier", self.noise_multiplier))
        set_("clip_norm", check.positive("clip_norm", self.clip_norm))
        if self.clip_norm < SMALLEST:
            raise BadInput(
                f"clip_norm is {small(self.clip_norm)}, so small that its noise is lost in single precision.",
                fix="Use a clip_norm near the norms of gradients, such as 1.",
            )
        set_("adjacency", Adjacency.of(self.adjacency))
        set_("sampling", Sampling.of(self.sampling))
        set_("clipping", Clipping.of(self.clipping))
        set_("bands", check.whole("bands", self.bands))
        if self.delta is not None:
            set_("delta", check.delta(self.delta))
        self.sampling.check(self.adjacency, self.clipping, self.bands)
        self.event  # noqa: B018  a schedule without an event is refused here

    @property
    def identity(self) -> str:
        """Every field of the claim exactly, in one text: keys of noise are derived from it."""
        return f"Plan({', '.join(f'{item.name}={getattr(self, item.name)!r}' for item in fields(self) if item.repr)})"

    def __repr__(self) -> str:
        """What was chosen, exactly; what was left as usual is not repeated."""
        parts = [str(self.public_size)]
        for item in fields(self)[1:]:
            value = getattr(self, item.name)
            if item.repr and value != item.default:
                parts.append(f"{item.name}={_named(value)!r}")
        return f"Plan({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The plan as a table for a notebook."""
        names = ("public_size", "unit", "rate", "steps", "noise_multiplier", "clip_norm", "adjacency")
        rows: list[tuple[str, object]] = [(name, getattr(self, name)) for name in names]
        rows += [("expected_batch", f"{self.expected_batch:.4g}"), ("sampling", self.sampling.name)]
        if self.delta is not None:
            rows.append((f"epsilon at delta {small(self.delta)}", self.bound(self.delta).shown(4)))
        return table("Plan", rows)

    @property
    def event(self) -> Event:
        """What the training releases: all its noisy sums, with the counts that steer the clip norm, if any."""
        return self._event(self.steps)

    def _event(self, steps: int) -> Event:
        release = self.clipping.release(self.noise_multiplier, self.expected_batch)
        return self.sampling.event(release, self.rate, steps, self.public_size, self.bands)

    @property
    def hint(self) -> str:
        """Where to start. The learning rate of other trainings will not do: a gradient has norm at most clip_norm here,
        and noise decides how small steps must be (measured by `benchmarks/accuracy.py`)."""
        rate = 2.0 / self.clip_norm
        return (
            f"Start with SGD at learning rate {rate:.2g} (or {rate / 10:.2g} with momentum 0.9), and average weights "
            f"(ema), which is free; a larger batch than {self.expected_batch:.0f} with fewer steps often gains more."
        )

    @property
    def summary(self) -> str:
        """How long and how noisy the training is, in words."""
        return f"{self.steps} steps, noise multiplier {self.noise_multiplier:.4g}"

    @property
    def steps_per_pass(self) -> int:
        """How many steps a pass over the units has; 1 where there are no passes."""
        return self.sampling.steps_per_pass(self.rate)

    @property
    def steps_per_draw(self) -> int:
        """How many steps share one draw of who takes part: one, a pass, or all."""
        return self.sampling.steps_per_draw(self.rate, self.steps)

    @property
    def sensitivity(self) -> float:
        """Largest change of one step's sum between neighbours; every `clipping` keeps to clip_norm."""
        return self.clip_norm * self.adjacency.sensitivity

    @property
    def expected_batch(self) -> float:
        """rate x public_size: what sums are divided by, a public number."""
        return self.rate * self.public_size

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the plan's bounds assume."""
        return (*conditions(self.event), *self._own)

    @property
    def _own(self) -> tuple[str, ...]:
        return (f"one {self.unit} gives one clipped vector per step",)

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
        return self._bound(self._event(self.sampling.begun(self.rate, step)), delta)

    def calibrated(self, *, epsilon: float, delta: float) -> Plan:
        """This plan with the least noise that keeps its claim at most `epsilon`."""
        self._warn(check.delta(delta))
        target = check.positive("epsilon", epsilon)

        def excess(noise_multiplier: float) -> float:
            event = replace(self, noise_multiplier=noise_multiplier).event
            found = privacy_loss(event, self.adjacency).epsilon(delta).upper
            return math.log(found / target) if found > 0 else -math.inf

        return replace(self, noise_multiplier=least_noise(excess), delta=delta)

    def _bound(self, event: Event, delta: float) -> Bound:
        return self._made(privacy_loss(event, self.adjacency).epsilon(delta).upper, delta, event)

    def _made(self, epsilon: float, delta: float, event: Event) -> Bound:
        return upper_bound(
            epsilon,
            delta,
            event,
            self.adjacency,
            method="privacy-loss distribution",
            unit=self.unit,
            more=self._own,
        )

    def _warn(self, delta: float) -> None:
        if delta >= 1 / self.public_size:
            warnings.warn(
                f"delta {small(delta)} is not below 1/public_size = {small(1 / self.public_size)}: "
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
    sampling: Sampling | str = POISSON,
    clipping: Clipping | str = "flat",
    bands: int = 1,
) -> Plan:
    """A plan that meets (epsilon, delta): rate = batch_size / public_size, steps = epochs / rate, least noise.

    Without `batch_size`: about 2 sqrt(public_size), rounded up to a power of two, at most a quarter of the data.
    Where `sampling` goes in passes, batches are of the nearest size that divides one, and epochs are whole.
    """
    size = check.whole("public_size", public_size)
    if batch_size is None:
        batch_size = min(2 ** math.ceil(math.log2(2 * math.sqrt(size))), max(size // 4, 1))
    batch = check.whole("batch_size", batch_size)
    if batch > size:
        raise BadInput(f"batch_size must be at most public_size {size}, got {batch}.")
    drawn = Sampling.of(sampling)
    rate = drawn.nearest_rate(batch, size)
    steps = drawn.steps(rate, check.positive("epochs", epochs))
    start = Plan(
        size,
        rate,
        steps,
        1.0,
        clip_norm,
        Adjacency.of(adjacency),
        drawn,
        clipping=Clipping.of(clipping),
        bands=bands,
    )
    return start.calibrated(epsilon=epsilon, delta=delta)


def _named(value: object) -> object:
    """The name by which a plan takes a value, where it has one."""
    if isinstance(value, Adjacency):
        return value.value
    known = isinstance(value, Sampling | Clipping) and value == type(value).of(value.name)
    return value.name if known else value  # type: ignore[attr-defined]
