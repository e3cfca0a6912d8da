"""A schema read off a table, around what its owner knows. What is read off is marked: no proof covers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import BadInput
from .decimal_marks import DECIMAL_COMMA, POINT, Spelling, with_signs
from .encoding import labelled, places
from .frames import Frame, Table, table
from .schema import Column, Limit, Schema
from .values import BLANK, SLASHED, Values, days

FEW = 20
"""Whole numbers of at most so many distinct values are taken for categories; fewer in a small table."""
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
    decimal: str | None = None,
) -> Schema:
    """Read a schema off a data frame.

    `ranges` and `words` are public facts of some columns, `kinds` names the kind of some; everything else is read off
    the data and marked not public. `drop` names columns that are no features, such as row numbers. `decimal` says what
    marks decimals in numbers that are written as texts, "." or ","; without it that is read off the texts.
    """
    found = table(frame)
    ranges, words, kinds = ranges or {}, words or {}, kinds or {}
    drop = [drop] if isinstance(drop, str) else list(drop)
    asked = (*((label,) if label else ()), *((unit,) if unit else ()), *groups, *ranges, *words, *kinds, *drop)
    for name in asked:
        found[name]  # a name that is not there is refused
    if both := next((name for name in ranges if name in words), None):
        raise BadInput(f"Column {both!r} is given a range and words: it is a number or a category.")
    _check_roles(label, unit, ranges, drop)
    if decimal not in (None, POINT, DECIMAL_COMMA):
        raise BadInput("decimal must be a point or a comma.")
    spelled = {name: Spelling.of(values) for name, values in found.columns.items() if decimal is None}
    marks = _Marks(decimal, spelled, any(spelling.decimal_commas for spelling in spelled.values()))
    columns = []
    for name, values in found.columns.items():
        if name in (unit, *drop):
            continue
        if name in ranges:
            columns.append(_ranged(name, ranges[name], marks))
        elif name in words:
            columns.append(Column(name, "category", words=tuple(words[name])))
        elif (column := _column(name, values, "category" if name == label else kinds.get(name), marks)) is not None:
            columns.append(column)
    if label is not None:
        _check_label(label, found, columns)
    return Schema(tuple(columns), label=label, unit=unit, groups=tuple(groups))


def identifiers(found: Table, schema: Schema) -> list[str]:
    """Features whose values are nearly all different whole numbers or texts: they name records, and teach nothing."""
    suspects = []
    for column in schema.features:
        texts = found[column.name].as_words()[1]
        whole = column.kind == "category" or all(text.lstrip("-").isdigit() for text in texts)
        if column.kind in ("category", "number") and whole and len(texts) > 0.9 * found.rows and found.rows > MOST:
            suspects.append(column.name)
    return suspects


def hints(found: Table, schema: Schema) -> list[str]:
    """What the owner of a table should know of its schema before anything is trained, in sentences."""
    lines = [line for column in schema.columns for line in _column_hints(found[column.name], column)]
    if schema.label is not None and not schema[schema.label].public:
        words = found[schema.label].as_words()[1]
        if len(words) > FEW and all(text.lstrip("-").isdigit() for text in words):
            lines.append(
                f"The label {schema.label!r} has {len(words)} classes, one for each number. If it is a quantity, make "
                "classes of ranges first, such as low and high."
            )
    if schema.label is not None and (lost := int((labelled(schema, found) < 0).sum())):
        lines.append(f"{lost} of {found.rows} records have no label among its words, and will be left out.")
    return lines


def _column_hints(values: Values, column: Column) -> list[str]:
    texts, where = values.as_words()[1], f"Column {column.name!r}"
    lines = []
    if column.kind == "category" and not column.public and len(texts) > MOST:
        lines.append(f"{where} keeps its {MOST} most frequent words of {len(texts)}; the others count as one.")
    dates = [SLASHED.fullmatch(text) is not None for text in texts[:1000]]
    if column.kind != "number" and dates and np.mean(dates) > SHARE:
        lines.append(
            f"{where} looks like dates with slashes, of which nobody can tell day and month: they are taken as words. "
            "Write them as 2024-12-31."
        )
    if column.kind == "category" and with_signs(values):
        lines.append(f"{where} looks like numbers with a sign such as % or $: they are taken as words. Write no signs.")
    if column.kind == "number" and (read := Spelling.of(values).hint(column.decimal)):
        other = POINT if column.decimal == DECIMAL_COMMA else DECIMAL_COMMA
        lines.append(f"{where}: {read}. If that is wrong, give --decimal {other} (in Python decimal={other!r}).")
    return lines + ([misfit(values, column)] if column.public and misfit(values, column) else [])


def misfit(values: Values, column: Column) -> str:
    """What is said of a given range or list of words that most values do not fit; nothing where they do."""
    codes, texts = values.as_words()
    held = int((codes >= 0).sum())
    if column.kind == "category":
        known = np.array([*(text in places(column.words or ()) for text in texts), False])[codes]
        return _most(held, held - int(known.sum()), column.name, "are none of its words")
    if column.kind not in ("number", "date"):
        return ""
    read = values.written_with(column.decimal).as_amounts() if column.kind == "number" else values.as_days()
    strange, (low, high) = held - int(np.isfinite(read).sum()), column.limits
    if said := _most(held, strange, column.name, f"are no {column.kind}s, and count as missing"):
        dated = column.kind == "number" and int(np.isfinite(values.as_days()).sum()) > SHARE * held
        return f"{said} They are dates: give the range as two dates, 1990-01-01,2030-12-31." if dated else said
    outside = int(((read < low) | (read > high)).sum())
    return _most(held, outside, column.name, "lie outside of its range, and are clipped")


def _most(held: int, count: int, name: str, what: str) -> str:
    return f"Column {name!r}: {count} of {held} values {what}." if held and count > SHARE * held else ""


@dataclass(frozen=True)
class _Marks:
    """What marks decimals: what the owner says, else what the columns' spellings tell."""

    given: str | None
    spelled: Mapping[str, Spelling]
    elsewhere: bool

    def of(self, name: str) -> str:
        """The mark of one column; where nothing tells, nobody guesses."""
        if self.given is not None:
            return self.given
        if self.spelled[name].unclear(self.elsewhere):
            raise BadInput(
                f"Column {name!r} holds numbers such as 12.500, which is 12500 or 12.5.",
                fix='Give --decimal , or --decimal . (in Python decimal="," or ".").',
            )
        return self.spelled[name].mark(self.elsewhere)


def _ranged(name: str, ends: tuple[Limit, Limit], marks: _Marks) -> Column:
    """A column with a given range. A decimal comma that was read off the data is no public fact."""
    if isinstance(ends[0], str):
        return Column(name, "date", range=ends)
    mark = marks.of(name)
    return Column(name, "number", range=ends, decimal=mark, public=marks.given is not None or mark == POINT)


def _check_roles(label: str | None, unit: str | None, ranges: Mapping[str, object], drop: Sequence[str]) -> None:
    """Refuse a column that is asked to be two things."""
    if label is not None and label == unit:
        raise BadInput(f"Column {label!r} cannot be both the label and the unit.")
    if label in ranges:
        raise BadInput(f"The label {label!r} is given a range, but a label has classes.", fix="Give its words.")
    if both := next((name for name in drop if name in (label, unit, *ranges)), None):
        raise BadInput(f"Column {both!r} is to be left out, and is named as label, unit or with a range as well.")


def _check_label(label: str, found: Table, columns: Sequence[Column]) -> None:
    known = next((column for column in columns if column.name == label), None)
    if known is not None and known.public and not set(known.words or ()) & set(found[label].as_words()[1]):
        raise BadInput(f"No record has one of the words that were given for the label {label!r}.")
    if known is None or len(known.words or ()) < 2:
        values = "one value only" if found[label].as_words()[1] else "no value"
        raise BadInput(f"The label {label!r} holds {values}: there is nothing to predict.")
    numbers = found[label].as_numbers()
    numbers = np.unique(numbers[np.isfinite(numbers)])
    if not known.public and len(numbers) > 2 and bool((numbers != np.floor(numbers)).any()):
        raise BadInput(
            f"The label {label!r} holds numbers with fractions: a quantity, not classes.",
            fix="Make classes of ranges first, such as low and high.",
        )
    distinct = len(found[label].as_words()[1])
    if distinct > MOST:
        raise BadInput(
            f"The label {label!r} has {distinct} different values, too many for classes.",
            fix="Give a column of a few classes; for a number, make classes of ranges first.",
        )


def _column(name: str, values: Values, kind: str | None, marks: _Marks) -> Column | None:
    """Infer kind, range or words of a column; None if it holds a single value."""
    mark = marks.of(name) if kind in (None, "number") else POINT
    numbers = values.written_with(mark).as_numbers()
    known = numbers[np.isfinite(numbers)]
    codes, texts = values.as_words()
    if len(texts) < 2 and kind is None:
        return None
    kind = kind or _kind(values, known, texts)
    if kind == "number":
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        ends = (low, high) if low < high else (low, low + 1.0)
        return Column(name, "number", range=ends, public=False, decimal=mark)
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
        distinct = len(np.unique(known))
        return "category" if whole and distinct <= min(FEW, 2 + held // 4) else "number"
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
