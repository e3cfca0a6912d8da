"""Audit anybody's training: run it with and without canaries, and see whether the claim survives."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np

from ..core import Adjacency, BadInput, Claim, Control, Evidence, Source, check, source
from ..core.arrays import Array
from ..core.fault import Fault
from ..core.files import Lasting
from ..core.json_text import Json
from ..core.reasons import ALIKE, REPEATED
from . import controls, games, panel
from .canary import fitting, maker
from .claims import Stated, stated
from .foreign import Fit, name_of, takes
from .games import GAMES, Outcome
from .makers import Maker
from .runs import cluster
from .runs.batched import Together
from .runs.budget import Budget
from .runs.generators import fixed
from .runs.journal import Journal
from .runs.workers import ISOLATIONS, sendable
from .stage import Stage, said

FINAL = {"released": "the trained model", "attacker sees": "predictions on the canary"}
STEPWISE = {"released": "the model after every step", "attacker sees": "predictions on the canary after every step"}


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
    isolation: str = "auto",
    rng: Source | int | np.random.Generator | None = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str | None = None,
    checkpoint: str | Path | Lasting | None = None,
) -> Evidence:
    """Test a privacy claim about `fit(x, y, rng) -> predict`.

    The score of a run is the log-odds margin of the canary's label. Games: "runs" plays many runs with and without one
    canary, a fifth of which choose the threshold. "sequential" plays them in batches and stops once the claim is
    refuted. "one-run" trains once with many canaries (`runs` of them). "updates" sees the model after every step of a
    few runs, of a `fit` that is a generator (audits/stepping.py). With `seconds` the number of runs is fixed after a
    short trial, before the first run that counts. `checkpoint` names a file to which every run is added as it ends.
    An audit with the same settings resumes from it, and has the results of an uninterrupted one. The file is deleted at
    the end. `isolation` says where runs are made: in a "process" of their own, on the workers of "ray", with "none" in
    this process, or in a "fleet". A fleet makes many runs at once, of a fit that offers `fit.many` (runs/batched.py).
    "auto" is a fleet where there is one, else processes. It is "none" where no process can be given the fit: the fit
    has no name at the top of a module, and CUDA is in use, so that nothing can be forked. It changes no result but by
    rounding; what is made here can hang.

    Guarantee: a true claim is refuted with probability at most 1 - confidence (docs/proofs/auditing.md).
    Caller ensures: fit's runs are independent (it keeps nothing between calls), and the claim is about one release
    of what `fit` returns.
    Edge cases: a run that raises, hangs or predicts NaN or a constant counts against refutation.
    """
    if game not in GAMES:
        raise BadInput(f"Game {game!r} is not known.", fix=f"Use one of: {', '.join(GAMES)}.")
    if not callable(fit):
        raise BadInput(f"fit must be a function fit(x, y, rng) -> predict, got {type(fit).__name__}.")
    if not takes(fit, 3):
        raise BadInput(
            f"{name_of(fit)} cannot be called as fit(x, y, rng).",
            fix="Let it take records, labels and the numpy Generator that its randomness comes from.",
        )
    runs = check.whole("runs", runs, least=4)
    check.probability("confidence", confidence, zero=False, one=False)
    named = canary if canary == "auto" else maker(canary)[0]
    claimed = stated(claim, delta=delta, adjacency=adjacency)
    x, y = _checked(data)
    isolation, seeded = _where(fit, game, isolation), fixed(fit)
    fleet = Together.of(fit) if isolation == "fleet" else None
    journal = None
    if checkpoint is not None:
        called = str(getattr(fit, "__qualname__", name_of(fit)))  # with the functions that it was defined in
        about = {"fit": called, "game": game, "canary": named, "runs": runs, "confidence": confidence}
        about |= {"claim": claimed.bound.to_json()} | ({"fleet": fleet.at_once} if fleet else {})
        journal = Journal.open(checkpoint, about, (x, y), rng)
    budget = Budget.of(isolation, seconds, source(rng) if journal is None else journal.chance, journal, fleet)
    spread = cluster.session() if isolation == "ray" else contextlib.nullcontext()
    with spread, journal or contextlib.nullcontext():
        stage = Stage(fit, x, y, claimed.bound.adjacency, budget)
        outcome = GAMES[game](stage, claimed, canary, runs, confidence)
        if fleet is not None:
            fleet.compare_latest(limit=budget.limit, deadline=budget.deadline)
        found = _caught(stage, claimed, outcome, canary, runs)
    return Evidence(
        subject=name_of(fit),
        claim=claimed,
        demonstrations=outcome.shown,
        controls=_controls(outcome, claimed, fleet),
        not_covered=_not_covered(claimed, budget, seeded),
        threat=STEPWISE if game == "updates" else FINAL,
        provenance=_provenance(budget, outcome),
        scores=(outcome.scores,),
        caught=found,
    )


def _controls(outcome: Outcome, claim: Claim, fleet: Together | None) -> tuple[Control, ...]:
    refuted = any(item.bound.contradicts(claim.bound) for item in outcome.shown)
    failed = controls.failing(outcome.scores, refuted=refuted)
    return (*outcome.controls, *failed, *(() if fleet is None else (fleet.control(),)))


def _caught(stage: Stage, claim: Claim, outcome: Outcome, canary: str | Maker, runs: int) -> tuple[Fault, ...]:
    """What the audit would have refuted; nothing where it has."""
    shown = outcome.shown[-1]
    if any(item.bound.contradicts(claim.bound) for item in outcome.shown):
        return ()
    if shown.game not in ("runs", "sequential"):
        return panel.unknown()
    among = tuple(dict.fromkeys((shown.canary, *(name for name in fitting(stage.x) if name == "outlier"))))
    return panel.caught(
        stage, claim, shown, runs, lambda planted, count: games.lead_runs(planted, canary, count, among)
    )


def _where(fit: Fit, game: str, isolation: str) -> str:
    """Where runs are made; "auto" is decided here."""
    if isolation not in ISOLATIONS:
        raise BadInput(f"isolation must be one of {', '.join(ISOLATIONS)}, got {isolation!r}.")
    offered = callable(getattr(fit, "many", None))
    if isolation == "auto":
        if offered and game in ("runs", "sequential"):
            return "fleet"
        return "process" if sendable(fit) else "none"
    if isolation == "fleet" and game == "updates":
        raise BadInput("A game of updates follows single runs, step by step.", fix="Use another game, or no fleet.")
    if isolation == "fleet" and not offered:
        raise BadInput(
            "A fleet needs a fit that offers fit.many(x, y, member, rngs) -> predict.",
            fix="tacit.fleet.Runs makes one of a torch model; or leave isolation out.",
        )
    return isolation


def _checked(data: tuple[Array, Array]) -> tuple[Array, Array]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("data must be a pair (x, y).")
    x, y = (np.asarray(part) for part in data)
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or len(x) < 2:
        raise BadInput("data must be (x, y) with x of shape (records, ...) and one label per record.")
    if np.unique(y).size < 2:
        raise BadInput("data must hold at least two classes.")
    return x, y


def _not_covered(claim: Claim, budget: Budget, seeded: int) -> tuple[str, ...]:
    lines = ["an audit tests one pair of data sets; it can refute a claim, never prove one"]
    if claim.event is None:
        lines.append("the claim is stated as (epsilon, delta); no event was given to recompute it from")
    if budget.here:
        lines.append("runs were made in one process, the audit's own: what one left behind there, later ones could see")
    if seeded:
        what = "a generator" if seeded == 1 else f"{seeded} generators"
        lines.append(
            f"the code of this training keeps {what} with a fixed seed, started afresh for every run of the audit: a "
            "program that draws noise from such a seed repeats it, and whoever reads the code can take it away"
        )
    return tuple(lines)


def _alike(outcome: Outcome) -> bool:
    """Whether all runs with the canary gave the same answers, and all runs without it did: nothing in them is noise."""
    if len(outcome.results) != outcome.scores.member.size:
        return False  # runs of many canaries, or of many steps
    told = [(bool(coin), result) for coin, result in zip(outcome.scores.member, outcome.results, strict=True)]
    sides = [
        {np.asarray(one.score).tobytes() for coin, one in told if coin is side and not one.problem}
        for side in (True, False)
    ]
    return all(len(side) == 1 for side in sides)


def _provenance(budget: Budget, outcome: Outcome) -> Json:
    failed = sum(bool(result.problem) for result in outcome.results)
    return {
        "randomness": budget.chance.name,
        "isolation": "fleet, none" if budget.fleet is not None and budget.here else budget.isolation,
        **outcome.played,
        "runs_planned": outcome.planned,
        "runs_done": len(outcome.results) - failed,
        "runs_failed": failed,
        "failures": said(outcome.results, short=True),
        **({ALIKE: REPEATED} if _alike(outcome) else {}),
        **({"checkpoint_lines_damaged": budget.journal.damaged} if budget.journal and budget.journal.damaged else {}),
        "seconds": round(time.monotonic() - budget.began, 3),
    }
