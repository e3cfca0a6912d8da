"""Which method: predicted from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from ..core import BadInput
from .budget import Budget
from .methods import METHODS
from .shape import LENGTH, Design, Shape

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
    risks = {name: predicted(name, shape, budget) for name in COMPARED}
    best = min(risks, key=lambda name: risks[name])
    if risks[best] >= shape.at_zero and shape.regularization is None:
        return COMPARED[0], "no method is predicted to beat weights 0: there is too little to learn from"
    others = " and ".join(f"{risk:.3g} ({name})" for name, risk in risks.items() if name != best)
    return best, f"the least predicted excess risk, {risks[best]:.3g} ({best}), against {others}"


def predicted(method: str, shape: Shape, budget: Budget) -> float:
    r"""The excess of the mean loss over its minimum that is to be expected of a method; infinite if it is refused.

    A model from public numbers alone, no bound. Rows of norm 1 point everywhere alike, so that the mean loss has the
    curvature k = bend/d in every direction, and the best weights have length W = LENGTH d^{1/4}. A method finds a part
    p of them, with noise of variance v in each weight; the excess is k ((1 - p)^2 W^2 + d v)/2. With l = lambda/n,
    q = k/(k + l) and the noise r = z s/n:

        objective   p = q                                v = (r/(k + l))^2
        output      p = q                                v = (r/l)^2
        gradient    p = q (1 - e^{-3 (k + l) t/4})       v = r^2 t/T (1 - e^{-2 (k + l) t})/(2 (k + l)), t = eta T
    """
    try:
        design = planned(method, shape, budget)
    except BadInput:
        return math.inf
    square, bend = LENGTH**2 * math.sqrt(shape.features), shape.bend / shape.features
    part, variance = _learned(design, shape, bend)
    return bend / 2 * ((1 - part) ** 2 * square + shape.features * variance)


def _learned(design: Design, shape: Shape, bend: float) -> tuple[float, float]:
    """The part of the best weights that a method finds, and the variance of each weight."""
    square = (design.noise_multiplier * shape.steepness / shape.size) ** 2
    if design.method in ("objective", "output"):
        strength = design.regularization / shape.size
        whole = bend + strength
        return bend / whole, square / (whole if design.method == "objective" else strength) ** 2
    whole, time = bend + design.regularization, design.time
    found, settled = -math.expm1(-0.75 * whole * time), -math.expm1(-2 * whole * time)
    return bend / whole * found, square * time / design.steps * settled / (2 * whole)
