"""Who was deleted between two versions of a model."""

from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from tacit import disclosure
from tacit.disclosure import Bar
from tacit.erm import PrivateLogisticRegression

from .shown import EPSILON, Shown, adult


def versions(folder: Path, trials: int = 60, candidates: int = 50) -> Shown:
    """One of 50 people asks to be forgotten. Who? The models before and after tell."""
    table = adult(folder)[["age", "fnlwgt", "education_num", "hours_per_week", "capital_gain", "income"]]
    x = np.clip(table.drop(columns="income").to_numpy(float) / [90, 1e6, 16, 99, 1e5], 0, 1)
    y = (table.income == ">50K").to_numpy().astype(int)
    numbers, hits = np.random.default_rng(0), {"plain": 0, "private": 0}
    for trial in range(trials):
        rows = numbers.choice(len(x), 400, replace=False)
        gone = int(numbers.integers(candidates))
        without = np.delete(rows, gone)
        for kind in hits:
            models = []
            for version, own in enumerate((rows, without)):
                plain_model = KNeighborsClassifier(15, weights="distance")
                private = PrivateLogisticRegression(
                    EPSILON, delta=0.0, classes=[0, 1], norm_bound=2.0, random_state=2 * trial + version
                )
                models.append((plain_model if kind == "plain" else private).fit(x[own], y[own]).predict_proba)
            found = disclosure.model_versions(*models, x[rows[:candidates]], y[rows[:candidates]])
            hits[kind] += found.named == gone and found.rank(gone) == 1
    plain, private = (count / trials for count in hits.values())
    limit = disclosure.naming_limit(EPSILON, candidates)
    told = f"Two versions of a model by nearest neighbours name the one of {candidates} who was forgotten: {plain:.0%}"
    bars = (Bar("nearest neighbours", plain), Bar("private regression", private, "private"))
    bars += (Bar("guessing", 1 / candidates, "guessing"),)
    return Shown("Who was forgotten between two versions", f"{told}; private ones {private:.0%}.", bars, limit)
