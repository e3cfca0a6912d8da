"""Files that grow by lines, each with a checksum: a damaged line costs that line and is known.

A line is a JSON object whose last entry, `sum`, is a hash of the rest and of the first line: a line of another file
does not pass for one of this file.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BadInput
from .files import content, shown, unwritten
from .json_text import Json, parsed

MOST = 2**32
Record = Json


@dataclass(frozen=True)
class Lines:
    """What a file holds: its first line (None: damaged), all other whole ones, and the numbers of damaged lines.

    `tail`: the last line is damaged, as it is when a process ended while it wrote; it is not among `damaged`.
    """

    head: Record | None
    rest: list[Record] = field(default_factory=list)
    damaged: tuple[int, ...] = ()
    tail: bool = False

    @property
    def whole(self) -> bool:
        return self.head is not None and not self.damaged and not self.tail


def stamped(record: Record, head: Record | None = None) -> str:
    """The text of one line."""
    return json.dumps({**record, "sum": _sum(record, head)}, allow_nan=False)


def unstamped(line: bytes, head: Record | None = None) -> Record | None:
    """Read a line that `stamped` wrote. None if it is damaged or belongs to another file."""
    return _read(line, head)


def read_lines(path: Path, head: Record | None = None) -> Lines | None:
    """What a file holds, None where there is none or not even one whole line was written; nothing is changed.

    `head` replaces a damaged first line if the checksums of the other lines show that it was this one.
    """
    if not path.exists():
        return None
    *lines, last = bytes(content(path, MOST)).split(b"\n")
    if not lines and _read(last, None) is None:  # its process ended, or its disk was full, at the first line
        return None
    first = _read(lines[0], None) if lines else None
    if first is None and head is not None and any(_read(line, head) for line in lines[1:]):
        first = head
    if first is None:
        return Lines(None, [record for record in map(_unchecked, lines[1:]) if record], tail=bool(last))
    found = [_read(line, first) for line in lines[1:]]
    bad = [number for number, record in enumerate(found, start=2) if record is None]
    whole = [record for record in found if record is not None]
    if not last and bad and bad[-1] == len(lines):  # the last line, though it ends as it should
        return Lines(first, whole, tuple(bad[:-1]), tail=True)
    return Lines(first, whole, tuple(bad), tail=bool(last))


def append(path: Path, texts: list[str], *, sync: bool) -> None:
    """Add whole lines; a line that could not be written whole is taken back."""
    with unwritten(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            before = os.fstat(handle).st_size
            try:
                _whole(handle, "".join(f"{text}\n" for text in texts).encode())
                if sync:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                if not before:
                    path.unlink(missing_ok=True)
                raise
        finally:
            os.close(handle)


def _whole(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _read(line: bytes, head: Record | None) -> Record | None:
    record = _unchecked(line)
    if record is None or record.pop("sum", None) != _sum(record, head):
        return None
    return record


def _unchecked(line: bytes) -> Record | None:
    try:
        found = parsed(line.decode("utf-8"), "a line")
    except (BadInput, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _sum(record: Record, head: Record | None) -> str:
    text = json.dumps([record, None if head is None else _sum(head, None)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unusable(path: Path, lines: Lines) -> BadInput:
    """The sentence for a file without its first line: everything is left as it is."""
    kept = f"{len(lines.rest)} later lines are there and were left as they are"
    return BadInput(
        f"{shown(path)}: line 1, which holds the randomness and the settings, is damaged; {kept}.",
        fix="Put a whole copy of the file there; without its first line nothing can be resumed.",
    )
