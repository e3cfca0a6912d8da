"""Anybody's model as one shape: `fit(x, y, rng) -> predict`, `predict(x) -> probabilities or logits`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..audits.foreign import Border
from ..core.arrays import Array
from ..core.errors import BadInput
from ..core.observations import Observations
from ..data.codec import Codec
from .exact_shares import in_full
from .foreign_models import foreign_answers, foreign_regression
from .forms import Form
from .neural import from_tensor, hugging_face, is_pipeline, neural
from .outputs import Reading
from .records import described, lent

Predict = Callable[[Any], Any]
Fit = Callable[[Any, Array, np.random.Generator], object]
PAIRS = 3
"""Classes of which there are as many pairs."""
AGREE = 0.9
"""Share of records whose largest decision value must be that of the class that is predicted."""


def predictor(target: object) -> Predict:
    """The outputs of an estimator, a booster, a network, an ONNX session, a Hugging Face pipeline or a function."""
    method = own_answers(target)
    if method is not None:
        return lambda x: _asked(method, x)
    if callable(target):
        return lambda x: _numbers(target(lent(x)))
    raise BadInput(
        f"A model was expected, got {type(target).__name__}.",
        fix="Give an estimator with predict_proba, a torch module, or a function predict(x).",
    )


def own_answers(target: object) -> Predict | None:
    """How a model of a known library answers; None for a function, and for what is no model."""
    for known in (neural, foreign_answers):
        if (method := known(target)) is not None:
            return method
    shares, decision, told = (getattr(target, name, None) for name in ("predict_proba", "decision_function", "predict"))
    if callable(shares):
        return lambda x: in_full(target, shares, x)
    if callable(decision):
        return lambda x: _by_class(target, np.asarray(decision(x)), x)
    return told if callable(told) and callable(getattr(target, "fit", None)) else None


@dataclass(frozen=True, eq=False)
class FramedModel:
    """Let a model that expects data frames be asked with arrays: rows are decoded to a frame first."""

    model: Any
    codec: Codec

    def predict_proba(self, x: Array) -> Array:
        """What the model says of the records of an array."""
        return predictor(self.model)(self.codec.decode(x))

    def __getattr__(self, name: str) -> object:
        if name == "classes_" and "classes_" in dir(self.model):
            return self.model.classes_
        raise AttributeError(name)


@dataclass(frozen=True, eq=False)
class FramedFit:
    """Let a training that expects data frames be called with arrays: rows are decoded to a frame first."""

    fit: Any
    codec: Codec

    def __call__(self, x: Array, y: Array, rng: np.random.Generator) -> FramedModel:
        return FramedModel(self.fit(self.codec.decode(x), y, rng), self.codec)


def own_model(target: object) -> object:
    """The model itself, where it is wrapped to take arrays."""
    return target.model if isinstance(target, FramedModel) else target


def as_given(target: Any, x: Any) -> object:
    """Records as their owner keeps them: frames, where arrays were made of them for a model that takes frames."""
    return target.codec.decode(x) if isinstance(target, FramedModel) else x


def usual_form(target: object) -> Form | None:
    """What a model answers with by its kind; None where that is not known.

    A torch module answers with logits unless one of its layers makes shares, and so does the model of a pipeline.
    """
    target = own_model(target)
    torch = sys.modules.get("torch")
    if is_pipeline(target):
        return Form.LOGITS
    if torch is not None and isinstance(target, torch.nn.Module):
        makes_shares = (torch.nn.Softmax, torch.nn.Softmax2d, torch.nn.Sigmoid)
        return None if any(isinstance(layer, makes_shares) for layer in target.modules()) else Form.LOGITS
    if callable(getattr(target, "predict_proba", None)) or foreign_regression(target) is False:
        return Form.PROBABILITIES
    return Form.LOGITS if callable(getattr(target, "decision_function", None)) else None


def guarded(target: object) -> object:
    """A predict function whose errors are one sentence; a model of a known library is that already."""
    if own_answers(target) is not None or not callable(target):
        return target
    answer = functools.partial(_asked, target)
    return functools.update_wrapper(answer, target, updated=())


def _two_columns(decision: Array) -> Array:
    """Logits from decision values: with two classes there is one value per record, for the second."""
    return decision if decision.ndim == 2 else np.stack((np.zeros_like(decision), decision), axis=1)


def _by_class(target: Any, decision: Array, x: Any) -> Array:
    """Decision values with one column per class; labels where a model has other columns, such as one per pair.

    Three classes have three pairs, so there the largest value must be that of the predicted class.
    """
    found, names = _two_columns(decision), getattr(target, "classes_", None)
    if names is None or found.shape[1] == len(names) != PAIRS or not callable(getattr(target, "predict", None)):
        return found
    told = np.asarray(target.predict(x))
    if found.shape[1] == len(names) and np.mean(np.asarray(names)[found.argmax(axis=1)] == told) >= AGREE:
        return found
    return told


def is_regressor(target: object) -> bool:
    """Whether an estimator, or the objective of a booster, says so itself."""
    target = own_model(target)
    if (known := foreign_regression(target)) is not None:
        return known
    sklearn = sys.modules.get("sklearn.base")
    if sklearn is None or not callable(getattr(target, "get_params", None)):
        return False
    try:
        return bool(sklearn.is_regressor(target))
    except AttributeError:  # it follows scikit-learn without being made from its classes
        return getattr(target, "_estimator_type", None) == "regressor"


def answers(model: object, x: object, classes: Array | None, names: Array | None = None) -> Array:
    """A model's outputs with one column per class, in sorted order; a class it never saw gets no probability.

    `names` are those of its columns, which an estimator has itself.
    """
    output = predictor(model)(x)
    names = getattr(model, "classes_", None) if names is None else names
    if classes is None or names is None or output.ndim != 2 or output.shape[1] != len(names):
        return output
    if np.array_equal(np.asarray(names), classes):
        return output
    full = np.full((len(output), len(classes)), 0.0 if (output >= 0).all() else output.min(), dtype=output.dtype)
    full[:, np.searchsorted(classes, names)] = output
    return full


def accuracy(model: object, x: object, y: ArrayLike) -> float:
    """Share of records whose most likely class, or predicted label, is their label.

    Columns without names are read as an attack reads them: numbered, or in the sorted order of the labels; one column
    is the second label's share, or its logit.
    """
    told, label = predictor(model)(x), np.asarray(y)
    told = told[:, 0] if told.ndim == 2 and told.shape[1] == 1 else told
    if told.ndim == 1 and (told.dtype.kind != "f" or np.isin(told, label).all()):
        return float(np.mean(told == label))
    if told.ndim == 1:
        shares = told.min(initial=0) >= 0 and told.max(initial=0) <= 1
        told = np.stack((np.zeros_like(told), told - (0.5 if shares else 0.0)), axis=1)
    likely, names = told.argmax(axis=1), getattr(model, "classes_", None)
    if names is None and not (label.dtype.kind in "biu" and label.max(initial=0) < told.shape[1]):
        names = np.unique(label)
    return float(
        np.mean((likely if names is None or len(names) <= likely.max() else np.asarray(names)[likely]) == label)
    )


def observe(
    outputs: list[Array], y: ArrayLike, member: ArrayLike, classes: Array | None = None, usual: Form | None = None
) -> Observations:
    """Signals of several models on the same records; the form of all outputs is taken from the first model."""
    reading = Reading.of(outputs[0], y, classes, usual=usual)
    return reading.observe(outputs, member, reading.coarsest(outputs[1:]))


def check_inside(target: object) -> None:
    """Refuse a model that nobody can look inside."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(target, torch.nn.Module) or hugging_face(target):
        raise BadInput(
            "An attack that looks inside needs a torch module that takes an array and gives logits.",
            fix="Give the module itself; wrap one that answers with an object.",
        )


def inside(target: Any, x: Array, seen: Observations) -> Observations:
    """Add a torch model's layers and gradients to observations."""
    check_inside(target)
    from ..attacks.internals import look_inside

    found = look_inside(target, x, seen.need("label"))
    return replace(seen, gradient_norm=found.gradient_norm, internals=found.internals)


def _asked(answer: Predict, x: object) -> Array:
    """What a model says of some records, or one sentence without its text, which may hold data."""
    found: Any = None
    with Border() as border:
        found = answer(lent(x))
    if border.problem:
        raise BadInput(f"The model {border.problem} when it was given records of {described(x)}{border.place}.")
    return _numbers(found)


def _numbers(answer: object) -> Array:
    """Answers in the number type that they came in; words, whole numbers, and yes and no are labels."""
    first = answer[0] if isinstance(answer, list) and answer else None
    if isinstance(first[0] if isinstance(first, list) and first else first, Mapping):
        raise BadInput(
            "A model answered with scores by the names of classes.",
            fix="Wrap it, and name all classes: tacit.study.service.Service(predict, classes=[...]).",
        )
    try:
        found = np.asarray(from_tensor(answer))
    except (TypeError, ValueError):
        raise BadInput("A model must answer with one row per record and one column per class.") from None
    if found.dtype.kind == "O":
        found = _words(found)
    if found.dtype.kind in "US" and found.ndim <= 2:
        return _labels_or_numbers(found)
    if found.dtype.kind not in "iubf":
        raise BadInput("A model must answer with numbers, or with the label of each record.")
    found = found.squeeze(tuple(axis for axis in (1, 2) if found.shape[axis] == 1)) if found.ndim == 3 else found
    if found.dtype.kind == "b" or (found.dtype.kind in "iu" and found.ndim > 1):
        return found.astype(np.int64 if found.ndim == 1 else np.float64)
    return found


def _labels_or_numbers(found: Array) -> Array:
    """One column of words is labels; several are numbers that were written as text."""
    if found.ndim == 1 or found.shape[1] == 1:
        return found.reshape(len(found))
    try:
        return found.astype(np.float64)
    except ValueError:
        raise BadInput("A model must answer with numbers, or with one label for each record.") from None


def _words(found: Array) -> Array:
    """Objects that are numbers as numbers, and else as words."""
    try:
        return found.astype(np.float64)
    except (TypeError, ValueError):
        pass
    if found.ndim == 1 and all(isinstance(value, str) for value in found):
        return found.astype(str)
    raise BadInput("A model must answer with one row per record and one column per class.")
