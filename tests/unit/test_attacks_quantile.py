"""Quantile regression: the fit against its own formula, what a good regression finds, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tacit import BadInput, attacks
from tacit.attacks.quantile import location_scale
from tacit.core import Observations


def seen(records=1200, gap=1.5, seed=0):
    """How hard a record is can be read from its features; membership adds `gap` times its own noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(records, 6))
    member = rng.permutation(records) < records // 2
    spread = np.exp(0.7 * x[:, 1])
    margin = 4.0 * x[:, 0] + spread * (rng.normal(size=records) + gap * member)
    return Observations(member=member[:, None], margin=margin[:, None], features=x, record=np.arange(records))


def test_location_and_scale_are_found():
    rng = np.random.default_rng(0)
    x = np.c_[np.ones(4000), rng.normal(size=(4000, 2))]
    y = 1.0 + 2.0 * x[:, 1] + np.exp(-0.5 + 0.4 * x[:, 2]) * rng.normal(size=4000)
    mean, spread = location_scale(x, y)
    at = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    np.testing.assert_allclose(mean(at), [1.0, 3.0, 1.0], atol=0.06)
    np.testing.assert_allclose(spread(at), np.exp([-0.5, -0.5, -0.1]), rtol=0.06)


def test_it_finds_what_one_threshold_for_all_cannot():
    judged, known = attacks.known_split(seen(), 1)
    regression = attacks.quantile(judged, known).auc().value
    plain = attacks.loss_threshold(replace(judged, loss=np.logaddexp(0.0, -judged.margin))).auc().value
    assert regression > 0.75
    assert plain < 0.65


def test_known_members_are_not_looked_at():
    judged, known = attacks.known_split(seen(200), 1)
    louder = replace(known, margin=np.where(known.member, 1e3, known.margin))
    np.testing.assert_array_equal(attacks.quantile(judged, known).score, attacks.quantile(judged, louder).score)


def test_accusations_at_a_promised_rate():
    judged, known = attacks.known_split(seen(2000), 1)
    found = attacks.accuse(judged, known, 0.05, 2)
    assert found.tpr > 3 * found.false_alarms
    assert found.false_alarms < 0.1
    np.testing.assert_array_equal(found.record, judged.record)
    np.testing.assert_array_equal(found.accused, found.p_value <= 0.05)


@pytest.mark.parametrize(
    "call",
    [
        lambda judged, known: attacks.accuse(judged, known, 0.0, 0),
        lambda judged, known: attacks.accuse(judged, known, 0.001, 0),
        lambda judged, known: attacks.accuse(judged, known, 0.1, 0, share=1.0),
        lambda judged, known: attacks.accuse(judged, judged, 0.1, 0),
        lambda judged, known: attacks.accuse(judged.select(models=[0, 0]), known.select(models=[0, 0]), 0.1, 0),
        lambda judged, known: attacks.quantile(judged, known.select(records=np.flatnonzero(~known.member)[:5])),
        lambda judged, known: attacks.quantile(replace(judged, features=None), known),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call(*attacks.known_split(seen(200), 1))
