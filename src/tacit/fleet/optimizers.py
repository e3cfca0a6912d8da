"""Optimizers that treat the models of a stack independently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import optimizer as everywhere

from ..core.errors import BadInput

ELEMENTWISE = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.ASGD, torch.optim.Rprop,
)  # fmt: skip
"""Optimizers that update every entry independently of all others."""


def check_elementwise(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer in which the parameters of one model could affect those of another.

    A hook of its step sees the parameters of all models, and clips their gradients by one common norm, for example.
    """
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise BadInput(
            f"{type(optimizer).__name__} may mix the models of a fleet, which must not touch each other.",
            fix=f"Use one of: {names}.",
        )
    if _changed(optimizer):
        raise BadInput(
            f"Hooks or a replaced step of {type(optimizer).__name__} may mix the models of a fleet, which must not "
            "touch each other.",
            fix="Give the optimizer as torch makes it.",
        )


def elementwise(make: Callable[[list[Tensor]], torch.optim.Optimizer]) -> Callable[[list[Tensor]], Any]:
    """Wrap `make` such that it refuses to return an optimizer that `check_elementwise` refuses."""

    def made(parameters: list[Tensor]) -> torch.optim.Optimizer:
        optimizer = make(parameters)
        check_elementwise(optimizer)
        return optimizer

    return made


def _changed(optimizer: torch.optim.Optimizer) -> bool:
    """Whether code of somebody else runs in its steps."""
    hooks = (
        optimizer._optimizer_step_pre_hooks,
        optimizer._optimizer_step_post_hooks,
        everywhere._global_optimizer_pre_hooks,
        everywhere._global_optimizer_post_hooks,
    )
    return any(hooks) or any(callable(getattr(type(optimizer), name, None)) for name in vars(optimizer))
