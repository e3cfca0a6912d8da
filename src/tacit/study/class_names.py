"""What a model's columns are called: by the model itself, by its owner, or by nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from ..core import BadInput
from ..core.arrays import Array
from .models import is_regressor
from .neural import label_names

NUMBERS = "biuf"
"""Kinds of arrays that hold numbers."""


def classes_of(target: object, y: Array) -> Array | None:
    """All classes, sorted, where the model names its own as scikit-learn's do; None where labels are column numbers."""
    names = names_of(target, y)
    if names is None:
        return None
    if (names.dtype.kind in NUMBERS) != (y.dtype.kind in NUMBERS):
        raise BadInput("Labels must be of the kind that the model was trained on: numbers, or words.")
    return np.union1d(names, y)


def check_known(target: object, y: Array) -> None:
    """Refuse members with labels that the model does not know: it was not trained on them under these names."""
    names = names_of(target, y)
    unknown = 0 if names is None else int((~np.isin(y, names)).sum())
    if unknown:
        raise BadInput(
            f"{unknown} of {y.size} members have a label that the model does not know.",
            fix="Give as members the records that the model was trained on, with their labels.",
        )


def names_of(target: object, y: Array) -> Array | None:
    """The names of a model's columns as numbers or words, in its own order; None where columns have numbers alone.

    A service whose owner named its classes says which of these the labels `y` are. A Hugging Face model names its
    columns in words: labels that are these words are found by name, and others are column numbers.
    """
    told = _own(target, "names_like")
    if callable(told):
        return told(y)
    given, words = _own(target, "classes_"), label_names(target)
    if given is None and words is not None and y.dtype.kind not in NUMBERS and np.isin(y, words).all():
        return words
    if given is None or is_regressor(target):
        return None
    names = np.asarray(given, dtype=object if isinstance(given, list) else None)
    if names.ndim == 1 and names.dtype.kind == "O" and not any(isinstance(name, str) for name in names):
        with contextlib.suppress(TypeError, ValueError):
            names = names.astype(np.float64)
    if names.ndim != 1 or (names.dtype.kind == "O" and not all(isinstance(name, str) for name in names)):
        raise BadInput("A model must predict one label: its classes_ must be a list of numbers or words.")
    return names


def names_of_reference(model: object, y: Array, like: Array | None) -> Array | None:
    """The names of a reference model's columns; the target's, `like`, for a Hugging Face model without its own."""
    names = names_of(model, y)
    return like if names is None and label_names(model) is not None else names


def in_the_kind_of(y: Array, classes: Sequence[object]) -> Array | None:
    """Names that a service gives its classes, in the kind of the labels `y`: services write "1" where labels are 1.

    None where labels are column numbers: whole numbers, none of which need be a name.
    """
    written = np.array([str(name) for name in classes])
    if y.dtype.kind not in NUMBERS:
        if not np.isin(y, written).all():
            raise BadInput("Some labels are not among classes=.", fix="Name all classes as the labels do.")
        return written
    with contextlib.suppress(ValueError):
        numbers = written.astype(np.float64)
        return numbers if np.isin(y, numbers).all() else None
    return None


def _own(target: object, name: str) -> object:
    """An attribute of a model, else of the function that the model wraps; None if neither has it."""
    found = getattr(target, name, None)
    return getattr(getattr(target, "__wrapped__", None), name, None) if found is None else found
