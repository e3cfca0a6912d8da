"""The blind baseline: can members be told from outsiders without the model, from records, labels, and their interplay?

If so, an attack's success says nothing about the model (Das et al. 2024). Labels count: outsiders whose labels follow
another rule, come in other shares or are noisier are "found" by every attack, since a model is wrong about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..core import BadInput, Control, Measurement, Scores, Source, source
from ..core.evidence import BLIND_BASELINE
from .logistic import logistic
from .measurement import measure

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Randomness = Source | int | np.random.Generator | None
Look = Callable[[NDArray[np.intp], NDArray[np.intp]], tuple[Floats, Floats]]
"""(rows to learn from, rows to judge) -> what is looked at of both."""

CONFIDENCE = 0.999
FOLDS, INNER = 5, 4
FOLDED = 1.5
"""How much larger the spread over honest splits is than that of independent folds: 1.30 to 1.48 was measured for 1 to
100 features (what two folds teach each other is the same difference, whence the square root of 2)."""
RECORDS, NUMBERS, DIRECTIONS, CLASSES, BENDS = 20_000, 2 * 10**7, 64, 50, 16
"""Most records, numbers of their features, leading directions, classes and squared directions that are looked at."""


def blind_baseline(
    features: ArrayLike,
    member: ArrayLike,
    rng: Randomness,
    *,
    label: ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Measurement, Control]:
    """Classifiers that never saw the model must lose: logistic regressions from records and labels to membership.

    One looks at the features and the squares of their leading directions. The other looks at the labels: their shares,
    how well they suit the records, and whether the rule from record to label differs between members and outsiders.
    Every record is judged by classifiers that learned on other records, and the better of both is measured. Two plainer
    tests need no learning from membership and see smaller differences: of labels' shares, and of how well labels suit.
    """
    x, y = _matrix(features), np.asarray(member, dtype=bool)
    if y.shape != x.shape[:1]:
        raise BadInput("The blind baseline needs one row of features per record.")
    if min(np.count_nonzero(y), np.count_nonzero(~y)) < 2:
        raise BadInput("The blind baseline needs at least two members and two non-members.")
    chance = source(rng)
    rows = np.sort(chance.permutation(y.size)[:RECORDS])
    x, y = _thinned(x[rows]), y[rows]
    directions = _leading(x)
    bent = np.concatenate((x, directions[:, :BENDS] ** 2), axis=1)
    looks: dict[str, Look] = {"records": lambda learn, judge: (bent[learn], bent[judge])}
    if label is not None:
        looks["labels"] = interplay(directions, np.asarray(label)[rows], y, chance)
    fold = folds(y, FOLDS, chance)
    found = {name: _judged(look, y, fold) for name, look in looks.items()}
    areas = {name: _area(score, y, fold) for name, score in found.items()}
    tests = 2 * len(areas)
    level = special.ndtri(1 - (1 - CONFIDENCE) / (2 * tests))
    told = {
        f"from {name} {area:.3f}, by chance at most {0.5 + level * FOLDED * sd:.3f}": bool(
            area <= 0.5 + level * FOLDED * sd
        )
        for name, (area, sd) in areas.items()
    }
    if label is not None:
        told |= _plain_tests(directions, np.asarray(label)[rows], y, fold, (1 - CONFIDENCE) / tests)
    passed = all(told.values())
    text = f"area {'; '.join(told)}" + ("" if passed else f". {MEND}")
    best = max(areas, key=lambda name: areas[name][0])
    scores = Scores(_ranked(found[best], fold), y, attack=BLIND_BASELINE, randomised=False)
    measured = measure(scores, confidence=1 - (1 - confidence) / len(areas))
    return measured, Control(BLIND_BASELINE, "a classifier without the model stays at 0.5", text, passed)


MEND = "Members and outsiders must be drawn from one population at one time, and labelled alike: draw both at random"


def interplay(x: Floats, label: NDArray[np.generic], member: Flags, chance: Source) -> Look:
    """What labels say: their shares, how well they suit the records, and by whose rule, members' or outsiders'."""
    codes, shares = _codes(label)

    def look(learn: NDArray[np.intp], judge: NDArray[np.intp]) -> tuple[Floats, Floats]:
        inner = folds(member[learn], INNER, chance)
        within = np.empty((learn.size, 2))
        for k in range(INNER):
            within[inner == k] = _suiting(x, codes, member, learn[inner != k], learn[inner == k])
        across = _suiting(x, codes, member, learn, judge)
        return (
            np.concatenate((shares[learn], within), axis=1),
            np.concatenate((shares[judge], across), axis=1),
        )

    return look


def _plain_tests(
    x: Floats, label: NDArray[np.generic], member: Flags, fold: NDArray[np.intp], error: float
) -> dict[str, bool]:
    """Labels' shares (Pearson's test), and how well labels suit their records by a rule that knows no membership."""
    codes, shares = _codes(label)
    suits = np.empty(member.size)
    for k in np.unique(fold):
        suits[fold == k] = -_fit(x, codes, np.flatnonzero(fold != k), np.flatnonzero(fold == k))
    area, sd = _area(suits, member, fold)
    reach = special.ndtri(1 - error / 2) * sd
    if codes.shape[1] > 1:
        p_value = _pearson(codes, member)
    else:
        middle, width = _area(shares[:, 0], member, fold)
        p_value = float(2 * special.ndtr(-abs(middle - 0.5) / width))
    return {
        f"labels suit {area:.3f}, by chance {0.5 - reach:.3f} to {0.5 + reach:.3f}": bool(abs(area - 0.5) <= reach),
        f"labels' shares differ with p = {p_value:.2g}": p_value >= error,
    }


def _pearson(codes: Floats, member: Flags) -> float:
    """P-value of equal label shares; labels with fewer than ten records are taken together."""
    rare = codes.sum(axis=0) < 10
    table = np.column_stack((codes[:, ~rare], codes[:, rare].sum(axis=1)))
    counts = np.stack((table[member].sum(axis=0), table[~member].sum(axis=0)))
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    freedom = counts.shape[1] - 1
    return 1.0 if freedom < 1 else float(special.chdtrc(freedom, ((counts - expected) ** 2 / expected).sum()))


def folds(member: Flags, count: int, chance: Source) -> NDArray[np.intp]:
    """A fold for every record, members and outsiders spread evenly."""
    fold = np.zeros(member.size, dtype=np.intp)
    for side in (np.flatnonzero(member), np.flatnonzero(~member)):
        fold[side[chance.permutation(side.size)]] = np.arange(side.size) % count
    return fold


def _suiting(x: Floats, codes: Floats, member: Flags, learn: NDArray[np.intp], judge: NDArray[np.intp]) -> Floats:
    """How well a label suits its record by the rule of all, and by the members' rule more than by the outsiders'."""
    inside, outside = learn[member[learn]], learn[~member[learn]]
    together, mine, theirs = (_fit(x, codes, rows, judge) for rows in (learn, inside, outside))
    return np.stack((-together, theirs - mine), axis=1)


def _fit(x: Floats, codes: Floats, learn: NDArray[np.intp], judge: NDArray[np.intp]) -> Floats:
    """Squared distance of the judged labels from what ridge regression on the learned ones says of their records."""
    if not learn.size:
        return np.zeros(judge.size)
    a = np.concatenate((np.ones((learn.size, 1)), x[learn]), axis=1)
    weight = np.linalg.solve(
        a.T @ a + np.diag(np.r_[1e-9, np.full(x.shape[1], 1.0 + 0.01 * learn.size)]), a.T @ codes[learn]
    )
    return np.asarray(((codes[judge] - weight[0] - x[judge] @ weight[1:]) ** 2).sum(axis=1))


def _codes(label: NDArray[np.generic]) -> tuple[Floats, Floats]:
    """Labels to be foretold (one column per class, or the number itself), and their shares to be looked at."""
    if label.dtype.kind == "f" and bool((label != np.floor(label)).any()):
        value = (label - label.mean()) / max(float(label.std()), 1e-300)
        return value[:, None], np.stack((value, value**2), axis=1)
    names, place, count = np.unique(label, return_inverse=True, return_counts=True)
    kept = np.argsort(-count, kind="stable")[: CLASSES - 1]
    column = np.full(names.size, min(names.size, CLASSES) - 1)
    column[kept] = np.arange(kept.size)
    table = np.eye(int(column.max()) + 1)[column[place]]
    return table, np.concatenate((table, np.log(count)[place][:, None]), axis=1)


def _leading(x: Floats) -> Floats:
    """Leading directions of the standardised features, each of variance 1."""
    scale = x.std(axis=0)
    z = (x - x.mean(axis=0)) / np.where(scale > 0, scale, np.inf)
    _, size, turn = np.linalg.svd(z[:: max(1, len(z) // 4000)], full_matrices=False)
    kept = min(DIRECTIONS, int((size > 1e-9 * max(float(size[0]) if size.size else 0.0, 1e-300)).sum()))
    found = z @ turn[:kept].T
    return np.asarray(found / np.maximum(found.std(axis=0), 1e-300))


def _judged(look: Look, member: Flags, fold: NDArray[np.intp]) -> Floats:
    """Log-odds of every record, by classifiers that learned on the other folds."""
    score = np.zeros(member.size)
    for k in np.unique(fold):
        learn, judge = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if member[learn].all() or not member[learn].any():
            continue
        seen, asked = look(learn, judge)
        score[judge] = logistic(seen, member[learn])(asked)
    return score


def _area(score: Floats, member: Flags, fold: NDArray[np.intp]) -> tuple[float, float]:
    """Area under the curve within folds, weighted by their pairs, and its standard deviation had nothing been found.

    Mann and Whitney 1947: (n + m + 1) / (12 n m) for each fold, folds taken as independent.
    """
    total, pairs, variance = 0.0, 0.0, 0.0
    for k in np.unique(fold):
        inside, outside = score[(fold == k) & member], np.sort(score[(fold == k) & ~member])
        if not inside.size or not outside.size:
            continue
        here = inside.size * outside.size
        below = (np.searchsorted(outside, inside, "left") + np.searchsorted(outside, inside, "right")).sum() / 2
        total, pairs = total + float(below), pairs + here
        variance += here * (inside.size + outside.size + 1) / 12
    return (total / pairs, float(np.sqrt(variance)) / pairs) if pairs else (0.5, 1.0)


def _ranked(score: Floats, fold: NDArray[np.intp]) -> Floats:
    """Ranks within each fold, as classifiers of different folds have different scales."""
    ranked = np.empty(score.size)
    for k in np.unique(fold):
        rows = np.flatnonzero(fold == k)
        _, place, count = np.unique(score[rows], return_inverse=True, return_counts=True)
        ranked[rows] = (np.cumsum(count) - (count - 1) / 2)[place] / rows.size
    return ranked


def _thinned(x: Floats) -> Floats:
    """Features as they are, or, where they are very many, random sums of them."""
    width = max(DIRECTIONS, NUMBERS // max(len(x), 1))
    if x.shape[1] <= width:
        return x
    signs: Sequence[float] = (-1.0, 1.0)
    return np.asarray(x @ np.random.default_rng(0).choice(signs, (x.shape[1], width)) / np.sqrt(x.shape[1]))


def _matrix(features: ArrayLike) -> Floats:
    try:
        x = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("The blind baseline needs features that are numbers.") from None
    if not np.isfinite(x).all():
        raise BadInput("The blind baseline needs finite features.")
    return x.reshape(x.shape[0], -1)
