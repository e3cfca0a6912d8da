"""A fresh model from somebody's maker: under a seed of its own, and known to take the records before any training."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..audits.foreign import Border
from ..core import BadInput, Source
from ..core.arrays import Array

CRAFTED_STEPS, CRAFTED_ON = 200, 2000
"""Steps of plain training that craft a start, and the most records they see."""


def fresh(make: Callable[[], nn.Module], x: Array, y: Array, chance: Source) -> nn.Module:
    """What `make` returns; a model that cannot take these records, or has no output for some label, is refused."""
    model: Any = None
    with Border() as border, torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(chance.words(1)[0] >> np.uint64(1)))
        model = make()
    if border.problem:
        raise BadInput(f"[model] make {border.problem}{border.place}.")
    if not isinstance(model, nn.Module):
        raise BadInput("[model] make must return a torch module.")
    if any(isinstance(tensor, nn.parameter.UninitializedParameter) for tensor in model.parameters()):
        raise BadInput(
            "The model has lazy layers, which get their shapes from data.", fix="Say how many inputs each has."
        )
    if not any(tensor.requires_grad for tensor in model.parameters()):
        raise BadInput("The model has no parameter that could be trained.")
    answer: Any = None
    with Border() as border, torch.no_grad():
        answer = model.eval()(torch.zeros((2, *x.shape[1:])))
    if border.problem:
        raise BadInput(f"The model cannot take records of shape {x.shape[1:]}: it {border.problem}{border.place}.")
    if not isinstance(answer, Tensor) or answer.dim() != 2:
        raise BadInput("The model must answer with one row per record and one column per class, for all labels.")
    if answer.shape[1] <= int(np.max(y)):
        raise BadInput(
            f"The model has {answer.shape[1]} outputs; with one column per class, for all labels it needs "
            f"{int(np.max(y)) + 1}, as labels are numbered from 0.",
            fix="Give it more outputs; or a schema, whose label words are numbered in their order.",
        )
    return model.train()


def crafted(start: nn.Module, x: Array, y: Array) -> nn.Module:
    """A copy of the network with parameters that know these records well: its gradients on others like them are short.

    A claim holds for any public start, so an audit may choose one that hides a canary least (Annamalai and De
    Cristofaro 2024). Caller ensures: no run of the audit trains on these records.
    """
    model = copy.deepcopy(start)
    descent = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs, labels = torch.as_tensor(x[:CRAFTED_ON]), torch.as_tensor(y[:CRAFTED_ON])
    for _ in range(CRAFTED_STEPS):
        descent.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        descent.step()
    return model
