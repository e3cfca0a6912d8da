"""The blind baseline's logistic regression against scikit-learn's."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from tacit.attacks.logistic import logistic


def test_log_odds_agree():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6)) * [1, 10, 0.1, 1, 1, 1]
    y = rng.random(400) < 1 / (1 + np.exp(-x[:, 0] + 0.1 * x[:, 1]))
    scaler = StandardScaler().fit(x)
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaler.transform(x), y)
    np.testing.assert_allclose(logistic(x, y)(x), peer.decision_function(scaler.transform(x)), atol=2e-3)
