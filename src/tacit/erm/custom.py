"""Private minimisation of a loss of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import BadInput, Charger, check
from .linear import PrivateLinearClassifier
from .losses import Floats, Logistic, MarginLoss
from .tables import Schemas

FAR = np.geomspace(1e-4, 1e4, 400)
PROBED = np.unique(np.concatenate((-FAR, np.linspace(-8.0, 8.0, 1601), FAR)))
"""Made-up margins at which a declared loss is compared with its constants."""
MOST = 1e100
DECLARED = "a loss that is not convex, steeper or more curved than its maker declared, or that mixes records"


@dataclass(frozen=True)
class Held:
    """A declared loss, held within its constants at every margin: no record's gradient is longer than declared.

    A slope or a curvature that is not a number counts as 0, and a value that is not finite as the largest number. So
    only that record is concerned. A function that raises is the caller's fault.
    """

    loss: MarginLoss

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz

    @property
    def smoothness(self) -> float:
        return self.loss.smoothness

    def value(self, margin: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = np.asarray(self.loss.value(margin), dtype=np.float64)
        return np.where(np.isfinite(found), found, MOST)

    def slope(self, margin: Floats) -> Floats:
        return self._within(self.loss.slope, margin, -self.lipschitz, self.lipschitz)

    def curvature(self, margin: Floats) -> Floats:
        return self._within(self.loss.curvature, margin, 0.0, self.smoothness)

    @staticmethod
    def _within(function: Callable[[Floats], Floats], margin: Floats, low: float, high: float) -> Floats:
        with np.errstate(all="ignore"):
            found = np.asarray(function(margin), dtype=np.float64)
        return np.clip(np.where(np.isnan(found), 0.0, found), low, high)


class PrivateERM(PrivateLinearClassifier):
    """Private minimisation of a convex loss of the margin m = y x . theta, with constants that you declare.

    `loss` has `lipschitz` (the largest |l'|), `smoothness` (the largest l''), and functions `value`, `slope` and
    `curvature` of an array of margins: see `tacit.erm.losses.MarginLoss`. None is the logistic loss. Only a penalty
    |theta|^2 ("l2") has a proof.

    Caller ensures: `lipschitz` and `smoothness` hold for every margin, the loss is convex and never negative, and its
    functions treat each margin by itself and raise for none. All this is tried at made-up margins, which refutes wrong
    declarations and proves nothing; the evidence says so. Slopes are held within `lipschitz`: descents
    (`method="gradient"`, "sgd") need only that each margin is treated by itself.
    """

    def __init__(
        self,
        loss: MarginLoss | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        penalty: str = "l2",
        method: str = "auto",
        schema: Schemas = None,
        classes: Sequence[Any] | None = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            method=method,
            schema=schema,
            classes=classes,
            adjacency=adjacency,
            norm_bound=norm_bound,
            regularization=regularization,
            fit_intercept=fit_intercept,
            public_size=public_size,
            ledger=ledger,
            random_state=random_state,
        )
        self.loss = loss
        self.penalty = penalty

    def _loss(self) -> MarginLoss:
        if self.penalty != "l2":
            raise BadInput(
                f"penalty={self.penalty!r} has no proof: without strong convexity one record can move the minimiser "
                "without bound (Xu, Caramanis and Mannor 2012, for the L1 penalty).",
                fix='Use penalty="l2".',
            )
        if self.loss is None:
            return Logistic()
        keeps_its_constants(self.loss)
        return Held(self.loss)

    def _not_covered(self) -> tuple[str, ...]:
        declared = () if self.loss is None else (DECLARED,)
        return declared + super()._not_covered()


def keeps_its_constants(loss: MarginLoss) -> None:
    """Raise where a loss contradicts its declared constants at made-up margins. No record is looked at."""
    for name in ("value", "slope", "curvature"):
        if not callable(getattr(loss, name, None)):
            raise BadInput(f"loss needs a function {name}(margins) and the numbers lipschitz and smoothness.")
    steepest, most_curved = check.positive("lipschitz", loss.lipschitz), check.positive("smoothness", loss.smoothness)
    margins = PROBED
    slope, curvature, value = (np.asarray(each(margins)) for each in (loss.slope, loss.curvature, loss.value))
    if not (slope.shape == curvature.shape == value.shape == margins.shape):
        raise BadInput("value, slope and curvature of a loss must return one number for each margin.")
    for each, found in ((loss.slope, slope), (loss.curvature, curvature), (loss.value, value)):
        if not np.allclose(np.asarray(each(margins[::-7])), found[::-7], rtol=1e-9, atol=0.0, equal_nan=True):
            raise BadInput("The loss of one margin depends on the other margins.", fix="Treat each margin by itself.")
    if not np.all(value >= 0):
        raise BadInput("The loss is negative somewhere.", fix="Add a constant to it: weights stay the same.")
    if not np.all(np.abs(slope) <= steepest * (1 + 1e-9)):
        raise BadInput("The loss is steeper than its declared lipschitz constant.")
    if not np.all((curvature >= 0) & (curvature <= most_curved * (1 + 1e-9))):
        raise BadInput("The loss is not convex, or more curved than its declared smoothness.")
    step, room = np.diff(margins), 1e-9 * (1 + np.abs(slope[1:]))
    rise = np.diff(slope)
    if not np.all((rise >= -room) & (rise <= most_curved * step + room)):
        raise BadInput("The slope of the loss falls somewhere, or rises faster than its declared smoothness.")
    run = np.diff(value)
    off = 1e-9 * (1 + np.abs(value[1:]) + np.abs(value[:-1]))
    if not np.all((run >= slope[:-1] * step - off) & (run <= slope[1:] * step + off)):
        raise BadInput("`slope` is not the slope of `value`.")
