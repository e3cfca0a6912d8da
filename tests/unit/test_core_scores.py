"""Scores: what they refuse, how they split, what they remember."""

import numpy as np
import pytest

from tacit.core import BadInput, Scores


def scores(n=20, **more):
    return Scores(np.arange(float(n)), np.arange(n) % 2, attack="a", randomised=True, **more)


def test_members_and_nonmembers_part_the_rows():
    made = Scores([3.0, 1.0, 2.0], [1, 0, 1], attack="a", randomised=False)
    assert made.members.tolist() == [3.0, 2.0]
    assert made.nonmembers.tolist() == [1.0]
    assert len(made) == 3


@pytest.mark.parametrize(
    ("score", "member"),
    [([1.0, np.nan], [0, 1]), ([1.0], [2]), ([1.0, 2.0], [1]), ([1.0], ["yes"]), ([[1.0]], [[1]]), (["x"], [1])],
)
def test_bad_columns_are_refused(score, member):
    with pytest.raises(BadInput):
        Scores(score, member, attack="a", randomised=True)


def test_split_halves_both_sides_and_shares_nothing():
    made = scores(40, record=np.arange(40) + 100)
    first, second = made.split(3)
    for part in (first.scores, second.scores):
        assert part.members.size == part.nonmembers.size == 10
    assert not first.scores.fingerprints() & second.scores.fingerprints()
    assert sorted([*first.scores.record, *second.scores.record]) == list(range(100, 140))


def test_split_uses_every_row_the_last_one_too():
    """A peer draws from len(x) - 1 rows and never uses the last (defect D12)."""
    last = [scores(10).split(seed)[0].scores.record.max() == 9 for seed in range(40)]
    assert 5 < sum(last) < 35  # P < 1e-6 for fair halves


def test_a_row_is_known_by_record_and_target():
    one = scores(4, record=[1, 1, 2, 2], target=[0, 1, 0, 1])
    assert len(one.fingerprints()) == 4
    assert one.fingerprints() & scores(4, record=[2, 3, 4, 5], target=[1, 1, 1, 1]).fingerprints()
    assert not one.fingerprints() & scores(4, record=[2, 3, 4, 5], target=[7, 7, 7, 7]).fingerprints()


def test_file_round_trip(tmp_path):
    made = Scores([0.1, 1 / 3], [1, 0], attack="lira", randomised=True, record=[4, 5], target=[0, 1], group=["a", "b"])
    back = Scores.read(made.save(tmp_path / "scores.csv"))
    assert back.score.tolist() == made.score.tolist()
    assert back.member.tolist() == [True, False]
    assert (back.attack, back.randomised, back.group.tolist()) == ("lira", True, ["a", "b"])
    assert back.fingerprints() == made.fingerprints()
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


def test_a_file_without_the_columns_is_refused(tmp_path):
    (tmp_path / "s.csv").write_text("value,member\n1,0\n")
    with pytest.raises(BadInput, match="score and member"):
        Scores.read(tmp_path / "s.csv")


@pytest.mark.parametrize("kind", range(4))
def test_files_written_with_and_without_arrow_hold_the_same(tmp_path, monkeypatch, kind):
    from tacit.core import scores_arrow

    rng, n = np.random.default_rng(kind), 500
    record = [None, np.arange(n), np.array([f'r{k},"=x' for k in range(n)]), rng.normal(size=n)][kind]
    texts = np.array(["a,b", "=cmd", "-1", "it's", '"q"', "x\ny"])[np.arange(n) % 6]
    group = [None, texts, texts[:1].repeat(n), np.arange(n) % 2 == 0][kind]
    score = rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, size=n)
    score[:6] = np.inf, -np.inf, 0.0, -0.0, 1e-5, 5e-324
    made = Scores(
        score, np.arange(n) % 2, attack="a,b", randomised=kind % 2 == 1, record=record, target=record, group=group
    )
    fast = Scores.read(made.save(tmp_path / "fast.csv"))

    def absent(columns):
        raise scores_arrow.Unread

    monkeypatch.setattr(scores_arrow, "lines", absent)
    slow = Scores.read(made.save(tmp_path / "slow.csv"))
    for found in (fast, slow):
        assert np.array_equal(found.score, score)
        assert (found.attack, found.randomised) == ("a,b", made.randomised)
        assert np.array_equal(found.member, made.member)
    assert np.array_equal(fast.record, slow.record)
    assert np.array_equal(fast.target, slow.target)
    assert (fast.group is None) == (slow.group is None) == (group is None)
    assert group is None or np.array_equal(fast.group, slow.group)


def test_rates_and_areas_are_those_of_counting_every_pair():
    """Ties, infinite scores, records scored against several targets; worked from the definitions."""
    rng = np.random.default_rng(0)
    score = np.round(rng.normal(size=400), 1)
    score[:3] = np.inf, -np.inf, np.inf
    member = rng.random(400) < 0.4
    made = Scores(score, member, attack="a", randomised=False, record=np.arange(400) % 90, target=np.arange(400) // 90)
    inside, outside = score[member], score[~member]
    pairs = (inside[:, None] > outside).mean() + (inside[:, None] == outside).mean() / 2
    assert made.auc().value == pytest.approx(pairs, abs=1e-12)
    roc = made.roc()
    assert (roc.fpr[0], roc.tpr[0]) == (0.0, 0.0)
    for threshold, fpr, tpr in zip(roc.threshold[1:], roc.fpr[1:], roc.tpr[1:], strict=True):
        assert fpr == pytest.approx((outside >= threshold).mean(), abs=1e-12)
        assert tpr == pytest.approx((inside >= threshold).mean(), abs=1e-12)


def test_the_ranks_of_a_rate_are_those_of_looking_at_all_of_them():
    from scipy import special

    from tacit.core.roc import _ranks

    for count, fewer, fpr, each in ((300, 1.0, 0.01, 0.9875), (1000, 3.7, 0.05, 0.9875), (40, 1.0, 0.5, 0.6)):
        rank = np.arange(1, count + 1) / fewer
        chance = special.betainc(rank, np.maximum(count / fewer - rank, 0.0) + 1, fpr)
        assert _ranks(count, fewer, fpr, lambda value, least=each: value >= least) == np.count_nonzero(chance >= each)
        assert _ranks(count, fewer, fpr, lambda value, most=1 - each: value > most) == np.count_nonzero(
            chance > 1 - each
        )
