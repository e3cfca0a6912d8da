"""Linear classifiers with a usual fault planted: what an audit trains to say which faults it would have caught.

Noise that is smaller than the noise that was charged can be planted exactly. What such a model says is never released:
it has no evidence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from ..core import BadInput
from ..core.arrays import Array
from ..core.events import ApproximateDP, Gaussian
from ..core.randomness import Source
from .budget import Budget
from .linear import PrivateLinearClassifier
from .losses import Floats, MarginLoss
from .shape import Design

TIMES = {"no noise": 1e6, "noise 2 times too small": 2.0, "noise 3 times too small": 3.0}
"""By how much the noise of each fault is too small; of a millionth nothing is left that could be seen."""


def planted(model: object, fault: str) -> Any | None:
    """An estimator with the settings of `model` and this fault; None where it cannot be planted exactly.

    It charges nothing: no ledger is given to it.
    """
    if not isinstance(model, PrivateLinearClassifier) or fault not in TIMES:
        return None
    kind = type(model)
    faulty = type(f"Faulty{kind.__name__}", (_Weaker, kind), {"_times": TIMES[fault]})
    return faulty(**{**model.get_params(deep=False), "ledger": None})


class _Weaker(PrivateLinearClassifier):
    """A classifier whose noise is `_times` smaller than its event says."""

    _times: ClassVar[float]

    def _prepared(self, x: Any, budget: Budget, rng: Source) -> object:
        if isinstance(budget.beside, Gaussian):
            budget = replace(budget, beside=Gaussian(budget.beside.noise_multiplier / self._times))
        return super()._prepared(x, budget, rng)

    def _solved(
        self,
        rows: object,
        place: Array,
        loss: MarginLoss,
        design: Design,
        budget: Budget,
        rng: Source,
        before: Floats | None,
    ) -> Floats:
        event = design.event
        if isinstance(event, ApproximateDP):  # pure noise is scaled by the epsilon of its event
            event = replace(event, epsilon=event.epsilon * self._times)
        weaker = design.with_(noise_multiplier=design.noise_multiplier / self._times, event=event)
        return super()._solved(rows, place, loss, weaker, budget, rng, before)

    def evidence(self) -> Any:
        raise BadInput("A model with a planted fault keeps no claim, and has no evidence.")
