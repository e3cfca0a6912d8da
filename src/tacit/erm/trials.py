"""Searches fit many trials and keep the best one, which no single fit pays for: an estimator refuses to be a trial.

Every search (scikit-learn's, dask-ml's, scikit-optimize's, Optuna's) copies the estimator with `sklearn.base.clone` and
then changes settings of the copy with `set_params`, in a pipeline too and in any process. So a copy whose settings were
changed will not fit. Candidates that are whole estimators change no settings, and searches for features or thresholds
neither; scikit-learn's own ones are then recognised by the functions that clone or fit the estimator. Not seen are
searches of other libraries over another step of a pipeline, or over the seed alone.
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
THRESHOLDS = "sklearn.model_selection._classification_threshold", "TunedThresholdClassifierCV"
"""The module, and the class, that fits a model before it chooses a threshold."""
BAGGING, BOOSTING = "_parallel_build_estimators", "sklearn.ensemble._weight_boosting"
PARTS = ("_fit_ovo_binary", "_impute_one_feature")
"""OneVsOneClassifier fits on the records of two classes, IterativeImputer on those that have a value."""
PIPELINE = ("fit", "fit_transform", "fit_predict")
MIXED = ("sklearn.cluster._birch",)
"""Birch clusters means of many records."""
EXCHANGED = "_permutation_test_score"
"""Of permutation_test_score, which gives every row the label of another person."""
SEEDS = "_set_random_states"
"""Ensembles give their parts seeds of 31 bits, which anybody can try out."""
FREE = ("random_state", "ledger", "warm_start")
"""Settings of a copy that may be changed. Ensembles and repeated fits change them; a search over seeds is not seen."""


def changes(names: Iterable[str]) -> bool:
    """Whether searching over these settings would look at private data, that is, whether one of them is not free."""
    return any(name not in FREE for name in names)


def refuse_trial(name: str, *, marked: bool, size_is_public: bool) -> None:
    """Raise where a search fits one trial of many, where an ensemble fits rows of which some are there several times,
    or where the number of rows is taken for public and is not.

    `marked`: this is a copy whose settings were changed, or that a search made.
    """
    if _resampled():
        raise BadInput(
            f"Bagging and AdaBoost draw rows with replacement: {name} would count one person several times, and its "
            "claim is for one row.",
            fix="For bagging use bootstrap=False.",
        )
    if _mixed():
        raise BadInput(
            "Birch, permutation_test_score and pipelines that sample rows anew fit on rows that several records made, "
            f"or that are there several times: the claim of {name} is for one row of one person.",
            fix=f"Fit {name} to the records themselves.",
        )
    if marked or searched():
        raise BadInput(
            f"A search that looks at the records in every trial has no proof: {name} will not fit in one. This is a "
            "copy (sklearn.base.clone) whose settings were changed, as searches make them, or a search of scikit-learn "
            "is fitting it.",
            fix=f"Use tacit.erm.PrivateGridSearchCV, which pays for the choice. Outside a search, make a new {name} "
            "with these settings.",
        )
    if size_is_public and any(frame.f_code.co_name in PARTS for frame in _callers()):
        raise BadInput(
            "OneVsOneClassifier and IterativeImputer fit on a part of the records. How many it holds is private, and "
            f"{name} would take it for public.",
            fix="Give public_size, a public number near that of all records.",
        )


def searched() -> bool:
    """Whether a search of scikit-learn is on the stack. It is where the search clones an estimator, even if the copy is
    then fitted in another process."""
    return any(
        frame.f_code.co_name in SEARCHES
        or frame.f_globals.get("__name__") in OF_ROWS
        or (frame.f_code.co_name == "_fit_and_score" and frame.f_locals.get("parameters") is not None)
        or _tunes_threshold(frame)
        for frame in _callers()
    )


def _tunes_threshold(frame: FrameType) -> bool:
    module, kind = THRESHOLDS
    return frame.f_globals.get("__name__") == module and type(frame.f_locals.get("self")).__name__ == kind


def _resampled() -> bool:
    """Whether scikit-learn's bagging or AdaBoost is fitting, on rows drawn with replacement."""
    if any(frame.f_globals.get("__name__") == BOOSTING for frame in _callers()):
        return True
    ensembles = (frame.f_locals.get("ensemble") for frame in _callers() if frame.f_code.co_name == BAGGING)
    return any(getattr(ensemble, "bootstrap", False) for ensemble in ensembles)


def _mixed() -> bool:
    """Whether rows are not the records. Birch makes them of many, and a permutation test of two. Samplers of a
    pipeline, which have `fit_resample` as those of imbalanced-learn do, repeat rows, or make new ones of two people's.
    """
    return any(
        frame.f_globals.get("__name__") in MIXED or frame.f_code.co_name == EXCHANGED or _resamples(frame)
        for frame in _callers()
    )


def _resamples(frame: FrameType) -> bool:
    if frame.f_code.co_name not in PIPELINE:
        return False
    steps = getattr(frame.f_locals.get("self"), "steps", None)
    named = [step for step in steps if isinstance(step, tuple)] if isinstance(steps, list) else []
    return any(hasattr(part, "fit_resample") for step in named for part in step)


def by_ensemble() -> bool:
    """Whether an ensemble of scikit-learn is giving its parts seeds."""
    return any(frame.f_code.co_name == SEEDS for frame in _callers())


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
