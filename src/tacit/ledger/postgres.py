"""A ledger on a PostgreSQL server, which must keep what it says it has written (fsync on)."""

from __future__ import annotations

from typing import Any

from ..core.errors import BadInput, MissingExtra, NotFinished
from ..core.files import shown
from .database import sa
from .store import AGAIN, Store

GUARD = (
    "CREATE OR REPLACE FUNCTION tacit_never() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'entries of a ledger are never changed'; END $$",
    "CREATE TRIGGER tacit_guard BEFORE UPDATE OR DELETE OR TRUNCATE ON tacit_entry "
    "FOR EACH STATEMENT EXECUTE FUNCTION tacit_never()",
)
LASTING = (
    "SELECT bool_and(relpersistence = 'p') FROM pg_class WHERE oid IN ('tacit_entry'::regclass, 'tacit_head'::regclass)"
)
"""Whether both tables are written to the server's log, and so survive a crash."""
REFUSALS = {
    "22P05": ("cannot hold this text: its encoding lacks a character", "Use a database in UTF8, or plain letters."),
    "25006": ("is read-only here; nothing was charged", "Connect to the server that takes writes."),
    "42501": ("refuses this user, or is not there", "Check the URL and the password."),
}
REFUSALS |= dict.fromkeys(("28000", "28P01", "3D000"), REFUSALS["42501"])
"""What a server refuses for good, by SQLSTATE: what to say after the ledger's name, and what to do."""
HELD = ("55P03", "57014", "40001", "40P01")
"""A lock that was not given, a time limit, a conflict with a foreign transaction, a deadlock: all were undone."""

_secrets: dict[str, str] = {}


def with_password(place: str) -> str:
    """The URL as this process opened it before; another process has the password from PGPASSWORD or a password file."""
    return _secrets.get(place, place)


class Postgres(Store):
    """Entries in a PostgreSQL database: spenders queue at an exclusive lock on the table, which the server hands out in
    turn. The lock is taken before the transaction's first view of the data, so that SERIALIZABLE has nothing to redo.
    """

    def __init__(self, url: str, wait: float) -> None:
        super().__init__(url, wait)
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            raise BadInput("The URL of the ledger cannot be read.", fix="Give postgresql://user@host/name.") from None
        self._url = parsed.set(drivername="postgresql+psycopg")
        if self.place != url:
            _secrets[self.place] = url

    @property
    def place(self) -> str:
        """The URL without its password, which neither a pickled ledger nor a copy holds."""
        full = sa.make_url(self.url).difference_update_query(["password"])
        bare = sa.URL.create(
            full.drivername, full.username, host=full.host, port=full.port, database=full.database, query=full.query
        )
        return str(bare.render_as_string(hide_password=False))

    @property
    def shown(self) -> str:
        return shown(f"the database {self._url.database or ''}")

    def _engine(self) -> sa.Engine:
        options = {"connect_timeout": max(10, int(self.wait)), "application_name": "tacit ledger"}
        options["client_encoding"] = "utf8"  # whatever the server's own is
        try:
            # the driver begins no transaction of its own: every BEGIN and COMMIT here is ours
            return sa.create_engine(
                self._url,
                isolation_level="AUTOCOMMIT",
                connect_args=options,
                pool_size=1,
                pool_pre_ping=True,
                hide_parameters=True,  # a noisy answer that was not stored must not be read in an error
            )
        except ModuleNotFoundError:
            raise MissingExtra("postgres") from None

    def check(self) -> None:
        """The server is there, and writes to disk before it answers."""
        with self.reading() as connection:
            if connection.exec_driver_sql("SHOW fsync").scalar() != "on":
                raise BadInput(
                    "The server runs with fsync off: it forgets charges when it stops.", fix="Set fsync = on."
                )
            if not sa.inspect(connection).has_table("tacit_entry"):
                raise BadInput(f"There is no ledger in {self.shown}.", fix="Make one with `tacit ledger init`.")
            if not connection.exec_driver_sql(LASTING).scalar():
                raise BadInput(
                    "The ledger's tables are unlogged or temporary: a crash of the server empties them.",
                    fix="ALTER TABLE tacit_entry SET LOGGED, and tacit_head.",
                )

    def _guards(self) -> list[str]:
        return list(GUARD)

    def _begin(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(self.wait * 1000)}ms'")
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        if self._made:
            connection.exec_driver_sql("LOCK TABLE tacit_entry IN EXCLUSIVE MODE")
        else:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7461636974)")

    _made = True

    def make(self, row: Any, state: str) -> None:
        self._made = False
        try:
            super().make(row, state)
        finally:
            self._made = True

    def _begin_reading(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def why(self, error: Exception, *, writing: bool) -> Exception:
        original = getattr(error, "orig", error)
        state, text = getattr(original, "sqlstate", None) or "", str(original).lower()
        if state in HELD:
            return NotFinished(f"{self.shown} is held by another program; nothing was charged.", fix="Try again later.")
        if state in ("53100", "53200"):
            return NotFinished(f"The server of {self.shown} has no room; nothing was charged.", fix="Make room there.")
        if state in REFUSALS:
            said, fix = REFUSALS[state]
            return BadInput(f"{self.shown} {said}.", fix=fix)
        if state == "42P01":
            return BadInput(f"There is no ledger in {self.shown}.", fix="Make one with `tacit ledger init`.")
        if "never changed" in text:
            return BadInput(f"Entries of {self.shown} are never changed.")
        if writing:
            return NotFinished(
                f"The connection to {self.shown} was lost while a charge was written: it may be recorded or not.",
                fix=AGAIN,
            )
        return NotFinished(f"{self.shown} cannot be reached; nothing was charged.", fix="Check the URL and the server.")
