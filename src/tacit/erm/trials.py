"""Searches fit many trials and keep the best one, which no single fit pays for: an estimator refuses to be a trial.

Every search (scikit-learn's, dask-ml's, scikit-optimize's, Optuna's) copies the estimator with `sklearn.base.clone` and
then changes settings of the copy with `set_params`, in a pipeline too and in any process. So a copy whose settings were
changed will not fit. Candidates that are whole estimators change no settings, and searches for features or thresholds
neither; scikit-learn's own ones are then recognised by the functions that they fit by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import FrameType

from ..core import BadInput

SEARCHES = ("_get_best_new_feature_score", "_rfe_single_fit", "_fit_and_score_over_thresholds")
"""Of SequentialFeatureSelector, RFECV and TunedThresholdClassifierCV, which choose by scores of the records."""
OF_ROWS = ("sklearn.linear_model._ransac", "sklearn.semi_supervised._self_training")
"""RANSACRegressor keeps the rows, and the model, that agree with most records. SelfTrainingClassifier labels the rows
that are surest, and stops by how many there are."""
BAGGING = "_parallel_build_estimators"
FREE = ("random_state", "ledger", "warm_start")
"""Settings of a copy that may be changed: nothing is chosen by them."""


def changes(names: Iterable[str]) -> bool:
    """Whether searching over these settings would look at private data, that is, whether one of them is not free."""
    return any(name not in FREE for name in names)


def refuse_trial(name: str, *, changed_copy: bool) -> None:
    """Raise where a search fits one trial of many, or an ensemble fits rows of which some are there several times."""
    if _resampled():
        raise BadInput(
            f"Bagging draws rows with replacement: {name} would count one person several times, and its claim is for "
            "one row.",
            fix="Use bootstrap=False.",
        )
    if changed_copy or _searched():
        raise BadInput(
            f"A search that looks at the records in every trial has no proof: {name} will not fit in one. "
            + (
                "This is a copy (sklearn.base.clone) whose settings were changed, as searches make them."
                if changed_copy
                else "A search of scikit-learn is fitting it."
            ),
            fix=f"Use tacit.erm.PrivateGridSearchCV, which pays for the choice. Outside a search, make a new {name} "
            "with these settings.",
        )


def _searched() -> bool:
    return any(
        frame.f_code.co_name in SEARCHES
        or frame.f_globals.get("__name__") in OF_ROWS
        or (frame.f_code.co_name == "_fit_and_score" and frame.f_locals.get("parameters") is not None)
        for frame in _callers()
    )


def _resampled() -> bool:
    """Whether scikit-learn's bagging is fitting, on rows drawn with replacement."""
    ensembles = (frame.f_locals.get("ensemble") for frame in _callers() if frame.f_code.co_name == BAGGING)
    return any(getattr(ensemble, "bootstrap", False) for ensemble in ensembles)


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
