"""Tests of the experiment itself. Each can fail for a reason; a failed one makes everything else uninformative."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import BadInput, Control, Measurement, Observations, Scores, Source, source
from ..core.evidence import BLIND_BASELINE
from .logistic import logistic
from .measurement import measure
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
    """With a leak put into all models, the attack must find it in the target: a sign turned round would be seen."""
    found = attack(leaking(target), None if references is None else leaking(references)).auc(CONFIDENCE)
    text = f"area {found.value:.3f}, at least {found.lower:.3f}"
    return Control("planted leak", "members given away: the area is above 0.5", text, found.lower > 0.5)


def leaking(seen: Observations) -> Observations:
    """The same models, had they told: sure and right about members, near to no opinion about the others."""
    member = seen.need("member").astype(bool)
    if seen.logits is not None and seen.label is not None:
        logits = np.where(member[:, :, None], seen.logits, seen.logits / 10)
        rows, models = np.nonzero(member)
        logits[rows, models, seen.label[rows]] += 10.0 + float(np.ptp(seen.logits))
        sure = Observations.from_logits(logits, seen.label, member=member, record=seen.record, group=seen.group)
        return replace(sure, features=seen.features, **_flat(seen, member))
    told: dict[str, Any] = {}
    if any(getattr(seen, name) is not None for name in ("margin", "loss", "probability")):
        margin = _margin(seen)
        margin = np.where(member, margin + 10.0 + float(np.ptp(margin)), margin / 10)
        loss = np.logaddexp(0.0, -margin)
        told = {"margin": margin, "loss": loss, "probability": np.exp(-loss)}
    told = {name: value for name, value in told.items() if getattr(seen, name) is not None}
    return replace(seen, **told, **_flat(seen, member))


def _flat(seen: Observations, member: NDArray[np.bool_]) -> dict[str, Any]:
    """Gradients of models that fit their members to the end: a thousandth of what they were."""
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


def blind_baseline(
    features: ArrayLike, member: ArrayLike, rng: Randomness, *, confidence: float = 0.95
) -> tuple[Measurement, Control]:
    """A classifier that never saw the model must lose: logistic regression from features to membership.

    It learns on one half of the records and is measured on the other. If it wins, members and non-members differ
    without any model, and an attack's success says nothing about the model (Das et al. 2024).
    """
    x, y = _matrix(features), np.asarray(member, dtype=bool)
    if y.shape != x.shape[:1]:
        raise BadInput("The blind baseline needs one row of features per record.")
    first = np.zeros(y.size, dtype=bool)
    for side in (np.flatnonzero(y), np.flatnonzero(~y)):
        if side.size < 2:
            raise BadInput("The blind baseline needs at least two members and two non-members.")
        first[side[source(rng).permutation(side.size)[: side.size // 2]]] = True
    predict = logistic(x[first], y[first])
    scores = Scores(predict(x[~first]), y[~first], attack=BLIND_BASELINE, randomised=False)
    found = scores.auc(CONFIDENCE)
    text = f"area {found.value:.3f} in [{found.lower:.3f}, {found.upper:.3f}]"
    control = Control(BLIND_BASELINE, "a classifier without the model stays at 0.5", text, found.lower <= 0.5)
    return measure(scores, confidence=confidence), control


def _margin(seen: Observations) -> NDArray[np.float64]:
    if seen.margin is not None:
        return seen.margin
    if seen.loss is not None:
        return np.asarray(-np.log(np.expm1(np.maximum(seen.loss, np.finfo(float).tiny))))
    p = np.clip(seen.need("probability"), np.finfo(float).tiny, 1 - np.finfo(float).epsneg)
    return np.asarray(np.log(p) - np.log1p(-p))


def _matrix(features: ArrayLike) -> NDArray[np.float64]:
    try:
        x = np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("The blind baseline needs features that are numbers.") from None
    if not np.isfinite(x).all():
        raise BadInput("The blind baseline needs finite features.")
    return x.reshape(x.shape[0], -1)
