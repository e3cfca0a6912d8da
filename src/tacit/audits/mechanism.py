"""Audit a plain mechanism: a function that releases numbers, on two neighbouring data sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Adjacency,
    BadInput,
    Calibration,
    Claim,
    Demonstration,
    Evidence,
    NotFinished,
    Scores,
    Source,
    check,
    source,
)
from . import controls
from .claims import Stated, stated
from .demonstration import chosen, demonstrate
from .features import Feature, fitted
from .foreign import Border, name_of, takes
from .panel import of_release
from .scoring import balanced, scored

Release = Callable[[Any, np.random.Generator], object]
Coins = NDArray[np.bool_]
Floats = NDArray[np.float64]


def audit_mechanism(
    release: Release,
    pair: tuple[object, object],
    *,
    claim: Stated,
    runs: int = 10_000,
    confidence: float = 0.95,
    rng: Source | int | np.random.Generator | None = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str | None = None,
) -> Evidence:
    """Test a claim about `release(data, rng) -> number or array` on the two data sets of `pair`.

    A quarter of the runs fits features of the release (its value, distance, likelihood-ratio direction, histogram,
    exact values, floating-point grain), a quarter chooses feature and threshold, and half of them judge.

    Guarantee: a true claim is refuted with probability at most 1 - confidence (docs/proofs/auditing.md).
    Caller ensures: the two data sets are neighbours under the claim's adjacency, and runs are independent.
    Edge cases: a run that raises, or returns NaN or another shape, counts against refutation.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise BadInput("pair must hold the two neighbouring data sets (D, D').")
    if _same(*pair):
        raise BadInput(
            "The two data sets of pair are the same, so that nothing could tell them apart.",
            fix="Give neighbours, such as the data with one record and without it.",
        )
    if not callable(release):
        raise BadInput(f"release must be a function release(data, rng) -> number, got {type(release).__name__}.")
    if not takes(release, 2):
        raise BadInput(
            f"{name_of(release)} cannot be called as release(data, rng).",
            fix="Let it take one of the two data sets, and the numpy Generator that it draws its noise from.",
        )
    check.probability("confidence", confidence, zero=False, one=False)
    claimed = stated(claim, delta=delta, adjacency=adjacency)
    chance, began = source(rng), time.monotonic()
    coins = balanced(check.whole("runs", runs, least=16), chance)
    released = _play(release, pair, coins, chance.generator())
    train, pick, judge = _parts(coins, chance)
    features = dict(fitted(*_sides(released, coins, train)))
    offers = [Calibration(_score(released, coins, pick, name, feature)) for name, feature in features.items()]
    rule = chosen(offers, claimed, confidence)
    scores = _score(released, coins, judge, rule.attack, features[rule.attack])
    failed = int(np.count_nonzero(np.isnan(released[:, 0])))
    shown = demonstrate(
        scores,
        claim=claimed,
        confidence=confidence,
        rng=chance,
        game="mechanism",
        canary=rule.attack,
        planned=runs,
        failed=failed,
        choice=rule,
    )
    refuted = _refuted(shown, claimed)
    tests = (controls.null(scores, chance), controls.planted_leak(scores, chance))
    return Evidence(
        subject=name_of(release),
        claim=claimed,
        demonstrations=shown,
        controls=(*tests, *controls.failing(scores, refuted=refuted)),
        not_covered=("an audit tests one pair of data sets; it can refute a claim, never prove one",),
        threat={"released": "the mechanism's output", "attacker sees": "the mechanism's output"},
        provenance={
            "randomness": chance.name,
            "runs_planned": runs,
            "runs_done": runs - failed,
            "runs_failed": failed,
            "seconds": round(time.monotonic() - began, 3),
        },
        scores=(scores,),
        caught=() if refuted else of_release(claimed, shown[-1]),
    )


def _refuted(shown: tuple[Demonstration, ...], claim: Claim) -> bool:
    return any(item.bound.contradicts(claim.bound) for item in shown)


def _same(one: object, other: object) -> bool:
    """Whether two data sets are one object, or equal lists, numbers or arrays; other kinds are not compared."""
    kinds = (np.ndarray, list, tuple, int, float, str)
    if one is other or not (isinstance(one, kinds) and isinstance(other, kinds)):
        return one is other
    try:
        return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
    except (TypeError, ValueError):  # lists of arrays, or of objects that cannot be compared
        return False


def _play(release: Release, pair: tuple[object, object], coins: Coins, rng: np.random.Generator) -> Floats:
    """One row of numbers per run on the first (coin true) or second data set; a failed run is a row of NaN."""
    rows: list[Floats | None] = []
    problems = set()
    for coin in coins:
        row = None
        with Border() as border:
            row = np.asarray(release(pair[0 if coin else 1], rng), dtype=np.float64).ravel()
        problems.add(f"{border.problem}{border.place}")
        rows.append(row)
    sizes = [row.size for row in rows if row is not None and np.isfinite(row).all() and row.size]
    if not sizes:
        raise NotFinished(
            f"No run released a finite number: release {' and '.join(sorted(problems - {''})) or 'gave none'}."
        )
    size = max(set(sizes), key=sizes.count)
    fit = [row is not None and row.size == size and bool(np.isfinite(row).all()) for row in rows]
    return np.stack(
        [row if ok and row is not None else np.full(size, np.nan) for row, ok in zip(rows, fit, strict=True)]
    )


def _parts(coins: Coins, chance: Source) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit on, to choose on and to judge by: a quarter, a quarter and a half of each side."""
    order = chance.permutation(coins.size)
    sides = [order[coins[order]], order[~coins[order]]]
    cut = [(side.size // 4, side.size // 2) for side in sides]
    return (
        np.concatenate([side[:a] for side, (a, _) in zip(sides, cut, strict=True)]),
        np.concatenate([side[a:b] for side, (a, b) in zip(sides, cut, strict=True)]),
        np.concatenate([side[b:] for side, (_, b) in zip(sides, cut, strict=True)]),
    )


def _sides(released: Floats, coins: Coins, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    usable = rows[~np.isnan(released[rows, 0])]
    inside, outside = released[usable[coins[usable]]], released[usable[~coins[usable]]]
    if not len(inside) or not len(outside):
        raise NotFinished("Too few runs released a finite number on each of the two data sets.")
    return inside, outside


def _score(released: Floats, coins: Coins, rows: NDArray[np.intp], name: str, feature: Feature) -> Scores:
    """Scores of the chosen rows under one feature; their targets are the runs' numbers."""
    usable = ~np.isnan(released[rows, 0])
    found = np.full(rows.size, np.nan)
    found[usable] = feature(released[rows[usable]])
    made = scored(found, coins[rows], attack=name)
    return Scores(made.score, made.member, attack=name, randomised=True, record=made.record, target=rows)
