"""Trials of a user's training on public records with made-up labels, before anything is paid and any record is read.

Code that cannot work is told so. So is a training that keeps something from one shard to the next: a cache, a model
that is trained further, an attribute of a class. One record would then touch many teachers, and the student. A trial
can refute that a training keeps nothing, and cannot prove it, so the claim says that it is assumed (`KEEPS_NOTHING`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import BadInput
from ..core.arrays import Array
from ..core.global_randomness import lent, turn
from .alone import NetworkShares, one_by_one
from .names import numbers
from .teachers import AT_ONCE, fleet_of
from .trainings import Fit, Labels, Network, as_training, class_numbers

KEEPS_NOTHING = (
    "the training of a teacher keeps nothing for other teachers or the student "
    "(tried on public records with made-up labels, not proven)"
)
TIMES = 8
"""How many times as many records the training between two equal ones sees: what it keeps of them outweighs the rest."""
EXACT = 1e-9
STEPS = 2
"""Steps of a network in a trial."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def assumed(how: Network | Fit) -> tuple[str, ...]:
    """What a claim assumes of this training: nothing of a fleet without anybody's code, apart by construction."""
    return () if isinstance(how, Network) and _own_code(how) else (KEEPS_NOTHING,)


def tried(
    teacher: object, public_x: object, classes: int, who: str = "teacher", *, fleet: bool = True
) -> Network | Fit:
    """Try a training on public records with made-up labels, and return it as it is to be used.

    A network that no fleet can train, or any one without `fleet`, becomes a function that trains one network. Raises
    BadInput where the training fails, or where it keeps something.
    """
    how, trial = as_training(teacher, public_x, classes), _Trial(public_x, classes, who)
    if not isinstance(how, Network):
        trial.passed(lambda: trial.function(how))
        return how
    try:
        if fleet:
            trial.passed(lambda: trial.fleet(how))
            return how
    except BadInput as error:
        refused = error
    few = replace(how, steps=min(STEPS, how.steps), compiled=False)
    try:
        trial.passed(lambda: trial.function(one_by_one(few, classes), _tolerance(how)))
    except BadInput:
        if fleet:
            raise refused from refused.__cause__
        raise
    return one_by_one(how, classes)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Public inputs, as `who` is tried on them."""

    public_x: Any
    classes: int
    who: str

    def passed(self, trial: Callable[[], bool]) -> None:
        """Make a trial, which says whether nothing was kept; whatever goes wrong is one sentence."""
        try:
            same = trial()
        except (BadInput, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise BadInput(
                f"The {self.who} raised {type(error).__name__} when tried on public records with made-up labels."
            ) from error
        if not same:
            raise BadInput(
                f"The {self.who} gave other answers when it was trained on the same public records with the same rng "
                "after others: it keeps something between calls, or draws randomness from elsewhere.",
                fix="Keep nothing between calls, and draw from rng (random_state) alone.",
            )

    def function(self, how: Fit, tolerance: float = EXACT) -> bool:
        """One model answers about every public input, and answers alike before and after another training."""
        x, y = self.some, np.arange(self.count) % self.classes
        found = class_numbers(_trained(how, x, y), self.public_x.copy())
        if found.shape != (len(self.public_x),):
            raise BadInput(f"A {self.who} must give one label, or one row of shares, for each record.")
        return self._alike(lambda x, y, seed: _said(_trained(how, x, y, seed), self.some), tolerance)

    def fleet(self, how: Network) -> bool:
        """Two models (what cannot be a fleet is told here) answer about every public input, and alike as above."""
        how = replace(how, steps=min(STEPS, how.steps), compiled=False)

        def logits(x: Array, y: Labels, seed: int, asked: Array) -> Array:
            shard = np.arange(len(x), dtype=np.int64) % 2
            generators = [np.random.default_rng(2 * seed + k) for k in range(2)]
            models = fleet_of(how, x, y, shard, generators, self.classes, failed=None).models
            parts = [asked[first : first + AT_ONCE] for first in range(0, len(asked), AT_ONCE)]
            return np.concatenate([models.logits(numbers(part)) for part in parts])

        outputs = logits(self.some, np.arange(self.count) % self.classes, 0, self.public_x).shape[2]
        if outputs < self.classes:
            raise BadInput(f"The network has {outputs} outputs for {self.classes} classes.")
        return self._alike(lambda x, y, seed: logits(x, y, seed, self.some), _tolerance(how))

    @property
    def count(self) -> int:
        return max(4 * self.classes, 32)

    @property
    def some(self) -> Array:
        """A few public inputs, used several times where there are fewer."""
        return np.asarray(self.public_x[np.arange(self.count) % len(self.public_x)])

    def _alike(self, said: Callable[[Array, Labels, int], Array], tolerance: float) -> bool:
        """Whether a training answers alike before and after one on many records with contrary labels."""
        x, other = self.some, np.asarray(self.public_x[-1 - np.arange(self.count) % len(self.public_x)])
        y = _made_up(x, self.classes)
        before = said(x, y, 0)
        said(np.concatenate([other] * TIMES), self.classes - 1 - np.tile(_made_up(other, self.classes), TIMES), 1)
        after = said(x, y, 0)
        return before.shape == after.shape and np.allclose(
            before, after, rtol=1000 * tolerance, atol=tolerance, equal_nan=True
        )


def _tolerance(how: Network) -> float:
    """How far answers may be apart that should be equal: a GPU adds in no fixed order."""
    return EXACT if how.device == "cpu" else 1e-4


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
        if isinstance(model, NetworkShares):
            return model(x.copy())
        if callable(getattr(model, "predict_proba", None)):
            return np.asarray(model.predict_proba(x.copy()), dtype=np.float64)
        return class_numbers(model, x.copy())


def _own_code(how: Network) -> bool:
    """Whether all code of a fleet's training is torch's or ours, which keeps nothing of one model for another."""
    from ..fleet.fleet import _make
    from .augmentations import Affine, Exchange

    with turn():
        modules = list(_make(how.make, 0).modules())
    plain = all(type(part).__module__.startswith("torch.nn.modules.") for part in modules)
    changed = any(getattr(part, name) for part in modules for name in HOOKS) or any(
        "forward" in vars(part) for part in modules
    )
    return plain and not changed and (how.augment is None or type(how.augment) in (Affine, Exchange))
