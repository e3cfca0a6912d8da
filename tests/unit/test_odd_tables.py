"""Tables as they come out of spreadsheets and scripts: what is read, and what the owner is told."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tacit.data import Schema, columns_of, infer
from tacit.data.inference import hints
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
