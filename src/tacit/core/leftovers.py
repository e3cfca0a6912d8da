"""What is left in DIR.unfinished when a process ends: destroyed only where it is known to have led to DIR's results.

A run writes the manifest of its results into DIR.unfinished before the rename that puts them in DIR's place. A later
command that finds both files equal finishes the cleaning that the process did not get to. Everything else in
DIR.unfinished is work that is not done, whatever DIR may hold by now, and is left as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from .errors import BadInput
from .files import text, written
from .locks import Lock
from .manifest import MANIFEST, MOST

COMMITTED = "committed.json"
LOCK = "lock"
NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF)
"""What file systems answer that cannot put a folder's entries on disk when asked to."""


def say_committed(work: Path, manifest: str) -> None:
    """Keep in DIR.unfinished which results it led to, on disk before they appear."""
    written(work / COMMITTED, manifest, 0o600)


def forget(work: Path, final: Path) -> None:
    """Destroy what led to the results in `final`, unless a run is still at it; nothing else is touched."""
    if work.is_dir():
        with contextlib.suppress(BadInput, OSError), Lock(work / LOCK, ""):
            clean_up(work, final)


def clean_up(work: Path, final: Path) -> None:
    """Destroy what led to the results in `final`, for whoever holds the lock; or an empty folder of work."""
    with contextlib.suppress(OSError):
        if all(path.name == LOCK for path in work.iterdir()):
            sweep(work)
        elif _led_to(work, final):
            sync(final.absolute().parent)
            sweep(work)


def _led_to(work: Path, final: Path) -> bool:
    mine, there = work / COMMITTED, final / MANIFEST
    with contextlib.suppress(BadInput):
        return mine.is_file() and there.is_file() and text(mine, MOST) == text(there, MOST)
    return False


def sweep(work: Path) -> None:
    """Overwrite and remove everything in a folder of unfinished work: it holds secrets."""
    last = (work / COMMITTED, work / LOCK)  # a process that ends in between leaves what says that this may be removed
    for path in sorted((path for path in work.rglob("*") if path not in last), reverse=True):
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
                continue
            if not path.is_symlink():
                _overwrite(path)
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for path in last:  # no secrets: whole until they are gone; whoever takes the lock next finds the folder empty
            path.unlink(missing_ok=True)
        work.rmdir()


def _overwrite(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("r+b") as file:
        left = path.stat().st_size
        while left > 0:
            left -= file.write(bytes(min(left, 2**20)))
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Have the operating system put a file or a folder's entries on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(handle)
