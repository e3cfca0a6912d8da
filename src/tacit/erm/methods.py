r"""Three ways to a private minimiser: perturb the output, the objective, or the gradient; and the last iterate alone.

A method is chosen and its noise fixed from public numbers (`Shape`) before any record is read: `plan` gives a `Design`
with the event that is charged; `run` then reads the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import stats

from ..core import BadInput, Event
from ..core.events import ApproximateDP, Compose, Gaussian, LastIterate, ObjectivePerturbation, Repeat
from ..core.randomness import Source
from .budget import Budget
from .losses import Floats
from .noise import gaussian, normal
from .problem import Problem

SPREAD = 1.0
"""Noise that gradient perturbation accepts in every weight, for rows of norm 1: it sets how far to fit."""
TILT_SPREAD = 6.0
"""The same for objective perturbation, times d^(1/4). The bound on its excess risk, d (z s)^2/lambda + lambda
|theta|^2, is least at lambda = sqrt(d) z s/|theta|, and weights of d features are about d^(1/4) long. The factor has
the least mean log loss at epsilon 0.1 and 1 on five tables, without Adult: benchmarks/erm_spread.py."""
OUTPUT_SPREAD = 0.3
"""The same for output perturbation, whose noise no curvature damps."""
INEXACT = 20.0
"""Noise for what the solver leaves undone, in multiples of the tilt's: it costs a 400th of the budget."""
MOST_STEPS = 400
LARGEST = 8.7
"""No normal number of `Source.normal` is larger: their radius comes from 53 bits."""


@dataclass(frozen=True)
class Shape:
    """All that a method may know before it reads records: public numbers."""

    size: int
    features: int
    steepness: float
    bend: float
    regularization: float | None = None
    """Of the mean loss; None lets the method choose."""


@dataclass(frozen=True)
class Design:
    """A method with its noise: what is charged, and what its theorem promises for the regularised objective.

    `excess`: with probability 0.95 the mean objective exceeds its minimum by at most this; None where the theorem gives
    an order only.
    """

    method: str
    event: Event
    noise_multiplier: float
    regularization: float
    steps: int = 1
    step_size: float = 0.0
    excess: float | None = None
    reason: str = ""


def objective(shape: Shape, budget: Budget) -> Design:
    r"""Minimise F(theta) + b . theta with b ~ N(0, (z s)^2 I), s = steepness.

    Guarantee: `ObjectivePerturbation` for the exact minimiser, and one `Gaussian` for what the solver leaves undone
    (approximate minima perturbation, Iyengar et al. 2019): the true gradient has norm at most g, so neighbours' errors
    differ by at most 2g/lambda. Excess: F is lambda-strongly convex, so F(theta) - min F <= |b|^2 / 2 lambda.
    Caller ensures: rows have norm at most what `steepness` and `bend` assume.
    """
    if budget.delta == 0:
        raise BadInput('method="objective" needs a delta above 0.', fix='Use method="output", or give delta.')

    least = 2 * budget.reach * shape.bend * budget.models / budget.epsilon  # at which curvature costs half of epsilon

    def regularization(noise: float) -> float:
        if shape.regularization is not None:
            return shape.regularization * shape.size
        return max(noise * shape.steepness * math.sqrt(math.sqrt(shape.features)) / TILT_SPREAD, least)

    def event(noise: float) -> Event:
        tilted = ObjectivePerturbation(noise, shape.bend, regularization(noise))
        return Compose((tilted, Gaussian(INEXACT * noise)))

    if shape.regularization is not None and budget.reach * tilting(shape) >= budget.epsilon / budget.models:
        raise BadInput(
            'method="objective" cannot keep this epsilon: one record bends the objective by too much.',
            fix='Raise regularization, or use method="gradient".',
        )
    noise = budget.least_noise(event)
    chi = float(stats.chi2.ppf(0.95, shape.features))
    excess = (noise * shape.steepness) ** 2 * chi / (2 * regularization(noise)) / shape.size
    return Design("objective", event(noise), noise, regularization(noise), excess=excess)


def tilting(shape: Shape) -> float:
    """What objective perturbation costs however much noise there is: log(1 + bend/lambda), for the sum."""
    strength = (shape.regularization or 0.0) * shape.size
    return math.log1p(shape.bend / strength) if strength > 0 else math.inf


def output(shape: Shape, budget: Budget) -> Design:
    r"""Minimise F and add noise to the minimiser.

    Guarantee: neighbours' minimisers differ by at most s/lambda (Chaudhuri et al. 2011, Corollary 8, for sums and one
    record more), and by 2g/lambda more where the solver leaves a gradient of norm g: noise is scaled to both.
    `Gaussian`, or with delta 0 noise of density e^{-epsilon |v| / sensitivity}, which is pure.
    """
    if shape.regularization == 0:
        raise BadInput(
            'method="output" needs a regularization above 0: without strong convexity one record can move the '
            "minimiser without bound (Xu, Caramanis and Mannor 2012).",
            fix='Give regularization, or use method="gradient".',
        )
    pure = budget.delta == 0
    noise = _pure_scale(budget, shape.features) if pure else budget.gaussian_noise()
    event = ApproximateDP((1 - 1e-12) * budget.epsilon / budget.models, 0.0) if pure else Gaussian(noise)
    chosen = noise * shape.steepness / OUTPUT_SPREAD if shape.regularization is None else None
    regularization = chosen if chosen is not None else float(shape.regularization or 0.0) * shape.size
    curved = shape.size * shape.bend + regularization
    length = noise * shape.steepness / regularization * math.sqrt(float(stats.chi2.ppf(0.95, shape.features)))
    return Design("output", event, noise, regularization, excess=curved * length**2 / 2 / shape.size)


def gradient(shape: Shape, budget: Budget) -> Design:
    r"""theta <- theta - eta ((sum_i grad f_i(theta) + N(0, (z s)^2 I))/n + lambda theta), all records in every step.

    Guarantee: `Repeat(Gaussian(z), steps)`; every iterate may be seen. n is the public size.
    After T steps the noise in a weight that no loss bends has spread eta sqrt(T) z s/n; T and eta make it SPREAD.
    """
    if budget.delta == 0:
        raise BadInput('method="gradient" needs a delta above 0.', fix='Use method="output", or give delta.')
    once = budget.gaussian_noise()
    time = SPREAD * shape.size / (once * shape.steepness)
    steps = min(max(math.ceil(time * shape.bend), 10), MOST_STEPS)
    noise = budget.gaussian_noise(steps)
    eta = min(time / steps, 1 / shape.bend)
    return Design("gradient", Repeat(Gaussian(noise), steps), noise, shape.regularization or 0.0, steps, eta)


def dynamics(shape: Shape, budget: Budget) -> Design:
    r"""Noisy gradient descent of which only the last iterate is released.

    Guarantee: `LastIterate` (privacy dynamics), whose cost converges where the loss is strongly convex.
    """
    if budget.delta == 0:
        raise BadInput('method="dynamics" needs a delta above 0.', fix='Use method="output", or give delta.')
    once = budget.gaussian_noise()
    chosen = once * shape.steepness / SPREAD / shape.size
    regularization = chosen if shape.regularization is None else shape.regularization
    eta = 1 / (shape.bend + 2 * regularization)
    steps = min(max(math.ceil(3 / (eta * max(regularization, 1e-12))), 10), MOST_STEPS)

    def event(noise: float) -> Event:
        return LastIterate(noise, steps, eta, shape.steepness, shape.bend, shape.size, regularization=regularization)

    noise = budget.least_noise(event)
    return Design("dynamics", event(noise), noise, regularization, steps, eta)


METHODS: dict[str, Callable[[Shape, Budget], Design]] = {
    "output": output,
    "objective": objective,
    "gradient": gradient,
    "dynamics": dynamics,
}


def run(problem: Problem, design: Design, budget: Budget, rng: Source) -> Floats:
    """The private minimiser by a design, after it was charged."""
    return {"output": _output, "objective": _objective}.get(design.method, _descend)(problem, design, budget, rng)


def _objective(problem: Problem, design: Design, budget: Budget, rng: Source) -> Floats:
    """What separates the tilt on its grid from a normal vector is one more error of the minimiser: Theorem 4."""
    scale, strength = design.noise_multiplier * problem.steepness, design.regularization
    tilt, slack = normal(scale, problem.features, rng)
    tolerance = problem.reachable(strength, scale * (math.sqrt(problem.features) + 10))
    theta = problem.minimum(strength, tilt, tolerance)
    return gaussian(theta, 2 * (tolerance + slack) / strength, INEXACT * design.noise_multiplier, rng)


def _output(problem: Problem, design: Design, budget: Budget, rng: Source) -> Floats:
    strength = design.regularization
    tolerance = problem.reachable(strength, 0.0)
    theta = problem.minimum(strength, np.zeros(problem.features), tolerance)
    contribution = (problem.steepness + 2 * tolerance) / strength
    if not isinstance(design.event, ApproximateDP):
        return gaussian(theta, contribution, design.noise_multiplier, rng)
    direction = rng.normal(problem.features)
    radius = -np.log(rng.uniform(problem.features)).sum() * budget.reach * contribution / design.event.epsilon
    return np.asarray(theta + radius * direction / np.linalg.norm(direction))


def _descend(problem: Problem, design: Design, budget: Budget, rng: Source) -> Floats:
    return descended(problem, design, np.zeros(problem.features), problem.size, rng)


class Summed(Protocol):
    """A sum of losses that has a gradient, whose rounding errors are bounded."""

    @property
    def steepness(self) -> float: ...

    def gradient(self, theta: Floats) -> Floats: ...

    def rounding(self, length: float) -> float: ...


def descended(problem: Summed, design: Design, theta: Floats, size: int, rng: Source) -> Floats:
    """Noisy gradient descent; the noise also covers the rounding of the sum over records, by `room`, which is public.

    Gradient perturbation releases every noisy sum, on a grid, so the mean of the later half of the iterates costs
    nothing, and a sum longer than any that is likely may be shortened. `dynamics` releases only the last iterate, and
    its theorem is about normal numbers: they are drawn in float64.
    """
    total, kept = np.zeros(theta.shape), 0
    room = rounded(design, problem.steepness, problem.rounding, size, theta.size)
    longest = size * problem.steepness + design.noise_multiplier * room * LARGEST * math.sqrt(theta.size)
    for step in range(design.steps):
        summed = problem.gradient(theta)
        if design.method == "dynamics":
            noisy = summed + design.noise_multiplier * room * rng.normal(theta.shape)
        else:
            noisy = gaussian(summed, room, design.noise_multiplier, rng)
            noisy *= min(1.0, longest / max(float(np.linalg.norm(noisy)), 1e-300))
        theta = theta - design.step_size * (noisy / size + design.regularization * theta)
        if 2 * step >= design.steps:
            total, kept = total + theta, kept + 1
    return np.asarray(theta if design.method == "dynamics" else total / kept)


def rounded(design: Design, steepness: float, rounding: Callable[[float], float], size: int, numbers: int) -> float:
    """What one record moves a computed sum of gradients by, at every iterate: a public constant, as theorems ask for.

    Every gradient is at most `size` steepness long, and its noise counts with at most LARGEST per number: with room at
    most c steepness no iterate is longer than steps eta steepness (c + c z LARGEST sqrt(numbers)/size). The first c
    that holds is taken.
    """
    noise = design.noise_multiplier * LARGEST * math.sqrt(numbers) / size
    for most in (2.0**k for k in range(1, 11)):
        room = steepness + 2 * rounding(design.steps * design.step_size * steepness * most * (1 + noise))
        if room <= most * steepness:
            return room
    raise BadInput("Rounding errors of the gradients exceed one record's: there are too many records or steps.")


def _pure_scale(budget: Budget, features: int) -> float:
    """The expected length of the pure noise per feature, in contributions: for choosing the regularisation alone."""
    return budget.reach * math.sqrt(features) * budget.models / budget.epsilon
