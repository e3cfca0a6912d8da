"""From a table to a page, as a stranger would: init, train and bracket of 50,000 x 15 rows, timed by the clock.

    python benchmarks/front_door.py [--quick] [--rows 50000]

Made-up people: seven measurements, an age, six categories and a label. The whole way may take three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from machine import describe

RESULT = Path(__file__).parent / "results" / "front-door.json"
ALLOWED = 180.0
SIZES = (2, 3, 5, 8, 12, 30)
"""How many words each category has."""


def table(path: Path, rows: int) -> None:
    """Write the table: 15 columns, the last of them the label."""
    rng = np.random.default_rng(11)
    numbers = np.round(rng.normal(50, 15, (rows, 7)), 1)
    age = rng.integers(18, 90, rows)
    words = [rng.integers(0, size, rows) for size in SIZES]
    odds = (numbers[:, 0] - 50) / 15 + 0.8 * (age - 50) / 20 + 0.7 * words[0] - 1
    ill = np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")
    header = [*(f"n{k}" for k in range(7)), "age", *(f"c{k}" for k in range(6)), "ill"]
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(header) + "\n")
        for k in range(rows):
            cells = [*numbers[k].astype(str), str(age[k]), *(f"w{part[k]}" for part in words), ill[k]]
            file.write(",".join(cells) + "\n")


def timed(*words: str, folder: Path) -> float:
    """Seconds that one verb takes, with the start of Python."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "tacit", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)
    if done.returncode:
        raise SystemExit(f"tacit {words[0]}: {done.stderr[-500:]}")
    return round(time.perf_counter() - started, 1)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--rows", type=int, default=50_000)
    asked = options.parse_args()
    rows = 500 if asked.quick else asked.rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table(folder / "people.csv", rows)
        seconds = {
            "init": timed("init", "people.csv", "--label", "ill", folder=folder),
            "train": timed("train", "people.run.toml", "--out", "people", folder=folder),
            "bracket": timed("bracket", "people", folder=folder),
        }
        page = (folder / "people-bracket" / "report.html").stat().st_size
    total = round(sum(seconds.values()), 1)
    found = {
        "rows": rows, "columns": 15, "seconds": seconds, "total": total, "allowed": ALLOWED, "met": total <= ALLOWED,
        "page_bytes": page, "machine": describe("numpy", "torch"),
    }  # fmt: skip
    print(json.dumps(found))
    if not asked.quick:
        RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
