"""Is one group easier to find than another? Advantage by group, thresholds held out, tests corrected."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Estimate, GroupRisk, Scores, Source, clopper_pearson, source

Floats = NDArray[np.float64]
Randomness = Source | int | np.random.Generator | None
SHUFFLES = 2000


def disparity(scores: Scores, rng: Randomness, *, confidence: float = 0.95) -> list[GroupRisk]:
    """Advantage per group at a threshold of its own, chosen on one half of the rows and judged on the other.

    Thresholds chosen where they are judged exaggerate small groups' risk (Kulynych et al. 2022, section 5). Equality
    with the rest is tested by shuffling group labels among members and among non-members of the judging half.
    Edge cases: a group without members and non-members in both halves has no value ("n too small") and p-value 1.
    Caller ensures: rows are of different records, as the test treats them as independent.
    """
    if scores.group is None:
        raise BadInput("Group risk needs scores with a group in every row.")
    chance = source(rng)
    first, second = (part.scores for part in scores.split(chance))
    names = np.unique(scores.group)
    judged = [name for name in names if _judged(first, name) and _judged(second, name)]
    rows = [_risk(second, name, _threshold(first, name), chance, confidence) for name in judged]
    corrected = _holm([p for _, p in rows])
    known = {name: (row[0], p) for name, row, p in zip(judged, rows, corrected, strict=True)}
    return [GroupRisk(str(name), *known.get(name, (_too_small(second, name, confidence), 1.0))) for name in names]


def _too_small(scores: Scores, name: object, confidence: float) -> Estimate:
    return Estimate(None, -1.0, 1.0, confidence, int(np.count_nonzero(scores.group == name)), "n too small")


def _judged(scores: Scores, name: object) -> bool:
    inside = scores.group == name
    return bool((inside & scores.member).any() and (inside & ~scores.member).any())


def _threshold(scores: Scores, name: object) -> float:
    roc = scores.take(np.flatnonzero(scores.group == name)).roc()
    return float(roc.threshold[1:][np.argmax((roc.tpr - roc.fpr)[1:])])


def _risk(scores: Scores, name: object, threshold: float, chance: Source, confidence: float) -> tuple[Estimate, float]:
    hit, inside = scores.score >= threshold, np.asarray(scores.group == name)
    members, others = inside & scores.member, inside & ~scores.member
    each = (1 + confidence) / 2
    low_in, high_in = (float(end) for end in clopper_pearson(int(hit[members].sum()), int(members.sum()), each))
    low_out, high_out = (float(end) for end in clopper_pearson(int(hit[others].sum()), int(others.sum()), each))
    value = float(hit[members].mean() - hit[others].mean())
    n = int(inside.sum())
    estimate = Estimate(value, low_in - high_out, high_in - low_out, confidence, n)
    return estimate, _shuffled(hit, scores.member, inside, chance)


def _shuffled(hit: NDArray[np.bool_], member: NDArray[np.bool_], inside: NDArray[np.bool_], chance: Source) -> float:
    """P[a difference from the rest as large as this, had group labels meant nothing], two-sided."""
    if inside.all():
        return 1.0
    seen = abs(_gap(hit, member, inside))
    sides = [np.flatnonzero(member), np.flatnonzero(~member)]
    beyond = 0
    for _ in range(SHUFFLES):
        moved = inside.copy()
        for side in sides:
            moved[side] = inside[side[chance.permutation(side.size)]]
        beyond += abs(_gap(hit, member, moved)) >= seen - 1e-12
    return (beyond + 1) / (SHUFFLES + 1)


def _gap(hit: NDArray[np.bool_], member: NDArray[np.bool_], inside: NDArray[np.bool_]) -> float:
    def advantage(rows: NDArray[np.bool_]) -> float:
        members, others = rows & member, rows & ~member
        return float(hit[members].mean() if members.any() else 0.0) - float(hit[others].mean() if others.any() else 0.0)

    return advantage(inside) - advantage(~inside)


def _holm(values: list[float]) -> list[float]:
    """Correct p-values for several groups by Holm's step-down method."""
    order = np.argsort(values)
    corrected, running = np.empty(len(values)), 0.0
    for place, k in enumerate(order):
        running = max(running, min(1.0, (len(values) - place) * values[k]))
        corrected[k] = running
    return [float(p) for p in corrected]
