"""Controls and names that match practice: confounded labels, copies across the split, leaks, exposed records."""

import numpy as np
import pytest

import tacit
from tacit import Observations, attacks
from tacit.attacks import near_duplicates
from tacit.core import difference_limit
from tacit.core.randomness import Seeded
from tacit.study import outputs
from tacit.study.risk import records, unnamed
from tacit.study.subsets import subsets

pytest.importorskip("sklearn")
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER] / 16, Y[ORDER]


def confounded(kind, seed, n=600):
    rng = np.random.default_rng(seed)
    x, member = rng.normal(size=(2 * n, 8)), np.arange(2 * n) < n
    rule = rng.normal(size=8)
    other = rule + 2.5 * rng.normal(size=8)
    chance = 1 / (1 + np.exp(-2 * x @ rule))
    if kind == "rule":
        chance = np.where(member, chance, 1 / (1 + np.exp(-2 * x @ other)))
    if kind == "shares":
        chance = np.where(member, chance, np.clip(chance + 0.3, 0, 1))
    y = (rng.random(2 * n) < chance).astype(int)
    if kind == "noise":
        y = np.where(~member & (rng.random(2 * n) < 0.25), 1 - y, y)
    return x, y, member


@pytest.mark.parametrize("kind", ["rule", "shares", "noise"])
def test_labels_that_differ_without_any_model_are_seen(kind):
    for seed in range(3):
        x, y, member = confounded(kind, seed)
        measurement, control = attacks.blind_baseline(x, member, seed, label=y)
        assert not control.passed
        assert "draw both at random" in control.found
        assert measurement.auc.value > 0.55
        assert attacks.blind_baseline(x, member, seed)[1].passed  # without labels nothing is to be seen


def test_honest_splits_pass():
    for seed in range(12):
        x, y, member = confounded("honest", seed)
        assert attacks.blind_baseline(x, member, seed, label=y)[1].passed
        assert attacks.blind_baseline(x, member, seed, label=x[:, 0] + 0.1 * y)[1].passed


def test_the_planted_leak_does_not_turn_round():
    """One zero in the target, none in its references: each side was given a leak of its own size."""
    sides = (X[:300], Y[:300]), (X[300:600], Y[300:600])
    model = RandomForestClassifier(20, min_samples_leaf=5, random_state=16).fit(*sides[0])
    found = tacit.attack(model, *sides, references=4, rng=16)
    assert all(control.passed for control in found.controls)


def test_a_leak_of_each_ones_own_size_is_a_mutant():
    rng = np.random.default_rng(0)
    member = rng.random((200, 9)) < 0.5
    logits = rng.normal(size=(200, 9, 2))
    logits[0, 0] = (-700.0, 0.0)
    seen = Observations.from_logits(logits, np.zeros(200, int), member=member)
    target, others = seen.select(models=[0]), seen.select(models=np.arange(1, 9))
    apart = attacks.lira(attacks.leaking(target), attacks.leaking(others)).auc().value
    assert attacks.planted_leak(attacks.lira, target, others).passed
    assert apart < 0.9 or attacks.leaking(target).margin.max() > 5 * attacks.leaking(others).margin.max()


def test_copies_across_the_split_are_left_out():
    rng = np.random.default_rng(0)
    members = X[:300], Y[:300]
    copies = X[:80] + 1e-3 * rng.normal(size=(80, 64)), Y[:80]
    outsiders = np.concatenate((X[300:600], copies[0])), np.concatenate((Y[300:600], copies[1]))
    found = near_duplicates(
        np.concatenate((members[0], outsiders[0])), np.arange(680) < 300, np.r_[members[1], outsiders[1]]
    )
    assert found.of_members[600:].all()
    assert found.of_members.sum() == 80
    assert found.of_outsiders[:80].all()
    assert found.of_outsiders.sum() == 80
    model = RandomForestClassifier(20, random_state=0).fit(*members)
    evidence = tacit.attack(model, members, outsiders, references=0, rng=1)
    assert evidence.measurements[0].nonmembers == 300
    assert evidence.measurements[0].members == 220
    assert "80 of 380" in next(test.found for test in evidence.controls if test.name == "near-duplicates")
    most = X[:300] + 1e-3 * rng.normal(size=(300, 64)), Y[:300]
    evidence = tacit.attack(model, members, most, references=0, rng=1)
    assert evidence.verdict == "uninformative"
    assert "near-duplicates" in evidence.sentence


def test_a_copy_with_another_label_is_no_copy():
    features, member = np.concatenate((X[:50], X[:50])), np.arange(100) < 50
    assert near_duplicates(features, member, np.r_[Y[:50], Y[:50]]).of_members[50:].all()
    apart = near_duplicates(features, member, np.r_[Y[:50], Y[:50] + 1])
    assert not apart.of_members.any()
    assert not apart.of_outsiders.any()


def test_planted_memories_are_named_and_others_are_not():
    """Ten records with wrong labels among 400 in clear groups: a forest knows them by heart or not at all."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 800)
    x = 4 * np.eye(4)[y] + rng.normal(size=(800, 4))
    planted = rng.choice(800, 10, replace=False)
    y[planted] = (y[planted] + 1) % 4
    model = RandomForestClassifier(50, random_state=0)
    sides = (x[:400], y[:400]), (x[400:], y[400:])
    found = tacit.attack(model.fit(*sides[0]), *sides, references=16, attacks=["lira"], rng=4)
    named = [item.record for item in found.exposures]
    assert len(set(named) & set(planted)) >= 9
    assert len(set(named) - set(planted)) <= 1
    assert all(item.memorisation.lower > 0 for item in found.exposures)


def test_nobody_is_named_where_nothing_is_memorised_or_models_are_few():
    rng = np.random.default_rng(0)
    named = 0
    for seed in range(20):
        seen = Observations.from_logits(
            rng.normal(size=(200, 16, 2)), np.zeros(200, int), member=subsets(200, 16, 100, Seeded(seed))
        )
        named += len(records(seen, Seeded(seed))["exposures"]) > 0
    assert named <= 4  # each with a chance of at most 0.05: P[> 4] < 0.003
    few = seen.select(models=np.arange(8))
    assert "exposures" not in records(few, Seeded(0))
    assert "16 reference models" in unnamed(8)[0]
    assert unnamed(16) == ()


def test_difference_limit_by_hand():
    """All against none: ((1 + d) / 2)^(2n) reaches the error at the limit."""
    for n in (4, 7, 12):
        exact = 2 * (0.99 * 0.005) ** (1 / (2 * n)) - 1
        assert difference_limit((n, n), (0, n), 0.995) == pytest.approx(exact, abs=1e-3)
    assert difference_limit((3, 6), (3, 6), 0.95) < 0 < difference_limit((60, 60), (20, 60), 0.95)
    assert difference_limit((0, 5), (5, 5), 0.95) == pytest.approx(-1.0)


@pytest.mark.parametrize("share", [60, 500, 800, 940])
def test_references_are_as_large_as_the_target(share):
    member = subsets(1000, 24, share, Seeded(0))
    assert (member.sum(axis=0) == share).all()
    assert np.ptp(member.sum(axis=1)) <= 4
    if share == 500:
        assert (member[:, ::2] != member[:, 1::2]).all()


def test_with_two_references_pooled_forms_are_used():
    """No record has two references on one side: its spread is read from the difference of both sides."""
    rng = np.random.default_rng(0)
    ease = rng.normal(0, 5, (500, 1))
    member = np.stack([side := rng.random(500) < 0.5, side, ~side], axis=1)
    member[:, 0] = rng.random(500) < 0.5
    seen = Observations.from_margin(ease + 0.5 * rng.normal(size=(500, 3)) + 2.0 * member, member=member)
    target, others = seen.select(models=[0]), seen.select(models=[1, 2])
    assert attacks.lira(target, others).auc().value > 0.9
    assert attacks.student(target, others).auc().value > 0.9


def test_many_classes_keep_only_what_is_said_of_the_label(monkeypatch):
    rng = np.random.default_rng(0)
    label, shares = rng.integers(0, 5, 300), rng.dirichlet(np.full(5, 0.2), (4, 300)).round(3)
    for answers in (shares, np.log(shares + 1e-3)):
        reading = outputs.Reading.of(answers[0], label, said="probabilities" if answers is shares else "logits")
        member = rng.random((300, 3)) < 0.5
        whole = reading.observe(list(answers[1:]), member, reading.coarsest(list(answers[1:])))
        monkeypatch.setattr(outputs, "KEPT", 10)
        parts = [reading.keeping(3)(answer) for answer in answers[1:]]
        lean = reading.observe(parts, member, reading.coarsest(parts))
        np.testing.assert_allclose(lean.margin, whole.margin)
        assert lean.logits is None
        monkeypatch.undo()
