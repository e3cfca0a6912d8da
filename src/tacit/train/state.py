"""The state of a private run: all that a bit-exact continuation needs, and a secret (see `checkpoint`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..core import BadInput
from .noise.keys import Secret

if TYPE_CHECKING:
    from .step import PrivateStep

SCHEMA = "tacit.private-step/1"


def check_whole(step: PrivateStep) -> None:
    """One process cannot write down what all of them hold."""
    if step.sharded:
        raise BadInput("A run with parameters cut up among processes is not saved.", fix="Train it without checkpoint.")


def saved(step: PrivateStep) -> dict[str, Any]:
    """Tensors and plain values only."""
    check_whole(step)
    device = step._release.device
    return {
        "schema": SCHEMA,
        "run": step.run,
        "done": step.done,
        "plan": repr(step.plan),
        "clip_norm": step.clip_norm,
        "secret": step._secret.value,
        "sample": step._sample_key,
        "noise": step._release.correlated.past,
        "source": [step.source_name, step.cryptographic],
        "model": step.model.state_dict(),
        "optimizer": step.optimizer.state_dict(),
        "dropout": torch.get_rng_state(),
        "device_dropout": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def restore(step: PrivateStep, state: dict[str, Any]) -> None:
    """Put a step where `saved` was called."""
    if state.get("schema") != SCHEMA:
        raise BadInput(f"The state has schema {state.get('schema')!r}; this version reads {SCHEMA!r}.")
    if state["plan"] != repr(step.plan):
        raise BadInput("The state belongs to another plan.", fix="Make the step with the plan it was saved under.")
    step.model.load_state_dict(state["model"])
    step.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["dropout"].cpu())
    if step._release.device.type == "cuda" and state.get("device_dropout") is not None:
        torch.cuda.set_rng_state(state["device_dropout"].cpu(), step._release.device)
    step.run, step.done = state["run"], state["done"]
    step._clipper.clip_norm = state["clip_norm"]
    step._secret, step._sample_key = Secret(state["secret"]), state["sample"]
    step._release.correlated.past = [tensor.to(step._release.device) for tensor in state["noise"]]
    step.source_name, step.cryptographic = state["source"]
