r"""Gradient perturbation: descents whose every gradient carries noise; and the last iterate of one alone.

A descent on n records costs what its noisy sums cost. All records in every step (`gradient`) use noise best; a Poisson
sample (`sgd`) is faster per step; one uniform index per step (`single`) is the textbook's rule, kept to compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, Event
from ..core.events import FixedSize, Gaussian, LastIterate, Poisson, Repeat
from ..core.randomness import Source
from .budget import Budget
from .losses import Floats
from .noise import gaussian
from .shape import AHEAD, Design, Shape

SPREAD = 1.0
"""Noise that `single` and `dynamics` accept in every weight, for rows of norm 1: it sets how far to fit."""
MOST_STEPS = 400
RATE, SAMPLED_STEPS = 0.1, 200
"""A tenth of the records at every step, twenty passes: found on five public tables (benchmarks/tables.py)."""
SINGLE_STEPS = 20_000
"""Bassily et al. make n^2 steps; beyond this many, a fit takes minutes."""
LARGEST = 8.7
"""No normal number of `Source.normal` is larger: their radius comes from 53 bits."""


def needs_delta(method: str, budget: Budget) -> None:
    """Refuse delta 0, which Gaussian noise cannot keep."""
    if budget.delta == 0:
        raise BadInput(f'method="{method}" needs a delta above 0.', fix='Use method="output", or give delta.')


def gradient(shape: Shape, budget: Budget) -> Design:
    r"""theta <- theta - eta ((sum_i grad f_i(theta) + N(0, (z s)^2 I))/n + lambda theta), all records in every step.

    Guarantee: `Repeat(Gaussian(z), steps)`; every iterate may be seen. n is the public size.
    After T steps the noise in a weight that no loss bends has spread eta sqrt(T) z s/n; T and eta make it
    `shape.spread`. Where that takes more than MOST_STEPS steps, which are at most 1/beta long, the descent has momentum
    and makes fewer.
    """
    needs_delta("gradient", budget)
    once = budget.gaussian_noise()
    time = shape.spread * shape.size / (once * shape.steepness)
    steps = max(math.ceil(time * shape.bend), 10)
    accelerated = steps > MOST_STEPS
    if accelerated:
        steps = min(math.ceil(math.sqrt(2 * shape.mean_bend * AHEAD * time)), MOST_STEPS)
    noise = budget.gaussian_noise(steps)
    found = Design("gradient", Repeat(Gaussian(noise), steps), noise, shape.regularization or 0.0, steps)
    return (_ahead if accelerated else _stepped)(found, shape, time / steps)


def sgd(shape: Shape, budget: Budget) -> Design:
    r"""The descent of `gradient`, on a Poisson sample in each step: every record takes part with probability RATE.

    Guarantee: `Repeat(Poisson(rate, Gaussian(z)), steps)`; every iterate may be seen, the samples stay secret.
    """
    needs_delta("sgd", budget)

    def event(noise: float) -> Event:
        return Repeat(Poisson(RATE, Gaussian(noise)), SAMPLED_STEPS)

    noise = budget.least_noise(event)
    found = Design("sgd", event(noise), noise, shape.regularization or 0.0, SAMPLED_STEPS, rate=RATE)
    wanted = shape.spread * RATE * shape.size / (math.sqrt(SAMPLED_STEPS) * noise * shape.steepness)
    return (_ahead if wanted * (shape.mean_bend + found.regularization) > 1 else _stepped)(found, shape, wanted)


def single(shape: Shape, budget: Budget) -> Design:
    r"""theta <- theta - eta (grad f_i(theta) + N(0, (z s)^2 I) + lambda theta), one uniform index i per step.

    Guarantee: `Repeat(FixedSize(1, n, Gaussian(z)), steps)`, for replaced records alone.
    Reference: Bassily, Smith and Thakurta 2014, Private empirical risk minimization, Algorithm 1, with exact noise in
    place of its rule, at most SINGLE_STEPS steps, and no projection.
    """
    needs_delta("single", budget)
    if budget.adjacency is not Adjacency.REPLACE or shape.records != shape.size:
        raise BadInput('method="single" has a proof for adjacency="replace" and a known number of records alone.')
    steps = min(max(shape.size**2, 10), SINGLE_STEPS)

    def event(noise: float) -> Event:
        return Repeat(FixedSize(1, shape.size, Gaussian(noise)), steps)

    noise = budget.least_noise(event)
    found = Design("single", event(noise), noise, shape.regularization or 0.0, steps, rate=1 / shape.size)
    return _stepped(found, shape, SPREAD / (math.sqrt(steps) * max(noise, 1.0) * shape.steepness))


def dynamics(shape: Shape, budget: Budget) -> Design:
    r"""Noisy gradient descent of which only the last iterate is released.

    Guarantee: `LastIterate` (privacy dynamics), whose cost converges where the loss is strongly convex.
    """
    needs_delta("dynamics", budget)
    once = budget.gaussian_noise()
    chosen = once * shape.steepness / SPREAD / shape.size
    regularization = chosen if shape.regularization is None else shape.regularization
    eta = 1 / (shape.mean_bend + 2 * regularization)
    steps = min(max(math.ceil(3 / (eta * max(regularization, 1e-12))), 10), MOST_STEPS)

    def event(noise: float) -> Event:
        bend = shape.mean_bend
        return LastIterate(noise, steps, eta, shape.steepness, bend, shape.size, regularization=regularization)

    noise = budget.least_noise(event)
    return Design("dynamics", event(noise), noise, regularization, steps, eta)


def _stepped(design: Design, shape: Shape, wanted: float) -> Design:
    r"""A design with its step size, at most 1/beta, and what the mean of the later half of its iterates achieves.

    With xi the error of a gradient, E|xi|^2 <= v: E|theta_t - w|^2 <= |w|^2 + t eta^2 v for every w, and the K later
    iterates exceed F(w) on average by E|theta_{T-K} - w|^2/(2 eta K) + eta v/2 + beta eta^2 v/2: docs/proofs/erm.md,
    Theorem 7. Here |w| = 1.
    """
    beta, steps = shape.mean_bend + design.regularization, design.steps
    found = design.with_(step_size=min(wanted, 1 / beta))
    eta, error, kept = found.step_size, _error(found, shape), steps // 2
    slow = 1 / (2 * eta * kept)
    expected = slow * (1 + (steps - kept) * eta**2 * error) + eta * error / 2 * (1 + beta * eta)
    return found.with_(expected=expected, slowness=slow)


def _ahead(design: Design, shape: Shape, wanted: float) -> Design:
    r"""A design with momentum, whose step t is c t long, c <= 1/2 beta, and goes as far as steps of length `wanted`.

    Its end exceeds F(w) on average by |w|^2/(c T (T + 1)) + c v (2T + 1)/3: docs/proofs/erm.md, Theorem 10.
    """
    steps = design.steps
    found = design.with_(step_size=min(AHEAD * wanted / steps, 1 / (2 * shape.mean_bend)), accelerated=True)
    slow = 1 / (found.step_size * steps * (steps + 1))
    expected = slow + found.step_size * _error(found, shape) * (2 * steps + 1) / 3
    return found.with_(expected=expected, slowness=slow)


def _error(design: Design, shape: Shape) -> float:
    """The mean square of a noisy gradient's error, that of sampling included."""
    batch = design.rate * shape.size
    room = rounded(design, shape, shape.rounding, shape.features)
    noise = shape.features * (design.noise_multiplier * room / batch) ** 2
    return noise + (1 - design.rate) * shape.steepness**2 / batch * shape.records / shape.size


class Summed(Protocol):
    """A sum of losses that has a gradient, whose rounding errors are bounded."""

    @property
    def steepness(self) -> float: ...

    @property
    def size(self) -> int: ...

    def gradient(self, theta: Floats) -> Floats: ...

    def rounding(self, length: float) -> float: ...

    def some(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """The sum over the given records alone."""
        ...


def descended(problem: Summed, design: Design, theta: Floats, shape: Shape, rng: Source) -> Floats:
    """Noisy gradient descent from `theta`; the noise also covers the rounding of the sum over records, by `room`, which
    is public.

    Gradient perturbation releases every noisy sum, on a grid, so the mean of the later half of the iterates costs
    nothing, and a sum longer than any that is likely may be shortened. `dynamics` releases only the last iterate, and
    its theorem is about normal numbers: they are drawn in float64.
    """
    batch = design.rate * shape.size
    room = rounded(design, shape, problem.rounding, theta.size)
    longest = shape.records * problem.steepness + design.noise_multiplier * room * LARGEST * math.sqrt(theta.size)

    def noisy(at: Floats) -> Floats:
        summed = _sampled(problem, design, rng).gradient(at)
        if design.method == "dynamics":
            return np.asarray(summed + design.noise_multiplier * room * rng.normal(theta.shape)) / batch
        found = gaussian(summed, room, design.noise_multiplier, rng)
        return found * (min(1.0, longest / max(float(np.linalg.norm(found)), 1e-300)) / batch)

    return _with_momentum(noisy, design, theta) if design.accelerated else _plain(noisy, design, theta)


def _plain(noisy: Callable[[Floats], Floats], design: Design, theta: Floats) -> Floats:
    """Steps of one length; the mean of the later half of the iterates, of `dynamics` the last one."""
    total, kept = np.zeros(theta.shape), 0
    for step in range(design.steps):
        theta = theta - design.step_size * (noisy(theta) + design.regularization * theta)
        if 2 * step >= design.steps:
            total, kept = total + theta, kept + 1
    return np.asarray(theta if design.method == "dynamics" else total / kept)


def _with_momentum(noisy: Callable[[Floats], Floats], design: Design, theta: Floats) -> Floats:
    """Accelerated descent (Lan 2012, An optimal method for stochastic composite optimization): every gradient is taken
    between the mean of all iterates, in which later ones weigh more, and the last iterate."""
    mean = theta
    for step in range(1, design.steps + 1):
        share, length = 2 / (step + 1), design.step_size * step
        between = (1 - share) * mean + share * theta
        theta = (theta - length * noisy(between)) / (1 + length * design.regularization)
        mean = (1 - share) * mean + share * theta
    return mean


def _sampled(problem: Summed, design: Design, rng: Source) -> Summed:
    """The records of one step: all, a Poisson sample, or one."""
    if isinstance(design.event, Repeat) and isinstance(design.event.event, FixedSize):
        return problem.some(rng.integers(problem.size, 1))
    return problem if design.rate == 1 else problem.some(rng.bernoulli(design.rate, problem.size))


def rounded(design: Design, shape: Shape, rounding: Callable[[float], float], numbers: int) -> float:
    """What one record moves a computed sum of gradients by, at every iterate: a public constant, as theorems ask for.

    Every sum is at most n steepness long, and its noise counts with at most LARGEST per number. With room at most c
    steepness no iterate is longer than t c steepness (n + z LARGEST sqrt(numbers))/batch, t the sum of all steps. The
    first c that holds is taken.
    """
    reach = shape.records + design.noise_multiplier * LARGEST * math.sqrt(numbers)
    length = design.travel * shape.steepness * reach / (design.rate * shape.size)
    for most in (2.0**k for k in range(1, 11)):
        room = shape.steepness + 2 * rounding(length * most)
        if room <= most * shape.steepness:
            return room
    raise BadInput("Rounding errors of the gradients exceed one record's: there are too many records or steps.")
