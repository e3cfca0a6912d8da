"""A lock that the operating system takes back when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from types import TracebackType

from .errors import BadInput
from .files import shown, why

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # unlike flock, no forked worker holds it on


HELD_BY_OTHERS = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
HELD: set[str] = set()
"""Locks of this process, which the operating system would give it twice."""


class Lock:
    """Hold `path` while the block lasts; where somebody else holds it, `refusal` is said."""

    def __init__(self, path: Path, refusal: str) -> None:
        self._path, self._refusal = path, refusal
        self._handle = -1

    def __enter__(self) -> Lock:
        if str(self._path.absolute()) in HELD:
            raise BadInput(self._refusal, fix="Wait for it, or give another folder.")
        while True:
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            except OSError as error:
                raise why(self._path, error) from None
            try:
                _lock(self._handle)
            except OSError as error:
                os.close(self._handle)
                raise self._refused(error) from None
            if self._same():
                HELD.add(str(self._path.absolute()))
                return self
            os.close(self._handle)  # its last holder has removed the file since: take the new one

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        HELD.discard(str(self._path.absolute()))
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def _refused(self, error: OSError) -> BadInput:
        if error.errno in HELD_BY_OTHERS:
            return BadInput(self._refusal, fix="Wait for it, or give another folder.")
        return BadInput(  # NFS without its lock service, and some file systems of clouds
            f"{shown(self._path.parent)} lies on a file system that offers no locks.", fix="Give a folder on another."
        )

    def _same(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))  # noqa: PTH116
        except OSError:
            return False
