"""Hold epsilon from both sides: train, attack, audit and account, into one piece of evidence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..audits import audit
from ..audits.claims import Stated
from ..core import BadInput, Evidence, Source, check, source
from .membership import attack, of_audit
from .models import Fit, accuracy, refit
from .provenance import provenance
from .risk import by_steps, renamed

DELTA = 1e-5


def bracket(
    target: Any,
    data: tuple[ArrayLike, ArrayLike],
    *,
    claim: Stated | None = None,
    references: int = 64,
    runs: int = 500,
    confidence: float = 0.95,
    rng: Source | int | np.random.Generator | None = None,
    isolation: str = "auto",
    canary: Any = "auto",
    seconds: float | None = None,
    groups: ArrayLike | None = None,
) -> Evidence:
    """Train on a random half of `data`, attack that model, audit the training, and put it beside the claim.

    `target` is `fit(x, y, rng) -> predict` or an estimator that can be cloned. `claim` is (epsilon, delta), an Event
    or a Plan; without one the evidence has a lower side only. `groups` names every record's group, whose risks are then
    compared.
    """
    train, randomness = _training(target), source(rng)
    x, y = (np.asarray(part) for part in _pair(data))
    if len(x) != len(y) or len(x) < 8:
        raise BadInput("data must be (x, y) with at least eight records.")
    named = None if groups is None else np.asarray(groups)
    if named is not None and named.shape != (len(x),):
        raise BadInput("groups must name one group per record.")
    inside = _halved(x, y, randomness)
    model = train(x[inside], y[inside], randomness.generator())
    check.whole("references", references, least=0)
    measured = attack(
        model,
        (x[inside], y[inside]),
        (x[~inside], y[~inside]),
        references=references,
        fit=train,
        groups=None if named is None else np.concatenate((named[inside], named[~inside])),
        confidence=confidence,
        rng=randomness,
    )
    audited = audit(
        train,
        (x[inside], y[inside]),
        claim=(math.inf, DELTA) if claim is None else claim,
        runs=runs,
        confidence=confidence,
        rng=randomness,
        isolation=isolation,
        canary=canary,
        seconds=seconds,
    )
    return audited.with_(
        subject=getattr(target, "__qualname__", type(target).__name__),
        claim=None if claim is None else audited.claim,
        measurements=measured.measurements,
        groups=measured.groups,
        exposures=renamed(measured.exposures, np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside)))),
        risk=measured.risk,
        budget=by_steps(None if claim is None else audited.claim),
        utility={"test accuracy": accuracy(model, x[~inside], y[~inside])},
        controls=(*measured.controls, *of_audit(audited.controls)),
        not_covered=(*measured.not_covered, *audited.not_covered),
        provenance={**audited.provenance, **provenance(randomness, references=references)},
        scores=(*measured.scores, *audited.scores),
    )


def _halved(x: NDArray[Any], y: NDArray[Any], rng: Source) -> NDArray[np.bool_]:
    """A random half; records that are alike stay together, so that no member is also a non-member."""
    number: dict[tuple[bytes, str], int] = {}
    same = [number.setdefault((row.tobytes(), str(label)), len(number)) for row, label in zip(x, y, strict=True)]
    return np.asarray(rng.permutation(len(number))[same] < len(number) // 2)


def _training(target: Any) -> Fit:
    """The training itself: a function, or an estimator that can be cloned."""
    found = refit(target, None)
    if found is None and callable(target):
        return target  # type: ignore[no-any-return]
    if found is None:
        raise BadInput("bracket takes fit(x, y, rng) -> predict, or an estimator that can be cloned.")
    return found


def _pair(data: Any) -> tuple[Any, Any]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("data must be a pair (x, y).")
    return data[0], data[1]
