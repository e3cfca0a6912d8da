"""A queue of processes at a file: everybody is served in the order of arrival, and who dies gives up the place.

A file holds the next free number. Who arrives takes it, locks the byte of that number, and waits for the byte of the
number before. The system releases all locks of a process that ends, however it ends. The queue is only about fairness:
what excludes two writers is the database's own transaction.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":  # there, the database's own waiting is right, if unfair
    import fcntl

COUNTER, FIRST = 64, 1024
"""Bytes that hold the next number, and where the bytes of the numbers begin."""
DIGITS = 18
"""Of a number that is a place in a file; a longer one was not written here."""
SHORTEST, LONGEST = 0.0005, 0.003
"""Seconds between two looks at the one in front."""


@contextlib.contextmanager
def queued(path: Path, wait: float) -> Iterator[None]:
    """Hold one's turn while the block lasts. Raises TimeoutError when it does not come within `wait` seconds."""
    handle = _opened(path)
    if handle is None:
        yield
        return
    try:
        until = time.monotonic() + wait
        number = _number(handle, until)
        if number:
            _take(handle, FIRST + number - 1, until)
        yield
    finally:
        os.close(handle)  # which releases all locks of this turn


def _opened(path: Path) -> int | None:
    """The queue's file; None where there can be none, and the database says why, if it matters.

    What is no file of its own is left alone: behind a link, the number would be written over somebody's data.
    """
    if sys.platform == "win32":
        return None
    try:
        with contextlib.suppress(FileNotFoundError):
            found = os.lstat(path)  # not opened: closing another name of the ledger would drop a charge's locks on it
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                return None
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _number(handle: int, until: float) -> int:
    """The next number, with its byte locked before anybody else can take one."""
    _take(handle, 0, until)
    text = os.pread(handle, COUNTER, 0).strip()
    number = int(text) if text.isdigit() and len(text) <= DIGITS else 0
    _take(handle, FIRST + number, until)
    with contextlib.suppress(OSError):  # a full disk: others may get the same number, and the database decides
        os.pwrite(handle, f"{number + 1:<{COUNTER}}".encode(), 0)
    fcntl.lockf(handle, fcntl.LOCK_UN, 1, 0)
    return number


def _take(handle: int, place: int, until: float) -> None:
    """Lock one byte as soon as it is free."""
    pause = SHORTEST
    while True:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                raise TimeoutError from None
        time.sleep(pause)
        pause = min(2 * pause, LONGEST)
