"""What becomes of records when a white-box observer takes gradient steps on others: members are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..core import BadInput, Observations, Source, check, source
from .internals import taken

Move = Callable[[Tensor, torch.Generator], Tensor]
FEWEST, MOMENTUM, DECAY = 20, 0.9, 5e-4


@torch.inference_mode(False)
def with_steps(
    seen: Observations,
    model: nn.Module,
    x: ArrayLike,
    known: ArrayLike,
    *,
    rng: Source | int | np.random.Generator,
    epochs: int = 10,
    learning_rate: float = 0.05,
    batch: int = 128,
    move: Move | None = None,
) -> Observations:
    r"""Add to observations every record's margin after each epoch of descent from the model on known records.

    A copy of the model takes SGD steps on a random half of the `known` records (a truth value each), another copy on
    the other half; rates fall to 0. What generalises stays; what the model knew by heart of a record that is not among
    them fades, so the margin left says how hard the record is. A known record is seen in the copy that was not trained
    on it, as no copy was trained on the judged records. These are seen in both copies, as `step/0` and `step/1`. `move`
    changes a batch as the model's own training did (mirrors, shifts), given a generator.

    Caller ensures: `known` leaves out every record that is judged.
    """
    inputs = taken(model, x)
    label = torch.as_tensor(seen.need("label").astype(np.int64))
    told = np.asarray(known)
    if len(inputs) != len(label) or told.dtype != bool or told.shape != label.shape or seen.models != 1:
        raise BadInput("Steps need one model, one x and one truth value in `known` per observed record.")
    if told.sum() < FEWEST or told.all():
        raise BadInput(f"Steps need at least {FEWEST} known records, and some that are judged.")
    check.whole("epochs", epochs)
    check.whole("batch", batch)
    check.positive("learning_rate", learning_rate)
    chance = source(rng)
    half = np.full(len(told), -1)
    half[told] = chance.permutation(int(told.sum())) % 2
    after = []
    for k in (0, 1):
        generator = torch.Generator().manual_seed(int(chance.integers(2**31)))
        copy, rows = deepcopy(model), torch.as_tensor(np.flatnonzero(half == k))
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            torch.manual_seed(generator.initial_seed())  # dropout's
            margins = [
                _margins(each, inputs, label)
                for each in _descent(copy, (inputs[rows], label[rows]), epochs, learning_rate, batch, move, generator)
            ]
        after.append(np.stack(margins, axis=1))
    views = {f"step/{k}": np.where((half == k)[:, None], after[1 - k], after[k])[:, None] for k in (0, 1)}
    return replace(seen, internals={**(seen.internals or {}), **views})


def _descent(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    epochs: int,
    learning_rate: float,
    batch: int,
    move: Move | None,
    generator: torch.Generator,
) -> Iterator[nn.Module]:
    """The model after each epoch."""
    device = next(model.parameters()).device
    x, y = (part.to(device) for part in data)
    moves = torch.Generator(device).manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
    trained = [value for value in model.parameters() if value.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=learning_rate, momentum=MOMENTUM, weight_decay=DECAY)
    step, steps = 0, epochs * -(-len(y) // batch)
    for _ in range(epochs):
        model.train()
        for rows in torch.split(torch.randperm(len(y), generator=generator).to(device), batch):
            if len(rows) == 1 < batch:  # batch norm has no use for a single one
                continue
            optimizer.param_groups[0]["lr"] = learning_rate * (1 - step / steps)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[rows] if move is None else move(x[rows], moves)), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
        yield model.eval()


def _margins(model: nn.Module, x: Tensor, y: Tensor) -> NDArray[np.float64]:
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = torch.cat([model(part.to(device)).cpu().double() for part in torch.split(x, 1000)])
    return Observations.from_logits(logits[:, None].numpy(), y.numpy()).need("margin")[:, 0]
