"""Random legal events of the whole registry, at extremes, and calibration over the same ranges.

Every event is answered, or refused as Unsupported by a rule that its error names. Asked of every answer: no other
exception, no infinity unless something in the event tells all, lower at most upper, laws that certified ends obey (a
smaller delta, less noise and more repetitions cost no less), agreement with every peer that knows the event and with
sums over all outcomes (`accounting_checks`), and CPU time (one thread). Every question has a seed of its own and its
answer is kept in a file beside the results, so that an interrupted campaign goes on where it was; `--workers` processes
share the questions. Writes results/accounting-wild.json when all is done. About 25 CPU minutes, most of them peers'.
Run: OMP_NUM_THREADS=1 python benchmarks/accounting_wild.py [--quick] [--share N] [--seed N] [--seconds S] [--workers N]
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
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from accounting_checks import checks
from event_examples import Wild
from machine import describe
from tacit.core.adjacency import Adjacency
from tacit.core.errors import BadInput, Unsupported
from tacit.core.event import rescaled, walk
from tacit.core.events import (
    Allocation,
    ApproximateDP,
    Compose,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
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
    """Laws that the ends of other questions break: a certified upper end is never below a certified lower one.

    More discrete Gaussian noise is not less with some more added, and may cost more at some deltas.
    """
    if "upper" not in first or first["ms"] > LAWS:
        return []
    found = []
    if delta > 1e-15:
        stricter = asked(event, adjacency, group, delta / 50)
        if stricter["upper"] < max(first["lower"], first["upper"] * (1 - 2e-2) - 1e-6):
            found.append("a smaller delta costs less")
    noisier = asked(rescaled(event, 1.2), adjacency, group, delta)
    divisible = not any(isinstance(part, DiscreteGaussian) for part in walk(event))
    if divisible and noisier.get("lower", 0.0) > first["upper"]:
        found.append("more noise costs more")
    twice = asked(Repeat(event, 2), adjacency, group, delta)
    if twice.get("upper", math.inf) < first["lower"]:
        found.append("two cost less than one")
    return found


def disagreements(
    event: Event, adjacency: Adjacency, group: int, delta: float, first: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Who was asked, and whose interval has no number in common with ours."""
    asked_of, missed = [], []
    for name, lower, upper in checks(event, adjacency, group, delta, first["upper"]):
        asked_of.append(name)
        if lower > first["upper"] * (1 + 1e-9) + 1e-12 or upper < first["lower"] * (1 - 1e-9) - 1e-12:
            missed.append(f"{name}: [{lower}, {upper}]")
    return asked_of, missed


def one_event(*seed: int) -> dict[str, Any]:
    given = question(Wild(*seed))
    answer = asked(*given)
    broken = broken_laws(*given, answer)
    if "upper" in answer:
        answer["checked"], missed = disagreements(*given, answer)
        broken += missed
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
        answer["ms"] = 1e3 * (time.process_time() - start)
        event = Repeat(Poisson(given["rate"], Gaussian(found.noise_multiplier)), given["steps"])
        again = privacy_loss(event, given["adjacency"]).epsilon(given["delta"])
        if not max(found.epsilon.upper, again.upper) <= given["epsilon"]:
            answer["raised"] = f"above its target: {given}"
    except BadInput as error:
        answer["refused"] = error.message
    except Exception as error:
        answer["raised"] = f"{type(error).__name__}: {error}, {given}"[:400]
    return {"ms": 1e3 * (time.process_time() - start), **answer}


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


def one_for_peers(*seed: int) -> dict[str, Any]:
    """An event that peers know: noise on samples, alone or beside another release."""
    wild = Wild(*seed)
    noise = wild.log(0.4, 20)
    inner = Gaussian(noise) if wild.rng.random() < 0.7 else Laplace(noise)
    event: Event = Repeat(Poisson(wild.log(1e-4, 1.0), inner), wild.whole(1, 10**4))
    if wild.rng.random() < 0.3:
        event = Compose((event, Repeat(Gaussian(wild.log(1.0, 20)), wild.whole(1, 20))))
    adjacency = Adjacency.REPLACE if wild.rng.random() < 0.3 and isinstance(inner, Gaussian) else Adjacency.ADD_REMOVE
    given = event, adjacency, 1, wild.log(1e-10, 1e-2)
    answer = asked(*given)
    answer["checked"], answer["broken"] = disagreements(*given, answer)
    if answer["broken"] or "raised" in answer:
        answer["event"] = str(given)
    return answer


PARTS: dict[str, tuple[Callable[..., dict[str, Any]], int]] = {
    "events": (one_event, 5000), "calibrate": (one_setting, 1000), "training": (one_training, 1000),
    "peers": (one_for_peers, 300),
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
    if part == "peers":
        bad = [item for item in answers if item["broken"] or "raised" in item]
        return {**found, "agrees with": dict(Counter(n for item in answers for n in item["checked"])), "bad": bad}
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
        "agrees with": dict(Counter(name for item in answers for name in item.get("checked", []))),
        "slowest": sorted((item for item in answers if "event" in item), key=lambda item: -item["ms"])[:5],
        "bad": [item for item in answers if item["broken"] or "raised" in item or "infinite" in item],
    }  # fmt: skip


def kept(path: Path) -> dict[tuple[str, int], dict[str, Any]]:
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row.pop("part"), row.pop("index")): row for row in rows}


def remaining(share: int, done: dict[tuple[str, int], dict[str, Any]]) -> Iterator[tuple[str, int]]:
    for part, (_, count) in PARTS.items():
        yield from ((part, index) for index in range(count // share) if (part, index) not in done)


def answered(seed: int, part: str, index: int) -> tuple[str, int, dict[str, Any]]:
    """One question of a worker."""
    warnings.simplefilter("ignore")
    return part, index, PARTS[part][0](seed, list(PARTS).index(part), index)


def answers_of(
    questions: Iterator[tuple[str, int]], seed: int, workers: int
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Answers as they come, by this process or by several; a batch of questions is out at a time."""
    if workers == 1:
        yield from (answered(seed, *question) for question in questions)
        return
    with ProcessPoolExecutor(workers) as pool:
        while batch := list(islice(questions, 64 * workers)):
            yield from pool.map(answered, [seed] * len(batch), *zip(*batch, strict=True), chunksize=8)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--share", type=int, default=1, help="run one in so many cases of the whole campaign")
    options.add_argument("--seed", type=int, default=16)
    options.add_argument("--seconds", type=float, default=math.inf, help="stop after so long; the next run goes on")
    options.add_argument("--workers", type=int, default=1, help="processes; set OMP_NUM_THREADS=1")
    given = options.parse_args()
    share, begun = 20 if given.quick else given.share, time.monotonic()
    done = {} if given.quick else kept(KEPT)
    for part, index, answer in answers_of(remaining(share, done), given.seed, given.workers):
        done[part, index] = answer
        if not given.quick:
            with KEPT.open("a") as file:
                file.write(json.dumps({"part": part, "index": index, **answer}) + "\n")
        if time.monotonic() - begun > given.seconds:
            print(f"{len(done)} done")
            return
    found = {"machine": describe("numpy", "scipy"), "workers": given.workers}
    for part in PARTS:
        found[part] = summary(part, [answer for (name, _), answer in sorted(done.items()) if name == part])
    text = json.dumps(found, indent=1)
    if not given.quick:
        OUT.write_text(text + "\n")
        KEPT.unlink()
    print(text)


if __name__ == "__main__":
    main()
