"""Pairs of neighbouring data for every release of tacit.mechanism, and twins of each that an audit must refute.

A case is a release at epsilon 1 (delta 1e-6 where it needs one) on two neighbours. The twin of a numeric release adds
floating-point noise of the right size; the twin of a selection has half the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit import mechanism

DELTA = 1e-6
Release = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class Case:
    """A release, two neighbours, and what it claims."""

    name: str
    release: Release
    pair: tuple[Any, Any]
    claim: tuple[float, float] = (1.0, 0.0)
    adjacency: str = "add-remove"


def crypto(release: Callable[..., Any], **fixed: Any) -> Release:
    """The release as it is used: from the cryptographic source, not from the audit's generator."""
    return lambda data, rng: release(data, **fixed).value


MOVES = [
    (0.0, 1.0),
    (1.0, 2.0),
    (1 / 3, 4 / 3),
    (1e9, 1e9 + 1),
    (1e-9, 1 + 1e-9),
    (0.0, 1 / 3),
    (0.0, 1e9),
    (0.0, 1e-9),
]
"""Values 0, 1, 1/3, 1e9 and 1e-9, each moved by 1 and moved to from 0."""
MANY = ([1.0] + [0.0] * 9, [0.0] + [1.0] * 9)
"""One score rises as all others fall: the worst that a sensitivity of 1 allows."""
TWO = ([1.0, 1.0] + [0.0] * 8, [0.0, 0.0] + [1.0] * 8)
ABOVE = ([0] * 5 + [1], [1] * 5 + [0])


def numeric() -> list[Case]:
    cases = []
    for low, high in MOVES:
        step = max(round(high - low), 1) if high - low >= 1 else high - low
        for name, release in (("laplace", mechanism.laplace), ("gaussian", mechanism.gaussian)):
            extra = {"delta": DELTA} if name == "gaussian" else {}
            claim = (1.0, extra.get("delta", 0.0))
            made = crypto(release, sensitivity=step, epsilon=1.0, **extra)
            cases.append(Case(f"{name} {low:.3g} to {high:.3g}", made, (low, high), claim))
            if float(low).is_integer() and float(high).is_integer():
                cases.append(Case(f"{name} whole {low:.3g} to {high:.3g}", made, (int(low), int(high)), claim))
    pair = (np.zeros(3), np.array([0.5, -0.25, 0.25]))
    cases.append(Case("laplace array", crypto(mechanism.laplace, sensitivity=1.0, epsilon=1.0), pair))
    pair = (np.zeros(3), np.array([0.6, -0.64, 0.48]))
    release = crypto(mechanism.gaussian, sensitivity=1.0, epsilon=1.0, delta=DELTA)
    cases.append(Case("gaussian array", release, pair, (1.0, DELTA)))
    wholes = [(int(low), int(high)) for low, high in MOVES if (low, high) in ((0.0, 1.0), (1.0, 2.0), (1e9, 1e9 + 1))]
    skellam = crypto(mechanism.skellam, sensitivity=1, epsilon=1.0, delta=DELTA)
    return cases + [Case(f"skellam {pair[0]:.3g} to {pair[1]:.3g}", skellam, pair, (1.0, DELTA)) for pair in wholes]


def _leading(block: list[float]) -> float:
    """The answer of a block's first record: records keep their order."""
    return block[0]


def _first(found: tuple[int, ...]) -> int:
    return found[0] if found else -1


def _keys(found: dict[Any, int]) -> list[int]:
    return [found.get(name, 0) for name in ("a", "b")]


def _above(data: Any, epsilon: float) -> int:
    return _first(mechanism.above_threshold(data, 0, sensitivity=1, epsilon=epsilon).value)


def _board(value: float, epsilon: float) -> float:
    board = mechanism.Thresholdout(size=1, threshold=2.0, epsilon=epsilon, budget=1)
    return board.query([0.0], [value])


def selections(epsilon: float = 1.0) -> list[Case]:
    """All others, at this epsilon but claiming 1: with epsilon 2 they are the twins of half the noise."""
    m, e = mechanism, {"epsilon": epsilon}
    bounds = {"bounds": (0.0, 10.0)}
    return [
        Case("exponential", crypto(m.exponential, sensitivity=1, **e), MANY),
        Case("permute_and_flip", crypto(m.permute_and_flip, sensitivity=1, **e), MANY),
        Case("noisy_max gumbel", crypto(m.noisy_max, sensitivity=1, **e), MANY),
        Case("noisy_max exponential", crypto(m.noisy_max, sensitivity=1, noise="exponential", **e), MANY),
        Case("noisy_max laplace", crypto(m.noisy_max, sensitivity=1, noise="laplace", **e), MANY),
        Case("noisy_max monotone", crypto(m.noisy_max, sensitivity=1, monotone=True, **e), ([0] * 9, [1] + [0] * 8)),
        Case("top", crypto(lambda d, **k: m.top(d, 2, **k), sensitivity=1, **e), TWO),
        Case(
            "quantile",
            crypto(lambda d, **k: m.quantile(d, 0.5, adjacency="replace", **k), **bounds, **e),
            ([2.0, 2.0, 10.0, 10.0], [0.0, 2.0, 2.0, 10.0]),
            adjacency="replace",
        ),
        Case("median", crypto(m.median, **bounds, **e), ([0.5, 0.5], [0.5, 0.5, 0.0])),
        Case(
            "clipping_bound",
            lambda d, rng: math.log2(m.clipping_bound(d, share=0.5, adjacency="replace", **e).value),
            ([0.0, 0.0, 2.0**-54], [0.0, 2.0**-54, 2.0**-54]),
            adjacency="replace",
        ),
        Case("thresholdout", lambda d, rng: _board(d, epsilon), (1.0, 0.0), adjacency="replace"),
        Case(
            "exponential_range",
            crypto(lambda d, **k: m.exponential_range(d, [9.0], **k), sensitivity=1, **bounds, **e),
            ([0, 1], [1, 0]),
        ),
        Case("above_threshold", lambda d, rng: _above(d, epsilon), ABOVE),
        Case(
            "unknown_keys",
            lambda d, rng: _keys(m.unknown_keys(d, delta=DELTA, **e).value),
            ({"a": 16}, {"a": 17}),
            (1.0, DELTA),
        ),
        Case("auction", crypto(lambda d, **k: m.auction(d, [0.001] * 9 + [8.0], **k), **e), ([8.0], [])),
        Case("randomized_response", crypto(m.randomized_response, categories=4, **e), ([0], [1]), adjacency="replace"),
        Case(
            "subsample_and_aggregate",
            crypto(lambda d, **k: m.subsample_and_aggregate(d, np.max, blocks=2, **k), **bounds, **e),
            ([0.0] * 3, [10.0, 0.0, 0.0]),
        ),
        Case(
            "subsample_and_aggregate, median",
            crypto(
                lambda d, **k: m.subsample_and_aggregate(d, _leading, blocks=2, aggregate="median", **k), **bounds, **e
            ),
            ([0.0] + [1.0] * 20, [10.0] + [1.0] * 20),  # one block answers 1, the other 0 or 10: few medians below 1
            adjacency="replace",
        ),
        Case("skellam", crypto(m.skellam, sensitivity=1, delta=DELTA, **e), (0, 1), (1.0, DELTA)),
    ]


def medians() -> list[Case]:
    """Numeric releases whose noise fits the data: half of epsilon is for the noise, so half the noise proves little."""
    m, terms = mechanism, {"bounds": (0.0, 10.0), "delta": DELTA, "epsilon": 1.0}
    close = ([0.0] * 57, [10.0] + [0.0] * 56)
    return [
        Case("smooth_median", crypto(m.smooth_median, **terms), ([0, 0, 10], [0, 10, 10]), (1.0, DELTA), "replace"),
        Case(
            "propose_test_release",
            lambda d, rng: _or(m.propose_test_release(d, proposal=0.5, **terms).value),
            close,
            (1.0, DELTA),
            "replace",
        ),
    ]


def scaled() -> list[Case]:
    """Releases that look at numbers of any size, in units of 1/3, 1e9 and 1e-9."""
    m, e, cases = mechanism, {"epsilon": 1.0}, []
    for unit in (1 / 3, 1e9, 1e-9):
        many = tuple([unit * score for score in scores] for scores in MANY)
        above = tuple([unit * query for query in queries] for queries in ABOVE)
        found = [
            Case("exponential", crypto(m.exponential, sensitivity=unit, **e), many),
            Case("permute_and_flip", crypto(m.permute_and_flip, sensitivity=unit, **e), many),
            Case("noisy_max laplace", crypto(m.noisy_max, sensitivity=unit, noise="laplace", **e), many),
            Case("above_threshold", _above_unit(unit), above),
        ]
        cases += [replace(case, name=f"{case.name}, unit {unit:.3g}") for case in found]
    blocks = crypto(lambda d, **k: m.subsample_and_aggregate(d, np.max, blocks=2, **k), bounds=(0.0, 10 / 3), **e)
    return [*cases, Case("subsample_and_aggregate, unit 0.333", blocks, ([0.0] * 3, [10 / 3, 0.0, 0.0]))]


def _above_unit(unit: float) -> Release:
    return lambda data, rng: _first(mechanism.above_threshold(data, 0, sensitivity=unit, epsilon=1.0).value)


def _or(value: float | None) -> float:
    return -1.0 if value is None else value


def floating_twins() -> list[Case]:
    """Textbook noise of the right size in floating point."""
    sigma = mechanism.gaussian(0.0, sensitivity=1.0, epsilon=1.0, delta=DELTA).event.noise_multiplier
    zeros, moved = np.zeros(3), np.array([0.5, -0.25, 0.25])
    return [
        Case("laplace in floating point", lambda d, rng: d + rng.laplace(0, 1.0), (0.0, 1.0)),
        Case("laplace in floating point, 1/3", lambda d, rng: d + rng.laplace(0, 1.0), (0.0, 1 / 3)),
        Case("gaussian in floating point", lambda d, rng: d + rng.normal(0, sigma), (0.0, 1.0), (1.0, DELTA)),
        Case("laplace array in floating point", lambda d, rng: d + rng.laplace(0, 1.0, 3), (zeros, moved)),
        Case(
            "gaussian array in floating point", lambda d, rng: d + rng.normal(0, sigma, 3), (zeros, moved), (1.0, DELTA)
        ),
        Case("mean of blocks in floating point", lambda d, rng: d / 2 + rng.laplace(0, 5.0), (0.0, 10.0)),
        Case("smooth median in floating point", lambda d, rng: d + rng.laplace(0, 20.0), (0.0, 10.0), (1.0, DELTA)),
        Case("proposed median in floating point", lambda d, rng: d + rng.laplace(0, 1.0), (0.0, 0.5), (1.0, DELTA)),
        Case("holdout mean in floating point", lambda d, rng: d + rng.laplace(0, 2.0), (0.0, 1.0), adjacency="replace"),
    ]
