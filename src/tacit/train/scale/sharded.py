r"""Private steps on models whose parameters torch has sharded among processes (FSDP2, `fully_shard`).

Between steps every process holds its shard of the parameters and of the optimizer's state. For a step all processes
gather the parameters, and each clips its own examples with whole gradients, so norms need no communication. The sum of
each parameter is reduced and scattered as soon as it is computed, and a process adds noise to its own shard alone:

    process r    (\sum_{all i} c_i G_i)_r + N(0, (z C)^2 I)_r,      the shards' noise under keys of their own

Together they release one noisy sum, with one event. A process that has no physical batch left in a round takes part
with a masked example, because all processes must meet in every reduction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, Partial

from ...core import BadInput
from ..clip.sums import Add, Terms, weighted_sums
from ..clip.weigh import Weigh
from ..noise.keys import Secret, digest
from .workers import Workers


@dataclass(frozen=True, eq=False)
class Scattered:
    """This process's shard of the sums over all processes, one parameter after the other."""

    trained: Mapping[str, DTensor]

    def __call__(
        self, parameters: Mapping[str, Tensor], terms: Terms, weight: Tensor, weigh: Weigh
    ) -> dict[str, Tensor]:
        found = {}
        for name, parameter in parameters.items():
            (mine,) = weighted_sums({name: parameter}, terms, weight, weigh).values()
            found[name] = self._scattered(name, mine)
        return found

    def spread(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: self._scattered(name, mine) for name, mine in sums.items()}

    def _scattered(self, name: str, mine: Tensor) -> Tensor:
        """Reduce and scatter one sum. On a CPU in float64: one process may need it, and all must send the same
        dtype.
        """
        mine, cut = mine if mine.is_cuda else mine.double(), self.trained[name]
        spread = DTensor.from_local(mine.contiguous(), cut.device_mesh, [Partial()], run_check=False)
        return spread.redistribute(placements=cut.placements).to_local()


@dataclass(frozen=True, eq=False)
class Sharded(Workers):
    """This process among those that share the `trained` parameters of a model, sharded in its `modules`."""

    trained: Mapping[str, DTensor] | None = None
    model: nn.Module | None = None
    even = True

    @classmethod
    def of_parts(cls, model: nn.Module, trained: Mapping[str, Tensor], here: Workers) -> Sharded:
        """For the processes `here`, which together hold all trained parameters."""
        cut = {name: tensor for name, tensor in trained.items() if isinstance(tensor, DTensor)}
        if len(cut) < len(trained) or any(
            tensor.device_mesh.size() != here.count or tensor.device_mesh.ndim != 1 for tensor in cut.values()
        ):
            raise BadInput(
                "Some parameters are not cut up among all processes.",
                fix="Call fully_shard on the whole model, after its parts, with a mesh of all processes.",
            )
        made = cls(here.rank, here.count, cut, model)
        with made.whole() as named:
            if any(isinstance(named[name], DTensor) for name in cut):
                raise BadInput(
                    "Some parameters are cut up by other means than fully_shard, and operations see their parts only.",
                    fix="Cut the model up by fully_shard alone.",
                )
            if any(named[name].dtype != tensor.dtype for name, tensor in cut.items()):
                raise BadInput(
                    "fully_shard computes in another precision than it stores.",
                    fix='Leave its mp_policy alone, and use Speed(precision="bfloat16").',
                )
        return made

    @contextmanager
    def whole(self) -> Iterator[dict[str, Tensor]]:
        """Gathered parameters by name; the same tensors every time."""
        assert self.model is not None
        modules = [module for module in self.model.modules() if isinstance(module, FSDPModule)]
        for module in modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.set_reshard_after_backward(False, recurse=False)
            module.set_requires_gradient_sync(False, recurse=False)
            module.unshard()
        try:
            yield dict(self.model.named_parameters())
        finally:
            for module in modules:
                module.reshard()

    def together(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with self.whole() as named:
            return {name: named[name] for name in trained}

    def own(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        assert self.trained is not None
        return {name: tensor.to_local().detach() for name, tensor in self.trained.items()}

    @property
    def add(self) -> Add:
        assert self.trained is not None
        return Scattered(self.trained)

    def total(self, sums: list[Tensor], like: object, kind: torch.dtype) -> list[Tensor]:
        return sums

    def key(self, key: bytes | Tensor) -> bytes | Tensor:
        whole = key if isinstance(key, bytes) else digest(key)  # on a GPU of one process's own
        return Secret(whole).key(b"part", self.rank.to_bytes(8, "little"))

    def hand_over(self, own: Mapping[str, Tensor]) -> None:
        assert self.trained is not None
        for name, cut in self.trained.items():
            mine = own[name].grad
            assert mine is not None  # the release has just put it there
            cut.grad = DTensor.from_local(
                mine, cut.device_mesh, cut.placements, run_check=False, shape=cut.shape, stride=cut.stride()
            )
            own[name].grad = None

    def start(self, tensors: object) -> None:
        """Take the buffers of the first process; sharded parameters keep the values they were sharded with."""
        assert self.model is not None
        super().start(self.model.buffers())
