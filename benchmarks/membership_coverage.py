"""Do nominal 95 % intervals of attacks cover? Scores whose true area and rates are known exactly, and real models.

A score is a + b + m + e: of the record, of the target model, of membership, and noise, all normal, so that areas and
rates have closed forms. One record is attacked in 1, 4 or 16 targets, each trained on a random half.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pieces import Pieces, Task
from tacit.attacks import disparity, groups, measure
from tacit.core import Estimate, Scores
from tacit.core.randomness import Seeded
from tacit.study.membership import measured

Floats = NDArray[np.float64]
RECORD, TARGET, NOISE = 0.8, 0.15, 0.6
SPREAD = float(np.sqrt(RECORD**2 + TARGET**2 + NOISE**2))
GAINS = {"weak": 0.1, "middle": 0.7, "strong": 1.5, "other": 0.65}
"""What membership adds in the scores of four attacks on the same records and targets."""
FPR = 0.05


def true_area(gain: float) -> float:
    return float(stats.norm.cdf(gain / (SPREAD * np.sqrt(2))))


def true_rate(gain: float) -> float:
    return float(stats.norm.sf(stats.norm.isf(FPR) - gain / SPREAD))


def tables(rng: np.random.Generator, n: int, targets: int) -> list[Scores]:
    """Four attacks on the same records and targets; a third of each score's parts is shared between attacks."""
    member = np.argsort(rng.random((n, targets)), axis=0) < n // 2
    record, target = np.broadcast_to(np.arange(n)[:, None], member.shape), np.broadcast_to(range(targets), member.shape)
    shared = [rng.normal(size=shape) for shape in ((n, 1), (1, targets), (n, targets))]
    made = []
    for name, gain in GAINS.items():
        own = [rng.normal(size=part.shape) for part in shared]
        parts = [np.sqrt(1 / 3) * one + np.sqrt(2 / 3) * other for one, other in zip(shared, own, strict=True)]
        score = RECORD * parts[0] + TARGET * parts[1] + NOISE * parts[2] + gain * member
        flat = {"record": record.ravel(), "target": target.ravel()}
        made.append(Scores(score.ravel(), member.ravel(), attack=name, randomised=False, **flat))
    return made


def covers(found: Estimate, truth: float) -> bool:
    return found.lower <= truth <= found.upper


def known(targets: int, first: int, draws: int, n: int = 400) -> dict[str, int]:
    """How often each attack's own intervals, and those of the attack that looked best, hold the truth."""
    hits: dict[str, int] = {}

    def count(name: str, found: Estimate, truth: float) -> None:
        hits[name] = hits.get(name, 0) + covers(found, truth)

    for draw in range(first, first + draws):
        scores = tables(np.random.default_rng((7, targets, draw)), n, targets)
        for item, gain in zip([measure(each, (FPR,)) for each in scores], GAINS.values(), strict=True):
            count(f"{item.attack}: area", item.auc, true_area(gain))
            count(f"{item.attack}: rate", item.tpr_at_fpr[0][1], true_rate(gain))
        together = measured(scores, 0.95, (FPR,))
        best = max(range(len(scores)), key=lambda k: together[k].tpr_at_fpr[0][1].value or 0.0)
        gain = list(GAINS.values())[best]
        count("best of four: area", together[best].auc, true_area(gain))
        count("best of four: rate", together[best].tpr_at_fpr[0][1], true_rate(gain))
    return hits


def of_groups(first: int, draws: int, n: int = 600) -> dict[str, int]:
    """Advantage of three groups at thresholds of their own; groups are judged on one target, one row per record."""
    gains, hits = {"a": 0.2, "b": 0.8, "c": 1.6}, dict.fromkeys(("a", "b", "c"), 0)
    shuffles, groups.SHUFFLES = groups.SHUFFLES, 1  # p-values are not judged here
    for draw in range(first, first + draws):
        rng = np.random.default_rng((11, draw))
        group, member = rng.choice(list(gains), n, p=(0.5, 0.3, 0.2)), rng.random(n) < 0.5
        score = rng.normal(size=n) + member * np.array([gains[name] for name in group])
        scores = Scores(score, member, attack="known", randomised=False, group=group)
        half, _ = scores.split(Seeded(draw))
        for item in disparity(scores, Seeded(draw)):
            level = groups._threshold(half.scores, item.group)
            truth = stats.norm.sf(level - gains[item.group]) - stats.norm.sf(level)
            hits[item.group] += covers(item.advantage, float(truth))
    groups.SHUFFLES = shuffles
    return hits


def truths(first: int, pools: int, n: int = 400) -> list[float]:
    """Sums of the area and of the rate of ridge classifiers in closed form, over many fresh pools."""
    found = [_margins(np.random.default_rng((13, 10**6, pool)), n, 1) for pool in range(first, first + pools)]
    return [float(sum(item.auc().value for item in found)), float(sum(item.roc().at(FPR) for item in found))]


def ridge(targets: int, first: int, draws: int, n: int = 400) -> list[list[float]]:
    """Ends of the intervals (area: lower, upper; rate: lower, upper) of ridge classifiers attacked by their margin."""
    drawn = (np.random.default_rng((13, targets, draw)) for draw in range(first, first + draws))
    found = [measure(_margins(rng, n, targets), (FPR,)) for rng in drawn]
    return [[end for part in (item.auc, item.tpr_at_fpr[0][1]) for end in (part.lower, part.upper)] for item in found]


def _margins(rng: np.random.Generator, n: int, targets: int, width: int = 40) -> Scores:
    x, rule = rng.normal(size=(n, width)), np.random.default_rng(0).normal(size=width)
    sign = np.where(rng.random(n) < 1 / (1 + np.exp(-0.5 * x @ rule)), 1.0, -1.0)
    member = np.argsort(rng.random((n, targets)), axis=0) < n // 2
    gram = np.einsum("nk,ni,nj->kij", member.astype(float), x, x, optimize=True) + 5.0 * np.eye(width)
    pull = np.einsum("nk,ni->ki", member * sign[:, None], x, optimize=True)
    weight = np.linalg.solve(gram, pull[..., None])[..., 0]
    margin = sign[:, None] * (x @ weight.T)
    record, target = np.meshgrid(np.arange(n), np.arange(targets), indexing="ij")
    return Scores(
        margin.ravel(), member.ravel(), attack="margin", randomised=False,
        record=record.ravel(), target=target.ravel(),
    )  # fmt: skip


def run(pieces: Pieces, quick: bool = False) -> dict[str, Any]:
    """All intervals; a piece is a few draws."""
    draws, pools, step = (10, 100, 5) if quick else (500, 3000, 25)
    firsts, sizes = range(0, draws, step), (1, 4, 16)
    tasks: dict[str, Task] = {
        f"coverage, scores, {targets} targets, {first} + {step}": partial(known, targets, first, step)
        for targets in sizes
        for first in firsts
    }
    tasks |= {f"coverage, groups, {first} + {step}": partial(of_groups, first, step) for first in firsts}
    tasks |= {f"coverage, truth, {first}": partial(truths, first, 50) for first in range(0, pools, 50)}
    tasks |= {
        f"coverage, ridge, {targets} targets, {first} + {step}": partial(ridge, targets, first, step)
        for targets in sizes
        for first in firsts
    }
    found = pieces.run(tasks)
    rows = {"missing": len(tasks) - len(found), "known scores": [], "groups": {}, "ridge classifiers": []}
    for targets in sizes:
        made = [part for name, part in found.items() if name.startswith(f"coverage, scores, {targets} targets,")]
        rows["known scores"].append({"targets": targets, **_shares(made, step)})
    made = [part for name, part in found.items() if name.startswith("coverage, groups,")]
    rows["groups"] = {"groups of one target": _shares(made, step)}
    sums = [part for name, part in found.items() if name.startswith("coverage, truth,")]
    area, rate = (sum(part[k] for part in sums) / max(50 * len(sums), 1) for k in range(2))
    for targets in sizes:
        made = [part for name, part in found.items() if name.startswith(f"coverage, ridge, {targets} targets,")]
        ends = np.array([row for part in made for row in part]).reshape(-1, 4)
        inside = (ends[:, ::2] <= (area, rate)) & ((area, rate) <= ends[:, 1::2])
        rows["ridge classifiers"].append({
            "targets": targets, "draws": len(ends), "true area": area, "true rate": rate,
            "area": float(inside[:, 0].mean()) if len(ends) else None,
            "rate": float(inside[:, 1].mean()) if len(ends) else None,
        })  # fmt: skip
    print(json.dumps(rows, indent=1), flush=True)
    return rows


def _shares(made: list[dict[str, int]], step: int) -> dict[str, Any]:
    draws = step * len(made)
    return {"draws": draws, **{name: sum(part[name] for part in made) / draws for name in (made[0] if made else ())}}
