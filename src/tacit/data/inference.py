"""A schema read off a table, around what its owner knows. What is read off is marked: no proof covers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import BadInput
from .frames import Frame, Table, named, table
from .schema import Column, Limit, Schema
from .values import BLANK, Values, days

FEW = 20
"""Whole numbers of at most so many distinct values are taken for categories."""
MOST = 100
"""Words that a category keeps, the most frequent ones; any other word shares one column."""
SHARE = 0.5
"""A column of texts, more than this share of which are numbers or dates, holds numbers or dates."""


def infer(
    frame: Frame,
    *,
    label: str | None = None,
    unit: str | None = None,
    groups: Sequence[str] = (),
    ranges: Mapping[str, tuple[Limit, Limit]] | None = None,
    words: Mapping[str, Sequence[str]] | None = None,
    kinds: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
) -> Schema:
    """Read a schema off a data frame.

    `ranges` and `words` are public facts of some columns, `kinds` names the kind of some; everything else is read off
    the data and marked not public. `drop` names columns that are no features, such as row numbers.
    """
    found = table(frame)
    ranges, words, kinds = ranges or {}, words or {}, kinds or {}
    drop = [drop] if isinstance(drop, str) else list(drop)
    asked = (*((label,) if label else ()), *((unit,) if unit else ()), *groups, *ranges, *words, *kinds, *drop)
    for name in asked:
        found[name]  # a name that is not there is refused
    if both := next((name for name in ranges if name in words), None):
        raise BadInput(f"Column {both!r} is given a range and words: it is a number or a category.")
    columns = []
    for name, values in found.columns.items():
        if name in (unit, *drop):
            continue
        if name in ranges:
            kind = "date" if isinstance(ranges[name][0], str) else "number"
            columns.append(Column(name, kind, range=ranges[name]))
        elif name in words:
            columns.append(Column(name, "category", words=tuple(words[name])))
        elif (column := _column(name, values, "category" if name == label else kinds.get(name))) is not None:
            columns.append(column)
    if label is not None:
        _check_label(label, found, columns)
    return Schema(tuple(columns), label=label, unit=unit, groups=tuple(groups))


def identifiers(found: Table, schema: Schema) -> list[str]:
    """Features whose values are nearly all different whole numbers or texts: they name records, and teach nothing."""
    suspects = []
    for column in schema.features:
        texts = found[column.name].as_words()[1]
        whole = column.kind != "number" or all(text.lstrip("-").isdigit() for text in texts)
        if column.kind != "text" and whole and len(texts) > 0.9 * found.rows and found.rows > MOST:
            suspects.append(column.name)
    return suspects


def _check_label(label: str, found: Table, columns: Sequence[Column]) -> None:
    if label not in [column.name for column in columns]:
        raise BadInput(f"The label {label!r} holds one value only: there is nothing to predict.")
    distinct = len(found[label].as_words()[1])
    if distinct > MOST:
        raise BadInput(
            f"The label {label!r} has {distinct} different values, too many for classes.",
            fix="Give a column of a few classes; for a number, make classes of ranges first.",
        )


def _column(name: str, values: Values, kind: str | None) -> Column | None:
    """What a column looks like; None where it holds one value, which says nothing."""
    numbers = values.as_numbers()
    known = numbers[np.isfinite(numbers)]
    codes, texts = values.as_words()
    if len(texts) < 2 and kind is None:
        return None
    kind = kind or _kind(values, known, texts)
    if kind == "number":
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return Column(name, "number", range=(low, high) if low < high else (low, low + 1.0), public=False)
    if kind == "date":
        moments = values.as_days()
        moments = moments[np.isfinite(moments)]
        ends = (int(np.floor(moments.min())), int(np.ceil(moments.max()))) if moments.size else (0, 1)
        return Column(name, "date", range=_dates(ends[0], max(ends[1], ends[0] + 1)), public=False)
    if kind == "text":
        return Column(name, "text")
    return Column(name, "category", words=_frequent(codes, texts), public=False)


def _kind(values: Values, known: Any, texts: tuple[str, ...]) -> str:
    held = int((values.as_words()[0] >= 0).sum())
    if known.size > SHARE * held:
        whole = bool((known == np.floor(known)).all())
        return "category" if whole and len(np.unique(known)) <= FEW else "number"
    if np.isfinite([days(text) for text in texts[:1000]]).mean() > SHARE:
        return "date"
    several = np.mean([len(text.split()) > 3 for text in texts[:1000]])
    return "text" if len(texts) > max(MOST, 0.5 * held) and several > SHARE else "category"


def _frequent(codes: Any, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The most frequent words, in alphabetical order; those that stand for a missing value are none."""
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    kept = [text for k in np.argsort(-counts, kind="stable") if (text := texts[k]).lower() not in BLANK][:MOST]
    return tuple(sorted(kept)) or ("anything",)


def _dates(low: int, high: int) -> tuple[str, str]:
    first, last = (np.datetime64(0, "D") + np.timedelta64(day, "D") for day in (low, high))
    return str(first), str(last)


def summary(schema: Schema) -> list[str]:
    """One line per column, and what was read off the data."""
    lines = []
    for column in schema.columns:
        role = {schema.label: "label", schema.unit: "unit"}.get(column.name, "")
        held = f"{column.range[0]} to {column.range[1]}" if column.range else named(column.words or (), 6)
        source = "" if column.public else "read off the data"
        lines.append("  ".join(part for part in (column.name, column.kind, held, role, source) if part))
    return lines
