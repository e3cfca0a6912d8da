"""What averages hide: records, their distribution, groups, and the budget step by step."""

from itertools import pairwise

import numpy as np
import pytest

from tacit import Plan
from tacit.attacks import distribution, memorisation
from tacit.audits import stated
from tacit.core import Evidence, Observations, Scores
from tacit.core.randomness import Seeded
from tacit.study.risk import budget, by_steps, placed, records, renamed

PLAN = Plan(1000, 0.05, 100, 1.0)


def observations(records=60, models=64, memorised=(7, 31), seed=0):
    """Models are sure of two records if and only if they have learned them, and care little about the others."""
    rng = np.random.default_rng(seed)
    member = rng.random((records, models)) < 0.5
    logits = rng.normal(size=(records, models, 2))
    for row in memorised:
        logits[row, :, 0] = np.where(member[row], 8.0, -8.0)
    return Observations.from_logits(logits, np.zeros(records, dtype=np.int64), member=member)


def test_the_budget_rises_to_the_claim():
    found = budget(PLAN, 1e-5)
    assert [item.step for item in found][0::20] == [1, 100]
    assert all(one.epsilon < two.epsilon for one, two in pairwise(found))
    assert found[-1].epsilon == pytest.approx(PLAN.bound(1e-5).epsilon, rel=1e-6)
    assert len(budget(Plan(1000, 0.05, 3, 1.0), 1e-5)) == 3


def test_every_record_is_in_one_bin():
    seen = observations()
    bins = distribution(seen)
    assert sum(item.records for item in bins) == 60
    found = memorisation(seen)
    for item in bins:
        assert item.records == np.count_nonzero((found >= item.lower) & (found < item.upper)) or item.upper == 1.0
    assert bins[-1].records == 2
    assert bins[-1].upper == 1.0


def test_records_that_no_model_or_every_model_learned_are_in_none():
    seen = observations(records=4, memorised=())
    member = seen.member.copy()
    member[0], member[1] = True, False
    lost = Observations(probability=seen.probability, member=member)
    assert sum(item.records for item in distribution(lost)) == 2


def test_the_memorised_records_are_the_most_exposed():
    found = records(observations(), Seeded(1))
    assert {item.record for item in found["exposures"][:2]} == {7, 31}
    assert all(item.memorisation.lower > 0.3 for item in found["exposures"][:2])


def test_few_models_name_nobody():
    assert "exposures" not in records(observations(models=4), Seeded(1))


def test_a_claimed_event_has_the_budget_of_its_plan():
    claim = stated(PLAN, delta=1e-5)
    for one, two in zip(by_steps(claim), budget(PLAN, 1e-5), strict=True):
        assert one.step == two.step
        assert one.epsilon == pytest.approx(two.epsilon, rel=1e-9)
    assert by_steps(stated((1.0, 1e-5), delta=1e-5)) == by_steps(None) == ()


def test_scores_and_exposures_name_the_same_rows():
    """Scores named the rows that were kept, exposed records the rows of what was given."""
    found = records(observations(), Seeded(1))["exposures"]
    scores = Scores([1.0, 0.0], [1, 0], attack="loss", randomised=False, record=[31, 7])
    audit = Scores([1.0, 0.0], [1, 0], attack="loss", randomised=True, record=[0, 0], target=[0, 1])
    told = placed(Evidence(subject="", exposures=found[:2], scores=(scores, audit)), np.arange(60)[::-1] + 100)
    assert {item.record for item in told.exposures} == {100 + 59 - 7, 100 + 59 - 31}
    assert told.scores[0].record.tolist() == [100 + 59 - 31, 100 + 59 - 7]
    assert told.scores[1].record.tolist() == [0, 0]


def test_records_are_named_by_their_rows_in_the_data():
    found = records(observations(), Seeded(1))["exposures"]
    rows = np.arange(60)[::-1] + 100
    assert {item.record for item in renamed(found[:2], rows)} == {100 + 59 - 7, 100 + 59 - 31}
