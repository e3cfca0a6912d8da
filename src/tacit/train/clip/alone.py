"""One record at a time: exact by construction for any model that ordinary autograd takes, and slow.

Every record is run as a batch of one, on a copy of the model that shares nothing with other records but parameters
(`fresh`), and with random numbers of its own. An exception is the record's own business: it then contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .recompute.hooks import AsItIs, checkpointed
from .rules.terms import Dense
from .sums import Add, Clipped, check_losses, clipped_terms
from .tree import mapped, size
from .weigh import FLAT, Weigh

Loss = Callable[[Any], Tensor]
Gradients = dict[str, Tensor]


def clipped_alone(
    fresh: Callable[[], Loss],
    batch: Any,
    parameters: Mapping[str, Tensor],
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh = FLAT,
    add: Add | None = None,
) -> Clipped:
    """What `clipped_sum` gives, for a loss that is made `fresh` for every record."""
    found = []
    with torch.random.fork_rng(devices=_devices(mask)):
        seeds = torch.randint(2**62, (len(mask),)).tolist()
        for place, seed in enumerate(seeds):
            torch.manual_seed(seed)
            one = mapped(lambda tensor, place=place: tensor[place : place + 1], batch)
            here = mask[place : place + 1]
            terms, loss = _terms(fresh, one, parameters, here) if bool(here) else ({}, here.new_zeros(1).float())
            with torch.no_grad():
                found.append(clipped_terms(parameters, terms, loss, here & loss.isfinite(), clip_norm, weigh, add))
    return _joined(found)


def _terms(fresh: Callable[[], Loss], one: Any, parameters: Mapping[str, Tensor], here: Tensor) -> Any:
    """The gradient of one record, written out.

    Nothing, and no finite loss, where its values make user code raise, return another number of losses, or write into a
    parameter; what was written is undone.
    """
    nothing = {}, torch.full((1,), torch.nan, device=here.device)
    loss_of = fresh()
    before = [tensor._version for tensor in parameters.values()]
    kept = {name: tensor.detach().clone() for name, tensor in parameters.items()}
    try:
        gradients, loss = gradient_alone(loss_of, one, parameters)
    except Exception:  # whatever values make it raise, a sentence of our own too (soundness rule 8)
        gradients, loss = nothing
    if [tensor._version for tensor in parameters.values()] != before:
        with torch.no_grad():
            for name, tensor in parameters.items():
                tensor.copy_(kept[name])
        return nothing
    return {name: [Dense(gradient[None])] for name, gradient in gradients.items()}, loss


def gradient_alone(loss: Loss, one: Any, parameters: Mapping[str, Tensor]) -> tuple[Gradients, Tensor]:
    """The gradient of a single record by ordinary autograd, for the parameters that it reaches; and its loss, (1,)."""
    with torch.enable_grad(), checkpointed(AsItIs()):
        losses = loss(one)
        check_losses(losses, 1)
    if not losses.requires_grad:
        return {}, losses.detach()
    found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    named = zip(parameters, found, strict=True)
    return {name: gradient.detach() for name, gradient in named if gradient is not None}, losses.detach()


def _joined(found: list[Clipped]) -> Clipped:
    first = found[0].sums  # added up in float64, and rounded once
    sums = {
        name: sum((part.sums[name] for part in found[1:]), total.double()).to(total.dtype)
        for name, total in first.items()
    }
    norms, losses = torch.cat([part.norms for part in found]), torch.cat([part.losses for part in found])
    return Clipped(sums, norms, losses, torch.cat([part.shortened for part in found]))


def alone(loss: Loss, batch: Any, parameters: Mapping[str, Tensor]) -> list[tuple[Gradients, Tensor]]:
    """Gradients and losses of all records of a batch, each by itself."""
    rows = [mapped(lambda tensor, row=row: tensor[row : row + 1], batch) for row in range(size(batch))]
    return [gradient_alone(loss, one, parameters) for one in rows]


def _devices(mask: Tensor) -> list[int]:
    return [mask.device.index or 0] if mask.is_cuda else []
