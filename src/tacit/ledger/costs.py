"""What an event costs, by criterion: computed once per event, before any transaction begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..core.adjacency import Adjacency
from ..core.errors import Mismatch, Unsupported
from ..core.event import Event
from ..core.events import (
    AboveThreshold,
    Allocation,
    ApproximateDP,
    BandedFactorisation,
    BoundedRange,
    Compose,
    CyclicPoisson,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    MatrixFactorisation,
    NoisyMax,
    NonPrivate,
    NoOp,
    ObjectivePerturbation,
    OneOf,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
    walk,
)
from ..loss.composed import Composed
from ..loss.dispatch import privacy_loss
from ..loss.noise import GaussianNoise
from ..loss.pairs import LOSS, Location, Pair
from .amounts import Amount, cost, exact
from .criteria import COMPUTED, GDP, SAFE, STATED, SUM, Criterion, pure_mu, pure_renyi

DRAWN = (
    Allocation, BandedFactorisation, Compose, CyclicPoisson, DiscreteGaussian, DiscreteLaplace, FixedSize, Gaussian,
    Laplace, LastIterate, MatrixFactorisation, NoOp, NonPrivate, ObjectivePerturbation, OneOf, Poisson,
    RandomizedResponse, Repeat, RepeatAndSelect, Shuffled, TruncatedPoisson,
)  # fmt: skip
"""Events that say how a release was drawn, so that their cost under any adjacency follows.

Every other event, a new one too, states a guarantee for the adjacency it was made for, and nothing about another one.
"""
PURE = (RandomizedResponse, NoisyMax, AboveThreshold, BoundedRange, ApproximateDP)
ROUNDING = 1e-10
"""Added to a log moment that is computed, on top of what `loss.renyi` proves: docs/proofs/rounding.md, Lemma 7."""
Leaf = tuple[Event, int]
Totals = dict[str, Amount]


def neighbours(event: Event, given: Adjacency | None, own: Adjacency, group: int) -> tuple[Adjacency, int]:
    """Under which adjacency, and for how many records, to analyse a charge that was made for `given`.

    Replacing a record is removing one and adding another, or zeroing twice, so a guarantee for a group of two under
    add-remove or zero-out covers it (group privacy: Dwork and Roth 2014, Theorem 2.2). An event that says how it was
    drawn is analysed under the ledger's own adjacency. No theorem leads elsewhere.
    """
    if given is None or given is own:
        return own, group
    if own is not Adjacency.REPLACE:
        raise Mismatch(
            f"The charge counts for {given.value} neighbours, and the ledger for {own.value}: no theorem converts it.",
            fix=f"Make the release for {own.value} neighbours, or open a ledger for {given.value}.",
        )
    if not all(isinstance(part, DRAWN) for part in walk(event)):
        return given, 2 * group
    return own, group


@lru_cache(maxsize=1024)
def costs(event: Event, adjacency: Adjacency, group: int, found: tuple[Criterion, ...]) -> Totals:
    """The cost of a charge in every criterion; None where it has none, so that the criterion ends.

    Raises Unsupported for an event without a theorem.
    """
    leaves = [(part, times) for part, times in _flat(event, 1)]
    stated, kept = Fraction(0), []
    for leaf, times in leaves:
        bare, delta = _bare(leaf, group)
        stated += delta * times
        kept.append((bare, times))
    losses = [(leaf, times, _loss(leaf, adjacency, group)) for leaf, times in kept]
    totals: Totals = {SUM: _pure_sum(losses, adjacency, group), STATED: cost(stated)}
    for item in found:
        if item.tilt is not None:
            totals[item.name] = _renyi(losses, item.tilt, group)
        elif item.name == GDP:
            totals[item.name] = _gaussian(losses, adjacency, group)
    return totals


def _flat(event: Event, times: int) -> Iterator[Leaf]:
    """The parts of a composition with their counts: stated deltas and pure epsilons of parts add up exactly."""
    if isinstance(event, Repeat):
        yield from _flat(event.event, times * event.steps)
    elif isinstance(event, Compose):
        for part in event.events:
            yield from _flat(part, times)
    else:
        yield event, times


def _bare(event: Event, group: int) -> tuple[Event, Fraction]:
    """An event without its stated delta, and that delta: (epsilon, delta)-DP is epsilon-DP but for delta.

    Reference: Kairouz, Oh and Viswanath 2015, proof of Theorem 3.3; docs/proofs/ledger.md, Theorem 1.
    """
    if isinstance(event, ApproximateDP | PartitionSelection) and event.delta > 0:
        if group == 1:
            return ApproximateDP(event.epsilon), exact(event.delta)
        return ApproximateDP(event.epsilon), min(exact(event.delta) * _grown(event.epsilon, group), Fraction(1))
    return event, Fraction(0)


def _grown(epsilon: float, group: int) -> Fraction:
    """(e^{k epsilon} - 1)/(e^epsilon - 1), from above: by so much a group of k multiplies delta."""
    if group * epsilon > 700:  # larger than numbers can hold: more than any delta allows
        return Fraction(10**400)
    found = Fraction(math.expm1(group * epsilon) / math.expm1(epsilon) if epsilon else group)
    return found * (1 + Fraction(1, 10**12))


def _loss(event: Event, adjacency: Adjacency, group: int) -> Composed:
    found = privacy_loss(event, adjacency, group=group)
    if not isinstance(found, Composed):
        raise Unsupported(event, adjacency, fix="A ledger charges events whose loss this package computes.")
    return found


def _pure_sum(losses: list[tuple[Event, int, Composed]], adjacency: Adjacency, group: int) -> Amount:
    total = Fraction(0)
    for leaf, times, loss in losses:
        one = pure(leaf, loss, adjacency, group)
        if one is None:
            return None
        total += times * one
    return cost(total)


def pure(event: Event, loss: Composed, adjacency: Adjacency, group: int) -> Fraction | None:
    """The epsilon of a pure event; None where the event is not pure."""
    if (known := _stated(event, adjacency, group)) is not None:
        return known
    if isinstance(event, NonPrivate) or loss.curves:
        return None
    total = Fraction(0)
    for release, count in loss.releases:
        largest = max(_largest(release.remove), _largest(release.add))
        if math.isinf(largest):
            return None
        total += count * Fraction(largest * (1 + SAFE))
    return total


def _stated(event: Event, adjacency: Adjacency, group: int) -> Fraction | None:
    """The epsilon of an event that names it, as it is written.

    sensitivity/noise_multiplier is read as the nearest float: noise of multiplier 1/0.7 is charged 0.7.
    """
    if isinstance(event, PURE) and (getattr(event, "delta", 0.0) == 0.0):
        return exact(event.epsilon) * group
    if isinstance(event, Laplace | DiscreteLaplace):
        return exact(adjacency.sensitivity / event.noise_multiplier) * group
    return None


def _largest(pair: Pair) -> float:
    """The largest loss from above: it is a logarithm, which may be far smaller than the rounding of probabilities."""
    above = pair.upper
    return math.inf if above.infinite > 0 else max(above.largest, 0.0) + 2 * above.doubt + LOSS


def _renyi(losses: list[tuple[Event, int, Composed]], tilt: float, group: int) -> Amount:
    """The sum of Renyi divergences of order 1 + t, from above."""
    total = Fraction(0)
    for leaf, times, loss in losses:
        one = _stated_pure(leaf, tilt, group)
        if one is None:
            one = _divergence(loss, tilt)
        if not math.isfinite(one):
            return None
        total += times * Fraction(max(one, 0.0) * (1 + COMPUTED))
    return cost(total)


def _divergence(loss: Composed, tilt: float) -> float:
    """As the loss says, with room for rounding of log moments that were computed on a lattice: a release that loses
    next to nothing may be made very often."""
    try:
        with np.errstate(all="ignore"):
            found = float(loss.renyi(np.array([tilt]))[0])
    except ArithmeticError:  # larger than numbers can hold
        return math.inf
    computed = sum(count for release, count in loss.releases if not (_plain(release.remove) and _plain(release.add)))
    return math.inf if math.isnan(found) else found + computed * ROUNDING / min(tilt, 1.0)


def _plain(pair: Pair) -> bool:
    """Gaussian noise on one number, whose divergences are a closed form."""
    above = pair.upper
    return isinstance(above, Location) and type(above.noise) is GaussianNoise and len(above.p) == len(above.q) == 1


def _stated_pure(event: Event, tilt: float, group: int) -> float | None:
    """Closed form for an epsilon of which nothing else is known."""
    if isinstance(event, ApproximateDP) and event.delta == 0:
        return min(pure_renyi(group * event.epsilon, tilt) + 1e-15, group * event.epsilon)
    return None


def _gaussian(losses: list[tuple[Event, int, Composed]], adjacency: Adjacency, group: int) -> Amount:
    """The sum of mu^2: of Gaussian noise, and of pure releases, which are Gaussian private too."""
    total = Fraction(0)
    for leaf, times, loss in losses:
        if (stated := _stated(leaf, adjacency, group)) is not None:
            mu = _pure_mu(float(stated)) if stated < 700 else math.inf
            if math.isinf(mu):
                return None
            total += times * Fraction(mu * mu * (1 + SAFE))
            continue
        if loss.curves:
            return None
        for release, count in loss.releases:
            mu = max(_mu(release.remove), _mu(release.add))
            if math.isinf(mu):
                return None
            total += times * count * Fraction(mu * mu * (1 + SAFE))
    return cost(total)


def _mu(pair: Pair) -> float:
    above = pair.upper
    if _plain(pair):
        assert isinstance(above, Location)
        return float((above.p[0][1] - above.q[0][1]) / above.noise.scale)
    return _pure_mu(_largest(above))


def _pure_mu(epsilon: float) -> float:
    """The mu of a pure release (Lemma 2), with room for rounding: cancellation near 1/2 costs up to 3e-13."""
    return pure_mu(epsilon) * (1 + 10 * SAFE)
