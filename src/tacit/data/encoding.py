r"""A table as numbers, by its schema alone. Every function here is total: no value of a record raises.

The features that a column of each kind becomes:

    number    u, s, m      u = 2 (v - lo) / (hi - lo) - 1 of the clipped value v, s = asinh(v / g) / asinh(1 / 0.001)
                           with g = 0.001 max(|lo|, |hi|), which tells small amounts apart in a wide range;
                           m = 1 where the value is missing, and then u = s = 0
    category  one indicator per word, and one for anything else, a missing value included
    date      u, sin, cos, m      place in the range; time of the year
    text      WORDS hashed counts of words, of length one at most
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .frames import Table
from .schema import Column, Schema
from .values import Numbers, Values

Block = NDArray[np.float32]
WORDS = 256
"""Columns that a text becomes."""
GRAIN = 1e-3
"""The share of a range below which amounts are told apart in proportion, above it by their logarithm."""
YEAR = 365.2425


def width(column: Column) -> int:
    """How many numbers a column becomes."""
    if column.kind == "category":
        return len(column.words or ()) + 1
    return {"number": 3, "date": 4, "text": WORDS}[column.kind]


def names(schema: Schema) -> list[str]:
    """What each number of a record stands for."""
    found: list[str] = []
    for column in schema.features:
        if column.kind == "category":
            parts = [*(column.words or ()), "anything else"]
        else:
            parts = {
                "number": ["", "small amounts", "missing"],
                "date": ["", "sine of the year", "cosine of the year", "missing"],
            }.get(column.kind, [f"word {k}" for k in range(WORDS)])
        found += [f"{column.name}: {part}" if part else column.name for part in parts]
    return found


def encoded(schema: Schema, table: Table) -> Block:
    """The features of all records: shape (rows, schema.width)."""
    x = np.zeros((table.rows, schema.width), dtype=np.float32)
    first = 0
    for column in schema.features:
        values, last = table[column.name], first + width(column)
        ENCODERS[column.kind](column, values, x[:, first:last])
        first = last
    return x


def labelled(schema: Schema, table: Table) -> NDArray[np.int64]:
    """The number of each record's label; -1 where the schema has no such word. Empty without a label."""
    if schema.label is None:
        return np.zeros(0, dtype=np.int64)
    return _numbered(table[schema.label], schema.classes)


def _numbered(values: Values, words: tuple[str, ...]) -> NDArray[np.int64]:
    codes, texts = values.as_words()
    place = places(words)
    return np.array([*(place.get(text, -1) for text in texts), -1], dtype=np.int64)[codes]


def places(words: Sequence[str]) -> dict[str, int]:
    """The number of each word of a schema. Truth values are read alike as `true` and as `1`, whichever of them the
    schema names: how a column writes them may depend on whether one value is missing in it."""
    found = {word: k for k, word in enumerate(words)}
    for one, other in (("true", "1"), ("false", "0")):
        for named, alias in ((one, other), (other, one)):
            if named in found and alias not in words:
                found[alias] = found[named]
    return found


def _scaled(values: Numbers, low: float, high: float) -> Numbers:
    """Clipped to the range, then from -1 to 1; NaN stays."""
    return 2 * (np.clip(values, low, high) - low) / (high - low) - 1


def _number(column: Column, values: Values, out: Block) -> None:
    low, high = column.limits
    numbers = values.written_with(column.decimal).as_amounts()
    missing = np.isnan(numbers)
    grain = GRAIN * max(abs(low), abs(high))
    out[:, 0] = np.where(missing, 0.0, _scaled(numbers, low, high))
    out[:, 1] = np.where(missing, 0.0, np.arcsinh(np.clip(numbers, low, high) / grain) / math.asinh(1 / GRAIN))
    out[:, 2] = missing


def _category(column: Column, values: Values, out: Block) -> None:
    place = _numbered(values, column.words or ())
    out[np.arange(len(place)), place] = 1.0  # -1, anything else, is the last column


def _date(column: Column, values: Values, out: Block) -> None:
    found = values.as_days()
    missing = np.isnan(found)
    clipped = np.where(missing, 0.0, np.clip(found, *column.limits))
    out[:, 0] = np.where(missing, 0.0, _scaled(found, *column.limits))
    out[:, 1] = np.where(missing, 0.0, np.sin(2 * math.pi * clipped / YEAR))
    out[:, 2] = np.where(missing, 0.0, np.cos(2 * math.pi * clipped / YEAR))
    out[:, 3] = missing


def _text(column: Column, values: Values, out: Block) -> None:
    codes, texts = values.as_words()
    counts = np.zeros((len(texts) + 1, WORDS), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            counts[row, zlib.crc32(word.encode("utf-8", "surrogatepass")) % WORDS] += 1
    counts = np.log1p(counts)
    out[:] = (counts / np.maximum(1.0, np.linalg.norm(counts, axis=1, keepdims=True)))[codes]


ENCODERS: dict[str, Callable[[Column, Values, Block], None]] = {
    "number": _number,
    "category": _category,
    "date": _date,
    "text": _text,
}
