"""Defects found in other tools, each as something that cannot happen here.

Elsewhere: D1 (inverted loss), D5 and D6 (RMIA, LiRA), D11 (unstable logit) in tests/unit/test_attacks_rules.py and
test_core_observations.py; D4 (ties) in test_core_roc.py; D12 (last record) in test_core_scores.py; D7 and D10
(thresholds of the judging scores) in tests/statistical/test_audits_validity.py; D2 and D8 (guess counts) in
test_audits_games_validity.py.
"""

import json
from dataclasses import fields

import numpy as np
import pytest

from tacit.attacks import measure
from tacit.audits import Choice, ClopperPearson, Exact, choose, demonstrate, lower_bound, stated
from tacit.audits.scoring import scored
from tacit.core import Counts, Evaluation, Evidence, Measurement, Mismatch, Scores
from tacit.core.events import Gaussian

RULE = {"delta": 1e-5, "adjacency": "add-remove", "confidence": 0.95}


def played(mu=2.0, runs=400, seed=0):
    rng = np.random.default_rng(seed)
    coins = np.arange(runs) % 2 == 0
    return scored(rng.normal(size=runs) + mu * coins, coins)


def test_d5_no_risk_label_from_an_area_and_no_nan():
    """A peer calls an area of 0.72 "MEDIUM" and shows NaN where it has no curve."""
    found = measure(Scores([0.3, 0.1], [1, 0], attack="a", randomised=False))
    assert not {"risk", "label", "level"} & {field.name for field in fields(Measurement)}
    text = json.dumps(Evidence("m", measurements=(found,)).to_json(), allow_nan=False)
    assert '"n too small"' in text


def test_d7_both_directions_are_one_event_and_a_threshold_is_not():
    """Taking the better direction at one fixed threshold is free; nothing here takes a set of thresholds."""
    low, high = Counts(199, 150, 200, 200), Counts(50, 1, 200, 200)
    assert ClopperPearson(0.0).read(low, 0.95) == pytest.approx(ClopperPearson(0.0).read(high, 0.95))
    for function in (lower_bound, demonstrate):
        assert "thresholds" not in function.__annotations__


def test_d9_the_headline_is_a_lower_bound():
    """A peer's headline epsilon is the upper end of a bootstrap interval. Ours never exceeds the point estimate."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(20, 500))
        hits, alarms = sorted(rng.integers(1, n, 2).tolist(), reverse=True)
        counts = Counts(hits, alarms, n, n)
        point = max(np.log(hits / alarms), np.log((n - alarms) / (n - hits)))
        assert ClopperPearson(0.0).read(counts, 0.6) <= point
        assert Exact(0.0).read(counts, 0.6) <= point + 1e-3


def test_d10_the_threshold_of_the_judging_scores_is_refused():
    scores = played()
    calibration, _ = scores.split(0)
    with pytest.raises(Mismatch, match="disjoint"):
        lower_bound(Evaluation(scores), choose(calibration, **RULE), **RULE)


def test_d2_delta_is_never_left_out():
    """A peer's documentation says 1e-5 and its code runs with 0: here the bound carries its delta, which must match."""
    assert lower_bound(Evaluation(played()), Choice("canary", 1.0)).delta == 1e-5
    pure = lower_bound(Evaluation(played()), Choice("canary", 1.0), **{**RULE, "delta": 0.0})
    with pytest.raises(Mismatch, match="delta"):
        pure.contradicts(stated(Gaussian(1.0), delta=1e-5).bound)
