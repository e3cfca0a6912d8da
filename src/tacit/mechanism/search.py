r"""Private choice of settings: a random number of private trials, of which only the best is released.

The number of trials K is Poisson or geometric, each trial runs a candidate drawn uniformly, and the result of the trial
with the largest score is released with its score. All K trials together cost little more than one: `RepeatAndSelect`.
Reference: Papernot and Steinke 2022, Hyperparameter tuning with Renyi differential privacy, Theorems 2 and 6; Liu and
Talwar 2019.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from typing import Generic, TypeVar, cast
from weakref import ReferenceType, ref

from ..core import Adjacency, BadInput, Charger, Event, Evidence, NotFinished, Receipt, Scoped, Source, check, source
from ..core.events import OneOf, RepeatAndSelect
from ..core.evidence import Claim
from ..core.randomness import Seeded
from ..loss import Plan, privacy_loss
from ..loss.conditions import upper_bound
from .charging import Random, behind, check_ledger
from .exact import Uniform, uniform_below
from .skellam_noise import poisson

Candidate = TypeVar("Candidate")
Result = TypeVar("Result")
Trial = Callable[[Candidate, Source], tuple[Result, float]]
"""(candidate, randomness) -> (what is released if it wins, its score: larger is better)."""
COVERED = "the event that was stated for a candidate covers its whole run and its score"
METHOD = "privacy-loss distribution"
MOST = 10_000
"""Trials on average, at most."""


@dataclass(frozen=True)
class Searched(Generic[Candidate, Result]):
    """The winner of a search: what its trial made, its score, its settings, and the cost of the whole search."""

    result: Result
    score: float
    candidate: Candidate
    evidence: Evidence
    receipt: Receipt | None = None


def search(
    make_run: Trial[Candidate, Result],
    candidates: Sequence[Candidate],
    *,
    event: Event | Plan | Callable[[Candidate], Event | Plan],
    delta: float,
    mean: float | None = None,
    shape: float | str | None = "auto",
    adjacency: Adjacency | str = "add-remove",
    unit: str = "record",
    ledger: Charger | None = None,
    rng: Random = None,
) -> Searched[Candidate, Result]:
    r"""Train with settings that are chosen privately, and release the best trial alone.

    `make_run(candidate, source)` trains with these settings and scores the result; both draw from `source`. If it has
    an attribute `many`, `make_run.many(candidates, sources)` makes all trials at once, in a fleet say, and returns a
    list of (result, score). How many there are is drawn before, and nobody but the trainer may learn it.
    `event` says what one trial costs, with its score: an Event or a Plan, or a function of the candidate.
    `mean` is the average number of trials, by default three for each candidate and ten at least. `shape` None: their
    number is Poisson; 1: geometric, which makes one trial at least; "auto" takes the cheaper of both. `unit` names
    what the events count: a record, or a user.

    Guarantee: `RepeatAndSelect(OneOf(events), mean, shape)`, charged once, before the first trial.
    Caller ensures: `event` covers the trial and its score. A score on private records needs noise of its own (compose
    its `Gaussian` with the plan's event), one on public records does not. No trial charges a ledger or is shown, and
    none goes on from another: model, optimizer and estimator are made inside `make_run`.
    Edge cases: a score that is not a number never wins; a Poisson number of 0 trials raises NotFinished, whatever the
    records are. Two trials that return one model object raise BadInput.
    """
    check_ledger(ledger)
    candidates = _listed(candidates)
    if not callable(make_run):
        raise BadInput(f"make_run must be a function (candidate, source), got {type(make_run).__name__}.")
    trials = check.real("mean", max(10.0, 3.0 * len(candidates)) if mean is None else mean)
    if not candidates or not 0 < trials <= MOST:
        raise BadInput(f"A search needs at least one candidate, and a mean between 0 and {MOST} trials.")
    neighbours = Adjacency.of(adjacency)
    whole = selection_event([_event(event, each) for each in candidates], trials, shape, delta, neighbours)
    evidence = _evidence(whole, delta, neighbours, len(candidates), source(rng).name, unit)
    receipt = None if ledger is None else _paid(ledger, whole, neighbours, unit)
    result, score, candidate = best_of(make_run, candidates, whole, source(rng))
    return Searched(_told(result, evidence, receipt), score, candidate, evidence, receipt)


def _listed(candidates: Iterable[Candidate]) -> list[Candidate]:
    if isinstance(candidates, Mapping | str) or not isinstance(candidates, Iterable):
        raise BadInput(f"candidates must be a list, got {type(candidates).__name__}.", fix="Give [0.1, 1.0], say.")
    return list(candidates)


def _told(result: Result, evidence: Evidence, receipt: Receipt | None) -> Result:
    """Replace the winner's own claim by the claim of the whole search, since the winner was chosen among many.

    A private estimator or a PATE run takes it over by a method `_won(evidence, receipt)`.
    """
    won = getattr(result, "_won", None)
    if callable(won) and not isinstance(result, type):
        won(evidence, receipt)
    own = getattr(result, "evidence", None)
    if not isinstance(own, Evidence) or not is_dataclass(result) or isinstance(result, type):
        return result
    whole = own.with_(
        claim=evidence.claim,
        not_covered=(*own.not_covered, *evidence.not_covered),
        provenance={**own.provenance, **evidence.provenance, **_seeded(own)},
    )
    return cast(Result, replace(result, evidence=whole))


def _seeded(own: Evidence) -> dict[str, str]:
    """That the winner drew from a seed, whatever the search drew from: its noise can be taken away."""
    return {"randomness": Seeded.name} if own.provenance.get("randomness") == Seeded.name else {}


def selection_event(
    events: Sequence[Event], mean: float, shape: float | str | None, delta: float, adjacency: Adjacency
) -> RepeatAndSelect:
    """What a search over candidates of these costs is charged for; "auto" takes the shape that costs less at delta."""
    distinct = tuple(dict.fromkeys(events))
    inner = distinct[0] if len(distinct) == 1 else OneOf(distinct)
    if shape == "auto" and mean > 1:
        both = [RepeatAndSelect(inner, mean, each) for each in (None, 1.0)]
        return min(both, key=lambda event: privacy_loss(event, adjacency).epsilon(delta).upper)
    if shape not in ("auto", None, 1):
        raise BadInput(f"shape must be 'auto', None (Poisson) or 1 (geometric), got {check.told(shape)}.")
    return RepeatAndSelect(inner, mean, None if shape in ("auto", None) else 1.0)


def best_of(
    make_run: Trial[Candidate, Result],
    candidates: Sequence[Candidate],
    event: RepeatAndSelect,
    chance: Source,
) -> tuple[Result, float, Candidate]:
    """Run a random number of trials and return the best, the first of equals. The caller has charged the event."""
    trials = []
    for _ in range(number_of_trials(event.mean, event.shape, chance)):
        trials.append((candidates[int(uniform_below(chance, len(candidates), 1)[0])], chance.spawn(1)[0]))
    best: tuple[Result, float, Candidate] | None = None
    models: dict[int, ReferenceType[object]] = {}
    for (candidate, _), made in zip(trials, _made(make_run, trials), strict=True):
        result, told = _scored(made)
        _check_new(result, models)
        if best is None or told > best[1]:
            best = result, told, candidate
    if best is None:
        raise NotFinished(
            "The number of trials was drawn as 0, which releases nothing.",
            fix="Search again, with a charge of its own.",
        )
    return best


def _scored(made: tuple[Result, float]) -> tuple[Result, float]:
    """What a trial made, and its score: one that is not a number is the least of all."""
    try:
        result, score = made
        told = float(score)
    except (TypeError, ValueError):
        raise BadInput("make_run must return what it made and its score, a number.") from None
    return result, -math.inf if math.isnan(told) else told


def _check_new(result: object, models: dict[int, ReferenceType[object]]) -> None:
    """Refuse a model that an earlier trial returned, too: one of them went on from the other, or overwrote it.

    The theorems are about independent trials. `models` holds those so far by their identity, and keeps none alive.
    """
    for model in (result, getattr(result, "model", None)):
        if isinstance(model, type) or not any(callable(getattr(model, name, None)) for name in ("fit", "state_dict")):
            continue
        known = models.get(id(model))
        if known is not None and known() is model:
            raise BadInput(
                f"Two trials of the search returned the same {type(model).__name__}: trials that go on from one "
                "another cost more than the search was charged for.",
                fix="Make model, optimizer and estimator inside make_run.",
            )
        with contextlib.suppress(TypeError):  # what allows no weak references
            models[id(model)] = ref(model)


def _made(
    make_run: Trial[Candidate, Result], trials: Sequence[tuple[Candidate, Source]]
) -> Iterable[tuple[Result, float]]:
    """The outcomes of all trials: one after another, or by one call of `make_run.many` where it offers that."""
    many = getattr(make_run, "many", None)
    if many is None or not trials:
        return (make_run(candidate, own) for candidate, own in trials)
    found = list(many([candidate for candidate, _ in trials], [own for _, own in trials]))
    if len(found) != len(trials):
        raise BadInput("make_run.many must return one (result, score) for each candidate.")
    return found


def number_of_trials(mean: float, shape: float | None, chance: Source) -> int:
    """A Poisson number (`shape` None) or a geometric one from 1 on (1), drawn exactly by inversion."""
    if shape is None:
        return int(poisson(Fraction(mean), 1, chance)[0])
    if shape != 1:
        raise BadInput(f"shape must be None (Poisson) or 1 (geometric), got {check.told(shape)}.")
    uniform, left = Uniform(int(chance.words(1)[0]), 64, chance), 1 - 1 / Fraction(mean)
    if left <= 0:
        return 1

    def enough(count: int) -> bool:
        return uniform.below(_rational(1 - left**count))

    count = max(math.ceil(math.log(1 - Fraction(uniform.word, 1 << 64)) / math.log(left)), 1)
    while count > 1 and enough(count - 1):
        count -= 1
    while not enough(count):
        count += 1
    return count


def _rational(p: Fraction) -> Callable[[int], tuple[int, int]]:
    return lambda bits: (math.floor(p * (1 << bits)), math.ceil(p * (1 << bits)))


def _event(given: Event | Plan | Callable[[Candidate], Event | Plan], candidate: Candidate) -> Event:
    found = given(candidate) if callable(given) else given
    found = found.event if isinstance(found, Plan) else found
    if not isinstance(found, Event):
        raise BadInput("`event` must be an Event, a Plan, or a function of a candidate that returns one.")
    return found


def _evidence(
    event: RepeatAndSelect, delta: float, adjacency: Adjacency, candidates: int, randomness: str, unit: str
) -> Evidence:
    found = privacy_loss(event, adjacency).epsilon(check.delta(delta)).upper
    bound = upper_bound(found, delta, event, adjacency, method=METHOD, unit=unit, more=(COVERED,))
    return Evidence(
        subject="the best of a private search",
        claim=Claim(bound, event),
        not_covered=("trials other than the winner: they are never shown", "how the candidates were listed"),
        threat={
            "released": "the winning trial's result, score and settings",
            "attacker sees": "them, and knows all candidates",
            "trust": "whoever trains holds the records and is trusted with them",
            "composition": "this search alone, unless a ledger was charged",
        },
        provenance={"settings": chosen_among(candidates, event), "randomness": randomness},
    )


def chosen_among(candidates: int, event: RepeatAndSelect) -> str:
    """How settings were chosen, in words."""
    kind = "Poisson" if event.shape is None else "geometric"
    return (
        f"chosen among {candidates} candidates by private selection: a {kind} number of trials, {event.mean:g} on "
        "average; the claim includes its cost"
    )


def _paid(ledger: Charger, event: Event, adjacency: Adjacency, unit: str) -> Receipt:
    ledger, purpose, analyst = behind(ledger, "search")
    key = f"search-{secrets.token_hex(16)}"
    if isinstance(ledger, Scoped):
        return ledger.charge(event, key=key, purpose=purpose, analyst=analyst, adjacency=adjacency, unit=unit)
    return ledger.charge(event, key=key, purpose=purpose, analyst=analyst)
