r"""Ways to a private minimiser: perturb the objective, the output, or the gradient (`descent.py`).

A method is chosen and its noise fixed from public numbers (`Shape`) before any record is read: `METHODS` gives a
`Design` with the event that is charged; `run` then reads the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

from ..core import BadInput, Event
from ..core.events import ApproximateDP, Compose, Gaussian, ObjectivePerturbation
from ..core.randomness import Source
from .budget import Budget
from .descent import MOST_STEPS, descended, dynamics, gradient, needs_delta, rounded, sgd, single
from .losses import Floats
from .noise import TILT_STEPS, gaussian, normal
from .problem import Problem
from .shape import LENGTH, UNIT, Design, Shape

OUTPUT_SPREAD = 0.3
"""Noise that output perturbation accepts in every weight, for rows of norm 1: no curvature damps it."""
INEXACT = 20.0
"""Noise for what the solver leaves undone, in multiples of the tilt's: it costs a 400th of the budget."""


def objective(shape: Shape, budget: Budget) -> Design:
    r"""Minimise F(theta) + b . theta with b ~ N(0, (z s)^2 I), s = steepness.

    Guarantee: `ObjectivePerturbation` for the exact minimiser, and one `Gaussian` for what the solver leaves undone
    (approximate minima perturbation, Iyengar et al. 2019): the true gradient has norm at most g, so neighbours' errors
    differ by at most 2g/lambda. Excess: docs/proofs/erm.md, Theorem 4.
    Caller ensures: rows have norm at most what `steepness` and `bend` assume.
    """
    needs_delta("objective", budget)
    least = 2 * budget.reach * shape.bend * budget.models / budget.epsilon  # at which curvature costs half of epsilon

    def regularization(noise: float) -> float:
        if shape.regularization is not None:
            return shape.regularization * shape.size
        return max(noise * shape.steepness / shape.spread, least)

    def event(noise: float) -> Event:
        tilted = ObjectivePerturbation(noise, shape.bend, regularization(noise))
        return Compose((tilted, Gaussian(INEXACT * noise)))

    if shape.regularization is not None and budget.reach * tilting(shape) >= budget.epsilon / budget.models:
        raise BadInput(
            'method="objective" cannot keep this epsilon: one record bends the objective by too much.',
            fix='Raise regularization, or use method="gradient".',
        )
    noise = budget.least_noise(event)
    found = Design("objective", event(noise), noise, regularization(noise))
    return found.with_(excess=_tilted_excess(shape, found))


def tilting(shape: Shape) -> float:
    """What objective perturbation costs however much noise there is: log(1 + bend/lambda), for the sum."""
    strength = (shape.regularization or 0.0) * shape.size
    return math.log1p(shape.bend / strength) if strength > 0 else math.inf


def _tilted_excess(shape: Shape, design: Design) -> float:
    """|b| with probability 0.96, the last noise |v| with 0.99: F exceeds its minimum by at most (|b| + g)^2/2 lambda +
    (|b| + g) |v| + M |v|^2/2, M the largest curvature."""
    strength, scale = design.regularization, design.noise_multiplier * shape.steepness
    pull = _length(0.96, shape.features, scale) + _tolerance(shape, strength, scale)
    contribution = 2 * _tolerance(shape, strength, scale) / strength
    last = _length(0.99, shape.features, INEXACT * design.noise_multiplier * contribution) + contribution
    return _rise(shape, strength, pull, last) / shape.size


def _rise(shape: Shape, strength: float, pull: float, moved: float) -> float:
    """By how much F exceeds its minimum at a point where its gradient is `pull` long, moved by `moved`."""
    curved = shape.records * shape.bend + strength
    return pull**2 / (2 * strength) + pull * moved + curved * moved**2 / 2


def _length(probability: float, features: int, deviation: float) -> float:
    """What the length of a normal vector does not exceed with this probability; 1 % more, for its grid."""
    return 1.01 * deviation * math.sqrt(float(stats.chi2.ppf(probability, features)))


def _tolerance(shape: Shape, strength: float, scale: float) -> float:
    """The gradient that the solver leaves, and what separates the tilt on its grid from a normal vector."""
    slack = scale / TILT_STEPS * math.sqrt(shape.features)
    return shape.reachable(strength, scale * (math.sqrt(shape.features) + 10)) + slack


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
            fix='Give regularization, or use method="gradient" or "smooth".',
        )
    pure = budget.delta == 0
    noise = _pure_scale(budget, shape.features) if pure else budget.gaussian_noise()
    event = ApproximateDP((1 - 1e-12) * budget.epsilon / budget.models, 0.0) if pure else Gaussian(noise)
    chosen = noise * shape.steepness / OUTPUT_SPREAD if shape.regularization is None else None
    regularization = chosen if chosen is not None else float(shape.regularization or 0.0) * shape.size
    left = shape.reachable(regularization, 0.0)
    contribution = (shape.steepness + 2 * left) / regularization
    if isinstance(event, ApproximateDP):
        radius = float(stats.gamma.ppf(0.95, shape.features)) * budget.reach * contribution / event.epsilon
    else:
        radius = _length(0.95, shape.features, noise * contribution) + contribution / TILT_STEPS
    excess = _rise(shape, regularization, left, radius) / shape.size
    return Design("output", event, noise, regularization, excess=excess)


def smooth(shape: Shape, budget: Budget) -> Design:
    r"""A descent without noise over all records, stopped after T steps, and noise on where it ends.

    Guarantee: every step maps points no farther apart, and one record shifts it by eta s/n, so the end moves by at most
    T eta s/n: `Gaussian(z)`. No strong convexity is needed, eta <= 1/beta is.
    T eta makes |theta|^2/(2 T eta) + beta d (z T eta s/n)^2/2 least, for weights as long as LENGTH says.
    Reference: Zhang, Zheng, Mou and Wang 2017, Efficient private ERM for smooth objectives, Theorem 4 and Lemma 5.
    """
    needs_delta("smooth", budget)
    noise, strength = budget.gaussian_noise(), shape.regularization or 0.0
    beta, spread = shape.mean_bend + strength, noise * shape.steepness / shape.size
    square = LENGTH**2 * math.sqrt(shape.features)
    time = (square / (2 * beta * shape.features * spread**2)) ** (1 / 3)
    steps = min(max(math.ceil(time * beta), 1), MOST_STEPS)
    eta = min(time / steps, 1 / beta)
    slow = 1 / (2 * steps * eta)
    expected = slow + 1.02 * beta * shape.features * (steps * eta * spread) ** 2 / 2
    return Design("smooth", Gaussian(noise), noise, strength, steps, eta, expected=expected, slowness=slow)


METHODS: dict[str, Callable[[Shape, Budget], Design]] = {
    "output": output,
    "objective": objective,
    "gradient": gradient,
    "dynamics": dynamics,
    "smooth": smooth,
    "sgd": sgd,
    "single": single,
}


def run(problem: Problem, design: Design, budget: Budget, rng: Source, start: Floats | None = None) -> Floats:
    """The private minimiser by a design, after it was charged. A minimiser begins at `start`; descents begin at 0."""
    minimised = {"output": _output, "objective": _objective}.get(design.method)
    if minimised is not None:
        return minimised(problem, design, budget, rng, start)
    if design.method == "smooth":
        return _smooth(problem, design, rng)
    return descended(problem, design, np.zeros(problem.features), problem.shape, rng)


def _objective(problem: Problem, design: Design, budget: Budget, rng: Source, start: Floats | None) -> Floats:
    """What separates the tilt on its grid from a normal vector is one more error of the minimiser: Theorem 4."""
    scale, strength = design.noise_multiplier * problem.steepness, design.regularization
    tilt, slack = normal(scale, problem.features, rng)
    tolerance = problem.reachable(strength, scale * (math.sqrt(problem.features) + 10))
    theta = problem.minimum(strength, tilt, tolerance, start)
    return gaussian(theta, 2 * (tolerance + slack) / strength, INEXACT * design.noise_multiplier, rng)


def _output(problem: Problem, design: Design, budget: Budget, rng: Source, start: Floats | None) -> Floats:
    strength = design.regularization
    tolerance = problem.reachable(strength, 0.0)
    theta = problem.minimum(strength, np.zeros(problem.features), tolerance, start)
    contribution = (problem.steepness + 2 * tolerance) / strength
    if not isinstance(design.event, ApproximateDP):
        return gaussian(theta, contribution, design.noise_multiplier, rng)
    direction = rng.normal(problem.features)
    radius = -np.log(rng.uniform(problem.features)).sum() * budget.reach * contribution / design.event.epsilon
    return np.asarray(theta + radius * direction / np.linalg.norm(direction))


def _smooth(problem: Problem, design: Design, rng: Source) -> Floats:
    """Noisy gradient descent on a smooth loss: all steps without noise, then Gaussian noise on the last iterate.

    Rounding of the gradient sum is added to what one record may contribute; rounding of each step is added to how far
    the result may move.
    """
    shape, theta = problem.shape, np.zeros(problem.features)
    for _ in range(design.steps):
        theta = theta - design.step_size * (problem.gradient(theta) / shape.size + design.regularization * theta)
    time = design.steps * design.step_size
    room = rounded(design, shape, problem.rounding, problem.features)
    longest = 2 * time * room * shape.records / shape.size
    return gaussian(theta, time * room / shape.size + 32 * UNIT * design.steps * longest, design.noise_multiplier, rng)


def _pure_scale(budget: Budget, features: int) -> float:
    """The expected length of the pure noise per feature, in contributions: for choosing the regularisation alone."""
    return budget.reach * math.sqrt(features) * budget.models / budget.epsilon
