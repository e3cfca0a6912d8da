"""Events: frozen, public, serialisable descriptions of a release.

An event holds public parameters only and its meaning never changes: a new meaning is a new event. What it costs is
not its business; `tacit.privacy_loss(event, adjacency)` says that. Counts live in `Repeat` alone, so that no leaf can
forget them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from . import check
from .errors import BadInput

SCHEMA = "tacit.event/1"


@dataclass(frozen=True)
class Event:
    """What was released, in public parameters. Subclasses register themselves by name."""

    registry: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Event.registry[cls.__name__] = cls

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **_encode(self)}

    @staticmethod
    def from_json(data: dict[str, Any] | str) -> Event:
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except json.JSONDecodeError as error:
                raise BadInput(f"The event is not JSON (line {error.lineno}, column {error.colno}).") from None
        if not isinstance(data, dict):
            raise BadInput("An event is a JSON object with a `type`.")
        schema = data.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise BadInput(f"The event has schema {schema!r}; this version reads {SCHEMA!r}.")
        return _decode({key: value for key, value in data.items() if key != "schema"})

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Gaussian(Event):
    r"""f(D) + N(0, (z s)^2 I), where s bounds the Euclidean norm of one record's contribution and z = noise_multiplier."""

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
        _check_event(self.event)


@dataclass(frozen=True)
class Repeat(Event):
    """`event`, `steps` times, adaptively, each time with fresh randomness. Equals `Compose((event,) * steps)`."""

    event: Event
    steps: int

    def __post_init__(self) -> None:
        _check_event(self.event)
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
            _check_event(event)


def family(event: Event) -> str:
    """The event with its noise left open: the family a curve test reads its bound from.

    Two events of one family differ in noise multiplier alone, and their trade-off curves are ordered by it.
    """
    if isinstance(event, Gaussian | Laplace):
        return type(event).__name__
    parts = []
    for field_ in fields(event):
        value = getattr(event, field_.name)
        if isinstance(value, Event):
            parts.append(family(value))
        elif isinstance(value, tuple):
            parts.extend(family(item) if isinstance(item, Event) else repr(item) for item in value)
        else:
            parts.append(f"{field_.name}={value!r}")
    return f"{type(event).__name__}({', '.join(parts)})"


def rescaled(event: Event, factor: float) -> Event:
    """The same family with every noise multiplier times `factor`: more noise for a larger factor.

    An event without noise to scale is returned as it is.
    """
    check.positive("factor", factor)
    changed: dict[str, Any] = {}
    for field_ in fields(event):
        value = getattr(event, field_.name)
        if field_.name == "noise_multiplier":
            changed[field_.name] = factor * value
        elif isinstance(value, Event):
            changed[field_.name] = rescaled(value, factor)
        elif isinstance(value, tuple):
            changed[field_.name] = tuple(rescaled(item, factor) if isinstance(item, Event) else item for item in value)
    return replace(event, **changed)


def _check_event(event: object) -> None:
    if not isinstance(event, Event):
        raise BadInput(f"An event was expected, got {type(event).__name__}.")


def _encode(value: Any) -> Any:
    if isinstance(value, Event):
        body = {field_.name: _encode(getattr(value, field_.name)) for field_ in fields(value)}
        return {"type": type(value).__name__, **body}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    name = value.get("type")
    cls = Event.registry.get(str(name))
    if cls is None:
        raise BadInput(f"Event type {name!r} is not known.", fix=f"Known types: {', '.join(sorted(Event.registry))}.")
    arguments = {key: _decode(item) for key, item in value.items() if key != "type"}
    try:
        return cls(**arguments)
    except TypeError:
        allowed = ", ".join(field_.name for field_ in fields(cls))
        raise BadInput(f"Event {name} takes the fields: {allowed or 'none'}.") from None
