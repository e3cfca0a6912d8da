"""Canaries and starts: how much of a proven epsilon does each show?

    python benchmarks/worst_cases.py [--runs 1500]

The quickstart's private training (digits, 750 records, rate 0.2, 100 steps, epsilon 4 at delta 1e-5) in fleets, once
for every canary from a fresh start and once from a crafted one. `apart` is how many standard deviations the scores with
and without the canary lie apart, `error` its standard error; a fifth of the runs chooses the bound's threshold, 95 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from machine import describe, keep
from tacit.audits import CANARIES, demonstrate, play, stated
from tacit.audits.canary import pair
from tacit.core import Adjacency, source
from tacit.data import load
from tacit.fleet import Fleet
from tacit.loss import Plan
from tacit.study.fleets import runner
from tacit.study.fresh_model import crafted, fresh
from tacit.study.quickstart import large_steps, network, one_thread

STARTS = ("fresh", "crafted")


def shown(canary: str, start: str, runs: int, seed: int) -> dict[str, float]:
    """One game: its lower bound, read by the claimed event's curve, and how far apart its scores lie."""
    data, chance = load("digits"), source(seed)
    pool, held_out = np.split(chance.permutation(len(data.x)), [750])
    x, y = data.x[pool], data.y[pool]
    plan = Plan(750, 0.2, 100, 1.0).calibrated(epsilon=4.0, delta=1e-5)
    begin = fresh(network, x, y, chance)
    if start == "crafted":
        begin = crafted(begin, data.x[held_out], data.y[held_out])
    game = pair(x, y, CANARIES[canary], chance.generator(), Adjacency.ADD_REMOVE)
    scores = play(runner(Fleet(begin, large_steps), game, plan, chance), runs, chance)
    found = demonstrate(
        scores, claim=stated(plan, delta=1e-5), confidence=0.95, rng=chance, game="runs", canary=canary, planned=runs,
        failed=0, adjacency=Adjacency.ADD_REMOVE,
    )  # fmt: skip
    inside, outside = scores.members, scores.nonmembers
    apart = (inside.mean() - outside.mean()) / np.sqrt((inside.var() + outside.var()) / 2)
    told = {"epsilon_at_least": found[-1].bound.epsilon, "apart": float(apart), "error": 2 / np.sqrt(runs)}
    return {name: round(value, 3) for name, value in told.items()}


def table(rows: dict[str, dict[str, dict[str, float]]]) -> str:
    """The results as a table in Markdown: a row per start, a column per canary."""
    lines = [f"| | {' | '.join(rows)} |", "|---" * (1 + len(rows)) + "|"]
    for start in STARTS:
        cells = (
            f"{cell['epsilon_at_least']:.2f} ({cell['apart']:.2f})" for cell in (rows[name][start] for name in rows)
        )
        lines.append(f"| {start} start | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1500)
    given = parser.parse_args()
    with one_thread():
        rows = {name: {start: shown(name, start, given.runs, seed=11) for start in STARTS} for name in CANARIES}
    keep("worst-cases", {**describe("numpy", "torch"), "runs": given.runs}, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
