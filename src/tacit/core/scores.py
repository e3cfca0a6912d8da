"""Scores: what every attack returns and every metric and audit takes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import check
from .arrays import Array
from .errors import BadInput
from .randomness import Source, source
from .shown import table

if TYPE_CHECKING:
    from .clusters import Clusters
    from .interval import Estimate
    from .roc import Roc


@dataclass(frozen=True, eq=False)
class Scores:
    """One row per guess: `score` (higher means member) and whether the record was a `member`.

    `randomised` says that membership was decided by coins of ours (canaries, or runs on D and D'); only then can a
    statement about differential privacy be made. `record` and `target` name the record and the trained model of a
    row; together they identify it.
    """

    score: NDArray[np.float64]
    member: NDArray[np.bool_]
    attack: str
    randomised: bool
    record: Array
    target: Array
    group: NDArray[np.generic] | None = None

    def __init__(
        self,
        score: ArrayLike,
        member: ArrayLike,
        *,
        attack: str,
        randomised: bool,
        record: ArrayLike | None = None,
        target: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> None:
        columns = {"score": _numbers(score), "member": _boolean(member)}
        count = columns["score"].size
        columns["record"] = np.arange(count) if record is None else np.asarray(record)
        columns["target"] = np.zeros(count, dtype=np.int64) if target is None else np.asarray(target)
        if group is not None:
            columns["group"] = np.asarray(group)
        for name, column in columns.items():
            if column.shape != (count,):
                raise BadInput(f"Scores need one-dimensional columns of one length; {name} has shape {column.shape}.")
            object.__setattr__(self, name, column)
        if np.isnan(columns["score"]).any():
            raise BadInput("Scores must not be NaN.", fix="Give a failed guess the score of no opinion.")
        object.__setattr__(self, "attack", str(attack))
        object.__setattr__(self, "randomised", bool(randomised))

    def __len__(self) -> int:
        return int(self.score.size)

    def __repr__(self) -> str:
        kind, inside = "by coins" if self.randomised else "observed", int(self.member.sum())
        return f"Scores({self.attack!r}: {inside} members and {len(self) - inside} others, {kind})"

    def _repr_html_(self) -> str:
        inside = int(self.member.sum())
        found: list[tuple[str, object]] = [("members", inside), ("others", len(self) - inside)]
        found.append(("membership", "decided by coins" if self.randomised else "observed"))
        return table(f"Scores: {self.attack}", found)

    @property
    def members(self) -> NDArray[np.float64]:
        """The members' scores."""
        return self.score[self.member]

    @property
    def nonmembers(self) -> NDArray[np.float64]:
        """The non-members' scores."""
        return self.score[~self.member]

    @cached_property
    def ranked(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The members' scores and the others', each sorted, smallest first."""
        return np.sort(self.members), np.sort(self.nonmembers)

    @cached_property
    def clusters(self) -> Clusters:
        """Which rows share a record or a target."""
        from .clusters import Clusters

        return Clusters.of(self.record, self.target)

    def take(self, rows: NDArray[np.generic], *, attack: str | None = None) -> Scores:
        """The chosen rows, under another attack's name if one is given."""
        return Scores(
            self.score[rows],
            self.member[rows],
            attack=attack or self.attack,
            randomised=self.randomised,
            record=self.record[rows],
            target=self.target[rows],
            group=None if self.group is None else self.group[rows],
        )

    def fingerprints(self) -> frozenset[bytes]:
        """One short hash per (record, target), by their text: enough to see that two sets of scores share a row."""
        rows = zip(map(str, self.record.tolist()), map(str, self.target.tolist()), strict=True)
        return frozenset(hashlib.blake2b(repr(row).encode(), digest_size=8).digest() for row in rows)

    def split(
        self, rng: Source | int | np.random.Generator | None, *, share: float = 0.5
    ) -> tuple[Calibration, Evaluation]:
        """Two random parts, members and non-members in the same `share`: one to choose on, one to judge by."""
        share = check.probability("share", share, zero=False, one=False)
        order = source(rng).permutation(len(self))
        first = np.zeros(len(self), dtype=bool)
        for side in (self.member[order], ~self.member[order]):
            rows = order[side]
            first[rows[: int(share * rows.size)]] = True
        return Calibration(self.take(np.flatnonzero(first))), Evaluation(self.take(np.flatnonzero(~first)))

    def roc(self) -> Roc:
        """The ROC curve; tied scores are one block."""
        return self._roc

    @cached_property
    def _roc(self) -> Roc:
        from .roc import Roc

        return Roc.of(self)

    def tpr(self, fpr: float, confidence: float = 0.95) -> Estimate:
        """True-positive rate at false-positive rate `fpr`, with an interval (see `roc.tpr_at`)."""
        from .roc import tpr_at

        return tpr_at(self, fpr, confidence)

    def auc(self, confidence: float = 0.95) -> Estimate:
        """Area under the ROC curve, ties counted half, with an interval."""
        from .roc import area

        return area(self, confidence)

    def save(self, path: str | Path) -> Path:
        """Write `scores.csv`: score, member, attack, record, target, group, randomised."""
        from .scores_file import write

        return write([self], path)

    @staticmethod
    def read(path: str | Path, attack: str | None = None) -> Scores:
        """Read one attack's scores from a CSV file."""
        from .scores_file import read

        found = read(path)
        if attack is not None:
            found = [scores for scores in found if scores.attack == attack]
        if len(found) != 1:
            raise BadInput(f"The file holds {len(found)} such attacks; name one of them with attack=.")
        return found[0]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores that thresholds and attacks may be chosen on, and no bound may be made from."""

    scores: Scores


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores that a bound may be made from, and nothing may be chosen on."""

    scores: Scores


def _numbers(score: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(score, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("score must hold a number in every row.") from None


def _boolean(member: ArrayLike) -> NDArray[np.bool_]:
    values = np.asarray(member)
    if values.dtype == bool:
        return values
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput("member must hold 0 or 1 in every row.") from None
    if not np.isin(numbers, (0.0, 1.0)).all():
        raise BadInput("member must hold 0 or 1 in every row.")
    return numbers.astype(bool)
