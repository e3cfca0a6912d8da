"""Does the panel ("what this audit would have caught") say how often faults are caught? Measured over 100 repeats.

    OMP_NUM_THREADS=1 python benchmarks/panel_chances.py [--quick] [--repeats 100] [--workers N] [--seconds S] [--nulls]

For each setting, a private training in a fleet, one audit is made with its panel: the chance that it refutes each usual
fault that can be planted. Then the fault is planted and the whole audit is made again and again, from its canary's runs
to its verdict, each time with fresh randomness. A chance agrees when its own interval and the exact interval of the
frequency (confidence 1 - 0.001 over all faults together) have a number in common. The correct training is repeated four
times as often, and must not be refuted more often than nominal: `level` is the exact chance that the test refutes it if
it leaks all that the claim allows. `--nulls` repeats the correct training alone.

A verdict needs one test of the claim on an audit's counts, so the bounds themselves are read for the first repeat of
each case only, where both ways must agree. Finished repeats are kept in a file, so that an interrupted campaign goes on
where it was. Writes results/panel-chances.json. About 20 CPU minutes.
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
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

import tacit
from machine import RESULTS, describe, keep
from tacit.audits import CANARIES
from tacit.audits.bounds.exact import ExactCurve
from tacit.audits.canary import Pair, pair
from tacit.audits.choice import counts
from tacit.audits.claims import limits, stated
from tacit.audits.demonstration import SHARE, chosen, demonstrate
from tacit.audits.power import Power
from tacit.audits.scoring import play
from tacit.core import (
    Adjacency,
    Claim,
    Counts,
    Demonstration,
    Scores,
    Source,
    lower_proportion,
    source,
    upper_proportion,
)
from tacit.core.fault import FAULTS
from tacit.fleet import Fleet, Runs
from tacit.study.faults import in_fleet, would_catch
from tacit.study.fleets import runner

KEPT = RESULTS / "panel-chances.part.jsonl"
CORRECT = "the correct training"
RUNS, EACH, CONFIDENCE, DELTA = 400, 400, 0.95, 1e-5
"""Runs of an audit, runs of each fault's small game, and the audit's confidence."""
NULLS = 4
"""Repeats of the correct training, for each repeat of a fault."""
RECORDS, FEATURES = 60, 16
SETTINGS = {
    "much noise, small samples": tacit.Plan(RECORDS, 0.1, 20, 2.0),
    "less noise, all records": tacit.Plan(RECORDS, 1.0, 10, 4.0),
    "little noise": tacit.Plan(RECORDS, 0.2, 15, 1.0),
}
Repeat = tuple[str, str, int]


def descent(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0)


def linear() -> nn.Module:
    """Public initial parameters that all runs share."""
    model = nn.Linear(FEATURES, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


@cache
def game(setting: str) -> tuple[Fleet, Pair, Claim]:
    """The fleet, the canary and the claim of a setting; the same in every process."""
    torch.set_num_threads(1)
    digits = load_digits()
    small = digits.images[:RECORDS].reshape(RECORDS, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(RECORDS, FEATURES)
    x, y = (small / 16).astype(np.float32), digits.target[:RECORDS]
    made = pair(x, y, CANARIES["blank"], np.random.default_rng(7), Adjacency.ADD_REMOVE)
    return Fleet(linear(), descent), made, stated(SETTINGS[setting].event, delta=DELTA)


def scores_of(setting: str, fault: str, chance: Source) -> Scores:
    """The runs of one audit of the setting with a fault planted, or of the correct training."""
    fleet, made, _ = game(setting)
    training = Runs(fleet, SETTINGS[setting])
    wrong = training if fault == CORRECT else training.planted(fault)
    assert wrong is not None
    return play(runner(fleet, made, wrong.schedule, chance), RUNS, chance)


def whole_audit(setting: str, fault: str, chance: Source) -> tuple[Demonstration, ...]:
    """One audit as a user makes it: runs, threshold, and both bounds."""
    return demonstrate(
        scores_of(setting, fault, chance), claim=game(setting)[2], confidence=CONFIDENCE, rng=chance, game="fleet",
        canary="blank", planned=RUNS, failed=0, adjacency=Adjacency.ADD_REMOVE,
    )  # fmt: skip


def verdict_alone(setting: str, fault: str, chance: Source) -> bool:
    """Whether one audit refutes: the test that `whole_audit` makes of the claim, without the searches for bounds."""
    claim = game(setting)[2]
    first, second = scores_of(setting, fault, chance).split(chance, share=SHARE)
    return tested(setting, counts(second, chosen(first, claim, CONFIDENCE)))


@cache
def tested(setting: str, found: Counts) -> bool:
    """Whether these counts refute the claim of a setting; many audits have equal counts."""
    claim = game(setting)[2]
    assert claim.event is not None
    return ExactCurve(claim.event, claim.bound.adjacency, DELTA).ruled_out(1.0, found, CONFIDENCE)


def panel(setting: str) -> dict[str, dict[str, float]]:
    """What the audit of the correct training says it would have caught."""
    fleet, made, claim = game(setting)
    chance = source(11)
    shown = whole_audit(setting, CORRECT, chance)[0]
    planted = in_fleet(fleet, made, SETTINGS[setting], chance)
    found = would_catch(planted, claim, shown, EACH, chance)
    return {
        fault.name: {"chance": fault.chance.value, "lower": fault.chance.lower, "upper": fault.chance.upper}
        for fault in found
        if fault.chance is not None
    }


def level(setting: str) -> float:
    """The largest chance that the test refutes a training which leaks all that the claim allows, over its rates.

    The fewest hits that refute are computed for every number of alarms, so the chance at each rate is exact.
    """
    claim, each = game(setting)[2], RUNS // 2 - round(SHARE * RUNS / 2)
    power = Power(claim, CONFIDENCE, each, each)
    fewest, alarms = np.array([power.fewest(k) for k in range(each + 1)]), np.arange(each + 1)
    rates = np.concatenate((np.geomspace(1e-4, 0.05, 40), np.linspace(0.05, 1.0, 96)[1:]))
    return max(
        float(np.sum(stats.binom.pmf(alarms, each, q) * stats.binom.sf(fewest - 1, each, p)))
        for q, p in zip(rates, limits(claim, rates), strict=True)
    )


def refuted(setting: str, fault: str, number: int) -> bool:
    """Whether the audit with this number refutes; every repeat has a seed of its own."""
    seed = 1000 + number + 10_000 * (1 + [CORRECT, *FAULTS].index(fault)) + 1_000_000 * list(SETTINGS).index(setting)
    found = verdict_alone(setting, fault, source(seed))
    if number == 0:
        claim, shown = game(setting)[2], whole_audit(setting, fault, source(seed))
        assert found == any(item.bound.contradicts(claim.bound) for item in shown)
    return found


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
    options.add_argument("--nulls", action="store_true", help="the correct training alone, nothing is written")
    options.add_argument("--repeats", type=int, default=100)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; the next run goes on")
    given = options.parse_args()
    repeats, settings = (4, list(SETTINGS)[:1]) if given.quick else (given.repeats, list(SETTINGS))
    begun, done = time.monotonic(), {} if given.quick else kept()
    panels = {setting: {} if given.nulls else panel(setting) for setting in settings}
    cases = [(setting, fault) for setting in settings for fault in (CORRECT, *panels[setting])]
    asked = {(*case, k) for case in cases for k in range(repeats * NULLS if case[1] == CORRECT else repeats)}
    for repeat, found in answers((item for item in sorted(asked) if item not in done), given.workers):
        done[repeat] = found
        if not given.quick:
            with KEPT.open("a") as file:
                file.write(json.dumps([*repeat, found]) + "\n")
        if time.monotonic() - begun > given.seconds:
            break
    found_of = {case: [done[repeat] for repeat in asked if repeat[:2] == case and repeat in done] for case in cases}
    rows = [row(*case, panels[case[0]].get(case[1]), found_of[case], len(cases)) for case in cases if found_of[case]]
    for item in rows:
        if item["fault"] == CORRECT:
            item["level"] = round(level(item["setting"]), 6)
        print(item)
    if not asked <= set(done):
        print(f"{len(asked & set(done))} of {len(asked)} done")
    elif not (given.quick or given.nulls):
        keep("panel-chances", describe("numpy", "torch"), rows)
        KEPT.unlink()


if __name__ == "__main__":
    main()
