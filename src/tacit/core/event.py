"""What every event is: frozen, registered by name, the same after a trip through JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, cast

from . import check
from .errors import BadInput
from .json_text import Json, parsed

SCHEMA = "tacit.event/1"


@dataclass(frozen=True)
class Event:
    """What was released, in public parameters. Subclasses register themselves by name."""

    registry: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        Event.registry[cls.__name__] = cls

    def to_json(self) -> Json:
        """The event as values for JSON, with its schema."""
        return {"schema": SCHEMA, **_encode(self)}

    @staticmethod
    def from_json(data: dict[str, object] | str) -> Event:
        """The event that JSON values or text describe; bad input is refused in one sentence."""
        if isinstance(data, str):
            data = parsed(data, "The event")
        if not isinstance(data, dict):
            raise BadInput("An event is a JSON object with a `type`.")
        schema = data.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise BadInput(f"The event has schema {str(schema)[:60]!r}; this version reads {SCHEMA!r}.")
        try:
            event = _decode({key: value for key, value in data.items() if key != "schema"})
            hash(event)  # whatever walks through an event later goes as deep as this does
        except RecursionError:
            raise BadInput("The event is nested too deeply.") from None
        check_event(event)
        return cast(Event, event)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def walk(event: Event) -> Iterator[Event]:
    """The event and every event inside it, outer ones first; whoever asks what an event contains asks here."""
    yield event
    for inner in inside(event):
        yield from walk(inner)


def inside(event: Event) -> tuple[Event, ...]:
    """The events that an event is directly made of."""
    values = [getattr(event, field_.name) for field_ in fields(event)]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return tuple(item for item in flat if isinstance(item, Event))


def family(event: Event) -> str:
    """The event with its noise left open: the family a curve test reads its bound from.

    Two events of one family differ in noise multiplier alone, and their trade-off curves are ordered by it.
    """
    if [field_.name for field_ in fields(event)] == ["noise_multiplier"]:
        return type(event).__name__
    parts = []
    for field_ in fields(event):
        if field_.name == "noise_multiplier":
            continue
        value = getattr(event, field_.name)
        if isinstance(value, Event):
            parts.append(family(value))
        elif isinstance(value, tuple):
            parts.extend(family(item) if isinstance(item, Event) else _short(item) for item in value)
        else:
            parts.append(f"{field_.name}={value!r}")
    return f"{type(event).__name__}({', '.join(parts)})"


def rescaled(event: Event, factor: float) -> Event:
    """Multiply every noise multiplier of an event by `factor`; the family stays, and a larger factor is more noise.

    An event without noise to scale is returned as it is.
    """
    check.positive("factor", factor)
    changed: dict[str, object] = {}
    for field_ in fields(event):
        value = getattr(event, field_.name)
        if field_.name == "noise_multiplier":
            changed[field_.name] = factor * value
        elif isinstance(value, Event):
            changed[field_.name] = rescaled(value, factor)
        elif isinstance(value, tuple):
            changed[field_.name] = tuple(rescaled(item, factor) if isinstance(item, Event) else item for item in value)
    return replace(event, **changed)


def _short(value: object) -> str:
    """Short values as they are, long ones by their fingerprint."""
    text = repr(value)
    return text if len(text) <= 60 else f"#{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def check_event(event: object) -> None:
    if not isinstance(event, Event):
        raise BadInput(f"An event was expected, got {type(event).__name__}.")


def _encode(value: object) -> Any:
    if isinstance(value, Event):
        body = {field_.name: _encode(getattr(value, field_.name)) for field_ in fields(value)}
        return {"type": type(value).__name__, **body}
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _decode(value: object) -> object:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    name = value.get("type")
    cls = Event.registry.get(str(name))
    if cls is None:
        raise BadInput(
            f"Event type {str(name)[:60]!r} is not known.", fix=f"Known types: {', '.join(sorted(Event.registry))}."
        )
    arguments = {key: _decode(item) for key, item in value.items() if key != "type"}
    try:
        return cls(**arguments)
    except BadInput:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError, RecursionError):
        allowed = ", ".join(field_.name for field_ in fields(cls))
        raise BadInput(f"Event {name} takes the fields: {allowed or 'none'}.") from None
