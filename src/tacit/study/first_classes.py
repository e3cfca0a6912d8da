"""Answers that name the first few classes of a model alone, with their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core import BadInput
from ..core.arrays import Array
from ..core.resolution import printed_decimals

PAIR = ("label", "score")
SLACK = 1e-3
"""How far shares may sum to more than 1, besides what rounding adds."""


def by_label(answer: object) -> object:
    """A mapping from label to share, where an answer is an object, or a list of objects, with `label` and `score` (the
    form of Hugging Face's services); any other answer as it is."""
    parts = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) and {*part} >= {*PAIR} for part in parts):
        return answer
    return {str(part["label"]): float(part["score"]) for part in parts} if parts else answer


def top_shares(answers: Sequence[Mapping[object, float]], classes: Sequence[object]) -> Array:
    """Shares of all classes from those of the first few: what they leave of 1 is spread evenly over the others.

    Percentages and logits of some classes are refused, since what they leave for the others is not known.
    """
    place = _places(classes)
    table = np.full((len(answers), len(place)), np.nan)
    for row, answer in enumerate(answers):
        for name, share in answer.items():
            if str(name) not in place:
                raise BadInput("The service named a class that is not among classes=.")
            table[row, place[str(name)]] = share
    some = table[np.isnan(table).any(axis=1)]
    decimals = printed_decimals(some[~np.isnan(some)])
    slack = SLACK + (0.0 if decimals is None else 0.5 * table.shape[1] * 10.0**-decimals)
    if some.size and (np.nanmin(some, initial=0.0) < 0 or np.nansum(some, axis=1).max() > 1 + slack):
        raise BadInput(
            "The scores of a record's first few classes must be shares of 1.",
            fix="Turn percentages into shares; of logits, or of one score for each class alone, ask for all classes.",
        )
    return completed(table)


def shown_like(told: Sequence[Mapping[object, float]], shares: Array, classes: Sequence[object]) -> Array:
    """Another model's shares (records x classes) of the classes that a service named for each record in `told`.

    They are rounded to the service's decimals, and what they leave of 1 is spread evenly over the others. So whatever
    the service said of a record's label is compared with what the other model says of the label.
    """
    place, table = _places(classes), np.full(shares.shape, np.nan)
    decimals = printed_decimals(np.array([share for each in told for share in each.values()], dtype=np.float64))
    for row, answer in enumerate(told):
        columns = [place[str(name)] for name in answer]
        table[row, columns] = shares[row, columns]
    return completed(table if decimals is None else table.round(decimals))


def _places(classes: Sequence[object]) -> dict[str, int]:
    return {str(name): column for column, name in enumerate(classes)}


def completed(table: Array) -> Array:
    """Shares with what the named classes of a record leave of 1 spread evenly over the others, which are NaN."""
    unnamed = np.isnan(table)
    rest = np.maximum(1 - np.nansum(table, axis=1), 0) / np.maximum(unnamed.sum(axis=1), 1)
    return np.where(unnamed, rest[:, None], table)
