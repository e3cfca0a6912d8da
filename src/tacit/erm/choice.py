"""Which method: predicted from public numbers alone."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..core import BadInput
from .budget import Budget
from .methods import METHODS, tilting
from .shape import Design, Shape

NAMES = ("auto", *METHODS)


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
    if shape.regularization is not None and budget.reach * tilting(shape) > budget.epsilon / budget.models / 2:
        return "gradient", "objective perturbation at this regularization would spend half of epsilon without any noise"
    return "objective", "one Gaussian vector pays for the whole minimisation, and the loss's curvature damps it"
