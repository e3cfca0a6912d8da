"""A schema says how a table becomes numbers: widths from it alone, and no value of a record raises."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import BadInput
from tacit.data import Column, Schema, columns_of, infer, load
from tacit.data.encoding import names
from tacit.data.values import Values, canonical, days

SCHEMA = Schema(
    (
        Column("age", range=(0, 100)),
        Column("job", "category", words=("clerk", "nurse")),
        Column("since", "date", range=("2000-01-01", "2020-01-01")),
        Column("note", "text"),
        Column("ill", "category", words=("no", "yes")),
    ),
    label="ill",
    unit="who",
    groups=("job",),
)
FRAME = {
    "who": [7, 7, 9, None],
    "age": [50, 200, None, -3],
    "job": ["nurse", "pilot", None, "clerk"],
    "since": ["2010-01-01", "1990-01-01", "soon", None],
    "note": ["a b", "", "a a", None],
    "ill": ["yes", "no", "perhaps", None],
    "unread": [1, 2, 3, 4],
}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_any_library_becomes_the_same_numbers(kind):
    x, y = SCHEMA.encode(KINDS[kind](FRAME))
    assert x.shape == (4, SCHEMA.width) == (4, 3 + 3 + 4 + 256)
    assert y.tolist() == [1, 0, -1, -1]
    assert x[:, 0].tolist() == [0.0, 1.0, 0.0, -1.0]  # clipped to the range; missing in its middle
    assert x[:, 2].tolist() == [0, 0, 1, 0]
    assert x[:, 3:6].tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]
    assert x[:, 9].tolist() == [0, 0, 1, 1]
    assert np.linalg.norm(x[:, 10:], axis=1).max() <= 1 + 1e-6
    assert len(names(SCHEMA)) == SCHEMA.width


def test_small_amounts_in_a_wide_range_are_told_apart():
    schema = Schema((Column("gain", range=(0, 100_000)),))
    x, y = schema.encode(pd.DataFrame({"gain": [0, 500, 100_000, math.inf]}))
    assert x[1, 0] < -0.98
    assert x[1, 1] > 0.25
    assert x[2].tolist() == x[3].tolist() == [1.0, 1.0, 0.0]
    assert y.size == 0


value = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates())


@settings(max_examples=60, deadline=None)
@given(st.lists(value, min_size=1, max_size=6))
def test_no_value_raises_and_every_number_is_finite(cells):
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name in ("age", "job", "since", "note", "ill")})
    x, y = SCHEMA.encode(frame)
    assert x.shape == (len(cells), SCHEMA.width)
    assert np.isfinite(x).all()
    assert np.abs(x).max() <= 1 + 1e-6
    assert set(y.tolist()) <= {-1, 0, 1}


@settings(max_examples=60, deadline=None)
@given(st.lists(value, min_size=2, max_size=6))
def test_a_record_becomes_the_same_numbers_whoever_else_is_there(cells):
    """Without that, one record would change others, and a clipped contribution bounds nothing."""

    def encode(rows):
        columns = {name: pd.Series(rows, dtype=object) for name in ("age", "job", "since", "note", "ill")}
        return SCHEMA.encode(pd.DataFrame(columns))

    together, alone = encode(cells), encode(cells[:1])
    assert np.array_equal(together[0][:1], alone[0])
    assert together[1][0] == alone[1][0]


def test_a_schema_survives_its_file(tmp_path):
    odd = Schema((Column('a "b"\n\\c', "category", words=("x", "ü", "1")), Column("n", range=(-1.5, 2), public=False)))
    for schema in (SCHEMA, odd):
        assert Schema.read(schema.save(tmp_path / "s.toml")) == schema
    assert odd.derived == ("n",)


def test_what_is_read_off_the_data_is_marked():
    frame = pd.DataFrame({
        "id": range(300), "age": np.linspace(20, 70, 300), "code": np.arange(300) % 3,
        "when": pd.date_range("2020-01-01", periods=300).astype(str), "same": 1, "y": ["a", "b", "?"] * 100,
    })  # fmt: skip
    schema = infer(frame, label="y", ranges={"age": (0, 120)}, drop=["id"])
    found = {column.name: (column.kind, column.public) for column in schema.columns}
    assert found == {
        "age": ("number", True), "code": ("category", False), "when": ("date", False), "y": ("category", False),
    }  # fmt: skip
    assert schema.classes == ("a", "b")
    assert schema.derived == ("code", "when", "y")
    assert schema.encode(frame)[1].tolist() == [0, 1, -1] * 100


def test_a_sample_of_a_table_has_the_width_of_the_schema():
    frame = pd.DataFrame({"c": list("abcdef"), "y": [0, 1] * 3})
    schema = infer(frame, label="y")
    assert schema.encode(frame[:2])[0].shape[1] == schema.encode(frame)[0].shape[1] == schema.width


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Column("a"), "'a' is a number without a range"),
        (lambda: Column("a", "number", range=(1, 1)), "'a': range must be two numbers"),
        (lambda: Column("a", "number", range=(0, math.nan)), "'a': range must be two numbers"),
        (lambda: Column("a", "category"), "'a' is a category without words"),
        (lambda: Column("a", "category", words=("1", "1.0")), "'a': words must be different"),
        (lambda: Column("a", "categorical", words=("x",)), "Did you mean 'category'"),
        (lambda: Column("a", "date", range=("now", "then")), "two dates"),
        (lambda: Schema((Column("a", "text"), Column("a", "text"))), "'a' twice"),
        (lambda: Schema((Column("a", "text"),), label="b"), "'b' is not among"),
        (lambda: Schema((Column("a", "text"),), label="a"), "must be a category"),
        (lambda: Schema((Column("a", "category", words=("x", "y")),), label="a"), "at least one column besides"),
        (lambda: SCHEMA.encode(pd.DataFrame({"age": [1]})), "no column 'job'"),
        (lambda: infer(pd.DataFrame({"a": [1, 2], "y": [0, 1]}), label="z"), "no column 'z'"),
        (lambda: infer(pd.DataFrame({"a": [1, 2], "y": [1, 1]}), label="y"), "one value only"),
    ],
)
def test_a_wrong_schema_is_refused_by_the_columns_name(made, said):
    with pytest.raises(BadInput, match=said):
        made()


def test_a_file_by_its_schema_leaves_out_who_has_no_label_or_unit(tmp_path):
    pd.DataFrame(FRAME).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "s.toml")
    found = load(str(tmp_path / "t.csv"), schema=str(tmp_path / "s.toml"))
    assert found.y.tolist() == [1, 0]
    assert found.rows.tolist() == [0, 1]
    assert len(set(found.unit.tolist())) == 1
    assert found.groups.tolist() == ["nurse", "pilot"]
    assert found.x.shape[1] == SCHEMA.width  # a group that the schema describes stays a feature
    with pytest.raises(BadInput, match="schema says label"):
        load(str(tmp_path / "t.csv"), schema=str(tmp_path / "s.toml"), label="ill")


def test_arrow_and_python_read_the_same_columns(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text('\ufeffa;b\n1;"x;\ny"\n\n02;\n', encoding="utf-8")
    by_arrow = columns_of(tmp_path / "t.csv")
    monkeypatch.setattr("tacit.data.csv_file._by_arrow", lambda *given: None)
    by_rows = columns_of(tmp_path / "t.csv")
    for name in ("a", "b"):
        (one, words), (two, other) = by_arrow[name].as_words(), by_rows[name].as_words()
        assert (one.tolist(), words) == (two.tolist(), other)


def test_words_have_one_spelling():
    assert [canonical(text) for text in (" 1.0", "01", "TRUE", "1e2", "x y ", "1_0", "²")] == [
        "1", "1", "true", "100", "x y", "1_0", "²",
    ]  # fmt: skip
    assert canonical("9007199254740993") == "9007199254740993"
    assert days("1970-01-02T12:00:00") == 1.5
    assert days("1970-01-01T01:00:00+01:00") == 0
    assert math.isnan(days("0001-01-01T00:00:00+23:59"))
    assert Values.of_texts(["1_000", "nan", "7", None]).as_numbers()[2] == 7


def test_large_identifiers_stay_apart():
    frame = pl.DataFrame({"who": [2**60, 2**60 + 1], "a": [0.0, 1.0], "y": [0, 1]})
    from tacit.data import table

    assert len(set(table(frame)["who"].as_words()[0].tolist())) == 2


@pytest.mark.slow
def test_a_large_file_is_read_within_two_seconds(tmp_path):
    import time

    rng = np.random.default_rng(0)
    columns = {f"n{k}": rng.normal(size=320_000).round(4) for k in range(9)}
    columns |= {f"c{k}": rng.choice(["red", "green", "blue"], 320_000) for k in range(9)}
    pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
    started = time.process_time()
    assert columns_of(tmp_path / "t.csv").rows == 320_000
    assert time.process_time() - started < 6  # processor time of all threads; two seconds of the clock
