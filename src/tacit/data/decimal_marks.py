"""How the numbers of a column are written: with a decimal point or a decimal comma, with or without thousands marked.

`12.500` is twelve and a half, or twelve thousand five hundred. One value cannot tell, so a column's other values and
the rest of its file are looked at. That is an inference from data: `infer` makes it once, and the schema keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .values import COMMA, GROUPED_COMMAS, GROUPED_DOTS, Values

POINT, DECIMAL_COMMA = ".", ","
MARKS = (POINT, DECIMAL_COMMA)
_POINTED = re.compile(r"[+-]?\d*\.\d+|[+-]?\d{4,}", re.ASCII)
"""A number with a decimal point; or one above 999 without a mark, which no column that marks thousands holds."""
_SIGNED = re.compile(r"[$€£¥]\s?[+-]?[\d.,']+|[+-]?[\d.,']+\s?[%$€£¥]")
SHARE = 0.5
LOOKED_AT = 1000
"""Distinct texts of a column that are looked at, from all over it."""


@dataclass(frozen=True)
class Spelling:
    """Which ways of writing numbers occur in a column of texts."""

    semicolons: bool = False
    decimal_commas: bool = False
    decimal_points: bool = False
    grouped_dots: bool = False
    grouped_commas: bool = False
    millions: bool = False

    @classmethod
    def of(cls, values: Values) -> Spelling:
        """Read it off the distinct texts. Numbers that are no texts have none."""
        if values.codes is None:
            return cls()
        texts = _some(values.texts if values.raw is None else values.raw)
        dots = [text for text in texts if GROUPED_DOTS.fullmatch(text)]
        commas = [text for text in texts if GROUPED_COMMAS.fullmatch(text)]
        return cls(
            semicolons=values.raw is not None,
            decimal_commas=any(COMMA.fullmatch(text) and not GROUPED_COMMAS.fullmatch(text) for text in texts),
            decimal_points=any(_POINTED.fullmatch(text) and not GROUPED_DOTS.fullmatch(text) for text in texts),
            grouped_dots=bool(dots),
            grouped_commas=bool(commas),
            millions=any(text.count(".") > 1 for text in dots),
        )

    def mark(self, elsewhere: bool) -> str:
        """The decimal mark; `elsewhere` says that other columns of the file have decimal commas."""
        sure = self.decimal_commas or self.millions or (self.semicolons and (elsewhere or self.grouped_commas))
        return DECIMAL_COMMA if sure and not self.decimal_points else POINT

    def hint(self, mark: str) -> str:
        """How numbers are read that could be read in another way."""
        if self.grouped_dots and mark == DECIMAL_COMMA:
            return "12.500 is read as 12500"
        return "12,500 is read as 12500" if self.grouped_commas and mark == POINT and not self.semicolons else ""

    def unclear(self, elsewhere: bool = False) -> bool:
        """Whether dots may separate thousands, where nothing in the column or the rest of its file tells."""
        return self.semicolons and self.grouped_dots and not self.decimal_points and self.mark(elsewhere) == POINT


def with_signs(values: Values) -> bool:
    """Whether most texts of a column are numbers with a sign of a currency, or a percent sign."""
    texts = _some(values.texts)
    return bool(texts) and sum(_SIGNED.fullmatch(text) is not None for text in texts) > SHARE * len(texts)


def _some(texts: Sequence[str]) -> list[str]:
    return [text.strip() for text in texts[:: max(1, len(texts) // LOOKED_AT)]]
