"""Audit anybody's training: run it with and without canaries, and see whether the claim survives."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, Claim, Evidence, Source, check, source
from .canary import Maker
from .claims import Stated, stated
from .foreign import Fit
from .playing import GAMES, Outcome
from .stage import Budget, Stage, said

Array = NDArray[Any]


def audit(
    fit: Fit,
    data: tuple[Array, Array],
    *,
    claim: Stated,
    game: str = "runs",
    canary: str | Maker = "auto",
    runs: int = 1000,
    seconds: float | None = None,
    confidence: float = 0.95,
    isolation: str = "process",
    rng: Source | int | np.random.Generator | None = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str | None = None,
) -> Evidence:
    """Test a privacy claim about `fit(x, y, rng) -> predict`.

    The score of a run is the log-odds margin of the canary's label. Games: "runs" plays many runs with and without one
    canary, a fifth of which choose the threshold; "sequential" plays them in batches and stops once the claim is
    refuted; "one-run" trains once with many canaries (`runs` of them). With `seconds` the number of runs is fixed after
    a short trial, before the first run that counts.

    Guarantee: a true claim is refuted with probability at most 1 - confidence (docs/proofs/auditing.md).
    Caller ensures: fit's runs are independent (it keeps nothing between calls), and the claim is about one release
    of what `fit` returns.
    Edge cases: a run that raises, hangs or predicts NaN or a constant counts against refutation.
    """
    if game not in GAMES:
        raise BadInput(f"Game {game!r} is not known.", fix=f"Use one of: {', '.join(GAMES)}.")
    claimed = stated(claim, delta=delta, adjacency=adjacency)
    budget = Budget.of(isolation, seconds, source(rng))
    stage = Stage(fit, *_checked(data), claimed.bound.adjacency, budget)
    outcome = GAMES[game](stage, claimed, canary, check.whole("runs", runs, least=4), confidence)
    return Evidence(
        subject=getattr(fit, "__qualname__", type(fit).__name__),
        claim=claimed,
        demonstrations=outcome.shown,
        controls=outcome.controls,
        not_covered=_not_covered(claimed),
        threat={"released": "the trained model", "attacker sees": "predictions on the canary"},
        provenance=_provenance(budget, outcome),
        scores=(outcome.scores,),
    )


def _checked(data: tuple[Array, Array]) -> tuple[Array, Array]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("data must be a pair (x, y).")
    x, y = (np.asarray(part) for part in data)
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or len(x) < 2:
        raise BadInput("data must be (x, y) with x of shape (records, ...) and one label per record.")
    if np.unique(y).size < 2:
        raise BadInput("data must hold at least two classes.")
    return x, y


def _not_covered(claim: Claim) -> tuple[str, ...]:
    lines = ["an audit tests one pair of data sets; it can refute a claim, never prove one"]
    if claim.event is None:
        lines.append("the claim is stated as (epsilon, delta); no event was given to recompute it from")
    return tuple(lines)


def _provenance(budget: Budget, outcome: Outcome) -> dict[str, Any]:
    failed = sum(bool(result.problem) for result in outcome.results)
    return {
        "randomness": budget.chance.name,
        "runs_planned": outcome.shown[0].planned,
        "runs_done": len(outcome.results) - failed,
        "runs_failed": failed,
        "failures": said(outcome.results),
        "seconds": round(time.monotonic() - budget.began, 3),
    }
