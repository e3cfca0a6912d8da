"""The border to somebody else's code: what it returns is checked, what it raises is kept by name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Observations, Resolution, TacitError
from ..core.arrays import Array
from ..core.errors import where
from ..core.resolution import are_shares

Fit = Callable[[Array, Array, np.random.Generator], object]
FINEST = Resolution((float(np.finfo(np.float64).tiny),))
"""Runs of an audit are scored one by one and only compared: a 0 is the same in each, below every other number."""


@runtime_checkable
class Classifier(Protocol):
    """scikit-learn's shape of a trained model."""

    def predict_proba(self, x: Array) -> Array: ...


@dataclass
class Border:
    """`with Border() as border:` lets any Exception of foreign code end the block and keeps its kind, not its text.

    `place` is where it was raised, in brackets, for the end of a sentence: " (own.py, line 3, in fit)". The text may
    hold data (soundness rule 8); one of ours holds none, and says what to mend. Interrupts pass through; sys.exit does
    not: their status is not ours.
    """

    problem: str = field(default="")
    place: str = field(default="")

    def __enter__(self) -> Border:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, Exception | SystemExit):
            return False
        ours = f" ({error.message.rstrip('.')})" if isinstance(error, TacitError) else ""
        self.problem = f"raised {kind.__name__}{ours}"
        self.place = f" ({where(error)})" if error is not None and not ours else ""
        return True


def outputs(model: object, x: Array) -> tuple[Array, Array | None]:
    """(records x classes, class names or None) of a predict function or a classifier object."""
    if isinstance(model, Classifier):
        return np.asarray(model.predict_proba(x), dtype=np.float64), getattr(model, "classes_", None)
    if callable(decision := getattr(model, "decision_function", None)):
        told = np.asarray(decision(x), dtype=np.float64)
        told = np.stack((np.zeros_like(told), told), axis=1) if told.ndim == 1 else told  # the second class's logit
        return told, getattr(model, "classes_", None)
    if not callable(model):
        raise BadInput("fit must return predict(x), or an object with predict_proba or decision_function.")
    return np.asarray(model(x), dtype=np.float64), None


def margins(model: object, x: Array, label: Array, classes: Array) -> NDArray[np.float64]:
    """log p_y - log sum of the others, for records x with labels among `classes` (sorted)."""
    return margins_of(*outputs(model, x), label, classes)


def margins_of(told: Array, names: Array | None, label: Array, classes: Array) -> NDArray[np.float64]:
    """Margins from a model's output, given how the model names its classes."""
    if told.ndim != 2 or told.shape[0] != len(label) or told.shape[1] < 2:
        raise BadInput(f"predict must return (records, classes), got shape {told.shape}.")
    index = _columns(label, classes if names is None else np.asarray(names), told.shape[1])
    if are_shares(told):
        return Observations.from_probabilities(told, index, resolution=FINEST).need("margin")[:, 0]
    return Observations.from_logits(told, index).need("margin")[:, 0]


def last_margin(told: Array, names: Array | None, label: Array, classes: Array) -> tuple[float, str]:
    """The last record's margin, and what is wrong with it ("" when nothing is); the others show a constant model."""
    if not np.isfinite(told).all():
        return math.nan, "predicted NaN"
    if len(told) > 1 and (told == told[0]).all():
        return math.nan, "predicted a constant"
    return float(margins_of(told, names, label, classes)[-1]), ""


def _columns(label: Array, classes: Array, count: int) -> NDArray[np.int64]:
    """The column of each label: its number if labels are 0 .. count - 1, else its place among the classes."""
    if np.issubdtype(label.dtype, np.integer) and label.min() >= 0 and classes.max() < count and classes.min() >= 0:
        return label.astype(np.int64)
    if len(classes) != count:
        raise BadInput(f"predict returns {count} classes where the labels have {len(classes)}.")
    return np.searchsorted(classes, label).astype(np.int64)


def takes(function: Any, count: int) -> bool:
    """Whether a function can be called with `count` arguments, as far as its signature tells."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def name_of(function: object) -> str:
    """What somebody's training or mechanism is called: without the functions that it was defined in."""
    full = getattr(function, "__qualname__", getattr(function, "__name__", type(function).__name__))
    return str(full).rpartition("<locals>.")[2]
