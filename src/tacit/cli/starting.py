"""The verb init: from a table to a schema and a run file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import BadInput
from .app import Result, note, terminal, verb

NOT_PUBLIC = "read off the data: not public, and not covered by any proof until you check it and delete that line"


@verb("init")
def init(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A .csv (also .gz, .xz) or .parquet file.")],
    label: Annotated[str | None, typer.Option(metavar="COL", help="The column to be predicted.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="COL", help="The column that says whose record a row is.")] = None,
    group: Annotated[list[str] | None, typer.Option(metavar="COL", help="Compare the groups of this column.")] = None,
    range: Annotated[list[str] | None, typer.Option(metavar="COL=LO,HI", help="A public range; repeatable.")] = None,
    words: Annotated[list[str] | None, typer.Option(metavar="COL=A,B", help="Public words; repeatable.")] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="COL", help="A column that is no feature.")] = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where schema and run file go.")] = ".",
) -> Result:
    """Describe a table: write a schema and a run file that works at once."""
    from ..study.starting import described, facts_of, write

    asked = sys.stdin.isatty() and terminal().isatty()
    given = facts_of(label, unit, group or (), range or (), words or (), drop or ())
    path = Path(table)
    schema, found, facts = described(path, given, _ask if asked else None)
    files = write(path, schema, found.rows, _folder(out))
    left = [name for name in found.columns if name not in {column.name for column in schema.columns} | {schema.unit}]
    columns = [
        {"name": column.name, "kind": column.kind, "public": column.public, "role": _role(schema, column.name)}
        for column in schema.columns
    ]
    for name in set(facts.drop) - set(given.drop):
        note(f"Column {name!r} is left out: nearly every record has a value of its own, so it names records.")
    rows = [(column.name, _line(column, _role(schema, column.name))) for column in schema.columns]
    rows += [("schema", str(files[0])), ("run file", str(files[1]))]
    lines = [f"Left out: {', '.join(left)}."] if left else []
    if schema.derived:
        lines.append(f"{len(schema.derived)} of {len(schema.columns)} columns were {NOT_PUBLIC}.")
    lines.append(f"Next: tacit train {files[1]}")
    data = {
        "schema_file": str(files[0]), "run": str(files[1]), "columns": columns, "left_out": left, "rows": found.rows,
        "width": schema.width, "derived": list(schema.derived),
    }  # fmt: skip
    return Result(data, rows, lines)


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


def _role(schema: object, name: str) -> str:
    from ..data import Schema

    assert isinstance(schema, Schema)
    roles = {"label": name == schema.label, "unit": name == schema.unit, "group": name in schema.groups}
    return next((role for role, held in roles.items() if held), "feature")


def _line(column: object, role: str) -> str:
    from ..data import Column
    from ..data.frames import named

    assert isinstance(column, Column)
    held = f"{column.range[0]} to {column.range[1]}" if column.range else named(column.words or (), 6)
    parts = (column.kind, held, "" if role == "feature" else role, "" if column.public else "not public")
    return "  ".join(part for part in parts if part)
