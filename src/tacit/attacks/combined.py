"""One attack out of many, by a rule that is chosen on other targets: the reference models, attacked in turn.

Which attack is strongest depends on the model and on how many references there are. Choosing it on the target itself
would need a correction; every reference model, whose members are known, is a target to choose on for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import Observations, Scores
from .logistic import logistic
from .registry import ATTACKS, Attack, References, attack
from .targets import independent

Floats = NDArray[np.float64]
Game = tuple[Floats, NDArray[np.bool_]]
"""Scores of one reference model as a target, records x attacks, and who its members are."""
CANDIDATES = ("lira", "student", "rmia", "lira-offline", "calibrated-online", "label-calibrated", "loss")
PLAYED, FPRS, BETTER, ROWS = 10, (0.003, 0.01, 0.03), 1.02, 20_000
"""Reference models that are attacked to choose, the rates they are judged at, how much better a weighted sum must be
than the best single attack, and records of each that weights are learned from. Of 300 outsiders 1 % are three records,
so the rates around it are judged too: one of them alone is mostly noise."""

FEW = 4
"""References below which there is nobody to choose on: each would be attacked with the one or two that are left."""
ALONE, FIXED = ("lira-offline", "loss"), ("lira", "student", "rmia")
"""What is summed with one reference, and with few: the best of five fixed sums on 60 models of one draw, and again
above each of its parts on another."""


@attack("combined", needs=("margin", "loss", "probability"), references=References.BOTH)
def combined(target: Observations, references: Observations) -> Floats:
    """The attack, or weighted sum of attacks, that finds most members of the reference models near 1 % false positives.

    Every reference model is attacked in turn. There single attacks are judged as they are, and a weighted sum by
    weights that were learned on the other reference models. With fewer than four references there is nobody to choose
    on, and fixed attacks are summed.
    """
    usable = [ATTACKS[name] for name in CANDIDATES if not ATTACKS[name].missing(target, references)]
    played = [] if references.models < FEW else _played(references)
    usable = [rule for rule in usable if not any(rule.missing(*game) for game in played)]
    if len(played) < 2 or not usable:
        fixed = [ATTACKS[name] for name in (ALONE if references.models == 1 else FIXED)]
        return np.stack([table.sum(axis=1) for table in _columns(fixed, target, references)], axis=1)
    games = [(_scored(usable, *game), game[0].need("member")[:, 0].astype(bool)) for game in played]
    alone = [np.mean([_found(table[:, k], member) for table, member in games]) for k in range(len(usable))]
    best = int(np.argmax(alone))
    if _summed(games) > BETTER * alone[best]:
        return np.stack([_weights(games)(table) for table in _columns(usable, target, references)], axis=1)
    return np.asarray(_rule(usable[best], target, references))


def _played(references: Observations) -> list[tuple[Observations, Observations]]:
    """Up to PLAYED reference models as targets, each with those models as references that are independent of it."""
    member = references.need("member").astype(bool)
    found = []
    for k in np.unique(np.linspace(0, references.models - 1, PLAYED).astype(int)):
        others = independent(member, k)
        sides = member[:, others]
        if others.size and sides.any() and not sides.all() and member[:, k].any() and not member[:, k].all():
            found.append((references.select(models=[k]), references.select(models=others)))
    return found


def _rule(rule: Attack, target: Observations, references: Observations) -> Floats:
    return np.asarray(rule.rule(target) if rule.references is References.NONE else rule.rule(target, references))


def _columns(rules: Sequence[Attack], target: Observations, references: Observations) -> list[Floats]:
    """For each target model a table of records x attacks."""
    scores = np.stack([_rule(rule, target, references) for rule in rules], axis=2)
    return [np.stack([_surprise(column) for column in table.T], axis=1) for table in scores.transpose(1, 0, 2)]


def _scored(rules: Sequence[Attack], target: Observations, references: Observations) -> Floats:
    return _columns(rules, target, references)[0]


def _surprise(score: Floats) -> Floats:
    """-log of the share of records scored at least as high: attacks on one scale, with the top spread out."""
    above = score.size - np.searchsorted(np.sort(score), score, side="left")
    return np.asarray(-np.log(above / score.size))


def _weights(games: Sequence[Game]) -> Callable[[Floats], Floats]:
    """Logistic regression from all attacks' scores to membership."""
    step = [max(1, len(member) // ROWS) for _, member in games]
    table = np.concatenate([table[::k] for (table, _), k in zip(games, step, strict=True)])
    member = np.concatenate([member[::k] for (_, member), k in zip(games, step, strict=True)])
    return logistic(table, member)


def _summed(games: Sequence[Game]) -> float:
    """What a weighted sum finds on each reference model by weights that were learned on the others, on average."""
    found = []
    for k, (table, member) in enumerate(games):
        weights = _weights([*games[:k], *games[k + 1 :]])
        found.append(_found(weights(table), member))
    return float(np.mean(found))


def _found(score: Floats, member: NDArray[np.bool_]) -> float:
    """Mean true-positive rate near 1 %, with the area to break ties."""
    scores = Scores(score, member, attack="combined", randomised=False)
    outside = np.sort(scores.nonmembers)
    area = np.searchsorted(outside, scores.members, "left").mean() / outside.size
    roc = scores.roc()
    return float(np.mean([roc.at(fpr) for fpr in FPRS])) + 1e-3 * float(area)
