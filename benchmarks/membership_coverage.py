"""Do nominal 95 % intervals of attacks cover? Scores whose true area and rates are known exactly, and real models.

A score is a + b + m + e: of the record, of the target model, of membership, and noise, all normal, so that areas and
rates have closed forms. One record is attacked in 1, 4 or 16 targets, each trained on a random half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

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


def known(draws: int, n: int = 400) -> list[dict[str, Any]]:
    """Each attack's own intervals, all together, and those of the attack that looked best."""
    rows = []
    for targets in (1, 4, 16):
        hits: dict[str, list[bool]] = {}
        for draw in range(draws):
            scores = tables(np.random.default_rng((7, targets, draw)), n, targets)
            each = [measure(item, (FPR,)) for item in scores]
            for item, gain in zip(each, GAINS.values(), strict=True):
                hits.setdefault(f"{item.attack}: area", []).append(covers(item.auc, true_area(gain)))
                hits.setdefault(f"{item.attack}: rate", []).append(covers(item.tpr_at_fpr[0][1], true_rate(gain)))
            together = measured(scores, 0.95, (FPR,))
            best = max(range(len(scores)), key=lambda k: together[k].tpr_at_fpr[0][1].value or 0.0)
            gain = list(GAINS.values())[best]
            both = covers(together[best].auc, true_area(gain)), covers(together[best].tpr_at_fpr[0][1], true_rate(gain))
            hits.setdefault("best of four: area", []).append(both[0])
            hits.setdefault("best of four: rate", []).append(both[1])
        rows.append({"targets": targets, "draws": draws, **{name: float(np.mean(v)) for name, v in hits.items()}})
        print(rows[-1], flush=True)
    return rows


def of_groups(draws: int, n: int = 600) -> dict[str, Any]:
    """Advantage of three groups at thresholds of their own; groups are judged on one target, one row per record."""
    gains, hits = {"a": 0.2, "b": 0.8, "c": 1.6}, {name: [] for name in ("a", "b", "c")}
    shuffles, groups.SHUFFLES = groups.SHUFFLES, 1  # p-values are not judged here
    for draw in range(draws):
        rng = np.random.default_rng((11, draw))
        group, member = rng.choice(list(gains), n, p=(0.5, 0.3, 0.2)), rng.random(n) < 0.5
        score = rng.normal(size=n) + member * np.array([gains[name] for name in group])
        scores = Scores(score, member, attack="known", randomised=False, group=group)
        first, _ = scores.split(Seeded(draw))
        for item in disparity(scores, Seeded(draw)):
            level = groups._threshold(first.scores, item.group)
            truth = stats.norm.sf(level - gains[item.group]) - stats.norm.sf(level)
            hits[item.group].append(covers(item.advantage, float(truth)))
    groups.SHUFFLES = shuffles
    found = {"groups of one target": {name: float(np.mean(values)) for name, values in hits.items()}, "draws": draws}
    print(found, flush=True)
    return found


def ridge(draws: int, n: int = 400, pools: int = 3000) -> list[dict[str, Any]]:
    """Ridge classifiers in closed form, attacked by their margin; the truth is the mean over many fresh pools."""
    truth = [_margins(np.random.default_rng((13, 10**6, pool)), n, 1) for pool in range(pools)]
    area = float(np.mean([item.auc().value for item in truth]))
    rate = float(np.mean([item.roc().at(FPR) for item in truth]))
    rows = []
    for targets in (1, 4, 16):
        found = [
            measure(_margins(np.random.default_rng((13, targets, draw)), n, targets), (FPR,)) for draw in range(draws)
        ]
        rows.append({
            "targets": targets, "draws": draws, "true area": area, "true rate": rate,
            "area": float(np.mean([covers(item.auc, area) for item in found])),
            "rate": float(np.mean([covers(item.tpr_at_fpr[0][1], rate) for item in found])),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


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


def run(quick: bool = False) -> dict[str, Any]:
    draws = 10 if quick else 500
    return {
        "known scores": known(draws),
        "groups": of_groups(draws),
        "ridge classifiers": ridge(draws, pools=100 if quick else 3000),
    }
