"""What votes cost: the claim, which does not look at them, and the private numbers that do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import Adjacency, BadInput, Bound
from ..loss.tilted import conversion
from .aggregators import Aggregator, ConfidentGNMax, Counts, GNMax, InteractiveGNMax, LNMax
from .dependence import (
    ORDERS,
    Floats,
    check_curve,
    gaussian_curve,
    joint_curve,
    laplace_curve,
    log_shares,
    log_wrong,
    log_wrong_laplace,
)
from .design import designed
from .private_value import PrivateValue

FEWER = np.concatenate((np.arange(1.5, 12.0, 0.5), np.geomspace(12.0, 120.0, 40)))
"""Orders of our own curve."""
MOST = 2**32
"""Votes for one class: more do not fit on the grid."""


@dataclass(frozen=True)
class Analysis:
    """What a run over these votes costs, in four ways.

    `data_independent` is the claim: whatever the votes are, with a public cap on answers. The others are private.
    `data_dependent` and `papers_independent` follow the papers, which count the expected number of answers (itself a
    private number, `expected_answers`) and convert by Mironov 2017. `joint` is ours: check and answer of a query are
    one release, so it holds for the run that is made, not for an average of runs; it converts by Canonne et al. 2020.
    """

    data_independent: Bound
    data_dependent: PrivateValue
    expected_answers: PrivateValue
    papers_independent: PrivateValue
    joint: PrivateValue


def analyse(
    votes: ArrayLike,
    aggregator: Aggregator,
    *,
    queries: int | None = None,
    delta: float,
    answers: int | None = None,
    adjacency: Adjacency | str = "add-remove",
) -> Analysis:
    """Costs of asking the first `queries` rows of `votes` (n, classes), of which at most `answers` are answered.

    Caller ensures: everything but `data_independent` stays with whoever may see the votes.
    Reference: Papernot et al. 2017, Theorem 3; 2018, Theorem 6; docs/proofs/pate.md, Theorem 3.
    """
    counts = vote_counts(votes)
    made = designed(
        aggregator,
        available=len(counts),
        queries=queries,
        answers=answers,
        epsilon=None,
        delta=delta,
        adjacency=adjacency,
    )
    counts = counts[: made.queries]
    if isinstance(aggregator, InteractiveGNMax):
        raise BadInput("Votes alone do not say what an interactive run costs: it depends on its student.")
    if not isinstance(aggregator, GNMax | LNMax | ConfidentGNMax):
        raise BadInput(f"The data-dependent cost of {type(aggregator).__name__} is not known.")
    passed, dependent, independent = _papers(counts, aggregator)
    return Analysis(
        made.bound,
        PrivateValue(least(dependent, ORDERS, delta), "the data-dependent epsilon, by expected answers"),
        PrivateValue(passed, "the expected number of answers"),
        PrivateValue(least(independent, ORDERS, delta), "an epsilon by expected answers"),
        PrivateValue(tightest(own_curve(counts, aggregator, FEWER), FEWER, delta), "the data-dependent epsilon"),
    )


def vote_counts(votes: ArrayLike) -> Counts:
    """Votes as whole numbers (queries, classes)."""
    try:
        found = np.asarray(votes)
    except ValueError:  # rows of several lengths
        found = np.zeros(0)
    whole = found.dtype.kind in "iu" or (found.dtype.kind == "f" and bool(np.all(found == np.floor(found))))
    whole = whole and bool(((found >= 0) & (found <= MOST)).all())
    if found.ndim != 2 or found.shape[1] < 2 or not len(found) or not whole:
        raise BadInput(
            f"votes must be whole numbers from 0 to {MOST:,} of shape (queries, classes), with at least two classes."
        )
    return found.astype(np.int64)


def own_curve(counts: Counts, rule: Aggregator, orders: Floats) -> Floats:
    """Renyi divergences of a whole run, for these votes and all their neighbours."""
    if isinstance(rule, LNMax):
        return np.asarray(
            laplace_curve(log_wrong_laplace(counts, rule.noise_answer), rule.noise_answer, orders).sum(axis=0)
        )
    assert isinstance(rule, GNMax | ConfidentGNMax)
    answer = gaussian_curve(log_wrong(counts, rule.noise_answer), rule.noise_answer, orders)
    if isinstance(rule, ConfidentGNMax):
        answer = joint_curve(counts.max(axis=1), rule.threshold, rule.noise_select, answer, orders)
    return np.asarray(answer.sum(axis=0))


def _papers(counts: Counts, rule: Aggregator) -> tuple[float, Floats, Floats]:
    """The expected number of answers, and both curves of the papers."""
    if isinstance(rule, LNMax):
        plain = laplace_curve(np.zeros(1), rule.noise_answer, ORDERS)[0]
        return float(len(counts)), own_curve(counts, rule, ORDERS), len(counts) * plain
    assert isinstance(rule, GNMax | ConfidentGNMax)
    answer = gaussian_curve(log_wrong(counts, rule.noise_answer), rule.noise_answer, ORDERS)
    plain = ORDERS / rule.noise_answer**2
    if isinstance(rule, GNMax):
        return float(len(counts)), answer.sum(axis=0), len(counts) * plain
    log_passed, log_failed = log_shares(counts.max(axis=1), rule.threshold, rule.noise_select)
    passed = np.exp(log_passed)
    checks = check_curve(log_passed, log_failed, rule.noise_select, ORDERS)
    dependent = checks.sum(axis=0) + passed @ answer
    independent = len(counts) * ORDERS / (2 * rule.noise_select**2) + passed.sum() * plain
    return float(passed.sum()), dependent, independent


def least(curve: Floats, orders: NDArray[np.float64], delta: float) -> float:
    """min_a f(a) + log(1/delta)/(a - 1). Reference: Mironov 2017, Proposition 3."""
    return float(np.min(curve + math.log(1 / delta) / (orders - 1))) if delta > 0 else math.inf


def tightest(curve: Floats, orders: NDArray[np.float64], delta: float) -> float:
    """The least epsilon at delta. Reference: Canonne, Kamath and Steinke 2020, Proposition 12."""
    if delta == 0:
        return math.inf
    return max(float(np.min(curve + converted(orders, delta))), 0.0)


def converted(orders: NDArray[np.float64], delta: float) -> Floats:
    """What a divergence at each order grows by to become an epsilon at delta."""
    tilts = np.asarray(orders, dtype=np.float64) - 1
    return np.asarray((math.log(1 / delta) + conversion(tilts)) / tilts)
