"""Random legal events of the whole registry, at extremes, and calibration over the same ranges.

Every event is answered, or refused as Unsupported by a rule that its error names. Asked of every answer: no other
exception, no infinity unless something in the event tells all, lower at most upper, laws that certified ends obey (a
smaller delta, less noise and more repetitions cost no less), and CPU time (this process, one thread). Every question
has a seed of its own and its answer is kept in a file beside the results, so that an interrupted campaign goes on where
it was. Writes results/accounting-wild.json when all is done.
Run: OMP_NUM_THREADS=1 python benchmarks/accounting_wild.py [--quick] [--share N] [--seed N] [--seconds S]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from event_examples import Wild
from machine import describe
from tacit.core.adjacency import Adjacency
from tacit.core.errors import BadInput, Unsupported
from tacit.core.event import rescaled, walk
from tacit.core.events import (
    Allocation,
    ApproximateDP,
    Event,
    Gaussian,
    NonPrivate,
    PartitionSelection,
    Poisson,
    Repeat,
)
from tacit.loss import calibrate, privacy_loss

HERE = Path(__file__).parent
OUT = HERE / "results" / "accounting-wild.json"
KEPT = HERE / "results" / "accounting-wild.part.jsonl"
TELLS_ALL = NonPrivate, ApproximateDP, PartitionSelection
"""Events that may tell all with some probability, so that epsilon may be infinite."""
LAWS = 80.0
"""Answers that took at most so many milliseconds are asked for again in other forms, for the laws."""
Question = tuple[Event, Adjacency, int, float]


def question(wild: Wild) -> Question:
    group = int(wild.rng.integers(2, 6)) if wild.rng.random() < 0.15 else 1
    adjacency = list(Adjacency)[int(wild.rng.integers(3))]
    return wild.event(), adjacency, group, wild.log(1e-20, 0.5)


def asked(event: Event, adjacency: Adjacency, group: int, delta: float) -> dict[str, Any]:
    """One answer, or why there is none, with its time."""
    start = time.process_time()
    try:
        found = privacy_loss(event, adjacency, group=group).epsilon(delta)
        answer: dict[str, Any] = {"lower": found.lower, "upper": found.upper}
    except Unsupported as error:
        answer = {"unsupported": error.fix or "no theorem"}
    except Exception as error:  # the sweep is to find them all
        answer = {"raised": f"{type(error).__name__}: {error}"[:200]}
    answer["ms"] = 1e3 * (time.process_time() - start)
    told = any(isinstance(part, TELLS_ALL) for part in walk(event))
    if answer.get("upper") == math.inf and not told:
        answer["infinite"] = True
    kinds = {type(part) for part in walk(event)}
    answer["kind"] = "allocation" if Allocation in kinds else "group" if group > 1 and Poisson in kinds else "other"
    return answer


def broken_laws(event: Event, adjacency: Adjacency, group: int, delta: float, first: dict[str, Any]) -> list[str]:
    """Laws that the ends of other questions break: a certified upper end is never below a certified lower one."""
    if "upper" not in first or first["ms"] > LAWS:
        return []
    found = []
    if delta > 1e-15:
        stricter = asked(event, adjacency, group, delta / 50)
        if stricter["upper"] < max(first["lower"], first["upper"] * (1 - 2e-2) - 1e-6):
            found.append("a smaller delta costs less")
    noisier = asked(rescaled(event, 1.2), adjacency, group, delta)
    if noisier.get("lower", 0.0) > first["upper"]:
        found.append("more noise costs more")
    twice = asked(Repeat(event, 2), adjacency, group, delta)
    if twice.get("upper", math.inf) < first["lower"]:
        found.append("two cost less than one")
    return found


def one_event(*seed: int) -> dict[str, Any]:
    given = question(Wild(*seed))
    answer = asked(*given)
    broken = broken_laws(*given, answer)
    if broken or "raised" in answer or "infinite" in answer or answer["ms"] > 400:
        answer["event"] = str(given)
    return {**answer, "broken": broken}


def one_setting(*seed: int) -> dict[str, Any]:
    """Calibration of noise; a target that no noise misses or meets is an answer, too."""
    wild = Wild(*seed)
    given = {
        "epsilon": wild.log(0.01, 50), "delta": wild.log(1e-20, 0.1), "rate": wild.log(1e-6, 1.0),
        "steps": wild.whole(1, 10**7), "adjacency": list(Adjacency)[int(wild.rng.integers(3))],
    }  # fmt: skip
    start, answer = time.process_time(), {}
    try:
        found = calibrate(**given)
        if not found.epsilon.upper <= given["epsilon"]:
            answer["raised"] = f"above its target: {given}"
    except BadInput as error:
        answer["refused"] = error.message
    except Exception as error:
        answer["raised"] = f"{type(error).__name__}: {error}, {given}"[:400]
    return {**answer, "ms": 1e3 * (time.process_time() - start)}


def one_training(*seed: int) -> dict[str, Any]:
    """Poisson-sampled Gaussian training over a wide box."""
    wild = Wild(*seed)
    event = Repeat(Poisson(wild.log(1e-4, 1.0), Gaussian(wild.log(0.4, 20))), wild.whole(1, 10**6))
    delta = wild.log(1e-20, 1e-3)
    start, answer = time.process_time(), {}
    try:
        answer["gap"] = privacy_loss(event, "add-remove").epsilon(delta).gap
    except Exception as error:
        answer["raised"] = f"{event} {delta}: {error}"[:200]
    return {**answer, "ms": 1e3 * (time.process_time() - start)}


PARTS: dict[str, tuple[Callable[..., dict[str, Any]], int]] = {
    "events": (one_event, 5000), "calibrate": (one_setting, 1000), "training": (one_training, 1000),
}  # fmt: skip


def quantiles(values: list[float]) -> dict[str, float]:
    ranked = sorted(values) or [0.0]
    at = lambda share: round(ranked[min(int(share * len(ranked)), len(ranked) - 1)], 6)  # noqa: E731
    return {"median": round(statistics.median(ranked), 6), "99 %": at(0.99), "largest": round(ranked[-1], 6)}


def summary(part: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "count": len(answers),
        "ms": quantiles([item["ms"] for item in answers]),
        "raised": [item["raised"] for item in answers if "raised" in item],
    }
    if part == "training":
        return {**found, "gap": quantiles([item["gap"] for item in answers if "gap" in item])}
    if part == "calibrate":
        return {**found, "no such setting": dict(Counter(item["refused"] for item in answers if "refused" in item))}
    kinds = {
        kind: [item["ms"] for item in answers if item["kind"] == kind] for kind in ("other", "group", "allocation")
    }
    return {
        **found,
        "answered": sum("upper" in item for item in answers),
        "both ends": sum(item.get("lower", 0.0) > 0 for item in answers),
        "unsupported": dict(Counter(item["unsupported"] for item in answers if "unsupported" in item)),
        "ms by kind": {kind: quantiles(spent) for kind, spent in kinds.items()},
        "within 60 ms": {kind: round(statistics.mean([t <= 60 for t in ms]), 4) for kind, ms in kinds.items() if ms},
        "slowest": sorted((item for item in answers if "event" in item), key=lambda item: -item["ms"])[:5],
        "bad": [item for item in answers if item["broken"] or "raised" in item or "infinite" in item],
    }  # fmt: skip


def kept(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row.pop("part"), row.pop("index")): row for row in rows}


def remaining(seed: int, share: int, done: dict[tuple[str, int], dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for part, (_, count) in PARTS.items():
        yield from ((part, index) for index in range(count // share) if (part, index) not in done)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--share", type=int, default=1, help="run one in so many cases of the whole campaign")
    options.add_argument("--seed", type=int, default=16)
    options.add_argument("--seconds", type=float, default=math.inf, help="stop after so long; the next run goes on")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    share, begun = 20 if given.quick else given.share, time.monotonic()
    done = {} if given.quick else kept(KEPT)
    for part, index in remaining(given.seed, share, done):
        if time.monotonic() - begun > given.seconds:
            print(f"{len(done)} done")
            return
        done[part, index] = PARTS[part][0](given.seed, list(PARTS).index(part), index)
        if not given.quick:
            with KEPT.open("a") as file:
                file.write(json.dumps({"part": part, "index": index, **done[part, index]}) + "\n")
    found = {"machine": describe("numpy", "scipy")}
    for part in PARTS:
        found[part] = summary(part, [answer for (name, _), answer in sorted(done.items()) if name == part])
    text = json.dumps(found, indent=1)
    if not given.quick:
        OUT.write_text(text + "\n")
        KEPT.unlink()
    print(text)


if __name__ == "__main__":
    main()
