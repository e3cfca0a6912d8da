"""Events made of other events: repeated, one after another, or repeated with only the best released."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .. import check
from ..errors import BadInput
from ..event import Event, check_event


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


@dataclass(frozen=True)
class OneOf(Event):
    """One of `events`, drawn without looking at the records. Which one it was may be told."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if isinstance(self.events, Event) or not isinstance(self.events, Iterable):
            raise BadInput("OneOf takes a sequence of events.")
        self._set("events", tuple(self.events))
        if not self.events:
            raise BadInput("OneOf needs at least one event.")
        for event in self.events:
            check_event(event)


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
