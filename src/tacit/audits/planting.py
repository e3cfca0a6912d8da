"""Usual faults planted into somebody's training: those that can be put around any, and those that it offers itself.

A training may offer `fit.planted(name) -> fit` for faults of its own code (tacit.fleet.Runs does); None where it has no
such fault. Around any training go preprocessing that is read off the data, and one seed for all runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Array
from .foreign import Classifier, Fit, outputs
from .runs.workers import reseed

PREPROCESSING, ONE_SEED = "preprocessing read off the data", "one seed for all runs"


def planted(fit: Fit, fault: str, x: Array) -> Fit | None:
    """The training with a fault; None where it cannot be planted."""
    if fault == PREPROCESSING:
        return Scaled(fit, float(np.nanmax(np.abs(x)))) if x.dtype.kind in "fiu" and np.any(x) else None
    if fault == ONE_SEED:
        return OneSeed(fit)
    offer: Callable[[str], Fit | None] | None = getattr(fit, "planted", None)
    return offer(fault) if callable(offer) else None


@dataclass(frozen=True, eq=False)
class Scaled:
    """The training behind a scale that is read off its data: their largest number is brought to `public`.

    Without a canary that is larger, nothing changes.
    """

    fit: Fit
    public: float

    def __call__(self, x: Array, y: Array, rng: np.random.Generator) -> Any:
        factor = self._factor(x)
        return _behind(self.fit(self._scaled(x, factor), y, rng), factor, x.dtype)

    def __getattr__(self, name: str) -> object:
        if name == "many" and callable(getattr(self.fit, "many", None)):
            return self._many
        if name in ("at_once", "isolation"):
            return getattr(self.fit, name)
        raise AttributeError(name)

    def _many(self, x: Array, y: Array, member: NDArray[np.bool_], rngs: list[np.random.Generator]) -> object:
        """Runs with one scale go together."""
        factors = np.array([self._factor(x[column]) for column in member.T])
        groups = [np.flatnonzero(factors == factor) for factor in np.unique(factors)]
        many = self.fit.many  # type: ignore[attr-defined]
        parts = [
            (runs, many(self._scaled(x, factors[runs[0]]), y, member[:, runs], [rngs[run] for run in runs]))
            for runs in groups
        ]

        def predict(records: Array) -> Array:
            told = [(runs, model(self._scaled(records, factors[runs[0]]))) for runs, model in parts]
            whole = np.empty((len(rngs), *np.asarray(told[0][1]).shape[1:]))
            for runs, found in told:
                whole[runs] = found
            return whole

        return predict

    def _factor(self, x: Array) -> float:
        return self.public / max(float(np.nanmax(np.abs(x))), 1e-300)

    def _scaled(self, x: Array, factor: float) -> Array:
        return np.asarray(x * factor).astype(x.dtype)


@dataclass(frozen=True, eq=False)
class OneSeed:
    """The training with the same randomness in every run; what it takes from the operating system stays its own."""

    fit: Fit

    def __call__(self, x: Array, y: Array, rng: np.random.Generator) -> Any:
        reseed((1, 2, 3, 4), self.fit)
        return self.fit(x, y, np.random.default_rng(1))

    def __getattr__(self, name: str) -> object:
        if name == "many" and callable(getattr(self.fit, "many", None)):
            return self._many
        if name in ("at_once", "isolation"):
            return getattr(self.fit, name)
        raise AttributeError(name)

    def _many(self, x: Array, y: Array, member: NDArray[np.bool_], rngs: list[np.random.Generator]) -> object:
        reseed((1, 2, 3, 4), self.fit)
        return self.fit.many(x, y, member, [np.random.default_rng(1) for _ in rngs])  # type: ignore[attr-defined]


def _behind(model: object, factor: float, kind: np.dtype[np.generic]) -> object:
    """The model asked about scaled records."""
    if isinstance(model, Classifier) or not callable(model):
        return _Behind(model, factor, kind)
    return lambda records: model(np.asarray(records * factor).astype(kind))


class _Behind:
    def __init__(self, model: object, factor: float, kind: np.dtype[np.generic]) -> None:
        self.model, self.factor, self.kind = model, factor, kind
        self.classes_ = getattr(model, "classes_", None)

    def predict_proba(self, x: Array) -> Array:
        """What the model answers with: shares, or logits."""
        return outputs(self.model, np.asarray(x * self.factor).astype(self.kind))[0]
