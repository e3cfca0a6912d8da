"""Does the panel ("what this audit would have caught") say how often faults are caught? Measured over 100 repeats.

    OMP_NUM_THREADS=1 python benchmarks/panel_chances.py [--quick] [--repeats 100] [--workers N] [--seconds S]

For each setting, a private training in a fleet, one audit is made with its panel: the chance that it refutes each usual
fault that can be planted. Then the fault is planted and the whole audit is made again and again, from its canary's runs
to its verdict, each time with fresh randomness. A chance agrees when its own interval and the exact interval of the
frequency (confidence 1 - 0.001 over all faults together) have a number in common; the correct training must be refuted
no more often than nominal. Finished repeats are kept in a file, so that an interrupted campaign goes on where it was.
Writes results/panel-chances.json. About 40 CPU minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import tacit
from machine import RESULTS, describe, keep
from tacit.audits import CANARIES
from tacit.audits.canary import Pair, pair
from tacit.audits.claims import stated
from tacit.audits.demonstration import demonstrate
from tacit.audits.scoring import play
from tacit.core import Adjacency, Claim, Demonstration, Source, lower_proportion, source, upper_proportion
from tacit.core.fault import FAULTS
from tacit.fleet import Fleet, Runs
from tacit.study.faults import would_catch
from tacit.study.fleets import runner

KEPT = RESULTS / "panel-chances.part.jsonl"
CORRECT = "the correct training"
RUNS, EACH, CONFIDENCE, DELTA = 400, 400, 0.95, 1e-5
"""Runs of an audit, runs of each fault's small game, and the audit's confidence."""
SETTINGS = {
    "much noise, small samples": tacit.Plan(200, 0.1, 20, 2.0),
    "less noise, all records": tacit.Plan(200, 1.0, 10, 4.0),
    "little noise": tacit.Plan(200, 0.2, 15, 1.0),
}
Repeat = tuple[str, str, int]


def descent(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def linear() -> nn.Module:
    return nn.Linear(64, 10)


@cache
def game(setting: str) -> tuple[Fleet, Pair, Claim]:
    """The fleet, the canary and the claim of a setting; the same in every process."""
    torch.set_num_threads(1)
    digits = load_digits()
    x, y = (digits.data[:200] / 16).astype(np.float32), digits.target[:200]
    made = pair(x, y, CANARIES["blank"], np.random.default_rng(7), Adjacency.ADD_REMOVE)
    return Fleet(linear, descent), made, stated(SETTINGS[setting].event, delta=DELTA)


def audited(setting: str, fault: str, chance: Source) -> tuple[Demonstration, ...]:
    """One whole audit of the setting with a fault planted, or of the correct training."""
    fleet, made, claim = game(setting)
    training = Runs(fleet, SETTINGS[setting])
    wrong = training if fault == CORRECT else training.planted(fault)
    assert wrong is not None
    scores = play(runner(fleet, made, wrong.schedule, chance), RUNS, chance)
    return demonstrate(
        scores, claim=claim, confidence=CONFIDENCE, rng=chance, game="fleet", canary="blank", planned=RUNS,
        failed=0, adjacency=Adjacency.ADD_REMOVE,
    )  # fmt: skip


def panel(setting: str) -> dict[str, dict[str, float]]:
    """What the audit of the correct training says it would have caught."""
    fleet, made, claim = game(setting)
    chance = source(11)
    shown = audited(setting, CORRECT, chance)[0]
    found = would_catch(fleet, made, SETTINGS[setting], claim, shown, EACH, chance)
    return {
        fault.name: {"chance": fault.chance.value, "lower": fault.chance.lower, "upper": fault.chance.upper}
        for fault in found
        if fault.chance is not None
    }


def refuted(setting: str, fault: str, number: int) -> bool:
    """Whether the audit with this number refutes; every repeat has a seed of its own."""
    seed = 1000 + number + 10_000 * (1 + [CORRECT, *FAULTS].index(fault)) + 1_000_000 * list(SETTINGS).index(setting)
    claim = game(setting)[2]
    return any(item.bound.contradicts(claim.bound) for item in audited(setting, fault, source(seed)))


def one(repeat: Repeat) -> tuple[Repeat, bool]:
    return repeat, refuted(*repeat)


def answers(repeats: Iterator[Repeat], workers: int) -> Iterator[tuple[Repeat, bool]]:
    """Repeats as they are done, by this process or by several."""
    if workers == 1:
        yield from map(one, repeats)
        return
    with ProcessPoolExecutor(workers) as pool:
        while batch := list(islice(repeats, 8 * workers)):
            yield from pool.map(one, batch)


def row(setting: str, fault: str, chance: dict[str, float] | None, found: list[bool], rows: int) -> dict[str, Any]:
    """One line of the result: the chance, the frequency with its limits, and whether they agree."""
    hits, repeats = sum(found), len(found)
    each = 1 - 1e-3 / (2 * rows)
    low, high = float(lower_proportion(hits, repeats, each)), float(upper_proportion(hits, repeats, each))
    told = {"chance": 1 - CONFIDENCE, "lower": 0.0, "upper": 1 - CONFIDENCE} if chance is None else chance
    agrees = low <= told["upper"] and told["lower"] <= high
    return {
        "setting": setting, "fault": fault, **told, "refuted": hits, "repeats": repeats,
        "frequency from": low, "frequency to": high, "agrees": agrees,
    }  # fmt: skip


def kept() -> dict[Repeat, bool]:
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {tuple(item[:3]): item[3] for item in map(json.loads, lines)}  # type: ignore[misc]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="one setting, 4 repeats, nothing is kept")
    options.add_argument("--repeats", type=int, default=100)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; the next run goes on")
    given = options.parse_args()
    repeats, settings = (4, list(SETTINGS)[:1]) if given.quick else (given.repeats, list(SETTINGS))
    begun, done = time.monotonic(), {} if given.quick else kept()
    panels = {setting: panel(setting) for setting in settings}
    cases = [(setting, fault) for setting in settings for fault in (CORRECT, *panels[setting])]
    asked = [(*case, number) for case in cases for number in range(repeats)]
    for repeat, found in answers((item for item in asked if item not in done), given.workers):
        done[repeat] = found
        if not given.quick:
            with KEPT.open("a") as file:
                file.write(json.dumps([*repeat, found]) + "\n")
        if time.monotonic() - begun > given.seconds:
            print(f"{len(done)} of {len(asked)} done")
            return
    rows = [
        row(*case, panels[case[0]].get(case[1]), [done[(*case, number)] for number in range(repeats)], len(cases))
        for case in cases
    ]
    for item in rows:
        print(item)
    if not given.quick:
        keep("panel-chances", describe("numpy", "torch"), rows)
        KEPT.unlink()


if __name__ == "__main__":
    main()
