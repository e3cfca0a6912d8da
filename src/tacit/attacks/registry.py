"""The one list of attacks, and what an attack is: a pure function of what was observed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Observations, Scores

Floats = NDArray[np.float64]
Rule = Callable[..., Floats]
"""(target) or (target, references) -> one score per record and target model."""

ATTACKS: dict[str, Attack] = {}


class References(StrEnum):
    """What an attack must know of other models on the same records."""

    NONE = "none"
    OUT = "out"
    BOTH = "in and out"


@dataclass(frozen=True)
class Attack:
    """An attack by name: calling it on a target, and references where it needs them, gives `Scores`.

    `rule` returns one score per (record, target model), higher means member. It never reads `target.member`: that is
    the truth it is judged by (the null control would catch it).
    """

    name: str
    needs: tuple[str, ...]
    references: References
    rule: Rule

    def __call__(self, target: Observations, references: Observations | None = None) -> Scores:
        """Score every (record, target model) and put the truth beside it."""
        self.check(target, references)
        seen = (target,) if self.references is References.NONE else (target, references)
        return flatten(self.rule(*seen), target, self.name)

    def check(self, target: Observations, references: Observations | None = None) -> None:
        """Raise BadInput, in one sentence, when the attack cannot be run on this."""
        reason = self.missing(target, references)
        if reason:
            raise BadInput(f"The attack {self.name} {reason}.")

    def missing(self, target: Observations, references: Observations | None = None) -> str:
        """What is missing, as the end of a sentence; empty when the attack can run."""
        absent = [name for name in ("member", *self.needs) if getattr(target, name) is None]
        if absent:
            return f"needs `{absent[0]}` in its observations"
        if self.references is References.NONE:
            return ""
        if references is None:
            return "needs reference models on the same records"
        return self._unfit(target, references)

    def _unfit(self, target: Observations, references: Observations) -> str:
        if references.records != target.records:
            return f"needs references on the same {target.records} records, not on {references.records}"
        if _differ(target.record, references.record):
            return "needs references on the same records in the same order"
        absent = [name for name in ("member", *self.needs) if getattr(references, name) is None]
        if absent:
            return f"needs `{absent[0]}` in its references"
        member = references.need("member").astype(bool)
        if not (~member).any():
            return "needs reference models that some record was left out of"
        if self.references is References.BOTH and not member.any():
            return "needs reference models that some record was used in"
        return ""


def attack(name: str, *, needs: tuple[str, ...], references: References) -> Callable[[Rule], Attack]:
    """Register a rule under a name; the registry's laws are then tested on it."""

    def register(rule: Rule) -> Attack:
        if name in ATTACKS:
            raise BadInput(f"There are two attacks named {name}.")
        made = Attack(name, needs, references, rule)
        ATTACKS[name] = made
        return made

    return register


def named(name: str) -> Attack:
    """The attack of that name."""
    if name not in ATTACKS:
        raise BadInput(f"Attack {name!r} is not known.", fix=f"Known attacks: {', '.join(sorted(ATTACKS))}.")
    return ATTACKS[name]


def fitting(target: Observations, references: Observations | None = None) -> list[Attack]:
    """Every attack that these observations allow, by name."""
    return [ATTACKS[name] for name in sorted(ATTACKS) if not ATTACKS[name].missing(target, references)]


def flatten(score: Floats, target: Observations, name: str) -> Scores:
    """Records x models into one row per guess, model after model."""
    shape = (target.records, target.models)
    if score.shape != shape:
        raise BadInput(f"The attack {name} must score records x models {shape}, got shape {score.shape}.")
    record = np.arange(target.records) if target.record is None else target.record
    return Scores(
        score.T.ravel(),
        target.need("member").astype(bool).T.ravel(),
        attack=name,
        randomised=False,
        record=np.tile(record, target.models),
        target=np.repeat(np.arange(target.models), target.records),
        group=None if target.group is None else np.tile(target.group, target.models),
    )


def _differ(mine: NDArray[np.int64] | None, theirs: NDArray[np.int64] | None) -> bool:
    return mine is not None and theirs is not None and not np.array_equal(mine, theirs)
