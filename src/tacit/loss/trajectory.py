"""How epsilon of the last iterate grows with the steps: composition, the bounds, and what some losses attain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.adjacency import Adjacency
from ..core.events import Gaussian, LastIterate, Poisson, Repeat
from .dispatch import loss_of
from .dynamics import NoisyDescent
from .renyi import TILTS, improved

COMPOSITION = "all iterates seen: composition"
UPPER = "only the last seen: at most"
LOWER = "only the last seen: at least, for some losses"
RENYI = "only the last seen: Chourasia, Ye and Shokri 2021"


def trajectory(
    event: LastIterate, adjacency: Adjacency, delta: float, points: int = 20
) -> dict[str, list[tuple[int, float]]]:
    """Curves of (steps, epsilon at delta) up to the event's own number of steps, by name."""
    ladder = np.unique(np.round(np.geomspace(1, event.steps, points)).astype(int))
    found: dict[str, list[tuple[int, float]]] = {}
    for steps in map(int, ladder):
        here = replace(event, steps=steps)
        composed = Repeat(Poisson(event.rate, Gaussian(event.noise_multiplier)), steps)
        last = loss_of(here, adjacency, 1).epsilon(delta)
        values = {COMPOSITION: loss_of(composed, adjacency, 1).epsilon(delta).upper, UPPER: last.upper}
        if last.lower > 0:
            values[LOWER] = last.lower
        older = _older(here, adjacency)
        if older is not None:
            values[RENYI] = improved(older.converging(1 + TILTS), TILTS, delta)
        for name, value in values.items():
            found.setdefault(name, []).append((steps, value))
    return found


def _older(event: LastIterate, adjacency: Adjacency) -> NoisyDescent | None:
    """The event's descent in the symbols of `NoisyDescent`, where its older theorem speaks of it."""
    beta = event.smoothness + event.regularization
    if event.rate < 1 or event.diameter is not None or not event.regularization or event.step_size * beta >= 1:
        return None
    noise = event.noise_multiplier * event.lipschitz / event.size * (event.step_size / 2) ** 0.5
    sensitivity = adjacency.sensitivity * event.lipschitz
    return NoisyDescent(event.regularization, beta, sensitivity, event.size, event.step_size, noise, event.steps)
