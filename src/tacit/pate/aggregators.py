r"""How the teachers' votes become one label, and what that costs, whatever the votes are.

n_j(x) is the number of teachers that vote for class j. One record changes one teacher, so at most one vote moves from
one class to another (or appears, or disappears). The counts move by at most sqrt(2) in Euclidean norm, max_j n_j by at
most 1, and the difference of two counts by at most 2. This holds under every adjacency, so a claim does too; an event
counts twice under replace, and its noise multiplier is doubled there to say the same.

Noise is drawn exactly: counts plus normal noise, rounded to a grid of 2^-20 votes, are the rounded output of a Gaussian
mechanism, and what is released is computed from it. Equal sums go to the first class.
Reference: Papernot et al. 2017 (LNMax), 2018 (the others); docs/proofs/pate.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, Event, Source, check
from ..core.events import Compose, Gaussian, NoisyMax, Repeat
from ..mechanism.choices import Distances, by_laplace
from ..mechanism.draws import rounded_normal

Counts = NDArray[np.int64]
Labels = NDArray[np.int64]
Shares = NDArray[np.float64]
NOT_ANSWERED = -1
GRID = 2**20
"""Grid steps in one vote."""
MOST_NOISE = 2**25
"""Votes of noise beyond which a draw would not fit on the grid; no ensemble has as many teachers."""
MOVE = math.sqrt(2.0)
"""How far one teacher's vote moves the counts, in Euclidean norm."""


def keep_scale(rule: Aggregator, name: str) -> None:
    """Keep noise in votes as a float that can be drawn on the grid, whatever kind of number was given."""
    noise = getattr(rule, name)
    if check.positive(name, noise) > MOST_NOISE:
        raise BadInput(f"{name} must be at most {MOST_NOISE:,} votes, got {noise!r}.")
    object.__setattr__(rule, name, float(noise))


def multiplier(noise: float, move: float, adjacency: Adjacency) -> float:
    """The noise multiplier of Gaussian noise on what moves by `move` in all, rounded down."""
    return noise * adjacency.sensitivity / move * (1 - 2.0**-50)


def normal(noise: float, shape: tuple[int, ...], chance: Source) -> Counts:
    """round(N(0, noise^2)) in steps of the grid."""
    return rounded_normal(Fraction(noise) * GRID, math.prod(shape), chance).reshape(shape)


@dataclass(frozen=True)
class Belief:
    """What a student says of some inputs: `shares` (queries, classes), as if each of `teachers` voted by them."""

    shares: Shares
    teachers: int

    @property
    def votes(self) -> Counts:
        """The votes that the student expects, in grid steps."""
        shares = np.clip(np.nan_to_num(self.shares), 0.0, 1.0)
        return np.rint(self.teachers * shares * GRID).astype(np.int64)


@dataclass(frozen=True)
class Told:
    """What the rule said: a label for every query, -1 where none was given, and which of them the teachers answered."""

    labels: Labels
    answered: NDArray[np.bool_]


@dataclass(frozen=True)
class Aggregator(ABC):
    """A private rule from vote counts to labels."""

    @abstractmethod
    def event(self, queries: int, answers: int, adjacency: Adjacency) -> Event:
        """What `queries` queries cost, at most `answers` of which are answered."""

    @abstractmethod
    def told(self, counts: Counts, chance: Source, answers: int, student: Belief | None = None) -> Told:
        """What is released about rows of counts (queries, classes), of which at most `answers` are answered.

        `student` holds what a student says of the same inputs, for rules that use it.
        """

    @property
    def asks_student(self) -> bool:
        """Whether what the student says takes part."""
        return False

    @property
    def answers_all(self) -> bool:
        """Whether every query is answered, as long as answers are left."""
        return True


@dataclass(frozen=True)
class GNMax(Aggregator):
    """argmax_j n_j + N(0, noise_answer^2). Every query is answered."""

    noise_answer: float = 40.0

    def __post_init__(self) -> None:
        keep_scale(self, "noise_answer")

    def event(self, queries: int, answers: int, adjacency: Adjacency) -> Event:
        return Repeat(Gaussian(multiplier(self.noise_answer, MOVE, adjacency)), min(queries, answers))

    def told(self, counts: Counts, chance: Source, answers: int, student: Belief | None = None) -> Told:
        found = np.full(len(counts), NOT_ANSWERED, dtype=np.int64)
        found[:answers] = noisy_winner(counts[:answers], self.noise_answer, chance)
        return Told(found, found >= 0)


@dataclass(frozen=True)
class LNMax(Aggregator):
    """argmax_j n_j + Laplace noise of scale `noise_answer`, the 1/gamma of the paper: 2 gamma per answer."""

    noise_answer: float = 20.0

    def __post_init__(self) -> None:
        keep_scale(self, "noise_answer")

    @property
    def epsilon(self) -> float:
        """Of one answer: 2/scale, rounded up."""
        return math.nextafter(2.0 / self.noise_answer, math.inf)

    def event(self, queries: int, answers: int, adjacency: Adjacency) -> Event:
        return Repeat(NoisyMax(self.epsilon, "laplace"), min(queries, answers))

    def told(self, counts: Counts, chance: Source, answers: int, student: Belief | None = None) -> Told:
        found = np.full(len(counts), NOT_ANSWERED, dtype=np.int64)
        scale = Fraction(self.noise_answer)
        for i, row in enumerate(counts[:answers]):
            found[i] = by_laplace(Distances(row, scale), chance)
        return Told(found, found >= 0)


@dataclass(frozen=True)
class ConfidentGNMax(Aggregator):
    """If max_j n_j + N(0, noise_select^2) >= threshold: argmax_j n_j + N(0, noise_answer^2). Else no answer.

    Every query pays for the check, and answered ones for the answer.
    """

    threshold: float = 200.0
    noise_select: float = 150.0
    noise_answer: float = 40.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", check.real("threshold", self.threshold))
        keep_scale(self, "noise_select")
        keep_scale(self, "noise_answer")

    @property
    def answers_all(self) -> bool:
        return False

    def event(self, queries: int, answers: int, adjacency: Adjacency) -> Event:
        checks = Repeat(Gaussian(multiplier(self.noise_select, 1.0, adjacency)), queries)
        told = Repeat(Gaussian(multiplier(self.noise_answer, MOVE, adjacency)), min(queries, answers))
        return Compose((checks, told))

    def told(self, counts: Counts, chance: Source, answers: int, student: Belief | None = None) -> Told:
        found = np.full(len(counts), NOT_ANSWERED, dtype=np.int64)
        chosen = np.flatnonzero(self.passed(self.agreement(counts, student), chance))[:answers]
        found[chosen] = noisy_winner(counts[chosen], self.noise_answer, chance)
        return Told(found, found >= 0)

    def agreement(self, counts: Counts, student: Belief | None) -> Counts:
        """What is compared with the threshold, in grid steps: it moves by at most one vote."""
        return np.asarray(counts.max(axis=1).astype(np.int64) * GRID)

    def passed(self, agreement: Counts, chance: Source) -> NDArray[np.bool_]:
        """Which queries pass the noisy test that enough teachers agree."""
        noisy = agreement + normal(self.noise_select, agreement.shape, chance)
        return np.asarray(noisy >= round(self.threshold * GRID))


@dataclass(frozen=True)
class InteractiveGNMax(ConfidentGNMax):
    r"""If max_j (n_j - T p_j) + N(0, noise_select^2) >= threshold: argmax_j n_j + N(0, noise_answer^2).

    p is what the student says now and T the number of teachers: only where they disagree is an answer paid for. Else,
    where the student gives some class at least `reinforce`, it is taught that class: this costs nothing more.
    Reference: Papernot et al. 2018, Algorithm 2.
    """

    reinforce: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reinforce", check.probability("reinforce", self.reinforce, zero=False))

    @property
    def asks_student(self) -> bool:
        return True

    def told(self, counts: Counts, chance: Source, answers: int, student: Belief | None = None) -> Told:
        told = super().told(counts, chance, answers, student)
        if student is None:
            return told
        sure = ~told.answered & (student.shares.max(axis=1) >= self.reinforce)
        return Told(np.where(sure, student.shares.argmax(axis=1), told.labels), told.answered)

    def agreement(self, counts: Counts, student: Belief | None) -> Counts:
        if student is None:
            return super().agreement(counts, None)
        if student.shares.shape != counts.shape:
            raise BadInput("The student must say something of every query and class.")
        return np.asarray((counts.astype(np.int64) * GRID - student.votes).max(axis=1))


def noisy_winner(counts: Counts, noise: float, chance: Source) -> Labels:
    """argmax_j n_j + N(0, noise^2) of every row."""
    noisy = counts.astype(np.int64) * GRID + normal(noise, counts.shape, chance)
    return np.asarray(noisy.argmax(axis=1), dtype=np.int64)
