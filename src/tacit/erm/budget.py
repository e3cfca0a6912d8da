"""What an estimator may spend, and the least noise that keeps within it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..core import Adjacency, Bound, Event
from ..core.events import ApproximateDP, Compose, Gaussian, Repeat, walk
from ..loss import privacy_loss
from ..loss.calibration import least_noise
from ..loss.conditions import upper_bound


@dataclass(frozen=True)
class Budget:
    """Epsilon at delta, for neighbours by this adjacency, spent on `models` releases of the same event and `beside`."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    models: int = 1
    beside: Event | None = None
    """What is released besides, out of the same budget."""

    @property
    def reach(self) -> float:
        """How much larger a difference of neighbours may be than one record's contribution."""
        return 2.0 if self.adjacency is Adjacency.REPLACE else 1.0

    def least_noise(self, event: Callable[[float], Event]) -> float:
        """The smallest noise multiplier at which all releases together cost at most epsilon at delta."""

        def excess(noise_multiplier: float) -> float:
            whole = privacy_loss(self.whole(event(noise_multiplier)), self.adjacency)
            found = whole.epsilon(self.delta).upper
            return math.log(found / self.epsilon) if found > 0 else -math.inf

        return least_noise(excess)

    def gaussian_noise(self, steps: int = 1) -> float:
        """The least noise multiplier of so many Gaussian releases; what was found once is kept."""
        return _gaussian_noise(self, steps)

    def whole(self, event: Event) -> Event:
        """All that is released: what stands beside, and the event once per model."""
        each = event if self.models == 1 else Repeat(event, self.models)
        return each if self.beside is None else Compose((self.beside, each))

    def generalisation_gap(self, event: Event) -> float:
        r"""A bound on E[loss on a new record] - E[loss on a record trained on], for losses between 0 and 1.

        A record that is replaced moves the probability of anything by at most the total variation distance of
        neighbours: delta(0) of the event for replaced records (Bousquet and Elisseeff 2002, Lemma 7; Dwork et al.
        2015). A guarantee that is only stated for one record more or less counts twice.
        """
        return _gap(event, self.adjacency)

    def bound(self, event: Event, more: tuple[str, ...]) -> Bound:
        """What the event really costs, with all that its theorems assume."""
        found = _cost(event, self.delta, self.adjacency)
        return upper_bound(found, self.delta, event, self.adjacency, method="privacy-loss distribution", more=more)


@lru_cache(maxsize=1024)
def _gaussian_noise(budget: Budget, steps: int) -> float:
    return budget.least_noise(lambda noise: Repeat(Gaussian(noise), steps))


@lru_cache(maxsize=256)
def _gap(event: Event, adjacency: Adjacency) -> float:
    stated = any(isinstance(part, ApproximateDP) for part in walk(event))
    if stated and adjacency is not Adjacency.REPLACE:
        return privacy_loss(event, adjacency, group=2).delta(0.0).upper
    return privacy_loss(event, Adjacency.REPLACE).delta(0.0).upper


@lru_cache(maxsize=256)
def _cost(event: Event, delta: float, adjacency: Adjacency) -> float:
    """What an event costs; repeated fits, as an audit makes, ask for the same."""
    return privacy_loss(event, adjacency).epsilon(delta).upper
