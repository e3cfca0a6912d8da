"""Evidence as a flat table of numbers."""

import math
import re

import pytest

import report_samples as samples
from tacit.core import Bound, Claim
from tacit.reports import metrics


def test_numbers_of_both_sides_and_of_the_attacks():
    evidence = samples.private()
    found = metrics(evidence)
    assert found["claim/epsilon"] == evidence.claim.bound.epsilon
    assert found["audit/epsilon_at_least"] == evidence.lower.bound.epsilon
    assert found["audit/delta"] == evidence.lower.bound.delta
    assert found["attack/LiRA/auc"] == evidence.measurements[0].auc.value
    assert found["attack/LiRA/tpr_at_0.01"] == dict(evidence.measurements[0].tpr_at_fpr)[0.01].value
    assert found["utility/training_accuracy"] == 0.931
    assert found["verdict/consistent"] == 1.0
    assert found["control/null_model"] == 1.0


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_every_sample_gives_plain_names_and_finite_numbers(name):
    for key, value in metrics(samples.SAMPLES[name]()).items():
        assert re.fullmatch(r"[\w./-]+", key)
        assert type(value) is float
        assert math.isfinite(value)


def test_what_is_not_finite_or_too_small_a_sample_is_left_out():
    claim = Claim(Bound(math.inf, 1e-5, "upper", 1.0, "stated", "add-remove"))
    assert "claim/epsilon" not in metrics(samples.private().with_(claim=claim, demonstrations=()))
    few = samples.private().with_(measurements=(samples.measurement("LiRA", 1.0, members=50),))
    assert "attack/LiRA/tpr_at_0.0001" not in metrics(few)
