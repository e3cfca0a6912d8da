"""How to train another model like the target: by its owner's `fit`, or by a clone of the estimator."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..audits.foreign import Border
from ..core import BadInput
from ..core.arrays import Array
from .models import Fit


def refit(target: object, fit: Fit | None) -> Fit | None:
    """How to train another model like the target: the given `fit`, or a clone of a scikit-learn estimator.

    A clone of an estimator that keeps a part as it was trained would know the target's members in every reference
    model. Then nobody would seem to be known, so such an estimator is not cloned. A clone pays no ledger: such models
    are looked at and not released, and hundreds of them would use up the budget of the data.
    """
    if fit is not None or not callable(getattr(target, "get_params", None)) or _keeps_a_trained_part(target):
        return fit

    def train(x: object, y: Array, rng: np.random.Generator) -> Any:
        found = None
        with Border() as border:
            model = _cloned(target)
            given = model.get_params()
            changed: dict[str, object] = {name: None for name, value in given.items() if _pays(name, value)}
            seeds = [name for name in given if name.split("__")[-1] in ("random_state", "random_seed")]
            changed |= {name: int(rng.integers(2**31)) for name in seeds}
            if changed:
                model.set_params(**changed)
            found = model.fit(x, y)
        if border.problem:
            raise BadInput(
                f"A clone of the model {border.problem} when it was trained on {len(y)} of the records{_oddity(x, y)}"
                f"{border.place}.",
                fix="Give fit=, more records, or references=0.",
            )
        return found

    return Refit(train, target)


@dataclass(frozen=True, eq=False)
class Refit:
    """A training by clones of an estimator, which a private one can also do with a usual fault (`erm.planting`)."""

    train: Fit
    target: Any

    @property
    def __name__(self) -> str:
        return type(self.target).__name__

    def __call__(self, x: object, y: Array, rng: np.random.Generator) -> Any:
        return self.train(x, y, rng)

    def planted(self, fault: str) -> Fit | None:
        """The training with a fault of this name; None where it cannot be planted."""
        if not type(self.target).__module__.startswith("tacit.erm"):
            return None
        from ..erm.planting import planted

        wrong = planted(self.target, fault)
        return None if wrong is None else refit(wrong, None)


def _pays(name: str, value: object) -> bool:
    return name.split("__")[-1] == "ledger" and value is not None


def _cloned(target: object) -> Any:
    """An estimator that was not trained, with the same parameters.

    CatBoost keeps other lists than it was given, which scikit-learn's clone refuses, and its models of no kind in
    particular take their parameters as one dictionary.
    """
    catboost = sys.modules.get("catboost")
    if catboost is not None and isinstance(target, catboost.CatBoost):
        given = copy.deepcopy(target.get_params())
        return catboost.CatBoost(given) if type(target) is catboost.CatBoost else type(target)(**given)
    from sklearn.base import clone

    return clone(target)


def _keeps_a_trained_part(target: Any) -> bool:
    """Whether training an estimator again leaves a part of it as it is: a FrozenEstimator, or cv="prefit"."""
    module = sys.modules.get("sklearn.frozen")
    frozen = () if module is None else (module.FrozenEstimator,)
    parts = target.get_params()
    kept = any(isinstance(part, frozen) for part in (target, *parts.values()))
    return kept or any(isinstance(part, str) and part == "prefit" for part in parts.values())


def _oddity(x: Any, y: Array) -> str:
    """What about some records may be why a training failed."""
    if len(y) and (y == y[0]).all():
        return ", all of one class"
    numbers = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return ", some with missing values" if numbers and not np.isfinite(x).all() else ""
