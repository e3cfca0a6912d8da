r"""Private quantiles: the exponential mechanism on how far a candidate's rank is from the wanted one.

u(y) = -|#{x < y} - q n|. One record added or removed moves it by at most max(q, 1 - q). One replaced moves it by at
most 1; so does one that is zeroed out, since a null record stays among the n and counts as a public number.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..core import Adjacency, Answer, Charger, Source, check
from ..core.answer import DATA_DEPENDENT
from ..core.events import BoundedRange
from .charging import Offer, Random, Terms
from .choices import Distances, by_weight
from .inputs import clamped, reals, records
from .ranges import CELLS, Cells, chosen_cell, reach
from .scales import each_failure

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
    Edge cases: values beyond the bounds are moved to them, and NaN to the lower one; no values give a uniform number.
    Error: depends on the data; the rank is off by at most the number in the notes.
    Reference: Smith 2011, Algorithm 2 (the exponential mechanism on ranks); docs/proofs/sampling.md, Theorem 8.
    """
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
    share = Fraction(check.probability("q", q))
    event = BoundedRange(check.positive("epsilon", epsilon))
    scale = _scale(share, epsilon, terms.neighbours)
    notes = (DATA_DEPENDENT, f"the rank is within {reach(scale, cells, confidence):.4g} of that of the best candidate")

    def draw(chance: Source) -> float:
        edges = np.sort(cells.index(clamped(values, (cells.lower, cells.upper))), kind="stable")
        heights = _heights(np.arange(edges.size + 1), edges.size, share)
        return cells.middle(chosen_cell(edges, heights, cells, scale * share.denominator, chance))

    return Offer(name, event, terms.neighbours, None, confidence, notes=notes).drawn(draw, terms)


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
    r"""Release a power of two that about `share` of the values are at most, in absolute value: a bound to clip at.

    Guarantee: `BoundedRange(epsilon)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: one value per person.
    Edge cases: NaN counts as 0. The candidates are 2^-64, 2^-63 .. 2^64, and public.
    Error: depends on the data; the rank is off by at most the number in the notes.
    Reference: as for `quantile`.
    """
    terms = Terms(ledger, key, rng, adjacency)
    wanted = Fraction(check.probability("share", share))
    event = BoundedRange(check.positive("epsilon", epsilon))
    scale = _scale(wanted, epsilon, terms.neighbours)
    powers = np.exp2(np.arange(LOWEST, HIGHEST + 1.0))
    off = float(scale) * (math.log(powers.size) - math.log(each_failure(confidence, 1)))
    notes = (DATA_DEPENDENT, f"the rank is within {off:.4g} of that of the best candidate")

    def draw(chance: Source) -> float:
        sizes = np.sort(np.abs(reals(records(values))))
        within = np.searchsorted(sizes, powers, side="right")
        heights = _heights(within, sizes.size, wanted)
        return float(powers[by_weight(Distances.of(heights, scale * wanted.denominator), chance)])

    return Offer("clipping_bound", event, terms.neighbours, None, confidence, notes=notes).drawn(draw, terms)


def _scale(share: Fraction, epsilon: float, adjacency: Adjacency) -> Fraction:
    """Twice the sensitivity of a rank's distance, over epsilon."""
    moved = max(share, 1 - share) if adjacency is Adjacency.ADD_REMOVE else Fraction(1)
    return 2 * moved / Fraction(epsilon)


def _heights(below: np.ndarray, count: int, share: Fraction) -> np.ndarray:
    """-|#{x < y} - q n| in units of 1/denominator: whole numbers."""
    wanted = share.numerator * count
    return np.array([*(-abs(int(rank) * share.denominator - wanted) for rank in below.tolist()), None], object)[:-1]
