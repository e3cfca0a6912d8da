"""Kill and starve runs at random moments, resume them, and compare with the uninterrupted result.

    python benchmarks/faults.py [--kills 1000] [--disk 500] [--quick] [--minutes 8] [--only train] [--results FILE]

Verbs run in forked children of one process that has imported everything. A child is killed (SIGKILL) either after a
random time or at a random file operation, then started again with --resume where there is something to resume, killed
again with probability 1/3, and at last left alone. Disk faults are real: a limit on the size of files (short writes,
then EFBIG), or a file operation that answers ENOSPC. Each fault comes from (seed, mode, number); the kept result says
how far a campaign came, so it goes on where it stopped. It counts as a finding when the result is not the uninterrupted
one, weights and evidence of two runs lie together, a run can neither go on nor start again, or a traceback shows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fault_layer import Fault, ended
from fault_modes import MODES, Mode, paired
from machine import RESULTS, describe

KINDS = ("kill", "disk")


def kill_once(mode: Mode, reference: Any, folder: Path, rng: random.Random, seconds: float) -> tuple[str, int]:
    """(finding or "", kills) of one run that is killed once or more and then left alone."""
    kills, refused = 0, 0
    for attempt in range(12):
        last = attempt >= 1 and rng.random() < 2 / 3
        fault = None if last else Fault.kill(rng, seconds, mode.operations)
        status, text = ended(mode.run, folder, fault)
        kills += status == -9
        if (wrong := paired(folder)) or "Traceback" in text:
            return wrong or f"a traceback: {text[-300:]}", kills
        if status == 0:
            found = mode.result(folder)
            return ("" if found == reference else f"another result after {kills} kills"), kills
        if fault is None:
            refused += 1
            if refused > 2:
                return f"neither resumed nor started again (status {status}): {text[-300:]}", kills
    return "did not end in 12 attempts", kills


def starve_once(mode: Mode, reference: Any, folder: Path, rng: random.Random) -> tuple[str, int]:
    """(finding or "", faults that were met) of one run on a disk that is full for a while."""
    status, text = ended(mode.run, folder, Fault.disk(rng, mode.operations, mode.largest))
    met = int(status != 0)
    if wrong := paired(folder):
        return wrong, met
    if "Traceback" in text or (status not in (0, 2, 3) and met):
        return f"no sentence (status {status}): {text[-300:]}", met
    if status == 0:
        return ("" if mode.result(folder) == reference else "another result"), met
    for _ in range(3):
        status, text = ended(mode.run, folder, None)
        if status == 0:
            return ("" if mode.result(folder) == reference else "another result after a full disk"), met
    return f"lost after a full disk (status {status}): {text[-300:]}", met


def prepared(mode: Mode, base: Path) -> tuple[Any, float]:
    """The uninterrupted result, and how long it takes."""
    folder = base / "reference"
    mode.prepare(folder)
    began = time.monotonic()
    status, text = ended(mode.run, folder, None)
    if status != 0:
        raise SystemExit(f"{mode.name} does not run at all: {text[-1000:]}")
    return mode.result(folder), time.monotonic() - began


def campaign(wanted: dict[str, int], seed: int, deadline: float, names: list[str], path: Path) -> list[dict[str, Any]]:
    """Kills and disk faults over all modes, each mode by its share, until all were met or the time is up."""
    every = [(name, kind) for kind in KINDS for name in MODES if kind == "kill" or MODES[name].disk]
    kept = _kept(path, seed, every)
    rows = [row for row in kept if row["mode"] in names]
    least = {(row["mode"], row["kind"]): _part(row["mode"], row["kind"], wanted) for row in rows}
    with tempfile.TemporaryDirectory() as base:
        ready = {name: prepared(MODES[name], Path(base, name)) for name in names}
        while time.monotonic() < deadline:
            far = {k: row["faults"] / least[row["mode"], row["kind"]] for k, row in enumerate(rows)}
            place = min(far, key=lambda k: far[k])
            if far[place] >= 1:
                break
            one_fault(rows[place], ready[rows[place]["mode"]], Path(base, "run"), seed)
            if path.suffix and sum(row["runs"] for row in rows) % 20 == 0:
                _keep(path, kept)
    if path.suffix:
        _keep(path, kept)
    return rows


def one_fault(row: dict[str, Any], ready: tuple[Any, float], folder: Path, seed: int) -> None:
    """One run with faults, counted into its row."""
    before, kind, mode = _spent(), row["kind"], MODES[row["mode"]]
    rng = random.Random(f"{seed} {kind} {mode.name} {row['runs']}")
    mode.prepare(folder)
    if kind == "kill":
        finding, count = kill_once(mode, ready[0], folder, rng, ready[1])
    else:
        finding, count = starve_once(mode, ready[0], folder, rng)
    shutil.rmtree(folder, ignore_errors=True)
    row["runs"] += 1
    row["faults"] += count
    row["equal"] += not finding
    row["cpu_seconds"] = round(row["cpu_seconds"] + _spent() - before, 2)
    if finding:
        row["findings"] = [*row["findings"], {"number": row["runs"] - 1, "what": finding}][:20]
        print(kind, mode.name, row["runs"] - 1, finding, flush=True)


def _part(name: str, kind: str, wanted: dict[str, int]) -> int:
    """How many faults of a kind a mode shall meet."""
    place = KINDS.index(kind)
    return max(1, -(-wanted[kind] * MODES[name].share[place] // sum(mode.share[place] for mode in MODES.values())))


def _spent() -> float:
    """Processor seconds of this process and of all children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _kept(path: Path, seed: int, wanted: list[tuple[str, str]]) -> list[dict[str, Any]]:
    rows = json.loads(path.read_text())["rows"] if path.is_file() else []
    known = {(row["mode"], row["kind"], row["seed"]): row for row in rows}
    fresh = {"seed": seed, "runs": 0, "faults": 0, "equal": 0, "cpu_seconds": 0.0}
    return [known.get((*key, seed), {"mode": key[0], "kind": key[1], **fresh, "findings": []}) for key in wanted]


def _keep(path: Path, rows: list[dict[str, Any]]) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"machine": describe("numpy", "torch"), "rows": rows}, indent=1) + "\n")
    beside.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--disk", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--only", choices=list(MODES), action="append", help="these modes alone; may be repeated")
    parser.add_argument("--quick", action="store_true", help="two kills and two disk faults of each mode, nothing kept")
    parser.add_argument("--results", type=Path, default=RESULTS / "faults.json", help="where to go on and to keep")
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    few = 2 * len(MODES)
    wanted = {"kill": few, "disk": few} if asked.quick else {"kill": asked.kills, "disk": asked.disk}
    path = Path(os.devnull) if asked.quick else asked.results
    deadline = time.monotonic() + 60 * asked.minutes
    rows = campaign(wanted, asked.seed, deadline, asked.only or list(MODES), path)
    print(json.dumps(rows, indent=1))
    return sum(len(row["findings"]) for row in rows)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
