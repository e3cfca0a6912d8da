"""Trials of a user's training on public records with made-up labels, before anything is paid and any record is read.

Code that cannot work is told so. So is a training that keeps something from one shard to the next: a cache, a model
that is trained further, an attribute of a class. One record would then touch many teachers, and the student. A trial
can refute that a training keeps nothing, and cannot prove it, so the claim says that it is assumed (`KEEPS_NOTHING`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import BadInput
from .global_randomness import lent
from .names import numbers
from .teachers import AT_ONCE, fleet_of
from .trainings import Fit, Labels, Network, as_training, class_numbers

KEEPS_NOTHING = (
    "the training of a teacher keeps nothing for other teachers or the student "
    "(tried on public records with made-up labels, not proven)"
)
TIMES = 8
"""How many times as many records the training between two equal ones sees: what it keeps of them outweighs the rest."""


def assumed(teacher: Any, public_x: Any, classes: int) -> tuple[str, ...]:
    """What a claim assumes of this training: nothing of a fleet, whose models are apart by construction."""
    return () if isinstance(as_training(teacher, public_x, classes), Network) else (KEEPS_NOTHING,)


def tried(teacher: Any, public_x: Any, classes: int, who: str = "teacher") -> None:
    """Train on public records with made-up labels. Raises BadInput where that fails, or where something is kept."""
    how = as_training(teacher, public_x, classes)
    count = np.arange(max(4 * classes, 32))
    x, y = public_x[count % len(public_x)], count % classes  # a few inputs are used several times
    outputs, found, same = classes, y, True
    try:
        if isinstance(how, Network):
            outputs = _tried_network(how, x, y, classes, public_x)
        else:
            found = class_numbers(_trained(how, x, y), x.copy())
            same = found.shape != y.shape or _keeps_nothing(how, x, public_x[-1 - count % len(public_x)], classes)
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"The {who} raised {type(error).__name__} when tried on public records with made-up labels."
        ) from error
    if outputs < classes:
        raise BadInput(f"The network has {outputs} outputs for {classes} classes.")
    if found.shape != (len(x),):
        raise BadInput(f"A {who} must give one label, or one row of shares, for each record.")
    if not same:
        raise BadInput(
            f"The {who} gave other answers when it was trained on the same public records with the same rng after "
            "others: it keeps something between calls, or draws randomness from elsewhere.",
            fix="Keep nothing between calls, and draw from rng (random_state) alone.",
        )


def _keeps_nothing(how: Fit, x: Any, other: Any, classes: int) -> bool:
    """Whether a training answers alike before and after one on many records with contrary labels."""
    y, contrary = _made_up(x, classes), classes - 1 - np.tile(_made_up(other, classes), TIMES)
    before = _said(_trained(how, x, y), x)
    _said(_trained(how, np.concatenate([other] * TIMES), contrary, seed=1), x)
    after = _said(_trained(how, x, y), x)
    return before.shape == after.shape and np.allclose(before, after, rtol=1e-6, atol=1e-9, equal_nan=True)


def _made_up(x: Any, classes: int) -> Labels:
    """Labels that can be learnt: parts of the records by their order in a fixed direction."""
    flat = numbers(x).astype(np.float64).reshape(len(x), -1)
    flat = np.clip(np.where(np.isfinite(flat), flat, 0.0), -1e100, 1e100)
    along = flat @ np.random.default_rng(0).normal(size=flat.shape[1])
    return np.asarray(along.argsort(kind="stable").argsort() * classes // len(x), dtype=np.int64)


def _trained(how: Fit, x: Any, y: Labels, seed: int = 0) -> Any:
    """A model, with all randomness from one seed."""
    with lent(np.random.default_rng(seed)):
        return how(x.copy(), y.copy(), np.random.default_rng(seed))


def _said(model: Any, x: Any) -> Any:
    """Shares of the classes where a model has them, which tell more than class numbers."""
    with lent(np.random.default_rng(0)):
        if callable(getattr(model, "predict_proba", None)):
            return np.asarray(model.predict_proba(x.copy()), dtype=np.float64)
        return class_numbers(model, x.copy())


def _tried_network(how: Network, x: Any, y: Labels, classes: int, public_x: Any) -> int:
    """The number of outputs of a network that took one step, and then answered about every public input."""
    once, shard = replace(how, steps=1, compiled=False), np.arange(len(x), dtype=np.int64) % 2
    generators = [np.random.default_rng(number) for number in range(2)]  # two: what cannot be a fleet is told here
    models = fleet_of(once, x, y, shard, generators, classes, failed=None).models
    for first in range(AT_ONCE, len(public_x), AT_ONCE):
        models.logits(numbers(public_x[first : first + AT_ONCE]))
    return int(models.logits(numbers(public_x[:AT_ONCE])).shape[2])
