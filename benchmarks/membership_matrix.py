"""Kinds of model x forms of output: what does the default attack find, beside a plain implementation on full precision?

Each kind is trained 12 times on random halves of one pool, in complementary pairs. Each model is attacked in turn with
the others as references, less its own complement. The target answers in one of five forms, its references in full
precision, as somebody has who attacks another's service with models of their own. The plain implementations are a page
of numpy below, after the papers, and see full-precision outputs of the target too.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pieces import Pieces
from tacit.attacks import ATTACKS
from tacit.core import Scores
from tacit.core.randomness import Seeded
from tacit.study.outputs import Reading
from tacit.study.subsets import subsets

Array = NDArray[Any]
Rates = dict[str, dict[str, Array]]
"""Rates of the chosen and of the best attack, by false-positive rate, a number for each target."""
MODELS = 12
AUTO = ("loss", "modified-entropy", "lira", "rmia", "student", "combined")
FORMS: dict[str, Callable[[Array], Array]] = {
    "float64": lambda told: told,
    "float32": lambda told: told.astype(np.float32),
    "float16": lambda told: told.astype(np.float16),
    "4 decimals": lambda told: told.round(4),
    "labels": lambda told: told.argmax(axis=1),
}
FPRS = ("0.01", "0.001")
BOOSTERS = ("xgboost", "lightgbm", "catboost")
LEAST, ERRORS = 0.9, 2.0
"""Share of the other rate that must be found, and standard errors of the difference by which a cell must fall short to
be beyond chance. Both rates are of the same 12 targets, so the error is that of the paired differences."""


def kinds(quick: bool) -> dict[str, Callable[[int], Any]]:
    """Twenty ways to train a classifier; those of libraries that are not installed are left out."""
    from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree

    found: dict[str, Callable[[int], Any]] = {
        "logistic": lambda seed: linear_model.LogisticRegression(C=100.0, max_iter=100),
        "logistic, regularised": lambda seed: linear_model.LogisticRegression(C=0.1, max_iter=100),
        "ridge": lambda seed: linear_model.RidgeClassifier(alpha=0.1),
        "linear SVM": lambda seed: svm.LinearSVC(C=1.0, max_iter=300),
        "kernel SVM": lambda seed: svm.SVC(C=10.0, decision_function_shape="ovr"),
        "naive Bayes": lambda seed: naive_bayes.GaussianNB(),
        "3 neighbours": lambda seed: neighbors.KNeighborsClassifier(3),
        "10 neighbours, by distance": lambda seed: neighbors.KNeighborsClassifier(10, weights="distance"),
        "tree": lambda seed: tree.DecisionTreeClassifier(random_state=seed),
        "tree, leaves of 5": lambda seed: tree.DecisionTreeClassifier(min_samples_leaf=5, random_state=seed),
        "forest of 20": lambda seed: ensemble.RandomForestClassifier(20, random_state=seed),
        "forest of 100": lambda seed: ensemble.RandomForestClassifier(100, random_state=seed),
        "forest, leaves of 3": lambda seed: ensemble.RandomForestClassifier(50, min_samples_leaf=3, random_state=seed),
        "extra trees": lambda seed: ensemble.ExtraTreesClassifier(50, random_state=seed),
        "bagging": lambda seed: ensemble.BaggingClassifier(n_estimators=15, random_state=seed),
        "network of 64": lambda seed: neural_network.MLPClassifier((64,), max_iter=60, random_state=seed),
        "network of 256": lambda seed: neural_network.MLPClassifier(
            (256,), learning_rate_init=3e-3, max_iter=30, random_state=seed
        ),
    }  # fmt: skip
    if quick:
        return {name: found[name] for name in ("logistic", "forest of 20", "tree")}
    found.update(_boosters())
    return found


def absent() -> list[str]:
    """Libraries of boosters that are not installed: their kinds of model are not measured."""
    return [name for name in BOOSTERS if importlib.util.find_spec(name) is None]


def _boosters() -> dict[str, Callable[[int], Any]]:
    """One booster of each library that is installed."""
    found: dict[str, Callable[[int], Any]] = {}
    try:
        from xgboost import XGBClassifier

        found["XGBoost"] = lambda seed: XGBClassifier(n_estimators=15, n_jobs=1, random_state=seed)
    except ImportError:
        pass
    try:
        from lightgbm import LGBMClassifier

        found["LightGBM"] = lambda seed: LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1, random_state=seed)
    except ImportError:
        pass
    try:
        from catboost import CatBoostClassifier

        found["CatBoost"] = lambda seed: CatBoostClassifier(
            iterations=10, depth=3, verbose=0, thread_count=1, random_seed=seed, allow_writing_files=False
        )
    except ImportError:
        pass
    return found


def data(folder: Path, name: str, records: int) -> tuple[Array, Array]:
    """So many records of one data set, drawn at random."""
    if name == "adult":
        import pandas

        table = pandas.read_csv(folder / "adult.csv.gz").sample(records, random_state=0)
        y = table.pop("income").str.contains(">50K").to_numpy().astype(np.int64)
        table = table.drop(columns="split")
        x = pandas.get_dummies(table, dtype=float).to_numpy()
        return (x - x.mean(0)) / np.maximum(x.std(0), 1e-9), y
    stored = np.load(folder / f"{name}.npz")
    x, y = (stored["x"], stored["y"]) if "x" in stored.files else (stored["x_train"], stored["y_train"])
    rows = np.random.default_rng(0).permutation(len(x))[:records]
    x, y = np.asarray(x[rows], dtype=np.float64), np.asarray(y[rows]).astype(np.int64)
    if x.ndim > 2:
        x = x.reshape(len(x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(x), -1) / 255
    return x, np.unique(y, return_inverse=True)[1].astype(np.int64)


def told(model: Any, x: Array, classes: int) -> Array:
    """Shares or decision values, one column per class."""
    if hasattr(model, "predict_proba"):
        found = np.zeros((len(x), classes))
        found[:, np.asarray(model.classes_).astype(int)] = model.predict_proba(x)
        return found
    values = model.decision_function(x)
    values = values if values.ndim == 2 else np.stack((np.zeros(len(x)), values), axis=1)
    found = np.full((len(x), classes), values.min())
    found[:, np.asarray(model.classes_).astype(int)] = values
    return found


def plain(target: Array, others: Array, member: NDArray[np.bool_], y: Array, shares: bool) -> dict[str, Array]:
    """LiRA (Carlini et al. 2022, online, one variance), RMIA (Zarifzadeh et al. 2024, gamma 1), calibrated loss."""
    both = np.concatenate((target[:, None], others), axis=1)
    p = both if shares else special.softmax(both, axis=2)
    own = np.take_along_axis(p, y[:, None, None], axis=2)[..., 0]
    own = np.clip(own, 1e-6, 1 - 1e-6)
    phi, loss = np.log(own) - np.log(1 - own), -np.log(own)
    inside, outside = member, ~member
    mean_in = (phi[:, 1:] * inside).sum(1) / np.maximum(inside.sum(1), 1)
    mean_out = (phi[:, 1:] * outside).sum(1) / np.maximum(outside.sum(1), 1)
    v_in = ((phi[:, 1:] - mean_in[:, None])[inside] ** 2).mean() + 1e-12
    v_out = ((phi[:, 1:] - mean_out[:, None])[outside] ** 2).mean() + 1e-12
    lira = -((phi[:, 0] - mean_in) ** 2) / (2 * v_in) + (phi[:, 0] - mean_out) ** 2 / (2 * v_out)
    ratio = own[:, 0] / own[:, 1:].mean(1)
    rmia = (ratio[:, None] >= ratio[None, :]).mean(1) + 1e-6 * ratio
    calibrated = (loss[:, 1:] * outside).sum(1) / np.maximum(outside.sum(1), 1) - loss[:, 0]
    return {"lira": lira, "rmia": rmia, "calibrated": calibrated}


def rates(scores: list[tuple[Array, NDArray[np.bool_]]]) -> dict[str, Array]:
    """True-positive rates of one attack at each false-positive rate, a number for each target."""
    curves = [Scores(s, m, attack="a", randomised=False).roc() for s, m in scores]
    return {fpr: np.array([curve.at(float(fpr)) for curve in curves]) for fpr in FPRS}


def best(attacks: dict[str, dict[str, Array]]) -> dict[str, Array]:
    """Of several attacks the one with the highest mean, for each false-positive rate by itself."""
    return {fpr: max((found[fpr] for found in attacks.values()), key=lambda each: float(each.mean())) for fpr in FPRS}


def means(each: dict[str, Array]) -> dict[str, float]:
    return {fpr: round(float(found.mean()), 4) for fpr, found in each.items()}


def over(each: dict[str, Array], other: dict[str, Array]) -> dict[str, list[float]]:
    """By how much a rate is above `LEAST` of another's, with the standard error of that over targets."""
    gaps = {fpr: each[fpr] - LEAST * other[fpr] for fpr in FPRS}
    return {fpr: [_round(gap.mean()), _round(gap.std(ddof=1) / np.sqrt(gap.size))] for fpr, gap in gaps.items()}


def one(make: Callable[[int], Any], x: Array, y: Array, seed: int) -> dict[str, Any]:
    """One kind of model on one data set, in all forms."""
    started, classes = time.time(), int(y.max()) + 1
    member = subsets(len(x), MODELS, len(x) // 2, Seeded(seed))
    models = [make(k).fit(x[rows], y[rows]) for k, rows in enumerate(member.T)]
    outputs = np.stack([told(model, x, classes) for model in models], axis=1)
    shares, games = hasattr(models[0], "predict_proba"), []
    for k in range(MODELS):
        paired = (member != member[:, [k]]).all(axis=0)
        games.append((k, np.setdiff1d(np.flatnonzero(~paired), [k])))
    by_hand: dict[str, list[Any]] = {}
    for k, others in games:
        for name, score in plain(outputs[:, k], outputs[:, others], member[:, others], y, shares).items():
            by_hand.setdefault(name, []).append((score, member[:, k]))
    reference = best({name: rates(part) for name, part in by_hand.items()})
    forms = {form: attacked(outputs, member, y, games, show) for form, show in FORMS.items()}
    sides = {"train accuracy": member.T, "test accuracy": ~member.T}
    accuracy = {
        name: float(np.mean([m.score(x[r], y[r]) for m, r in zip(models, side, strict=True)]))
        for name, side in sides.items()
    }
    return {
        **{name: round(value, 3) for name, value in accuracy.items()},
        "plain": means(reference),
        "best on logits": means(forms["float64"]["best"]),
        "forms": {form: told_of(found, reference, forms["float64"]) for form, found in forms.items()},
        "seconds": round(time.time() - started, 1),
    }


def told_of(found: Rates, reference: dict[str, Array], full: Rates) -> dict[str, Any]:
    """What is kept of one form: mean rates, and how they stand to the plain implementation, or to float64."""
    kept: dict[str, Any] = {kind: means(each) for kind, each in found.items()}
    if found is full:
        return {**kept, "over plain": {kind: over(each, reference) for kind, each in found.items()}}
    return {**kept, "over float64": {kind: over(each, full[kind]) for kind, each in found.items()}}


def attacked(outputs: Array, member: NDArray[np.bool_], y: Array, games: list[Any], show: Any) -> Rates:
    """All default attacks on targets that answer in one form; references answer in full."""
    found: dict[str, list[Any]] = {}
    for k, others in games:
        answer = show(outputs[:, k])
        reading = Reading.of(answer, y)
        taught = [outputs[:, j] for j in others]
        read = reading.coarsest(taught)
        target = reading.observe([answer], member[:, [k]], read)
        references = reading.observe(taught, member[:, others], read)
        for name in AUTO:
            scores = ATTACKS[name](target, references)
            found.setdefault(name, []).append((scores.score, scores.member))
    each = {name: rates(part) for name, part in found.items()}
    return {"combined": each["combined"], "best": best(each)}


def _cell(folder: Path, name: str, kind: str, records: int, seed: int, quick: bool) -> dict[str, Any]:
    """One cell: one kind of model on one data set."""
    warnings.simplefilter("ignore")
    row = {"data": name, "kind": kind, **one(kinds(quick)[kind], *data(folder, name, records), seed)}
    print(name, kind, row["plain"]["0.01"], row["forms"]["float64"], flush=True)
    return row


def run(
    folder: Path,
    quick: bool = False,
    records: int = 600,
    seed: int = 0,
    pieces: Pieces | None = None,
    only: tuple[str | None, str | None] = (None, None),
) -> dict[str, Any]:
    """The matrix, and what it says: cells below 0.9 of the plain implementation, and forms that lose over a tenth.

    `only` names one data set and one kind of model to measure; cells that were finished before are read all the same.
    """
    pieces, records = pieces or Pieces(), 200 if quick else records
    cells = {
        (name, kind): f"matrix of {MODELS} targets, {name}, {kind}, {records}, {seed}"
        for name in (("location30",) if quick else ("adult", "mnist", "location30"))
        for kind in kinds(quick)
    }
    found = pieces.run({
        key: partial(_cell, folder, *cell, records, seed, quick)
        for cell, key in cells.items()
        if all(asked in (None, part) for asked, part in zip(only, cell, strict=True))
    })  # fmt: skip
    found = {**pieces.done(), **found}
    rows = [found[key] for key in cells.values() if key in found]
    about = {"records": records, "models": MODELS, "targets": MODELS, "seed": seed, "absent": absent()}
    return {**about, "missing": len(cells) - len(rows), **(judged(rows) if rows else {}), "matrix": rows}


def judged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Where the default falls short at a false-positive rate of 1 %, for its chosen attack and for its best one.

    Cells below are counted without any allowance; those below by more than two standard errors stand by themselves.
    """
    found: dict[str, Any] = {"cells": len(rows), "errors": ERRORS}
    for kind in ("combined", "best"):
        plain = [(_here(row), *row["forms"]["float64"]["over plain"][kind]["0.01"]) for row in rows]
        lossy = [
            (f"{_here(row)}, {form}", *row["forms"][form]["over float64"][kind]["0.01"])
            for row in rows
            for form in ("float32", "float16", "4 decimals")
        ]
        for name, cells in (("below 0.9 of plain", plain), ("forms below 0.9 of float64", lossy)):
            found[f"{kind}: {name}"] = [where for where, gap, _ in cells if gap < 0]
            found[f"{kind}: {name} beyond chance"] = [where for where, gap, error in cells if gap < -ERRORS * error]
        for fpr in FPRS:
            told = {form: [row["forms"][form][kind][fpr] for row in rows] for form in FORMS}
            found[f"{kind}: mean rate at {fpr}"] = {form: _round(np.mean(part)) for form, part in told.items()}
    return {
        **found,
        **{f"plain: mean rate at {fpr}": _round(np.mean([row["plain"][fpr] for row in rows])) for fpr in FPRS},
    }


def _here(row: dict[str, Any]) -> str:
    return f"{row['data']}: {row['kind']}"


def _round(value: Any) -> float:
    return round(float(value), 4)
