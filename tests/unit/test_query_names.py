"""Names of columns and tables that engines confuse: the right column is read, or the table is refused."""

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

from tacit import mechanism
from tacit.core import BadInput
from tacit.query import Table
from tacit.query.engines import worded

LARGE = 1e6
"""An epsilon at which noise is far below 1/2."""


def people(table, column, keys):
    return table.group_by(column, keys=keys).users().release(epsilon=LARGE, rng=1).value.round().tolist()


TWO = {"id": [1, 2], "city": ["a", "b"], "City": ["c", "c"]}


def test_columns_that_differ_by_the_case_of_letters_are_refused(tmp_path):
    """DuckDB takes them for one: it answered for `city` where `City` was asked, and would take `ID` for `id`."""
    pd.DataFrame(TWO).to_csv(tmp_path / "two.csv", index=False)
    for source in (pd.DataFrame(TWO), pyarrow.table(TWO), tmp_path / "two.csv"):
        with pytest.raises(BadInput, match="'City', but for the case"):
            Table(source, unit="id")
    public = pd.DataFrame({"city": ["a"], "ID": [7]})
    table = Table(pd.DataFrame({"id": [1, 2], "city": ["a", "b"]}), unit="id")
    with pytest.raises(BadInput, match="'ID', but for the case"):
        table.join(public, "city")
    assert people(table, "city", ["a", "b", "c"]) == [1, 1, 0]


def test_two_columns_of_one_name_are_one_sentence():
    twice = pyarrow.table([pyarrow.array([1, 2])] * 2, names=["id", "id"])
    with pytest.raises(BadInput, match="two columns of one name"):
        Table(twice, unit="id")


@pytest.mark.parametrize("name", ["a.b", 'a"b', "select", "k0", "u", "n", "people", "u\u0308", "x;--", "*", "%s"])
def test_names_of_columns_are_only_names(name):
    table = Table(pd.DataFrame({"id": [1, 1, 2, 3], name: ["x", "x", "y", "x"], "v": [1, 2, 3, 4]}), unit="id")
    assert people(table, name, ["x", "y"]) == [2, 1]
    own = Table(pd.DataFrame({name: [1, 1, 2], "v": [1, 2, 3]}), unit=name)
    assert round(float(own.where(f"`{name}` >= 2").users().release(epsilon=LARGE, rng=1).value)) == 1


def test_tables_of_other_schemas_and_views_are_named_in_the_address(tmp_path):
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as made:
        made.execute("create table visits as select 1 as id, 'x' as g; create schema old; ")
        made.execute("create table old.visits as select * from (values (1, 'x'), (2, 'x')) v(id, g)")
        made.execute("create view twice as with all_of as (select * from old.visits) select * from all_of")
        made.execute("create table \"old.visits\" as select * from (values (1, 'x'), (2, 'x'), (3, 'x')) v(id, g)")
    for name, count in (("visits", 1), ("old.visits", 3), ("main.visits", 1), ("twice", 2)):
        assert people(Table(f"{tmp_path}/shop.duckdb#{name}", unit="id"), "g", ["x"]) == [count]
    with pytest.raises(BadInput, match="no table"):
        Table(f"{tmp_path}/shop.duckdb#nowhere.visits", unit="id")


def test_a_text_that_no_engine_takes_is_refused_by_a_sentence():
    """It was refused by the name of the engine's error."""
    table = Table(pd.DataFrame({"id": [1, 2], "g": ["a", "b"]}), unit="id")
    for sign in ("\0", "\ud800"):
        with pytest.raises(BadInput, match="A key of column 'g' holds a NUL"):
            table.group_by("g", keys=["a", f"b{sign}"]).count()
        with pytest.raises(BadInput, match="The condition on column 'g' holds a NUL"):
            table.where(f'g = "b{sign}"').count()


def test_a_type_that_only_the_database_knows_is_said_in_words():
    """An error printed what the parser of SQL calls it."""
    postgres = pytest.importorskip("ibis.backends.sql.datatypes").PostgresType
    for kind in ("mood", "mood[]", "int4range"):
        assert worded(postgres.from_string(kind)) == "values of a type that is not known here (cast them in a view)"
    assert worded(postgres.from_string("float8[]")) == "array<float64>"


def test_a_missing_key_is_none():
    table = Table(pd.DataFrame({"id": [1, 2], "g": ["", "nan"]}), unit="id")
    assert people(table, "g", ["", "nan"]) == [1, 1]
    for missing in (None, float("nan"), np.nan):
        with pytest.raises(BadInput, match="not of its type"):
            table.group_by("g", keys=["", missing]).users()


def test_names_that_are_numbers_or_of_several_levels_are_texts():
    """What `read_csv(header=None)` makes."""
    assert Table(pd.DataFrame([[1, 2.0], [1, 3.0]]), unit="0").users().release(epsilon=1e4, rng=1).value == 1
    levels = pd.DataFrame({("a", "who"): [1, 2], ("a", "x"): [1.0, 2.0]})
    assert Table(levels, unit="('a', 'who')").source.columns == ("('a', 'who')", "('a', 'x')")


def test_frames_that_cannot_be_read_are_one_sentence():
    with pytest.raises(BadInput, match="collect"):
        Table(polars.LazyFrame({"who": [1]}), unit="who")
    with pytest.raises(BadInput, match="complex128"):
        Table(pd.DataFrame({"who": [1], "x": [1j]}), unit="who")


def test_places_of_ledgers_and_schemas_are_opened_first(tmp_path):
    """`--ledger budget.db` of the command is `ledger=tacit.Ledger("budget.db")` here."""
    frame = pd.DataFrame({"who": [1]})
    for ask in (
        lambda: Table(frame, unit="who", ledger="budget.db").count().preview(epsilon=1),
        lambda: Table(frame, unit="who", ledger=tmp_path / "budget.db").count().release(epsilon=1),
        lambda: mechanism.laplace(3, sensitivity=1, epsilon=1, ledger="budget.db"),
    ):
        with pytest.raises(BadInput, match=r"tacit\.Ledger"):
            ask()
    with pytest.raises(BadInput, match=r"Schema\.read"):
        Table(frame, schema="people.toml")


def test_a_place_that_is_no_file_is_named_for_what_it_is(tmp_path):
    """A folder was said not to be there, and a file of text whose name holds .duckdb to be a database."""
    for name in ("shop.duckdb.csv", "old.duckdb/visits.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("who,x\n1,2\n")
        assert Table(tmp_path / name, unit="who").source.columns == ("who", "x")
    for place, said in (
        (tmp_path, "is a folder"),
        (tmp_path / "*.parquet", "wildcards"),
        (tmp_path / "absent.csv", "no such file"),
        (f"{tmp_path}/absent.duckdb#visits.csv", "no such file"),
        (f"{tmp_path}/shop.duckdb", "name its table"),
        ("https://host/visits.csv", "kind 'https'"),
        ("postgresql://host/name", "name its table"),
    ):
        with pytest.raises(BadInput, match=said):
            Table(place, unit="who")
