"""A table that is open, and the engine that holds it: DuckDB in this process, PostgreSQL or Spark, all by ibis.

An engine is taken if no value of a person is known to raise in it, and its texts can all be read.
"""

from __future__ import annotations

import importlib.util
import weakref
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import check
from ..core.errors import BadInput, MissingExtra
from ..data.frames import named

Relation = Any
"""An ibis table expression; ibis has no types of its own that mypy could use."""
Backend = Any
COARSE = (0, 3)
"""Decimal places of seconds of times that reach farther than microseconds do."""
NATIVE = "duckdb"
"""The engine whose own hash function is used unless portability is asked for."""
ENGINES = (NATIVE, "postgres", "pyspark")
"""Engines on which no value of a person is known to raise; others hold texts in columns of numbers, for example."""
FOLDING = (
    "select exists (select 1 from pg_collation where not collisdeterministic) "
    "or exists (select 1 from pg_type where typname = 'citext')"
)
"""Whether a PostgreSQL database can hold texts that are equal though they are not spelt alike."""
READABLE = ("UTF8", "LATIN1")
"""Encodings of a PostgreSQL database in which every text that it accepts has a meaning."""


class Lease:
    """A connection that was opened here: closed when nothing uses it any more."""

    def __init__(self, backend: Backend) -> None:
        weakref.finalize(self, backend.disconnect)


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """A table in an engine.

    place: the public facts that tell this table from others: where it lives and how it was made.
    decimal_comma: texts such as `1,5` are numbers.
    folds: the engine may take texts for equal that are not (collations such as NOCASE).
    form: refuses a file that is not well formed, given the names of the columns that are asked for; called before a
    charge.
    """

    relation: Relation
    backend: Backend
    name: str
    place: str = ""
    decimal_comma: bool = False
    folds: bool = False
    form: Callable[[Container[str]], None] | None = None
    lease: Lease | None = None

    def __repr__(self) -> str:
        return f"{self.name} ({self.engine}, {len(self.columns)} columns)"  # ibis would show rows

    @property
    def engine(self) -> str:
        return str(self.backend.name)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.relation.columns)

    def column(self, name: str) -> Any:
        """A column by its name; one that is not there is refused with the names that are.

        Lengths of time, and seconds with a time zone, are refused: the engine raises where it cannot hold one.
        """
        if check.text("A column", name, fix=f"Give the name of one: {named(self.columns)}.") not in self.columns:
            raise BadInput(f"{self.name} has no column {name!r}.", fix=f"Columns: {named(self.columns)}.")
        found = self.relation[name]
        kind = found.type()
        if kind.is_interval() or (kind.is_timestamp() and kind.timezone is not None and kind.scale in COARSE):
            raise BadInput(
                f"Column {name!r} holds {kind}, of which an engine cannot read every value.",
                fix="Turn it into whole numbers, or into times in microseconds.",
            )
        return found


def worded(kind: Any) -> str:
    """What a column holds, in words; of a type that it does not know, ibis would print an object of its parser."""
    return "values of a type that is not known here (cast them in a view)" if "unknown(" in str(kind) else str(kind)


def check_names(name: str, columns: Sequence[str], engine: str = NATIVE) -> None:
    """Refuse two names that the engine takes for one: it would read the wrong column, and say nothing.

    DuckDB and Spark pass over the case of letters in names; PostgreSQL does not.
    """
    plain = [column if engine == "postgres" else column.lower() for column in columns]
    twice = next((columns[k] for k, column in enumerate(plain) if column in plain[:k]), None)
    if twice is not None:
        raise BadInput(
            f"{name} has two columns named {twice!r}, but for the case of letters.", fix="Rename or remove one of them."
        )


def ibis() -> Any:
    """The library that speaks to engines, or the sentence that says how to install it."""
    try:
        import ibis
    except ImportError:
        raise MissingExtra("query") from None
    return ibis


def duckdb() -> Backend:
    """A fresh in-process engine."""
    if importlib.util.find_spec("duckdb") is None:
        raise MissingExtra("query")
    return ibis().duckdb.connect()


def known(engine: Backend) -> Backend:
    """Return the engine; refuse one whose errors could depend on a single value."""
    if engine.name not in ENGINES:
        raise BadInput(
            f"Queries do not run on {engine.name}: a single value may stop it, and the error would tell of it.",
            fix="Use DuckDB, PostgreSQL or Spark, or give the rows as a data frame or a Parquet file.",
        )
    if engine.name == "postgres":
        told = [engine.raw_sql(f"show {name}_encoding").fetchone()[0] for name in ("server", "client")]
        server, client = (name.decode() if isinstance(name, bytes) else name for name in told)  # bytes of SQL_ASCII
        if server not in READABLE or client not in ("UTF8", server):
            raise BadInput(
                f"The database keeps texts in {server} and sends them in {client}: some of them cannot be read.",
                fix="Use a database in UTF8, and leave client_encoding alone.",
            )
    return engine


def folds(engine: Backend) -> bool:
    """Whether the engine may have columns whose texts are equal though they are not spelt alike.

    A group is then called by one of its spellings, which one person decides, and a join may match several rows.
    """
    if engine.name == NATIVE:
        setting = engine.raw_sql("select current_setting('default_collation')").fetchone()[0]
        if setting.lower() not in ("", "binary", "c"):
            raise BadInput(
                "The engine compares all texts by a collation of its own.", fix="Connect without default_collation."
            )
        return True
    if engine.name == "postgres":
        found = engine.raw_sql(FOLDING)
        return bool(found.fetchone()[0])
    return bool(engine.name == "pyspark")
