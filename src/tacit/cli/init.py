"""The verb init: from a table to a schema and a run file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import BadInput
from ..core.shown import aligned
from .app import DESCRIBE, Result, note, terminal, verb

if TYPE_CHECKING:
    from ..data import Schema, Table

NOT_PUBLIC = (
    "Range or words of {} of {} columns were read off the data, which no proof covers. Give them by --range and "
    "--words, or check them in the schema and delete `public = false` there."
)


@verb("init")
def init(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A .csv (also .gz, .xz, .bz2) or .parquet file.")],
    label: Annotated[str | None, typer.Option(metavar="COL", help="The column to be predicted.")] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="COL", help="Says whose record a row is: protects persons, not rows.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Compare the groups of this column; repeatable.")
    ] = None,
    range: Annotated[list[str] | None, typer.Option(metavar="COL=LO,HI", help="A public range; repeatable.")] = None,
    words: Annotated[list[str] | None, typer.Option(metavar="COL=A,B", help="Public words; repeatable.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="A column that is no feature; repeatable.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="MARK", help="What marks decimals, . or , (else seen from the file).")
    ] = None,
    describe: Annotated[list[str] | None, typer.Option(metavar="KEY=TEXT", help=DESCRIBE)] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where schema and run file go.")] = ".",
) -> Result:
    """Describe a table: write a schema and a run file that works at once."""
    from ..data.inference import hints
    from ..study.run_file import described_by
    from ..study.table_setup import asked_for, described, facts_of, option, write

    asked = sys.stdin.isatty() and terminal().isatty()
    given = facts_of(label, unit, group or (), range or (), words or (), drop or (), decimal)
    path = Path(table)
    schema, found, facts = described(path, given, _ask if asked else None)
    told = described_by(describe or ())
    files = write(path, schema, found.rows, _folder(out), asked_for(told, _ask) if asked else told)
    for name in set(facts.drop) - set(given.drop):
        note(
            f"Column {name!r} is left out: nearly every record has a value of its own, so it seems to name records. "
            f"If it is a quantity, keep it by its public range: {option('range', name, 'LO,HI')}."
        )
    for name in _left(schema, found):
        if name not in facts.drop:
            note(f"Column {name!r} is left out: it holds one value only.")
    for line in hints(found, schema):
        note(line)
    return Result(
        _told(schema, found, files), _rows(schema, files), _lines(schema, found, files[1]), table=_table(schema)
    )


def _told(schema: Schema, found: Table, files: tuple[Path, Path]) -> dict[str, object]:
    columns = [
        {"name": column.name, "kind": column.kind, "public": column.public, "role": _role(schema, column.name)}
        for column in schema.columns
    ]
    return {
        "schema_file": str(files[0]), "run": str(files[1]), "columns": columns, "left_out": _left(schema, found),
        "rows": found.rows, "width": schema.width, "derived": list(schema.derived),
    }  # fmt: skip


def _table(schema: Schema) -> list[str]:
    """A line for every column of the data: its role, its kind, its range or words, and where these come from."""
    rows = [
        (column.name, _role(schema, column.name), column.kind, schema.held(column),
         "none is needed" if column.kind == "text" else "given" if column.public else "read off the data")
        for column in schema.columns
    ]  # fmt: skip
    rows += [] if schema.unit is None else [(schema.unit, "unit", "", "says whose record a row is", "")]
    return aligned(("column", "role", "kind", "range or words", "source"), rows)


def _rows(schema: Schema, files: tuple[Path, Path]) -> list[tuple[str, str]]:
    return [("schema", str(files[0])), ("run file", str(files[1]))]


def _lines(schema: Schema, found: Table, run: Path) -> list[str]:
    from ..data.frames import named

    left = _left(schema, found)
    lines = [f"Left out: {named(left)}."] if left else []
    if schema.unit is None:
        lines.append("Every row counts as another person. If a person has several, name the column: --unit COL.")
    if schema.derived:
        lines.append(NOT_PUBLIC.format(len(schema.derived), len(schema.columns)))
    return [*lines, f"Next: tacit train {shlex.quote(str(run))}"]


def _left(schema: Schema, found: Table) -> list[str]:
    return [name for name in found.columns if name not in {column.name for column in schema.columns} | {schema.unit}]


def _folder(path: str) -> Path:
    """A folder to write to, made if it is not there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError:
        raise BadInput(f"The folder {path} cannot be made.") from None
    return Path(path)


def _ask(question: str, usual: str) -> str:
    out = terminal()
    out.write(f"{question}{f' [{usual}]' if usual else ''}: ")
    out.flush()
    return sys.stdin.readline().strip() or usual


def _role(schema: Schema, name: str) -> str:
    roles = {"label": name == schema.label, "unit": name == schema.unit, "group": name in schema.groups}
    return next((role for role, held in roles.items() if held), "feature")
