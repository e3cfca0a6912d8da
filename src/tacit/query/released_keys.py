"""Which keys are released: all that were listed, or those that enough people hold."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, Source
from ..core.events import PartitionSelection
from ..mechanism import unknown_keys
from .bounding import Totals, Whole, spelt


def released_keys(
    exact: Totals, price: PartitionSelection | None, groups: int, neighbours: Adjacency, chance: Source
) -> tuple[NDArray[np.int64], Whole | None]:
    """Places of the released keys, and the noisy numbers of people that their release told (None: all were listed).

    Their order depends on the keys alone.
    """
    if price is None:
        return np.arange(len(exact.keys)), None
    counts: dict[Hashable, int] = dict(enumerate(exact.people.tolist()))
    answer = unknown_keys(
        counts, epsilon=price.epsilon, delta=price.delta, keys_per_person=groups, adjacency=neighbours, rng=chance
    )
    found: dict[Any, int] = answer.value
    places = sorted(found, key=lambda place: spelt(exact.keys[place]))
    return np.array(places, dtype=np.int64), np.array([found[place] for place in places], dtype=np.int64)
