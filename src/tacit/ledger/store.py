"""Where a ledger lies: one table of entries and one row of state, in SQLite or PostgreSQL, written one at a time.

Every write is one transaction that nobody else overlaps: `BEGIN IMMEDIATE` in SQLite, an exclusive lock on the table
under SERIALIZABLE in PostgreSQL. It returns after the data are on disk. See `sqlite` and `postgres` for how.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.errors import BadInput, MissingExtra, NotFinished
from .database import exc, sa

WAIT = 30.0
"""Seconds to wait for other spenders before giving up."""
_ABANDONED: list[Any] = []
AGAIN = "Charge again with the same key: what was charged is never charged twice."


@dataclass(frozen=True)
class Row:
    """One row of the ledger's table; `slot` is unique, so that a key has one charge and one answer."""

    seq: int
    slot: str
    kind: str
    name: str
    body: str
    hash: str


@dataclass(frozen=True)
class Head:
    """The row of state: the last entry's number and hash, and what all entries add up to."""

    seq: int
    hash: str
    state: str


class Store(ABC):
    """One ledger's tables."""

    def __init__(self, url: str, wait: float) -> None:
        if sa is None:
            raise MissingExtra("ledger")
        self.url, self.wait = url, wait
        self._pid: int = -1
        self._held: Any = None
        data = sa.MetaData()
        self.entries = sa.Table(
            "tacit_entry",
            data,
            sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("slot", sa.Text, nullable=False, unique=True),
            sa.Column("kind", sa.Text, nullable=False),
            sa.Column("name", sa.Text, nullable=False, index=True),
            sa.Column("body", sa.Text, nullable=False),
            sa.Column("hash", sa.Text, nullable=False),
        )
        self.heads = sa.Table(
            "tacit_head",
            data,
            sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("seq", sa.BigInteger, nullable=False),
            sa.Column("hash", sa.Text, nullable=False),
            sa.Column("state", sa.Text, nullable=False),
        )
        self.tables = data

    @property
    def place(self) -> str:
        """The URL without what is secret, for a copy or another process."""
        return self.url

    @property
    @abstractmethod
    def shown(self) -> str:
        """The place as it may be printed: no password, no folder."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a place where there is no ledger."""

    @abstractmethod
    def _engine(self) -> sa.Engine: ...

    @abstractmethod
    def _begin(self, connection: sa.Connection) -> None:
        """Begin a transaction that no other writer overlaps."""

    @abstractmethod
    def _guards(self) -> list[str]:
        """Statements that forbid to change or remove entries."""

    @abstractmethod
    def why(self, error: Exception, *, writing: bool) -> Exception:
        """One sentence for an error of the database."""

    @property
    def engine(self) -> sa.Engine:
        """A connection must not be carried into a forked process: each process has its own.

        What a parent opened is neither used nor closed here.
        """
        if self._pid != os.getpid():
            if self._held is not None:
                _ABANDONED.append(self._held)
            self._pid, self._held = os.getpid(), self._engine()
            weakref.finalize(self, _dispose, self._held, self._pid)
        held: sa.Engine = self._held
        return held

    def close(self) -> None:
        if self._held is not None and self._pid == os.getpid():
            self._held.dispose()

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn; only a matter of fairness, since transactions exclude each other anyway."""
        yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction; it is whole and on disk when the block has ended, or nothing of it is there."""
        committing = False
        try:
            with self.turn(), self.engine.connect() as connection, _undone(connection):
                self._begin(connection)
                yield connection
                committing = True
                connection.exec_driver_sql("COMMIT")
                self._still_there(connection)
        except (exc.SQLAlchemyError, UnicodeDecodeError) as error:  # the second: damage that SQLite quotes
            self._raise(error, writing=committing)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One consistent view; short, since in a SQLite file a reader keeps writers waiting."""
        try:
            with self.turn(), self.engine.connect() as connection, _undone(connection):
                self._begin_reading(connection)
                yield connection
                connection.exec_driver_sql("COMMIT")
        except (exc.SQLAlchemyError, UnicodeDecodeError) as error:  # the second: damage that SQLite quotes
            self._raise(error, writing=False)

    def _still_there(self, connection: sa.Connection) -> None:  # noqa: B027  a server's tables cannot be moved away
        """Refuse a charge that was written to what no longer is the ledger's place."""

    def _begin_reading(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def _raise(self, error: Any, *, writing: bool) -> NoReturn:
        raise self.why(error, writing=writing) from error

    def make(self, row: Row, state: str) -> None:
        """Create the tables and their first entry; a ledger that is there already is left as it is."""
        with self.writing() as connection:
            if sa.inspect(connection).has_table("tacit_entry"):
                raise BadInput(
                    f"{self.shown} holds a ledger already.",
                    fix="Open that one (`tacit ledger show`, `tacit.Ledger`), or name another.",
                )
            self.tables.create_all(connection)
            for statement in self._guards():
                connection.exec_driver_sql(statement)
            connection.execute(sa.insert(self.entries), vars(row))
            connection.execute(sa.insert(self.heads), {"id": 1, "seq": row.seq, "hash": row.hash, "state": state})

    def head(self, connection: sa.Connection) -> Head:
        heads = self.heads.c
        found = connection.execute(sa.select(heads.seq, heads.hash, heads.state)).all()
        if len(found) != 1:
            raise NotFinished(
                f"The ledger in {self.shown} is damaged: it has no head.", fix="See `tacit ledger verify`."
            )
        return Head(*found[0])

    def append(self, connection: sa.Connection, row: Row, state: str) -> None:
        connection.execute(sa.insert(self.entries), vars(row))
        connection.execute(sa.update(self.heads), {"seq": row.seq, "hash": row.hash, "state": state})

    def at(self, connection: sa.Connection, *, slot: str | None = None, seq: int | None = None) -> Row | None:
        """The entry of this slot, or of this number."""
        place = self.entries.c.slot == slot if seq is None else self.entries.c.seq == seq
        found = connection.execute(sa.select(self.entries).where(place)).first()
        return None if found is None else Row(*found)

    def named(self, connection: sa.Connection, kind: str, name: str) -> list[Row]:
        """All entries of one kind about one key, in their order."""
        columns = self.entries.c
        chosen = sa.select(self.entries).where(columns.kind == kind, columns.name == name).order_by(columns.seq)
        return [Row(*found) for found in connection.execute(chosen)]

    def end(self, connection: sa.Connection, head: Head) -> list[Row]:
        """The entry before the last one and the last, by what the head says; more where the head is behind."""
        place = self.entries.c.seq
        found = connection.execute(sa.select(self.entries).where(place >= head.seq - 1).order_by(place).limit(3))
        return [Row(*item) for item in found]

    def start(self, connection: sa.Connection) -> list[Row]:
        """The first two entries."""
        place = self.entries.c.seq
        return [Row(*item) for item in connection.execute(sa.select(self.entries).where(place <= 1).order_by(place))]

    def rows(self, connection: sa.Connection) -> list[Row]:
        """All entries in their order."""
        found = connection.execute(sa.select(self.entries).order_by(self.entries.c.seq)).all()
        return [Row(*item) for item in found]


def _dispose(engine: Any, pid: int) -> None:
    if pid == os.getpid():
        engine.dispose()


@contextlib.contextmanager
def _undone(connection: sa.Connection) -> Iterator[None]:
    """Whatever goes wrong, nothing of the transaction stays; a connection that cannot say so is thrown away.

    So is one that was interrupted: it may be in the middle of a statement.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception):
            connection.invalidate()
            raise
        try:
            connection.exec_driver_sql("ROLLBACK")
        except exc.SQLAlchemyError:
            connection.invalidate()
        raise


@contextlib.contextmanager
def paid_for() -> Iterator[None]:
    """What belongs to a charge comes after it: where it cannot be written, the charge was made all the same."""
    try:
        yield
    except NotFinished as error:
        told = error.message.replace("nothing was charged", "nothing was stored; what this key was charged stands")
        raise NotFinished(told, fix=error.fix) from None


def opened(url: str | os.PathLike[str], *, wait: float = WAIT) -> Store:
    """The store that a URL names: postgresql://..., or the path of a file."""
    from .postgres import Postgres
    from .sqlite import Sqlite

    if not isinstance(url, str | os.PathLike) or not os.fspath(url).strip():
        raise BadInput("A ledger is named by the path of a file, or by a URL: postgresql://user@host/name.")
    text = os.fspath(url)
    scheme, mark, _ = text.partition("://")
    if not mark or scheme == "sqlite":
        return Sqlite(text, wait)
    if scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return Postgres(text, wait)
    raise BadInput(f"A ledger cannot lie in {scheme}.", fix="Give the path of a file, or postgresql://user@host/name.")
