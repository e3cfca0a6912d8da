"""Answers that name the first few classes of a model alone, with their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.resolution import printed_decimals

Array = NDArray[Any]
PAIR = ("label", "score")


def by_label(answer: Any) -> Any:
    """A mapping from label to share, where an answer is an object, or a list of objects, with `label` and `score` (the
    form of Hugging Face's services); any other answer as it is."""
    parts = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) and {*part} >= {*PAIR} for part in parts):
        return answer
    return {str(part["label"]): float(part["score"]) for part in parts} if parts else answer


def top_shares(answers: Sequence[Mapping[Any, float]], classes: Sequence[Any]) -> Array:
    """Shares of all classes from those of the first few: what they leave of 1 is spread evenly over the others."""
    place = {str(name): column for column, name in enumerate(classes)}
    table = np.full((len(answers), len(place)), np.nan)
    for row, answer in enumerate(answers):
        for name, share in answer.items():
            if str(name) not in place:
                raise BadInput("The service named a class that is not among classes=.")
            table[row, place[str(name)]] = share
    return completed(table)


def shown_like(told: Sequence[Mapping[Any, float]], shares: Array) -> Array:
    """Shares (records x classes) as a service that gave the answers `told` would show them, completed.

    It names as many classes as it has named at most, and rounds to its decimals. Where it names more classes of some
    records than of others, it names those above some share; the smallest that it has named stands for it.
    """
    counts, named = [len(each) for each in told], np.array([share for each in told for share in each.values()])
    order = np.argsort(-shares, axis=1, kind="stable")[:, : max(counts)]
    first = np.take_along_axis(shares, order, axis=1).astype(np.float64)
    decimals = printed_decimals(named.astype(np.float64))
    first = first if decimals is None else first.round(decimals)
    if min(counts) < max(counts):
        first[:, 1:][first[:, 1:] < named.min()] = np.nan
    table = np.full(shares.shape, np.nan)
    np.put_along_axis(table, order, first, axis=1)
    return completed(table)


def completed(table: Array) -> Array:
    """Shares with what the named classes of a record leave of 1 spread evenly over the others, which are NaN."""
    unnamed = np.isnan(table)
    rest = np.maximum(1 - np.nansum(table, axis=1), 0) / np.maximum(unnamed.sum(axis=1), 1)
    return np.where(unnamed, rest[:, None], table)
