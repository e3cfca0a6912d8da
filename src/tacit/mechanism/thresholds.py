r"""Sparse vector: which queries are above a threshold, paying for the answers "above" alone.

On a grid with S steps of sensitivity: T' = T + Lap_Z(2 S a/epsilon) once, and query i is above if
f_i + Lap_Z(4 S a/epsilon) >= T' (2 S a/epsilon if the queries are monotone), a = 2 under replace and 1 else. After an
answer "above" the run ends, or goes on with a new noisy threshold and a new charge. Noise is never used again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sized
from fractions import Fraction

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.answer import DATA_DEPENDENT
from ..core.events import AboveThreshold, Event, Repeat
from . import scales
from .charging import Offer, Random, Terms
from .draws import check_scale, discrete_laplace
from .inputs import power_of_two, step_of

FINE = 1024
AHEAD = 16


def above_threshold(
    queries: Iterable[float],
    threshold: float,
    *,
    sensitivity: float,
    epsilon: float,
    count: int = 1,
    monotone: bool = False,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the indices of the first `count` queries found above a public threshold, as a tuple, maybe shorter.

    `queries` are true values, in order; an iterator is read only as far as it must be, so a query may depend on
    answers before it. Each positive answer costs epsilon/count and has a noisy threshold of its own.

    Guarantee: `AboveThreshold(epsilon)`, or `Repeat(AboveThreshold(epsilon/count), count)`: epsilon-DP as a whole.
    Caller ensures: no query moves by more than `sensitivity`; `monotone` holds if claimed (all move the same way).
    Edge cases: NaN counts as 0; the values themselves are not released. With a key the queries must have a length: one
    who could stop an iterator, and ask again under the same key, would see fresh noise for one charge.
    Error: for a sequence of known length, every query before a found one is at most threshold + error, and every found
    one at least threshold - error, all with probability `confidence`.
    Reference: Dwork and Roth 2014, Theorem 3.23; Lyu, Su and Li 2017 (what goes wrong); docs/proofs/sampling.md.
    """
    terms = Terms(ledger, key, rng, adjacency)
    if (
        not isinstance(queries, Iterable)
        or isinstance(queries, str | bytes | Mapping)
        or getattr(queries, "ndim", 1) != 1
    ):
        raise BadInput("queries must be a list of numbers, or an iterator over them.")
    if key is not None:
        if not isinstance(queries, Sized):
            raise BadInput("A key needs queries of known length.", fix="Give a list, or leave key out.")
        queries = list(queries)
    neighbours, rounds = terms.neighbours, check.whole("count", count)
    each = scales.round_epsilon(check.positive("epsilon", epsilon), 0.0, rounds, neighbours)
    event: Event = AboveThreshold(each) if rounds == 1 else Repeat(AboveThreshold(each), rounds)
    moved = Fraction(check.positive("sensitivity", sensitivity))
    spacing = power_of_two(moved / FINE)
    steps = math.ceil(moved / spacing)
    unit = 2 * steps * Fraction(neighbours.sensitivity) / Fraction(each)
    noises = unit, unit * (1 if monotone else 2)
    check_scale(*noises)
    level = step_of(check.real("threshold", threshold), spacing)
    error = _error(queries, noises, rounds, confidence)
    notes = () if error is not None else (DATA_DEPENDENT,)
    told = None if error is None else float(error * spacing)
    asked = level, moved, bool(monotone), len(queries) if isinstance(queries, Sized) else None
    offer = Offer("above_threshold", event, neighbours, told, confidence, notes=notes, asked=asked)

    def draw(chance: Source) -> tuple[int, ...]:
        values = (step_of(value, spacing) for value in queries)
        return tuple(_found(values, level, noises, rounds, chance))

    return offer.drawn(draw, terms)


def _found(
    values: Iterator[int], level: int, noises: tuple[Fraction, Fraction], rounds: int, source: Source
) -> Iterator[int]:
    limits, extras = (_stream(scale, size, source) for scale, size in zip(noises, (1, AHEAD), strict=True))
    limit, left = level + next(limits), rounds
    for i, value in enumerate(values):
        if value + next(extras) >= limit:
            yield i
            left -= 1
            if left == 0:
                return
            limit = level + next(limits)


def _stream(scale: Fraction, size: int, source: Source) -> Iterator[int]:
    """Fresh noise without end, `size` numbers drawn at a time; what is not used is thrown away."""
    while True:
        yield from discrete_laplace(scale, size, source).tolist()


def _error(queries: object, noises: tuple[Fraction, Fraction], rounds: int, confidence: float) -> int | None:
    """Half of the failures for the thresholds, half for the queries, and one step for rounding."""
    if not isinstance(queries, Sized):
        return None
    failure = scales.each_failure(confidence, 1)
    if not 0 < len(queries) < 2**53:
        raise BadInput("There must be at least one query.")
    reaches = (
        scales.laplace_reach(scale, failure / 2 / n) for scale, n in zip(noises, (rounds, len(queries)), strict=True)
    )
    return sum(reaches) + 1
