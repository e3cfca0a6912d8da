"""Which method: predicted from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from ..core import BadInput
from .budget import Budget
from .methods import METHODS, TILT_SPREAD, tilting
from .shape import Design, Shape

NAMES = ("auto", *METHODS)
COMPARED = ("objective", "output", "gradient")
"""Methods among which "auto" chooses; the first where no prediction tells."""


def chosen(method: str, shape: Shape, budget: Budget, softmax: Shape | None) -> Design:
    """Plan the given method, or the best one for "auto"; `softmax` is the shape of one model for all classes."""
    if method not in NAMES:
        raise BadInput(f"method must be one of {', '.join(NAMES)}, got {method!r}.")
    if softmax is not None and method in ("auto", "gradient", "sgd") and budget.delta > 0:
        found = planned("sgd" if method == "sgd" else "gradient", softmax, replace(budget, models=1))
        why = "more than two classes: softmax regression spends the budget once for all of them"
        return replace(found, method="softmax", reason=why)
    name, why = (method, f"method={method!r} was asked for") if method != "auto" else _best(shape, budget)
    return replace(planned(name, shape, budget), reason=why)


@lru_cache(maxsize=256)
def planned(method: str, shape: Shape, budget: Budget) -> Design:
    """A method's design; calibrating its noise takes up to seconds, and repeated fits ask for the same."""
    return METHODS[method](shape, budget)


def _best(shape: Shape, budget: Budget) -> tuple[str, str]:
    if budget.delta == 0:
        return "output", "delta 0: output perturbation is pure"
    if shape.regularization == 0:
        return "gradient", "regularization 0: the other methods need a strongly convex objective"
    if shape.regularization is not None:
        if budget.reach * tilting(shape) > budget.epsilon / budget.models / 2:
            return "gradient", "objective perturbation at this regularization would spend half of epsilon on curvature"
        return "objective", "one Gaussian vector pays for the whole minimisation, and the loss's curvature damps it"
    risks = {name: predicted(planned(name, shape, budget), shape) for name in COMPARED}
    best = min(risks, key=lambda name: risks[name])
    if risks[best] >= shape.at_zero:
        return COMPARED[0], "no theorem predicts less risk than that of weights 0: there is too little to learn from"
    others = " and ".join(f"{risk:.3g} ({name})" for name, risk in risks.items() if name != best)
    return best, f"the least predicted excess risk, {risks[best]:.3g} ({best}), against {others}"


def predicted(design: Design, shape: Shape) -> float:
    r"""The mean loss above that of any weights of length W = TILT_SPREAD d^{1/4}, on average at most.

    From public numbers alone, for rows of norm 1 and a sum over n records with regularisation lambda, s = steepness,
    M = the largest curvature:

        objective   (lambda W^2 + d (z s)^2/lambda)/2n
        output      (lambda W^2 + M d (z s/lambda)^2)/2n
        gradient    Theorem 7 for |w| = W

    Reference: docs/proofs/erm.md, Theorems 4 and 7. The last noise and what the solver leaves undone are not counted.
    """
    square = TILT_SPREAD**2 * math.sqrt(shape.features)
    if design.expected is not None:
        return design.expected + (square - 1) / (2 * design.step_size * (design.steps // 2))
    strength, noise = design.regularization, shape.features * (design.noise_multiplier * shape.steepness) ** 2
    curved = strength if design.method == "objective" else shape.records * shape.bend + strength
    return (strength * square + curved * noise / strength**2) / (2 * shape.size)
