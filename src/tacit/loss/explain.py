r"""What each theorem gives for the same event: from the textbooks to the exact answer.

Textbook composition of k releases at total delta: half of delta pays for the composition (delta'), the other half is
shared by the releases (delta_0 = delta/2k); basic composition shares all of it. For a group of g records the textbooks
take one record's (e, d) to (g e, d (e^{g e} - 1)/(e^e - 1)), here with d chosen so that the total is delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..core import check
from ..core.adjacency import Adjacency
from ..core.events import Compose, Event, Gaussian, Poisson, Repeat
from .closed import GaussianTotal
from .composed import Composed
from .dispatch import loss_of, privacy_loss
from .renyi import TILTS, classic, improved


@dataclass(frozen=True)
class Theorem:
    """One way to bound epsilon; `bound` is False for an approximation, which proves nothing."""

    name: str
    epsilon: float
    reference: str
    bound: bool = True


def explain(
    event: Event, *, delta: float, adjacency: Adjacency | str = Adjacency.ADD_REMOVE, group: int = 1
) -> list[Theorem]:
    """All theorems here that apply to the event, for `group` records that differ.

    Approximations come first and the answer last. In between, looser bounds come before tighter ones. Rarely a Renyi
    curve lies a little below the answer.
    """
    adjacency, delta, group = Adjacency.of(adjacency), check.delta(delta), check.whole("group", group)
    loss = privacy_loss(event, adjacency, group=group)
    assert isinstance(loss, Composed)
    exact = loss.epsilon(delta)
    name = "sum of Renyi curves" if loss.curves else "privacy-loss distribution, certified"
    found = [*_renyi(loss, delta), *_gaussian(event, delta, adjacency, group)]
    found += _textbook(event, delta, adjacency) if group == 1 else _group(event, delta, adjacency, group)
    found = [item for item in found if math.isfinite(item.epsilon)]
    found.sort(key=lambda item: (item.bound, -item.epsilon))
    return [*found, Theorem(name, exact.upper, "Zhu, Dong and Wang 2022; docs/proofs/accounting.md")]


def parts(event: Event) -> dict[Event, int]:
    """The leaves of an event with their counts."""
    counts: dict[Event, int] = {}
    for leaf, count in _leaves(event, 1):
        counts[leaf] = counts.get(leaf, 0) + count
    return counts


def _leaves(event: Event, times: int) -> Iterator[tuple[Event, int]]:
    if isinstance(event, Repeat):
        yield from _leaves(event.event, times * event.steps)
    elif isinstance(event, Compose):
        for part in event.events:
            yield from _leaves(part, times)
    elif isinstance(event, Poisson) and event.rate == 1:
        yield from _leaves(event.event, times)
    else:
        yield event, times


def _textbook(event: Event, delta: float, adjacency: Adjacency) -> Iterator[Theorem]:
    """Basic composition of any releases; advanced composition of equal ones; both also behind the subsampling lemma."""
    counts = parts(event)
    total = sum(counts.values())
    if total < 2:
        return
    one = {leaf: loss_of(leaf, adjacency, 1) for leaf in counts}
    basic = math.fsum(count * one[leaf].epsilon(delta / total).upper for leaf, count in counts.items())
    yield Theorem("basic composition", basic, "Dwork and Roth 2014")
    if len(counts) > 1 or delta == 0:
        return
    (leaf,) = counts
    yield from _advanced("", one[leaf].epsilon(delta / (2 * total)).upper, total, delta)
    if isinstance(leaf, Poisson) and leaf.rate > 0 and adjacency is not Adjacency.REPLACE:
        inner = loss_of(leaf.event, adjacency, 1).epsilon(min(delta / (2 * total) / leaf.rate, 0.5)).upper
        if inner < 600:
            sampled = math.log1p(leaf.rate * math.expm1(inner))
            yield from _advanced("subsampling lemma, ", sampled, total, delta)


def _group(event: Event, delta: float, adjacency: Adjacency, group: int) -> Iterator[Theorem]:
    """One record's cost, taken to a group: g epsilon if pure, else at the largest d that grows to at most `delta`.

    d = delta/growth(epsilon(d)), iterated from delta/g, falls to the largest solution.
    """
    one = loss_of(event, adjacency, 1)
    yield Theorem("group privacy, pure: g epsilon", group * one.epsilon(0.0).upper, "Dwork and Roth 2014")
    share, epsilon, last = delta / group, 0.0, 0.0
    for _ in range(40):
        if share < 1e-300:
            return
        epsilon, last = one.epsilon(share).upper, share
        share = min(delta / _growth(epsilon, group), share)
        if share >= last:
            name = "group privacy, approximate: (g epsilon, delta (e^{g epsilon} - 1)/(e^epsilon - 1))"
            yield Theorem(name, group * epsilon, "the triangle inequality, summed: docs/lectures.md")
            return
        share *= 0.999


def _growth(epsilon: float, group: int) -> float:
    """(e^{g epsilon} - 1)/(e^epsilon - 1)."""
    if group * epsilon > 700:
        return math.inf
    return math.expm1(group * epsilon) / math.expm1(epsilon) if epsilon else float(group)


def _advanced(prefix: str, epsilon: float, k: int, delta: float) -> Iterator[Theorem]:
    """epsilon sqrt(2k ln(1/delta')) plus a drift term, delta' = delta/2; total delta k delta_0 + delta'."""
    if not epsilon < 600:
        return
    wide = epsilon * math.sqrt(2 * k * math.log(2 / delta))
    lemma = "; Balle, Barthe and Gaboardi 2018" if prefix else ""
    if epsilon < 1:
        yield Theorem(
            f"{prefix}advanced composition, k epsilon^2", wide + k * epsilon**2, f"Dwork and Roth 2014{lemma}"
        )
    drift = k * epsilon * math.expm1(epsilon)
    reference = f"Dwork, Rothblum and Vadhan 2010{lemma}"
    yield Theorem(f"{prefix}advanced composition, k epsilon (e^epsilon - 1)", wide + drift, reference)
    drift = k * epsilon * math.tanh(epsilon / 2)
    reference = f"Kairouz, Oh and Viswanath 2015{lemma}"
    yield Theorem(f"{prefix}advanced composition, k epsilon tanh(epsilon/2)", wide + drift, reference)


def _renyi(loss: Composed, delta: float) -> Iterator[Theorem]:
    if delta == 0 or loss == Composed():
        return
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            curve = loss.renyi(TILTS)
    except ArithmeticError:
        return
    if not np.any(np.isfinite(curve)):
        return
    yield Theorem("moments (Renyi), classic conversion", classic(curve, TILTS, delta), "Mironov 2017, Proposition 3")
    if not loss.curves:
        reference = "Canonne, Kamath and Steinke 2020, Proposition 12"
        yield Theorem("moments (Renyi), improved conversion", improved(curve, TILTS, delta), reference)


def _gaussian(event: Event, delta: float, adjacency: Adjacency, group: int) -> Iterator[Theorem]:
    """Theorems that only Gaussian noise has."""
    counts = parts(event)
    if delta == 0 or not counts:
        return
    if all(isinstance(leaf, Gaussian) for leaf in counts):
        shift = group * adjacency.sensitivity
        square = math.fsum(n * (shift / leaf.noise_multiplier) ** 2 for leaf, n in counts.items())  # type: ignore[attr-defined]
        rho = square / 2
        yield Theorem("zCDP", rho + 2 * math.sqrt(rho * math.log(1 / delta)), "Bun and Steinke 2016")
        rule = math.sqrt(2 * math.log(1.25 / delta) * square)
        if rule < 1:
            yield Theorem("classic Gaussian rule", rule, "Dwork and Roth 2014, appendix A (epsilon < 1)")
        name, reference = "Gaussian differential privacy: mu^2 is the sum of mu_i^2", "Dong, Roth and Su 2022"
        yield Theorem(name, GaussianTotal(math.sqrt(square)).epsilon(delta).upper, reference)
    elif len(counts) == 1 and adjacency is not Adjacency.REPLACE and group == 1:
        ((leaf, count),) = counts.items()
        if isinstance(leaf, Poisson) and isinstance(leaf.event, Gaussian):
            mu = leaf.rate * math.sqrt(count * math.expm1(min(leaf.event.noise_multiplier**-2, 600.0)))
            name = "Gaussian limit (approximation, not a bound)"
            reference = "Bu, Dong, Long and Su 2020"
            yield Theorem(name, GaussianTotal(mu).epsilon(delta).upper, reference, bound=False)
