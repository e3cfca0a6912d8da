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
    found = {name: metadata.version(name) for name in packages}
    load = os.getloadavg()[0]
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "cpu": processor("cpu"),
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "made": made,
        **found,
    }


def processor(device: str) -> str:
    """The name of what computes there."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def keep(name: str, machine: dict[str, Any], rows: Any) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return path
