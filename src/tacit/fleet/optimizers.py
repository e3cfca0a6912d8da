"""Optimizers that treat the models of a stack independently."""

from __future__ import annotations

import torch

from ..core.errors import BadInput

ELEMENTWISE = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.ASGD, torch.optim.Rprop,
)  # fmt: skip
"""Optimizers that update every entry independently of all others."""


def check_elementwise(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer in which the parameters of one model could affect those of another."""
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise BadInput(
            f"{type(optimizer).__name__} may mix the models of a fleet, which must not touch each other.",
            fix=f"Use one of: {names}.",
        )
