r"""Upper ends that always exist: sampling ignored, pure losses added up, what tells all taken from delta.

Where a sharper method has no answer, because losses are larger than its numbers or its work is too much, these theorems
still have one:

- H_K is jointly convex. A mixture of one noise at places c_j against one at places d_i is dominated by the noise at the
  largest c against the one at the smallest d. Gaussians compose to mu^2 = sum mu_i^2.
- A pair whose losses never exceed l adds at most l to epsilon (basic composition).
- A pair that tells all with probability p adds at most p to delta.
- Renyi divergences add up, and bound delta (Mironov 2017; Canonne, Kamath and Steinke 2020).

Reference: docs/proofs/accounting.md, Lemma 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .bounded import Halves
from .closed import GaussianTotal
from .computed import Levels, Tabulated, Weighted
from .noise import Array, GaussianNoise
from .pairs import LOSS, Location, Pair
from .renyi import delta_at, divergences, improved
from .tilted import conversion

TILTS = np.geomspace(1e-9, 1e3, 60)
"""Orders minus one, down to those of many steps with huge losses."""
FINER = 16
"""Orders looked at around the best of them."""
MODEST, SMALL = 1.0, 1e-3
"""An epsilon above, or a delta above, is compared with what Renyi divergences give: they know of sampling."""
Counted = tuple[tuple[Pair, int], ...]


def epsilon_at_most(pairs: Counted, delta: float, *, moments: bool = True) -> float:
    """An epsilon with delta(epsilon) <= delta; without Renyi divergences if their moments were looked at before."""
    pairs = _plain(pairs)
    left = delta - _told(pairs)
    if left < 0:
        return math.inf
    found = min(pure + GaussianTotal(mu).epsilon(left).upper for mu, pure in _ways(pairs))
    return found if found <= MODEST or left <= 0 or not moments else min(found, _by_renyi(pairs, left))


def delta_at_most(pairs: Counted, epsilon: float) -> float:
    """A bound of delta(epsilon)."""
    pairs = _plain(pairs)
    found = [GaussianTotal(mu).delta(max(epsilon - pure, 0.0)).upper for mu, pure in _ways(pairs) if pure <= epsilon]
    most = min(found, default=1.0)
    return min(
        (most if most < SMALL else min(most, delta_at(_renyi(pairs, TILTS), TILTS, epsilon))) + _told(pairs), 1.0
    )


def _by_renyi(pairs: Counted, delta: float) -> float:
    """Epsilon at the best order: of a wide grid, and then of a fine one around it."""
    curve = _renyi(pairs, TILTS)
    ends = curve + (math.log(1 / delta) + conversion(TILTS)) / TILTS
    best = int(np.argmin(ends))
    near = np.geomspace(TILTS[max(best - 1, 0)], TILTS[min(best + 1, TILTS.size - 1)], FINER)
    return min(improved(curve, TILTS, delta), improved(_renyi(pairs, near), near, delta))


def _renyi(pairs: Counted, tilts: Array) -> Array:
    """The sum of Renyi divergences, of the part of each pair that does not tell all."""
    total = np.zeros_like(tilts)
    with np.errstate(all="ignore"):
        for pair, count in pairs:
            total += count * divergences(pair, tilts)
    return np.where(np.isnan(total), np.inf, total)


def _plain(pairs: Counted) -> Counted:
    """What was computed, replaced by what it was computed from."""
    found = [(pair.upper, count) for pair, count in pairs]
    return tuple(
        (pair.plain if isinstance(pair, Tabulated | Levels) and pair.plain else pair, count) for pair, count in found
    )


def _ways(pairs: Counted) -> Iterator[tuple[float, float]]:
    """(mu, pure): all Gaussian pairs as Gaussians, or those with a largest loss by that."""
    for pure_first in (False, True):
        squares, pure = 0.0, 0.0
        for pair, count in pairs:
            mu, largest = _mu(pair), pair.upper.largest + 2 * pair.upper.doubt + LOSS
            if math.isinf(mu) or (pure_first and math.isfinite(largest)):
                pure += count * max(largest, 0.0) * (1 + 1e-14)
            else:
                squares += count * mu * mu
        yield math.sqrt(squares), pure


def _mu(pair: Pair) -> float:
    """Farthest places over the noise's scale; infinity for other noise."""
    above = pair.upper
    if isinstance(above, Halves):
        return _mu(above.above)  # symmetric, and below its part for every K >= 1
    if isinstance(above, Weighted):
        return max(_mu(part) for _, part in above.parts)
    if not (isinstance(above, Location) and type(above.noise) is GaussianNoise):
        return math.inf
    return (max(place for _, place in above.p) - min(place for _, place in above.q)) / above.noise.scale


def _told(pairs: Counted) -> float:
    """The chance that some step tells all, from above."""
    chances = [(min(pair.upper.infinite, 1.0), count) for pair, count in pairs]
    if any(chance == 1 for chance, _ in chances):
        return math.inf
    return -math.expm1(math.fsum(count * math.log1p(-chance) for chance, count in chances)) * (1 + 1e-14)
