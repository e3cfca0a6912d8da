r"""Averages of the released parameters: free in privacy, and often several points of accuracy.

Every step releases its parameters, so any function of them is post-processing and costs nothing.

    ema    a_t = d_t a_{t-1} + (1 - d_t) w_t,   d_t = min(0.9999, (1 + t) / (10 + t))
    tail   the plain mean of w_t over the second half of the plan

Reference: De et al. 2022, section 3 (EMA with that warm-up); Polyak and Juditsky 1992 (averaging).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core import BadInput

KINDS = ("none", "ema", "tail")
DECAY = 0.9999


class Average:
    """A running average of some parameters; `kind` is one of "none", "ema", "tail"."""

    def __init__(self, kind: str, parameters: Mapping[str, Tensor], steps: int) -> None:
        if kind not in KINDS:
            raise BadInput(f"average must be one of {', '.join(KINDS)}, got {kind!r}.")
        self.kind = kind
        self.first = steps // 2 if kind == "tail" else 0
        self.parameters = dict(parameters)
        self.values: dict[str, Tensor] = {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the parameters after step number `step` (from 1)."""
        count = step - self.first
        if self.kind == "none" or count < 1:
            return
        share = 1 / count if self.kind == "tail" else 1 - min(DECAY, (1 + count) / (10 + count))
        for name, parameter in self.parameters.items():
            if name not in self.values:
                self.values[name] = parameter.detach().clone()
            self.values[name].lerp_(parameter, share)

    @torch.no_grad()
    def apply(self) -> None:
        """Put the average in the parameters' place."""
        for name, value in self.values.items():
            self.parameters[name].copy_(value)

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.values.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.values = {name: state[name].to(self.parameters[name].device) for name in state}
