"""Members and outsiders as one pool of records with labels, whatever tables they came in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import natural
from ..core import BadInput
from .records import identities, joined, kept, size


def pool(members: Any, nonmembers: Any) -> tuple[Any, NDArray[np.generic], NDArray[np.bool_]]:
    """Records, labels and membership of both; records stay in the kind of table they came in."""
    try:
        (x_in, y_in), (x_out, y_out) = members, nonmembers
    except (TypeError, ValueError):
        raise BadInput("members and nonmembers must each be a pair (x, y).") from None
    x_in, x_out, y_in, y_out = kept(x_in), kept(x_out), _labels(y_in), _labels(y_out)
    if size(x_in) != len(y_in) or size(x_out) != len(y_out):
        raise BadInput("members and nonmembers need x and y of one length and features of one shape.")
    if len(y_in) < 2 or len(y_out) < 2:
        raise BadInput("An attack needs at least two members and two non-members.")
    x = joined(x_in, x_out)
    _different(identities(x, np.concatenate((y_in, y_out))), len(y_in))
    member = np.concatenate((np.ones(len(y_in), dtype=bool), np.zeros(len(y_out), dtype=bool)))
    return x, np.concatenate((y_in, y_out)), member


def _labels(y: object) -> NDArray[np.generic]:
    """One label per record; words as words, nothing missing."""
    found = np.asarray(y)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1:
        raise BadInput("Labels must be one per record.", fix="Give the column of labels, or class numbers.")
    missing = np.isnan(found) if found.dtype.kind == "f" else np.array([_missing(value) for value in found])
    if missing.any():
        raise BadInput(f"{int(missing.sum())} labels are missing.", fix="Leave out records without a label.")
    if found.dtype.kind == "O":
        numbers = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in found)
        return found.astype(np.float64) if numbers else found.astype(str)
    return found


def _missing(value: object) -> bool:
    """Whether a label is none: None, a NaN among words, or the gap of a pandas column."""
    unequal = isinstance(value, float | np.floating) and value != value
    return value is None or unequal or type(value).__name__ in ("NAType", "NaTType")


def _different(known: list[tuple[bytes, str]], first: int) -> None:
    """Refuse records that are all alike, and outsiders most of whom are members, unless the table is so coarse."""
    if len({row for row, _ in known}) == 1:
        raise BadInput("All records have the same features.", fix="Give features that tell records apart.")
    times = Counter(known[:first])
    crossing = sum(name in times for name in known[first:])
    inside = sum(times[name] > 1 for name in known[:first])
    outsiders = len(known) - first
    if 2 * crossing > min(first, outsiders) and not natural(crossing, outsiders, inside, first):
        raise BadInput("Most records are both members and non-members.", fix="Give two disjoint sets.")


def overlap(one: tuple[object, NDArray[np.generic]], other: tuple[object, NDArray[np.generic]]) -> bool:
    """Whether some record with its label is in both; numbers are compared as one kind of number."""
    known = identities(joined(one[0], other[0]), np.concatenate((one[1], other[1])))
    return not set(known[: len(one[1])]).isdisjoint(known[len(one[1]) :])
