"""The first line of a journal: which work it belongs to, on which data, with which randomness.

It names the settings, a keyed hash of the data, and the words that the work's randomness comes from. Whoever goes on
with a journal must bring the same; what differs is named, and the file is left as it is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput
from .files import shown
from .json_text import Json
from .randomness import Replayed, Source, source

BYTES = 32
Data = Sequence[NDArray[np.generic]]
Record = Json
Randomness = Source | int | np.random.Generator | None


def identity(data: Data, key: str) -> str:
    """A keyed hash: tells data sets apart, and nothing else without the key."""
    code = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    for array in data:
        code.update(f"{array.shape} {array.dtype}".encode())
        code.update(np.ascontiguousarray(array).tobytes() if array.dtype != object else repr(array.tolist()).encode())
    return code.hexdigest()


def head(schema: str, about: Record, data: Data, random: list[int], key: str) -> Record:
    """The first line of a journal, which says what its audit or attack was started with."""
    return {"schema": schema, "about": about, "data": identity(data, key), "random": random, "key": key}


def seed(rng: Randomness) -> list[int] | None:
    """The words that a repeatable randomness comes from; None for one that is not."""
    if isinstance(rng, Replayed):
        return rng.mark
    return [int(rng)] if isinstance(rng, int | np.integer) else None


def drawn(rng: Randomness) -> list[int]:
    """A seed that was given, or words from the source."""
    chance = source(rng)
    return seed(rng) or [int(word) for word in chance.words(4)]


def seeded_key(schema: str, words: list[int]) -> str:
    """The key of work that has no secrets beside its seed: its first line can be made again."""
    return hashlib.sha256(f"{schema} {words}".encode()).hexdigest()


def check_same(path: Path, schema: str, found: Record, about: Record, data: Data, words: list[int] | None) -> None:
    """Refuse to go on with other settings, data or seed than the journal's, by name."""
    kept = found.get("about")
    if found.get("schema") != schema or not isinstance(kept, dict) or not _fits(found):
        raise BadInput(f"{shown(path)} is not a journal that this version can go on with.")
    plain = json.loads(json.dumps(about))
    names = [name for name in {**kept, **plain} if kept.get(name) != plain.get(name)]
    names += [] if found.get("data") == identity(data, found["key"]) else ["data"]
    names += [] if words is None or words == found["random"] else ["seed"]
    if names:
        what = "an audit" if "audit" in schema else "a run"
        raise BadInput(
            f"{path} is of {what} with other settings, data or seed: {', '.join(names)} differ.",
            fix=f"Repeat the settings of the {what.split()[1]} that did not end, or delete the file.",
        )


def _fits(found: Record) -> bool:
    words, key = found.get("random"), found.get("key")
    plain = isinstance(words, list) and all(type(word) is int and 0 <= word < 2**64 for word in words) and words
    return bool(plain) and isinstance(key, str) and len(key) == 2 * BYTES and set(key) <= set("0123456789abcdef")
