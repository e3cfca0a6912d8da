"""What every private estimator has: a budget, a charge before the draw, evidence and a page."""

from __future__ import annotations

import secrets
import sys
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ..core import Adjacency, BadInput, Bound, Charger, Event, Evidence, Receipt, Scoped, check, source
from ..core.evidence import Claim
from .budget import Budget

SIZE = "the number of records is public"
FLOATS = "noise is drawn in float64, not on a grid: an attacker who sees every bit of the weights is not covered"
TUNED = "settings that were chosen by looking at the data"
SCORED = "scores on the records that it was trained on: they are not released with the weights"
SEEDED = "anybody who knows the seed that the noise was drawn from"


class PrivateEstimator(BaseEstimator):
    """Base of the private estimators, in which `epsilon`, `delta`, `adjacency` and `ledger` mean the same.

    `delta` None is 1/n^2. `random_state` None draws from the operating system's cryptographic source.
    """

    epsilon: float
    delta: float | None
    adjacency: str
    regularization: float | str
    ledger: Charger | None
    random_state: int | None
    event_: Event
    bound_: Bound
    method_: str
    receipt_: Receipt | None

    def __sklearn_clone__(self) -> Self:
        """A copy without what was fitted. It pays into the same ledger: a budget is never copied."""
        settings = self.get_params(deep=False).items()
        return type(self)(**{name: value if name == "ledger" else clone(value, safe=False) for name, value in settings})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True  # an entry that is no number counts as 0
        return tags

    def _budget(self, size: int, models: int = 1) -> Budget:
        if self.delta is None and size < 2:
            raise BadInput(f"{self._name()} cannot learn from one sample.", fix="Give more records.")
        delta = 1.0 / size**2 if self.delta is None else check.delta(self.delta)
        return Budget(check.positive("epsilon", self.epsilon), delta, Adjacency.of(self.adjacency), models)

    def _begin(self) -> None:
        """Forget an earlier fit, whose weights the next claim would not cover, and refuse to be one trial of many."""
        refuse_search(self._name())
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _charge(self, event: Event, budget: Budget) -> None:
        """Fix the claim and pay for it; whoever calls this has drawn no noise yet."""
        self.event_, self.bound_ = event, budget.bound(event, (SIZE,))
        self.receipt_ = None
        if self.ledger is not None:
            key = f"fit-{secrets.token_hex(16)}"
            self.receipt_ = self._paid(self.ledger, event, budget, key)

    def _paid(self, ledger: Charger, event: Event, budget: Budget, key: str) -> Receipt:
        """A ledger that counts other neighbours is told for which the event counts: it converts or refuses."""
        if isinstance(ledger, Scoped):
            return ledger.charge(event, key=key, purpose=self._name(), adjacency=budget.adjacency)
        return ledger.charge(event, key=key, purpose=self._name())

    def evidence(self) -> Evidence:
        """The claim with its event, what it assumes and what it does not cover."""
        check_is_fitted(self, "coef_")
        seeded = (SEEDED,) if self.random_state is not None else ()
        alone = ("other releases: no ledger was given",) if self.ledger is None else ()
        return Evidence(
            subject=self._name(),
            claim=Claim(self.bound_, self.event_),
            not_covered=(FLOATS, TUNED, SCORED, *seeded, *self._not_covered(), *alone),
            threat={
                "released": "the weights of the model",
                "attacker sees": "all weights, and knows every setting",
                "trust": "whoever trains holds the records and is trusted with them",
                "composition": "this model alone, unless a ledger was charged",
            },
            provenance={"method": self.method_, "randomness": source(self.random_state).name},
        )

    def report(self, path: str = "report.html", **options: Any) -> Any:
        """Write the page about this model; see `tacit.report`."""
        import tacit

        return tacit.report(self.evidence(), path, **options)

    def _strength(self) -> float | None:
        """The regularisation of the mean loss that was asked for; None for "auto"."""
        asked = self.regularization
        if isinstance(asked, str):
            if asked != "auto":
                raise BadInput(f"regularization must be a number or 'auto', got {asked!r}.")
            return None
        return check.nonnegative("regularization", asked)

    def _not_covered(self) -> tuple[str, ...]:
        return ()

    def _name(self) -> str:
        return type(self).__name__


def refuse_search(name: str) -> None:
    """Raise where a search of scikit-learn fits one trial of many, also inside a pipeline or a worker process.

    Guarantee: `_fit_and_score` with parameters, by which all its searches fit, is not among the callers.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_locals.get("parameters") is not None:
            raise BadInput(
                f"A search that looks at the records in every trial has no proof: {name} will not fit in one.",
                fix="Choose settings on other data, or fit each candidate yourself with a ledger that is charged.",
            )
        frame = frame.f_back  # type: ignore[assignment]
