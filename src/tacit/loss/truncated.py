r"""Poisson samples that are cut down to `cap` records: between two Poisson-like pairs.

Given the other records that were drawn, m of them: with m < cap nothing is cut. Otherwise the record, if it stays,
takes the place of another one, which moves a sum by up to twice one contribution. So with rho >= P(m >= cap)

    H_K <= (1 - rho) H_K(rate, contribution) + rho H_K(rate, exchange),

which is the H_K of the pair that also tells whether there was a cut. Where all others contribute nothing, the record is
in the sum with probability q' = rate P(m < cap) + (cap/n) P(Bin(n, rate) > cap): a Poisson sample of rate q'.

Reference: docs/proofs/mechanisms.md, Theorem 1.
"""

from __future__ import annotations

from ..core.adjacency import Adjacency
from ..core.events import TruncatedPoisson
from .binomial import at_least, at_most
from .composed import Release
from .computed import Bracketed, Weighted
from .noise import EPS, Noise
from .pairs import Location


def cut(event: TruncatedPoisson, size: int) -> float:
    """P(at least `cap` of the other records are drawn), from above."""
    return at_least(event.cap, size, event.rate)[1] if event.rate < 1 else 1.0


def kept(event: TruncatedPoisson, size: int) -> float:
    """The probability that one of `size` records is in the batch, from below."""
    if event.rate == 1:
        return event.cap / size * (1 - 4 * EPS)
    free = event.rate * at_most(event.cap - 1, size - 1, event.rate)[0]
    return (free + event.cap / size * at_least(event.cap + 1, size, event.rate)[0]) * (1 - 8 * EPS)


def truncated(event: TruncatedPoisson, size: int, noise: Noise, shift: float, adjacency: Adjacency) -> Release:
    """Additive noise on the batch, from both sides."""
    rho, q = cut(event, size), event.rate
    least = kept(event, size)
    one = Location(noise, _mixed(q, shift), _mixed(q, -shift) if adjacency is Adjacency.REPLACE else _STILL)
    two = Location(noise, _mixed(q, 2 * shift), _mixed(q, _LOSES[adjacency] * shift))
    floor = Location(noise, _mixed(least, shift), _mixed(least, -shift) if adjacency is Adjacency.REPLACE else _STILL)
    return Release.mirrored(Bracketed(Weighted(((1 - rho, one), (rho, two))), floor))


_STILL = ((1.0, 0.0),)
_LOSES = {Adjacency.ADD_REMOVE: 0.0, Adjacency.ZERO_OUT: -1.0, Adjacency.REPLACE: -2.0}
"""How far the data set without the record may move when a batch is cut: its slot is empty, null, or another's."""


def _mixed(rate: float, place: float) -> tuple[tuple[float, float], ...]:
    return ((1 - rate, 0.0), (rate, place)) if place else _STILL
