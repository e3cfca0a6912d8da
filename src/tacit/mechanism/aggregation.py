r"""Subsample and aggregate: any function of records, made private by its answers on many small blocks.

Every record goes to one of k blocks, drawn for it alone. Whoever is added, removed or replaced changes one block, so
one of the k answers, by no more than the width of the public bounds.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import BoundedRange, DiscreteLaplace
from ..core.global_randomness import lent
from . import scales
from .charging import Offer, Random, Terms
from .draws import check_scale, discrete_laplace
from .exact import uniform_below
from .inputs import Floats, float_of, on_grid, power_of_two, span
from .ranges import CELLS, Cells, by_rank, chosen_cell

BLOCKS = "the error is that of the noise: how far answers on blocks are from the answer on all records is not covered"

MOST = 10_000_000
"""Blocks, at most."""


def subsample_and_aggregate(
    data: Sequence[object] | NDArray[np.generic],
    function: Callable[[Any], float],
    *,
    blocks: int,
    bounds: tuple[float, float],
    epsilon: float,
    aggregate: str = "mean",
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the noisy mean, or the private median, of a function's answers on random disjoint blocks of the records.

    Guarantee: mean: `DiscreteLaplace(z, S)`, S = steps of the bounds' width; median: `BoundedRange(epsilon)`;
    epsilon-DP under every adjacency, drawn exactly and charged before anything is computed.
    Caller ensures: a row of `data` (an array, a list or a DataFrame) is a person; `function` keeps nothing between
    calls, and its run time is not seen.
    Edge cases: a block on which the function raises or returns no number, or that is empty, counts as the middle of the
    bounds; answers beyond the bounds are moved to them. Warnings of the function are not shown; what it prints is.
    Error: of the mean of the blocks' answers, with probability `confidence`; of the median, depends on the data.
    Reference: Nissim, Raskhodnikova and Smith 2007, section 4; Smith 2011.
    """
    terms = Terms(ledger, key, rng, adjacency)
    lower, upper = span(bounds)
    if (count := check.whole("blocks", blocks)) > MOST:
        raise BadInput(f"blocks must be at most {MOST:,}, got {count:,}.")
    epsilon = check.positive("epsilon", epsilon)
    rows = _rows(data)

    def answers(chance: Source) -> Floats:
        return np.clip(_answers(rows, function, count, (lower + upper) / 2, chance), lower, upper)

    if check.one_of("aggregate", aggregate, ("mean", "median")) == "mean":
        return _mean(answers, count, (lower, upper), epsilon, confidence, terms)
    return _median(answers, count, (lower, upper), epsilon, confidence, terms)


def _rows(data: Any) -> object:
    """Rows that can be counted and chosen: arrays, tensors, columns and tables as they are, anything else as a list."""
    rows = isinstance(data, Iterable) or hasattr(data, "to_pylist")  # a table of Arrow cannot be iterated over
    if getattr(data, "ndim", 1) and rows and not isinstance(data, str | bytes | Mapping):
        found = data if hasattr(data, "__array__") or hasattr(data, "columns") else list(data)
        if hasattr(found, "__len__") and not hasattr(found, "nnz"):  # a sparse matrix has no rows to take
            return found
    raise BadInput("data must be an array, a list, a column or a DataFrame with one row for each person.")


def _mean(
    answers: Callable[[Source], Floats],
    count: int,
    bounds: tuple[float, float],
    epsilon: float,
    confidence: float,
    terms: Terms,
) -> Answer:
    """Release the noisy mean of the clipped answers.

    One answer moves the sum by at most the width of the bounds.
    """
    width = Fraction(bounds[1]) - Fraction(bounds[0])
    spacing = power_of_two(width / 2**20)
    factor = Fraction(terms.neighbours.sensitivity)
    steps = math.ceil(Fraction(math.ceil(width / spacing)) / factor)
    event = DiscreteLaplace(scales.pure_multiplier(epsilon, terms.neighbours.sensitivity), steps)
    scale = Fraction(event.noise_multiplier) * steps
    check_scale(scale)
    off = scales.laplace_reach(scale, scales.each_failure(confidence, 1)) + Fraction(count, 2)
    offer = Offer(
        "subsample_and_aggregate",
        event,
        terms.neighbours,
        float_of(1, off * spacing / count),
        confidence,
        notes=(BLOCKS,),
        asked=(int(count), *bounds),
    )

    def draw(chance: Source) -> float:
        total = sum(int(step) for step in on_grid(answers(chance) - bounds[0], spacing).tolist())
        noisy = total + int(discrete_laplace(scale, 1, chance)[0])
        return float_of(1, Fraction(bounds[0]) + noisy * spacing / count)

    return offer.drawn(draw, terms)


def _median(
    answers: Callable[[Source], Floats],
    count: int,
    bounds: tuple[float, float],
    epsilon: float,
    confidence: float,
    terms: Terms,
) -> Answer:
    """One of `count` answers is replaced, so a rank moves by at most 1."""
    cells, event = Cells.of(bounds, CELLS), BoundedRange(epsilon)

    def draw(chance: Source) -> float:
        edges, heights = by_rank(cells.holding(answers(chance)), Fraction(1, 2))
        return cells.middle(chosen_cell(edges, heights, cells, 4 / Fraction(epsilon), chance))

    asked = int(count), *bounds
    offer = Offer("subsample_and_aggregate", event, terms.neighbours, None, confidence, notes=(BLOCKS,), asked=asked)
    return offer.drawn(draw, terms)


def _taken(rows: Any, where: NDArray[np.int64]) -> Any:
    """Some of the rows in a container of the type that was given, for which the function was written."""
    if hasattr(rows, "iloc"):
        return rows.iloc[where]
    if hasattr(rows, "to_pylist"):  # a column or table of Arrow
        return rows.take(where)
    return [rows[j] for j in where] if isinstance(rows, list) else rows[where]


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Show no warning: one that hangs on a person's record would tell of it, as an error would."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _answers(rows: Any, function: Callable[[Any], float], count: int, middle: float, chance: Source) -> Floats:
    """The function's answer on every block; whatever goes wrong inside is one person's doing, and is not shown.

    Each block finds the global generators in a state of its own. Otherwise a block that draws more often, for the sake
    of one person's record, would change what all later blocks draw.
    """
    seed = int(chance.words(1)[0])
    block = uniform_below(chance, count, len(rows))
    order = np.argsort(block, kind="stable")
    some, starts = np.unique(block[order], return_index=True)
    found = np.full(count, middle)
    for i, where in zip(some.tolist(), np.split(order, starts)[1:], strict=True):
        try:
            with lent(np.random.default_rng([seed, i])), _silence():
                answer = float(function(_taken(rows, where)))
        except KeyboardInterrupt:
            raise
        except BaseException:  # an error that depends on records is a release; Rust raises others than `Exception`
            continue
        found[i] = middle if math.isnan(answer) else answer
    return found
