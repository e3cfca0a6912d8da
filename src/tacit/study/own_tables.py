"""Estimators that read frames by a schema of their own: records stay frames, labels become the schema's words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.arrays import Array
from ..data import Schema
from ..data.codec import split
from .models import is_regressor
from .records import only, take


def own_schema(target: object) -> Schema | None:
    """The schema by which a classifier of `tacit.erm` reads frames; None for every other model."""
    own = getattr(target, "schema", None)
    if not callable(getattr(target, "get_params", None)) or is_regressor(target):
        return None
    own = Schema.read(own) if isinstance(own, str | Path) else own
    return own if isinstance(own, Schema) and own.label is not None else None


def worded(schema: Schema, data: object) -> tuple[tuple[object, Array], NDArray[np.bool_]]:
    """A frame, or a pair of a frame and labels, as (frame, words) without records of no known label; and which stay.

    Only columns that the model reads are kept. Members and outsiders may differ in others, such as row numbers, and
    that says nothing about the attack.
    """
    from ..erm.tables import label_places

    x, y = split(data, schema.label)
    places = label_places(schema, x, y)
    x = only(x, {column.name for column in schema.features})
    known = places >= 0
    if not known.any():
        raise BadInput("No record has a label that the schema knows.", fix="Look at the words of its label.")
    words = np.array(schema.classes)[places[known]]
    return (x if known.all() else take(x, np.flatnonzero(known)), words), known
