"""Tables as they come out of spreadsheets and scripts: what is read, and what the owner is told."""

from __future__ import annotations

import datetime
import enum
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tacit.core import BadInput
from tacit.data import Column, Schema, columns_of, infer, read_table
from tacit.data.frames import table
from tacit.data.inference import hints, identifiers
from tacit.data.values import days, parsed


def written(text: str, folder: Path, encoding: str = "utf-8") -> Path:
    path = folder / "people.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_semicolons_bring_decimal_commas_and_a_mark_at_the_beginning(tmp_path):
    rows = "".join(f"{k};1.234,{k:02};-0,5;0.25;{k % 2}\n" for k in range(60))
    table = columns_of(written("number;cost;change;share;ill\n" + rows, tmp_path, "utf-8-sig"))
    assert table["cost"].as_numbers()[7] == 1234.07
    assert table["change"].as_numbers()[0] == -0.5
    assert table["share"].as_numbers()[0] == 0.25
    assert next(iter(table.columns)) == "number"


def numbers(schema, table, name):
    """A column as its schema's encoding reads it."""
    return table[name].written_with(schema[name].decimal).as_numbers()


def test_decimal_commas_elsewhere_make_dots_thousands(tmp_path):
    """Read as decimals, 149.000 francs would silently be 149."""
    rows = "".join(f"{k + 1}.{k:03};{k},5;{k + 1}.000.{k:03};{k % 2}\n" for k in range(60))
    table = columns_of(written("income;weight;debt;ill\n" + rows, tmp_path))
    schema = infer(table, label="ill", ranges={"income": (0, 100000)})
    assert [schema[name].decimal for name in ("income", "weight", "debt")] == [",", ",", ","]
    assert numbers(schema, table, "income")[7] == 8007
    assert numbers(schema, table, "weight")[7] == 7.5
    assert numbers(schema, table, "debt")[7] == 8000007
    assert schema["debt"].range == (1000000, 60000059)
    assert not schema["income"].public  # the range is known, how numbers are written was read off
    assert schema == Schema.from_table(tomllib.loads(schema.to_toml()), "s")
    scaled = schema.encode(table)[0][:, 0]
    np.testing.assert_allclose(scaled, 2 * numbers(schema, table, "income") / 100000 - 1, atol=1e-6)
    assert "'income': 12.500 is read as 12500" in " ".join(hints(table, schema))


def test_nobody_guesses_what_a_dot_means(tmp_path):
    rows = "".join(f"{k + 1}.{k:03};{k % 2}\n" for k in range(60))
    table = columns_of(written("income;ill\n" + rows, tmp_path))
    with pytest.raises(BadInput, match="'income' holds numbers such as"):
        infer(table, label="ill")
    assert infer(table, label="ill", decimal=",")["income"].range == (1000, 60059)
    assert infer(table, label="ill", decimal=".")["income"].range == (1.0, 60.059)
    assert infer(table, label="ill", decimal=",", ranges={"income": (0, 9e4)})["income"].public
    with pytest.raises(BadInput, match="tacit init writes a schema"):
        read_table(tmp_path / "people.csv", label="ill")


@pytest.mark.parametrize("value", ["0.125", "3.25", "1500"])
def test_one_value_may_tell_that_dots_are_decimals(tmp_path, value):
    rows = "".join(f"{value if k == 3 else f'{k + 1}.{k:03}'};{k % 2}\n" for k in range(60))
    table = columns_of(written("dose;ill\n" + rows, tmp_path))
    schema = infer(table, label="ill")
    assert schema["dose"].decimal == "."
    assert numbers(schema, table, "dose")[7] == 8.007


def test_a_decimal_comma_with_three_digits_is_no_thousand(tmp_path):
    """In a file with semicolons 8,007 is eight; a schema that says so must not read it again as a grouped number."""
    rows = "".join(f"{k + 1},{k:03};{k % 2}\n" for k in range(60))
    table = columns_of(written("dose;ill\n" + rows, tmp_path))
    schema = infer(table, label="ill")
    assert numbers(schema, table, "dose")[7] == 8.007
    assert numbers(schema, table.take(np.array([7])), "dose")[0] == 8.007


def test_commas_between_thousands_are_read_and_said(tmp_path):
    rows = "".join(f'"{k + 1},{k:03}",{k % 2}\n' for k in range(60))
    table = columns_of(written("income,ill\n" + rows, tmp_path))
    schema = infer(table, label="ill")
    assert schema["income"].range == (1000, 60059)
    assert "'income': 12,500 is read as 12500. If that is wrong, give --decimal ," in " ".join(hints(table, schema))


def test_what_one_record_holds_does_not_change_how_others_are_read(tmp_path):
    """The mark is frozen in the schema: a training never looks at other records to read one."""
    rows = "".join(f"{k + 1}.{k:03};{k},5;{k % 2}\n" for k in range(60))
    table = columns_of(written("income;weight;ill\n" + rows, tmp_path))
    schema = infer(table, label="ill")
    other = columns_of(written("income;weight;ill\n" + rows.replace("8.007;7,5", "0.125;7.25"), tmp_path))
    same = np.arange(60) != 7
    assert (schema.encode(table)[0][same] == schema.encode(other)[0][same]).all()


def test_numbers_with_signs_are_words_and_it_is_said():
    frame = pd.DataFrame({"share": [f"{k} %" for k in range(60)], "pay": [f"${k},000" for k in range(60)]})
    frame["ill"] = ["yes", "no"] * 30
    told = " ".join(hints(_table(frame), infer(frame, label="ill")))
    assert told.count("looks like numbers with a sign") == 2


def test_times_of_the_day_do_not_name_records():
    """Nearly every record has a moment of its own; it is a date all the same."""
    moments = pd.date_range("2024-01-01", periods=300, freq="7h").strftime("%Y-%m-%d %H:%M:%S")
    frame = pd.DataFrame({"seen": moments, "code": [f"c{k}" for k in range(300)], "ill": ["yes", "no"] * 150})
    schema = infer(frame, label="ill")
    assert schema["seen"].kind == "date"
    assert identifiers(_table(frame), schema) == ["code"]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"ranges": {"job": (0, 1)}}, "'job': 60 of 60 values are no numbers, and count as missing"),
        ({"ranges": {"age": (100, 120)}}, "'age': 60 of 60 values lie outside of its range, and are clipped"),
        ({"ranges": {"age": ("1990-01-01", "2000-01-01")}}, "'age': 60 of 60 values are no dates"),
        ({"words": {"job": ["Koch", "Arzt"]}}, "'job': 60 of 60 values are none of its words"),
    ],
)
def test_public_facts_that_fit_no_record_are_told(known, said):
    frame = pd.DataFrame({"age": range(20, 80), "job": ["cook", "nurse"] * 30, "ill": ["yes", "no"] * 30})
    assert said in " ".join(hints(_table(frame), infer(frame, label="ill", **known)))


def test_commas_do_not(tmp_path):
    table = columns_of(written('cost,ill\n"1.234,5",0\n"1,234",1\n', tmp_path))
    assert np.isnan(table["cost"].as_numbers()).all()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-12-31", "2024-12-31"),
        ("2024/12/31", "2024-12-31"),
        ("31.12.2024", "2024-12-31"),
        ("1.2.2024", "2024-02-01"),
        ("01.02.2024 12:00", "2024-02-01"),
        ("31.02.2024", None),
        ("12/31/2024", None),
        ("31-12-2024", None),
        ("1.5", None),
    ],
)
def test_ways_to_write_a_date(text, day):
    epoch = datetime.date(1970, 1, 1)
    found = days(text)
    assert np.isnan(found) if day is None else int(found) == (datetime.date.fromisoformat(day) - epoch).days


def test_numbers_are_not_guessed():
    assert np.isnan([parsed(text) for text in ("1,234", "1.234,5", "1_000", "one")]).all()


def test_a_column_without_a_name_is_called_by_its_place(tmp_path):
    rows = "".join(f"{k},{k % 7},{'yes' if k % 7 > 3 else 'no'}\n" for k in range(120))
    table = columns_of(written(",age,ill\n" + rows, tmp_path))
    assert list(table.columns) == ["column 1", "age", "ill"]


def test_numbered_columns_are_a_header_and_records_are_none(tmp_path):
    assert list(columns_of(written("0,1,2\n5,6,7\n", tmp_path)).columns) == ["0", "1", "2"]


def test_a_small_table_of_whole_numbers_holds_no_categories():
    frame = pd.DataFrame({"age": range(20, 32), "sex": ["f", "m"] * 6, "ill": ["yes", "no", "no"] * 4})
    schema = infer(frame, label="ill")
    assert (schema["age"].kind, schema["sex"].kind) == ("number", "category")
    assert schema["age"].range == (20, 31)
    assert "range = [20, 31]" in schema.to_toml()


def test_the_owner_is_told_what_is_cut_left_out_or_cannot_be_read():
    rows = 300
    frame = pd.DataFrame(
        {
            "ward": [f"w{k % 150}" for k in range(rows)],
            "seen": [f"{1 + k % 12}/{1 + k % 28}/2024" for k in range(rows)],
            "ill": [None if k < 5 else "yes" if k % 2 else "no" for k in range(rows)],
        }
    )
    told = " ".join(hints(_table(frame), infer(frame, label="ill")))
    assert "'ward' keeps its 100 most frequent words of 150" in told
    assert "'seen' looks like dates with slashes" in told
    assert "5 of 300 records have no label" in told


def test_a_public_list_of_words_is_not_commented_on():
    frame = pd.DataFrame({"ward": ["a", "b"] * 30, "ill": ["yes", "no"] * 30})
    assert hints(_table(frame), infer(frame, label="ill", words={"ward": ["a", "b"]})) == []


def test_a_schema_is_shown_in_one_line_and_as_a_table():
    frame = pd.DataFrame({"age": range(60), "job": [f"job {k % 30}" for k in range(60)], "ill": ["yes", "no"] * 30})
    schema = Schema.of(frame, label="ill", ranges={"age": (0, 120)})
    assert repr(schema) == f"Schema(3 columns, label 'ill', {schema.width} features, 2 read off the data)"
    assert "job 0, job 1, job 10, job 11, job 12, job 13 and 24 more" in schema._repr_html_()


def _table(frame):
    from tacit.data import table

    return table(frame)


ODD = [None, float("nan"), pd.NA, "x", "", 3.5, 0, datetime.date(2020, 1, 5), b"\xff", 1 + 2j, object()]


@pytest.mark.parametrize("odd", ODD, ids=[type(value).__name__ for value in ODD])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "column",
    [
        Column("f", "category", words=("true", "false")),
        Column("f", "category", words=("0", "1")),
        Column("f", range=(0, 2)),
    ],
    ids=["words", "digits", "number"],
)
def test_one_odd_value_among_truth_values_changes_nobody_else(column, first, odd):
    """pandas makes objects of them then: they were the words 1 and 0 before, and `true` and `false` afterwards."""
    truths, schema = [True, False, False, True], Schema((column,))
    plain = schema.encode(pd.DataFrame({"f": truths}))[0]
    odd_first = [odd, *truths] if first else [*truths, odd]
    found = schema.encode(pd.DataFrame({"f": pd.Series(odd_first, dtype=object)}))[0]
    assert np.array_equal(found[1:] if first else found[:-1], plain)
    assert len({tuple(row) for row in plain.tolist()}) == 2


@pytest.mark.parametrize("odd", ODD, ids=[type(value).__name__ for value in ODD])
def test_one_odd_object_among_numbers_changes_nobody_else(odd):
    schema = Schema((Column("age", range=(0, 100)),))
    plain = schema.encode(pd.DataFrame({"age": [20.0, 30.5, 40.0]}))[0]
    found = schema.encode(pd.DataFrame({"age": pd.Series([odd, 20.0, 30.5, 40.0], dtype=object)}))[0]
    assert np.array_equal(found[1:], plain)


@pytest.mark.parametrize("kind", ["bool", "boolean", "bool[pyarrow]", "object", "category"])
def test_truth_values_are_one_word_in_whatever_type_a_frame_has_them(kind):
    words, label = Column("f", "category", words=("no", "yes")), Column("y", "category", words=("false", "true"))
    frame = pd.DataFrame({"f": ["no", "yes", "no"], "y": pd.Series([True, False, True], dtype=kind)})
    assert Schema((words, label), label="y").encode(frame)[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("odd", [b"1", 1, 1.5, True, pd.Timedelta(1, "s"), datetime.datetime(2020, 1, 1)])
@pytest.mark.parametrize(
    "usual", [["x", "1"], [b"x", "1"], [pd.Timedelta(1, "s")], [datetime.date(2020, 1, 1)], [True, False]]
)
@pytest.mark.parametrize("kind", [pd.Categorical, lambda values: pd.Series(values, dtype=object)])
def test_one_persons_category_or_object_respells_nobody_elses(kind, usual, odd):
    """Arrow chooses one type for all: of "x" beside b"1" it makes b"x"."""
    plain, found = (table(pd.DataFrame({"c": kind(values)}))["c"] for values in (usual, [*usual, odd]))
    words = [[texts[code] for code in codes] for codes, texts in (plain.as_words(), found.as_words())]
    assert words[1][:-1] == words[0]


@pytest.mark.parametrize("least", ["int8", "int64", "Int8", "int16[pyarrow]"])
@pytest.mark.filterwarnings("error")
def test_the_least_whole_number_makes_no_warning_and_missing_ones_raise_nothing(least):
    bits = "".join(letter for letter in least if letter.isdigit())
    column = pd.Series([1, -(2 ** (int(bits) - 1))], dtype=least)
    assert table(pd.DataFrame({"n": column}))["n"].as_numbers().tolist() == column.astype(float).tolist()
    if least != "int8" and least != "int64":
        empty = pd.DataFrame({"n": pd.Series([None, None], dtype=least)})
        assert np.isnan(table(empty)["n"].as_numbers()).all()


def test_a_dictionary_of_dates_beyond_pythons_is_read():
    dates = pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32()).dictionary_encode()
    assert table(pa.table({"d": dates}))["d"].as_days()[0] == 1


def test_members_of_an_enum_of_texts_are_the_same_words_beside_an_odd_value():
    kind = enum.Enum("Kind", {"ILL": "ill", "WELL": "well"}, type=str)
    for odd in ([], [1]):
        values = table(pd.DataFrame({"c": pd.Series([kind.ILL, kind.WELL, "ill", *odd], dtype=object)}))["c"]
        codes, texts = values.as_words()
        assert [texts[code] for code in codes[:3]] == ["ill", "well", "ill"]
