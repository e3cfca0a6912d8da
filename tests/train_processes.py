"""What each process of tests/unit/test_train_workers.py runs: every case once, results in the folder it is given."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from tacit.core import BudgetExceeded, Mismatch, TacitError
from tacit.loss import Plan
from tacit.train import Augment, Progress, Speed, fit, private
from tacit.train.course import UNFENCED

DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3
USERS = np.arange(60) // 3
CASES: dict[str, dict[str, Any]] = {
    "flat": {"plan": Plan(60, 0.5, 4, 1.0)},
    "adaptive": {"plan": Plan(60, 0.5, 4, 1.0, clipping="adaptive")},
    "shuffled": {"plan": Plan(60, 0.25, 4, 1.0, adjacency="replace", sampling="shuffled")},
    "correlated": {"plan": Plan(60, 0.25, 4, 1.0, adjacency="replace", sampling="cyclic", bands=2)},
    "grid": {"plan": Plan(60, 0.5, 4, 1.0), "noise": "grid"},
    "augmented": {"plan": Plan(60, 0.5, 4, 1.0), "augment": Augment(lambda batch: (2 * batch[0], batch[1]), 2)},
    "users": {"plan": Plan(20, 0.5, 4, 1.0, unit="user"), "users": USERS},
    "empty": {"plan": Plan(60, 1e-9, 2, 1.0)},
}


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(plan: Plan, users: Any = None, *, pinned: bool = True, **options: Any) -> dict[str, Any]:
    """Parameters after a run, the noise's key pinned: rounding of sums moves later norms, and with them the key."""
    rank = int(os.environ.get("RANK", 0))
    model = small(seed=rank)  # processes start apart and must come together
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    step = private(model, optimizer, plan, rng=5, speed=Speed(physical_batch=4), **options)
    if pinned:
        step.parted.noise_key = lambda *_: bytes(31) + bytes([step.done])
    asked = {} if users is None else {"users": users, "records_per_user": 2}
    infos = [step(batch) for batch in step.batches(DATA, **asked)]
    flat = torch.cat([tensor.detach().flatten() for tensor in model.parameters()])
    return {
        "parameters": flat.double().tolist(),
        "clip_norm": step.clip_norm,
        "losses": [info.loss for info in infos],
        "examples": [info.examples for info in infos],
    }


class Account:
    """A ledger that counts its charges, and refuses if it is empty."""

    def __init__(self, *, empty: bool) -> None:
        self.empty, self.charges = empty, 0

    def charge(self, event: object, **_: object) -> None:
        if self.empty:
            raise BudgetExceeded(2.0, 1.0)
        self.charges += 1


def accounts() -> dict[str, Any]:
    """Charges seen by this process, and the refusal that all of them meet."""
    paid, empty = Account(empty=False), Account(empty=True)
    plan = CASES["flat"]["plan"]
    fit(small(), DATA, plan, ledger=paid)
    try:
        fit(small(), DATA, plan, ledger=empty)
    except TacitError as error:
        return {"charges": paid.charges, "refusal": type(error).__name__}
    return {"charges": paid.charges, "refusal": None}


class Overtaken(Account):
    """A ledger that numbers continuations, and finds at the end that a later one was taken up."""

    def fence(self, key: str, *, number: int | None, step: int, mark: str, last: bool = False) -> int:
        if last:
            raise Mismatch("This run was taken up elsewhere since.")
        return 1


def overtaken(folder: Path) -> str:
    """What a process is told whose run goes on elsewhere; the state stays, and evidence is given to nobody."""
    try:
        found = fit(small(), DATA, CASES["flat"]["plan"], ledger=Overtaken(empty=False), checkpoint=folder / "run.ckpt")
    except TacitError as error:
        return type(error).__name__
    return f"evidence of {found.evidence.subject}"


def unfenced(folder: Path) -> list[bool]:
    """Whether evidence says that a copy of the state would go unnoticed, without a checkpoint and with one."""
    found = [fit(small(), DATA, CASES["flat"]["plan"], checkpoint=path) for path in (None, folder / "other.ckpt")]
    return [UNFENCED in one.evidence.not_covered for one in found]


def checkpointed(folder: Path) -> dict[str, Any]:
    """A run that is taken up from its checkpoint; every process ends alike, and the file is gone."""
    model = small()
    path = folder / "run.ckpt"
    seen = []

    def stop(step: Any, info: Any) -> None:
        seen.append(path.exists())

    fit(model, DATA, CASES["flat"]["plan"], rng=1, checkpoint=path, progress=stop)
    dist.barrier()
    flat = torch.cat([tensor.detach().flatten() for tensor in model.parameters()])
    return {"parameters": flat.double().tolist(), "seen": seen, "left": path.exists()}


def broken() -> dict[str, Any]:
    """Whether a process goes on after its step was broken off, with which another process is done."""
    model = small()
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.5), CASES["flat"]["plan"], rng=5)
    batch, told, real = next(step.batches(DATA)), [], step._release.hand_over

    def stopped(noisy: Any) -> None:
        real(noisy)
        if dist.get_rank() == 0:
            raise KeyboardInterrupt

    step._release.hand_over = stopped  # type: ignore[method-assign]
    for act in (lambda: step(batch), step.check_unbroken, lambda: step.batches(DATA)):
        try:
            act()
            break
        except (KeyboardInterrupt, TacitError) as error:
            told.append(str(error))
    return {"told": told, "done": step.done}


def scheduled() -> dict[str, Any]:
    """A learning rate that a hook of `progress` moves, and the line that a Progress writes."""
    model, told = small(), io.StringIO()
    descent = torch.optim.SGD(model.parameters(), lr=0.5)

    def slower(step: Any, info: Any) -> None:
        descent.param_groups[0]["lr"] = 0.5 / (1 + step.done)

    fit(model, DATA, CASES["flat"]["plan"], optimizer=descent, rng=1, progress=Progress(1e-3, told, slower))
    flat = torch.cat([tensor.detach().flatten() for tensor in model.parameters()])
    return {"parameters": flat.double().tolist(), "lr": descent.param_groups[0]["lr"], "told": told.getvalue()}


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    found: dict[str, Any] = {name: trained(**case) for name, case in CASES.items()}
    found["free"] = trained(**CASES["flat"], pinned=False)
    found["accounts"] = accounts()
    found["checkpoint"] = checkpointed(folder)
    found["scheduled"] = scheduled()
    found["broken"] = broken()
    found["overtaken"], found["unfenced"] = overtaken(folder), unfenced(folder)
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stderr.flush()
    os._exit(0)  # as in train_sharded.py
