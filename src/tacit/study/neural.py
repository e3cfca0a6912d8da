"""Answers of neural networks: torch modules, Hugging Face classifiers and their text pipelines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROWS = 500


def neural(target: Any) -> Callable[[Array], Array] | None:
    """x -> logits for a torch module, or texts -> logits for a Hugging Face pipeline; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(target, torch.nn.Module):
        forward = _hugging_face(torch, target) if hugging_face(target) else _plain(torch, target)
        return lambda x: _outputs(torch, target, forward, np.asarray(x))
    model, tokenizer = getattr(target, "model", None), getattr(target, "tokenizer", None)
    if isinstance(model, torch.nn.Module) and callable(tokenizer):
        return lambda x: _outputs(torch, model, _texts(model, tokenizer), np.asarray(x))
    return None


def hugging_face(model: Any) -> bool:
    """Whether a module takes its input by name and answers with an object that has logits."""
    return isinstance(getattr(model, "main_input_name", None), str) and hasattr(model, "config")


def _plain(torch: Any, model: Any) -> Callable[[Array], Any]:
    return lambda rows: model(_placed(torch, model, rows.astype(np.float32)))


def _hugging_face(torch: Any, model: Any) -> Callable[[Array], Any]:
    """Token ids are whole numbers, of which the padding is masked; everything else is float32."""
    name = model.main_input_name
    if name != "input_ids":
        return lambda rows: model(**{name: _placed(torch, model, rows.astype(np.float32))}).logits
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


def _placed(torch: Any, model: Any, rows: Array) -> Any:
    first = next(model.parameters(), None)
    tensor = torch.as_tensor(rows)
    return tensor if first is None else tensor.to(first.device)


def _outputs(torch: Any, model: Any, forward: Callable[[Array], Any], x: Array) -> Array:
    """In evaluation mode, some rows at a time."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [forward(x[k : k + ROWS]).float().cpu().numpy() for k in range(0, len(x), ROWS)]
    finally:
        model.train(training)
    return np.concatenate(parts)
