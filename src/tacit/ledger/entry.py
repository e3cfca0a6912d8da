"""The parts of a ledger: its terms, its charges as they are read back, and the texts that name them."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from ..core import check
from ..core.adjacency import Adjacency
from ..core.charger import Receipt
from ..core.errors import BadInput, FileWarning, TacitError
from ..core.event import Event, check_event
from ..core.json_text import Json
from . import chain
from .criteria import criteria
from .planned import planned
from .state import ADAPTIVE, PLANNED, Terms
from .store import Row, Store

LONGEST = 200
"""Characters of a key, a purpose or an analyst."""
HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One charge as it was recorded."""

    seq: int
    time: str
    purpose: str
    analyst: str
    key: str
    event: Event

    def to_json(self) -> Json:
        """The entry as values for JSON."""
        return {**vars(self), "event": self.event.to_json()}


def new_terms(
    epsilon: float,
    delta: float,
    unit: str,
    adjacency: Adjacency,
    composition: str,
    events: tuple[Event, ...],
    stated: float,
) -> Terms:
    """The terms of a new ledger; whatever is wrong with them is told before anything is written."""
    epsilon, delta = check.positive("epsilon", epsilon), check.delta(delta)
    check_label("unit", unit, least=1)
    if check.one_of("composition", composition, (ADAPTIVE, PLANNED)) == ADAPTIVE:
        if events:
            raise BadInput("An adaptive ledger takes no list of events.", fix='Use composition="planned".')
        share = check.probability("stated", stated)
        return Terms(epsilon, delta, unit, adjacency, composition, criteria(epsilon, delta, share))
    return planned(epsilon, delta, unit, adjacency, events)


def terms_of(first: Row, store: Store) -> Terms:
    try:
        body = json.loads(first.body)
        if body.get("schema") != chain.SCHEMA:
            raise BadInput(f"{store.shown} was made by another version; this one reads {chain.SCHEMA!r}.")
        return Terms.from_json(body)
    except TacitError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError):
        raise BadInput(f"The first entry of {store.shown} is damaged.", fix="Restore it from a copy.") from None


def entry_of(body: Json) -> Entry:
    event = Event.from_json(body["event"])
    return Entry(body["seq"], body["time"], body["purpose"], body["analyst"], body["key"], event)


def check_depth(event: Event) -> None:
    """An event that can be written and read back."""
    check_event(event)
    try:
        Event.from_json(json.loads(json.dumps(event.to_json())))
    except RecursionError:
        raise BadInput("The event is nested too deeply.") from None


class Kept(NamedTuple):
    """What is kept elsewhere of a ledger: the number of an entry, and the hash of the chain up to it."""

    seq: int
    head: str


def read_receipt(given: object) -> Kept | None:
    """A receipt or its JSON, or the JSON of what holds one: an answer, evidence of a charged run, or an export."""
    if given is None:
        return None
    if isinstance(given, Receipt):
        return Kept(given.seq, given.head)
    try:
        found = _kept(dict(given))  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        found = Kept(-1, "")
    if found.seq < 0 or not HASH.fullmatch(found.head):
        raise BadInput(
            "The receipt cannot be read.",
            fix="Give a Receipt, or the JSON of one, of an answer, of evidence that was charged, or of an export.",
        )
    return found


def _kept(data: Json) -> Kept:
    data = data.get("receipt", data)
    named = data.get("provenance", {})
    if "ledger_head" in named:
        return Kept(int(named["ledger_entry"]), str(named["ledger_head"]))
    if isinstance(data.get("chain"), list):
        return Kept(len(data["chain"]) - 1, str(data["head"]))
    return Kept(int(data["seq"]), str(data["head"]))


def check_label(name: str, value: str, *, least: int = 0) -> None:
    if not isinstance(value, str) or not least <= len(value) <= LONGEST or "\0" in value:
        raise BadInput(f"{name} must be a text of {least} to {LONGEST} characters.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name} must be a text in Unicode.") from None


def time_after(latest: str) -> str:
    """The clock's time, never before the last entry's."""
    now = chain.now()
    if now >= latest:
        return now
    warnings.warn(
        f"The clock stands before the ledger's last entry ({latest}); the new entry carries that time.",
        FileWarning,
        stacklevel=2,
    )
    return latest
