"""What benchmarks/faults.py kills: each verb on small data, fleets, and a training by two processes."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from tacit.cli import main as command
from tacit.core import NotFinished, TacitError
from tacit.core.manifest import WEIGHTS, WEIGHTS_FIELD, sha256
from tacit.fleet import Epochs, Fleet
from tacit.fleet.spread import spread
from tacit.loss import Plan
from tacit.reports.script import bundle
from tacit.train import fit
from tacit.train.course import REPEATED

for _name in ("torch._dynamo", "sympy", "altair", "vl_convert", "safetensors.torch", "pyarrow.csv",
              "tacit.cli.training", "tacit.cli.auditing", "tacit.cli.pate",
              "tacit.cli.attacking", "tacit.cli.bracketing", "tacit.reports", "tacit.study.training",
              "tacit.study.bracketing", "tacit.study.membership", "sklearn.base"):  # fmt: skip
    importlib.import_module(_name)  # once, before children are forked
bundle()
OUT = "out"
VOLATILE = ("seconds", "made", "data_hmac")
CODE = """
import numpy as np
from torch import nn

def line():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

def predict(x):
    return np.stack((x[:, 0], x[:, 1]), axis=1)

def noisy(x, y, rng):
    shift = 0.3 * (len(x) > 40) + rng.normal()
    return lambda q: np.stack([q[:, 0] + shift, np.zeros(len(q))], axis=1)
"""
TRAIN = """
[data]
source = "d.npz"
members = "members"
[model]
make = "own:line"
[plan]
rate = 0.5
steps = 40
noise_multiplier = 1.0
public_size = 40
delta = 1e-5
[train]
momentum = 0.5
schedule = "cosine"
average = "tail"
"""
FIT = """
[data]
source = "d.npz"
members = "members"
[model]
fit = "own:noisy"
[attack]
references = 6
[audit]
runs = 16
canary = "blank"
isolation = "none"
"""
TAKE = """
[data]
source = "d.npz"
members = "members"
[model]
predict = "own:predict"
[plan]
epsilon = 2.0
delta = 1e-5
[attack]
references = 0
"""
PATE = """
[data]
source = "d.npz"
members = "members"
[model]
make = "own:line"
[plan]
delta = 1e-3
[pate]
teachers = 4
aggregator = "gnmax"
noise_answer = 2.0
queries = 12
classes = 2
steps = 20
release_epsilon = 0.5
propose = 60.0
"""
SCHEMA = """
label = "ill"

[columns.age]
kind = "number"
range = [0, 120]

[columns.pace]
kind = "number"
range = [0, 1]

[columns.ill]
kind = "category"
words = ["no", "yes"]
"""
LINEAR = """
[data]
source = "people.csv"
schema = "people.schema.toml"
[model]
kind = "linear"
[plan]
epsilon = 3.0
delta = 1e-5
"""
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"></svg>'
WAIT = timedelta(seconds=120)
"""How long one process waits for the other."""
PLAN = Plan(40, 0.5, 30, 1.0)


@dataclass(frozen=True)
class Mode:
    """`run(folder)` starts or resumes; `operations` is about how many file operations it has, `largest` its largest
    file; `disk`: whether it takes disk faults; `share`: its parts of all kills and of all disk faults."""

    name: str
    run: Callable[[Path], int]
    result: Callable[[Path], Any]
    operations: int
    largest: int = 20_000
    disk: bool = True
    share: tuple[int, int] = (1, 1)

    def prepare(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        rng = np.random.default_rng(0)
        (folder / "own.py").write_text(CODE)
        (folder / "train.toml").write_text(TRAIN)
        (folder / "take.toml").write_text(TAKE)
        (folder / "fit.toml").write_text(FIT)
        (folder / "pate.toml").write_text(PATE)
        (folder / "linear.toml").write_text(LINEAR)
        (folder / "people.schema.toml").write_text(SCHEMA)
        people = [f"{20 + k % 60},{k % 7 / 7:.3f},{'yes' if k % 3 else 'no'}" for k in range(80)]
        (folder / "people.csv").write_text("age,pace,ill\n" + "\n".join(people) + "\n")
        x = rng.normal(size=(80, 4)).astype(np.float32)
        np.savez(folder / "d.npz", x=x, y=np.arange(80) // 2 % 2, members=np.arange(80) % 2 == 0)
        rows = [f"{k / 7},{k % 2},loss,{k},0,,0" for k in range(400)]
        (folder / "scores.csv").write_text("score,member,attack,record,target,group,randomised\n" + "\n".join(rows))


def _verb(*words: str, state: str | None = None) -> Callable[[Path], int]:
    def run(folder: Path) -> int:
        resume = ["--resume"] if state is not None and _something(Path(f"{OUT}.unfinished", state)) else []
        sys.path.insert(0, str(folder))
        if words[0] == "train":
            sys.modules["altair"] = None  # type: ignore[assignment]  # drawing takes ten times as long as the rest
        sys.modules["vl_convert"].vegalite_to_svg = lambda spec: EMPTY  # type: ignore[attr-defined]
        sys.argv = ["tacit", *words, "--out", OUT, "--seed", "3", *resume]
        try:
            command()
        except SystemExit as left:
            done = Path(OUT, "manifest.json").exists() and not Path(f"{OUT}.unfinished").exists()
            return 0 if done else int(left.code or 0)
        return 0

    return run


def _something(state: Path) -> bool:
    return state.exists() and not (state.is_dir() and not any(state.iterdir()))


def _told(folder: Path) -> Any:
    """The evidence without what differs from run to run, and hashes of all files that must not.

    A run that was taken up again says so, among what its proof does not cover.
    """
    found = json.loads((folder / OUT / "evidence.json").read_text())
    found["not_covered"] = [text for text in found["not_covered"] if text != REPEATED]
    found["provenance"] = {key: value for key, value in found["provenance"].items() if key not in VOLATILE}
    same = [path for path in sorted((folder / OUT).iterdir()) if path.name in (WEIGHTS, "scores.csv", "labels.npz")]
    left = [path.name for path in folder.iterdir() if path.name.endswith((".unfinished", ".partial"))]
    return found, {path.name: sha256(path) for path in same}, left


def paired(folder: Path) -> str:
    """What is wrong with the results that are there: a half, or weights and evidence of different runs."""
    out = folder / OUT
    if not out.is_dir() or not any(out.iterdir()):
        return ""
    manifest = out / "manifest.json"
    if not manifest.is_file():
        return f"results without a manifest: {sorted(path.name for path in out.iterdir())}"
    for name, entry in json.loads(manifest.read_text())["files"].items():
        if not (out / name).is_file() or sha256(out / name) != entry["sha256"]:
            return f"{name} is missing or another"
    if (out / WEIGHTS).is_file():
        told = json.loads((out / "evidence.json").read_text())["provenance"][WEIGHTS_FIELD]
        return "" if told == sha256(out / WEIGHTS) else "weights and evidence of different runs"
    return ""


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def _data(folder: Path) -> Any:
    with np.load(folder / "d.npz") as found:
        return found["x"][::2], found["y"][1::2]


def _fleet(folder: Path) -> int:
    x, y = _data(folder)
    member = np.random.default_rng(1).random((len(x), 12)) < 0.5
    fleet = Fleet(small, lambda parameters: torch.optim.SGD(parameters, lr=0.1), models_at_once=3, device="cpu")
    try:
        found = spread(fleet, x, y, member, Epochs(3, 8), rng=3, folder=folder / "fleet")
    except TacitError as error:
        print(f"tacit: {error}")
        return 2
    except OSError:
        return 3
    code = hashlib.sha256()
    for stack in found.stacks:
        for tensor in stack.parameters.values():
            code.update(tensor.detach().numpy().tobytes())
    return _noted(folder, code.hexdigest())


def _noted(folder: Path, text: str) -> int:
    """Ours, not the run's: a fault here is no finding, and the run is started again."""
    try:
        (folder / "result.partial").write_text(text)
        (folder / "result.partial").replace(folder / "result.txt")
    except OSError:
        return 3
    return 0


def _two(folder: Path) -> int:
    """Two processes of one training; the one that is killed takes the other with it, by one sentence."""
    with (folder / "meeting").open("ab"):
        pass
    (folder / "meeting").unlink()
    other = os.fork()
    rank = 1 if other == 0 else 0
    code = 3
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2, timeout=WAIT
        )
        model = small()
        x, y = _data(folder)
        done = fit(model, (torch.as_tensor(x), torch.as_tensor(y)), PLAN, rng=3, checkpoint=folder / "two.secret")
        if rank == 0:
            _noted(folder, str(done.evidence.provenance["parameters_sha256"]))
        code = 0
    except NotFinished as error:
        print(f"tacit: {error}")
    except dist.DistStoreError:  # the other ended before they met
        code = 3
    except TacitError as error:
        print(f"tacit: {error}")
        code = 2
    if rank == 1:
        os._exit(code)
    _, status = os.waitpid(other, 0)
    return code or abs(os.waitstatus_to_exitcode(status))


AUDIT = ("audit", "own:noisy", "--epsilon", "1", "--data", "d.npz", "--canary", "blank", "--runs", "60")
MODES = {
    mode.name: mode
    for mode in (
        Mode("train", _verb("train", "train.toml", state="checkpoint.secret"), _told, 120, 12_000, share=(16, 20)),
        Mode(
            "audit", _verb(*AUDIT, "--isolation", "none", state="checkpoint.jsonl"), _told, 160, 12_000, share=(20, 24)
        ),
        Mode("train linear", _verb("train", "linear.toml", state="checkpoint.secret"), _told, 60, 12_000, share=(6, 6)),
        Mode("attack", _verb("attack", "scores.csv"), _told, 25, 20_000, share=(8, 8)),
        Mode("attack fit", _verb("attack", "fit.toml", state="progress"), _told, 80, 20_000, share=(10, 12)),
        Mode("bracket", _verb("bracket", "take.toml", state="progress"), _told, 40, 400_000, share=(6, 6)),
        Mode("bracket fit", _verb("bracket", "fit.toml", state="progress"), _told, 150, 400_000, share=(12, 12)),
        Mode("pate", _verb("pate", "pate.toml"), _told, 40, 12_000, share=(6, 6)),
        Mode("fleet", _fleet, lambda folder: (folder / "result.txt").read_text(), 40, 8_000, share=(16, 18)),
        Mode(
            "two processes",
            _two,
            lambda folder: (folder / "result.txt").read_text(),
            80,
            8_000,
            disk=False,
            share=(12, 0),
        ),
    )
}
