r"""The last iterate of noisy gradient descent on convex losses: loss that stops growing.

A step is a contraction by c = 1 - eta lambda, plus noise. In units of one record's contribution the noise is z, and the
iterates, `far` = diameter b/(eta l) apart at most, can be brought together over the last t steps by moving each by

    a = c^t far (1 - c)/(1 - c^t)            (far/t where c = 1)

which the noise hides, as it hides the record itself: t steps of sum_j w_j N(j + a, z^2) against sum_j w_j N(-j, z^2).
Everything before these steps is forgotten. With full batches the moves may differ from step to step, and the whole is
one Gaussian.

Reference: docs/proofs/dynamics.md, Theorems 1 and 2; the phenomenon is Altschuler and Talwar 2022, Privacy of noisy
stochastic gradient descent, the proof by interpolation Bok, Su and Altschuler 2024, Shifted interpolation.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import gammaln, logsumexp

from ..core.adjacency import Adjacency
from ..core.events import LastIterate
from .binomial import at_least
from .composed import Composed, Release
from .computed import Levels
from .noise import BITS, FAR, Array, GaussianNoise
from .pairs import Discrete, Location, Pair, Parts

REFERENCE_DELTA = 1e-6
"""Which of the valid bounds is taken is decided at this delta; none of them is less valid at another."""
ORDERS = np.unique(np.round(np.geomspace(2, 256, 24)).astype(int))
LONGEST = 10_000_000
SPARSE = 24
"""Every 24th number of last steps is tried first, then those around the best."""
NOTHING = Discrete(((1.0, 1.0),))
"""A pair that tells nothing."""


def last_iterate(event: LastIterate, adjacency: Adjacency, group: int) -> Composed:
    """The loss of the last iterate: the least of the bounds for the last t steps and for all of them."""
    if event.rate == 1:
        mu = math.sqrt(_full(event, group * adjacency.sensitivity))
        pair = Location(GaussianNoise(1 / mu), ((1.0, 1.0),))
        return Composed(((Release.symmetric(pair, tight=event.diameter is None), 1),))
    weights = [math.comb(group, j) * event.rate**j * (1 - event.rate) ** (group - j) for j in range(group + 1)]
    steps, move = _chosen(event, group * adjacency.sensitivity)
    chosen = steps * Composed(((_step(event, weights, move, adjacency), 1),))
    chance = _oversized(event, steps) if move else 0.0
    if chance == 0:
        return chosen
    whole = event.steps * Composed(((_step(event, weights, 0.0, adjacency), 1),))
    atoms = ((1 - chance, 1 - chance), (chance, 0.0), (0.0, chance))
    told = Composed(((Release.symmetric(Discrete(atoms), tight=False), 1),))
    return _either(chosen + told, 2 * chance) + _either(whole, 0.0, below=2 * chance)


def _step(event: LastIterate, weights: list[float], move: float, adjacency: Adjacency) -> Release:
    """One step that also moves the iterates together by `move`, or by a little more, so that places have few digits."""
    digit = 2.0 ** (math.ceil(math.log2(FAR * event.noise_multiplier + len(weights) + move)) - BITS + 4)
    move = math.ceil(move / digit) * digit
    here: Parts = tuple((weight, j + move) for j, weight in enumerate(weights) if weight > 0)
    gone: Parts = tuple((weight, -float(j)) for j, weight in enumerate(weights) if weight > 0)
    noise = GaussianNoise(event.noise_multiplier)
    if adjacency is Adjacency.REPLACE:
        return Release.symmetric(Location(noise, here, gone), tight=False)
    return Release(Location(noise, here), Location(noise, ((1.0, move),), gone), tight=False)


def _either(loss: Composed, least: float, below: float = math.inf) -> Composed:
    """One of two ways to bound a release: the one used for delta in [least, below). Elsewhere it tells nothing."""
    found = []
    for release, count in loss.releases:
        sides = []
        for pair in (release.remove, release.add):
            ways = ((below, _nothing), (least, partial(_itself, pair)), (0.0, _nothing))
            plain = NOTHING if least else pair  # without a delta the way that holds for all of them
            sides.append(Levels(tuple(way for way in ways if math.isfinite(way[0])), plain))
        found.append((Release(sides[0], sides[1], tight=False), count))
    return Composed(tuple(found))


def _nothing() -> Pair:
    return NOTHING


def _itself(pair: Pair) -> Pair:
    return pair


def far(event: LastIterate) -> float:
    """The diameter, in units of what one record moves a step by."""
    assert event.diameter is not None
    return event.diameter * event.rate * event.size / (event.step_size * event.lipschitz)


def _full(event: LastIterate, contribution: float) -> float:
    r"""mu^2 of full batches: with s = contribution/z and R = far/z, the least over t of

    (c^t R + s (1 - c^t)/(1 - c))^2 (1 - c^2)/(1 - c^{2t}),   or with R = 0 and t = all steps.
    """
    s, log_c = contribution / event.noise_multiplier, _log_contraction(event)
    whole = float(_least_squares(0.0, s, log_c, np.array([event.steps], dtype=np.float64))[0])
    if event.diameter is None:
        return whole
    last = _least_squares(far(event) / event.noise_multiplier, s, log_c, _lengths(event.steps))
    return min(whole, float(last.min())) * (1 + 1e-12)


def _log_contraction(event: LastIterate) -> float:
    """log c, c = 1 - eta lambda; a step that forgets everything is taken as one that forgets almost everything."""
    return math.log1p(-min(event.step_size * event.regularization, 1 - 1e-15))


def _least_squares(apart: float, s: float, log_c: float, t: Array) -> Array:
    if log_c == 0:
        return np.asarray((apart + s * t) ** 2 / t)
    kept, drop = np.exp(t * log_c), -np.expm1(t * log_c)
    distance = kept * apart + s * drop / -math.expm1(log_c)
    return np.asarray(distance**2 * -math.expm1(2 * log_c) / (drop * (1 + kept)))


def _lengths(steps: int) -> Array:
    """Numbers of last steps to try: every small one, then 1 % apart; the same ones for every run that has them."""
    small = np.arange(1, 101)
    large = np.unique(np.round(np.geomspace(100, LONGEST, 1158)).astype(int))
    every = np.unique(np.concatenate([small, large]))
    return every[every <= steps].astype(np.float64)


def _chosen(event: LastIterate, contribution: float) -> tuple[int, float]:
    """How many last steps to count and how far each of them moves; all steps from one start need no move."""
    lengths = moves = np.zeros(0)
    if event.diameter is not None:
        lengths = _lengths(event.steps)
        log_c = _log_contraction(event)
        shrink = 1 / lengths if log_c == 0 else np.exp(lengths * log_c) * math.expm1(log_c) / np.expm1(lengths * log_c)
        moves = far(event) * shrink * (1 + 1e-12)
    lengths, moves = np.append(lengths, event.steps), np.append(moves, 0.0)
    rate = min(event.rate * contribution, 1 - 1e-9)
    some = np.unique(np.append(np.arange(0, lengths.size, SPARSE), lengths.size - 1))
    near = int(some[np.argmin(_guess(rate, event.noise_multiplier, lengths[some], moves[some]))])
    some = np.unique(
        np.append(np.arange(max(near - SPARSE, 0), min(near + SPARSE + 1, lengths.size)), lengths.size - 1)
    )
    best = int(some[np.argmin(_guess(rate, event.noise_multiplier, lengths[some], moves[some]))])
    return int(lengths[best]), float(moves[best])


def _guess(rate: float, noise: float, lengths: Array, moves: Array) -> Array:
    """Epsilon from Renyi divergences of whole order of (1 - q) N(a) + q N(1 + a) against N(0): only to choose by."""
    epsilons = np.full(lengths.shape, np.inf)
    for order in ORDERS:
        k = np.arange(order + 1)[:, None]
        log_binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        total, squares = order * moves + k, (order - k) * moves**2 + k * (1 + moves) ** 2
        exponents = (total**2 - squares) / (2 * noise**2) + k * math.log(rate) + (order - k) * math.log1p(-rate)
        log_moment = logsumexp(log_binomial + exponents, axis=0)
        epsilons = np.minimum(epsilons, (lengths * log_moment + math.log(1 / REFERENCE_DELTA)) / (order - 1))
    return epsilons


def _oversized(event: LastIterate, steps: int) -> float:
    """The chance that a batch is too large to contract, which counts as telling all. Reference: Theorem 2."""
    if event.smoothness == 0:
        return 0.0
    most = event.rate * event.size * (2 / event.step_size - 2 * event.regularization) / event.smoothness
    most, others = math.floor(most * (1 - 1e-12)), event.size - 1
    if most >= others or event.rate == 1:
        return 0.0 if most >= others else 1.0
    return min(steps * at_least(most + 1, others, event.rate)[1] * (1 + 1e-14) + 1e-300, 1.0)
