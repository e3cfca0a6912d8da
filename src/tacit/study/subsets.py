"""Random training sets of reference models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Source


def halves(records: int, models: int, rng: Source) -> NDArray[np.bool_]:
    """Random halves in pairs, so that every record is in exactly half of an even number of models."""
    member = np.zeros((records, models), dtype=bool)
    for k in range(models):
        member[:, k] = ~member[:, k - 1] if k % 2 else rng.permutation(records) < records // 2
    return member


def subsets(records: int, models: int, share: int, rng: Source) -> NDArray[np.bool_]:
    """Random training sets of `share` records each, as alike in how often they use each record as they can be.

    Several are cut from one permutation, without overlap; where they are more than half of the records, the parts left
    out do not overlap. With half of an even number of records these are complementary pairs.
    """
    few = min(share, records - share)
    member = np.zeros((records, models), dtype=bool)
    for first in range(0, models, max(records // max(few, 1), 1)):
        order = rng.permutation(records)
        for k in range(first, min(first + records // max(few, 1), models)):
            member[order[(k - first) * few : (k - first + 1) * few], k] = True
    return member if few == share else ~member
