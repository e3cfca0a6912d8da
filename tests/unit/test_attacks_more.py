"""Shadow classifiers, labels alone, snapshots, records and groups."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from tacit import attacks
from tacit.attacks.groups import _holm
from tacit.attacks.targets import independent
from tacit.core import BadInput, Observations, Scores
from tacit.core.randomness import Seeded
from tacit.study.subsets import subsets


def fleet(records=200, models=8, gap=1.0, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    member = np.stack([rng.permutation(records) < records // 2 for _ in range(models)], axis=1)
    label = rng.integers(0, classes, records)
    logits = rng.normal(0, 0.5, (records, models, classes))
    hard = rng.normal(0, 1, records)[:, None]
    logits[np.arange(records), :, label] += (
        hard + np.asarray(gap)[..., None] * member + 0.5 * rng.normal(size=member.shape)
    )
    return Observations.from_logits(logits, label, member=member)


def parts(seen):
    return seen.select(models=[0]), seen.select(models=np.arange(1, seen.models))


def test_label_alone_by_hand():
    target = Observations.from_logits([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0], member=[[1], [0], [1]])
    assert attacks.label(target).score.tolist() == [1.0, 0.0, 1.0]
    others = Observations.from_logits(
        np.array([[[1.0, 0.0]] * 4, [[0.0, 1.0]] * 4, [[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2]),
        [0, 0, 0],
        member=np.zeros((3, 4)),
    )
    assert attacks.label_calibrated(target, others).score.tolist() == [0.0, 0.0, 0.5]


def test_shadow_learns_what_members_look_like():
    """Members here are LESS sure than others: a fixed sign fails, a learned one does not."""
    seen = fleet(gap=-2.0, records=600)
    assert attacks.loss_threshold(seen.select(models=[0])).auc().value < 0.3
    assert attacks.shadow(*parts(seen)).auc().value > 0.75


def test_one_snapshot_is_lira_with_pooled_variances():
    target, references = parts(fleet())
    one = attacks.snapshots([target], [references])
    np.testing.assert_allclose(one.score, attacks.lira(target, references).score, rtol=1e-4)


def test_more_snapshots_tell_more():
    rng = np.random.default_rng(1)
    member, hard = fleet(records=800, models=17).member, rng.normal(size=(800, 1))
    runs = [Observations(member=member, margin=hard + member + rng.normal(size=member.shape)) for _ in range(4)]
    seen = [parts(run) for run in runs]
    one = attacks.snapshots([seen[0][0]], [seen[0][1]]).auc().value
    four = attacks.snapshots([target for target, _ in seen], [other for _, other in seen]).auc().value
    assert four > one + 0.1


def test_snapshots_must_fit_together():
    target, references = parts(fleet())
    with pytest.raises(BadInput, match="at least one"):
        attacks.snapshots([], [])
    with pytest.raises(BadInput, match="same models"):
        attacks.snapshots([target, target.select(records=np.arange(5))], [references, references])


def test_memorisation_by_hand():
    seen = Observations(
        member=np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool),
        probability=np.array([[0.9, 0.7, 0.2, 0.4], [1.0, 1, 1, 1]]),
    )
    found = attacks.memorisation(seen)
    assert found[0] == pytest.approx(0.5)
    assert np.isnan(found[1])


def test_exposed_records_are_estimated_where_they_were_not_selected():
    gap = np.zeros(300)
    gap[:5] = 6.0
    seen = fleet(records=300, models=128, gap=gap, seed=2)
    worst = attacks.exposed(seen, 5, 0)
    assert {item.record for item in worst} == {0, 1, 2, 3, 4}
    assert all(item.memorisation.lower > 0.2 for item in worst)


def test_selection_by_luck_is_not_reported():
    """No record is exposed: the selecting half shows large numbers, the judging half does not confirm them."""
    worst = attacks.exposed(fleet(records=300, models=64, gap=0.0, seed=3), 20, 0)
    assert np.mean([item.selected_by for item in worst]) > 0.1
    assert all(item.memorisation.lower <= 0 <= item.memorisation.upper for item in worst)
    assert abs(np.mean([item.memorisation.value for item in worst])) < 0.25  # the clearest 20 of 40 candidates


def remembered(seed, exposed, decoys=0, records=300, models=16):
    """Models are right about an exposed record only with it, about a decoy without it one time in five, else always."""
    rng = np.random.default_rng(seed)
    member = subsets(records, models, records // 2, Seeded(seed))
    right = np.ones((records, models), dtype=bool)
    right[:exposed] = member[:exposed]
    part = slice(exposed, exposed + decoys)
    right[part] = member[part] | (rng.random((decoys, models)) < 0.2)
    margin = np.where(right, 6.0, -6.0) + 0.1 * rng.normal(size=right.shape)
    return Observations.from_margin(margin, member=member)


def named(seen, seed):
    return {item.record for item in attacks.exposed(seen, 10, seed) if item.memorisation.lower > 0}


def test_one_exposed_record_is_named_with_sixteen_models():
    assert attacks.models_needed(10) == 16
    assert all(0 in named(remembered(seed, 1), seed) for seed in range(4))


def test_the_judging_half_decides_between_candidates_that_tie():
    """Eight models tell ten exposed records from 8 decoys badly: the selecting half's first ten hold 7.5."""
    found = [named(remembered(seed, 10, 8), seed) for seed in range(6)]
    assert np.mean([len(rows & set(range(10))) for rows in found]) >= 8.4
    assert all(max(rows, default=0) < 18 for rows in found)


def overconfident(seed, records=400, models=16):
    """A network's margins: ten records are right only with training on them, all others are right either way.

    Training makes the model surer of the others too, from odds of about e^12 to e^20, which nobody would call memory.
    Wrong margins spread far more than right ones, so the middle of both medians lies among the wrong ones.
    """
    rng = np.random.default_rng(seed)
    member = subsets(records, models, records // 2, Seeded(seed))
    margin = np.where(member, 20.0, 12.0) + 4.0 * rng.normal(size=member.shape)
    wrong = -6.0 - 12.0 * rng.gamma(1.5, 0.5, size=(10, models))
    margin[:10] = np.where(member[:10], 2.0 + 0.5 * rng.normal(size=(10, models)), wrong)
    return Observations.from_margin(margin, member=member)


def test_sureness_beyond_right_is_not_taken_for_memory():
    """Ranked by unlimited margins, 5 to 7 of the ten records are named: see `SURE`."""
    found = [named(overconfident(seed), seed) & set(range(10)) for seed in range(6)]
    assert min(map(len, found)) >= 9


def test_records_that_no_model_remembers_are_seldom_named():
    """At 95 % one draw in 20 may name somebody; more than 5 of 20 do with a chance below 1 in 3,000."""
    empty = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        member = subsets(300, 16, 150, Seeded(seed))
        seen = Observations.from_margin(rng.standard_t(4, size=(300, 16)), member=member)
        empty += not named(seen, seed)
    assert empty >= 15


def test_exposed_needs_models():
    with pytest.raises(BadInput, match="four models"):
        attacks.exposed(fleet(models=3), 5, 0)


def grouped(advantage_of_b, n=400, seed=0):
    rng = np.random.default_rng(seed)
    member, group = np.arange(n) % 2 == 0, np.where(np.arange(n) % 4 < 2, "a", "b")
    score = rng.normal(size=n) + member * np.where(group == "b", advantage_of_b, 0.5)
    return Scores(score, member, attack="x", randomised=False, group=group)


def test_disparity_finds_the_group_that_is_easier_to_find():
    found = {row.group: row for row in attacks.disparity(grouped(3.0, n=1200), 0)}
    assert found["b"].advantage.lower > found["a"].advantage.upper
    assert found["b"].p_value < 0.01


def test_equal_groups_are_not_told_apart():
    assert all(row.p_value > 0.01 for row in attacks.disparity(grouped(0.5), 0))


def test_disparity_needs_groups():
    with pytest.raises(BadInput, match="group in every row"):
        attacks.disparity(Scores([1.0, 0.0], [1, 0], attack="x", randomised=False), 0)


def test_a_group_that_cannot_be_judged_is_named_without_a_number():
    both = grouped(3.0)
    group = np.where(np.arange(len(both)) == 7, "alone", both.group)
    found = {row.group: row for row in attacks.disparity(replace(both, group=group), 0)}
    assert list(found) == ["a", "alone", "b"]
    assert (found["alone"].advantage.value, found["alone"].advantage.note) == (None, "n too small")
    assert found["alone"].p_value == 1.0
    assert found["b"].advantage.value > 0.5


def test_holm_by_hand():
    assert _holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def unlike(odd, seed, records=400, models=11):
    """Margins of models of two sorts; the first model is the target.

    Most models keep what each record is like, so that only a comparison with other models finds members. The `odd` ones
    do not, so that the margin itself finds them and a comparison misleads.
    """
    rng = np.random.default_rng(seed)
    member = rng.random((records, models)) < 0.5
    margin = 6.0 * member + rng.normal(size=member.shape)
    plain = np.setdiff1d(np.arange(models), odd)
    margin[:, plain] += 5.0 * rng.normal(size=(records, 1))
    seen = Observations.from_margin(margin, member=member)
    return seen.select(models=[0]), seen.select(models=np.arange(1, models))


def at_one_percent(name, target, references):
    return attacks.ATTACKS[name](target, references).roc().at(0.01)


def test_every_reference_model_counts_when_combined_chooses():
    """Three odd models of ten must not decide, wherever they stand: judged on them alone, the loss would be chosen."""
    for odd in ([2, 6, 10], [1, 4, 7]):
        target, references = unlike(odd, 0)
        found = {name: at_one_percent(name, target, references) for name in ("combined", "lira", "student", "loss")}
        assert found["loss"] < 0.3
        assert found["combined"] >= 0.9 * max(found["lira"], found["student"])


def test_sets_that_were_cut_without_overlap_are_no_references_of_each_other():
    rng = np.random.default_rng(0)
    halves = np.argsort(rng.random((60, 4)), axis=0) < 30
    assert independent(halves, 1).tolist() == [0, 2, 3]
    pair = np.column_stack((halves[:, 0], ~halves[:, 0], halves[:, 1:]))
    assert independent(pair, 0).tolist() == [2, 3, 4]
    thirds = np.arange(60)[:, None] % 3 == np.arange(3)
    assert independent(thirds, 0).size == 0
    assert independent(np.column_stack((thirds, halves)), 0).tolist() == [3, 4, 5, 6]
    whole = np.column_stack((halves[:, 0], np.ones(60, bool), np.zeros(60, bool)))
    assert independent(whole, 0).tolist() == [1, 2]
    for folds in (thirds, ~thirds):  # the second is a cross-validation
        seen = Observations.from_margin(rng.normal(size=(60, 3)), member=folds)
        with pytest.raises(BadInput, match="independent of model 0"):
            attacks.leave_one_out(attacks.lira, seen)


def _few_of_many(seed):
    """Models that were trained on 40 of 800 records, none of them on the same: what combined finds, and the best."""
    rng = np.random.default_rng(seed)
    member = np.column_stack((rng.permutation(800) < 40, subsets(800, 16, 40, Seeded(seed))))
    margin = rng.normal(size=(800, 1)) + rng.normal(size=member.shape) + 2.0 * member
    seen = Observations.from_margin(margin, member=member)
    target, references = seen.select(models=[0]), seen.select(models=np.arange(1, 17))
    rates = {name: attacks.ATTACKS[name](target, references).roc().at(0.05) for name in ("combined", "lira", "student")}
    return rates["combined"], max(rates.values())


def test_small_training_sets_do_not_mislead_the_choice():
    found = np.array([_few_of_many(seed) for seed in range(4)]).mean(axis=0)
    assert found[0] > 0.9 * found[1]


def test_references_that_avoid_a_record_for_its_neighbour_are_a_mutant(monkeypatch):
    """How many of them saw a record gives away who was trained on it, and the attack that reads this is chosen."""
    module = importlib.import_module("tacit.attacks.combined")
    monkeypatch.setattr(module, "independent", lambda member, k: np.setdiff1d(np.arange(member.shape[1]), [k]))
    found = np.array([_few_of_many(seed) for seed in range(4)]).mean(axis=0)
    assert found[0] < 0.8 * found[1]


@pytest.mark.parametrize(("models", "names"), [(1, ("lira-offline", "loss")), (3, ("lira", "student", "rmia"))])
def test_with_few_references_fixed_attacks_are_summed(models, names):
    seen = fleet(models=models + 1)
    target, references = seen.select(models=[0]), seen.select(models=np.arange(1, models + 1))
    ranks = []
    for name in names:
        score = attacks.ATTACKS[name](target, references).score
        ranks.append(-np.log((score[:, None] <= score).mean(axis=1)))
    np.testing.assert_allclose(attacks.combined(target, references).score, np.sum(ranks, axis=0))
