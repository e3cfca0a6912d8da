"""One column of a table, whatever library holds it: numbers, or texts by code. Conversions never raise on a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]

BLANK = frozenset({"", "?", "na", "n/a", "nan", "null", "#n/a"})
"""Texts, in lower case, that stand for a missing value: no list of words that is read off data holds them."""
_WHOLE = re.compile(r"[+-]?\d{1,100}", re.ASCII)
_WHOLE_FRACTION = re.compile(r"(0|-?[1-9]\d{0,99})\.0+", re.ASCII)
_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T](.+))?|(\d{4})/(\d{1,2})/(\d{1,2})(?:[ T](.+))?", re.ASCII)
SLASHED = re.compile(r"\d{1,2}/\d{1,2}/\d{2,4}\b.*", re.ASCII)
"""Dates of which nobody can tell whether the day or the month comes first."""
COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+", re.ASCII)
"""Numbers with a decimal comma; the dots, if any, separate thousands."""
GROUPED_DOTS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
GROUPED_COMMAS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", re.ASCII)
"""Numbers whose thousands are, or may be, separated by dots or by commas."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TRUTH = {"false": 0.0, "true": 1.0}


@dataclass(frozen=True, eq=False)
class Values:
    """The values of one column: `numbers` (NaN is missing), or texts as `codes` into `texts` (-1 is missing).

    `raw` are the texts as a file with semicolons has them, before decimal commas became points.
    """

    numbers: Numbers | None = None
    codes: Codes | None = None
    texts: tuple[str, ...] = ()
    raw: tuple[str, ...] | None = None

    @classmethod
    def of_texts(cls, values: Sequence[str | None]) -> Values:
        """Number the distinct texts in the order in which they appear; None is missing."""
        known: dict[str, int] = {}
        codes = [-1 if value is None else known.setdefault(value, len(known)) for value in values]
        return cls(codes=np.array(codes, dtype=np.int64), texts=tuple(known))

    def __len__(self) -> int:
        held = self.numbers if self.codes is None else self.codes
        return 0 if held is None else len(held)

    def as_numbers(self) -> Numbers:
        """Numbers; NaN where a value is missing or is no number."""
        if self.numbers is not None:
            return self.numbers
        return self._looked_up([parsed(text) for text in self.texts])

    def as_amounts(self) -> Numbers:
        """Numbers, where the texts `true` and `false` are 1 and 0: one missing value makes texts of truth values."""
        if self.numbers is not None:
            return self.numbers
        return self._looked_up([TRUTH.get(text.strip().lower(), parsed(text)) for text in self.texts])

    def as_days(self) -> Numbers:
        """Days since 1970-01-01; NaN where a value is missing or is no date in ISO 8601."""
        return self._looked_up([days(text) for text in self.as_words()[1]], self.as_words()[0])

    def as_words(self) -> tuple[Codes, tuple[str, ...]]:
        """Codes (-1 is missing) into distinct words, each in its canonical spelling."""
        if self.codes is None:
            numbers = np.zeros(0) if self.numbers is None else self.numbers
            distinct, codes = np.unique(numbers, return_inverse=True)
            texts = tuple("" if np.isnan(value) else spelled(value) for value in distinct.tolist())
        else:
            codes, texts = self.codes, tuple(map(canonical, self.texts))
        return _merged(codes, texts)

    def as_ids(self) -> tuple[Codes, tuple[str, ...]]:
        """Codes (-1 is missing) into distinct ids: `007` and `7` are two people, `7.0` and `7` are one."""
        if self.codes is None:
            return self.as_words()
        return _merged(self.codes, tuple(map(as_id, self.texts if self.raw is None else self.raw)))

    def with_decimal_points(self) -> Values:
        """Texts such as `1.234,5`, as files with semicolons write numbers, in the spelling `1234.5`."""
        return Values(self.numbers, self.codes, tuple(map(_pointed, self.texts)), self.texts)

    def written_with(self, decimal: str) -> Values:
        """The values where numbers are written with this decimal mark, and thousands separated by the other."""
        if self.codes is None:
            return self
        if decimal == ",":
            return Values(codes=self.codes, texts=tuple(map(_ungrouped, self.texts if self.raw is None else self.raw)))
        return Values(codes=self.codes, texts=tuple(map(_plain, self.texts)))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Values:
        """Some of the rows."""
        if self.codes is None:
            return Values(numbers=None if self.numbers is None else self.numbers[rows])
        return Values(codes=self.codes[rows], texts=self.texts, raw=self.raw)

    def _looked_up(self, table: Sequence[float], codes: Codes | None = None) -> Numbers:
        codes = self.codes if codes is None else codes
        assert codes is not None
        return np.array([*table, np.nan])[codes]  # -1, a missing value, is the last entry


def parsed(text: str) -> float:
    """The number that a text spells; NaN where it spells none."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def days(text: str) -> float:
    """Days from 1970-01-01 to a date or time; NaN for anything else. A time without a zone is taken as UTC.

    Dates are written 2024-12-31 (ISO 8601), 2024/12/31 or 31.12.2024. Others are ambiguous, and no dates.
    """
    try:
        moment = datetime.fromisoformat(_iso(text.strip()))
        naive = moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta())
    except (ValueError, OverflowError):
        return np.nan
    return (naive - datetime(1970, 1, 1)).total_seconds() / 86400


def _iso(text: str) -> str:
    """The ISO spelling of the two other ways to write a date."""
    found = _DATE.fullmatch(text)
    if found is None:
        return text
    day, month, year, time = found.group(1, 2, 3, 4) if found[1] else found.group(7, 6, 5, 8)
    return f"{int(year):04}-{int(month):02}-{int(day):02}" + (f" {time}" if time else "")


def _pointed(text: str) -> str:
    return text.strip().replace(".", "").replace(",", ".") if COMMA.fullmatch(text.strip()) else text


def _ungrouped(text: str) -> str:
    """A number with a decimal comma, or with dots between thousands, in the usual spelling."""
    return text.strip().replace(".", "") if GROUPED_DOTS.fullmatch(text.strip()) else _pointed(text)


def _plain(text: str) -> str:
    """A number's text without the commas between thousands."""
    return text.strip().replace(",", "") if GROUPED_COMMAS.fullmatch(text.strip()) else text


def canonical(text: str) -> str:
    """One spelling of a word: without spaces around it, `1.0` and `1` alike, `True` and `true` alike."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    if _WHOLE.fullmatch(text):
        return str(int(text))
    return spelled(float(text)) if _NUMBER.fullmatch(text) else text


def as_id(text: str) -> str:
    """A person's id as it is spelt, without spaces around it. A column with a missing id is read as fractions, so
    `.0` is removed. Two people with one id would move what is released twice as far."""
    text = text.strip()
    return text.partition(".")[0] if _WHOLE_FRACTION.fullmatch(text) else text


def spelled(value: float) -> str:
    """A number as a word: `3` rather than `3.0`."""
    return str(int(value)) if np.isfinite(value) and value == int(value) and abs(value) < 2**53 else repr(float(value))


def _merged(codes: Codes, texts: tuple[str, ...]) -> tuple[Codes, tuple[str, ...]]:
    """Texts that became one word share its code; the empty word is missing."""
    known: dict[str, int] = {}
    table = [-1 if text == "" else known.setdefault(text, len(known)) for text in texts]
    return np.array([*table, -1], dtype=np.int64)[codes], tuple(known)
