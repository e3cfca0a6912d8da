"""Made-up records shaped like the real ones, and the same random numbers for every look at them.

They are drawn from a public stream, so no private value decides anything (soundness rules 8 and 26).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ....core import BadInput, TacitError
from ....core.global_randomness import turn
from ..alone import alone
from ..tree import mapped
from .coins import seed_torch, seeded
from .ranges import InRange

_SEED = 20_210_907
COUNT = 3
SHARE = 0.3
"""By which share of their size weights are moved."""
RANGES = (2, 30_000, 100)
"""Made-up integers are below one of these: the first that a model takes."""
Loss = Callable[[Any], Tensor]


@contextmanager
def moved_weights(parameters: Mapping[str, Tensor], share: float, seed: int) -> Iterator[None]:
    """Temporarily change weights by a share of their size, so that branches that start at zero are seen."""
    if not share:
        yield
        return
    before = {name: tensor.detach().clone() for name, tensor in parameters.items()}
    generator = torch.Generator().manual_seed(seed + 1)
    try:
        with torch.no_grad():
            for tensor in parameters.values():
                scale = tensor.double().square().mean().sqrt().clamp(min=0.1).item() if tensor.numel() else 0.0
                step = torch.randn(tensor.shape, generator=generator) * share * scale
                tensor.add_(step.to(tensor.device, tensor.dtype))
        yield
    finally:
        with torch.no_grad():
            for name, tensor in parameters.items():
                tensor.copy_(before[name])


def not_run(error: Exception, what: str = "loss") -> BadInput:
    """The one sentence for a model that does not accept its data; made-up records contain no private values."""
    reason = str(error).split("\n")[0].rstrip(".")
    if isinstance(error, IndexError):
        reason = "a label or an id is out of range"
    return BadInput(
        f"The {what} of made-up records that are shaped like the data cannot be computed: {reason}.",
        fix=f"The {what} is given rows of the data; labels and ids are whole numbers (int64) from 0 on, and other "
        "numbers have the dtype of the parameters (float32).",
    )


def made_up(batch: object, count: int, seed: int = 0, high: int = 2) -> Any:
    """`count` public records shaped like those of a batch: standard normal numbers, integers below `high`.

    Where `high` is 1 or 0, all integers are that.
    """
    generator = torch.Generator().manual_seed(_SEED + seed)

    def invent(tensor: Tensor) -> Tensor:
        shape = (count, *tensor.shape[1:])
        if tensor.is_floating_point() or tensor.is_complex():
            return torch.randn(shape, generator=generator, dtype=tensor.dtype).to(tensor.device)
        coins = torch.randint(0, high, shape, generator=generator) if high > 1 else torch.full(shape, high)
        if coins.ndim > 1 and high == 2:
            coins[:, 0] = 1
        return coins.to(tensor.device, tensor.dtype)

    return mapped(invent, batch)


@contextmanager
def same_random(seed: int = 0) -> Iterator[None]:
    """Make a model draw the same random numbers each time, and restore the ambient state afterwards.

    Meanwhile no other thread takes a step: its records would be given these numbers, which are public.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with turn(), torch.random.fork_rng(devices=devices), seeded(_SEED + seed):
        seed_torch(_SEED + seed)
        yield


def usable(
    loss: Loss, parameters: Mapping[str, Tensor], batch: object, count: int = COUNT, seed: int = 0, *ranges: int
) -> object:
    """Made-up records that the model takes: the first range of integers that it does not object to.

    The last tries have ones alone, since the lengths of sequences are above 0 and at most that of the longest, and
    zeros alone, since offsets begin at 0.
    """
    first: Exception | None = None
    for high in (*(ranges or RANGES), 1, 0):
        examples = made_up(batch, count, seed, high)
        try:
            with InRange():
                alone(loss, examples, parameters)
        except TacitError:
            raise
        except Exception as error:  # user code, on public numbers
            first = first or error
        else:
            return examples
    assert first is not None
    raise not_run(first) from first
