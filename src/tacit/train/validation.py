"""Evaluate a trained model on records it was not trained on; bad validation data are found before the first step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..core import BadInput
from .clip.capture.made_up import made_up, not_run, same_random
from .clip.clipper import Loss
from .clip.sums import check_losses
from .clip.tree import mapped, size
from .sample.collate import Collate
from .sample.examples import Examples
from .sample.labels import IGNORED

ROWS = 1024
TRIED = 2


@dataclass(frozen=True, eq=False)
class Validation:
    """Validation records, for the share of right labels, or for the mean `loss` if there are no labels."""

    examples: Examples
    loss: Loss | None

    @classmethod
    def of(cls, data: Any, model: nn.Module, loss: Loss | None, collate: Collate | None = None) -> Validation:
        """Read `data` as training data are read, and try the model on made-up records of their shapes.

        A model with sharded parameters is not tried, because running it would gather them.
        """
        found = cls(Examples.of(data, collate), loss)
        if not found.examples.count:
            raise BadInput("Validation data are empty.", fix="Leave validation out.")
        rows = found.examples.rows(np.arange(min(TRIED, found.examples.count)))
        if all(type(tensor.data) is Tensor for tensor in model.parameters()):  # parts of parameters gather in a run
            with _evaluating(model), same_random():
                found._try(model, rows)
        return found

    def _try(self, model: nn.Module, rows: object) -> None:
        """Try made-up records first; rows of the data only for a model that cannot run on made-up ones."""
        for batch, last in ((made_up(rows, TRIED), False), (rows, True)):
            try:
                self._judged(model, _on(model, batch))
                return
            except BadInput:
                raise
            except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
                if last:
                    told = not_run(error)
                    raise BadInput(f"On validation data: {told}", fix=str(told.fix)) from error

    def utility(self, model: nn.Module) -> dict[str, float]:
        """{"accuracy": share} or {"loss": mean}; empty, with a warning, if a record of the data stops the model.

        The training is already paid for, so its model and evidence must not be lost because of that.
        """
        try:
            return self._measured(model)
        except Exception as error:
            kind = type(error).__name__
            warnings.warn(f"The model could not be judged by the validation data ({kind}).", stacklevel=3)
            return {}

    def _measured(self, model: nn.Module) -> dict[str, float]:
        name, total, count = "", 0.0, 0
        with _evaluating(model):
            for start in range(0, self.examples.count, ROWS):
                index = np.arange(start, min(start + ROWS, self.examples.count))
                name, part, asked = self._judged(model, _on(model, self.examples.rows(index)))
                total, count = total + part, count + asked
        return {name: total / max(count, 1)}

    def _judged(self, model: nn.Module, batch: object) -> tuple[str, float, int]:
        """The name of the figure, its sum over the batch, and the count that it is a mean over."""
        pair = batch if isinstance(batch, tuple | list) and len(batch) == 2 else None
        if pair is not None and isinstance(pair[1], Tensor):
            outputs, labels = model(pair[0]), pair[1]
            if self.loss is None and labels.is_floating_point() and labels.shape == getattr(outputs, "shape", None):
                labels = labels.argmax(1)  # shares of all classes
            if _classified(outputs, labels):
                kept = labels != IGNORED
                return "accuracy", float((outputs.argmax(1) == labels)[kept].sum()), int(kept.sum())
        if self.loss is None:
            raise BadInput(
                "Validation data must be pairs (x, y) with whole-number labels y, as many as the model's outputs.",
                fix="Give such pairs, or the loss that the model is trained by.",
            )
        losses = self.loss(model, batch)
        check_losses(losses, size(batch))
        return "loss", float(losses.double().sum()), len(losses)


def _classified(outputs: object, labels: Tensor) -> bool:
    """Whether outputs (B, classes, ...) have one whole-number label each (B, ...)."""
    if not isinstance(outputs, Tensor) or labels.is_floating_point() or outputs.ndim < 2 or outputs.shape[1] < 2:
        return False
    return outputs.shape[:1] + outputs.shape[2:] == labels.shape


def accuracy(model: nn.Module, data: object) -> float:
    """The share of labels that equal the largest output, without ignored ones (-100); others outside the classes are
    wrong.
    """
    found = Validation(Examples.of(data), None)._measured(model)
    return found["accuracy"] if found else 0.0


def _on(model: nn.Module, batch: object) -> Any:
    device = next(model.parameters()).device
    return mapped(lambda tensor: tensor.to(device), batch)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; every module's own mode is restored."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
