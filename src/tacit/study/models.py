"""Anybody's model as one shape: `fit(x, y, rng) -> predict`, `predict(x) -> probabilities or logits`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..audits.foreign import Border
from ..core.errors import BadInput
from ..core.observations import Observations
from .neural import hugging_face, neural

Array = NDArray[Any]
Predict = Callable[[Array], Array]
Fit = Callable[[Array, Array, np.random.Generator], Any]


def predictor(target: Any) -> Predict:
    """The outputs of an estimator, a torch module, a Hugging Face classifier or pipeline, or a function."""
    method = own_answers(target)
    if method is not None:
        return lambda x: _asked(method, x)
    if callable(target):
        return lambda x: _numbers(target(x))
    raise BadInput(
        f"A model was expected, got {type(target).__name__}.",
        fix="Give an estimator with predict_proba, a torch module, or a function predict(x).",
    )


def own_answers(target: Any) -> Predict | None:
    """How a model of a known library answers; None for a function, and for what is no model."""
    if (network := neural(target)) is not None:
        return network
    shares, decision = (getattr(target, name, None) for name in ("predict_proba", "decision_function"))
    if callable(shares):
        return shares
    return (lambda x: _two_columns(np.asarray(decision(x)))) if callable(decision) else None


def guarded(target: Any) -> Any:
    """A predict function whose errors are one sentence; a model of a known library is that already."""
    if own_answers(target) is not None or not callable(target):
        return target
    answer = functools.partial(_asked, target)
    return functools.update_wrapper(answer, target, updated=())


def _two_columns(decision: Array) -> Array:
    """Logits from decision values: with two classes there is one value per record, for the second."""
    return decision if decision.ndim == 2 else np.stack((np.zeros_like(decision), decision), axis=1)


def refit(target: Any, fit: Fit | None) -> Fit | None:
    """How to train another model like the target: the given `fit`, or a clone of a scikit-learn estimator."""
    if fit is not None or not callable(getattr(target, "get_params", None)):
        return fit
    from sklearn.base import clone

    def train(x: Array, y: Array, rng: np.random.Generator) -> Any:
        model = clone(target)
        if "random_state" in model.get_params():
            model.set_params(random_state=int(rng.integers(2**31)))
        return model.fit(x, y)

    return train


def classes_of(target: Any, y: Array) -> Array | None:
    """All classes, sorted, where the model names its own as scikit-learn's do; None where labels are column numbers."""
    names = getattr(target, "classes_", None)
    return None if names is None else np.union1d(names, y)


def answers(model: Any, x: Array, classes: Array | None) -> Array:
    """A model's outputs with one column per class; a class it never saw gets no probability."""
    output, names = predictor(model)(x), getattr(model, "classes_", None)
    if classes is None or names is None or output.ndim != 2 or output.shape[1] != len(names):
        return output
    full = np.zeros((len(output), len(classes)))
    full[:, np.searchsorted(classes, names)] = output
    return full


def accuracy(model: Any, x: Array, y: Array) -> float:
    """Share of records whose most likely class, or predicted label, is their label."""
    told, names = predictor(model)(x), getattr(model, "classes_", None)
    likely = told.argmax(1) if told.ndim == 2 else told
    return float(np.mean((likely if names is None else np.asarray(names)[likely]) == y))


def observe(outputs: list[Array], y: ArrayLike, member: ArrayLike, classes: Array | None = None) -> Observations:
    """Signals of several models on the same records; outputs that are probabilities are taken as such."""
    labels = np.asarray(y) if classes is None else np.searchsorted(classes, np.asarray(y))
    outputs = _shares(outputs, labels)
    for output in outputs:
        if output.ndim != 2 or len(output) != len(labels):
            raise BadInput(
                "A model must answer with one row per record and one column per class.",
                fix="Or with one whole number per record: the label it predicts.",
            )
        if not np.isfinite(output).all():
            raise BadInput("A model answered with numbers that are not finite.")
    if len({output.shape for output in outputs}) > 1:
        raise BadInput("The models answer with different numbers of classes.")
    stacked = np.stack(outputs, axis=1)
    build = Observations.from_probabilities if _probabilities(stacked) else Observations.from_logits
    return build(stacked, labels, member=member)


def inside(target: Any, x: Array, seen: Observations) -> Observations:
    """The same observations with a torch model's layers and gradients beside them."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(target, torch.nn.Module) or hugging_face(target):
        raise BadInput(
            "An attack that looks inside needs a torch module that takes an array and gives logits.",
            fix="Give the module itself; wrap one that answers with an object.",
        )
    from ..attacks.internals import look_inside

    found = look_inside(target, x, seen.need("label"))
    return replace(seen, gradient_norm=found.gradient_norm, internals=found.internals)


def _shares(outputs: list[Array], labels: Array) -> list[Array]:
    """Predicted labels, where that is all the models say, as probabilities 0 and 1; anything else as it is."""
    known = all(output.ndim == 1 and output.dtype.kind in "iu" and output.min(initial=0) >= 0 for output in outputs)
    if not known or not np.issubdtype(labels.dtype, np.number):
        return outputs
    classes = int(max(2, *(output.max() + 1 for output in (*outputs, labels))))
    return [np.eye(classes)[output.astype(np.int64)] for output in outputs]


def _probabilities(outputs: Array) -> bool:
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(-1), 1.0, atol=1e-3))


def _asked(answer: Predict, x: Array) -> Array:
    """What a model says of some records, or one sentence without its text, which may hold data."""
    found: Any = None
    with Border() as border:
        found = answer(x)
    if border.problem:
        raise BadInput(f"The model {border.problem} when it was given records of shape {np.shape(x)[1:]}.")
    return _numbers(found)


def _numbers(answer: Any) -> Array:
    """Whole numbers, or yes and no, one per record, stay what they are: labels."""
    if isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype.kind in "iub":
        return answer.astype(np.int64) if answer.dtype.kind == "b" else answer
    try:
        return np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("A model must answer with one row per record and one column per class.") from None
