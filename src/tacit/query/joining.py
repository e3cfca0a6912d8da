"""A public table beside the private one: more columns, never more rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core import check
from ..core.errors import BadInput
from ..data.frames import is_frame
from .engines import Opened, check_names
from .sources import opened
from .values import exact_text

JOINED = "tacit_joined"


def joined(table: Opened, frame: object, on: str | Sequence[str]) -> Opened:
    """Every row with the columns of the public row that has its values of `on`; NULL where there is none.

    The public table has one row for each value at most: otherwise one person's row would become many.
    """
    names = [on] if isinstance(on, str) else list(check.texts("on", on))
    if not is_frame(frame):
        raise BadInput("A public table is a data frame, joined on at least one column.")
    public = opened(frame)
    for name in names:
        table.column(name)
        if public.column(name).type() != table.column(name).type():
            raise BadInput(f"Column {name!r} has another type in the public table.")
    if twice := [name for name in public.columns if name in table.columns and name not in names]:
        raise BadInput(f"Both tables have a column {twice[0]!r}.", fix="Rename or remove it in the public one.")
    check_names(
        "The joined table", [*table.columns, *(name for name in public.columns if name not in names)], table.engine
    )
    counted = public.relation.group_by(names).aggregate(rows=public.relation.count())
    if int(public.backend.to_pyarrow(counted.aggregate(most=counted["rows"].max()))["most"][0].as_py() or 0) > 1:
        raise BadInput(
            f"The public table has several rows for one value of {', '.join(names)}.",
            fix="Keep one row for each value.",
        )
    other = public.relation.rename({f"{JOINED}_{name}": name for name in names})
    matches = [_own(table, name) == other[f"{JOINED}_{name}"] for name in names]
    found = table.relation.left_join(other, matches)
    place = f"{table.place} joined on {names} with {_digest(public)}"
    return replace(table, relation=found.drop(*(f"{JOINED}_{name}" for name in names)), place=place)


def _own(table: Opened, name: str) -> Any:
    found = table.column(name)
    return exact_text(table, found) if found.type().is_string() else found


def _digest(public: Opened) -> str:
    """What a public table holds: a question about another one is another question."""
    held = public.backend.to_pyarrow(public.relation)
    return hashlib.sha256(repr([str(held.schema), held.to_pydict()]).encode()).hexdigest()
