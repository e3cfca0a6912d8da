"""Steps of networks with one hidden layer on a GPU: two wide products, and one kernel between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core.errors import BadInput
from ..train.clip.arrays import matmul_precision
from .certified import length_of
from .device import TOLERANCE, Batch, Gradients, invented
from .stack import LayerStack, Stack, unknown

CHECKED: set[object] = set()
COMPARED = 8
"""Models on which the kernel must give the eager gradients before its first use."""


class Fused:
    """Gradients of a shared batch for a stack that `takes` accepts; `clip_norm` is None for plain training."""

    def __init__(self, gradients: Gradients, clip_norm: float | None) -> None:
        self.gradients, self.clip_norm = gradients, clip_norm

    def __call__(self, models: Stack, batch: Batch) -> dict[str, Tensor]:
        sums = {name: torch.zeros_like(value) for name, value in models.parameters.items()}
        if len(batch.y):
            self._check(models, batch)
            self._fill(models, batch, sums, 1.0, add=False)
        return sums

    def add(self, models: Stack, batch: Batch, by: float) -> None:
        """Parameters <- parameters + by * gradients, in place: nothing of their size is written but themselves."""
        if len(batch.y):
            self._check(models, batch)
            self._fill(models, batch, models.parameters, by, add=True)

    def _fill(self, models: Stack, batch: Batch, sums: dict[str, Tensor], by: float, *, add: bool) -> None:
        from .kernels import errors

        first, activation, second = parts(models)
        rows, mine, mask = batch.x.flatten(1), models.parameters, batch.mask
        if self.clip_norm is not None:
            mask = mask & ~unknown(batch.y, mine[f"{second}.weight"].shape[1])
        squares = None if self.clip_norm is None else length_of(rows, 1).square().to(rows.dtype)
        hidden = mine[f"{first}.weight"].flatten(0, 1) @ rows.T
        small = (f"{first}.bias", f"{second}.weight", f"{second}.bias")

        def picked(held: dict[str, Tensor]) -> tuple[Tensor | None, Tensor, Tensor | None]:
            return held.get(small[0]), held[small[1]], held.get(small[2])

        errors(
            hidden, picked(mine), picked(sums), batch.y,
            mask, squares,
            activation=activation, clip_norm=self.clip_norm or 0.0, by=by, add=add,
        )  # fmt: skip
        used = mask.any(0)
        if squares is not None:  # 0 times infinity is no 0
            used &= squares.isfinite()
        seen = torch.where(used, rows.T, 0.0).contiguous()  # products are fastest along contiguous rows of both sides
        weight = sums[f"{first}.weight"].flatten(0, 1)
        weight.addmm_(hidden, seen.T, beta=1.0 if add else 0.0, alpha=by)

    def _check(self, models: Stack, batch: Batch) -> None:
        """Once, on a few models and on made-up records."""
        key = models.form, self.clip_norm is None, batch.x.device, matmul_precision()
        if key in CHECKED:
            return
        some = Batch(*invented(batch.x, batch.y), torch.ones_like(batch.mask[:COMPARED]))
        few = models.like({name: value[:COMPARED].clone() for name, value in models.parameters.items()})
        theirs = self.gradients(few, some)
        for add, by in ((False, 1.0), (True, -0.5)):
            sums = {name: value.clone() for name, value in few.parameters.items()}
            self._fill(few, some, sums, by, add=add)
            for name, right in theirs.items():
                found = (sums[name] - few.parameters[name]) / by if add else sums[name]
                if not bool(((found - right).abs() <= TOLERANCE * right.abs().max()).all()):
                    raise BadInput("The kernel of a fleet does not give the eager gradients here; it is not used.")
        CHECKED.add(key)


def parts(models: Stack) -> tuple[str, str, str]:
    """The names of both linear layers, and the activation between them."""
    assert isinstance(models, LayerStack)
    (first, _), (_, between), (second, _) = (item for item in models.layers if not isinstance(item[1], nn.Flatten))
    return first, type(between).__name__, second


def takes(models: Stack, *, flat: bool) -> bool:
    """A linear layer, an activation that the kernel knows, and a linear layer; records are vectors or made so first."""
    if type(models) is not LayerStack:
        return False
    try:
        from .kernels import ACTIVATIONS, LARGEST
    except ImportError:  # Triton comes with torch on Linux
        return False
    kinds = [type(layer) for _, layer in models.layers]
    known = [[*start, nn.Linear, getattr(nn, name), nn.Linear] for name in ACTIVATIONS for start in ([], [nn.Flatten])]
    if kinds not in known or not (flat or kinds[0] is nn.Flatten):
        return False
    classes, units = models.parameters[f"{parts(models)[2]}.weight"].shape[1:]
    return bool(units <= LARGEST[0] and classes <= LARGEST[1])
