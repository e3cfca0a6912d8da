"""A child process with faults: killed after a time or at a file operation, or on a disk that is full."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "write", "fsync", "replace", "rename", "unlink", "link", "mkdir", "rmdir", "ftruncate")


@dataclass(frozen=True)
class Fault:
    """`kind`: "time" (killed after `at` seconds), "operation" (killed before file operation number `at`), "full" (that
    operation answers ENOSPC, and every later one that would write), "size" (no file may pass `at` bytes)."""

    kind: str
    at: float

    @classmethod
    def kill(cls, rng: random.Random, seconds: float, operations: int) -> Fault:
        if rng.random() < 0.5:
            return cls("time", rng.uniform(0, 1.05 * seconds))
        return cls("operation", rng.randrange(operations))

    @classmethod
    def disk(cls, rng: random.Random, operations: int, largest: int) -> Fault:
        return cls("full", rng.randrange(operations)) if rng.random() < 0.5 else cls("size", rng.randrange(largest))

    def install(self) -> None:
        """In the child."""
        if self.kind == "size":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(self.at), resource.RLIM_INFINITY))
        elif self.kind in ("operation", "full"):
            counter = _Counter(int(self.at), full=self.kind == "full")
            for name in OPERATIONS:
                setattr(os, name, counter.around(name, getattr(os, name)))
            builtins.open = counter.around("open", builtins.open)  # type: ignore[assignment]


class _Counter:
    """Counts file operations that change something, and lets one of them fail."""

    def __init__(self, at: int, *, full: bool) -> None:
        self.left, self.full, self.lock = at, full, threading.Lock()

    def around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if _changes(name, arguments, named):
                with self.lock:
                    self.left -= 1
                if self.left < 0 and not self.full:
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.left < 0 and name not in ("unlink", "rmdir", "ftruncate"):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")
            return real(*arguments, **named)

        return call


def _changes(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    if name != "open":
        return True
    flags = arguments[1] if len(arguments) > 1 else named.get("mode", "r")
    if isinstance(flags, int):
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return any(mark in flags for mark in "wax+")


def ended(run: Callable[[Path], int], folder: Path, fault: Fault | None, patience: float = 900.0) -> tuple[int, str]:
    """(exit status or minus the signal, what it printed) of `run(folder)` in a forked child with a fault."""
    log = folder.with_name(f"{folder.name}.log")
    child = os.fork()
    if child == 0:
        _live(run, folder, fault, log)
    deadline = time.monotonic() + (fault.at if fault is not None and fault.kind == "time" else patience)
    status = _waited(child, deadline)
    if status is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = _waited(child, time.monotonic() + 30)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # workers that it left behind
    code = os.waitstatus_to_exitcode(status) if status is not None else -9
    return code, log.read_text(errors="replace") if log.exists() else ""


def _waited(child: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.002)
    return None


def _live(run: Callable[[Path], int], folder: Path, fault: Fault | None, log: Path) -> None:
    """The child's life, which ends here."""
    os.setpgid(0, 0)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in (1, 2):
        os.dup2(handle, number)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    code = 70
    try:
        os.chdir(folder)
        if fault is not None:
            fault.install()
        code = run(folder)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
