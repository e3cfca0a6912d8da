"""One network trained by itself: a student, or a teacher that no fleet can train (batch norm, recurrent layers).

A fleet trains all teachers in one tensor per parameter, which some modules do not allow. Such a module is trained
once per shard, as an estimator is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from .names import numbers
from .trainings import Fit, Labels, Network

if TYPE_CHECKING:
    from torch import Tensor, nn

Shares = NDArray[np.float64]
AT_ONCE = 2048


def trained(how: Network, x: object, y: Labels, rng: np.random.Generator) -> nn.Module:
    """One module, by ordinary training: the steps and batches of a teacher."""
    import torch

    from ..fleet.disjoint import endless
    from ..fleet.fleet import _make

    model = _make(how.make, int(rng.integers(2**63))).to(how.device)
    optimizer = how.descent()(used(model, x, how.device))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.steps)
    records = torch.as_tensor(numbers(x).astype(np.float32), device=how.device)
    labels = torch.as_tensor(np.asarray(y, dtype=np.int64), device=how.device)
    generator = torch.Generator(how.device).manual_seed(int(rng.integers(2**62)))
    order = torch.as_tensor(endless(np.arange(len(y)), how.steps * how.batch_size, rng), device=how.device)
    model.train()
    for rows in order.split(how.batch_size):
        batch = records[rows] if how.augment is None else how.augment(records[rows], generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def used(model: nn.Module, x: Any, device: str) -> list[Tensor]:
    """The parameters to be trained; lazy layers learn their shape from zeros, and nothing of a record."""
    import torch

    with torch.no_grad():
        if any(isinstance(value, torch.nn.UninitializedParameter) for value in model.parameters()):
            model.eval()(torch.zeros((2, *x.shape[1:]), device=device))
    return [value for value in model.parameters() if value.requires_grad]


@dataclass(frozen=True, eq=False)
class NetworkShares:
    """A module's softmax shares."""

    model: nn.Module
    classes: int
    device: str = "cpu"

    def __call__(self, asked: object) -> Shares:
        import torch

        with torch.no_grad():
            parts = torch.as_tensor(numbers(asked).astype(np.float32)).split(AT_ONCE)
            found = [self.model(part.to(self.device)).float().softmax(1).cpu() for part in parts if len(part)]
        if not found:
            return np.zeros((0, self.classes))
        if found[0].shape[1] < self.classes:
            raise BadInput(f"The network has {found[0].shape[1]} outputs for {self.classes} classes.")
        return torch.cat(found).numpy()[:, : self.classes].astype(np.float64)


def one_by_one(how: Network, classes: int) -> Fit:
    """A network as fit(x, y, rng)."""
    return lambda x, y, rng: NetworkShares(trained(how, x, y, rng), classes, how.device)
