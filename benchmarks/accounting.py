"""The accountant against its peers, and a sweep of 1,000 cases. Writes results/accounting.json.

Times are CPU seconds of this process (user and system, one thread), median of three after a first run; every case is
computed from nothing. Memory is the growth of the largest resident size over the sweep, after imports.
Run: OMP_NUM_THREADS=1 python benchmarks/accounting.py [cases]
"""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from accounting_reference import sweep
from tacit.core.events import Allocation, Gaussian, Poisson, Repeat
from tacit.core.interval import Interval
from tacit.loss import calibrate, privacy_loss

OUT = Path(__file__).parent / "results" / "accounting.json"
SETTINGS = {
    "A": (1.1, 256 / 60_000, 14_062, 1e-5, 2.381597),
    "B": (0.6, 0.01, 5000, 1e-5, 15.625251),
    "C": (9.4, 16_384 / 50_000, 2000, 1e-5, 7.424379),
    "D": (1.0, 0.001, 100_000, 1e-6, 1.861047),
    "E": (20.0, 1.0, 1000, 1e-6, 8.306225),
}


def timed(function: Callable[[], object], runs: int = 3) -> tuple[object, float]:
    """Result and median CPU milliseconds."""
    result, spent = function(), []
    for _ in range(runs):
        start = time.process_time()
        function()
        spent.append(1e3 * (time.process_time() - start))
    return result, statistics.median(spent)


def ours(noise: float, rate: float, steps: int, delta: float, adjacency: str = "add-remove") -> Interval:
    return privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), adjacency).epsilon(delta)


def google(noise: float, rate: float, steps: int, delta: float) -> float:
    import dp_accounting as peer
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(peer.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = peer.PoissonSampledDpEvent(rate, peer.GaussianDpEvent(noise))
    return float(accountant.compose(peer.SelfComposedDpEvent(event, steps)).get_epsilon(delta))


def microsoft(noise: float, rate: float, steps: int, delta: float) -> list[float]:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
    accountant = PRVAccountant(prvs=mechanism, max_self_compositions=steps, eps_error=0.01, delta_error=delta * 1e-3)
    return [float(value) for value in accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])]


def opacus(noise: float, rate: float, steps: int, delta: float) -> float:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    return float(accountant.get_epsilon(delta))


def settings() -> dict[str, object]:
    rows = {}
    for name, (noise, rate, steps, delta, reference) in SETTINGS.items():
        case = (noise, rate, steps, delta)
        found, mine = timed(lambda case=case: ours(*case), 9)
        row: dict[str, object] = {
            "epsilon": found.to_json(),
            "gap": found.gap,
            "holds_reference": bool(found.lower - 5e-7 <= reference <= found.upper + 5e-7),
            "ms": mine,
        }
        for peer in (google, microsoft, opacus):
            if peer is microsoft and rate == 1.0:
                continue
            value, spent = timed(lambda peer=peer, case=case: peer(*case), 1 if peer is microsoft else 3)
            row[peer.__name__] = {"epsilon": value, "ms": spent, "ratio": spent / mine}
        rows[name] = row
        print(name, json.dumps(row), flush=True)
    return rows


def swept(count: int) -> dict[str, object]:
    times, fallback, gaps, zeros, failed = [], 0, [], 0, []
    for case in sweep(count):
        start = time.process_time()
        found = ours(*case)
        times.append(1e3 * (time.process_time() - start))
        width = found.upper - found.lower
        fast = width <= max(1e-6 * found.upper, 1e-9)
        fallback += not fast
        gaps.append(found.gap)
        zeros += found.upper == 0
        if width > max(1e-3 * found.upper, 1e-6) or math.isinf(found.upper) or found.lower < 0:
            failed.append([*case, found.lower, found.upper])
    times.sort()
    return {
        "cases": count,
        "answered": len(times),
        "within_1e-6": count - fallback,
        "within_1e-3": count - len(failed),
        "not_within": failed,
        "zero": zeros,
        "median_ms": statistics.median(times),
        "p95_ms": times[int(0.95 * count)],
        "p99_ms": times[int(0.99 * count)],
        "largest_ms": times[-1],
        "median_gap": statistics.median(gaps),
    }


def others() -> dict[str, object]:
    noise, spent = timed(lambda: calibrate(epsilon=3.0, delta=1e-5, rate=256 / 60_000, steps=14_062))
    ten, ten_ms = timed(lambda: privacy_loss(Allocation(10, 100, Gaussian(3.0)), "add-remove").epsilon(1e-6), 1)
    sixty = Repeat(Allocation(1, 234, Gaussian(1.1)), 60)
    long, long_ms = timed(lambda: privacy_loss(sixty, "add-remove").epsilon(1e-5), 1)
    replace = {name: ours(*case[:4], "replace").to_json() for name, case in SETTINGS.items()}
    return {
        "calibrate_A_epsilon_3": {"noise_multiplier": noise.noise_multiplier, "ms": spent},
        "allocation_10_of_100_sigma_3": {"epsilon": ten.to_json(), "ms": ten_ms},
        "allocation_60_epochs_of_234_sigma_1.1": {"epsilon": long.to_json(), "ms": long_ms},
        "replace": replace,
    }


def main(count: int) -> None:
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    table = swept(count)
    table["memory_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps(table), flush=True)
    rest = others()
    print(json.dumps(rest), flush=True)
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    machine["load_average"] = os.getloadavg()[0]
    result = {"machine": machine, "sweep": table, **rest, "settings": settings()}
    OUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
