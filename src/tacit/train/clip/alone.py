"""Run one record at a time: exact by construction for any model that ordinary autograd supports, and slow.

Every record runs as a batch of one with its own random numbers, and everything that it could have changed is restored
before the next one runs (`isolation`). If a record raises an exception, it contributes nothing, and no other record is
affected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any

import torch
from torch import Tensor

from .capture.coins import replayed, seed_torch
from .capture.ranges import Inside
from .isolation import Stopped, Surroundings
from .recompute.hooks import AsItIs, checkpointed
from .rules.terms import Dense
from .sums import Add, Clipped, Terms, check_losses, clipped_terms
from .tree import mapped, size
from .weigh import FLAT, Weigh

Loss = Callable[[Any], Tensor]
Gradients = dict[str, Tensor]


def clipped_alone(
    loss: Loss,
    batch: object,
    parameters: Mapping[str, Tensor],
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh = FLAT,
    add: Add | None = None,
    around: Surroundings | None = None,
    *,
    shared: bool = False,
) -> Clipped:
    """Compute what `clipped_sum` computes, one record at a time; `around` holds all state that user code can reach.

    `shared`: random draws that no record takes part in are the step's (`coins.replayed`), not the record's own. The
    norm of a record that raises is infinite.
    """
    found = []
    around = around or Surroundings(loss, parameters)
    coins = replayed if shared else call
    with torch.random.fork_rng(devices=_devices(mask)):
        seeds = torch.randint(2**62, (len(mask),)).tolist()
        for place, seed in enumerate(seeds):
            seed_torch(seed)
            one = _row(batch, place)
            here = mask[place : place + 1]
            terms: Terms | None = {}
            value = here.new_zeros(1).float()
            if bool(here):
                run = partial(coins, partial(_terms, loss, one, parameters, here))
                try:
                    terms, value = around.run(seed, run)
                except Stopped:
                    terms, value = None, torch.full_like(value, torch.nan)
            with torch.no_grad():
                clipped = clipped_terms(parameters, terms or {}, value, here, clip_norm, weigh, add)
            found.append(clipped if terms is not None else replace(clipped, norms=torch.full_like(value, torch.inf)))
    return _joined(found)


def _terms(loss: Loss, one: object, parameters: Mapping[str, Tensor], here: Tensor) -> tuple[Terms | None, Tensor]:
    """The gradient of one record, written out, and its loss.

    Returns None and a loss that is not finite where the record's values make user code raise, return another number of
    losses, or write into a parameter. A loss that is not finite does not by itself exclude a record, just as in a joint
    pass.
    """
    before = [tensor._version for tensor in parameters.values()]
    nothing = None, torch.full((1,), torch.nan, dtype=torch.float32, device=here.device)
    try:
        with Inside():
            gradients, losses = gradient_alone(loss, one, parameters)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever values make it raise, our own sentences too (soundness rule 8)
        return nothing
    if [tensor._version for tensor in parameters.values()] != before:
        return nothing
    return {name: [Dense(gradient[None].clone())] for name, gradient in gradients.items()}, losses.clone()


def gradient_alone(loss: Loss, one: object, parameters: Mapping[str, Tensor]) -> tuple[Gradients, Tensor]:
    """The gradient of a single record by ordinary autograd, for the parameters that it reaches; and its loss, (1,)."""
    with torch.autograd.set_multithreading_enabled(False):  # user code in the backward pass runs in this thread too
        with torch.enable_grad(), checkpointed(AsItIs()):
            losses = loss(one)
            check_losses(losses, 1)
        if not losses.requires_grad:
            return {}, losses.detach()
        found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    named = [
        (name, gradient.detach()) for name, gradient in zip(parameters, found, strict=True) if gradient is not None
    ]
    dense = {name: gradient.to_dense() if gradient.is_sparse else gradient for name, gradient in named}
    return dense, losses.detach()


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
    rows = [_row(batch, place) for place in range(size(batch))]
    return [gradient_alone(loss, one, parameters) for one in rows]


def _row(batch: object, place: int) -> Any:
    """One record as a batch of one, in its own memory: a view would give access to the others."""
    return mapped(lambda tensor: tensor[place : place + 1].clone(), batch)


def _devices(mask: Tensor) -> list[int]:
    return [mask.device.index or 0] if mask.is_cuda else []
