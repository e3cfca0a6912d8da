"""The verb disclose: what a query log or a table gives away about single people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..core.errors import BadInput
from ..core.files import text as read_text
from ..core.files import written
from ..core.finding import Finding
from ..core.json_text import Json, parsed
from ..core.run_folder import run_folder
from ..data import columns_of
from ..disclosure.differencing import read_log
from ..disclosure.findings import evidence, of_log, of_repeats, of_table
from .app import AGAIN, Result, verb

SEVERE = "severe"


@verb("disclose")
def disclose(
    source: Annotated[str, typer.Argument(metavar="LOG|TABLE", help="A query log in JSON, or a CSV or Parquet table.")],
    columns: Annotated[
        str | None, typer.Option(metavar="COL,..", help="Facts that an attacker may know; all columns unless given.")
    ] = None,
    secret: Annotated[str | None, typer.Option(metavar="COL", help="The column that must stay unknown.")] = None,
    unit: Annotated[
        str | None, typer.Option(metavar="COL", help="Whose row it is: people are counted, not rows.")
    ] = None,
    k: Annotated[int, typer.Option(help="How many rows a group should have at least.")] = 5,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where findings.json and evidence.json go, for tacit report.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
) -> Result:
    """Say what a release gives away."""
    path = Path(source)
    if path.suffix.lower() == ".json":
        if any(option is not None for option in (columns, secret, unit)):
            raise BadInput("--columns, --secret and --unit are about a table, and a query log has none of them.")
        log = parsed(read_text(path), path.name)
        found, known = [*of_log(read_log(log)), *of_repeats(log)], list[str]()
    else:
        found, known = _table(path, columns, secret, unit, k)
    data: Json = {"findings": [item.to_json() for item in found]}
    if out is not None:
        with run_folder(out, "disclose", again=again) as held:
            written(held.results / "findings.json", json.dumps(data, indent=1, allow_nan=False) + "\n")
            evidence(found, release=path.name, known=known).save(held.results / "evidence.json")
            held.commit()
        data |= {"out": str(held.final), "evidence": str(held.final / "evidence.json")}
    rows = [(item.severity, item.sentence) for item in found]
    return Result(data, rows + ([] if out is None else [("evidence", data["evidence"])]))


def _table(
    path: Path, columns: str | None, secret: str | None, unit: str | None, k: int
) -> tuple[list[Finding], list[str]]:
    table = columns_of(path)
    for name in filter(None, (secret, unit)):
        table[name]  # refuses a column that is absent
    names = list(table.columns) if columns is None else [name.strip() for name in columns.split(",")]
    names = [name for name in dict.fromkeys(names) if name not in (secret, unit)]
    if not names:
        raise BadInput("No column is left that an attacker may know.", fix="Give --columns.")
    if columns is None and len(names) > 12:
        raise BadInput(f"The table has {len(names)} columns.", fix="Say with --columns which an attacker may know.")
    if unit is not None:
        table = table.take(table[unit].as_ids()[0] >= 0)  # a row without an id is nobody's
        if not table.rows:
            raise BadInput(f"No row says in column {unit!r} whose it is.")
    values = {name: _values(table[name]) for name in (*names, *filter(None, (secret,)))}
    values |= {} if unit is None else {unit: table[unit].as_ids()[0]}
    return of_table(values, names, secret, k=k, unit=unit), names


def _values(column: Any) -> object:
    """The values of a column: numbers as they are, texts by their codes."""
    return np.nan_to_num(column.numbers, nan=-1e308) if column.numbers is not None else column.codes
