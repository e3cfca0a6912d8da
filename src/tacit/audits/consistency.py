r"""Relations that stored parts of evidence obey whatever the data were.

Rates, curves, panels and numbers of runs rest on the data, so they cannot be recomputed. But they are not independent
of each other. A rate is a whole number of records over their number, and no interval is narrower than its sample
allows. An area lies between the step functions of its own curve, and no game judges more runs than were planned. A file
in which one of these fails was not written from any data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..core import Claim, Demonstration, Estimate, Evidence, Measurement, Verdict, lower_proportion, upper_proportion
from ..core.events import Repeat
from ..core.fault import FAULTS, Fault
from ..core.shown import significant
from .bounds.one_run import OneRun, OneRunCurve
from .bounds.updates import UpdatesCurve
from .panel import of_release
from .verified_rows import TOLERANCE, WORDS, Statement

SLACK = 1e-6
"""How far off a stored rate may be from a whole number of records, and an end of an interval from its limit."""
LEAST = 3
"""Non-members above the threshold of a rate, at least: with fewer it is not known."""
RELEASED = "mechanism"
"""The game of a release that is called on two data sets."""
ONE_RUN = OneRun.method, OneRunCurve.method
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
FALSE = " is false"
"""How a sentence says that a claim is refuted."""


def relations(evidence: Evidence) -> Iterator[Statement]:
    """One row for each relation between the parts of some evidence."""
    for shown in evidence.demonstrations:
        problem = _too_many(shown, evidence.claim)
        yield Statement.holds(f"{shown.game} with {shown.canary}, runs", "no more than planned", problem)
    for item in evidence.measurements:
        yield Statement.holds(f"{item.attack}, rates", "rates that records can have", _measured(item))
    names = [fault.name for fault in evidence.caught]
    if names:
        problem = "" if len(set(names)) == len(names) else "a fault is listed twice"
        yield Statement.holds("panel", "every fault once", problem)
        yield Statement.of("panel, faults", ", ".join(sorted(names)), ", ".join(sorted(FAULTS)), WORDS)


def panel(evidence: Evidence) -> Iterator[Statement]:
    """The panel of a release, which follows from the claimed noise and the counts.

    Planted faults of a training rest on runs of their own, whose counts are not stored.
    """
    shown = evidence.demonstrations[-1] if evidence.demonstrations else None
    if evidence.claim is None or shown is None or shown.game != RELEASED or not evidence.caught:
        return
    again = {fault.name: fault.chance for fault in _again(evidence.claim, shown)}
    for fault in evidence.caught:
        name, found = f"panel, {fault.name}", again.get(fault.name)
        yield Statement(name, _chance(fault.chance), _chance(found), _alike(fault.chance, found))


def told(evidence: Evidence, stored: Mapping[str, Any]) -> Iterator[Statement]:
    """What a stored sentence says: that the claim is false or not, its numbers, and then its wording."""
    said, now = str(stored.get("sentence", "")), evidence.sentence
    false = "the claim is false" if evidence.verdict is Verdict.REFUTED else "the claim is not said to be false"
    says = "the claim is false" if FALSE in said else "the claim is not said to be false"
    yield Statement.of("sentence, verdict", says, false)
    known = _numbers(now) | {end for fault in evidence.caught for end in _percents(fault)} | _epsilons(evidence)
    strange = sorted(_numbers(said) - known)
    problem = f"names {', '.join(f'{number:.6g}' for number in strange[:5])}" if strange else ""
    yield Statement.holds("sentence, numbers", "numbers of this evidence", problem)
    yield Statement.of("sentence", said, now, WORDS)


def _numbers(text: str) -> set[float]:
    return {float(found.replace(",", "")) for found in NUMBER.findall(text)}


def _epsilons(evidence: Evidence) -> set[float]:
    """The epsilons that a sentence names, as any version may have rounded them."""
    named = [bound.epsilon for bound in evidence.bounds]
    return {float(significant(value)) for value in (evidence.attainable, *named) if math.isfinite(value)}


def _percents(fault: Fault) -> set[float]:
    """The chance of a fault in percent, as any version may have rounded it."""
    ends = () if fault.chance is None else (fault.chance.lower, fault.chance.value or 0.0, fault.chance.upper)
    return {float(use(100 * end)) for end in ends for use in (math.floor, round, math.ceil)}


def _again(claim: Claim, shown: Demonstration) -> tuple[Fault, ...]:
    try:
        return of_release(claim, shown)
    except (ArithmeticError, ValueError):
        return ()


def _chance(chance: Estimate | None) -> str:
    return "not known" if chance is None else f"{chance.value:.6g} ({chance.lower:.6g} to {chance.upper:.6g})"


def _alike(one: Estimate | None, other: Estimate | None) -> bool:
    """Whether two chances are equal up to rounding: sums of many terms are right to absolute digits."""
    if one is None or other is None:
        return one is other
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("value", "lower", "upper", "confidence")]
    same = one.n == other.n and one.note == other.note
    return same and all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-9) for a, b in pairs)


def _too_many(shown: Demonstration, claim: Claim | None) -> str:
    """A sentence if more was judged than was planned: runs, canaries of one run, or steps of all runs."""
    counts, method, planned = shown.counts, shown.bound.method, shown.planned
    judged = counts.n_in if method in ONE_RUN else counts.n_in + counts.n_out
    steps = claim.event.steps if claim is not None and isinstance(claim.event, Repeat) else 1
    most = planned * steps if method == UpdatesCurve.method else planned
    if judged > most:
        return f"{judged} judged, {most} planned"
    return "" if shown.failed <= planned else f"{shown.failed} failed, {planned} planned"


def _measured(item: Measurement) -> str:
    """What no attack on so many members and others can have found, in words; nothing where all is possible."""
    rates = [(estimate, fpr) for fpr, estimate in item.tpr_at_fpr if estimate.value is not None]
    open_ = [estimate for _, estimate in item.tpr_at_fpr if estimate.value is None]
    fewer = min(item.members, item.nonmembers)
    checks = (
        ("a number of records", item.auc.n == fewer and all(one.n == item.nonmembers for _, one in item.tpr_at_fpr)),
        ("a rate that is not known", all((one.lower, one.upper) == (0.0, 1.0) for one in open_)),
        ("a rate from so few records", all(item.nonmembers * fpr >= LEAST - SLACK for _, fpr in rates)),
        ("the area's interval", _interval(item, item.auc, fewer, (1 + item.auc.confidence) / 2)),
        ("a rate", all(_whole(estimate.value or 0.0, item.members) for estimate, _ in rates)),
        (
            "a rate's interval",
            all(_interval(item, one, item.members, 1 - (1 - one.confidence) / 4) for one, _ in rates),
        ),
        ("the curve", not item.roc or _curve(item)),
        ("the area and the curve", len(item.roc) < 2 or _area(item)),
        ("a rate and the curve", len(item.roc) < 2 or all(_between(item, fpr, one) for one, fpr in rates)),
    )
    return "; ".join(f"{name} cannot be" for name, holds in checks if not holds)


def _whole(rate: float, size: int) -> bool:
    """Whether a rate is a whole number of records over their number."""
    return abs(rate * size - round(rate * size)) <= SLACK * max(size, 1)


def _interval(item: Measurement, estimate: Estimate, size: int, each: float) -> bool:
    """Whether an interval holds its value and is no narrower than that of so many independent records.

    Records that were attacked in several targets count as fewer, by a number that is not stored.
    """
    if estimate.value is None or size < 1 or not 0 < each < 1:
        return estimate.value is None
    value, hits = estimate.value, estimate.value * size
    if not 0 <= estimate.lower <= value + SLACK <= estimate.upper + 2 * SLACK <= 1 + 3 * SLACK:
        return False
    low, high = float(lower_proportion(hits, size, each)), float(upper_proportion(hits, size, each))
    return item.targets > 1 or (estimate.lower <= low + SLACK and estimate.upper >= high - SLACK)


def _curve(item: Measurement) -> bool:
    """Whether points rise, are whole numbers of records, and their band is no narrower than their numbers allow."""
    fpr, tpr, low, high = np.array(item.roc).T
    if (np.diff(fpr) < -SLACK).any() or (np.diff(tpr) < -SLACK).any():
        return False
    whole = all(_whole(float(x), item.nonmembers) for x in fpr) and all(_whole(float(y), item.members) for y in tpr)
    each = (1 + item.auc.confidence) / 2
    hits = np.rint(tpr * item.members)
    narrow = (low > lower_proportion(hits, item.members, each) + SLACK) | (
        high < upper_proportion(hits, item.members, each) - SLACK
    )
    return whole and (item.targets > 1 or not narrow.any())


def _area(item: Measurement) -> bool:
    """Whether the area lies between the steps below and above the points that are kept of the curve."""
    fpr, tpr, _, _ = np.array(item.roc).T
    fpr, tpr = np.append(fpr, 1.0), np.append(tpr, 1.0)
    below, above = float(np.diff(fpr) @ tpr[:-1]), float(np.diff(fpr) @ tpr[1:])
    value = item.auc.value
    return value is None or below - SLACK <= value <= above + SLACK


def _between(item: Measurement, fpr: float, estimate: Estimate) -> bool:
    """Whether a rate lies between the curve's points around it."""
    rates, heights = np.array(item.roc)[:, 0], np.array(item.roc)[:, 1]
    place = int(np.searchsorted(rates, fpr + 1e-12, side="right"))
    low = float(heights[place - 1]) if place else 0.0
    high = float(heights[place]) if place < heights.size else 1.0
    return low - SLACK <= (estimate.value or 0.0) <= high + SLACK
