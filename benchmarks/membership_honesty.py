"""Does the attack name the right people, do its intervals cover, and does it see splits that are not honest?"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.core import Observations
from tacit.core.randomness import Seeded
from tacit.study.risk import records
from tacit.study.subsets import subsets

Array = NDArray[Any]
Data = tuple[Array, Array, NDArray[np.bool_]]


def groups(seed: int, n: int, apart: float = 4.0) -> tuple[Array, Array]:
    """Four clear groups in six dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    return apart * np.eye(6)[y] + rng.normal(size=(n, 6)), y


def planted(
    draws: int,
    n: int = 1000,
    references: int = 16,
    first: int = 1000,
    work: Path | None = None,
    part: tuple[int, int] = (0, 1),
    only: str | None = None,
) -> list[dict[str, Any]]:
    """Ten records with random wrong labels among `n`, which a model can fit by memory alone: how many are named?

    The rule that names them was set on draws below 100; it is judged on draws from `first` on. What is done is kept in
    `work`, a line for each draw. `only` names one kind of model.

    Single trees and nearest neighbours fit some other records at the border of two groups by memory alone too, so that
    who else is named is counted and is no false discovery by itself.
    """
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
    if only is not None:
        kinds = {only: kinds[only]}
    done = _read(work)
    for name, make in kinds.items():
        for draw in range(first, first + draws):
            if (name, draw) in done or draw % part[1] != part[0]:
                continue
            done[name, draw] = _named(make, draw, n, references)
            if work is not None:
                with work.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, draw, done[name, draw]]) + "\n")
    rows = []
    for name in kinds:
        counts = np.array([found for (kind, _), found in sorted(done.items()) if kind == name])
        right, wrong = counts.T if len(counts) else np.zeros((2, 1), dtype=int)
        rows.append({
            "kind": name, "draws": len(counts), "first draw": first, "planted": 10,
            "named and planted, mean": float(right.mean()), "at least 9": float((right >= 9).mean()),
            "named and not planted": int(wrong.sum()), "named": int((right + wrong).sum()),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def _named(make: Callable[[int], Any], draw: int, n: int, references: int) -> tuple[int, int]:
    """How many of the planted records are named, and how many others."""
    x, y = groups(draw, n, apart=6.0)
    rng = np.random.default_rng((draw, 1))
    hidden = rng.choice(n, 10, replace=False)
    y[hidden] = (y[hidden] + rng.integers(1, 4, 10)) % 4
    member = subsets(n, references, n // 2, Seeded(draw))
    told = np.stack([make(k).fit(x[rows], y[rows]).predict_proba(x) for k, rows in enumerate(member.T)], axis=1)
    seen = Observations.from_probabilities(told, y, member=member)
    named = {item.record for item in records(seen, Seeded(draw + 10**6))["exposures"]}
    right = len(named & set(hidden.tolist()))
    return right, len(named) - right


def _read(work: Path | None) -> dict[tuple[str, int], tuple[int, int]]:
    """What an interrupted campaign has done."""
    if work is None or not work.is_file():
        return {}
    rows = [json.loads(line) for line in work.read_text(encoding="utf-8").splitlines()]
    return {(name, draw): (right, wrong) for name, draw, (right, wrong) in rows}


def false_discoveries(draws: int, n: int = 1000, models: int = 16) -> list[dict[str, Any]]:
    """Margins of no model in particular: of `exposed` records they rise with membership, of all others they do not."""
    rows = []
    for exposed in (0, 1, 10):
        shares, right = [], []
        for draw in range(draws):
            rng = np.random.default_rng((draw, exposed))
            member = subsets(n, models, n // 2, Seeded(draw))
            margin = rng.normal(size=(n, 1)) + rng.standard_t(4, size=(n, models))
            margin[:exposed] += 12.0 * member[:exposed]
            seen = Observations.from_margin(margin, member=member)
            named = [item.record for item in records(seen, Seeded(draw + 10**6))["exposures"]]
            shares.append(np.mean([row >= exposed for row in named]) if named else 0.0)
            right.append(sum(row < exposed for row in named))
        rows.append({
            "exposed": exposed, "draws": draws, "false discovery rate": float(np.mean(shares)),
            "exposed and named, mean": float(np.mean(right)),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


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


def confounded(seeds: int, honest: int, n: int = 600, first: int = 1000) -> list[dict[str, Any]]:
    """How often a split that is not honest is called uninformative, and how often an honest one is.

    The tests were strengthened on seeds below 100; they are judged on seeds from `first` on.
    """
    from sklearn.ensemble import RandomForestClassifier

    rows = []
    for kind in CONFOUNDS:
        flagged, areas = 0, []
        for seed in range(first, first + (honest if kind == "honest" else seeds)):
            x, y, member = split(kind, seed, n)
            model = RandomForestClassifier(10, min_samples_leaf=20, random_state=seed).fit(x[member], y[member])
            sides = (x[member], y[member]), (x[~member], y[~member])
            found = tacit.attack(model, *sides, references=0, attacks=["loss"], rng=seed)
            flagged += found.verdict == "uninformative"
            areas.append(float(found.measurements[0].auc.value or 0))
        rows.append({"split": kind, "seeds": len(areas), "uninformative": flagged, "mean area": float(np.mean(areas))})
        print(rows[-1], flush=True)
    return rows


def run(
    quick: bool = False,
    part: str = "all",
    work: Path | None = None,
    share: tuple[int, int] = (0, 1),
    only: str | None = None,
) -> dict[str, Any]:
    """All campaigns, or one of them; `share` of the draws and `only` one kind of model of `planted`."""
    import membership_coverage

    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], Any]] = {
        "planted": lambda: planted(1, 300, only=only) if quick else planted(100, work=work, part=share, only=only),
        "false discoveries": lambda: false_discoveries(2 if quick else 100),
        "coverage": lambda: membership_coverage.run(quick),
        "confounded": lambda: confounded(*((1, 2, 200) if quick else (20, 100, 600))),
    }
    return {name: make() for name, make in parts.items() if part in ("all", name)}
