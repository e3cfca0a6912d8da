"""Where a table lives: files, data frames and databases, opened through ibis; in-process DuckDB is the default engine.

Opening looks at names and types of columns, never at values: an error here depends on nobody's record.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..core.errors import BadInput, MissingExtra, NotFinished
from ..core.files import shown
from ..data.csv_file import ENDINGS, begins_with_header, header_of
from ..data.csv_quotes import check_quotes
from ..data.frames import is_frame, narwhals
from .engines import NATIVE, Backend, Lease, Opened, Relation, check_names, duckdb, folds, ibis, known
from .frames import arrow_of
from .row_wise import check_rows, check_scans
from .turns import turn
from .unpacked import readable

PATH = "Give the path of a file, seen from the folder in which the command runs."
ONE = "Give one file under a plain name, or the rows of several as a data frame."
PARQUET = (".parquet", ".pq")
POSTGRES = ("postgresql", "postgres")


def opened(source: object) -> Opened:
    """Open a path, a URL, a data frame of pandas, polars or Arrow, or an ibis table."""
    if isinstance(source, Opened):
        return source
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        return _database(text) if "://" in text or _in_duckdb(text) else _file(Path(text))
    if type(source).__module__.partition(".")[0] == "ibis":
        engine = _backend_of(source)
        with turn(engine):
            return _expression(source, known(engine))
    if is_frame(source):
        return _frame(source)
    raise BadInput(
        f"A table cannot be made of {type(source).__name__}.",
        fix="Give a Parquet or CSV file, a data frame, a database URL, or an ibis table.",
    )


def _in_duckdb(text: str) -> bool:
    """Whether a path names a table of a DuckDB file, as `shop.duckdb#visits` does and `shop.duckdb.csv` does not."""
    name = Path(text).name.lower()
    return ".duckdb" in name and ("#" in name or not name.endswith((*PARQUET, *ENDINGS)))


def _expression(source: Any, engine: Backend) -> Opened:
    check_names("The table", source.columns, engine.name)
    check_rows(source, engine.name)
    check_scans(source, engine)
    return Opened(source, engine, "The table", _described(source, engine), folds=folds(engine))


def _backend_of(relation: Relation) -> Backend:
    try:
        found = relation.get_backend()
    except Exception:  # ibis has several kinds of errors for an expression that belongs to no engine
        raise BadInput("The ibis expression belongs to no engine.", fix="Connect it to a database first.") from None
    if not hasattr(relation, "columns"):
        raise BadInput("An ibis table is expected, not a column or a number.")
    return found


def _file(path: Path) -> Opened:
    if any(mark in str(path) for mark in "*?[{"):  # the engine would read it as a pattern
        raise BadInput(f"{shown(path)}: a name with wildcards is not read.", fix=ONE)
    if path.is_dir():
        raise BadInput(f"{shown(path)} is a folder.", fix=ONE)
    if not path.is_file():
        raise BadInput(f"{shown(path)} cannot be read: there is no such file.", fix=PATH)
    name, engine = shown(path), duckdb()
    plain = path.name.lower()
    try:
        if plain.endswith(PARQUET):
            return _parquet(engine, path)
        if plain.endswith(ENDINGS):
            return _csv(engine, path)
    except Exception as error:
        if isinstance(error, BadInput | MissingExtra):
            raise
        raise BadInput(f"{name} cannot be read as a table.", fix="Is it a whole Parquet or CSV file?") from None
    raise BadInput(f"{name} is no kind of table that is known.", fix=f"Give a .parquet file, or {', '.join(ENDINGS)}.")


def _parquet(engine: Backend, path: Path) -> Opened:
    relation = engine.read_parquet(str(path))
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
    quotes that do not close on their line are refused, a line that is not UTF-8 is dropped, and values beyond the
    header's columns are passed over.
    """
    header, separator = header_of(path)
    check_names(shown(path), header)
    if not begins_with_header(path):
        raise BadInput(f"{shown(path)}: blank lines stand above the header.", fix="Remove them.")
    relation = engine.read_csv(
        str(readable(path, engine)),
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


def _frame(frame: object) -> Opened:
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
    """An ibis table as the engine is told it; names that ibis makes up for files are numbered."""
    text = str(engine.compile(relation))
    names = {node.name for node in relation.op().find(ibis().expr.operations.DatabaseTable)}
    made_up = sorted((name for name in names if name.startswith("ibis_")), key=text.find)
    for number, name in enumerate(made_up):
        text = text.replace(name, f"table {number}")
    return text


def _database(url: str) -> Opened:
    """`postgresql://user@host/name#table` or `shop.duckdb#table`; a table of another schema is `#schema.table`."""
    place, _, table = url.rpartition("#")
    scheme = urlsplit(place or table).scheme
    if scheme and scheme not in (*POSTGRES, NATIVE):
        raise BadInput(f"Queries do not run on a database of kind {scheme!r}.", fix="Use PostgreSQL or a DuckDB file.")
    if not place or not table:
        raise BadInput(
            "A database URL must name its table after a #.",
            fix="Write postgresql://user@host/name#visits or shop.duckdb#visits.",
        )
    if scheme in POSTGRES and importlib.util.find_spec("psycopg") is None:
        raise MissingExtra("postgres")
    if not scheme and not Path(place).is_file():
        raise BadInput(f"{shown(Path(place))} cannot be read: there is no such file.", fix=PATH)
    try:
        engine = ibis().duckdb.connect(place, read_only=True) if not scheme else ibis().connect(place)
    except Exception as error:  # drivers have their own kinds; their text may hold a password
        raise _unreachable(place, scheme, error) from None
    lease = Lease(engine)
    known(engine)
    try:
        folding = folds(engine)
        relation = _named_table(engine, table)
    except Exception:
        raise BadInput(f"The database has no table {table!r} that can be read.") from None
    check_scans(relation, engine)
    return Opened(relation, engine, table, _without_login(place, scheme), folds=folding, lease=lease)


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
