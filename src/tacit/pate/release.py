r"""Releasing the data-dependent cost of a run: by a test of a proposed bound, or by smooth sensitivity.

Both release an upper bound of f(D), the Renyi divergence of the run at one public order a for these votes and all their
neighbours. With probability `confidence` over the noise it is one. With the cost of the release itself it gives

    epsilon = bound of f + cost at order a + (log(1/delta) + conversion)/(a - 1)

Reference: Dwork and Lei 2009 (propose, test, release); Nissim, Raskhodnikova and Smith 2007 and Papernot et al. 2018
(smooth sensitivity); docs/proofs/pate.md, Theorems 4 to 6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from ..core import Adjacency, BadInput, Bound, Event, Side, Source, check
from ..core.events import ApproximateDP, Gaussian
from ..mechanism.draws import rounded_normal
from .aggregators import GRID, Counts, multiplier
from .analysis import converted
from .design import Design
from .smooth import ROOM, Cost

SHARE = 0.2
"""beta times the order: how fast a smooth sensitivity may change."""
MOST_MOVED = 4096
FINEST, WIDEST = 40, 45
"""Powers of two: grid steps in one unit of a released divergence, and steps that its noise may span, at most."""
INSTANCE = (
    "it bounds how far outputs on these records stand out against those on any neighbouring data set, "
    "and says nothing of other data sets"
)
CHOSEN = "order, proposal and noise of the release were chosen without looking at the votes"
ONCE = "it counts the run and this one release of its cost, and no other"


@dataclass(frozen=True)
class Release(ABC):
    """How an upper bound of the cost at `order` is released; it costs `epsilon` at that order."""

    order: float
    epsilon: float
    confidence: float

    @abstractmethod
    def event(self, delta: float, adjacency: Adjacency) -> Event:
        """The event that the release is charged as."""

    @abstractmethod
    def drawn(self, cost: Cost, counts: Counts, chance: Source) -> float | None:
        """An upper bound of the cost, or None where the test failed."""

    @property
    def quantile(self) -> float:
        return float(ndtri(self.confidence))

    def bound(self, found: float, design: Design) -> Bound:
        """What the run and this release cost together, for these records."""
        total = found + self.epsilon + float(converted(np.array([self.order]), design.delta)[0])
        method = f"data-dependent Renyi divergence of order {self.order:g}, {self.name}"
        more = (*design.bound.assumptions, INSTANCE, CHOSEN, ONCE)
        return Bound(total, design.delta, Side.UPPER, self.confidence, method, design.adjacency, design.unit,
                     assumptions=more)  # fmt: skip

    @property
    @abstractmethod
    def name(self) -> str: ...


@dataclass(frozen=True)
class Proposal(Release):
    r"""Test a proposed `limit` of the cost: how many teachers must change before it fails, plus N(0, s^2), against z s.

    That number moves by 1 from neighbour to neighbour, so the test is a Gaussian mechanism, s = sqrt(a/(2 epsilon)).
    If the cost is above `limit`, the test is passed with probability at most 1 - confidence.
    """

    limit: float = 0.0

    @property
    def noise(self) -> float:
        return math.sqrt(self.order / (2 * self.epsilon)) * (1 + 2.0**-40)

    @property
    def name(self) -> str:
        return "released by a test of a proposed bound"

    def event(self, delta: float, adjacency: Adjacency) -> Event:
        return Gaussian(multiplier(self.noise, 1.0, adjacency))

    def drawn(self, cost: Cost, counts: Counts, chance: Source) -> float | None:
        far = cost.distance(counts, self.limit, MOST_MOVED)
        noisy = far * GRID + int(rounded_normal(Fraction(self.noise) * GRID, 1, chance)[0])
        return self.limit if noisy >= math.ceil(self.quantile * self.noise * GRID) else None


@dataclass(frozen=True)
class Smoothed(Release):
    r"""f + S s (Z + z), Z normal and z the quantile of the confidence: above f with that probability.

    Between neighbours its mean moves by at most S (1 + s z (e^beta - 1)) and its deviation by a factor of e^beta.
    """

    beta: float = 0.0
    noise: float = 1.0

    @property
    def name(self) -> str:
        return "released by smooth sensitivity"

    def cost(self, order: float) -> float:
        """The Renyi divergence of this release between any neighbours."""
        narrow = math.exp(-2 * self.beta)
        mixed = 1 - order + order * narrow
        if mixed <= 0:
            return math.inf
        move = 1.0 + self.noise * self.quantile * math.expm1(self.beta)
        location = order * move**2 / (2 * self.noise**2)
        return max(location * narrow / mixed + _scaled(narrow, order), location + _scaled(1 / narrow, order))

    def event(self, delta: float, adjacency: Adjacency) -> Event:
        """(epsilon, delta/10)-DP by the best order."""
        orders = 1 + np.geomspace(1e-2, 0.5 / self.beta, 200)
        found = np.array([self.cost(float(order)) for order in orders]) + converted(orders, delta / 10)
        return ApproximateDP(float(np.min(found[np.isfinite(found)])), delta / 10)

    def drawn(self, cost: Cost, counts: Counts, chance: Source) -> float:
        """The grid has room for the widest noise that any votes could need, so no votes make the draw fail."""
        widest = cost.largest_sensitivity(len(counts)) * self.noise
        fine = Fraction(2) ** min(FINEST, WIDEST - math.frexp(widest)[1])
        scale = (cost.sensitivity(counts, self.beta) + float(4 / fine)) * self.noise  # middle is rounded to the grid
        middle = math.ceil(Fraction(cost.total(counts) * (1 + ROOM) + scale * self.quantile) * fine)
        noisy = middle + int(rounded_normal(Fraction(scale) * fine, 1, chance)[0])
        return max(float(noisy / fine), 0.0)


def smoothed(epsilon: float, order: float, confidence: float) -> Smoothed:
    """The release by smooth sensitivity with the least noise that costs `epsilon` at this order."""
    beta = SHARE / order

    def fits(inverse: float) -> bool:
        return Smoothed(order, epsilon, confidence, beta, 1 / inverse).cost(order) <= epsilon

    found = _largest(fits, 10.0)
    if found == 0:
        raise BadInput(
            f"Epsilon {epsilon:g} is too little for a release at order {order:g}.", fix="Give more, or a lower order."
        )
    return Smoothed(order, epsilon, confidence, beta, 1 / found)


def releasing(
    design: Design, *, epsilon: float, propose: float | None, order: float | None, confidence: float
) -> Release:
    """The release that these public numbers describe; `propose` is the whole epsilon that is hoped for."""
    check.positive("epsilon", epsilon)
    check.probability("confidence", confidence, zero=False, one=False)
    if confidence <= 0.5:
        raise BadInput(f"confidence must be above 0.5, got {confidence!r}.")
    chosen = usual_order(design) if order is None else check.real("order", order)
    if not chosen > 1:
        raise BadInput(f"order must be above 1, got {order!r}.")
    if propose is None:
        return smoothed(float(epsilon), chosen, confidence)
    limit = check.positive("propose", propose) - epsilon - float(converted(np.array([chosen]), design.delta)[0])
    if limit <= 0:
        raise BadInput(
            f"An epsilon of {propose:g} leaves nothing for the run itself at order {chosen:g}.",
            fix="Propose more, or give a higher order.",
        )
    return Proposal(chosen, float(epsilon), confidence, limit)


def usual_order(design: Design) -> float:
    """A public choice: above the best order of the data-independent cost, since agreement makes a run cheaper."""
    return max(round(1 + 2.8 * math.log(1 / design.delta) / design.epsilon, 1), 1.1)


def _scaled(ratio: float, order: float) -> float:
    """The Renyi divergence of N(0, 1) from N(0, ratio): it grows with the distance of the ratio from 1."""
    return (0.5 * math.log(1 - order + order * ratio) - order / 2 * math.log(ratio)) / (1 - order)


def _largest(fits: Callable[[float], bool], high: float) -> float:
    """The largest number up to `high` that fits, by bisection; 0 where none was found."""
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
