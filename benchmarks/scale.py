"""How time and memory grow: files of scores, trainings and canaries, each in a process of its own.

    python benchmarks/scale.py [--quick] [--only scores] [--afresh]

Every row is kept as soon as it is measured, with the machine it was measured on, and rows that are kept are not
measured again (`--afresh` does). Seconds are processor time, since the machine may be shared; memory is the largest
resident size.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from machine import RESULTS, describe, keep


def scores(count: int, folder: Path) -> Callable[[], object]:
    """`tacit attack` on a file of so many scores: read, measured, written."""
    rng = np.random.default_rng(0)
    with (folder / "scores.csv").open("w") as file:
        file.write("score,member,record\n")
        for start in range(0, count, 100_000):
            size = min(100_000, count - start)
            member = rng.random(size) < 0.5
            values = (rng.normal(size=size) + member).tolist()
            file.writelines(f"{values[k]},{int(member[k])},{start + k}\n" for k in range(size))

    return lambda: _attacked(folder / "scores.csv", folder)


def shared_records(count: int, folder: Path) -> Callable[[], object]:
    """The same from Parquet, with every record scored against 16 models: rows that are not independent."""
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    member = rng.random(count) < 0.5
    places = np.arange(count)
    table = {"score": rng.normal(size=count) + member, "member": member, "record": places // 16, "target": places % 16}
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "scores.parquet")
    return lambda: _attacked(folder / "scores.parquet", folder)


def _attacked(path: Path, folder: Path) -> None:
    from tacit.cli import main

    sys.argv = ["tacit", "attack", str(path), "--out", str(folder / "out")]
    with contextlib.suppress(SystemExit):
        main()


def training(count: int, folder: Path) -> Callable[[], object]:
    """`fit` on so many records of 50 numbers, 20 steps of 256."""
    import torch

    from tacit.loss import Plan
    from tacit.train import fit

    x, y = torch.randn(count, 50), torch.arange(count) % 2
    model = torch.nn.Linear(50, 2)
    return lambda: fit(model, (x, y), Plan(count, 256 / count, 20, 1.0), checkpoint=folder / "run.ckpt")


def canaries(count: int, folder: Path) -> Callable[[], object]:
    """The bound of a game of one run with so many canaries."""
    from tacit.audits import demonstrate_once, stated
    from tacit.audits.demonstration import Played
    from tacit.core import Scores

    rng = np.random.default_rng(0)
    coins = rng.random(count) < 0.5
    told = Scores(rng.normal(size=count) + coins, coins, attack="margin", randomised=True)
    played = Played("one-run", "mislabelled", count)
    return lambda: demonstrate_once(told, claim=stated((1.0, 1e-5), delta=1e-5), confidence=0.95, played=played)


CASES: dict[str, tuple[Callable[[int, Path], Callable[[], object]], tuple[int, ...], tuple[int, ...]]] = {
    "scores": (scores, (10**5, 10**6, 10**7), (10**4, 10**5)),
    "scores of shared records": (shared_records, (10**5, 10**6, 10**7), (10**4, 10**5)),
    "training": (training, (10**4, 10**5, 10**6), (10**4,)),
    "canaries": (canaries, (10**3, 10**4, 10**5), (10**3,)),
}


def _measured(name: str, count: int, pipe: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = CASES[name][0](count, Path(folder))
        made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        began, wall = time.process_time(), time.monotonic()
        run()
        seconds, wall = time.process_time() - began, time.monotonic() - wall
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    pipe.send({"case": name, "count": count, "cpu_seconds": round(seconds, 2), "wall_seconds": round(wall, 2),
               "memory_mb": round(memory), "memory_before_mb": round(made)})  # fmt: skip


def measured(name: str, count: int) -> dict[str, Any]:
    """One case in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_measured, args=(name, count, theirs))
    child.start()
    theirs.close()
    found: dict[str, Any] = ours.recv()
    child.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(CASES))
    parser.add_argument("--most", type=int, default=10**9, help="no larger sizes than this")
    parser.add_argument("--least", type=int, default=0, help="no smaller ones")
    parser.add_argument("--afresh", action="store_true", help="measure rows again that are kept")
    asked = parser.parse_args()
    for name, count in wanted(asked):
        row = measured(name, count)
        print(json.dumps(row), flush=True)
        if not asked.quick:
            keep_row(row)


def wanted(asked: argparse.Namespace) -> list[tuple[str, int]]:
    """The rows to measure, small ones first."""
    names = [name for name in CASES if asked.only in (None, name)]
    every = [(name, count) for name in names for count in CASES[name][2 if asked.quick else 1]]
    done = set() if asked.quick or asked.afresh else {(row["case"], row["count"]) for row in kept_rows()}
    left = [pair for pair in every if pair not in done and asked.least <= pair[1] <= asked.most]
    return sorted(left, key=lambda pair: pair[1])


def kept_rows() -> list[dict[str, Any]]:
    path = RESULTS / "scale.json"
    return list(json.loads(path.read_text())["rows"]) if path.is_file() else []


def keep_row(row: dict[str, Any]) -> None:
    """Put a row in the place of an older one; it names its own machine, as rows may come from several."""
    machine = describe("numpy", "scipy", "torch")
    others = [old for old in kept_rows() if (old["case"], old["count"]) != (row["case"], row["count"])]
    order = {name: place for place, name in enumerate(CASES)}
    rows = sorted([*others, {**row, "machine": machine}], key=lambda item: (order.get(item["case"], 99), item["count"]))
    keep("scale", machine, rows)


if __name__ == "__main__":
    main()
