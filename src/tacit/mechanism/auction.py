"""The digital-goods auction: a price for all that sells well, chosen privately from a public list of prices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import BoundedRange
from . import scales
from .charging import Offer, Random, Terms
from .choices import Distances, by_weight
from .inputs import MOST, array_of, check_column, collected, reals, records
from .selection import reach, scale_of


def auction(
    bids: object,
    prices: object,
    *,
    epsilon: float,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release a price p of the public list, with probability growing in its revenue p #{bids >= p}.

    Guarantee: `BoundedRange(epsilon)`, epsilon-DP, drawn exactly and charged before the draw. The revenue of a price
    grows with a bidder by at most the largest price: monotone utilities.
    Caller ensures: one bid per person; `prices` were fixed without looking at the bids.
    Edge cases: NaN bids nothing; a bid above the largest price counts as that price.
    Error: the revenue is below the best of the list by at most `error`, with probability `confidence`.
    Reference: McSherry and Talwar 2007 (unlimited supply auctions).
    """
    columns = [array_of(item) for item in (prices, bids) if isinstance(item, np.ndarray) or hasattr(item, "to_numpy")]
    if prices is bids or (len(columns) == 2 and np.shares_memory(columns[0], columns[1])):
        raise BadInput("The prices are the bids themselves.", fix="Give a public list: prices=np.arange(1, 101).")
    terms = Terms(ledger, key, rng, adjacency)
    check_column(bids)
    listed = _listed(prices)
    epsilon = check.positive("epsilon", epsilon)
    event = BoundedRange(epsilon)
    scale = scale_of(max(listed), epsilon, True, terms.neighbours)
    error = reach(scale, len(listed), scales.each_failure(confidence, 1))
    unit = Fraction(1, max(Fraction(price).denominator for price in listed))  # powers of two: the largest is common
    if scale / unit > Fraction(MOST):
        raise BadInput("The prices are too far apart for so small an epsilon.", fix="Leave out the smallest prices.")

    def draw(chance: Source) -> float:
        offers = np.sort(reals(records(bids)))
        buyers = offers.size - np.searchsorted(offers, listed, side="left")
        revenue = [int(Fraction(price) / unit) * int(n) for price, n in zip(listed, buyers, strict=True)]
        return listed[by_weight(Distances.of(np.array([*revenue, None], object)[:-1], scale / unit), chance)]

    return Offer("auction", event, terms.neighbours, error, confidence, asked=tuple(listed)).drawn(draw, terms)


def _listed(prices: object) -> list[float]:
    """The public prices as floats."""
    try:
        found = np.asarray(collected(prices), dtype=np.float64).ravel()
    except (TypeError, ValueError, OverflowError):
        raise BadInput("prices must be a public list of numbers.", fix="Give prices=np.arange(1, 101).") from None
    if not found.size:
        raise BadInput("There must be at least one price.")
    return [check.positive("price", float(price)) for price in found]
