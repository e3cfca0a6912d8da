"""What others say of an event: dp-accounting, prv-accountant, and sums over all outcomes where there are few.

Each check gives (name, lower, upper): an interval that holds the true epsilon, by its own claim. A peer that does not
know the event, the adjacency or a delta so small is not asked, nor one that would take minutes. Known defects of
dp-accounting 0.6.0 are left out: repeated randomised response forgets the count, Renyi accounting under replace forgets
the factor 2, Laplace noise under replace is missing.
"""

from __future__ import annotations

import math
import signal
import warnings
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import numpy as np

from tacit.core.adjacency import Adjacency
from tacit.core.errors import TacitError, Unsupported
from tacit.core.event import walk
from tacit.core.events import Event, Gaussian, Laplace, Poisson, RandomizedResponse, Repeat
from tacit.loss import privacy_loss
from tacit.loss.composed import Composed
from tacit.loss.exchange import to_dp_accounting
from tacit.loss.noise import GaussianNoise
from tacit.loss.pairs import Discrete, Location, Pair

Check = tuple[str, float, float]
GRID = 1e-3
LEAST_DELTA = 1e-11
"""Below, sums of probabilities in doubles say nothing."""
LARGEST_LOSS = 60.0
"""Losses of one step beyond this over the grid take a peer minutes."""
MOST = 400_000
"""Outcomes that are added up one by one."""
SECONDS = 20


def checks(event: Event, adjacency: Adjacency, group: int, delta: float, upper: float) -> Iterator[Check]:
    """All that can be asked of this event."""
    found = brute(event, adjacency, group, delta)
    if found is not None:
        yield found
    if group > 1 or delta < LEAST_DELTA or not 1e-4 < upper < 200 or _largest(event) > LARGEST_LOSS:
        return
    for name, ask in (("dp-accounting PLD", _pld), ("dp-accounting Renyi", _renyi), ("prv-accountant", _prv)):
        answer = _limited(lambda ask=ask: ask(event, adjacency, delta))  # type: ignore[misc]
        if answer is not None:
            yield name, *answer


def _largest(event: Event) -> float:
    """About the largest loss of one step that matters."""
    noise = [part.noise_multiplier for part in walk(event) if isinstance(part, Gaussian | Laplace)]
    return max((10 / z + 1 / z**2 for z in noise), default=0.0)


def _limited(ask: Callable[[], tuple[float, float] | None]) -> tuple[float, float] | None:
    """A peer's answer, or None where it has none, fails or takes too long."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return ask()
    except Exception:  # a peer's failures are its own
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _relation(adjacency: Adjacency) -> Any:
    import dp_accounting

    relations = dp_accounting.NeighboringRelation
    return relations.REPLACE_ONE if adjacency is Adjacency.REPLACE else relations.ADD_OR_REMOVE_ONE


def _known(event: Event, adjacency: Adjacency) -> bool:
    kinds = {type(part) for part in walk(event)}
    return RandomizedResponse not in kinds and not (adjacency is Adjacency.REPLACE and Laplace in kinds)


def _pld(event: Event, adjacency: Adjacency, delta: float) -> tuple[float, float] | None:
    from dp_accounting.pld import PLDAccountant

    if not _known(event, adjacency):
        return None
    accountant = PLDAccountant(_relation(adjacency), value_discretization_interval=GRID)
    accountant.compose(to_dp_accounting(event))
    return 0.0, _claimed(accountant.get_epsilon(delta))


def _renyi(event: Event, adjacency: Adjacency, delta: float) -> tuple[float, float] | None:
    from dp_accounting.rdp import RdpAccountant

    if adjacency is Adjacency.REPLACE or not _known(event, adjacency):
        return None
    accountant = RdpAccountant(neighboring_relation=_relation(adjacency))
    accountant.compose(to_dp_accounting(event))
    return 0.0, _claimed(accountant.get_epsilon(delta))


def _prv(event: Event, adjacency: Adjacency, delta: float) -> tuple[float, float] | None:
    """It reads removing a record alone, so that only its lower end is a bound of what both directions cost."""
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    match event:
        case Repeat(event=Poisson(rate=rate, event=Gaussian(noise_multiplier=z)), steps=steps):
            pass
        case _:
            return None
    if adjacency is Adjacency.REPLACE or not 10 <= steps <= 20_000 or z < 0.4 or delta < 1e-9:
        return None
    prv = PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=z)
    accountant = PRVAccountant(prvs=[prv], max_self_compositions=[steps], eps_error=0.1, delta_error=delta / 1000)
    return float(accountant.compute_epsilon(delta, [steps])[0]), math.inf


def _claimed(epsilon: float) -> float:
    return math.inf if not epsilon >= 0 else float(epsilon)


def brute(event: Event, adjacency: Adjacency, group: int, delta: float) -> Check | None:
    """Epsilon by adding up all outcomes of all steps, in both directions; None where there are too many."""
    try:
        loss = privacy_loss(event, adjacency, group=group)
    except (Unsupported, TacitError):
        return None
    if not isinstance(loss, Composed) or loss.curves or not loss.releases or delta < 1e-14:
        return None
    if not all(release.tight for release, _ in loss.releases):
        return None
    ends = []
    for way in ("remove", "add"):
        outcomes = [
            found for release, count in loss.releases for found in [_outcomes(getattr(release, way))] * min(count, 20)
        ]
        if sum(count for _, count in loss.releases) > 20 or any(found is None for found in outcomes):
            return None
        if math.prod(found[0].size for found in outcomes) > MOST:  # type: ignore[index]
            return None
        p, q = reduce(_product, outcomes)  # type: ignore[arg-type,type-var]
        ends.append(_smallest(p, q, delta))
    return "sum over outcomes", max(low for low, _ in ends), max(high for _, high in ends)


def _product(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    return np.add.outer(one[0], other[0]).ravel(), np.add.outer(one[1], other[1]).ravel()


def _outcomes(pair: Pair) -> tuple[Any, Any] | None:
    """log P and log Q of all outcomes, by their formulas; tails that both leave beyond e^-700 are left out."""
    if isinstance(pair, Discrete):
        with np.errstate(divide="ignore"):
            return np.log([p for p, _ in pair.atoms]), np.log([q for _, q in pair.atoms])
    if not isinstance(pair, Location) or not pair.noise.whole or pair.noise.scale > 300:
        return None
    places = [place for _, place in (*pair.p, *pair.q)]
    far = 38 if isinstance(pair.noise, GaussianNoise) else 700
    reach = math.ceil(far * pair.noise.scale) + 2
    k = np.arange(min(places) - reach, max(places) + reach + 1)
    whole = math.log(math.fsum(np.exp(-_size(pair, np.arange(-2.0 * reach - 50, 2.0 * reach + 51)))))
    p, q = (
        np.logaddexp.reduce([math.log(weight) - _size(pair, k - place) for weight, place in parts if weight > 0])
        - whole
        for parts in (pair.p, pair.q)
    )
    return p, q


def _size(pair: Location, k: Any) -> Any:
    scale = pair.noise.scale
    return k**2 / (2 * scale**2) if isinstance(pair.noise, GaussianNoise) else np.abs(k) / scale


def _smallest(p: Any, q: Any, delta: float) -> tuple[float, float]:
    """Ends of the least epsilon with sum (p - e^epsilon q)_+ <= delta, with room for the rounding of the sums.

    From logarithms: with little noise q is far below what a double holds.
    """
    room = 1e-11 * delta + 1e-13 * min(delta, 1.0) + 1e-15 * p.size**0.5 * delta
    told = float(np.exp(p[np.isneginf(q)]).sum())
    if told > delta + room:
        return math.inf, math.inf
    if told > delta - room:
        return 0.0, math.inf
    held = np.isfinite(p) & np.isfinite(q)
    chance, loss = np.exp(p[held]), p[held] - q[held]
    at = lambda epsilon: told - float((chance * np.expm1(np.minimum(epsilon - loss, 0.0))).sum())  # noqa: E731
    ends = []
    for goal in (delta + room, delta - room):
        low, high = 0.0, 1.0
        if at(0.0) <= goal:
            ends.append(0.0)
            continue
        while at(high) > goal:
            high *= 2
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle) > goal else (low, middle)
        ends.append(high)
    return ends[0] * (1 - 1e-12), ends[1] * (1 + 1e-12)
