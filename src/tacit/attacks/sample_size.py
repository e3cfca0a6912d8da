"""How many records a weak experiment would need to show what it found."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from ..core import Measurement
from ..core.proportion import lower_proportion
from ..core.roc import strict_rank

MOST = 10**7
STEP = 1.02
"""Largest number that is named, and how much larger the next number is that is tried."""


def outsiders_needed(item: Measurement, fpr: float) -> int | None:
    """About how many outsiders it takes at least to show that an attack beats guessing at a false-positive rate.

    The members, the curve and the confidence are taken as they are; the limits are those of `core.roc.tpr_at`. Below
    the lowest rate that the sample can see, the curve is taken to stay level, so more may be needed.

    None in three cases: the sample shows it already, the curve is not above guessing, or no number up to ten million
    would do with so few members. None, too, at a rate of 1, where all attacks are guessing, and for several targets,
    whose rows are not all different records.
    """
    found = dict(item.tpr_at_fpr).get(fpr)
    if found is None or found.lower > fpr or fpr >= 1 or item.targets != 1:
        return None
    each = 1 - (1 - found.confidence) / 4
    across, upward = (np.array([row[k] for row in item.roc]) for k in (0, 1))
    count = max(item.nonmembers, math.ceil(math.log(1 - each) / math.log1p(-fpr)))
    while across.size and count <= MOST:
        rank = strict_rank(count, fpr, each)
        seen = upward[across <= (rank - 1) / count] if rank else upward[:0]
        hits = math.floor(item.members * float(seen.max(initial=0.0)) + 1e-9)
        if float(lower_proportion(hits, item.members, each)) > fpr:
            return rounded(count)
        count = math.ceil(count * STEP)
    return None


def records_needed(area: float, confidence: float) -> int | None:
    """About how many records of the smaller side would show that an area is above a half; None above ten million."""
    count = 2
    while count <= MOST:
        hits = area * count
        if special.betaincinv(hits, count - hits + 1, (1 - confidence) / 2) > 0.5:
            return rounded(count)
        count = math.ceil(count * STEP)
    return None


def rounded(count: int) -> int:
    """A number of records rounded up to two digits."""
    unit = int(10 ** max(len(str(count)) - 2, 0))
    return -(-count // unit) * unit
