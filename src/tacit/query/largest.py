"""The largest absolute number of each person, from which a bound is found privately."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bounding import Shape, executed, rows_of
from .values import number_of, real

FARTHEST = 64
"""Powers of two that a private bound may be: 2^-64 to 2^64."""


def largest_of(shape: Shape, column: str) -> NDArray[np.float64]:
    """log2 of one number for each person in the question, within [-64, 64]. Never released as it is.

    On this scale a private quantile finds the order of magnitude; who has no number counts as -64.
    """
    rows = rows_of(shape, {"x": number_of(shape.table, column).abs()})
    if shape.unit is None:
        found: Any = rows.select(x=rows["x"].fill_null(0.0))
    else:
        found = rows.group_by("u").aggregate(x=rows["x"].max().fill_null(real(0.0))).select("x")
    sizes = np.asarray(executed(shape.table, found)["x"].to_numpy(), dtype=np.float64)
    return np.clip(np.log2(np.clip(sizes, 2.0**-FARTHEST, 2.0**FARTHEST)), -FARTHEST, FARTHEST)
