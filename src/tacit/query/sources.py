"""Where a table lives: files, data frames and databases, opened through ibis; in-process DuckDB is the default engine.

Opening looks at names and types of columns, never at values: an error here depends on nobody's record.
"""

from __future__ import annotations

import importlib.util
import os
import weakref
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..core import check
from ..core.errors import BadInput, MissingExtra, NotFinished
from ..core.files import shown
from ..data.csv_file import ENDINGS, begins_with_header, header_of
from ..data.csv_quotes import check_quotes
from ..data.frames import is_frame, named, narwhals
from .frames import arrow_of
from .row_wise import check_rows
from .turns import turn
from .unpacked import readable

Relation = Any
"""An ibis table expression; ibis has no types of its own that mypy could use."""
Backend = Any
COARSE = (0, 3)
"""Decimal places of seconds of times that reach farther than microseconds do."""
PATH = "Give the path of a file, seen from the folder in which the command runs."
NATIVE = "duckdb"
"""The engine whose own hash function is used unless portability is asked for."""
POSTGRES = ("postgresql", "postgres")
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


def opened(source: object) -> Opened:
    """Open a path, a URL, a data frame of pandas, polars or Arrow, or an ibis table."""
    if isinstance(source, Opened):
        return source
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        return _database(text) if "://" in text or ".duckdb" in text else _file(Path(text))
    if type(source).__module__.partition(".")[0] == "ibis":
        engine = _backend_of(source)
        with turn(engine):
            return _expression(source, _known(engine))
    if is_frame(source):
        return _frame(source)
    raise BadInput(
        f"A table cannot be made of {type(source).__name__}.",
        fix="Give a Parquet or CSV file, a data frame, a database URL, or an ibis table.",
    )


def _expression(source: Any, engine: Backend) -> Opened:
    check_names("The table", source.columns, engine.name)
    check_rows(source, engine.name)
    _check_views(source, engine)
    return Opened(source, engine, "The table", _described(source, engine), folds=_folds(engine))


def duckdb() -> Backend:
    """A fresh in-process engine."""
    if importlib.util.find_spec("duckdb") is None:
        raise MissingExtra("query")
    return ibis().duckdb.connect()


def _known(engine: Backend) -> Backend:
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


def _backend_of(relation: Relation) -> Backend:
    try:
        found = relation.get_backend()
    except Exception:  # ibis has several kinds of errors for an expression that belongs to no engine
        raise BadInput("The ibis expression belongs to no engine.", fix="Connect it to a database first.") from None
    if not hasattr(relation, "columns"):
        raise BadInput("An ibis table is expected, not a column or a number.")
    return found


def _check_views(relation: Relation, engine: Backend) -> None:
    """Refuse a text file that ibis reads: DuckDB guesses the types of its columns from values, and stops at others."""
    if engine.name != NATIVE:
        return
    names = {node.name for node in relation.op().find(ibis().expr.operations.DatabaseTable)}
    views = engine.raw_sql("select view_name, sql from duckdb_views() where not internal").fetchall()
    if any(name in names and ("read_csv" in text or "read_json" in text) for name, text in views):
        raise BadInput(
            "The types of the columns would be guessed from people's values, and others would stop the engine.",
            fix="Give the path of the .csv file itself, or its rows as a data frame.",
        )


def _file(path: Path) -> Opened:
    if not path.is_file():
        raise BadInput(f"{shown(path)} cannot be read: there is no such file.", fix=PATH)
    name, engine = shown(path), duckdb()
    plain = path.name.lower()
    try:
        if plain.endswith((".parquet", ".pq")):
            return _parquet(engine, path)
        if plain.endswith(ENDINGS):
            return _csv(engine, path)
    except Exception as error:
        if isinstance(error, BadInput | MissingExtra):
            raise
        raise BadInput(f"{name} cannot be read as a table.", fix="Is it a whole Parquet or CSV file?") from None
    raise BadInput(f"{name} is no kind of table that is known.", fix=f"Give a .parquet file, or {', '.join(ENDINGS)}.")


def _literal(path: Path) -> str:
    """A path whose name holds wildcards would be read as a pattern."""
    if any(mark in str(path) for mark in "*?[{"):
        raise BadInput(f"{shown(path)}: a name with wildcards is not read.", fix="Rename the file.")
    return str(path)


def _parquet(engine: Backend, path: Path) -> Opened:
    relation = engine.read_parquet(_literal(path))
    return Opened(relation, engine, shown(path), str(path.resolve()), form=partial(check_texts, relation, engine, path))


def check_texts(relation: Relation, engine: Backend, path: Path, columns: Container[str]) -> None:
    """Refuse a Parquet file with a text that is not UTF-8, or a time in milliseconds that microseconds do not reach.

    The engine would stop at it, after the charge: at a text where the column is asked for, and at a time in any case,
    since it reads the extremes of all columns. To know how long the texts are it must read all of them.
    """
    kinds = relation.schema().items()
    read = [relation[name].length().sum() for name, kind in kinds if kind.is_string() and name in columns]
    read += [relation[name].max() for name, kind in kinds if kind.is_timestamp()]
    if not read:
        return
    try:
        with turn(engine):
            engine.to_pyarrow(relation.aggregate([column.name(f"c{k}") for k, column in enumerate(read)]))
    except Exception as error:  # drivers have their own kinds; what they say holds the text
        if isinstance(error, MemoryError):
            raise
        raise BadInput(
            f"{shown(path)} holds texts that are not UTF-8 or times beyond the year 290,000, or is damaged.",
            fix="Write it again, with texts in UTF-8.",
        ) from None


def _csv(engine: Backend, path: Path) -> Opened:
    """Every column as text: a type that is guessed from values would depend on one person's value.

    Only the first line decides names and separator; a semicolon brings decimal commas. Every line is a row of its own:
    quotes that do not close on their line are refused, and a line that does not fit the header is dropped.
    """
    header, separator = header_of(path)
    check_names(shown(path), header)
    if not begins_with_header(path):
        raise BadInput(f"{shown(path)}: blank lines stand above the header.", fix="Remove them.")
    relation = engine.read_csv(
        _literal(readable(path, engine)),
        columns=dict.fromkeys(header, "VARCHAR"),
        header=True,
        delim=separator,
        quote='"',
        escape='"',
        auto_detect=False,
        ignore_errors=True,
        null_padding=True,
        strict_mode=False,
    )
    return Opened(
        relation,
        engine,
        shown(path),
        str(path.resolve()),
        decimal_comma=separator == ";",
        form=partial(_check_lines, path, separator),
    )


def _check_lines(path: Path, separator: str, columns: Container[str]) -> None:
    check_quotes(path, separator)


def _frame(frame: Any) -> Opened:
    """Through Arrow, column by column; a column of mixed Python objects becomes text."""
    try:
        wide = narwhals().from_native(frame, eager_only=True, pass_through=False)
    except narwhals().exceptions.DuplicateError:
        raise BadInput("The table has two columns of one name.", fix="Rename or remove one of them.") from None
    except TypeError:
        raise BadInput("A lazy frame holds no rows yet.", fix="Give frame.collect(), or the file itself.") from None
    if twice := next((name for k, name in enumerate(wide.columns) if name in wide.columns[:k]), None):
        raise BadInput(f"The table has two columns named {twice!r}.", fix="Rename or remove one of them.")
    check_names("The table", [str(name) for name in wide.columns])
    columns = {str(name): arrow_of(wide.get_column(name)) for name in wide.columns}  # a name may be a number
    if not columns:
        raise BadInput("The table has no columns.")
    return Opened(_held(columns), duckdb(), "The table", "a data frame")


def _held(columns: dict[str, Any]) -> Relation:
    """Arrow columns as a table; ibis knows fewer types than Arrow has."""
    import pyarrow

    for name, values in columns.items():
        try:
            ibis().schema({name: ibis().dtype(values.type)})
        except Exception:  # ibis has several kinds of errors for a type that it does not know
            raise BadInput(
                f"Column {name!r} holds {values.type}, which cannot be read.", fix="Change its type, or drop it."
            ) from None
    return ibis().memtable(pyarrow.table(columns))


def _described(relation: Relation, engine: Backend) -> str:
    """An ibis table as the engine is told it; names that ibis makes up for files and frames are numbered."""
    operations = ibis().expr.operations
    text = str(engine.compile(relation))
    names = {node.name for node in relation.op().find((operations.DatabaseTable, operations.InMemoryTable))}
    made_up = sorted((name for name in names if name.startswith("ibis_")), key=text.find)
    for number, name in enumerate(made_up):
        text = text.replace(name, f"table {number}")
    return text


def _folds(engine: Backend) -> bool:
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


def _database(url: str) -> Opened:
    """`postgresql://user@host/name#table` or `shop.duckdb#table`; a table of another schema is `#schema.table`."""
    place, _, table = url.rpartition("#")
    if not place or not table:
        raise BadInput(
            "A database URL must name its table after a #.",
            fix="Write postgresql://user@host/name#visits or shop.duckdb#visits.",
        )
    scheme = urlsplit(place).scheme
    if scheme and scheme not in (*POSTGRES, NATIVE):
        raise BadInput(f"Queries do not run on a database of kind {scheme!r}.", fix="Use PostgreSQL or a DuckDB file.")
    if scheme in POSTGRES and importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("postgres")
    if not scheme and not Path(place).is_file():
        raise BadInput(f"{shown(Path(place))} cannot be read: there is no such file.", fix=PATH)
    try:
        engine = ibis().duckdb.connect(place, read_only=True) if not scheme else ibis().connect(place)
    except Exception as error:  # drivers have their own kinds; their text may hold a password
        raise _unreachable(place, scheme, error) from None
    lease = Lease(engine)
    _known(engine)
    try:
        folds = _folds(engine)
        relation = _named_table(engine, table)
        return Opened(relation, engine, table, _without_login(place, scheme), folds=folds, lease=lease)
    except Exception:
        raise BadInput(f"The database has no table {table!r} that can be read.") from None


def _named_table(engine: Backend, table: str) -> Relation:
    """A table by its name, or by `schema.name` where none has the whole as its name."""
    schema, point, name = table.rpartition(".")
    try:
        return engine.table(table)
    except Exception:  # ibis and drivers have several kinds of errors for a table that is not there
        if not point:
            raise
        return engine.table(name, database=schema)


def _without_login(place: str, scheme: str) -> str:
    """An address without who asks: what tells one database from another."""
    if not scheme:
        return str(Path(place).resolve())
    parts = urlsplit(place)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _unreachable(place: str, scheme: str, error: Exception) -> Exception:
    what = shown(Path(place)) if not scheme else f"The {scheme} database"
    if "lock" in str(error).lower():
        return NotFinished(f"{what} is locked by another process.", fix="Close it there, and ask again.")
    return BadInput(f"{what} cannot be opened.", fix="Check its address, that it runs, and that you may read it.")
