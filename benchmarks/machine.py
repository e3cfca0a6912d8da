"""The machine a result was measured on, and where results are kept."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def describe(*packages: str) -> dict[str, Any]:
    """Processor, cores, load and versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    found = {name: metadata.version(name) for name in packages}
    load = os.getloadavg()[0]
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "made": made,
        **found,
    }


def keep(name: str, machine: dict[str, Any], rows: Any) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return path
