"""What each process of tests/unit/test_train_sharded.py runs: every case once, results in the folder it is given."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import TacitError
from tacit.loss import Plan
from tacit.train import Augment, Speed, ball, fit, private

QUIET = 1e-6
"""So little noise that sums show through it."""
DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


def classify(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def raising(model: nn.Module, batch: Any) -> Tensor:
    """A record whose first number is below -40 has no root, which makes torch raise for all of them."""
    root = torch.linalg.cholesky((40 + batch[0][:, :1, None]) * torch.eye(2))
    return classify(model, batch) * root[:, 0, 0]


def spoilt() -> tuple[Tensor, Tensor]:
    """Every seventh record makes `raising` raise: parts of both processes, and not of each step."""
    x = DATA[0].clone()
    x[::7, 0] = -100
    return x, DATA[1]


def cancelling() -> tuple[Tensor, Tensor]:
    """A record with two positions that all but cancel: its process alone needs sums in float64."""
    x = torch.randn(60, 2, 64, generator=torch.Generator().manual_seed(1))
    x[0, 1] = 30 * x[0, 1] - 1e5 * x[0, 0]
    x[0, 0] *= 1e5
    return x, DATA[1]


def line(*, cut: bool) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 4, bias=False))
    if cut:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    return model


CASES: dict[str, dict[str, Any]] = {
    "flat": {"plan": Plan(60, 0.5, 4, QUIET)},
    "per layer": {"plan": Plan(60, 0.5, 4, QUIET, clipping="per-layer")},
    "bands": {"plan": Plan(60, 0.25, 8, QUIET, adjacency="replace", sampling="cyclic", bands=2)},
    "augmented": {"plan": Plan(60, 0.5, 4, QUIET), "augment": Augment(lambda batch: (2 * batch[0], batch[1]), 2)},
    "projected": {"plan": Plan(60, 0.5, 4, QUIET), "project": ball(1.5)},
    "mixed": {"plan": Plan(60, 0.5, 4, QUIET), "make": lambda cut: mixed(cut=cut)},
    "raising": {"plan": Plan(60, 0.5, 2, QUIET), "loss": raising, "data": spoilt()},
    "cancelling": {
        "plan": Plan(60, 1.0, 2, QUIET, sampling="full"),
        "make": line,
        "data": cancelling(),
        "loss": lambda model, batch: F.cross_entropy(model(batch[0]).mean(1), batch[1], reduction="none"),
    },
}
LOUD = Plan(60, 1e-9, 25, 1.5, clip_norm=2.0)
"""Empty samples: what is released is noise alone."""
MANY = replace(LOUD, steps=300)


class Tied(nn.Module):
    """Odd sizes, a parameter used twice, and one that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.again, self.last = nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 3)
        self.scale, self.unused = nn.Parameter(torch.ones(7)), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.again(torch.tanh(self.again(self.first(x) * self.scale)))))


class Mixed(nn.Module):
    """Sizes that do not divide, parts of no size at all, cuts along other axes, and frozen parameters in one piece."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.frozen, self.last = nn.Linear(5, 9), nn.Linear(9, 9), nn.Linear(9, 3)
        self.one, self.wide = nn.Parameter(torch.ones(1)), nn.Parameter(torch.randn(1, 12))
        self.table = nn.Parameter(torch.randn(1, 1, 3))
        self.frozen.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(torch.tanh(self.first(x) * self.one)) + self.wide[0, 1:10]
        return self.last(torch.tanh(x)) + self.table[0]


def mixed(*, cut: bool) -> nn.Module:
    model = Mixed()
    if cut:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import Shard

        fully_shard(model.last)
        frozen, wide = set(model.frozen.parameters()), model.wide
        fully_shard(model, shard_placement_fn=lambda one: Shard(1) if one is wide else None, ignored_params=frozen)
    return model


def made(*, cut: bool) -> nn.Module:
    model = Tied()
    if cut:
        from torch.distributed.fsdp import fully_shard

        fully_shard(model.again)
        fully_shard(model)
    return model


def flat(tensors: Any) -> Tensor:
    return torch.cat([getattr(tensor, "full_tensor", lambda tensor=tensor: tensor)().flatten() for tensor in tensors])


def trained(plan: Plan, *, cut: bool, make: Any = made, data: Any = DATA, **options: Any) -> Tensor:
    model = make(cut=cut)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.05, eps=1e-3)
    step = private(model, optimizer, plan, rng=5, speed=Speed(physical_batch=4), **options)
    for batch in step.batches(data):
        step(batch)
    if cut:
        assert step.sharded
        parts = [state["exp_avg"].to_local().numel() for state in optimizer.state.values()]
        whole = sum(tensor.numel() for tensor in model.parameters())
        assert sum(parts) <= 0.6 * whole
    return flat(tensor.detach() for tensor in model.parameters())


def noise(plan: Plan = LOUD, *, cut: bool, make: Any = made, **options: Any) -> dict[str, Tensor]:
    """What empty samples release, by parameter and step; whole parameters from all parts."""
    model = make(cut=cut)
    own = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
    step = private(model, torch.optim.SGD(own.values(), lr=0.0), plan, rng=7, **options)
    rows: dict[str, list[Tensor]] = {name: [] for name in own}
    for batch in step.batches(DATA):
        step.gradients(batch)
        for name, tensor in own.items():
            rows[name].append(flat([tensor.grad]))
    return {name: torch.stack(found) for name, found in rows.items()}


def refusals(folder: Path) -> list[str]:
    """One sentence each."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    def attempt(act: Any) -> str:
        try:
            act()
        except TacitError as error:
            return str(error)
        return "nothing"

    def half() -> None:
        model = Tied()
        fully_shard(model.again)
        private(model, torch.optim.SGD(model.parameters(), lr=0.1), LOUD)

    def rounded() -> None:
        model = Tied()
        fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
        private(model, torch.optim.SGD(model.parameters(), lr=0.1), LOUD)

    def otherwise() -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

        model = parallelize_module(nn.Linear(5, 4), init_device_mesh("cpu", (2,)), ColwiseParallel())
        private(model, torch.optim.SGD(model.parameters(), lr=0.1), LOUD)

    def asked(**options: Any) -> None:
        model = made(cut=True)
        private(model, torch.optim.SGD(model.parameters(), lr=0.1), LOUD, **options)

    def drifting(act: Any) -> None:
        """The second process does something else after two steps."""
        model = mixed(cut=True)
        descent = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
        step = private(model, descent, Plan(60, 0.5, 4, 1.0), rng=5, speed=Speed(physical_batch=4))
        for batch in step.batches(DATA):
            step(batch)
            if step.done == 2 and dist.get_rank() == 1:
                act(model, descent)

    def other_rate(model: Any, descent: Any) -> None:
        descent.param_groups[0]["lr"] = 0.2

    def other_weights(model: Any, descent: Any) -> None:
        model.frozen.weight.data[0, 0] += 1e-6

    return [
        attempt(half),
        attempt(rounded),
        attempt(otherwise),
        attempt(lambda: asked(noise="grid")),
        attempt(lambda: asked(speed=Speed(compile=True))),
        attempt(lambda: fit(made(cut=True), DATA, CASES["flat"]["plan"], checkpoint=folder / "x")),
        attempt(lambda: drifting(other_rate)),
        attempt(lambda: drifting(other_weights)),
    ]


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    found: dict[str, Any] = {name: trained(**case, cut=True) for name, case in CASES.items()}
    found["noise"] = noise(cut=True)
    found["mixed noise"] = noise(MANY, cut=True, make=mixed)
    found["rounded noise"] = noise(cut=True, speed=Speed(precision="bfloat16"))
    done = fit(
        made(cut=True), DATA, CASES["flat"]["plan"], rng=5, average="ema", validation=tuple(one.clone() for one in DATA)
    )
    found["fit"] = flat(tensor.detach() for tensor in done.model.parameters())
    found["evidence"] = done.evidence.claim.bound.epsilon, done.evidence.provenance["steps"]
    found["accuracy"] = done.evidence.utility["accuracy"]
    found["refusals"] = refusals(folder)
    torch.save(found, folder / f"{dist.get_rank()}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(0)  # a thread of torch's that frees a barrier's tensor while Python ends aborts the process (torch 2.13)
