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
    """What an attack must know besides the target's answers.

    `OUT`, `BOTH`: other models on the same records, without and with each record. `KNOWN_OUT`, `KNOWN`: the target
    itself on other records, known to be non-members, or known to be one or the other.
    """

    NONE = "none"
    OUT = "out"
    BOTH = "in and out"
    KNOWN_OUT = "known non-members"
    KNOWN = "known members and non-members"

    @property
    def of_target(self) -> bool:
        """Whether they are records that the target itself was asked about."""
        return self in (References.KNOWN_OUT, References.KNOWN)


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
            known = self.references.of_target
            return "needs other records of known membership" if known else "needs reference models on the same records"
        return self._unfit(target, references)

    def _unfit(self, target: Observations, references: Observations) -> str:
        known = self.references.of_target
        unlike = _other_models(target, references) if known else _other_records(target, references)
        if unlike:
            return unlike
        absent = [name for name in ("member", *self.needs) if getattr(references, name) is None]
        if absent:
            return f"needs `{absent[0]}` in its references"
        member = references.need("member").astype(bool)
        if not ((~member).any(axis=0).all() if known else (~member).any()):
            return "needs records known as non-members" if known else "needs models that some record was left out of"
        if self.references is References.KNOWN and not member.any(axis=0).all():
            return "needs records known as members"
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
    """Look up an attack by its name."""
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


def _other_records(target: Observations, references: Observations) -> str:
    """Reference models must have been asked about the same records."""
    if references.records != target.records:
        return f"needs references on the same {target.records} records, not on {references.records}"
    mine, theirs = target.record, references.record
    if mine is not None and theirs is not None and not np.array_equal(mine, theirs):
        return "needs references on the same records in the same order"
    return ""


def _other_models(target: Observations, known: Observations) -> str:
    """Known records must be of the same models, and none of them is judged."""
    if known.models != target.models:
        return f"needs known records of the same {target.models} models, not of {known.models}"
    if target.record is None or known.record is None:
        return "needs `record` in its observations, to see that no known record is judged"
    if np.intersect1d(target.record, known.record).size:
        return "needs known records that are not among those it judges"
    return ""
