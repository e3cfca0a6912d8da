"""Tests of the experiment itself. Each can fail for a reason; a failed one makes everything else uninformative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Control, Observations, Scores, Source, source
from .sample_size import records_needed
from .targets import AnyAttack

CONFIDENCE = 0.999
Randomness = Source | int | np.random.Generator | None


def null(attack: AnyAttack, target: Observations, references: Observations | None, rng: Randomness) -> Control:
    """With the target's membership shuffled, the attack must find nothing.

    An attack that reads `target.member`, or scores judged by what they were made from, would find something.
    """
    member, chance = target.need("member").astype(bool), source(rng)
    shuffled = np.stack([column[chance.permutation(column.size)] for column in member.T], axis=1)
    found = attack(replace(target, member=shuffled), references).auc(CONFIDENCE)
    text = f"area {found.value:.3f} in [{found.lower:.3f}, {found.upper:.3f}]"
    return Control("null", "shuffled membership: the interval holds 0.5", text, found.lower <= 0.5 <= found.upper)


def planted_leak(attack: AnyAttack, target: Observations, references: Observations | None) -> Control:
    """Control: with a leak planted into all models, the attack must find it in the target. It shows a reversed sign."""
    size = max(_reach(seen) for seen in (target, references) if seen is not None)
    found = attack(leaking(target, size), None if references is None else leaking(references, size)).auc(CONFIDENCE)
    text = f"area {found.value:.3f}, at least {found.lower:.3f}"
    passed = found.lower > 0.5
    inside = target.need("member").astype(bool).mean()
    side = "members" if inside < 0.5 else "outsiders" if inside > 0.5 else "members and outsiders"
    few = "" if passed else _too_few(found.value or 0.0, side)
    return Control("planted leak", "members given away: the area is above 0.5", text + few, passed)


def _too_few(area: float, side: str) -> str:
    """What a planted leak that is found, and not for certain, would need."""
    if area <= 0.5:
        return ""
    needed = records_needed(area, CONFIDENCE)
    number = "" if needed is None else f", about {needed:,}"
    return f". The area is right and too few records show it: more {side} are needed{number}"


def direction(scores: Sequence[Scores]) -> tuple[Control, ...]:
    """A failed control where members score lower than outsiders for certain; nothing else is a control here.

    Members and outsiders that were exchanged, labels of other records and losses given as scores would all read as
    "nothing was found". An attack whose scores go the right way by more than another's go the wrong way decides.
    """
    each = 1 - (1 - CONFIDENCE) / max(len(scores), 1)
    areas = [(item.attack, item.auc(each)) for item in scores]
    name, worst = min(areas, key=lambda row: row[1].upper, default=("", None))
    best = max((area.lower for _, area in areas), default=0.0)
    if worst is None or worst.upper >= 0.5 or best - 0.5 >= 0.5 - worst.upper:
        return ()
    found = (
        f"area {worst.value:.3f} by {name}, at most {worst.upper:.3f}. Are members and outsiders exchanged, are labels "
        "those of other records, or are the scores lower for members?"
    )
    return (Control("direction", "members score higher than outsiders, or alike", found, passed=False),)


def leaking(seen: Observations, size: float | None = None) -> Observations:
    """What the models would show had they leaked: sure and right about members, nearly undecided about others.

    Models that are compared must leak alike: give all the same `size`, or each has its own reach.
    """
    member = seen.need("member").astype(bool)
    size = _reach(seen) if size is None else size
    if seen.logits is not None and seen.label is not None:
        logits = seen.logits.copy()
        np.divide(logits, 10.0, out=logits, where=~member[:, :, None])
        rows, models = np.nonzero(member)
        logits[rows, models, seen.label[rows]] += size
        sure = Observations.from_logits(logits, seen.label, member=member, record=seen.record, group=seen.group)
        return replace(sure, features=seen.features, **_flat(seen, member))
    told: dict[str, Any] = {}
    if any(getattr(seen, name) is not None for name in ("margin", "loss", "probability")):
        margin = _margin(seen)
        margin = np.where(member, margin + size, margin / 10)
        loss = np.logaddexp(0.0, -margin)
        told = {"margin": margin, "loss": loss, "probability": np.exp(-loss)}
    told = {name: value for name, value in told.items() if getattr(seen, name) is not None}
    return replace(seen, **told, **_flat(seen, member))


def _reach(seen: Observations) -> float:
    """How much surer a model must become to be surer than it is of anything: the range of its answers, and 10 more."""
    signal = seen.logits if seen.logits is not None and seen.label is not None else None
    if signal is None and any(getattr(seen, name) is not None for name in ("margin", "loss", "probability")):
        signal = _margin(seen)
    return 10.0 + (0.0 if signal is None else float(np.ptp(signal)))


def _flat(seen: Observations, member: NDArray[np.bool_]) -> dict[str, Any]:
    """Shrink the members' gradients to a thousandth, as in models that fit their members completely."""
    part: dict[str, Any] = {}
    if seen.gradient_norm is not None:
        part["gradient_norm"] = np.where(member, 1e-3 * seen.gradient_norm.min(), seen.gradient_norm)
    if seen.internals is not None:
        part["internals"] = {
            name: array * np.where(member, 1e-3, 1.0).reshape(*member.shape, *(1,) * (array.ndim - 2))
            if "error/" in name or "gradient/" in name
            else array
            for name, array in seen.internals.items()
        }
    return part


def _margin(seen: Observations) -> NDArray[np.float64]:
    if seen.margin is not None:
        return seen.margin
    if seen.loss is not None:
        return np.asarray(-np.log(np.expm1(np.maximum(seen.loss, np.finfo(float).tiny))))
    p = np.clip(seen.need("probability"), np.finfo(float).tiny, 1 - np.finfo(float).epsneg)
    return np.asarray(np.log(p) - np.log1p(-p))
