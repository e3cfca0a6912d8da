"""The state of a private run: everything that a bit-exact continuation needs. It is a secret (see `checkpoint`)."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..core import BadInput
from .course import mark
from .descriptions import settings
from .terms import check_continues, optimizer_terms, scheduled, terms

if TYPE_CHECKING:
    from .step import PrivateStep

SCHEMA = "tacit.private-step/3"
KEY = 32
"""Bytes of a run's secret, and of the key of a sample."""
KINDS = {"run": str, "done": int, "secret": bytes, "sample": bytes}
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
    """The state as tensors and plain values. The next step changes these tensors: write or copy them at once."""
    with step.course.alone():
        return _saved(step)


def copied(step: PrivateStep) -> dict[str, Any]:
    """A copy of the state, which later steps do not change."""
    with step.course.alone():
        return copy.deepcopy(_saved(step))


def _saved(step: PrivateStep) -> dict[str, Any]:
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
        "weights": _weights(step.model),
        "metadata": {name: dict(told) for name, told in getattr(model, "_metadata", {}).items()},
        "optimizer": step.optimizer.state_dict(),
        "unsaved": _unsaved(step.model, model),
        "settings": _settings(step.model),
        "alone": step.alone_because or step._clipper.alone_because,
        "read": step.read,
        "dropout": torch.get_rng_state(),
        "device_dropout": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def _weights(model: nn.Module) -> str:
    """A hash of all parameters, by which it is known whether a model loads what it saved."""
    named = dict(model.named_parameters())
    return mark({name: tensor for name, tensor in named.items() if tensor.layout is torch.strided})


def _unsaved(model: nn.Module, state: Mapping[str, object]) -> dict[str, Tensor]:
    """The buffers that torch leaves out of a model's state; with others, steps would be repeated otherwise."""
    return {name: tensor for name, tensor in model.named_buffers() if name not in state}


def restore(step: PrivateStep, state: dict[str, Any]) -> None:
    """Restore a step to the saved state; other settings, or a damaged state, are refused and leave it as it was."""
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        found = state.get("schema") if isinstance(state, dict) else None
        raise BadInput(f"The state has schema {str(found)[:60]!r}; this version reads {SCHEMA!r}.")
    with step.course.alone():
        _restored(step, state)


def _restored(step: PrivateStep, state: dict[str, Any]) -> None:
    key = step.course.key
    try:
        _compare(step, state)
        _put(step, state)
    except BaseException as error:
        step.course.key = key
        if isinstance(error, BadInput) or not isinstance(error, DAMAGED):
            raise
        raise BadInput("The state is damaged: a part is missing, or does not fit the model or the optimizer.") from None


def _compare(step: PrivateStep, state: dict[str, Any]) -> None:
    """Refuse other terms than the run began with; the optimizer may also be as it was when the state was saved."""
    moved = scheduled(state["optimizer"]["param_groups"], step.optimizer.param_groups)
    check_continues(state["terms"], terms(step), state["optimizer_terms"], moved)
    at, step.course.key, start = step.position, state["data_key"], state["start"]
    fresh = not step.cryptographic and at.run != state["run"]  # a step of the same run has another secret by now
    if fresh and start and step.course.seed_mark(at.secret) != start:
        raise BadInput("The state belongs to a run with another seed.", fix="Give the seed that the run began with.")


def _put(step: PrivateStep, state: dict[str, Any]) -> None:
    at, began, start = _position(step, state), dict(state["terms"]), _of(str, state["start"])
    for held in _of(dict, state["settings"]).values():
        _of(dict, held)
    alone, read = _of(str, state["alone"]), _of(bool, state["read"])
    buffers = copy.deepcopy(dict(step.model.named_buffers()))
    was = copy.deepcopy((step.model.state_dict(), step.optimizer.state_dict())), torch.get_rng_state()
    unbroken, step.unbroken = step.unbroken, False  # with one half of a state a step would be repeated otherwise
    try:
        _load(step, state)
    except BaseException:
        step.model.load_state_dict(was[0][0])
        _fill(step.model, buffers)
        step.optimizer.load_state_dict(was[0][1])
        torch.set_rng_state(was[1])
        step.unbroken = unbroken
        raise
    step.position = at
    step.course.restore(began, start)
    _set(step.model, state["settings"])
    step.alone_because, step.read = alone, read
    step._given = None
    step.unbroken = True


def _position(step: PrivateStep, state: dict[str, Any]) -> Position:
    """The position in a state, with keys of full length and all noise that the next steps cancel."""
    run, done, secret, sample = (_of(kind, state[name]) for name, kind in KINDS.items())
    noise, (name, cryptographic) = [_of(Tensor, one) for one in state["noise"]], state["source"]
    correlated, count = step._release.correlated.coefficients, step._release.count
    if [len(one) for one in noise] != [count] * min(done, len(correlated)):
        raise ValueError("noise of earlier steps is missing")
    if len(secret) != KEY or (done and len(sample) != KEY):
        raise ValueError("a key is missing")
    source = str(name), bool(cryptographic)
    return Position(run, done, float(state["clip_norm"]), secret, sample, noise, source)


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"not of type {kind.__name__}")
    return value


def _load(step: PrivateStep, state: dict[str, Any]) -> None:
    """Load model, optimizer and torch's generators."""
    model = OrderedDict(state["model"])
    model._metadata = OrderedDict(state["metadata"])  # type: ignore[attr-defined]
    step.model.load_state_dict(model)
    if state["unsaved"].keys() != _unsaved(step.model, model).keys():
        raise ValueError("buffers are missing")
    _fill(step.model, state["unsaved"])
    if _weights(step.model) != state["weights"]:
        raise BadInput(
            "The model did not load the weights that it saved: its state_dict leaves some of them out.",
            fix="Give a model whose load_state_dict restores all that it was trained with.",
        )
    step.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))  # torch keeps these tensors, and changes them
    torch.set_rng_state(state["dropout"].cpu())
    if step.device.type == "cuda" and state["device_dropout"] is not None:
        torch.cuda.set_rng_state(state["device_dropout"].cpu(), step.device)


def _fill(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Put values into a model's buffers, where they lie."""
    held = dict(model.named_buffers())
    for name, value in values.items():
        if held[name].shape != value.shape:
            raise ValueError("a buffer has another shape")
        if not torch.equal(held[name], value.to(held[name].device)):
            held[name].copy_(value)


def _settings(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Plain attributes of modules, which a schedule may have moved since the run began, such as a dropout's rate."""
    return {name: settings(module) for name, module in model.named_modules()}


def _set(model: nn.Module, held: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the attributes of modules back to what they were when the state was saved."""
    for name, module in model.named_modules():
        now = settings(module)
        for word, value in held.get(name, {}).items():
            if word in now and now[word] != value:
                setattr(module, word, value)
