"""The largest absolute number of each person, from which a bound is found privately."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounding import executed, rows_of
from .shape import Shape
from .values import number_of, real


def largest_of(shape: Shape, column: str) -> NDArray[np.float64]:
    """One number for each person in the question, 0 for who has none. Never released as it is."""
    rows = rows_of(shape, {"x": number_of(shape.table, column).abs()})
    if shape.unit is None:
        found: Any = rows.select(x=rows["x"].fill_null(0.0))
    else:
        found = rows.group_by("u").aggregate(x=rows["x"].max().fill_null(real(0.0))).select("x")
    return np.asarray(executed(shape.table, found)["x"].to_numpy(), dtype=np.float64)
