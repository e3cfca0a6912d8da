"""Recompute what follows from the events and counts stored in some evidence; no data is needed.

Numbers are rows of `bounds`. What is said beside them (which family a bound stays in, what it assumes, the verdict, the
sentence) are rows of `statements`. Facts decide; wording may be another version's. Parts that rest on the data are held
against each other (`consistency`). `unchecked` lists the parts of the evidence that none of these can confirm, as
they rest on the data or on the author. `ONLY_DATA` is the list of those parts: a test changes every
field of the schema and asks that verification notices it, or that the field is on this list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__ as version
from ..core import BadInput, Bound, Claim, Demonstration, Event, Evidence, Side, TacitError, Unsupported
from ..core.errors import clean
from ..core.events import Allocation, BandedFactorisation, CyclicPoisson, MatrixFactorisation, Repeat, Shuffled, family
from ..core.evidence_schema import schema
from ..core.files import shown, text
from ..core.json_text import parsed
from ..core.schema_check import unnamed
from ..loss import privacy_loss
from ..loss.conditions import conditions, listed
from .bounds.anytime import Anytime, AnytimeCurve
from .bounds.bayes import credible
from .bounds.estimators import ClopperPearson, Estimator
from .bounds.exact import Exact, ExactCurve
from .bounds.families import Curve
from .bounds.methods import estimator
from .bounds.one_run import OneRun, OneRunCurve, OneRunEstimator
from .claims import STATED, limits
from .consistency import panel, relations, told
from .planned import planned
from .verified_rows import FACT, TOLERANCE, Recomputed, Statement, Verification

MOST_RUNS, MOST_POINTS = 1_000_000, 2_000
"""More runs, or points of a curve, than any honest file holds are not recomputed, and count as not confirmed."""
FAINT = 1e-9
"""Rates below this are compared by their difference, as a share of it: their last digits are rounding."""
PROVEN = ("privacy-loss distribution", "privacy accounting")
"""Methods of a claim that is read from its event."""
TOGETHER = (Exact.method, ExactCurve.method), (Anytime.method, AnytimeCurve.method)
"""Readings that every game judged by an event has together: one alone has lost the other."""
ONE_TEST = OneRun.method, OneRunCurve.method
"""One run is one test: a claimed event is judged by its curve, and the weaker bound never stands instead of it."""
ONLY_DATA: dict[str, str] = {
    "subject": "what was examined",
    "claim.bound.unit": "what one unit is",
    "claim.bound.assumptions": "what the makers of the bounds assume beyond the theorems",
    "demonstrations.bound.assumptions": "what the makers of the bounds assume beyond the theorems",
    "claim.frontier": "which points of curves are stored",
    "budget": "which points of curves are stored",
    "demonstrations.threshold": "how the games were played",
    "demonstrations.game": "how the games were played",
    "demonstrations.canary": "how the games were played",
    "demonstrations.planned": "how the games were played",
    "demonstrations.failed": "how the games were played",
    "measurements": "the attacks' rates and curves",
    "utility": "utility",
    "controls": "what the controls found",
    "not_covered": "what the proof does not cover",
    "threat": "the threat model",
    "provenance": "where the result comes from",
    "exposures": "which records are exposed",
    "risk": "how many records are at risk",
    "groups": "the rates of groups",
    "caught": "what the audit would have caught",
    "described": "what its owner says of it",
    "histograms": "how the scores of the games fall",
    "findings": "what attacks on a release disclose",
}
"""Parts of evidence that no recomputation confirms, by their path in its JSON, and how they are called."""
RESTS_ON = {
    "claim.event": "that the claimed event is what was run",
    "demonstrations.counts": "the counts of the games",
    "demonstrations.bound.confidence": "that confidence and guesses were fixed before the games",
}
"""What is recomputed from, and so not confirmed itself."""
WHOLE_LISTS = {"demonstrations": "that no game was left out"}
"""Lists of which every item is recomputed, and whose length is not."""
GIVEN = {"claim.bound.adjacency": "that data sets differ by what the adjacency says"}
"""Choices of whoever made the claim, which a forger could change everywhere at once."""
BARE = "that somebody made the claim with these numbers"
"""Of a claim without an event."""
UNKNOWN = "fields that this version does not know"


def verify(evidence: Evidence | str | Path) -> Verification:
    """Recompute the claim and what it assumes from its event, the rates and steps it allows, each lower bound from its
    counts, and what each could have shown at most. A file's verdict, sentence and derived numbers are recomputed, too.

    Takes evidence, or the path of an evidence file. A part that cannot be recomputed at all counts as not confirmed.
    """
    stored: Mapping[str, Any] = {}
    if isinstance(evidence, str | Path):
        path = Path(evidence)
        evidence = Evidence.load(path)
        stored = parsed(text(path), shown(path))
    if not isinstance(evidence, Evidence):
        raise BadInput(f"verify takes Evidence or the path of an evidence file, not {type(evidence).__name__}.")
    claim = evidence.claim
    numbers = [] if claim is None else [*_claim(claim), *_budget(evidence, claim)]
    writer = str(evidence.provenance.get("tacit", "an unnamed version"))
    words = [*_derived(evidence, stored)] + ([] if claim is None else [*_claim_words(claim, writer)])
    for item in evidence.demonstrations:
        use = _estimator(item.bound, claim)
        numbers += _demonstration(item, use)
        words += _demonstration_words(item, use, claim, writer)
    words += [*_games(evidence), *relations(evidence), *panel(evidence), *planned(evidence)]
    ok = all(row.equal for row in numbers) and all(row.equal for row in words if row.kind == FACT)
    return Verification(ok, tuple(numbers), (*_unchecked(evidence), *_strange(stored)), tuple(words))


def _claim(claim: Claim) -> Iterator[Recomputed]:
    bound, event = claim.bound, claim.event
    if event is None:
        yield Recomputed.of(bound.method, bound.epsilon, None)
    else:
        yield _or_unknown(bound.method, bound.epsilon, _epsilon(event, bound))
    if claim.frontier:
        yield _frontier(claim)


def _frontier(claim: Claim) -> Recomputed:
    """The point of the frontier that is farthest from what the claim allows, relative to its size: points at tiny rates
    count as much as others. The one near 1 in 1,000 if none is off."""
    name = f"{claim.bound.method}, rates allowed"
    rates, stored = (np.array(column) for column in zip(*claim.frontier, strict=True))
    found = _array(lambda: limits(claim, rates)) if rates.size <= MOST_POINTS else None
    if found is None:
        return Recomputed(name, float(stored[0]), None, equal=False)
    with np.errstate(over="ignore", invalid="ignore"):  # of points that no curve has: they are not equal
        apart = np.abs(stored - found) / np.maximum(np.maximum(np.abs(stored), np.abs(found)), FAINT)
    worst = int(np.argmax(apart) if apart.any() else np.argmin(np.abs(rates - 1e-3)))
    if apart[worst] <= TOLERANCE:
        return Recomputed(name, float(stored[worst]), float(found[worst]), equal=True)
    return Recomputed.of(name, float(stored[worst]), float(found[worst]))


def _budget(evidence: Evidence, claim: Claim) -> Iterator[Recomputed]:
    """What is proven after some steps, from the event with fewer of them."""
    event, bound = claim.event, claim.bound
    if event is None or not evidence.budget:
        return
    last = max(item.step for item in evidence.budget)
    for item in evidence.budget[:MOST_POINTS]:
        fewer = _begun(event, item.step, last)
        found = None if fewer is None else _epsilon(fewer, bound)
        yield _or_unknown(f"{bound.method}, after {item.step} step{'s' if item.step > 1 else ''}", item.epsilon, found)
    if len(evidence.budget) > MOST_POINTS:
        yield Recomputed(f"{bound.method}, after so many steps", bound.epsilon, None, equal=False)


def _begun(event: Event, step: int, last: int) -> Event | None:
    """The event of the first `step` of `last` steps; passes that have begun count whole."""
    if isinstance(event, Repeat):
        inner = event.event
        length = inner.batches if isinstance(inner, Shuffled) else inner.steps if isinstance(inner, Allocation) else 1
        each = 1 if last == event.steps else length  # a budget that ends with the passes counts passes
        return Repeat(inner, -(-step // each)) if 0 < step <= event.steps * each else None
    if isinstance(event, BandedFactorisation) and 0 < step <= event.steps:
        return replace(event, steps=step, participations=-(-step // event.separation))
    if isinstance(event, CyclicPoisson) and 0 < step <= event.steps:
        return replace(event, steps=step)
    if isinstance(event, MatrixFactorisation) and 0 < step <= len(event.encoder):
        return replace(event, encoder=event.encoder[:step], participations=-(-step // event.separation))
    return event if step == 1 == last else None


def _claim_words(claim: Claim, writer: str) -> Iterator[Statement]:
    bound, event = claim.bound, claim.event
    yield Statement.of("claim, side and confidence", (bound.side.value, bound.confidence), (Side.UPPER.value, 1.0))
    yield Statement.of("claim, family", bound.assumes, None if event is None else family(event))
    if event is None:
        yield Statement.of("claim, method", bound.method, STATED)
        return
    yield Statement("claim, method", bound.method, " or ".join(PROVEN), bound.method in PROVEN)
    yield _listed("claim, conditions", bound, conditions(event), writer)


def _listed(about: str, bound: Bound, needed: Iterable[str], writer: str) -> Statement:
    """Check that a bound lists all conditions of its theorem. The message names the version that wrote it: an older
    one may have listed fewer."""
    missing = [text for text in needed if not listed(text, bound.assumptions)]
    stored = f"{len(bound.assumptions)} listed by tacit {writer}"
    if not missing:
        return Statement(about, stored, "all that its theorem assumes", equal=True)
    fix = f"(tacit {version} lists them; if the file is an older one, write it again)"
    return Statement(about, stored, f"missing: {'; '.join(missing)} {fix}", equal=False)


def _estimator(bound: Bound, claim: Claim | None) -> Estimator | None:
    event = None if claim is None else claim.event
    return estimator(bound.method, delta=bound.delta, adjacency=bound.adjacency, event=event)


def _demonstration(item: Demonstration, use: Estimator | None) -> list[Recomputed]:
    bound = item.bound
    quick = isinstance(use, ClopperPearson | Curve | Anytime | AnytimeCurve)
    if use is None or (not quick and max(item.counts.n_in, item.counts.n_out) > MOST_RUNS):
        return [Recomputed(bound.method, bound.epsilon, None, equal=False)]
    read, most = use.read, use.attainable
    rows = [
        _or_unknown(bound.method, bound.epsilon, _number(lambda: read(item.counts, bound.confidence))),
        _or_unknown(
            f"{bound.method}, attainable", item.attainable, _number(lambda: most(item.counts, bound.confidence))
        ),
    ]
    if item.credible is not None:
        found = _pair(lambda: credible(item.counts, bound.delta, bound.confidence))
        ends = zip(("from", "to"), item.credible, found, strict=True)
        rows += [_or_unknown(f"credible, {end}", stored, again) for end, stored, again in ends]
    return rows


def _demonstration_words(
    item: Demonstration, use: Estimator | None, claim: Claim | None, writer: str
) -> Iterator[Statement]:
    """That a bound is from below, stays in the family that its method reads, and speaks of what is claimed."""
    bound, name = item.bound, f"{item.bound.method} of {item.game}"
    yield Statement.of(f"{name}, side", bound.side.value, Side.LOWER.value)
    if use is not None:
        yield Statement.of(f"{name}, family", bound.assumes, use.assumes)
        yield _listed(f"{name}, conditions", bound, use.assumptions, writer)
    if isinstance(use, OneRunEstimator):
        yield Statement.of(f"{name}, canaries", item.counts.n_in, item.counts.n_out)
    if claim is not None:
        of = claim.bound
        told, wanted = (bound.delta, bound.adjacency, bound.unit), (of.delta, of.adjacency, of.unit)
        yield Statement.of(f"{name}, delta, adjacency and unit", told, wanted)


def _games(evidence: Evidence) -> Iterator[Statement]:
    """Check that all estimators of one game read the same counts, and that no estimator's reading was dropped."""
    games: dict[tuple[object, ...], list[Demonstration]] = defaultdict(list)
    for item in evidence.demonstrations:
        kept = item.game, item.canary, item.threshold, item.planned, item.failed, item.bound.confidence
        games[kept].append(item)
    proven = evidence.claim is not None and evidence.claim.event is not None
    for (game, canary, *_), items in games.items():
        seen: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        for item in items:
            seen[item.bound.method].append(tuple(vars(item.counts).values()))
        first, *others = (sorted(counts) for counts in seen.values())
        alike = all(counts == first for counts in others)
        yield Statement(f"{game} with {canary}, counts", "equal" if alike else "different", "equal", alike)
        for free, within in TOGETHER if proven else ():
            yield Statement.of(f"{game} with {canary}, {free}", len(seen[free]), len(seen[within]))
        free, within = ONE_TEST
        if proven and seen.get(free):
            yield Statement.of(f"{game} with {canary}, {free}", len(seen[free]), len(seen.get(within, ())))


def _derived(evidence: Evidence, stored: Mapping[str, object]) -> Iterator[Statement]:
    """What a file writes for the reader, beside what follows from its parts."""
    if not stored:
        return
    again = evidence.to_json()
    for name in ("verdict", "attainable", "bounds"):
        yield Statement.of(name, _rounded(stored.get(name)), _rounded(again[name]))
    yield from told(evidence, stored)


def _rounded(value: object) -> object:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _unchecked(evidence: Evidence) -> tuple[str, ...]:
    """What is in the evidence and cannot be recomputed from it, or is what everything is recomputed from."""
    listed = {**ONLY_DATA, **GIVEN, **RESTS_ON, **WHOLE_LISTS}
    held = [name for path, name in listed.items() if _holds(evidence, path.split("."))]
    if evidence.claim is not None and evidence.claim.event is None:
        held.append(BARE)
    return tuple(dict.fromkeys(held))


def _strange(stored: Mapping[str, object]) -> Iterator[str]:
    """Keys of a file that nothing here reads: a later version's, or anybody's."""
    found = dict.fromkeys(unnamed(stored, schema()))
    names = [name for name in found if not name.startswith("claim.event.")]  # events know their own
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        yield f"{UNKNOWN}: {', '.join(map(clean, names[:5]))}{more}"


def _holds(value: object, path: list[str]) -> bool:
    if not path:
        return value not in (None, "", (), {})
    if isinstance(value, tuple):
        return any(_holds(item, path) for item in value)
    return value is not None and _holds(getattr(value, path[0]), path[1:])


def _epsilon(event: Event, bound: Bound) -> float | None:
    return _number(lambda: privacy_loss(event, bound.adjacency).epsilon(bound.delta).upper)


def _or_unknown(method: str, stored: float, found: float | None) -> Recomputed:
    """A row that is not confirmed where nothing could be computed."""
    return Recomputed(method, stored, None, equal=False) if found is None else Recomputed.of(method, stored, found)


def _number(compute: Callable[[], float]) -> float | None:
    try:
        return float(compute())
    except (TacitError, Unsupported, ArithmeticError, ValueError):
        return None


def _array(compute: Callable[[], object]) -> Any:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return compute()
    except (TacitError, Unsupported, ArithmeticError, ValueError):
        return None


def _pair(compute: Callable[[], tuple[float, float]]) -> tuple[float | None, float | None]:
    try:
        return compute()
    except (TacitError, ArithmeticError, ValueError):
        return None, None
