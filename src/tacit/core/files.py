"""Files that are there whole or not at all, and files that are read only as far as they may be.

Whatever is wrong with a file is one sentence that names it. Devices, pipes and sockets are never read: they may have no
end, or never begin.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .errors import BadInput, NotFinished, clean

TEXT_MOST = 2**28
"""Bytes that a file of text may have: evidence with every ROC curve is far below."""
DATABASE = b"SQLite format 3\0"
"""How a file of SQLite begins."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Lasting:
    """A checkpoint that stays when its work has ended: whoever gave it destroys it once the results are on disk."""

    path: Path


def shown(name: object) -> str:
    """A name as it may be printed: the last part of a path, at most 80 characters, none that moves a cursor."""
    return clean(name.name or str(name) if isinstance(name, Path) else str(name))[:80]


def opened(path: str | Path, most: int = TEXT_MOST, *, fix: str = "") -> IO[bytes]:
    """A regular file of at most `most` bytes, open for reading."""
    path = Path(path)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        why_not = ": there is no such file" if isinstance(error, FileNotFoundError) else ""
        fix = fix or "Give the path of a file, seen from the folder in which the command runs."
        raise BadInput(f"{shown(path)} cannot be read{why_not}.", fix=fix) from None
    told = os.fstat(handle)
    problem = ""
    if not stat.S_ISREG(told.st_mode):
        problem = f"{shown(path)} is {'a folder' if stat.S_ISDIR(told.st_mode) else 'not an ordinary file'}."
    elif told.st_size > most:
        problem = f"{shown(path)} has {told.st_size:,} bytes; at most {most:,} are read."
    if problem:
        os.close(handle)
        raise BadInput(problem, fix=fix)
    return os.fdopen(handle, "rb")


class Limited(io.RawIOBase):
    """A stream that refuses to give more than `most` bytes: what a small file decompresses to may have no end."""

    def __init__(self, stream: IO[bytes], most: int, path: Path, file: IO[bytes]) -> None:
        self._stream, self._left, self._path, self._file = stream, most, path, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise BadInput(
                f"{shown(self._path)} holds more than so small a file should.", fix="Decompress it yourself."
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        self._file.close()  # a stream that decompresses leaves open what it reads from
        super().close()


def content(path: str | Path, most: int = TEXT_MOST, *, fix: str = "") -> bytearray:
    """All bytes of a regular file of at most `most` bytes."""
    with opened(path, most, fix=fix) as file:
        try:
            data = bytearray(os.fstat(file.fileno()).st_size)
            size = file.readinto(data)  # type: ignore[attr-defined]
        except OSError:
            raise BadInput(f"{shown(path)} cannot be read.", fix=fix) from None
    del data[size:]
    return data


def text(path: str | Path, most: int = TEXT_MOST, *, fix: str = "") -> str:
    """The text of a regular file in UTF-8."""
    try:
        return content(path, most, fix=fix).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{shown(Path(path))} is not text in UTF-8: byte {error.start}.", fix=fix) from None


def written(path: str | Path, text: str, mode: int = 0o666) -> Path:
    """Write beside the file, put it on disk, then in its place; what cannot be written is one sentence.

    A database is never overwritten: `tacit ledger export budget.db --out budget.db` would lose all charges.
    """
    path = Path(path)
    _check_no_database(path)
    partial = path.with_name(path.name + ".partial")
    with unwritten(path, partial):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    return path


def _check_no_database(path: Path) -> None:
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            found = file.read(len(DATABASE)) == DATABASE
    except (OSError, ValueError):
        return
    if found:
        raise BadInput(
            f"{shown(path)} is a database, perhaps a ledger; it is not overwritten.", fix="Name another file."
        )


@contextlib.contextmanager
def unwritten(path: Path, *partials: Path) -> Iterator[None]:
    """Around writing: what fails leaves none of `partials` and says in one sentence why `path` was not written."""
    try:
        yield
    except BaseException as error:
        for partial in partials:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise why(path, error) from None
        raise


def why(path: Path, error: OSError) -> NotFinished | BadInput:
    """The sentence for a file that could not be written."""
    name = shown(path)
    if error.errno in NO_ROOM:
        return NotFinished(f"{name} cannot be written: the disk is full.", fix="Make room; nothing half was left.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return BadInput(f"{name} cannot be written: permission is denied.", fix="Give a folder that is yours to write.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return BadInput(f"{name} cannot be written.", fix="Give a path in a folder that is there.")
    return NotFinished(f"{name} cannot be written: {os.strerror(error.errno or errno.EIO)}.")
