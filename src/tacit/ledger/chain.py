"""The hash chain: every entry names the hash of the one before it, so that no entry can be changed, removed or moved.

hash_n = SHA-256(hash_{n-1} newline body_n), hash_{-1} = 64 zeros; a body is JSON with sorted keys, and holds a hash of
the sums after it. Whoever owns the database can still write a whole new chain, or put back an old copy: a receipt, kept
elsewhere, detects both.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime

from ..core.json_text import Json
from .store import Row

SCHEMA = "tacit.ledger/1"
START = "0" * 64


@dataclass(frozen=True)
class Chain:
    """Whether a ledger is whole: how many entries it has, the hash of the last, and the number of the first bad one.

    `problem` says in one sentence what is wrong, `first_bad` where; both are empty when all is well.
    """

    ok: bool
    entries: int
    head: str
    first_bad: int | None = None
    problem: str = ""

    def __bool__(self) -> bool:
        return self.ok


def text(body: dict[str, object]) -> str:
    """The one way to write a body."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def linked(before: str, body: str) -> str:
    """The hash of an entry."""
    return hashlib.sha256(f"{before}\n{body}".encode()).hexdigest()


def digest(state: str) -> str:
    """What an entry keeps of the sums after it, so that sums cannot be changed without an entry."""
    return hashlib.sha256(state.encode()).hexdigest()


def row(before: str, body: Json) -> Row:
    """An entry ready to be written."""
    written = text(body)
    return Row(body["seq"], slot(body), body["kind"], name(body), written, linked(before, written))


def slot(body: dict[str, object]) -> str:
    """The name under which an entry is unique: kind and key for a charge or an answer, else kind and number."""
    kind = body["kind"]
    return f"{kind} {body['key']}" if kind in ("charge", "answer") else f"{kind} #{body['seq']}"


def name(body: Json) -> str:
    return str(body.get("key", ""))


def problem(row: Row, seq: int, before: str) -> str:
    """What is wrong with a row that should be number `seq` after the hash `before`; empty when nothing is."""
    if row.seq != seq:
        return f"entry {seq} is missing"
    if linked(before, row.body) != row.hash:
        return f"entry {seq} was changed, or does not follow the one before it"
    try:
        body = json.loads(row.body)
        same = (body["seq"], slot(body), body["kind"], name(body)) == (row.seq, row.slot, row.kind, row.name)
    except (ValueError, KeyError, TypeError):
        return f"entry {seq} cannot be read"
    return "" if same else f"entry {seq} was changed"


def now() -> str:
    """The time in UTC; it orders nothing and decides nothing."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
