"""The medians of several runs of `training_speed_gpu.py`, mode by mode.

    python benchmarks/medians.py FILE FILE FILE

Ratios are to compiled plain training and to the fastest plain mode, each of its own run.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SHOWN = "examples_per_second", "of_plain", "of_fastest_plain"


def main(files: Sequence[str]) -> None:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in files:
        for name, rows in json.loads(Path(file).read_text(encoding="utf-8"))["workloads"].items():
            for row in rows:
                found.setdefault((name, row["mode"]), []).append(row)
    for (name, mode), rows in found.items():
        told = [[row[key] for row in rows if row.get(key) is not None] for key in SHOWN]
        medians = (f"{statistics.median(values):14,.2f}" if values else f"{'-':>14}" for values in told)
        print(f"{name:5} {mode:38}", *medians, f" {len(told[0])} of {len(rows)} runs")


if __name__ == "__main__":
    main(sys.argv[1:])
