r"""Keys that are not known beforehand: a key is released only when enough people hold it.

Each key's number of people gets noise Lap_Z(m a/epsilon), m = keys per person, a = 1 (replace: 2); keys whose noisy
number reaches a public limit are released with that number. The limit is so high that a key held by one person is
released with probability at most 1 - (1 - d)^{1/m}, d = delta (replace: delta/2): all of one person's keys together
with at most d.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import PartitionSelection
from . import scales
from .charging import Offer, Random, Terms
from .draws import check_scale, discrete_laplace
from .inputs import ROOM, fraction

LEAST = 1e-300
"""The least chance of a key held by one person: smaller ones lose their digits."""


def unknown_keys(
    counts: Mapping[Hashable, int],
    *,
    epsilon: float,
    delta: float,
    keys_per_person: int = 1,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the keys that enough people hold, each with its noisy number of people, largest first.

    Guarantee: `PartitionSelection(epsilon, delta)`, drawn exactly and charged before the draw.
    Caller ensures: `counts` holds the number of different people for each key that occurs; nobody is counted in more
    than `keys_per_person` keys, nor more than once in a key.
    Edge cases: counts below 1 are dropped. The order of the dictionary does not matter.
    Error: a released number is within `error` of the true one, with probability `confidence` each; whether a key is
    released depends on the data.
    Reference: Korolova et al. 2009; Balcer and Vadhan 2018; docs/proofs/sampling.md, Theorem 10.
    """
    terms = Terms(ledger, key, rng, adjacency)
    neighbours, most = terms.neighbours, check.whole("keys_per_person", keys_per_person)
    if not isinstance(counts, Mapping):
        raise BadInput(
            "counts must be a dictionary from keys to numbers of people.",
            fix="Of a column of pandas: column.value_counts().to_dict().",
        )
    if (delta := check.delta(delta)) == 0:
        raise BadInput("Unknown keys need a delta above 0.", fix="Release a public list of keys with laplace.")
    epsilon = check.positive("epsilon", epsilon)
    event = PartitionSelection(epsilon, delta)
    factor = int(neighbours.sensitivity)
    scale = most * factor / Fraction(epsilon)
    check_scale(scale)
    if delta / factor / most < LEAST:
        raise BadInput(f"delta is too small for {most} keys per person.", fix="Give a larger delta.")
    limit = threshold(scale, delta / factor, most)
    error = scales.laplace_reach(scale, scales.each_failure(confidence, 1))
    notes = (f"keys are released from a noisy number of {limit} on; which ones depends on the data",)
    offer = Offer("unknown_keys", event, neighbours, float(error), confidence, notes=notes, asked=(int(most),))
    return offer.drawn(lambda chance: _released(counts, scale, limit, chance), terms)


def threshold(scale: Fraction, delta: float, keys: int) -> int:
    r"""The least t with P(1 + X >= t) = r^{t-1}/(1 + r) <= 1 - (1 - delta)^{1/keys}, r = e^{-1/scale}."""
    b = float(scale)
    each = max(-math.expm1(math.log1p(-delta) / keys), LEAST)
    steps = b * (-math.log(each) - math.log1p(math.exp(-1 / b)))
    return 1 + max(math.ceil(steps * (1 + 1e-12) + 1e-9), 1)


def _released(counts: Mapping[Hashable, int], scale: Fraction, limit: int, source: Source) -> dict[Hashable, int]:
    """In an order that depends on released numbers and keys alone."""
    names = [name for name, count in counts.items() if _count(count) >= 1]
    noise = discrete_laplace(scale, len(names), source).tolist()
    noisy = [(name, _count(counts[name]) + extra) for name, extra in zip(names, noise, strict=True)]
    kept = [(name, number) for name, number in noisy if number >= limit]
    return dict(sorted(kept, key=lambda item: (-item[1], type(item[0]).__name__, _shown(item[0]))))


def _shown(name: Hashable) -> str:
    try:
        return repr(name)
    except KeyboardInterrupt:
        raise
    except BaseException:  # Python writes no whole number of very many digits, and a raise would tell of the key
        return str(hash(name))


def _count(value: object) -> int:
    """A number of people, rounded down; whatever is no number counts as 0."""
    return min(max(math.floor(value if type(value) is int else fraction(value)), 0), ROOM)
