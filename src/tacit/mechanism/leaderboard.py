r"""Reliable leaderboards: answers about a holdout set that cannot be overfitted by asking often.

`Ladder` answers only improvements of at least a step, rounded to it. It bounds overfitting and is not differentially
private. `Thresholdout` is: it answers from the training set unless the holdout set disagrees, by sparse vector.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, BudgetExceeded, Charger, Mismatch, Receipt, check, source
from ..core.events import AboveThreshold, Compose, DiscreteLaplace, Event, Repeat
from . import scales
from .charging import Random, Terms
from .draws import check_scale, discrete_laplace
from .inputs import array_of, clamped, on_grid, power_of_two, reals
from .thresholds import FINE

COPIED = "A Thresholdout cannot be copied: one charge pays for the answers of one object."
Loss = Callable[[NDArray[np.generic], NDArray[np.generic]], object]


def zero_one(predictions: NDArray[np.generic], truth: NDArray[np.generic]) -> NDArray[np.float64]:
    """1 where a prediction is wrong."""
    return np.asarray(predictions != truth, dtype=np.float64)


class Ladder:
    r"""A leaderboard of losses in [0, 1]: a submission counts when it is better than the best by more than a step.

    `step` None is the parameter-free ladder: the step is the standard error of the difference to the best submission.

    Guarantee: the best score shown is within O(log(k n)^{1/3}/n^{1/3}) of the best true loss among k adaptive
    submissions, for the step (log(k n)/n)^{1/3}. Not differentially private.
    Caller ensures: the holdout labels are a random sample, and are used here alone.
    Reference: Blum and Hardt 2015, Theorem 3.1 and section 4.
    """

    def __init__(self, holdout: object, *, step: float | None = None, loss: Loss = zero_one) -> None:
        self._truth, self._loss = array_of(holdout).ravel(), loss
        if not self._truth.size:
            raise BadInput("The holdout set must hold at least one label.")
        self.step = None if step is None else check.positive("step", step)
        self.best = math.inf
        self.submissions = 0
        self._kept: NDArray[np.float64] | None = None

    def submit(self, predictions: object) -> float:
        """The score to show: the best loss so far, which changes only when this submission is clearly better."""
        found = array_of(predictions).ravel()
        if found.shape != self._truth.shape:
            raise BadInput(f"A submission has {self._truth.size} predictions, got {found.size}.")
        losses = clamped(self._loss(found, self._truth), (0.0, 1.0), missing=1.0)
        if losses.size != self._truth.size:
            raise BadInput("The loss must give one number for each prediction, not their mean.")
        self.submissions += 1
        mean, step = float(losses.mean()), self._least(losses)
        if mean < self.best - step:
            self.best = round(mean / self._grain) * self._grain
            self._kept = losses
        return self.best

    @property
    def _grain(self) -> float:
        return 1 / self._truth.size if self.step is None else self.step

    def _least(self, losses: NDArray[np.float64]) -> float:
        if self.step is not None:
            return self.step
        if self._kept is None:
            return 0.0
        return float(np.std(losses - self._kept)) / math.sqrt(losses.size)


class Thresholdout:
    r"""Means of functions over a holdout set, asked adaptively, that stay true for new data.

    A query gives the function's values in [0, 1] on training and holdout records. If the two means differ by less than
    a noisy threshold, the training mean is returned and costs nothing; else the noisy holdout mean, and one of `budget`
    overfitting answers is used up.

    Guarantee: `Repeat(Compose(AboveThreshold(e), DiscreteLaplace(..)), budget)`, each part epsilon/(2 budget), for the
    holdout records under replace (unless told otherwise) or zero-out, charged when the object is made. Add-remove is
    refused: the number of holdout records is public. Training records are not protected.
    Caller ensures: holdout records are a random sample, one per person.
    Edge cases: one charge pays for one object, so it cannot be copied, pickled or asked in a forked process.
    Reference: Dwork et al. 2015, The reusable holdout (the algorithm Thresholdout).
    """

    def __init__(
        self,
        *,
        size: int,
        threshold: float,
        epsilon: float,
        budget: int,
        adjacency: Adjacency | str | None = None,
        ledger: Charger | None = None,
        rng: Random = None,
    ) -> None:
        terms = Terms(ledger, None, rng, adjacency).of_public_size("holdout records")
        self.size, self.left = check.whole("size", size), check.whole("budget", budget)
        self._spacing = power_of_two(Fraction(1, self.size * FINE))
        moved = math.ceil(Fraction(1, self.size) / self._spacing) + 1  # of the mean, whatever one record becomes
        factor = terms.neighbours.sensitivity
        steps = math.ceil(moved / Fraction(factor))
        each = scales.round_epsilon(check.positive("epsilon", epsilon), 0.0, 2 * self.left, terms.neighbours)
        answer = DiscreteLaplace(scales.pure_multiplier(each, factor), steps)
        self.event: Event = Repeat(Compose((AboveThreshold(each), answer)), self.left)
        self.adjacency = terms.neighbours
        self._level = Fraction(check.positive("threshold", threshold))
        unit = 2 * moved / Fraction(each)
        self._noises, self._answer = (unit, 2 * unit), Fraction(answer.noise_multiplier) * steps
        check_scale(2 * unit, self._answer)
        self.receipt: Receipt | None = None
        if ledger is not None:
            self.receipt = ledger.charge(self.event, key=f"thresholdout-{os.urandom(16).hex()}", purpose="thresholdout")
        self._source = source(rng)
        self._turn, self._process = threading.Lock(), os.getpid()
        self._limit = self._threshold()

    def query(self, training: object, holdout: object) -> float:
        """The mean of a function, from its values on the training and on the holdout records."""
        if os.getpid() != self._process:
            raise Mismatch(COPIED, fix="Ask in the process that made it, or make another one.")
        means = [self._mean(training, None), self._mean(holdout, self.size)]
        with self._turn:
            if self.left == 0:
                raise BudgetExceeded(1.0, 0.0)
            return self._answered(means)

    def __reduce__(self) -> NoReturn:
        raise Mismatch(COPIED, fix="Make another one, which is charged anew.")

    def _answered(self, means: list[int]) -> float:
        if abs(means[0] - means[1]) + self._draw(self._noises[1]) < self._limit:
            return float(means[0] * self._spacing)
        self.left -= 1
        self._limit = self._threshold()
        return min(max(float((means[1] + self._draw(self._answer)) * self._spacing), 0.0), 1.0)

    def _mean(self, values: object, size: int | None) -> int:
        """A mean of numbers in [0, 1], on the grid: of whole numbers, so that no rounding of sums depends on order."""
        found = clamped(values, (0.0, 1.0))
        if size is not None and found.size != size:
            raise BadInput(f"A query has one value for each of the {size} holdout records.")
        total = sum(int(step) for step in on_grid(reals(found), Fraction(1, 2**40)).tolist())
        return round(Fraction(total, max(found.size, 1) << 40) / self._spacing)

    def _threshold(self) -> int:
        return round(self._level / self._spacing) + self._draw(self._noises[0])

    def _draw(self, scale: Fraction) -> int:
        return int(discrete_laplace(scale, 1, self._source)[0])
