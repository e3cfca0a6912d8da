"""A ledger in one file.

The file has a rollback journal that stays (journal_mode PERSIST) with synchronous FULL. A write-ahead log would save
two of three waits for the disk. But after a crash the newest charges would be in a second file, and whoever moves or
copies the first alone would lose them without a sign. Here the file itself is whole after every charge. The commit is
the moment when the journal's header is overwritten and synced, and a power cut afterwards does not undo it. (With
DELETE the removed journal could come back.)
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import BadInput, NotFinished
from ..core.files import shown
from .database import exc, sa
from .forks import transactions
from .queue import queued
from .store import AGAIN, Store

JOURNAL, SYNCHRONOUS = "PERSIST", "FULL"
ROOM = "Make room."
_turns: dict[tuple[int, str], threading.Lock] = {}
"""One lock for each file, by process: a forked process takes locks of its own."""
GUARD = """CREATE TRIGGER tacit_{verb} BEFORE {verb} ON tacit_entry
BEGIN SELECT RAISE(ABORT, 'entries of a ledger are never changed'); END"""


class Ending(sqlite3.Connection):
    """A connection that ends its statements when it is closed.

    A statement that Ctrl-C interrupts would hold its lock on the file as long as a traceback holds its cursor.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._begun: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def cursor(self, *args: Any, **options: Any) -> Any:
        found = super().cursor(*args, **options)
        self._begun.add(found)
        return found

    def close(self) -> None:
        for cursor in list(self._begun):
            cursor.close()
        super().close()


class Sqlite(Store):
    """Entries in a SQLite file; spenders queue at a lock file beside it, so that nobody starves."""

    def __init__(self, url: str, wait: float) -> None:
        super().__init__(url, wait)
        text = url.removeprefix("sqlite:///") if url.startswith("sqlite:") else url
        if text in ("", ":memory:") or text.startswith("sqlite:"):
            raise BadInput("A ledger in memory would be forgotten.", fix="Give the path of a file.")
        self.path = Path(text).absolute()

    @property
    def shown(self) -> str:
        return shown(self.path)

    def _engine(self) -> sa.Engine:
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(self.path)),
            connect_args={"timeout": self.wait, "factory": Ending},
            pool_size=1,
            hide_parameters=True,  # a noisy answer that was not stored must not be read in an error
        )
        sa.event.listen(engine, "connect", self._connected)
        return engine

    def _connected(self, connection: Any, record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous={SYNCHRONOUS}")
        cursor.execute("PRAGMA trusted_schema=OFF")
        record.info["file"] = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        """Which file lies at the path now."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _still_there(self, connection: sa.Connection) -> None:
        """A connection goes on writing into a file that was moved away or replaced; nobody would find the charge."""
        if connection.info.get("file") != self._identity():
            self.engine.dispose()
            raise NotFinished(
                f"{self.shown} was moved, removed or replaced while it was open; this charge is not in it.",
                fix="Verify it with the last receipt, then charge again.",
            )

    def check(self) -> None:
        """Refuse a path without a file, or whose file is no ledger."""
        try:
            found = self.path.stat()
        except (OSError, ValueError):
            raise BadInput(
                f"{self.shown} is not there.", fix="Make it with `tacit ledger init`, or Ledger.create."
            ) from None
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{self.shown} is not an ordinary file.")
        if found.st_nlink > 1:
            raise BadInput(
                f"{self.shown} has a second name (a hard link): after a crash, what was half written is undone under "
                "one name only.",
                fix="Remove the other name, or copy the file.",
            )
        if not self._queue.exists():  # nobody waits at a file that is no ledger, so none is made beside it
            with self._sentences(), self.engine.connect() as connection:
                if not sa.inspect(connection).has_table("tacit_entry"):
                    raise BadInput(f"{self.shown} is not a ledger.", fix="Make one with `tacit ledger init`.")

    @property
    def _queue(self) -> Path:
        """The lock file at which spenders wait."""
        return Path(f"{self.path}.lock")

    def make(self, row: Any, state: str) -> None:
        self._create()
        with self._sentences(), self.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA journal_mode={JOURNAL}")
        super().make(row, state)

    def _create(self) -> None:
        """An empty file that only its owner reads, on disk with its name.

        An existing file is opened by SQLite alone. When a process closes any handle of a file, the system drops all
        locks that the process holds on it, even those of a charge that another thread is writing.
        """
        from ..core.files import why

        try:
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            folder = os.open(self.path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
        except OSError as error:
            raise why(self.path, error) from None

    def close(self) -> None:
        if self._pid == os.getpid():  # in another process there is nothing of its own to close
            with transactions.held():
                super().close()

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            with transactions.held():
                yield
        except (exc.SQLAlchemyError, UnicodeDecodeError) as error:  # the second: damage that SQLite quotes
            self._raise(error, writing=False)

    def _guards(self) -> list[str]:
        return [GUARD.format(verb=verb) for verb in ("UPDATE", "DELETE")]

    def _begin(self, connection: sa.Connection) -> None:
        self._still_there(connection)
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        if mode != JOURNAL.lower():  # the setting of a connection, not of the file
            connection.exec_driver_sql(f"PRAGMA journal_mode={JOURNAL}")
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def _begin_reading(self, connection: sa.Connection) -> None:
        self._still_there(connection)
        super()._begin_reading(connection)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """SQLite waits by sleeping, so that one spender of many may starve; here everybody is served in turn."""
        own = _turns.setdefault((os.getpid(), str(self.path)), threading.Lock())
        if not own.acquire(timeout=self.wait):
            raise self._locked()
        try:
            with queued(self._queue, self.wait), transactions.held():
                yield
        except TimeoutError:
            raise self._locked() from None
        finally:
            own.release()

    def _locked(self) -> NotFinished:
        return NotFinished(f"{self.shown} is held by another program; nothing was charged.", fix="Try again later.")

    def why(self, error: Exception, *, writing: bool) -> Exception:
        text = str(getattr(error, "orig", error)).lower()
        if "locked" in text or "busy" in text:
            return self._locked()
        if "full" in text:
            return NotFinished(f"{self.shown} cannot be written: the disk is full, and nothing was charged.", fix=ROOM)
        if "readonly" in text or "read-only" in text or "unable to open" in text:
            return BadInput(f"{self.shown} cannot be written.", fix="Give a file in a folder that is yours to write.")
        if (
            isinstance(error, UnicodeDecodeError)
            or "not a database" in text
            or "no such table" in text
            or "malformed" in text
        ):
            return BadInput(
                f"{self.shown} is not a ledger, or is damaged.", fix="Restore it from a copy, and verify it."
            )
        if "never changed" in text:
            return BadInput(f"Entries of {self.shown} are never changed.")
        return NotFinished(f"{self.shown} cannot be written or read: {text[:100]}.", fix=AGAIN)
