r"""Medians whose noise fits the data: smooth sensitivity, and propose-test-release.

Both are for replace-one adjacency, where the number of values is public. Values are put into public cells, so all
below is about whole numbers x_1 <= .. <= x_n. With m the place of the median, and x_i the end of the range where i is
not a place,

    A_k = max_{0 <= t <= k + 1} x_{m+t} - x_{m+t-k-1}

is the most that the median of any data set at distance k moves when one value is replaced.
Reference: Nissim, Raskhodnikova and Smith 2007, section 3.1; Dwork and Lei 2009; docs/proofs/sampling.md, Theorems 11
and 12 (the same with discrete noise).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.answer import DATA_DEPENDENT
from ..core.events import ApproximateDP
from .charging import Offer, Random, Terms
from .draws import LARGEST, discrete_laplace
from .inputs import clamped, collected, records
from .ranges import Cells

Whole = NDArray[np.int64]
GRID = 2**30
SLACK = 2.0**-40
"""Room for the rounding of a smooth sensitivity, which floating point computes to a relative 2^-48."""


def smooth_median(
    values: object,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    grid: int = GRID,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the median with Laplace noise of scale 2 S/epsilon, S = max_k e^{-beta k} A_k its smooth sensitivity.

    beta = log(1 + epsilon/(2 log(2/delta))), and epsilon/2 where that is less.

    Guarantee: `ApproximateDP(epsilon, delta)` under replace, drawn exactly and charged before the draw.
    Caller ensures: one value per person; the number of values and the bounds are public.
    Edge cases: values beyond the bounds are moved to them, and NaN to the lower one.
    Error: depends on the data, and is not released.
    """
    values = collected(values)
    terms, cells = _start(values, bounds, grid, adjacency, ledger, key, rng)
    epsilon = check.positive("epsilon", epsilon)
    if (delta := check.delta(delta)) == 0:
        raise BadInput("The smooth median needs a delta above 0.", fix="Use median, which is pure.")
    if 4 * cells.count / epsilon > LARGEST:
        raise BadInput("epsilon is too small for so fine a grid.", fix="Give a coarser grid.")
    beta = max(min(math.log1p(epsilon / (2 * math.log(2 / delta))), epsilon / 2) - 2 * SLACK, 0.0)

    def draw(chance: Source) -> float:
        sorted_ = np.sort(cells.index(clamped(values, (cells.lower, cells.upper))))
        scale = Fraction(smooth_sensitivity(sorted_, cells.count, beta)) * 2 / Fraction(epsilon)
        return _number(cells, _median(sorted_) + int(discrete_laplace(scale, 1, chance)[0]))

    offer = Offer(
        "smooth_median",
        ApproximateDP(epsilon, delta),
        terms.neighbours,
        None,
        confidence,
        notes=(DATA_DEPENDENT,),
        asked=(cells,),
    )
    return offer.drawn(draw, terms)


def propose_test_release(
    values: object,
    *,
    proposal: float,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    grid: int = GRID,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the median with noise for a proposed sensitivity, if the data are far from any that exceed it.

    Half of epsilon tests: the least k with A_k > proposal, plus Lap_Z(2/epsilon), must pass a public limit that 0 plus
    noise passes with probability at most delta. The other half releases the median + Lap_Z(2 proposal/epsilon).

    Guarantee: `ApproximateDP(epsilon, delta)` under replace, drawn exactly and charged before the draw.
    Caller ensures: one value per person; the number of values, the bounds and the proposal are public.
    Edge cases: the value is None when the test fails; that is a release too, and was paid for.
    Error: depends on the data: nothing may be released.
    """
    values = collected(values)
    terms, cells = _start(values, bounds, grid, adjacency, ledger, key, rng)
    epsilon = check.positive("epsilon", epsilon)
    if (delta := check.delta(delta)) == 0:
        raise BadInput("Propose-test-release needs a delta above 0.", fix="Use median, which is pure.")
    most = math.ceil(Fraction(check.positive("proposal", proposal)) / _width(cells))
    if most >= cells.count:
        raise BadInput("proposal must be below the width of the bounds.")
    half = Fraction(epsilon) / 2
    if max(1, most) / half > LARGEST:
        raise BadInput("epsilon is too small for so fine a grid.", fix="Give a coarser grid.")
    limit = math.ceil(float(1 / half) * -math.log(delta) * (1 + 1e-12))  # P(X > t) < e^{-t epsilon/2}

    def draw(chance: Source) -> float | None:
        sorted_ = np.sort(cells.index(clamped(values, (cells.lower, cells.upper))))
        far = distance(sorted_, cells.count, most) + int(discrete_laplace(1 / half, 1, chance)[0])
        noise = int(discrete_laplace(most / half, 1, chance)[0])
        return _number(cells, _median(sorted_) + noise) if far > limit else None

    event = ApproximateDP(epsilon, delta)
    asked, notes = (cells, most), (DATA_DEPENDENT,)
    offer = Offer("propose_test_release", event, terms.neighbours, None, confidence, notes=notes, asked=asked)
    return offer.drawn(draw, terms)


def local_sensitivity(sorted_: Whole, top: int, k: int) -> int:
    """A_k: how far the median moves at most, k values away from these."""
    n = sorted_.size
    middle = (n + 1) // 2
    places = np.arange(middle - k - 1, middle + k + 2)
    found = np.where(places < 1, 0, np.where(places > n, top, sorted_[np.clip(places, 1, n) - 1]))
    return int((found[k + 1 :] - found[: k + 2]).max())


def smooth_sensitivity(sorted_: Whole, top: int, beta: float) -> float:
    """max(1, max_k e^{-beta k} A_k), a little enlarged: places are halved while one between may be larger.

    A_k never falls and weights never rise, so that from `low` to `high` no term is above e^{-beta low} A_high.
    """
    most, open_ = 1.0, [(0, sorted_.size)]
    while open_:
        low, high = open_.pop()
        ends = [local_sensitivity(sorted_, top, k) for k in (low, high)]
        terms = [moved * math.exp(-beta * k) for moved, k in zip(ends, (low, high), strict=True)]
        most = max(most, *terms)
        if high - low > 1 and ends[1] * math.exp(-beta * low) > most:
            middle = (low + high) // 2
            open_ += [(middle, high), (low, middle)]
    return most * (1 + SLACK)


def distance(sorted_: Whole, top: int, most: int) -> int:
    """The least k with A_k > most, by bisection, since A_k never falls."""
    low, high = 0, sorted_.size
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if local_sensitivity(sorted_, top, middle) > most else (middle + 1, high)
    return low


def _start(
    values: object,
    bounds: object,
    grid: int,
    adjacency: Adjacency | str | None,
    ledger: Charger | None,
    key: str | None,
    rng: Random,
) -> tuple[Terms, Cells]:
    chosen = adjacency if adjacency is not None or ledger is not None else Adjacency.REPLACE
    terms = Terms(ledger, key, rng, chosen)
    if terms.neighbours is not Adjacency.REPLACE:
        raise BadInput(
            f"This median is proven for replace adjacency, not for {terms.neighbours.value}.",
            fix="Use median, which is for all of them.",
        )
    if records(values).size == 0:
        raise BadInput("There must be at least one value.")
    return terms, Cells.of(bounds, grid)


def _median(sorted_: Whole) -> int:
    return int(sorted_[(sorted_.size + 1) // 2 - 1])


def _width(cells: Cells) -> Fraction:
    return (Fraction(cells.upper) - Fraction(cells.lower)) / cells.count


def _number(cells: Cells, cell: int) -> float:
    share = min(max(cell, 0), cells.count) / cells.count
    return min(max(cells.lower + (cells.upper - cells.lower) * share, cells.lower), cells.upper)
