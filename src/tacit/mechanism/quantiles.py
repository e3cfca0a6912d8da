r"""Private quantiles: the exponential mechanism on how far a candidate's rank is from the wanted one.

u(y) = -max(0, #{x < y} - q n, q n - #{x <= y}), where y and x are cells of a public grid: the distance of q n from the
ranks that the cell y holds. A cell that many people share holds many ranks, so it is found if it holds the wanted one.
One record added or removed moves u by at most max(q, 1 - q). One replaced moves it by at most 1; so does one that is
zeroed out, since a null record stays among the n and counts as a public number.
Reference: docs/proofs/sampling.md, Theorem 13.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..core import Adjacency, Answer, Charger, Source, check
from ..core.answer import DATA_DEPENDENT
from ..core.events import AboveThreshold, BoundedRange
from .charging import Offer, Random, Terms
from .draws import check_scale, discrete_laplace
from .inputs import check_column, clamped, reals, records
from .ranges import CELLS, Cells, by_rank, chosen_cell, reach
from .scales import each_failure, laplace_reach
from .thresholds import FINE

SHORT = 30
"""Bits of the share of a quantile: ranks times 2^30 are whole numbers that 64 bits hold."""
LOWEST, HIGHEST = -64, 64
"""Powers of two that a clipping bound may be."""


def quantile(
    values: object,
    q: float,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    grid: int = CELLS,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release a number of the public range that about a share q of the values are below.

    Guarantee: `BoundedRange(epsilon)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: one value per person; `bounds` are public.
    Edge cases: values beyond the bounds are moved to them, and NaN to the lower one; no values give a uniform number;
    q is rounded to a multiple of 2^-30. A value that fewer than about 2 log(grid)/epsilon people share is lost among
    the many cells of a fine grid: for whole numbers from 0 to 100 give `bounds=(-0.5, 100.5), grid=101`.
    Error: depends on the data; the rank is off by at most the number in the notes.
    Reference: Smith 2011, Algorithm 2 (the exponential mechanism on ranks); docs/proofs/sampling.md, Theorems 8 and 13.
    """
    check.probability("q", q)
    terms = Terms(ledger, key, rng, adjacency)
    return _ranked("quantile", values, q, Cells.of(bounds, grid), epsilon, confidence, terms)


def median(
    values: object,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    grid: int = CELLS,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    """Release about the median of the values.

    Guarantee: `BoundedRange(epsilon)`, as `quantile(values, 0.5)`.
    Caller ensures: as for `quantile`.
    """
    terms = Terms(ledger, key, rng, adjacency)
    return _ranked("median", values, 0.5, Cells.of(bounds, grid), epsilon, confidence, terms)


def _ranked(
    name: str, values: object, q: float, cells: Cells, epsilon: float, confidence: float, terms: Terms
) -> Answer:
    check_column(values)
    sure = check.probability("confidence", confidence)
    offer, share, scale = _ranked_offer(
        name, float(q), cells, check.positive("epsilon", epsilon), sure, terms.neighbours
    )

    def draw(chance: Source) -> float:
        edges, heights = by_rank(cells.holding(clamped(values, (cells.lower, cells.upper))), share)
        return cells.middle(chosen_cell(edges, heights, cells, scale, chance))

    return offer.drawn(draw, terms)


@lru_cache(maxsize=1024)
def _ranked_offer(
    name: str, q: float, cells: Cells, epsilon: float, confidence: float, neighbours: Adjacency
) -> tuple[Offer, Fraction, Fraction]:
    """The public offer of a quantile, its share as a short fraction, and the noise scale in units of that fraction."""
    share = Fraction(round(q * 2**SHORT), 2**SHORT)
    scale = _scale(share, epsilon, neighbours)
    notes = (DATA_DEPENDENT, f"the rank is within {reach(scale, cells, confidence):.4g} of that of the best candidate")
    offer = Offer(name, BoundedRange(epsilon), neighbours, None, confidence, notes=notes, asked=(share, cells))
    return offer, share, scale * share.denominator


def clipping_bound(
    values: object,
    *,
    epsilon: float,
    share: float = 0.95,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the least power of two that about `share` of the values are at most: a bound to clip at.

    Sparse vector over the public candidates 2^-64, 2^-63 .. 2^64 in rising order: the first of which the number of
    values within it is at least share n, both with noise. Powers above all data are never asked, so they do not tie.

    Guarantee: `AboveThreshold(epsilon)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: one value per person.
    Edge cases: NaN counts as 0. `share` is rounded to a multiple of 1/1024. Where none is found, 2^64 is released.
    Error: depends on the data; the number of values within the bound is off by at most the number in the notes.
    Reference: Dwork and Roth 2014, Theorem 3.23; docs/proofs/sampling.md (sparse vector).
    """
    terms = Terms(ledger, key, rng, adjacency)
    check_column(values)
    wanted = round(check.probability("share", share) * FINE)
    epsilon = check.positive("epsilon", epsilon)
    event = AboveThreshold(epsilon)
    noises = _rank_noises(wanted, epsilon, terms.neighbours)
    check_scale(*noises)
    powers = np.exp2(np.arange(LOWEST, HIGHEST + 1.0))
    failure = each_failure(confidence, 1) / 2
    off = (laplace_reach(noises[0], failure) + laplace_reach(noises[1], failure / powers.size)) / FINE
    low, high = f"at least share n - {off:.4g} values are within it", f"at most share n + {off:.4g} within half of it"
    notes = (DATA_DEPENDENT, f"{low} (but for 2^64), {high} (but for 2^-64)")

    def draw(chance: Source) -> float:
        sizes = np.sort(np.abs(reals(records(values))))
        above = FINE * np.searchsorted(sizes, powers, side="right") - wanted * sizes.size
        limit = discrete_laplace(noises[0], 1, chance)[0]
        found = np.flatnonzero(above + discrete_laplace(noises[1], powers.size, chance) >= limit)
        return float(powers[found[0]] if found.size else powers[-1])

    offer = Offer("clipping_bound", event, terms.neighbours, None, confidence, notes=notes, asked=(wanted,))
    return offer.drawn(draw, terms)


def _rank_noises(wanted: int, epsilon: float, adjacency: Adjacency) -> tuple[Fraction, Fraction]:
    """Noise of the threshold and of the queries #{x <= y} - share n, in steps of 1/1024.

    One record added or removed moves a query by max(share, 1 - share) at most, and one replaced or zeroed by 1; two
    queries move by at most 1 against each other, whatever happens. Sparse vector needs 2/epsilon times each of these.
    """
    moved = max(wanted, FINE - wanted) if adjacency is Adjacency.ADD_REMOVE else FINE
    return Fraction(2 * moved) / Fraction(epsilon), Fraction(2 * FINE) / Fraction(epsilon)


def _scale(share: Fraction, epsilon: float, adjacency: Adjacency) -> Fraction:
    """Twice the sensitivity of a rank's distance, over epsilon."""
    moved = max(share, 1 - share) if adjacency is Adjacency.ADD_REMOVE else Fraction(1)
    return 2 * moved / Fraction(epsilon)
