"""Does the attack name the right people, do its intervals cover, and does it see splits that are not honest?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.attacks import ATTACKS, leave_one_out, measure
from tacit.core import Observations
from tacit.core.randomness import Seeded
from tacit.study.reference_models import subsets
from tacit.study.risk import records

Array = NDArray[Any]
Data = tuple[Array, Array, NDArray[np.bool_]]


def groups(seed: int, n: int, apart: float = 4.0) -> tuple[Array, Array]:
    """Four clear groups in six dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    return apart * np.eye(6)[y] + rng.normal(size=(n, 6)), y


def planted(draws: int, n: int = 1000, references: int = 16) -> list[dict[str, Any]]:
    """Ten records with wrong labels among `n`, five kinds of model: how many of them are named, and who else?"""
    from sklearn import ensemble, linear_model, neighbors, neural_network, tree

    kinds: dict[str, Callable[[int], Any]] = {
        "forest of 50": lambda seed: ensemble.RandomForestClassifier(50, random_state=seed),
        "extra trees": lambda seed: ensemble.ExtraTreesClassifier(30, random_state=seed),
        "tree": lambda seed: tree.DecisionTreeClassifier(random_state=seed),
        "1 neighbour": lambda seed: neighbors.KNeighborsClassifier(1),
        "network of 128": lambda seed: neural_network.MLPClassifier(
            (128,), learning_rate_init=1e-2, max_iter=150, tol=0, n_iter_no_change=150, random_state=seed
        ),
        "logistic (memorises nothing)": lambda seed: linear_model.LogisticRegression(C=1.0),
    }
    rows = []
    for name, make in kinds.items():
        right, wrong, named_at_all = [], 0, 0
        for draw in range(max(1, draws // 5) if "network" in name else draws):
            x, y = groups(draw, n, apart=6.0)
            rng = np.random.default_rng((draw, 1))
            hidden = rng.choice(n, 10, replace=False)
            y[hidden] = (y[hidden] + rng.integers(1, 4, 10)) % 4
            member = subsets(n, references, n // 2, Seeded(draw))
            told = np.stack([make(k).fit(x[rows], y[rows]).predict_proba(x) for k, rows in enumerate(member.T)], axis=1)
            seen = Observations.from_probabilities(told, y, member=member)
            named = {item.record for item in records(seen, Seeded((draw, 2)[0] + 10**6))["exposures"]}
            right.append(len(named & set(hidden.tolist())))
            wrong, named_at_all = wrong + len(named - set(hidden.tolist())), named_at_all + len(named)
        rows.append({
            "kind": name, "draws": len(right), "planted": 10, "named and planted, mean": float(np.mean(right)),
            "at least 9": float(np.mean(np.array(right) >= 9)), "named and not planted": wrong, "named": named_at_all,
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def coverage(draws: int, n: int = 400) -> list[dict[str, Any]]:
    """Fresh pools and fresh ridge classifiers (in closed form), attacked as 1, 4 and 16 targets: do intervals cover?"""
    rows = []
    truth = _truth(n)
    for targets in (1, 4, 16):
        missed = dict.fromkeys(truth, 0)
        for draw in range(draws):
            seen = _ridge((draw, targets), n, 24)
            for attack in ("lira", "loss"):
                found = measure(leave_one_out(ATTACKS[attack], seen, range(targets)), (0.05,))
                for name, estimate in ((f"{attack} area", found.auc), (f"{attack} rate", found.tpr_at_fpr[0][1])):
                    missed[name] += not estimate.lower <= truth[name] <= estimate.upper
        rows.append({"targets": targets, "draws": draws, **{k: 1 - v / draws for k, v in missed.items()}})
        print(rows[-1], flush=True)
    return rows


def _ridge(seed: tuple[int, ...], n: int, models: int) -> Observations:
    rng = np.random.default_rng(seed)
    x, rule = rng.normal(size=(n, 60)), np.random.default_rng(0).normal(size=60)
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 * x @ rule))).astype(int)
    member = subsets(n, models, n // 2, Seeded(int(rng.integers(2**31))))
    columns = []
    for rows in member.T:
        a = x[rows]
        w = np.linalg.solve(a.T @ a + 5.0 * np.eye(60), a.T @ (2 * y[rows] - 1))
        columns.append(3 * x @ w)
    return Observations.from_margin((2 * y - 1)[:, None] * np.stack(columns, axis=1), member=member)


def _truth(n: int, pools: int = 300) -> dict[str, float]:
    """Means over many fresh pools."""
    found: dict[str, list[float]] = {}
    for draw in range(pools):
        seen = _ridge((10**6, draw), n, 24)
        for attack in ("lira", "loss"):
            scores = leave_one_out(ATTACKS[attack], seen, range(2))
            found.setdefault(f"{attack} area", []).append(float(scores.auc().value or 0))
            found.setdefault(f"{attack} rate", []).append(scores.roc().at(0.05))
    return {name: float(np.mean(values)) for name, values in found.items()}


CONFOUNDS = ("honest", "features", "labels", "priors", "noisier labels", "time", "near-duplicates")


def split(kind: str, seed: int, n: int) -> Data:
    """Members and outsiders that differ in one way without any model."""
    rng = np.random.default_rng((seed, CONFOUNDS.index(kind)))
    x, member = rng.normal(size=(2 * n, 10)), np.arange(2 * n) < n
    rule, other = rng.normal(size=(2, 10))
    when = np.r_[np.linspace(0, 0.5, n), np.linspace(0.5, 1, n)] if kind == "time" else np.zeros(2 * n)
    x[:, 0] += 1.5 * when
    if kind == "features":
        x[~member, 1] += 0.5
    bend = rule + (1.5 * other * (~member)[:, None] if kind == "labels" else 1.5 * other * when[:, None])
    chance = 1 / (1 + np.exp(-1.5 * (x * bend).sum(axis=1)))
    chance = np.where(~member, np.clip(chance + 0.25, 0, 1), chance) if kind == "priors" else chance
    y = (rng.random(2 * n) < chance).astype(int)
    if kind == "noisier labels":
        y = np.where(~member & (rng.random(2 * n) < 0.25), 1 - y, y)
    if kind == "near-duplicates":
        x[n:], y[n:] = x[:n] + 1e-3 * rng.normal(size=(n, 10)), y[:n]
    return x, y, member


def confounded(seeds: int, honest: int, n: int = 600) -> list[dict[str, Any]]:
    """How often a split that is not honest is called uninformative, and how often an honest one is."""
    from sklearn.ensemble import RandomForestClassifier

    rows = []
    for kind in CONFOUNDS:
        flagged, areas = 0, []
        for seed in range(honest if kind == "honest" else seeds):
            x, y, member = split(kind, seed, n)
            model = RandomForestClassifier(10, min_samples_leaf=20, random_state=seed).fit(x[member], y[member])
            sides = (x[member], y[member]), (x[~member], y[~member])
            found = tacit.attack(model, *sides, references=0, attacks=["loss"], rng=seed)
            flagged += found.verdict == "uninformative"
            areas.append(float(found.measurements[0].auc.value or 0))
        rows.append({"split": kind, "seeds": len(areas), "uninformative": flagged, "mean area": float(np.mean(areas))})
        print(rows[-1], flush=True)
    return rows


def run(quick: bool = False, part: str = "all") -> dict[str, Any]:
    """All three campaigns, or one of them."""
    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], Any]] = {
        "planted": lambda: planted(*((1, 300) if quick else (20, 1000))),
        "coverage": lambda: coverage(*((5, 100) if quick else (200, 400))),
        "confounded": lambda: confounded(*((1, 2, 200) if quick else (20, 100, 600))),
    }
    return {name: make() for name, make in parts.items() if part in ("all", name)}
