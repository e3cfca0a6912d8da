"""Answers of models of other libraries: boosters of XGBoost, LightGBM and CatBoost, Keras, and ONNX sessions.

None of these is imported here: a model of a library can only be given where the library is loaded already.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import BadInput
from ..core.arrays import Array

Answer = Callable[[Any], object]


def foreign_answers(target: object) -> Answer | None:
    """x -> what the model says, for a model that has a way of its own to be asked; None for anything else."""
    for library, kind, build in (
        ("xgboost", "Booster", _xgboost),
        ("lightgbm", "Booster", _lightgbm),
        ("onnxruntime", "InferenceSession", _onnx),
        ("keras", "Model", _keras),
    ):
        known = getattr(sys.modules.get(library), kind, None)
        if known is not None and isinstance(target, known):
            return build(target)
    return None


def foreign_regression(target: object) -> bool | None:
    """Whether a bare booster was trained to predict values rather than classes; None for any other model."""
    xgboost, lightgbm = (getattr(sys.modules.get(name), "Booster", None) for name in ("xgboost", "lightgbm"))
    if xgboost is not None and isinstance(target, xgboost):
        objective = json.loads(target.save_config())["learner"]["objective"]["name"]
        return str(objective).startswith(("reg:", "count:", "survival:")) and objective != "reg:logistic"
    if lightgbm is not None and isinstance(target, lightgbm):
        text = target.model_to_string(num_iteration=1)
        found = re.search(r"^objective=(\S+)", text, flags=re.MULTILINE)
        return None if found is None else found[1] not in ("binary", "multiclass", "multiclassova", "cross_entropy")
    return None


def _xgboost(booster: Any) -> Answer:
    """Predictions of a bare booster; labels, where its objective gives them, as whole numbers."""
    module = sys.modules["xgboost"]

    def answer(x: Any) -> Any:
        names = booster.feature_names if isinstance(x, np.ndarray) else None
        told = booster.predict(module.DMatrix(x, feature_names=names, enable_categorical=True))
        return told.astype(np.int64) if '"multi:softmax"' in booster.save_config() else told

    return answer


def _lightgbm(booster: Any) -> Answer:
    return lambda x: booster.predict(x)


def _keras(model: Any) -> Answer:
    return lambda x: model.predict(x, verbose=0)


def _onnx(session: object) -> Answer:
    """Outputs of an ONNX session: class shares where it gives some, else its first output."""

    def answer(x: object) -> Any:
        found = _run(session, _fed(session, x))
        dictionaries = [part for part in found if isinstance(part, list) and part and isinstance(part[0], dict)]
        if dictionaries:
            keys = sorted(dictionaries[0][0])
            return np.array([[row[key] for key in keys] for row in dictionaries[0]], dtype=np.float32)
        return _told([np.asarray(part) for part in found])

    return answer


def _run(session: Any, fed: dict[str, Array]) -> list[Any]:
    """All outputs. A model that was exported for batches of one size is asked in such batches, the last one filled up.

    Exporters fix the number of rows of their example unless they are told otherwise.
    """
    sizes = {item.shape[0] for item in session.get_inputs() if item.shape and isinstance(item.shape[0], int)}
    rows = min((len(part) for part in fed.values()), default=0)
    if len(sizes) != 1 or sizes == {rows} or min(sizes) < 1:
        return list(session.run(None, fed))
    (size,) = sizes
    parts = []
    for first in range(0, rows, size):
        places = np.minimum(np.arange(first, first + size), rows - 1)
        told = session.run(None, {name: part[places] for name, part in fed.items()})
        parts.append([output[: rows - first] for output in told])
    return [
        [*itertools.chain(*each)] if isinstance(each[0], list) else np.concatenate(each)
        for each in zip(*parts, strict=True)
    ]


def _told(outputs: list[Array]) -> Array:
    """A table of classes; beside predicted labels, one output per class or one for two classes; the first output."""
    tables = [part for part in outputs if part.ndim == 2 and part.dtype.kind == "f" and part.shape[1] > 1]
    columns = [part.reshape(len(part)) for part in outputs if part.dtype.kind == "f" and part.size == len(part)]
    if tables or not columns or outputs[0].dtype.kind == "f":
        return (tables or outputs)[0]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _fed(session: Any, x: Any) -> dict[str, Array]:
    """Records by the names and in the number types of the session's inputs."""
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
             "tensor(int64)": np.int64, "tensor(int32)": np.int32}  # fmt: skip
    inputs = session.get_inputs()
    if len(inputs) == 1:
        array = np.asarray(x)
        return {inputs[0].name: array.astype(kinds.get(inputs[0].type, array.dtype))}
    try:
        columns = {item.name: np.asarray(x[item.name]) for item in inputs}
    except (KeyError, IndexError, TypeError):
        raise BadInput("An ONNX model with several inputs needs records with columns of these names.") from None
    shaped = {name: column.reshape(len(column), -1) for name, column in columns.items()}
    return {
        item.name: shaped[item.name].astype(kinds[item.type])
        if item.type in kinds
        else shaped[item.name].astype(object)
        for item in inputs
    }
