"""Laws that every registered attack obeys; a new one is tested for free."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special

from tacit import attacks
from tacit.attacks import ATTACKS, References
from tacit.core import BadInput, Observations

EVERY = pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))


def fleet(records=300, models=9, classes=4, gap=3.0, seed=0):
    """Models whose margin rises by `gap`, and whose gradients shrink, on records they were trained on."""
    rng = np.random.default_rng(seed)
    member = np.stack([rng.permutation(records) < records // 2 for _ in range(models)], axis=1)
    label = rng.integers(0, classes, records)
    logits = rng.normal(0, 0.3, (records, models, classes))
    hard = rng.normal(0, 1, records)[:, None]
    logits[np.arange(records), :, label] += hard + gap * member + rng.normal(0, 0.7, (records, models))
    return inside(Observations.from_logits(logits, label, member=member, record=np.arange(records) + 1000), rng)


def inside(seen, rng):
    """The same with features of the records and what a white-box observer would see."""
    label, p = seen.label, special.softmax(seen.logits, axis=2)
    error = p - np.eye(p.shape[2])[label][:, None]
    hidden = rng.normal(size=(seen.records, seen.models, 5))
    norm = np.linalg.norm(error, axis=2) * np.linalg.norm(hidden, axis=2)
    internals = {"layer/a": hidden, "error/b": error, "input/b": hidden}
    return replace(seen, features=rng.normal(size=(seen.records, 3)), gradient_norm=norm, internals=internals)


@cache
def usual(attack):
    """A leak, and what the attack says about it, for all laws that compare that with something else."""
    target, references = parts(attack, fleet())
    before = [array.copy() for array in (target.logits, references.logits, references.member)]
    return target, references, before, attack(target, references)


def parts(attack, seen, targets=1):
    """Other models on the same records, or the same models on other records: whatever the attack refers to."""
    if attack.references.of_target:
        return attacks.known_split(seen.select(models=np.arange(targets)), 0)
    models = np.arange(seen.models)
    return seen.select(models=models[:targets]), seen.select(models=models[targets:])


@EVERY
def test_finds_a_leak_and_gives_one_row_per_guess(attack):
    target, references = parts(attack, fleet(), targets=2)
    scores = attack(target, references)
    assert scores.attack == attack.name
    assert not scores.randomised
    assert len(scores) == 2 * target.records
    assert scores.auc(0.999).lower > 0.5
    assert set(scores.target.tolist()) == {0, 1}
    assert set(scores.record.tolist()) == set(target.record.tolist())
    assert scores.record.min() >= 1000


@EVERY
def test_never_reads_the_truth_it_is_judged_by(attack):
    target, references, _, scores = usual(attack)
    turned = replace(target, member=~target.member)
    np.testing.assert_array_equal(scores.score, attack(turned, references).score)


@EVERY
def test_is_a_pure_function(attack):
    target, references, before, first = usual(attack)
    second = attack(target, references)
    np.testing.assert_array_equal(first.score, second.score)
    for was, now in zip(before, (target.logits, references.logits, references.member), strict=True):
        np.testing.assert_array_equal(was, now)


@EVERY
def test_follows_the_records_when_they_are_reordered(attack):
    target, references, _, scores = usual(attack)
    order = np.random.default_rng(1).permutation(target.records)
    moved = attack(target.select(records=order), references.select(records=order))
    np.testing.assert_allclose(moved.score, scores.score[order], rtol=1e-9, atol=1e-9)


@EVERY
def test_controls_behave(attack):
    target, references = parts(attack, fleet(gap=0.0), targets=1)
    null, planted = attacks.null(attack, target, references, 0), attacks.planted_leak(attack, target, references)
    assert (null.name, null.passed) == ("null", True)
    assert (planted.name, planted.passed) == ("planted leak", True)


@EVERY
def test_says_what_is_missing(attack):
    target, references = parts(attack, fleet())
    signal = attack.needs[0]
    with pytest.raises(BadInput, match=f"needs `{signal}`"):
        attack(Observations(member=target.member), references)
    with pytest.raises(BadInput, match="needs `member`"):
        attack(replace(target, member=None), references)
    if attack.references in (References.OUT, References.BOTH):
        with pytest.raises(BadInput, match="needs reference models"):
            attack(target, None)
        with pytest.raises(BadInput, match="same 300 records"):
            attack(target, references.select(records=np.arange(10)))
        with pytest.raises(BadInput, match="same order"):
            attack(target, references.select(records=np.arange(300)[::-1]))
        with pytest.raises(BadInput, match="left out of"):
            attack(target, replace(references, member=np.ones_like(references.member)))
    if attack.references is References.BOTH:
        with pytest.raises(BadInput, match="used in"):
            attack(target, replace(references, member=np.zeros_like(references.member)))
    if attack.references.of_target:
        with pytest.raises(BadInput, match="known membership"):
            attack(target, None)
        with pytest.raises(BadInput, match="not among those it judges"):
            attack(target, target)
        with pytest.raises(BadInput, match="same 1 models, not of 2"):
            attack(target, references.select(models=[0, 0]))
        with pytest.raises(BadInput, match="known as non-members"):
            attack(target, replace(references, member=np.ones_like(references.member)))
    if attack.references is References.KNOWN:
        with pytest.raises(BadInput, match="known as members"):
            attack(target, replace(references, member=np.zeros_like(references.member)))


@EVERY
@pytest.mark.parametrize("models", [2, 3])
def test_scores_stay_finite_with_hardly_any_reference(attack, models):
    """Records that no reference saw, or that every reference saw, get a number too."""
    seen = fleet(models=models)
    if attack.references.of_target:
        judged, known = attacks.known_split(seen, 0, share=0.2)
        assert np.isfinite(attack(judged, known).score).all()
    else:
        assert np.isfinite(attacks.leave_one_out(attack, seen).score).all()


@EVERY
def test_scores_stay_finite_for_saturated_models(attack):
    seen = fleet()
    sure = Observations.from_logits(seen.logits * 1e4, seen.label, member=seen.member, record=seen.record)
    sure = inside(sure, np.random.default_rng(2))
    assert np.isfinite(attack(*parts(attack, sure)).score).all()


def test_fitting_offers_what_can_run():
    seen = fleet()
    target, references = seen.select(models=[0]), seen.select(models=np.arange(1, 9))
    others = {attack.name for attack in attacks.fitting(target, references)}
    known = {attack.name for attack in attacks.fitting(*attacks.known_split(target, 0))}
    assert others | known == set(ATTACKS)
    assert {ATTACKS[name].references for name in others & known} == {References.NONE}
    alone = attacks.fitting(target)
    assert {attack.references for attack in alone} == {References.NONE}
    assert [attack.name for attack in attacks.fitting(Observations(member=target.member, loss=target.loss))] == ["loss"]


def test_names_are_known_or_refused():
    assert attacks.named("lira") is attacks.lira
    with pytest.raises(BadInput, match=r"not known.*lira-offline"):
        attacks.named("lyra")


def test_exported_names_are_exact_and_sorted():
    assert attacks.__all__ == sorted(attacks.__all__)
    assert all(getattr(attacks, name) is not None for name in attacks.__all__)


@EVERY
def test_models_in_pairs_of_halves_tell_nothing_by_their_number(attack):
    """Outputs that know nothing, memberships in complementary pairs: an area off 0.5 would come from counting.

    Fixed seed; 4000 against 4000 guesses at confidence 1 - 1e-8, so all attacks together err at most 2e-7.
    """
    rng = np.random.default_rng(11)
    half = np.stack([rng.permutation(2000) < 1000 for _ in range(2)], axis=1)
    member = np.stack((half, ~half), axis=2).reshape(2000, 4)
    seen = Observations.from_logits(rng.normal(size=(2000, 4, 3)), rng.integers(0, 3, 2000), member=member)
    seen = inside(replace(seen, record=np.arange(2000)), rng)
    if attack.references.of_target:
        found = attack(*attacks.known_split(seen.select(models=[0]), 0)).auc(1 - 1e-8)
    else:
        found = attacks.leave_one_out(attack, seen).auc(1 - 1e-8)
    assert found.lower <= 0.5 <= found.upper
