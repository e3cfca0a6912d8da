"""Who takes part in a release: an event applied to a random part of the records."""

from __future__ import annotations

from dataclasses import dataclass

from .. import check
from ..errors import BadInput
from ..event import Event, check_event


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
