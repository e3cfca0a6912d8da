r"""How the units of a step are drawn: a choice of the plan, from which its event follows.

    poisson      each unit independently with probability `rate`
    fixed-size   exactly rate x size units, uniformly without replacement
    full         everybody
    shuffled     a pass is a uniform order of all units, cut into 1/rate batches of equal size (or one more)
    allocation   a pass is an independent uniform step for each unit (balls and bins)
    cyclic       one shuffle, cut into 1/rate batches that come round in the same order

No two are accounted alike (soundness rule 4). To add one: a class here, its draw in `tacit.train.sample.draw`, and the
cost of its event in `tacit.loss.costs`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput, Unsupported
from ..core.events import Allocation, Event, FixedSize, Gaussian, Poisson, Repeat, Shuffled
from .clipping import Adaptive, Clipping
from .cyclic import cyclic_event


@dataclass(frozen=True)
class Sampling:
    """One way to draw who takes part. `Sampling.of` accepts its name.

    `adjacencies`: the neighbours for which there is a theorem. `words`: a step in half a sentence. `in_passes`: every
    unit takes part once in 1/rate steps. `exact`: the number of units must be the plan's public size.
    """

    name: ClassVar[str]
    words: ClassVar[str]
    adjacencies: ClassVar[tuple[Adjacency, ...]]
    in_passes: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    registry: ClassVar[dict[str, type[Sampling]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls):
            Sampling.registry[cls.name] = cls

    @staticmethod
    def of(sampling: Sampling | str) -> Sampling:
        """The way of sampling with this name, or the value itself."""
        if isinstance(sampling, Sampling):
            return sampling
        if sampling not in Sampling.registry:
            known = "; ".join(f"{name} ({kind.words})" for name, kind in Sampling.registry.items())
            raise BadInput(f"sampling {sampling!r} is not known.", fix=f"Use one of: {known}.")
        return Sampling.registry[sampling]()

    def check(self, adjacency: Adjacency, clipping: Clipping, bands: int) -> None:
        """Refuse a plan for which no theorem covers this kind of batch."""
        if adjacency not in self.adjacencies:
            allowed = " or ".join(self.adjacencies)
            raise Unsupported(f"{self.name} sampling", adjacency, fix=f"Use it with {allowed}.")
        if bands > 1:
            raise BadInput("Correlated noise goes with cyclic batches.", fix='Give sampling="cyclic", or bands=1.')

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        """`release` on `steps` batches that hold a share `rate` of `size` units; noise of so many `bands`."""
        raise NotImplementedError

    def nearest_rate(self, batch: int, size: int) -> float:
        """The rate whose batches are nearest to `batch` of `size` units."""
        return 1 / max(1, round(size / batch)) if self.in_passes else batch / size

    def steps(self, rate: float, epochs: float) -> int:
        """How many steps so many passes over the units are; whole passes where there are passes."""
        return max(1, round(epochs)) * round(1 / rate) if self.in_passes else max(1, round(epochs / rate))

    def steps_per_pass(self, rate: float) -> int:
        """How many steps a pass over the units has; 1 where there are no passes."""
        return round(1 / rate) if self.in_passes else 1

    def steps_per_draw(self, rate: float, steps: int) -> int:
        """How many of a plan's steps share one draw of who takes part."""
        return self.steps_per_pass(rate)

    def begun(self, rate: float, steps: int) -> int:
        """How many steps a claim about the first `steps` counts: a pass that was begun counts whole."""
        one = self.steps_per_pass(rate)
        return -(-steps // one) * one


@dataclass(frozen=True)
class Independent(Sampling):
    """Poisson sampling. Reference: Abadi et al. 2016, section 3; docs/proofs/accounting.md, Lemma 1."""

    name: ClassVar[str] = "poisson"
    words: ClassVar[str] = "each unit independently with probability rate"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = tuple(Adjacency)

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        return Repeat(Poisson(rate, release), steps)


POISSON = Independent()


@dataclass(frozen=True)
class WithoutReplacement(Sampling):
    """Batches of a fixed size; under replace-one the number of units is public."""

    name: ClassVar[str] = "fixed-size"
    words: ClassVar[str] = "exactly rate x public_size units, without replacement"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE,)
    exact: ClassVar[bool] = True

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        if size is not None:
            return Repeat(FixedSize(_batch(rate, size), size, release), steps)
        share = Fraction(check.probability("rate", rate, zero=False)).limit_denominator(10**9)
        return Repeat(FixedSize(share.numerator, share.denominator, release), steps)


@dataclass(frozen=True)
class _InPasses(Sampling):
    """Every unit takes part once in every pass of 1/rate steps."""

    in_passes: ClassVar[bool] = True

    def _passes(self, rate: float, steps: int) -> tuple[int, int]:
        """Steps of a pass, and how many passes there are."""
        batches = whole_passes(check.probability("rate", rate, zero=False), self.name)
        if check.whole("steps", steps) % batches:
            raise BadInput(f"{self.name} sampling goes in passes of {batches} steps, got {steps} steps.")
        return batches, steps // batches


@dataclass(frozen=True)
class InShuffledOrder(_InPasses):
    """A fresh order in every pass, without amplification: one release per pass."""

    name: ClassVar[str] = "shuffled"
    words: ClassVar[str] = "passes of 1/rate batches in a shuffled order"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE, Adjacency.ZERO_OUT)

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        batches, passes = self._passes(rate, steps)
        return Repeat(Shuffled(batches, release), passes)


@dataclass(frozen=True)
class Allocated(_InPasses):
    """Balls and bins. Reference: Chua et al. 2025; docs/proofs/accounting.md, Theorem 5."""

    name: ClassVar[str] = "allocation"
    words: ClassVar[str] = "passes in which each unit picks one of 1/rate steps"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        batches, passes = self._passes(rate, steps)
        return Repeat(Allocation(1, batches, release), passes)


@dataclass(frozen=True)
class InCycles(_InPasses):
    """One order for the whole run, which noise that is correlated between steps needs (see `cyclic`)."""

    name: ClassVar[str] = "cyclic"
    words: ClassVar[str] = "1/rate batches that come round in one order"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = (Adjacency.REPLACE, Adjacency.ZERO_OUT)

    def check(self, adjacency: Adjacency, clipping: Clipping, bands: int) -> None:
        super().check(adjacency, clipping, 1)
        if isinstance(clipping, Adaptive):
            raise BadInput(
                "Cyclic batches need a clip norm that stays.", fix="Use flat, per-layer or automatic clipping."
            )

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        if not isinstance(release, Gaussian):
            raise BadInput("Cyclic batches go with Gaussian noise.")
        return cyclic_event(release.noise_multiplier, bands, steps, whole_passes(rate, self.name))

    def steps_per_draw(self, rate: float, steps: int) -> int:
        return steps

    def begun(self, rate: float, steps: int) -> int:
        return steps


@dataclass(frozen=True)
class Everyone(Sampling):
    """Full batches: everyone takes part in every step."""

    name: ClassVar[str] = "full"
    words: ClassVar[str] = "all units, rate 1"
    adjacencies: ClassVar[tuple[Adjacency, ...]] = tuple(Adjacency)

    def event(self, release: Event, rate: float, steps: int, size: int | None = None, bands: int = 1) -> Event:
        if rate != 1.0:
            raise BadInput(f"full sampling takes every record in every step: rate must be 1, got {rate:g}.")
        return Repeat(release, steps)

    def nearest_rate(self, batch: int, size: int) -> float:
        return 1.0

    def steps(self, rate: float, epochs: float) -> int:
        return max(1, round(epochs))


def whole_passes(rate: float, name: str) -> int:
    """Steps of one pass over the units: 1/rate, which must be a whole number."""
    batches = round(1 / rate)
    if not math.isclose(batches * rate, 1.0, rel_tol=1e-6):
        raise BadInput(f"{name} sampling goes in passes of 1 / rate steps: {1 / rate:g} is not a whole number.")
    return batches


def _batch(rate: float, size: int) -> int:
    """A fixed batch size must be a whole number of records."""
    batch = round(rate * size)
    if not math.isclose(batch, rate * size, rel_tol=1e-9) or batch < 1:
        raise BadInput(
            f"A fixed batch of rate x public_size = {rate * size:g} records is not a whole number.",
            fix="Give rate = batch / public_size.",
        )
    return batch
