"""How often does an audit with a pilot, or of a release, refute what is true? Thousands of replays of every case.

    OMP_NUM_THREADS=1 python benchmarks/portfolio_nulls.py [--replays 1200] [--workers N] [--quick]

The cases are those of tests/statistical/test_audits_portfolio_validity.py: nothing is told, ties, few runs, failures,
and claims that are exactly met. Replays are shared by worker processes in blocks of seeds; a finished case is kept, and
the next run goes on with the others. About 20 CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from machine import RESULTS, describe, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "statistical"))
import test_audits_portfolio_validity as nulls

BLOCK = 50
"""Replays that a worker plays at a time."""
OUT = RESULTS / "portfolio-nulls.json"


def block(name: str, first: int, count: int) -> int:
    """How many of these replays refute."""
    with pytest.MonkeyPatch.context() as patch:
        return nulls.alarms(patch, name, count, first)


def alarms(name: str, replays: int, workers: int) -> int:
    """How many of all replays refute, whoever plays them."""
    firsts = range(0, replays, BLOCK)
    counts = [min(BLOCK, replays - first) for first in firsts]
    if workers == 1:
        return sum(map(block, [name] * len(counts), firsts, counts))
    with ProcessPoolExecutor(workers) as pool:
        return sum(pool.map(block, [name] * len(counts), firsts, counts))


def kept(replays: int) -> list[dict[str, Any]]:
    """Cases that were finished with as many replays."""
    rows = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
    return [row for row in rows if row["replays"] == replays and row["case"] in nulls.CASES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=1200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="20 replays, nothing is kept")
    given = parser.parse_args()
    replays = 20 if given.quick else given.replays
    rows = [] if given.quick else kept(replays)
    for name in nulls.CASES:
        if any(row["case"] == name for row in rows):
            continue
        found = alarms(name, replays, given.workers)
        most = int(stats.binom.ppf(1 - 1e-3, replays, nulls.ERROR))
        rows.append({"case": name, "replays": replays, "refuted": found, "nominal": nulls.ERROR, "allowed": most})
        print(rows[-1], flush=True)
        if not given.quick:
            keep("portfolio-nulls", describe("numpy", "scipy"), rows)


if __name__ == "__main__":
    main()
