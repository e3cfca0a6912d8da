"""Input perturbation: what one person sends, the correction of the collector, and the price of trusting nobody."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import tacit
from tacit import BadInput
from tacit.erm import PrivateLinearRegression, PrivateLocalRegression

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(60_000, 1))
TARGET = X @ [1.0]
SETTINGS = {"epsilon": 4.0, "delta": 1e-5, "target_range": (-1, 1), "fit_intercept": False, "random_state": 0}


@pytest.mark.parametrize("sends", ["products", "rows"])
def test_the_collector_corrects_for_the_noise(sends):
    model = PrivateLocalRegression(**SETTINGS, sends=sends, regularization=0.0).fit(X, TARGET)
    assert np.allclose(model.coef_, [1.0], atol=0.2 if sends == "products" else 0.45)
    assert model.bound_.epsilon <= 4.0
    assert model.bound_.adjacency == "replace"
    assert tacit.verify(model.evidence()).ok
    assert "held all records" in model.evidence().threat["trust"]


def test_the_central_model_is_better_at_equal_epsilon():
    local = PrivateLocalRegression(**SETTINGS).fit(X, TARGET)
    central = PrivateLinearRegression(**SETTINGS, adjacency="replace").fit(X, TARGET)
    miss = [float(np.abs(model.coef_ - [1.0]).max()) for model in (local, central)]
    assert miss[1] < miss[0] / 3


@pytest.mark.parametrize("sends", ["products", "rows"])
def test_what_is_sent_can_be_collected_later(sends):
    made = PrivateLocalRegression(**SETTINGS, sends=sends)
    sent = made.randomized(X, TARGET)
    later = PrivateLocalRegression(**SETTINGS, sends=sends).fit_sent(sent)
    assert np.array_equal(later.coef_, PrivateLocalRegression(**SETTINGS, sends=sends).fit(X, TARGET).coef_)
    assert later.predict(X[:3]).shape == (3,)


@pytest.mark.parametrize("sends", ["products", "rows"])
def test_a_person_sends_nothing_that_depends_on_others_and_hides_every_record(monkeypatch, sends):
    """The distance of what any two records would send, without noise, against twice the contribution stated."""
    seen = []

    def taped(value, contribution, noise_multiplier, rng):
        seen.append((value, contribution))
        return value

    monkeypatch.setattr("tacit.erm.local.gaussian", taped)
    made = PrivateLocalRegression(**SETTINGS, sends=sends)
    records = np.array([[1e300], [-1e300], [np.nan], [1.5], [0.1], [1e300]])
    targets = np.array([9e9, -9e9, np.nan, 2.0, 0.0, -9e9])
    made.randomized(records, targets)
    together, share = seen[0]
    apart = max(float(np.linalg.norm(a - b)) for a in together for b in together)
    assert share <= apart <= 2 * share
    for k in range(len(records)):
        made.randomized(records[k : k + 1], targets[k : k + 1])
        assert np.array_equal(seen[-1][0][0], together[k])


def test_bad_input():
    with pytest.raises(BadInput, match="sends must be"):
        PrivateLocalRegression(target_range=(0, 1), sends="all").fit(X[:10], TARGET[:10])
    with pytest.raises(BadInput, match="delta above 0"):
        PrivateLocalRegression(delta=0.0, target_range=(0, 1)).fit(X[:10], TARGET[:10])
    made = PrivateLocalRegression(target_range=(0, 1), fit_intercept=False)
    for odd in (np.zeros(9), np.zeros((4, 8)), np.zeros((4, 0))):
        with pytest.raises(BadInput, match="as `randomized` makes them"):
            made.fit_sent(odd)


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e308])
def test_what_one_person_sends_stops_nobody(odd):
    made = PrivateLocalRegression(50.0, target_range=(0, 1), random_state=0)
    sent = made.randomized(X, TARGET)
    sent[3] = odd
    assert np.isfinite(made.fit_sent(sent).coef_).all()
