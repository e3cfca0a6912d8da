"""Whole fits of the private estimators, audited as mechanisms at epsilon 1.

They stand, and with a twentieth of the noise they are refuted. The neighbours differ in one record that contributes as
much as any may.
"""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import tacit
from tacit.erm import (
    PrivateGaussianNB,
    PrivateKMeans,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateStandardScaler,
    bayes,
    clusters,
    components,
    regression,
    scaling,
)
from tacit.erm.noise import gaussian

RUNS, DELTA, CONFIDENCE, SIZE, FEW = 1000, 1e-3, 1 - 1e-5, 400, 0.05
X, FAR = np.zeros((SIZE, 1)), np.array([[1.0]])
SETTINGS = {"epsilon": 1.0, "delta": DELTA, "adjacency": "replace"}
PAIRS = {
    "scaler": (scaling, lambda s: PrivateStandardScaler(**SETTINGS, bounds=(-1, 1), random_state=s), "mean_", False),
    "components": (components, lambda s: PrivatePCA(1, **SETTINGS, random_state=s), "mean_", False),
    "k-means": (
        clusters,
        lambda s: PrivateKMeans(1, **SETTINGS, max_iter=1, random_state=s),
        "cluster_centers_",
        False,
    ),
    "naive Bayes": (bayes, lambda s: PrivateGaussianNB(**SETTINGS, classes=[0, 1], random_state=s), "theta_", True),
    "regression": (
        regression,
        lambda s: PrivateLinearRegression(
            **SETTINGS, target_range=(-1, 1), regularization=1.0, fit_intercept=False, random_state=s
        ),
        "coef_",
        True,
    ),
}


def verdict(monkeypatch, name, factor):
    """Of fits whose noise is `factor` times what it should be."""
    room, make, shown, labelled = PAIRS[name]

    def scaled(value, contribution, noise_multiplier, rng):
        return gaussian(value, factor * contribution, noise_multiplier, rng)

    monkeypatch.setattr(room, "gaussian", scaled)

    def release(x, rng):
        y = (np.ones(len(x)),) if labelled else ()
        return np.ravel(getattr(make(int(rng.integers(2**62))).fit(x, *y), shown))

    return tacit.audit_mechanism(
        release, (np.vstack([X, FAR]), np.vstack([X, -FAR])), claim=(1.0, DELTA), runs=RUNS, confidence=CONFIDENCE,
        rng=5, delta=DELTA, adjacency="replace",
    ).verdict  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_an_estimator_keeps_its_claim_and_one_with_a_twentieth_of_the_noise_does_not(monkeypatch, name):
    assert verdict(monkeypatch, name, 1.0) is not tacit.Verdict.REFUTED
    assert verdict(monkeypatch, name, FEW) is tacit.Verdict.REFUTED


@pytest.mark.parametrize("made", [PrivateGaussianNB, PrivateLogisticRegression])
def test_an_audit_takes_estimators_as_they_are(made):
    """It fits clones with seeds of their own, which are no trials of a search."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    model = made(1.0, 1e-5, norm_bound=4.0, classes=[0, 1])
    found = tacit.audit(
        model, (x, (x[:, 0] > 0).astype(int)), claim=(1.0, 1e-5), runs=200, isolation="none", canary="mislabelled",
        confidence=CONFIDENCE, rng=0,
    )  # fmt: skip
    assert found.verdict in (tacit.Verdict.CONSISTENT, tacit.Verdict.UNINFORMATIVE)
