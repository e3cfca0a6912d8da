r"""Renyi curves: epsilon(a) = D_a(P || Q), the larger of both directions, on a wide grid of orders a > 1.

Orders are written a = 1 + t. Curves add under adaptive composition (Mironov 2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.interval import Interval
from .computed import Levels, Tabulated
from .noise import EPS, Array, GaussianNoise
from .pairs import LOSS, Location, Pair
from .quadrature import Nodes, NotMet
from .steps import LARGEST, Step, upper_step
from .tilted import conversion
from .window import moment_doubt

TILTS = np.geomspace(1e-3, 1e5, 400)
"""Orders minus one: fine and wide enough that no peer's grid is better."""
CAPS = 5
"""How often the largest order of an integral is lowered."""


@dataclass(frozen=True)
class Renyi:
    """A curve that bounds the Renyi divergences of a release from above, given as a named function of a - 1.

    `parameters` make two curves of one name equal or not.
    """

    name: str
    parameters: tuple[float, ...]
    curve: Callable[[Array], Array]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Renyi) and (self.name, self.parameters) == (other.name, other.parameters)

    def __hash__(self) -> int:
        return hash((self.name, self.parameters))


def divergences(pair: Pair, tilts: Array) -> Array:
    """An upper bound of D_{1+t}(P || Q): by quadrature, or from the upper lattice, whose u lies above the pair's."""
    pair = pair.upper
    plain = pair.plain if isinstance(pair, Tabulated | Levels) else None
    if plain is not None:
        return divergences(plain, tilts)
    if pair.infinite > 0:
        return np.full(tilts.shape, np.inf)
    gaussian = isinstance(pair, Location) and type(pair.noise) is GaussianNoise
    found = _gaussian(pair, tilts) if gaussian and isinstance(pair, Location) else _lattice(pair, tilts)
    closed = pair.renyi(tilts)
    return np.asarray(found if closed is None else np.minimum(found, closed))


@lru_cache(maxsize=8)
def _whole(pair: Pair) -> tuple[Step | None, float]:
    """One step on an upper lattice that holds all but e^-700 of its mass, and the largest loss on it.

    None where it does not fit: mass beyond the lattice counts, and no moment is known.
    """
    low, high = pair.reach(-700.0)
    if high > LARGEST:
        return None, high
    return upper_step(pair, (high - max(low, -LARGEST)) / 4_000 + 1e-12, -700.0), high


def _lattice(pair: Pair, tilts: Array) -> Array:
    """From the upper lattice, with room for the rounding of a moment."""
    largest, (step, high) = pair.largest + 2 * pair.doubt + LOSS, _whole(pair)
    if step is None:
        return np.full(tilts.shape, largest)
    found, held = np.full(tilts.shape, largest), tilts * high <= 600.0
    inside = tilts[held]
    room = moment_doubt(((step, 1),), inside)
    found[held] = np.minimum(np.maximum((step.log_moments(inside) + room) / inside, 0.0), largest)
    return found


def _gaussian(pair: Location, tilts: Array) -> Array:
    """Orders whose integral is not certified to 1e-10, rounding apart, are left out, that is, infinite."""
    if len(pair.p) == len(pair.q) == 1:
        return (1 + tilts) * ((pair.p[0][1] - pair.q[0][1]) / pair.noise.scale) ** 2 / 2
    found, (nodes, cap) = np.full(tilts.shape, np.inf), _nodes(pair)
    if nodes is not None:
        inside = tilts <= cap
        found[inside] = _certified(nodes, tilts[inside])
    return found


@lru_cache(maxsize=8)
def _nodes(pair: Location) -> tuple[Nodes | None, float]:
    """Nodes of the integral, and the largest order minus one for which they serve; None if there are too many."""
    cap = _useful_tilt(pair)
    for _ in range(CAPS):  # the farther out, the more nodes: what is too many for all orders may do for small ones
        try:
            return Nodes.between(pair, -20.0 * pair.noise.scale, _right_end(pair, cap)).refined(cap, 0.0, 2.0), cap
        except NotMet:
            cap /= 6
    return None, cap


def _certified(nodes: Nodes, t: Array) -> Array:
    logs = nodes.log_moments(t)
    doubt = np.exp(np.minimum(nodes.log_error(t, np.zeros_like(t)) - logs, 0.0)) + nodes.beyond(t, logs)
    size = [float(np.abs(part.log_ratio).max()) if part.largest else 0.0 for part in (nodes.p, nodes.q)]
    rounding = 4 * EPS * (8 + nodes.x.size / 2 + 40.0**2 + (1 + t) * size[0] + t * size[1])
    return np.where(doubt <= 1e-10, (logs + 1.01e-10 + rounding) / t, np.inf)


def _useful_tilt(pair: Location) -> float:
    """A tilt beyond the useful ones: there the moved part alone outweighs e^60."""
    ratio = pair.noise.scale / max(abs(place) for _, place in (*pair.p, *pair.q))
    moved = max(weight for weight, place in (*pair.p, *pair.q) if place)
    return ratio * math.sqrt(140.0) + 2 * ratio**2 * math.log(1 / moved) + 3


def _right_end(pair: Location, cap: float) -> float:
    """Beyond all tilted mass for tilts up to `cap`: above the root of x = (1 + t) c + t m_q(x), and then some.

    m_q falls with x, so every second iterate from the left is an upper bound.
    """
    s = pair.noise.scale
    start = (1 + cap) * max(place for _, place in pair.p)
    x = start
    if pair.q != ((1.0, 0.0),):
        for _ in range(7):
            terms = [weight * math.exp(min(place * (x - place / 2) / s**2, 600.0)) for weight, place in pair.q]
            moved = math.fsum(-term * place for term, (_, place) in zip(terms, pair.q, strict=True))
            x = start + cap * moved / math.fsum(terms)
    return x + 9.5 * s


def classic(curve: Array, tilts: Array, delta: float) -> float:
    """min_a epsilon(a) + log(1/delta)/(a - 1). Reference: Mironov 2017, Proposition 3."""
    return _least(curve + math.log(1 / delta) / tilts)


def improved(curve: Array, tilts: Array, delta: float) -> float:
    """min_a epsilon(a) + (log(1/delta) + a log(1 - 1/a) - log(a - 1))/(a - 1).

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12; Balle et al. 2020, Theorem 21.
    """
    return _least(curve + (math.log(1 / delta) + conversion(tilts)) / tilts)


def _least(values: Array) -> float:
    finite = values[np.isfinite(values)]
    return max(float(finite.min()), 0.0) if finite.size else math.inf


def delta_at(curve: Array, tilts: Array, epsilon: float) -> float:
    """The delta at an epsilon, by the improved conversion from Renyi divergence."""
    with np.errstate(over="ignore", invalid="ignore"):
        logs = tilts * (curve - epsilon) + conversion(tilts)
    finite = logs[np.isfinite(logs)]
    return min(1.0, math.exp(min(float(finite.min()), 0.0))) if finite.size else 1.0


def interval(upper: float) -> Interval:
    """Only the upper end is provable from a Renyi curve."""
    return Interval(0.0, upper)
