"""The state of a private run: everything that a bit-exact continuation needs. It is a secret (see `checkpoint`)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core import BadInput
from .terms import check_continues, optimizer_terms, terms

if TYPE_CHECKING:
    from .step import PrivateStep

SCHEMA = "tacit.private-step/2"
DAMAGED = KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, AssertionError
"""Exceptions that torch and Python raise for states with missing parts or wrong types."""


@dataclass(frozen=True, eq=False)
class Position:
    """Where a run is: its name, the number of steps `done`, the clip norm, the `secret`, the key of the current
    `sample`, and the past of correlated `noise`. `source` names the source of randomness and says whether it is
    cryptographic.
    """

    run: str
    done: int
    clip_norm: float
    secret: bytes
    sample: bytes
    noise: list[Tensor]
    source: tuple[str, bool]


def check_whole(step: PrivateStep) -> None:
    """Refuse to save sharded state: one process cannot write what only all of them hold."""
    if step.sharded:
        raise BadInput("A run with parameters cut up among processes is not saved.", fix="Train it without checkpoint.")


def saved(step: PrivateStep) -> dict[str, Any]:
    """The state as tensors and plain values."""
    check_whole(step)
    step.check_unbroken()
    device, model, at = step.device, step.model.state_dict(), step.position
    step.course.kept = True
    return {
        "schema": SCHEMA,
        "run": at.run,
        "done": at.done,
        "terms": dict(step.course.whole_terms()),
        "optimizer_terms": optimizer_terms(step.optimizer, step.parameters),
        "data_key": step.course.key,
        "start": step.course.start,
        "clip_norm": at.clip_norm,
        "secret": at.secret,
        "sample": at.sample,
        "noise": at.noise,
        "source": list(at.source),
        "model": dict(model),
        "metadata": {name: dict(told) for name, told in getattr(model, "_metadata", {}).items()},
        "optimizer": step.optimizer.state_dict(),
        "dropout": torch.get_rng_state(),
        "device_dropout": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore(step: PrivateStep, state: dict[str, Any]) -> None:
    """Restore a step to the saved state; other settings, or a damaged state, are refused before anything changes."""
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        found = state.get("schema") if isinstance(state, dict) else None
        raise BadInput(f"The state has schema {str(found)[:60]!r}; this version reads {SCHEMA!r}.")
    try:
        _compare(step, state)
        _put(step, state)
    except BadInput:
        raise
    except DAMAGED:
        raise BadInput("The state is damaged: a part is missing, or does not fit the model or the optimizer.") from None


def _compare(step: PrivateStep, state: dict[str, Any]) -> None:
    """Refuse other terms than the run began with; the optimizer may also be as it was when the state was saved."""
    check_continues(state["terms"], terms(step), state["optimizer_terms"])
    fresh, step.course.key = step.position.secret, state["data_key"]
    if not step.cryptographic and state["start"] and step.course.seed_mark(fresh) != state["start"]:
        raise BadInput("The state belongs to a run with another seed.", fix="Give the seed that the run began with.")


def _put(step: PrivateStep, state: dict[str, Any]) -> None:
    model = OrderedDict(state["model"])
    model._metadata = OrderedDict(state["metadata"])  # type: ignore[attr-defined]
    step.model.load_state_dict(model)
    step.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["dropout"].cpu())
    if step.device.type == "cuda" and state["device_dropout"] is not None:
        torch.cuda.set_rng_state(state["device_dropout"].cpu(), step.device)
    name, cryptographic = state["source"]
    step.position = Position(
        str(state["run"]),
        int(state["done"]),
        float(state["clip_norm"]),
        bytes(state["secret"]),
        bytes(state["sample"]),
        list(state["noise"]),
        (str(name), bool(cryptographic)),
    )
    step.course.terms, step.course.start, step.course.kept = dict(state["terms"]), str(state["start"]), True
    step.unbroken, step._charged = True, ""  # going on is charged, under the run's own key, and takes a number
