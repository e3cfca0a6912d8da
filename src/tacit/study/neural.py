"""Answers of neural networks: torch modules, Hugging Face classifiers and their text pipelines."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import BadInput
from ..core.arrays import Array

ROWS = 500
TASKS = ("text-classification", "sentiment-analysis", "image-classification")
"""Pipelines whose model is asked about a record alone, and answers with one number per class."""
CLASSES = ("TextClassificationPipeline", "ImageClassificationPipeline")
"""Pipelines that are made by their class have no task, and classify all the same."""


def neural(target: object) -> Callable[[Array], Array] | None:
    """x -> logits for a torch module, or texts -> logits for a Hugging Face pipeline; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(target, torch.nn.Module):
        forward = _hugging_face(torch, target) if hugging_face(target) else _plain(torch, target)
        return lambda x: _outputs(torch, target, forward, np.asarray(x))
    model, tokenizer = getattr(target, "model", None), getattr(target, "tokenizer", None)
    task = getattr(target, "task", None)
    if is_pipeline(target) and isinstance(task, str) and task not in TASKS and not (task == "" and _classifies(target)):
        raise BadInput(
            f"A pipeline for {task or type(target).__name__} is not asked about a record alone.",
            fix="Give a function predict(x) that asks it and gives one share per class.",
        )
    if isinstance(model, torch.nn.Module) and callable(tokenizer):
        return lambda x: _outputs(torch, model, _texts(model, tokenizer), _one_text(x))
    pictures = getattr(target, "image_processor", None)
    if isinstance(model, torch.nn.Module) and callable(pictures):
        return lambda x: _outputs(torch, model, _pictures(model, pictures), np.asarray(x))
    return None


def from_tensor(answer: object) -> object:
    """A torch tensor as an array, wherever it lies and whether or not it has a gradient; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(answer, torch.Tensor):
        return answer
    return _array(torch, answer.detach())


def hugging_face(model: object) -> bool:
    """Whether a module takes its input by name and answers with an object that has logits."""
    return isinstance(getattr(model, "main_input_name", None), str) and hasattr(model, "config")


def is_pipeline(target: object) -> bool:
    """Whether a torch model comes with its tokenizer or its way to read pictures."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(target, torch.nn.Module):
        return False
    reads = any(callable(getattr(target, name, None)) for name in ("tokenizer", "image_processor"))
    return reads and isinstance(getattr(target, "model", None), torch.nn.Module)


def _classifies(target: object) -> bool:
    """Whether a pipeline that was made without the name of a task is of a class whose task is one of TASKS."""
    return any(kind.__name__ in CLASSES for kind in type(target).__mro__)


def label_names(target: Any) -> Array | None:
    """What a Hugging Face model, or the model of a pipeline, calls its columns; None for anything else."""
    model = target if hugging_face(target) else target.model if is_pipeline(target) else None
    config = getattr(model, "config", None)
    names = getattr(config, "id2label", None)
    if not isinstance(names, dict) or sorted(names) != list(range(len(names))):
        return None
    return np.array([str(names[column]) for column in range(len(names))])


def _plain(torch: Any, model: Any) -> Callable[[Array], object]:
    words = any(isinstance(part, torch.nn.Embedding) for part in model.modules())

    def forward(rows: Array) -> Any:
        tokens = words and rows.dtype.kind in "iu"
        return _logits(model(_placed(torch, model, rows.astype(np.int64) if tokens else rows.astype(np.float32))))

    return forward


def _logits(answer: object) -> object:
    """The tensor of an answer: a network may wrap it in an object, a dictionary or a tuple.

    Several tables of different widths are refused, since features that are taken for logits would show no leak.
    """
    if isinstance(answer, dict) and "logits" in answer:
        return answer["logits"]
    if hasattr(answer, "logits"):
        return answer.logits
    parts = list(answer.values()) if isinstance(answer, dict) else answer
    if not isinstance(parts, tuple | list):
        return parts
    if len({part.shape[1] for part in parts if getattr(part, "ndim", 0) == 2}) > 1:
        raise BadInput("It answers with several tables. Wrap it in a module that gives its logits alone.")
    return parts[0]


def _hugging_face(torch: Any, model: Any) -> Callable[[Array], object]:
    """Token ids are whole numbers, of which the padding is masked; everything else is float32."""
    name = model.main_input_name
    if name != "input_ids":
        return lambda rows: _logits(model(**{name: _placed(torch, model, rows.astype(np.float32))}))
    padding = model.config.pad_token_id

    def forward(rows: Array) -> Any:
        tokens = _placed(torch, model, rows.astype(np.int64))
        mask = torch.ones_like(tokens) if padding is None else (tokens != padding).long()
        return model(input_ids=tokens, attention_mask=mask).logits

    return forward


def _texts(model: Any, tokenizer: Any) -> Callable[[Array], Any]:
    def forward(rows: Array) -> Any:
        texts: Sequence[str] = [str(text) for text in rows.ravel()]
        tokens = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        return model(**tokens.to(next(model.parameters()).device)).logits

    return forward


def _one_text(x: object) -> Array:
    """Texts as an array; a table must hold them in its only column."""
    texts = np.asarray(x)
    if texts.ndim == 2 and texts.shape[1] > 1:
        raise BadInput("A text pipeline needs one text per record.", fix="Give the column of texts alone.")
    return texts


def _pictures(model: Any, processor: Any) -> Callable[[Array], object]:
    def forward(rows: Array) -> Any:
        first = next(model.parameters())
        return model(**processor(images=list(rows), return_tensors="pt").to(first.device, first.dtype)).logits

    return forward


def _placed(torch: Any, model: Any, rows: Array) -> object:
    """Rows on the model's device, and numbers with a point in the type of its parameters."""
    first = next((part for part in model.parameters() if part.is_floating_point()), None)
    tensor = torch.as_tensor(rows)
    if first is None:
        return tensor
    return tensor.to(first.device, first.dtype) if tensor.is_floating_point() else tensor.to(first.device)


def _outputs(torch: Any, model: Any, forward: Callable[[Array], Any], x: Array) -> Array:
    """In evaluation mode, some rows at a time, and never one alone: a model that squeezes its answer would drop it."""
    training = model.training
    with contextlib.suppress(NotImplementedError):  # an exported program has one mode
        model.eval()
    try:
        with torch.no_grad():
            parts = [_array(torch, forward(rows)) for rows in np.array_split(x, max(1, math.ceil(len(x) / ROWS)))]
    finally:
        with contextlib.suppress(NotImplementedError):
            model.train(training)
    return np.concatenate(parts)


def _array(torch: Any, tensor: Any) -> Array:
    """The numbers in the type that they came in, as far as numpy knows it."""
    known = (torch.float16, torch.float32, torch.float64)
    tensor = tensor.float() if tensor.is_floating_point() and tensor.dtype not in known else tensor
    return np.asarray(tensor.cpu().numpy())
