"""Parquet files of scores and of records read like CSVs, and what is none is refused in one sentence."""

import sys

import numpy as np
import pytest

from tacit import BadInput, MissingExtra, Scores
from tacit.core import scores_file
from tacit.data import load

pytestmark = pytest.mark.needs("pyarrow")


def save(path, **columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_scores_are_those_of_the_csv(tmp_path):
    score, member = [0.25, -1.5, 3.0, 1e-300], [True, False, True, False]
    found = Scores.read(save(tmp_path / "s.parquet", score=score, member=member, record=["a", "b", "c", "d"]))
    plain = Scores(score, member, attack="scores", randomised=False, record=["a", "b", "c", "d"])
    same = Scores.read(plain.save(tmp_path / "s.csv"))
    for one in (found, same):
        np.testing.assert_array_equal(one.score, plain.score)
        np.testing.assert_array_equal(one.member, plain.member)
        assert one.record.tolist() == plain.record.tolist()


def test_several_attacks_in_one_file(tmp_path):
    path = save(tmp_path / "s.parquet", score=[1.0, 0.0, 2.0], member=[1, 0, 1], attack=["a", "a", "b"])
    assert [(item.attack, len(item)) for item in scores_file.read(path)] == [("a", 2), ("b", 1)]


def test_records_are_those_of_the_csv(tmp_path):
    path = save(tmp_path / "r.parquet", age=[1.5, 2.5, 3.0], town=["x", "y", "x"], kind=["no", "yes", "no"])
    (tmp_path / "r.csv").write_text("age,town,kind\n1.5,x,no\n2.5,y,yes\n3.0,x,no\n", encoding="utf-8")
    found, same = load(str(path), label="kind"), load(str(tmp_path / "r.csv"), label="kind")
    np.testing.assert_array_equal(found.x, same.x)
    np.testing.assert_array_equal(found.y, same.y)
    assert found.words == same.words


@pytest.mark.parametrize(
    "columns",
    [
        {"score": [1.0]},
        {"score": [1.0, None], "member": [1, 0]},
        {"score": [1.0], "member": [2]},
        {"score": [[1.0]], "member": [1]},
        {"score": [], "member": []},
    ],
)
def test_bad_scores(tmp_path, columns):
    with pytest.raises(BadInput, match=r"s\.parquet"):
        Scores.read(save(tmp_path / "s.parquet", **columns))


def test_what_is_no_parquet_file(tmp_path):
    (tmp_path / "s.parquet").write_text("score,member\n1,1\n", encoding="utf-8")
    for path in (tmp_path / "s.parquet", tmp_path / "absent.parquet"):
        with pytest.raises(BadInput, match="cannot be read"):
            Scores.read(path)


def test_without_pyarrow(tmp_path, monkeypatch):
    path = save(tmp_path / "s.parquet", score=[1.0], member=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="parquet"):
        Scores.read(path)


def test_columns_of_any_type_are_read_as_from_text(tmp_path):
    """Numbers, booleans, categories and texts by Arrow; dates and decimals value by value."""
    import datetime

    import pyarrow

    score, member = [0.5, 1.5, -2.0, 3.0], [1, 0, 1, 0]
    for flags in (member, [bool(flag) for flag in member], ["1", "0", "true", "False"], [1.0, 0.0, 1.0, 0.0]):
        found = Scores.read(save(tmp_path / "s.parquet", score=score, member=flags))
        assert found.member.tolist() == [True, False, True, False]
    for record in ([5, 6, 7, 8], ["5", "6", "7", "8"], pyarrow.array(["5", "6", "7", "8"]).dictionary_encode()):
        found = Scores.read(save(tmp_path / "s.parquet", score=score, member=member, record=record))
        assert found.record.tolist() == [5, 6, 7, 8]
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3, 4)]
    found = Scores.read(save(tmp_path / "s.parquet", score=score, member=member, group=days))
    assert found.group.tolist() == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]
    found = Scores.read(save(tmp_path / "s.parquet", score=score, member=member, record=[-1, 2, 3, 4]))
    assert found.record.tolist() == ["-1", "2", "3", "4"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_long_name_does_not_make_a_whole_column_long(tmp_path, ending):
    """An array of texts is as wide as its longest: 9,000 characters in 60,000 rows would be 2 GB."""
    rows = 60_000
    names = ["a" * 9_000] + ["b"] * (rows - 1)
    path = tmp_path / f"s.{ending}"
    if ending == "parquet":
        save(path, score=[0.0] * rows, member=[0] * rows, group=names)
    else:
        path.write_text("score,member,group\n" + "".join(f"0.0,0,{name}\n" for name in names), encoding="utf-8")
    with pytest.raises(BadInput, match="column group holds a text of 9,000 characters, too many for so many rows"):
        Scores.read(path)
