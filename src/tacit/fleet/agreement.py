"""Compare what `vmap` makes of a model with ordinary autograd, on made-up records, before a fleet trains.

Torch's `vmap` rules are believed and compared. At two levels, models and records, some are wrong: that of `prelu` gives
record j the slopes of model j wherever there are as many records as models, and raises otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..core.errors import BadInput
from ..train.clip.capture.dropout import NoDropout
from ..train.clip.capture.made_up import made_up
from ..train.sample.labels import known

COUNT = 2
"""How many models and how many records: as many, so that a rule that takes one for the other does not raise."""
ROUNDED, STEPS = 1e-3, 16
"""How far apart gradients may be by rounding: this part of the largest, or so many steps of a coarser dtype."""
Gradients = dict[str, Tensor]


def check_agreement(
    model: nn.Module, parameters: Gradients, x: Tensor, every: Callable[[Gradients, Tensor, Tensor], Gradients]
) -> None:
    """Refuse a model for which `every(parameters, x, y)`, gradients (K, B, ...), differs from ordinary autograd.

    Made-up records that the model does not take by itself are not compared. `x` gives their form alone. Caller ensures
    public random numbers, and that what the model keeps is put back.
    """
    with NoDropout():
        several = {name: value[:1].repeat(COUNT, *(1,) * (value.dim() - 1)) for name, value in parameters.items()}
        several = {name: value + 0.1 * torch.randn_like(value) for name, value in several.items()}
        rows, y = made_up(x[:1], COUNT), torch.zeros(COUNT, dtype=torch.long, device=x.device)
        try:
            alone = [[_alone(model, several, rows, y, k, i) for i in range(COUNT)] for k in range(COUNT)]
            again = _alone(model, several, rows, y, 0, 0)
        except Exception:  # user code, on public numbers
            return
        if not _close(again, alone[0][0]):  # it draws random numbers
            return
        found = every(several, rows, y)
    pairs = [(k, i, {name: value[k, i] for name, value in found.items()}) for k in range(COUNT) for i in range(COUNT)]
    if not all(_close(one, alone[k][i]) for k, i, one in pairs):
        raise BadInput(
            "Several records of several models at once do not give what each gives alone, so no fleet trains this "
            "model.",
            fix="Write the part that torch.vmap gets wrong in simpler operations, or train by tacit.private.",
        )


def _alone(model: nn.Module, parameters: Gradients, x: Tensor, y: Tensor, k: int, i: int) -> Gradients:
    """The gradient of one record in one model, by ordinary autograd."""
    mine = {name: value[k].detach().clone().requires_grad_() for name, value in parameters.items()}
    logits = functional_call(model, mine, (x[i : i + 1].clone(),))
    loss = nn.functional.cross_entropy(*known(logits, y[:1]))
    found = torch.autograd.grad(loss, list(mine.values()), allow_unused=True)
    pairs = zip(mine, found, mine.values(), strict=True)
    return {name: torch.zeros_like(value) if gradient is None else gradient for name, gradient, value in pairs}


def _close(one: Gradients, other: Gradients) -> bool:
    scale = max((float(value.abs().max()) for value in other.values() if value.numel()), default=0.0)
    off = max((float((one[name] - value).abs().max()) for name, value in other.items() if value.numel()), default=0.0)
    part = max((STEPS * torch.finfo(value.dtype).eps for value in other.values()), default=0.0)
    return not scale < float("inf") or off <= max(ROUNDED, part) * max(scale, ROUNDED)
