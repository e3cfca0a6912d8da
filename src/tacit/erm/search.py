"""Settings of a private estimator, chosen privately: the cost of the choice is part of the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, Event, Receipt, Source, check, source
from ..core.arrays import Array
from ..core.events import Compose, Gaussian, RepeatAndSelect
from ..loss import privacy_loss
from ..mechanism.search import MOST, best_of, chosen_among, selection_event
from .budget import Budget
from .estimator import PrivateEstimator
from .noise import gaussian

SCORE_NOISE = 3.0
"""Noise of a trial's score, in multiples of the noise that would spend the whole budget of its fit: a ninth of it."""
HALVINGS = 6
"""How finely the budget of a trial is searched."""
Settings = Mapping[str, object]


class PrivateGridSearchCV(MetaEstimatorMixin, PrivateEstimator):
    r"""Fit the best of several settings of a private classifier, chosen privately.

    A random number of trials (Poisson or geometric, `trials` on average) is made. Each fits settings drawn from
    `param_grid` and counts its right answers, with noise, on all records. Only the best trial is released, with its
    noisy score. There are no folds: what is private generalises, and every trial learns from all records.

    `estimator` is a private classifier with public `classes` or a `schema`; its own epsilon, delta, ledger and
    random_state are not used. `trials` None is three for each candidate, and ten at least.

    Guarantee: `RepeatAndSelect` of one trial, a fit and a `Gaussian` count, charged once before the first trial.
    Caller ensures: what `estimator` asks for; `param_grid` was not chosen by looking at the records.
    After fit: `best_estimator_`, `best_params_`, `best_score_` (noisy), `event_`, `bound_`.
    Reference: Papernot and Steinke 2022, Theorem 6.
    """

    _result = "best_estimator_"
    _released = "the best trial's model, score and settings"

    def __init__(
        self,
        estimator: PrivateEstimator,
        param_grid: Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]],
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        trials: float | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.trials = trials
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Search on rows X and labels y, as the estimator takes them."""
        self._begin()
        candidates = self._candidates()
        mean = max(10.0, 3.0 * len(candidates)) if self.trials is None else check.positive("trials", self.trials)
        if mean > MOST:
            raise BadInput(f"trials must be at most {MOST:,} on average, got {self.trials!r}.")
        size = self._size(_size(X))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput("PrivateGridSearchCV needs a delta above 0.")
        share, event = self._share(X, y, candidates, mean, budget)
        self.method_ = "private selection"
        self._charge(event, budget)
        rng = source(self.random_state)
        found = best_of(lambda settings, own: self._trial(X, y, settings, share, size, own), candidates, event, rng)
        self.best_estimator_, self.best_score_, self.best_params_ = found
        self.settings_ = chosen_among(len(candidates), event)
        # the winner was chosen among others, so that its own fit's claim does not hold for it
        self.best_estimator_.event_, self.best_estimator_.bound_ = self.event_, self.bound_
        self.best_estimator_.receipt_, self.best_estimator_.ledger = self.receipt_, self.ledger
        self.best_estimator_.utility_ = {}  # theorems promise it of one fit, not of the best of many
        self.uncovered_ = (*self.uncovered_, *self.best_estimator_._not_covered())
        self.best_estimator_.uncovered_, self.best_estimator_.randomness_ = self.uncovered_, self.randomness_
        self.classes_ = self.best_estimator_.classes_
        return self

    @property
    def adjacency(self) -> str:  # type: ignore[override]
        """The adjacency of the estimator that is searched."""
        return str(self.estimator.adjacency)

    @property
    def public_size(self) -> int | None:  # type: ignore[override]
        """The `public_size` of the estimator that is searched."""
        return self.estimator.public_size

    @property
    def _room(self) -> int:
        """How many records there may be: as many as the theorems of all candidates allow."""
        return min(int(self._with(each)._room) for each in ParameterGrid(self.param_grid))

    def predict(self, X: object) -> Array:
        """The labels that the chosen estimator predicts."""
        check_is_fitted(self, self._result)
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: object, y: object = None) -> float:
        """The share of right answers of the winner; on the records of the training it is not private."""
        check_is_fitted(self, self._result)
        return float(self.best_estimator_.score(X, y))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """The probabilities that the chosen estimator gives to each class."""
        check_is_fitted(self, self._result)
        return np.asarray(self.best_estimator_.predict_proba(X))

    def _not_covered(self) -> tuple[str, ...]:
        return ("how the candidates were listed",)

    def _candidates(self) -> list[Settings]:
        if not isinstance(self.estimator, PrivateEstimator) or not hasattr(self.estimator, "classes"):
            raise BadInput("PrivateGridSearchCV searches over the settings of a private classifier of tacit.erm.")
        if self.estimator.classes is None and getattr(self.estimator, "schema", None) is None:
            raise BadInput("A search needs public classes.", fix="Give classes= or schema= to the estimator.")
        found = list(ParameterGrid(self.param_grid))
        own = {"epsilon", "delta", "ledger", "random_state", "adjacency", "classes", "schema", "public_size"}
        for name in {name for each in found for name in each}:
            if name in own or name not in self.estimator.get_params(deep=False):
                raise BadInput(f"param_grid names {name!r}, which is no setting to search over.")
        return found

    def _made(self, settings: Settings, budget: Budget, **more: object) -> Any:
        mine = {"epsilon": budget.epsilon, "delta": budget.delta, "ledger": None, "random_state": None}
        return self._with({**settings, **mine, **more})

    def _with(self, settings: Settings) -> Any:
        """A copy of the estimator with other settings, not fitted."""
        return type(self.estimator)(**{**self.estimator.get_params(deep=False), **settings})

    def _quoted(self, X: object, y: object, settings: Settings, budget: Budget) -> Event:
        """What one trial costs. The fit stops where it would pay, before it looks at values."""
        try:
            self._made(settings, budget, ledger=_Till()).fit(X, y)
        except _Quote as quote:
            return Compose((quote.event, _score_event(budget)))
        raise AssertionError("a private estimator charges before it draws")

    def _share(
        self, X: object, y: object, candidates: list[Settings], mean: float, budget: Budget
    ) -> tuple[Budget, RepeatAndSelect]:
        """The largest budget of a trial at which the whole search stays within its own, and the search's event."""

        def offer(epsilon: float) -> tuple[Budget, RepeatAndSelect, float]:
            share = Budget(epsilon, budget.delta, budget.adjacency)
            quoted = [self._quoted(X, y, each, share) for each in candidates]
            event = selection_event(quoted, mean, "auto", budget.delta, budget.adjacency)
            return share, event, privacy_loss(event, budget.adjacency).epsilon(budget.delta).upper

        low, high, best = 0.0, budget.epsilon, None
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            share, event, cost = offer(middle)
            low, high = (middle, high) if cost <= budget.epsilon else (low, middle)
            best = (share, event) if cost <= budget.epsilon else best
        if best is None:
            raise BadInput("No trial fits into this budget.", fix="Raise epsilon, or lower trials.")
        return best

    def _trial(
        self, X: object, y: object, settings: Settings, share: Budget, size: int, rng: Source
    ) -> tuple[Any, float]:
        seed = None if self.random_state is None else int(rng.words(1)[0] >> np.uint64(2))
        model = self._made(settings, share, random_state=seed).fit(X, y)
        right = float(np.sum(model._right(X, y)))
        noisy = gaussian(np.array([right]), 1.0, _score_event(share).noise_multiplier, rng)
        return model, float(noisy[0]) / size


def _size(X: Any) -> int:
    """How many records there are."""
    if not hasattr(X, "shape") and not hasattr(X, "__len__"):
        raise BadInput(f"Records are rows or a data frame, got {type(X).__name__}.")
    return int(X.shape[0] if hasattr(X, "shape") else len(X))


def _score_event(share: Budget) -> Gaussian:
    return Gaussian(SCORE_NOISE * share.gaussian_noise())


class _Quote(Exception):
    """Thrown by a till instead of taking a charge."""

    def __init__(self, event: Event) -> None:
        super().__init__()
        self.event = event


class _Till:
    """A ledger that only asks for what it would be charged."""

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> Receipt:
        raise _Quote(event)
