"""What a private release gives back: the noisy value, its error, what it cost, and who had to be trusted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import check
from .adjacency import Adjacency
from .charger import Receipt
from .errors import BadInput
from .event import Event
from .json_text import Json, parsed
from .shown import remains, significant, table

SCHEMA = "tacit.answer/1"
KINDS, LONGEST = "biufUO", 2**16
"""Kinds of arrays that are released, and the most bytes of one entry."""
DATA_DEPENDENT = "error depends on the data"
TRUST = ("central", "local")

WRITTEN: dict[str, tuple[type, Callable[[Any], str], Callable[[str], object]]] = {
    "float": (float, repr, float),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (datetime, datetime.isoformat, datetime.fromisoformat),
    "decimal": (Decimal, str, Decimal),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "whole": (int, hex, lambda digits: int(digits, 16)),
    "half": (str, lambda text: text.encode("utf-8", "surrogatepass").hex(), lambda code: _halves(bytes.fromhex(code))),
    "text": (type(None), str, str),
}
"""Keys that JSON cannot hold, and how they are written; any other object is kept as its text, and never raises: an
answer that could not be stored would be drawn a second time for one charge."""
WHOLE = 10**300
"""Whole numbers below this are written as they are: readers refuse numbers of very many digits."""
Value = Any
"""A number, an array, an index, a list of keys, a dictionary of keys and numbers, or None."""


@dataclass(frozen=True)
class Answer:
    r"""A released value with its public description.

    With probability `confidence` over the noise, the value is off by at most `error` (per entry, where it is an array);
    both were known before the release. `error` None means that no such number exists: then `notes` says
    "error depends on the data". The error covers noise and rounding, never clipping or sampling.

    `event` is what was charged; epsilon holds under `adjacency`. `receipt` is the ledger's, None without a ledger.
    `trust`: "central" when whoever ran the release saw the true values; "local" when every person added noise alone.
    `asked` is a digest of the public settings that neither the release nor the event names. A key is for one digest.
    """

    value: Value
    event: Event
    release: str
    error: float | NDArray[np.float64] | None = None
    confidence: float = 0.95
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    receipt: Receipt | None = None
    trust: str = "central"
    randomness: str = ""
    notes: tuple[str, ...] = field(default=())
    asked: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", check.probability("confidence", self.confidence, zero=False, one=False))
        object.__setattr__(self, "adjacency", Adjacency.of(self.adjacency))
        if self.trust not in TRUST:
            raise BadInput(f"trust must be central or local, got {self.trust!r}.")

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "release": self.release,
            "value": _encode(self.value),
            "error": _encode(self.error),
            "confidence": self.confidence,
            "event": self.event.to_json(),
            "adjacency": self.adjacency.value,
            "receipt": None if self.receipt is None else self.receipt.to_json(),
            "trust": self.trust,
            "randomness": self.randomness,
            "notes": list(self.notes),
            "asked": self.asked,
        }

    def text(self) -> str:
        """The answer as one line of JSON; `Answer.from_json` gives it back bit for bit."""
        return json.dumps(self.to_json(), allow_nan=False)

    @classmethod
    def from_json(cls, data: dict[str, object] | str) -> Answer:
        """The answer that `to_json` or `text` wrote; whatever is wrong with it is one sentence."""
        if isinstance(data, str):
            data = parsed(data, "The answer")
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise BadInput(f"An answer is a JSON object of schema {SCHEMA!r}.")
        try:
            return cls._of(data)
        except BadInput:
            raise
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            raise BadInput("The answer is damaged: a part of it is missing or of another kind.") from None

    @classmethod
    def _of(cls, data: Json) -> Answer:
        receipt = data["receipt"]
        return cls(
            value=_decode(data["value"]),
            event=Event.from_json(data["event"]),
            release=str(data["release"]),
            error=_decode(data["error"]),
            confidence=float(data["confidence"]),
            adjacency=Adjacency.of(data["adjacency"]),
            receipt=None if receipt is None else Receipt.from_json(receipt),
            trust=str(data["trust"]),
            randomness=str(data["randomness"]),
            notes=tuple(map(str, data["notes"])),
            asked=str(data.get("asked", "")),
        )

    def __repr__(self) -> str:
        return f"Answer({self.release}: {_shown(self.value)} {self._off()}; {self.event}, {self.adjacency.value})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("value", _shown(self.value)), ("error", self._off())]
        rows += [("event", self.event), ("neighbours", self.adjacency.value), ("trust", self.trust)]
        rows += [("remaining", remains(self.receipt.remaining))] if self.receipt else [("ledger", "none was charged")]
        return table(self.release, [*rows, *(("note", note) for note in self.notes)])

    def _off(self) -> str:
        if self.error is None:
            return f"({DATA_DEPENDENT})" if DATA_DEPENDENT in self.notes else "(no error is stated)"
        return f"within {significant(float(np.max(self.error)), 4)} at confidence {self.confidence:.10g}"


def _shown(value: Value) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array of shape {value.shape}"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _encode(value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, np.generic):
        return _encode_scalar(value)
    if isinstance(value, dict):
        return {"pairs": [[_encode_key(place, key), _encode(item)] for place, (key, item) in enumerate(value.items())]}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if value is None or isinstance(value, bool) or _plain(value):
        return value
    for name, (kind, write, _) in WRITTEN.items():
        if type(value) is kind:
            return {name: write(value)}
    return {"text": str(value).encode("utf-8", "backslashreplace").decode()}


def _encode_key(place: int, key: Value) -> Any:
    """A key of any type. If it raised, the answer could not be stored, and would be drawn again for one charge."""
    try:
        return _encode(key)
    except KeyboardInterrupt:
        raise
    except BaseException:  # one that has no text, or is nested too deeply
        return {"text": f"{type(key).__name__} {place}"}


def _plain(value: Value) -> bool:
    """Whether a number or text can be written to JSON as it is, and be read back equal by usual readers."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in value)
    return (isinstance(value, int) and abs(value) < WHOLE) or (isinstance(value, float) and math.isfinite(value))


def _encode_scalar(value: np.generic) -> object:
    """A numpy scalar as Python's own value, or as its text where Python has none or only a count of ticks."""
    item = value.item()
    ticks = isinstance(value, np.datetime64 | np.timedelta64) and isinstance(item, int)
    return {"text": str(value)} if ticks or isinstance(item, np.generic) else _encode(item)


def _encode_array(value: NDArray[np.generic]) -> object:
    """Numbers and words as an array of their own kind; anything else item by item."""
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        items, kind = value.ravel().tolist(), value.dtype.str
    else:
        items, kind = [_encode(item) for item in value.ravel()], value.dtype.str if value.dtype.kind == "U" else "|O"
    return {"array": items, "shape": list(value.shape), "dtype": kind}


def _decode(value: object) -> Value:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if isinstance(value, dict):
        if "pairs" in value:
            return {_decode(key): _decode(item) for key, item in value["pairs"]}
        for name, (_, _, read) in WRITTEN.items():
            if name in value:
                return read(value[name])
        kind = np.dtype(value["dtype"])
        if kind.kind not in KINDS or kind.itemsize > LONGEST:
            raise BadInput("The answer is damaged: its array is of a kind that no release has.")
        return _decode_array(value["array"], kind).reshape(value["shape"])
    return value


def _decode_array(items: list[object], kind: np.dtype[np.generic]) -> NDArray[np.generic]:
    if kind.kind not in "UO":
        return np.array(items, dtype=kind)
    return np.fromiter(map(_decode, items), dtype=kind, count=len(items))


def _halves(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")
