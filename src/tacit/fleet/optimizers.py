"""Optimizers in which the models of a stack cannot meet."""

from __future__ import annotations

import torch

from ..core.errors import BadInput

ELEMENTWISE = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.RAdam, torch.optim.RMSprop,
    torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.Adamax, torch.optim.ASGD, torch.optim.Rprop,
)  # fmt: skip
"""Optimizers that treat every number by itself."""


def check_elementwise(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer through which one model's numbers could reach another's."""
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise BadInput(
            f"{type(optimizer).__name__} may mix the models of a fleet, which must not touch each other.",
            fix=f"Use one of: {names}.",
        )
