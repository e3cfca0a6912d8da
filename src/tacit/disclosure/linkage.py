r"""Find a person in "anonymised" ratings from a few ratings that they told somewhere else.

score(candidate) = sum over known items i of w_i (e^{-|r - r_i|/r0} + e^{-|t - t_i|/t0}), where w_i = 1/log(1 + number
of people who rated i): agreement on rare items counts most. A match is claimed when the best candidate stands out: its
score is `eccentricity` standard deviations above the second.
Reference: Narayanan and Shmatikov 2008, Section 4.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check

Item = Hashable
Known = Mapping[Item, tuple[float, float]]
"""What is known of a person: for each item the rating and the day."""


@dataclass(frozen=True)
class Match:
    """The best candidate, and by how many standard deviations it stands out; `claimed` where that is enough."""

    person: Hashable
    eccentricity: float
    claimed: bool


@dataclass(frozen=True)
class Ratings:
    """Published ratings: who (a pseudonym), which item, how good, which day."""

    people: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float64]
    days: NDArray[np.float64]
    names: tuple[Hashable, ...]
    words: Mapping[Item, int]

    @classmethod
    def of(cls, people: Sequence[Hashable], items: Sequence[Item], ratings: object, days: object) -> Ratings:
        """Ratings from four columns of one length: pseudonyms, items, ratings and days."""
        (names, who), (words, which) = _coded(people), _coded(items)
        held = [_numbers(part) for part in (ratings, days)]
        if not len(who) == len(which) == len(held[0]) == len(held[1]) or not len(who):
            raise BadInput("people, items, ratings and days must have one length, and at least one entry.")
        return cls(who, which, held[0], held[1], tuple(names), words)

    def match(self, known: Known, *, rating: float = 1.5, days: float = 30.0, eccentricity: float = 1.5) -> Match:
        """Who in the table is the person of whom `known` is known.

        rating, days: how fast disagreement counts; eccentricity: how far the best must stand out to be claimed.
        """
        check.positive("rating", rating)
        check.positive("days", days)
        score = np.zeros(len(self.names))
        for item, (value, day) in _facts(known).items():
            rows = np.flatnonzero(self.items == self.words.get(item, -1))
            if not rows.size:
                continue
            near = np.zeros(len(self.names))  # of somebody's several ratings of one item, the nearest counts
            apart = _near(self.ratings[rows] - value, rating) + _near(self.days[rows] - day, days)
            np.maximum.at(near, self.people[rows], apart)
            score += near / np.log1p(np.unique(self.people[rows]).size)
        best = int(np.argmax(score))
        second = float(np.partition(score, -2)[-2]) if score.size > 1 else 0.0
        spread = float(score.std())
        found = (float(score[best]) - second) / spread if spread > 0 else 0.0
        return Match(self.names[best], found, found > eccentricity)


def _facts(known: Known) -> dict[Item, tuple[float, float]]:
    """What is known as numbers; None is missing."""
    if not known:
        raise BadInput("At least one rating of the person must be known.")
    try:
        return {item: (_fact(value), _fact(day)) for item, (value, day) in known.items()}
    except (TypeError, ValueError, AttributeError):
        raise BadInput("What is known of a person is a rating and a day for each item: {item: (4.0, 12.0)}.") from None


def _fact(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _coded(values: Sequence[Hashable]) -> tuple[dict[Hashable, int], NDArray[np.int64]]:
    """The different values with their places, and the place of every entry; values keep their own types."""
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    places: dict[Hashable, int] = {}
    return places, np.array([places.setdefault(value, len(places)) for value in listed], dtype=np.int64)


def _numbers(values: object) -> NDArray[np.float64]:
    """A column of numbers; None and NaN are missing."""
    found = np.asarray(values)
    if found.dtype.kind not in "biufO" or found.ndim != 1:
        raise BadInput(
            "Ratings and days must be columns of numbers.", fix="Give days as (times - times.min()).dt.days in pandas."
        )
    try:
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput("Ratings and days must be columns of numbers.") from None


def _near(apart: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """1 where two facts agree, less the farther they are apart, and 0 where one of them is missing."""
    return np.nan_to_num(np.exp(-np.abs(apart) / scale), nan=0.0)
