"""Exact noise beside opendp's, single releases, and audits of every release and of its twins.

    python benchmarks/mechanism.py speed [--quick]     draws per CPU second, ours and opendp's; microseconds a release
    python benchmarks/mechanism.py audits [--runs 200000] [--workers 1] [--quick]

Results go to mechanism-speed.json and mechanism-audits.json in benchmarks/results; audits kept there are not repeated.
Every audit has confidence 1 - 1e-5. A release must not be refuted; a twin must be.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import machine
import tacit
from mechanism_cases import Case, floating_twins, medians, numeric, scaled, selections
from tacit import mechanism
from tacit.core import source
from tacit.mechanism import draws

CONFIDENCE = 1 - 1e-5


def groups() -> dict[str, list[Case]]:
    """Releases as they are, and twins that must be refuted."""
    return {
        "release": numeric() + selections() + medians() + scaled(),
        "floating-point twin": floating_twins(),
        "half-noise twin": selections(2.0),
    }


def audited(kind: str, place: int, runs: int) -> dict[str, Any]:
    case, began = groups()[kind][place], time.process_time()
    evidence = tacit.audit_mechanism(
        case.release, case.pair, claim=case.claim, runs=runs, confidence=CONFIDENCE, rng=20261116 + place,
        delta=case.claim[1], adjacency=case.adjacency,
    )  # fmt: skip
    return {
        "kind": kind,
        "name": case.name,
        "runs": runs,
        "verdict": evidence.verdict.value,
        "lower": evidence.lower.bound.epsilon,
        "by": evidence.demonstrations[0].canary,
        "as expected": (evidence.verdict.value == "refuted") == (kind != "release"),
        "cpu seconds": round(time.process_time() - began, 1),
    }


def audits(path: Path, runs: int, workers: int) -> None:
    kept = json.loads(path.read_text())["audits"] if path.exists() else []
    done = {(row["kind"], row["name"]) for row in kept if row["runs"] >= runs}
    todo = [
        (kind, i) for kind, cases in groups().items() for i, case in enumerate(cases) if (kind, case.name) not in done
    ]
    with ProcessPoolExecutor(workers) as pool:
        for row in pool.map(audited, *zip(*todo, strict=True), [runs] * len(todo)) if todo else ():
            print(row, flush=True)
            kept = [old for old in kept if (old["kind"], old["name"]) != (row["kind"], row["name"])] + [row]
            wrong = [f"{old['kind']}: {old['name']}" for old in kept if not old["as expected"]]
            text = {
                "machine": machine.describe("numpy"),
                "confidence": CONFIDENCE,
                "not as expected": wrong,
                "audits": kept,
            }
            path.write_text(json.dumps(text, indent=1) + "\n")


def rate(draw: Callable[[int], object], count: int, repeats: int = 3) -> float:
    """Draws per CPU second, the best of a few repeats."""
    draw(100)
    best = 0.0
    for _ in range(repeats):
        began = time.process_time()
        draw(count)
        best = max(best, count / (time.process_time() - began))
    return best


def peers(scale: float) -> dict[str, Callable[[int], object]]:
    """opendp's own samplers of whole numbers, as vectors: input and output are Python lists, as it takes them."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    laplace = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")) >> dp.m.then_laplace(scale=scale)
    gaussian = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)) >> dp.m.then_gaussian(scale=scale)
    return {"laplace": lambda n: laplace([0] * n), "gaussian": lambda n: gaussian([0] * n)}


def speed(quick: bool) -> list[dict[str, Any]]:
    rows, chance = [], source(None)
    few, many = (3_000, 100_000) if quick else (50_000, 2_000_000)
    for scale in (1.0, 10.0, 100.0, 1e3, 1e6):
        exact = Fraction(scale)
        ours = {
            "laplace": lambda n, exact=exact: draws.discrete_laplace(exact, n, chance),
            "gaussian": lambda n, exact=exact: draws.discrete_gaussian(exact**2, n, chance),
        }
        for name, other in peers(scale).items():
            mine, theirs = rate(ours[name], many), rate(other, few)
            rows.append({"noise": name, "scale": scale, "tacit": mine, "opendp": theirs, "ratio": mine / theirs})
            print(rows[-1], flush=True)
    return rows


def singles(quick: bool) -> dict[str, float]:
    """Microseconds of a whole release without a ledger, from the cryptographic source."""
    scores, values = np.arange(10.0), np.random.default_rng(1).normal(5, 1, 100)
    calls = {
        "laplace, whole number": lambda: mechanism.laplace(100, sensitivity=1, epsilon=0.1),
        "laplace, real number": lambda: mechanism.laplace(1 / 3, sensitivity=1.0, epsilon=0.1),
        "gaussian, whole number": lambda: mechanism.gaussian(100, sensitivity=1, epsilon=0.1, delta=1e-6),
        "gaussian, real number": lambda: mechanism.gaussian(1 / 3, sensitivity=1.0, epsilon=0.1, delta=1e-6),
        "exponential, 10 candidates": lambda: mechanism.exponential(scores, sensitivity=1, epsilon=1),
        "permute_and_flip, 10 candidates": lambda: mechanism.permute_and_flip(scores, sensitivity=1, epsilon=1),
        "noisy_max with Laplace, 10 candidates": lambda: mechanism.noisy_max(
            scores, sensitivity=1, epsilon=1, noise="laplace"
        ),
        "respond": lambda: mechanism.respond(1, epsilon=1),
        "median of 100": lambda: mechanism.median(values, bounds=(0, 10), epsilon=1),
    }
    return {
        name: round(1e6 / rate(lambda n, call=call: [call() for _ in range(n)], 200 if quick else 3000), 1)
        for name, call in calls.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["speed", "audits"])
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path, default=machine.RESULTS)
    given = parser.parse_args()
    path = given.folder / f"mechanism-{given.part}.json"
    if given.part == "audits":
        return audits(path, 2000 if given.quick else given.runs, given.workers)
    text = {"machine": machine.describe("numpy", "opendp"), "draws per CPU second": speed(given.quick)}
    path.write_text(json.dumps({**text, "microseconds a release": singles(given.quick)}, indent=1) + "\n")
    return print(path.read_text())


if __name__ == "__main__":
    main()
