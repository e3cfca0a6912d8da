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
