"""Many targets from one set of models: each in turn is attacked with the others as references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Observations, Scores, Source, check, source

AnyAttack = Callable[[Observations, Observations | None], Scores]
Randomness = Source | int | np.random.Generator | None


def leave_one_out(attack: AnyAttack, observations: Observations, targets: Iterable[int] | None = None) -> Scores:
    """Attack each chosen model (all, if none are chosen) with the others as references; rows name the model.

    References whose training sets were cut to avoid the target's stay out (see `independent`). Where all were, as the
    models of a cross-validation are, nothing can be said.

    Caller ensures: the models were trained independently of each other given their membership. Rows of one record
    under several targets share that record, so intervals that treat rows as independent speak of these records.
    """
    chosen = list(range(observations.models) if targets is None else targets)
    if not chosen:
        raise BadInput("leave_one_out needs at least one target model.")
    if not all(0 <= k < observations.models for k in chosen) or len(set(chosen)) < len(chosen):
        raise BadInput(f"targets must be different model numbers below {observations.models}.")
    return joined([_one(attack, observations, k) for k in chosen])


def known_split(
    observations: Observations, rng: Randomness, *, share: float = 0.5
) -> tuple[Observations, Observations]:
    """(judged, known): records that an attack is judged on, and those it may learn from, at random.

    Members and non-members of the first model go the same `share` into the known part; rows of one
    record stay together.
    """
    share = check.probability("share", share, zero=False, one=False)
    member, chance = observations.need("member").astype(bool)[:, 0], source(rng)
    known = np.zeros(observations.records, dtype=bool)
    if observations.record is None:
        observations = replace(observations, record=np.arange(observations.records))
    record = observations.need("record")
    for side in (member, ~member):
        names = np.unique(record[side])
        if names.size < 2:
            raise BadInput("Splitting off known records needs at least two members and two non-members.")
        told = names[chance.permutation(names.size)[: min(max(int(share * names.size), 1), names.size - 1)]]
        known |= side & np.isin(record, told)
    return observations.select(records=~known), observations.select(records=known)


def independent(member: NDArray[np.bool_], k: int) -> NDArray[np.intp]:
    """Models that may be references of model k, by who was trained on what (records x models).

    Training sets that were cut without overlap (complementary halves, parts of one permutation, folds of a
    cross-validation) give away their neighbours: how many of the others saw a record tells whether model k did.
    """
    mine = member[:, [k]]
    apart = ~(member & mine).any(axis=0) | ~(~member & ~mine).any(axis=0)
    apart &= member.any(axis=0) & ~member.all(axis=0)  # a model of nobody, or of everybody, was not cut
    return np.setdiff1d(np.flatnonzero(~apart), [k])


def joined(parts: Sequence[Scores]) -> Scores:
    """Concatenate the scores of one attack on several targets."""
    first = parts[0]
    if any((part.attack, part.randomised) != (first.attack, first.randomised) for part in parts):
        raise BadInput("Only scores of one attack can be joined.")
    return Scores(
        np.concatenate([part.score for part in parts]),
        np.concatenate([part.member for part in parts]),
        attack=first.attack,
        randomised=first.randomised,
        record=np.concatenate([part.record for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        group=None if first.group is None else np.concatenate([part.group for part in parts if part.group is not None]),
    )


def _one(attack: AnyAttack, observations: Observations, k: int) -> Scores:
    others = independent(observations.need("member").astype(bool), k)
    if not others.size and observations.models > 1:
        raise BadInput(
            f"No other model is independent of model {k}: training sets, or the records left out, do not overlap.",
            fix="Train each model on a random half of its own.",
        )
    references = observations.select(models=others) if others.size else None
    scores = attack(observations.select(models=k), references)
    return Scores(
        scores.score,
        scores.member,
        attack=scores.attack,
        randomised=scores.randomised,
        record=scores.record,
        target=np.full(len(scores), k),
        group=scores.group,
    )
