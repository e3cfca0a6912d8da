r"""Criteria of an adaptive ledger. Each guarantees (epsilon, its share of delta) while it holds; one of them must hold.

Costs of charges are added up by criterion. A charge is accepted while, after it, at least one criterion is within its
limit and the stated deltas are within theirs. docs/proofs/ledger.md, Theorem 1, shows that this is (epsilon, delta)-DP
against adversaries that choose every event after seeing all earlier answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtri

from ..core.json_text import Json
from .amounts import PARTS, Amount, Amounts, below, cost, exact, limit, plain

SUM, GDP, ZCDP, STATED = "sum", "gdp", "zcdp", "stated delta"
SHARES = ((ZCDP, 0.65, 1.0), ("renyi-low", 0.025, 0.8), ("renyi-high", 0.025, 1.5))
"""Renyi criteria: name, share of delta, and t = order - 1 as a multiple of the best one for Gaussian noise."""
GDP_SHARE, STATED_SHARE = 0.15, 0.15
"""Of Gaussian privacy, and of events that state a delta, unless another part is set aside for these."""
SAFE = 1e-12
"""By so much, relatively, a computed limit is lowered: its formula is evaluated in floating point."""
COMPUTED = 1e-9
"""By so much, relatively, a computed cost is raised."""
LEAST = 1e-300
"""A delta below this is not shared: its shares have no digits."""
SMALL = 0.1
"""Below this mu, differences of normal probabilities are integrated."""
PLACES = tuple(zip(*(part.tolist() for part in np.polynomial.legendre.leggauss(5)), strict=True))
"""Places in [-1, 1] and their weights."""


@dataclass(frozen=True)
class Criterion:
    """Costs of `name` may add up to `limit`. A Renyi criterion has `tilt` = order - 1; `delta` is its share."""

    name: str
    limit: int
    delta: float = 0.0
    tilt: float | None = None

    def to_json(self) -> Json:
        return {"name": self.name, "limit": str(self.limit), "delta": self.delta, "tilt": self.tilt}

    @classmethod
    def from_json(cls, data: Json) -> Criterion:
        tilt = None if data["tilt"] is None else float(data["tilt"])
        if tilt is not None and not 0 < tilt < math.inf:
            raise ValueError
        return cls(str(data["name"]), int(data["limit"]), float(data["delta"]), tilt)

    def holds(self, totals: Amounts) -> bool:
        total = totals[self.name]
        return total is not None and total <= self.limit

    def left(self, totals: Amounts) -> int:
        """What may still be charged; negative when the criterion no longer holds."""
        total = totals[self.name]
        return -1 if total is None else self.limit - total


def criteria(epsilon: float, delta: float, stated: float = STATED_SHARE) -> tuple[Criterion, ...]:
    """The criteria of a budget: the plain sum, and with delta > 0 also Renyi orders and Gaussian privacy.

    `stated` is the part of delta that is set aside for events that state a delta; the others share the rest. All shares
    add up to at most delta.
    """
    plain_sum = Criterion(SUM, limit(exact(epsilon)))
    own = Criterion(STATED, limit(exact(delta) * exact(stated)))
    rest = delta * (1 - stated) / (1 - STATED_SHARE)
    if rest < LEAST:
        return (plain_sum, own)
    best = best_tilt(epsilon, SHARES[0][1] * rest)
    renyi = [_renyi(name, epsilon, share * rest, scale * best) for name, share, scale in SHARES]
    mu = gaussian_limit(epsilon, GDP_SHARE * rest)
    gaussian = Criterion(GDP, limit(mu * mu * (1 - SAFE)), GDP_SHARE * rest)
    return (plain_sum, *(item for item in (*renyi, gaussian) if item.limit > 0), own)


def sound(found: tuple[Criterion, ...], epsilon: float, delta: float) -> bool:
    """Whether these criteria keep (epsilon, delta): each limit is what its share of delta allows, and no more."""
    names = [item.name for item in found]
    if len(set(names)) < len(names) or not {SUM, STATED} <= set(names):
        return False
    shares = sum(exact(item.delta) for item in found if item.name != STATED)
    stated = next(item for item in found if item.name == STATED)
    if shares + Fraction(stated.limit, PARTS) > exact(delta) * (1 + Fraction(1, 10**9)) or stated.limit < 0:
        return False
    return all(_allowed(item, epsilon) for item in found if item is not stated)


def _allowed(item: Criterion, epsilon: float) -> bool:
    if item.name == SUM:
        return item.limit <= limit(exact(epsilon)) and item.delta == 0
    if not item.delta > 0 or not (item.tilt or item.name == GDP):
        return False
    return item.limit <= resized(item, epsilon).limit * (1 + Fraction(1, 10**9))


def _renyi(name: str, epsilon: float, delta: float, tilt: float) -> Criterion:
    tilt = float(f"{tilt:.6g}")  # stored and read again: a short number
    return Criterion(name, max(limit(renyi_limit(epsilon, delta, tilt) * (1 - SAFE)), 0), delta, tilt)


def renyi_limit(epsilon: float, delta: float, tilt: float) -> float:
    r"""The largest D_{1+t} that still means (epsilon, delta): epsilon - (log(1/delta) + (1+t) log(t/(1+t)) - log t)/t.

    Reference: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    return epsilon - (-math.log(delta) - (1 + tilt) * math.log1p(1 / tilt) - math.log(tilt)) / tilt


def best_tilt(epsilon: float, delta: float) -> float:
    """t = order - 1 at which Gaussian noise, D_{1+t} = (1+t) rho, may have the largest rho; by search over t."""
    tilts = [10 ** (k / 100) for k in range(-300, 801)]
    return max(tilts, key=lambda tilt: renyi_limit(epsilon, delta, tilt) / (1 + tilt))


@lru_cache(maxsize=1024)
def gaussian_limit(epsilon: float, delta: float) -> float:
    r"""The largest mu with Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) <= delta.

    Reference: Dong, Roth and Su 2022, Corollary 2.13 (as numbered in arXiv 1905.02383).
    """
    low, high = 0.0, 2 * math.sqrt(2 * (epsilon + 40 - 2 * math.log(delta)))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta * (1 - 1e-9) else (low, middle)
    return low


def gaussian_delta(epsilon: float, mu: float) -> float:
    r"""The delta of mu-GDP at epsilon (Dong, Roth and Su 2022, Corollary 2.13): Phi(a) - e^epsilon Phi(b), a - b = mu.

    Both terms lose all digits beside each other when mu is small. With m = Phi/phi, phi(a) = e^epsilon phi(b) and
    m' = 1 + x m, delta is phi(a) times the integral of m' from b to a: five places of Gauss and Legendre.
    """
    if mu <= 0 or (a := mu / 2 - epsilon / mu) < -40:  # below all floats
        return 0.0
    if mu < SMALL:
        places = [(a - mu * (1 + place) / 2, weight / 2) for place, weight in PLACES]
        mean = math.fsum(w * (1 + x * math.sqrt(math.pi / 2) * erfcx(-x / math.sqrt(2))) for x, w in places)
        return mu * math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * max(mean, 0.0)
    first, second = log_ndtr(a), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def pure_renyi(epsilon: float, tilt: float) -> float:
    r"""D_{1+t} of randomized response, the worst of all epsilon-DP: log((e^{(1+t)e} + e^{-te})/(1 + e^e))/t.

    The moment is 1 + 2 sinh^2(te/2) + tanh(e/2) sinh(te), where nothing cancels however small e is.
    Reference: every epsilon-DP pair is a function of it (Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3).
    """
    if tilt * epsilon < 1:
        more = 2 * math.sinh(tilt * epsilon / 2) ** 2 + math.tanh(epsilon / 2) * math.sinh(tilt * epsilon)
        return math.log1p(more) / tilt
    log_sum = (1 + tilt) * epsilon + math.log1p(math.exp(-(1 + 2 * tilt) * epsilon))
    return max((log_sum - epsilon - math.log1p(math.exp(-epsilon))) / tilt, 0.0)


def pure_mu(epsilon: float) -> float:
    r"""mu = -2 Phi^{-1}(1/(1 + e^epsilon)): epsilon-DP is mu-GDP.

    The trade-off curve of epsilon-DP is made of two chords of that of mu-GDP, which is convex, so it lies above it.
    Reference: docs/proofs/ledger.md, Lemma 2.
    """
    if epsilon < 1e-3:  # Phi^{-1}(1/2 + x) <= sqrt(2 pi) x (1 + 2 x^2) for so small an x
        x = math.tanh(epsilon / 2) / 2
        return 2 * math.sqrt(2 * math.pi) * x * (1 + 2 * x * x)
    return float(-2 * ndtri(1 / (1 + math.exp(epsilon)))) if epsilon < 700 else math.inf


def resized(item: Criterion, epsilon: float) -> Criterion:
    """The criterion at the same order and share of delta, with the limit for another epsilon."""
    if item.name == SUM:
        return replace(item, limit=limit(exact(epsilon)))
    if item.tilt is not None:
        found = renyi_limit(epsilon, item.delta, item.tilt)
        return replace(item, limit=limit(found * (1 - SAFE)) if found > 0 else 0)
    if item.name == GDP:
        return replace(item, limit=limit(gaussian_limit(epsilon, item.delta) ** 2 * (1 - SAFE)))
    return item


def accepts(found: tuple[Criterion, ...], totals: Amounts) -> bool:
    """Whether some criterion still holds at these totals, and the stated deltas are within theirs."""
    stated = next(item for item in found if item.name == STATED)
    return stated.holds(totals) and any(item.holds(totals) for item in found if item.name != STATED)


def pure_costs(found: tuple[Criterion, ...], epsilon: float) -> dict[str, Amount]:
    """What an epsilon-DP charge of which nothing else is known costs, by criterion."""
    costs: dict[str, Amount] = {SUM: cost(exact(epsilon)), STATED: 0}
    for item in found:
        if item.tilt is not None:
            costs[item.name] = cost(min(pure_renyi(epsilon, item.tilt) + 1e-15, epsilon) * (1 + COMPUTED))
        elif item.name == GDP:
            costs[item.name] = cost(pure_mu(epsilon) ** 2 * (1 + COMPUTED))
    return costs


@lru_cache(maxsize=4096)
def _remaining(found: tuple[Criterion, ...], lefts: tuple[int, ...]) -> float:
    """By bisection in each criterion, lowered to what is really accepted."""
    best = 0.0
    for item, left in zip(found, lefts, strict=True):
        if item.name == STATED or left < 0:
            continue
        if item.name == SUM:
            best = max(best, below(left))
            continue
        epsilon = _largest(item, plain(left))
        amount = pure_costs((item,), epsilon)[item.name]
        best = max(best, epsilon if amount is not None and amount <= left else 0.0)
    return best


def _largest(item: Criterion, left: float) -> float:
    """The pure epsilon whose cost in a criterion is just below `left`."""
    low, high = 0.0, 2 * left + 40.0
    for _ in range(60):
        middle = (low + high) / 2
        one = pure_mu(middle) ** 2 if item.tilt is None else pure_renyi(middle, item.tilt)
        low, high = (middle, high) if one * (1 + 2 * COMPUTED) + 2e-15 <= left else (low, middle)
    return low


def remaining(found: tuple[Criterion, ...], totals: Amounts) -> float:
    """The largest pure epsilon that is still accepted."""
    stated = next(item for item in found if item.name == STATED)
    return _remaining(found, tuple(item.left(totals) for item in found)) if stated.holds(totals) else 0.0
