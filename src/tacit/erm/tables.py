"""Tables with a schema as rows: widths, ranges and norms come from the schema alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import BadInput
from ..data import Column, Schema
from ..data.encoding import encoded as written_out
from ..data.encoding import labelled as numbered
from ..data.encoding import places
from ..data.frames import table
from ..data.values import canonical
from .rows import answers

Schemas = Schema | str | Path | None
"""A Schema, the path of a file that holds one, or none."""


def schema_of(given: Schemas) -> Schema:
    """A schema, or the one in a file."""
    if isinstance(given, Schema):
        return given
    if isinstance(given, str | Path):
        return Schema.read(given)
    raise BadInput(f"schema must be a Schema or the path of a schema file, got {type(given).__name__}.")


def read_off(schema: Schema) -> tuple[str, ...]:
    """What no proof covers: ranges and words that were read off the data, and people who have several records."""
    own = (f"ranges or words read off the data: {', '.join(schema.derived)}",) if schema.derived else ()
    several = (f"people with several records: one record is the unit here, not one {schema.unit}",)
    return (*own, *(several if schema.unit is not None else ()))


def row_norm(schema: Schema) -> float:
    """The norm that no encoded record exceeds."""
    return math.sqrt(sum(_square(column) for column in schema.features))


def encoded(
    schema: Schema, frame: object, y: ArrayLike | None, *, labelled: bool = True, fewest: int = 1
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and label numbers of a table; labels come from `y`, else from the schema's label column.

    `fewest` is 0 where the number of records is private: then a table without rows is one like any other.
    """
    found = table(frame, fewest=fewest)
    x = written_out(schema, found)
    return x, label_places(schema, found, y, fewest) if labelled else np.zeros(0, dtype=np.int64)


def label_places(schema: Schema, frame: object, y: ArrayLike | None, fewest: int = 1) -> NDArray[np.int64]:
    """The number of each record's class, by `y` or else by the schema's label column; -1 for a label of none."""
    found = table(frame, fewest=fewest)
    if y is None:
        return numbered(schema, found)
    labels = same_length(found.rows, answers(y))
    place = places(schema.classes)
    return np.array([place.get(_word(label), -1) for label in labels.tolist()], dtype=np.int64)


def same_length(records: int, labels: NDArray[np.generic]) -> NDArray[np.generic]:
    """The labels, one for each record."""
    if len(labels) != records:
        raise BadInput(f"There are {len(labels)} labels for {records} records.")
    return labels


def _word(label: object) -> str:
    """A label in the spelling of the schema's words, whatever one person's label is: 1.0 as 1."""
    try:
        return canonical(str(label))
    except Exception:
        return ""


def _square(column: Column) -> float:
    """The largest squared norm of an encoded value: see `data/encoding.py`."""
    return {"number": 2.0, "date": 2.0, "category": 1.0, "text": 1.0}[column.kind]
