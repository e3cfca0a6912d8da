"""Does the attack name the right people, do its intervals cover, and does it see splits that are not honest?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from pieces import Pieces
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


def kinds() -> dict[str, Callable[[int], Any]]:
    """Models that memorise, and one that does not."""
    from sklearn import ensemble, linear_model, neighbors, neural_network, tree

    return {
        "forest of 50": lambda seed: ensemble.RandomForestClassifier(50, random_state=seed),
        "extra trees": lambda seed: ensemble.ExtraTreesClassifier(30, random_state=seed),
        "tree": lambda seed: tree.DecisionTreeClassifier(random_state=seed),
        "1 neighbour": lambda seed: neighbors.KNeighborsClassifier(1),
        "network of 128": lambda seed: neural_network.MLPClassifier(
            (128,), learning_rate_init=1e-2, max_iter=150, tol=0, n_iter_no_change=150, random_state=seed
        ),
        "logistic (memorises nothing)": lambda seed: linear_model.LogisticRegression(C=1.0),
    }


def planted(
    pieces: Pieces, draws: int, n: int = 1000, references: int = 16, first: int = 1000, only: str | None = None
) -> list[dict[str, Any]]:
    """Ten records with random wrong labels among `n`, which a model can fit by memory alone: how many are named?

    The rule that names them was set on draws below 100; it is judged on draws from `first` on. `only` names one kind of
    model.

    Single trees and nearest neighbours fit some other records at the border of two groups by memory alone too, so that
    who else is named is counted and is no false discovery by itself.
    """
    names = list(kinds()) if only is None else [only]
    found = pieces.run({
        f"planted, {name}, {draw}, {n}, {references}": partial(_named, name, draw, n, references)
        for name in names
        for draw in range(first, first + draws)
    })  # fmt: skip
    rows = []
    for name in names:
        counts = np.array([part for key, part in found.items() if key.startswith(f"planted, {name}, ")]).reshape(-1, 2)
        right, wrong = counts.T if len(counts) else np.zeros((2, 1), dtype=int)
        rows.append({
            "kind": name, "draws": len(counts), "first draw": first, "planted": 10,
            "named and planted, mean": float(right.mean()), "at least 9": float((right >= 9).mean()),
            "named and not planted": int(wrong.sum()), "named": int((right + wrong).sum()),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def _named(name: str, draw: int, n: int, references: int) -> tuple[int, int]:
    """How many of the planted records are named, and how many others."""
    warnings.simplefilter("ignore")
    make = kinds()[name]
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


def false_discoveries(pieces: Pieces, draws: int) -> list[dict[str, Any]]:
    """Margins of no model in particular: of `exposed` records they rise with membership, of all others they do not."""
    cases = (0, 1, 10)
    found = pieces.run({
        f"false discoveries, {exposed}, {draw}": partial(_discovered, exposed, draw)
        for exposed in cases
        for draw in range(draws)
    })  # fmt: skip
    rows = []
    for exposed in cases:
        made = [part for key, part in found.items() if key.startswith(f"false discoveries, {exposed}, ")]
        shares, right = zip(*made, strict=True) if made else ((0.0,), (0,))
        rows.append({
            "exposed": exposed, "draws": len(made), "false discovery rate": float(np.mean(shares)),
            "exposed and named, mean": float(np.mean(right)),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def _discovered(exposed: int, draw: int, n: int = 1000, models: int = 16) -> tuple[float, int]:
    """The share of named records that are not exposed, and how many named ones are."""
    rng = np.random.default_rng((draw, exposed))
    member = subsets(n, models, n // 2, Seeded(draw))
    margin = rng.normal(size=(n, 1)) + rng.standard_t(4, size=(n, models))
    margin[:exposed] += 12.0 * member[:exposed]
    seen = Observations.from_margin(margin, member=member)
    named = [item.record for item in records(seen, Seeded(draw + 10**6))["exposures"]]
    wrong = sum(row >= exposed for row in named)
    return wrong / max(len(named), 1), len(named) - wrong


NULLS = ("even", "60 of 600", "repeated", "540 of 600")


def nulls(pieces: Pieces, draws: int) -> list[dict[str, Any]]:
    """The whole attack where nobody is a member: every model, the target too, learned from records of its own.

    Of all attacks together, at most one in twenty games may show a rate above its false-positive rate, or an area above
    a half, and at most one in twenty may name a record.
    """
    names = ("tree, leaves of 5", "forest of 10", "logistic")
    found = pieces.run({
        f"nulls, {name}, {split}, {draw}": partial(_null, name, split, draw)
        for draw in range(draws)
        for name in names
        for split in NULLS
    })  # fmt: skip
    rows = []
    for name in names:
        for split in NULLS:
            made = [part for key, part in found.items() if key.startswith(f"nulls, {name}, {split}, ")]
            words = ("rate above", "area above", "somebody named", "uninformative")
            counts = {word: sum(part[k] for part in made) for k, word in enumerate(words)}
            rows.append({"kind": name, "split": split, "games": len(made), **counts})
            print(rows[-1], flush=True)
    return rows


def _null(name: str, split: str, draw: int, references: int = 16) -> list[bool]:
    """Whether a game without members shows a rate, shows an area, names somebody, or is called uninformative."""
    from sklearn import ensemble, linear_model, tree

    make = {
        "tree, leaves of 5": lambda: tree.DecisionTreeClassifier(min_samples_leaf=5),
        "forest of 10": lambda: ensemble.RandomForestClassifier(10),
        "logistic": lambda: linear_model.LogisticRegression(C=10.0),
    }[name]
    warnings.simplefilter("ignore")
    chance = np.random.default_rng((17, NULLS.index(split), draw))

    def drawn(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        y = rng.integers(0, 3, n)
        return 1.5 * np.eye(6)[y] + rng.normal(size=(n, 6)), y

    def fit(x: Array, y: Array, rng: np.random.Generator) -> Any:
        model = make()
        if "random_state" in model.get_params():
            model.set_params(random_state=int(rng.integers(2**31)))
        return model.fit(*drawn(rng, len(y)))

    x, y = drawn(chance, 600)
    inside = {"60 of 600": np.arange(60), "540 of 600": np.arange(540)}.get(split, np.arange(300))
    outside = np.arange(inside.size, 600)
    inside = chance.choice(inside, inside.size) if split == "repeated" else inside
    target = fit(x[inside], y[inside], chance)
    found = tacit.attack(
        target.predict_proba, (x[inside], y[inside]), (x[outside], y[outside]), fit=fit, references=references,
        rng=draw, fpr=(0.1, 0.05, 0.01),
    )  # fmt: skip
    shown = any(rate.lower > fpr for item in found.attacks for fpr, rate in item.tpr_at_fpr)
    area = any(item.auc.lower > 0.5 for item in found.attacks)
    return [bool(shown), bool(area), bool(found.exposures), found.verdict == "uninformative"]


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


def confounded(pieces: Pieces, seeds: int, honest: int, n: int = 600, first: int = 1000) -> list[dict[str, Any]]:
    """How often a split that is not honest is called uninformative, and how often an honest one is.

    The tests were strengthened on seeds below 100; they are judged on seeds from `first` on.
    """
    found = pieces.run({
        f"confounded, {kind}, {seed}, {n}": partial(_judged, kind, seed, n)
        for kind in CONFOUNDS
        for seed in range(first, first + (honest if kind == "honest" else seeds))
    })  # fmt: skip
    rows = []
    for kind in CONFOUNDS:
        made = [part for key, part in found.items() if key.startswith(f"confounded, {kind}, ")]
        flagged, areas = zip(*made, strict=True) if made else ((), (0.0,))
        rows.append({
            "split": kind, "first seed": first, "seeds": len(made), "uninformative": int(sum(flagged)),
            "mean area": float(np.mean(areas)),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def _judged(kind: str, seed: int, n: int) -> tuple[bool, float]:
    """Whether one split is called uninformative, and the area that the loss attack shows."""
    from sklearn.ensemble import RandomForestClassifier

    x, y, member = split(kind, seed, n)
    model = RandomForestClassifier(10, min_samples_leaf=20, random_state=seed).fit(x[member], y[member])
    sides = (x[member], y[member]), (x[~member], y[~member])
    found = tacit.attack(model, *sides, references=0, attacks=["loss"], rng=seed)
    return found.verdict == "uninformative", float(found.measurements[0].auc.value or 0)


def run(pieces: Pieces, quick: bool = False, part: str = "all", only: str | None = None) -> dict[str, Any]:
    """All campaigns, or one of them; `only` one kind of model of `planted`."""
    import membership_coverage

    warnings.simplefilter("ignore")
    parts: dict[str, Callable[[], Any]] = {
        "planted": lambda: planted(pieces, 1, 300, only=only) if quick else planted(pieces, 100, only=only),
        "false discoveries": lambda: false_discoveries(pieces, 2 if quick else 200),
        "nulls": lambda: nulls(pieces, 1 if quick else 200),
        "coverage": lambda: membership_coverage.run(pieces, quick),
        "confounded": lambda: confounded(pieces, *((1, 2, 200) if quick else (20, 100, 600))),
    }
    return {name: make() for name, make in parts.items() if part in ("all", name)}
