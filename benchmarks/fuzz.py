"""Fuzz every reader with files made by structure: a valid file, one or more parts of it exchanged for bad ones.

    python benchmarks/fuzz.py [--files 20000] [--quick] [--minutes 8]

Each file is made from (seed, reader, number), so a run goes on where an earlier one stopped: the result is kept after
every batch and says how far it came; another seed begins anew. Every finding can be made again with
`--only READER:NUMBER`. Readers run in a child process: it counts as a finding when one raises anything but our own
errors, takes more than 5 s, kills the child, or when the child's memory passes 1 GB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import fuzz_files
import fuzz_kept
import fuzz_readers
import fuzz_releases
from machine import RESULTS, describe, keep

SECONDS, MEMORY, BATCH = 5.0, 1e9, 250
Finding = dict[str, Any]
MAKERS = {**fuzz_files.MAKERS, **fuzz_kept.MAKERS, **fuzz_releases.MAKERS}
READERS = {**fuzz_readers.READERS, **fuzz_kept.READERS, **fuzz_releases.READERS}


class TooLong(Exception):
    pass


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooLong


def one(reader: str, number: int, seed: int, folder: Path) -> tuple[str, str, float]:
    """(kind of outcome, what was raised, seconds) of one file."""
    from tacit.core import TacitError
    from tacit.core.errors import where

    name, data = MAKERS[reader](seed, number)
    for left in folder.iterdir():  # a journal or a ledger may have left files beside itself
        left.unlink()
    path = folder / name
    path.write_bytes(data)
    began = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        READERS[reader](path)
        outcome, text = "read", ""
    except TacitError as error:
        told = str(error)
        plain = told.isprintable() and len(told) < 1000
        outcome, text = ("refused", "") if plain else ("finding", f"an unprintable or long sentence: {told[:60]!r}")
    except TooLong:
        outcome, text = "finding", f"more than {SECONDS} s"
    except BaseException as error:
        outcome, text = "finding", f"{type(error).__name__} in {where(error)}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return outcome, text, time.monotonic() - began


def _batch(reader: str, numbers: range, seed: int, pipe: Any) -> None:
    """In a child: outcomes one by one, then the most memory it had."""
    signal.signal(signal.SIGALRM, _ring)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            pipe.send((number, *one(reader, number, seed, Path(folder))))
    pipe.send(("memory", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
    pipe.close()


def batch(reader: str, numbers: range, seed: int) -> dict[str, Any]:
    """All outcomes of some numbers; a child that dies or hangs is a finding of the file it was at."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_batch, args=(reader, numbers, seed, theirs))
    child.start()
    theirs.close()
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    slowest, memory, at = 0.0, 0.0, numbers.start
    try:
        while ours.poll(60):
            got = ours.recv()
            if got[0] == "memory":
                memory = got[1]
                break
            at, outcome, text, seconds = got
            counts[outcome] += 1
            slowest = max(slowest, seconds)
            if outcome == "finding":
                findings.append({"file": f"{reader}:{at}", "what": text})
        else:
            findings.append({"file": f"{reader}:{at + 1}", "what": "the child hung"})
    except EOFError:
        findings.append({"file": f"{reader}:{at + 1}", "what": "the child died"})
    child.kill()
    child.join()
    return {"counts": dict(counts), "findings": findings, "slowest": slowest, "memory": memory}


def campaign(files: int, seed: int, minutes: float) -> list[dict[str, Any]]:
    """All readers in turn, a batch at a time, from where the kept result stopped until `files` are done."""
    each, deadline = -(-files // len(READERS)), time.monotonic() + 60 * minutes
    rows = _kept(seed)
    while time.monotonic() < deadline:
        todo = [row for row in rows if row["files"] < each]
        if not todo:
            break
        row = min(todo, key=lambda item: item["files"])
        numbers = range(row["files"], min(each, row["files"] + BATCH))
        found = batch(row["reader"], numbers, seed)
        row["files"] = numbers.stop
        for name in ("read", "refused", "finding"):
            row[name] += found["counts"].get(name, 0)
        row["findings"] = (row["findings"] + found["findings"])[:50]
        row["slowest_seconds"] = round(max(row["slowest_seconds"], found["slowest"]), 3)
        row["memory_mb"] = round(max(row["memory_mb"], found["memory"] / 1e6))
        print(row["reader"], row["files"], found["counts"], found["findings"][:3], flush=True)
        keep("fuzz", describe("numpy", "torch", "pyarrow", "safetensors"), rows)
    return rows


def _kept(seed: int) -> list[dict[str, Any]]:
    path = RESULTS / "fuzz.json"
    fresh = [
        {"reader": name, "seed": seed, "files": 0, "read": 0, "refused": 0, "finding": 0, "findings": [],
         "slowest_seconds": 0.0, "memory_mb": 0}
        for name in READERS
    ]  # fmt: skip
    if not path.is_file():
        return fresh
    known = {(row["reader"], row["seed"]): row for row in json.loads(path.read_text())["rows"]}
    return [known.get((row["reader"], seed), row) for row in fresh]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--quick", action="store_true", help="50 files of each reader, nothing kept")
    parser.add_argument("--only", help="READER:NUMBER, or one READER of --quick")
    asked = parser.parse_args()
    if asked.only and not asked.quick:
        reader, number = asked.only.split(":")
        signal.signal(signal.SIGALRM, _ring)
        with tempfile.TemporaryDirectory() as folder:
            print(MAKERS[reader](asked.seed, int(number))[1][:4000])
            print(one(reader, int(number), asked.seed, Path(folder)))
        return 0
    if asked.quick:
        names = READERS if asked.only is None else [asked.only]
        found = [item for name in names for item in batch(name, range(50), asked.seed)["findings"]]
        print(json.dumps(found, indent=1))
        return len(found)
    rows = campaign(asked.files, asked.seed, asked.minutes)
    print(json.dumps({"files": sum(row["files"] for row in rows), "findings": sum(row["finding"] for row in rows)}))
    return sum(len(row["findings"]) for row in rows)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
