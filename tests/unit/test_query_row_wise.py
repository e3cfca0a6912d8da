"""An ibis table is a source only where each of its rows comes from one stored row, by expressions that cannot fail."""

import ibis
import pandas
import pyarrow
import pytest
from ibis import _

import tacit
from tacit.query import Table


@pytest.fixture(scope="module")
def visits():
    engine = ibis.duckdb.connect()
    frame = pyarrow.table({"who": [1, 2, 3], "age": [30, 40, 50], "spent": [1.0, 2.0, 4.0], "city": ["a", "b", "b"]})
    return engine.create_table("visits", frame)


def lowercase():
    """A function of the user's with the name of an operation that is on the list."""

    @ibis.udf.scalar.builtin(name="random", signature=((), "float64"))
    def Lowercase(): ...

    return Lowercase


SPREADING = {
    "limit": lambda t: t.order_by("spent").limit(1),
    "head": lambda t: t.head(2),
    "sort": lambda t: t.order_by("spent"),
    "sample": lambda t: t.sample(0.5),
    "rank": lambda t: t.mutate(place=ibis.row_number().over(order_by=_.spent)),
    "share": lambda t: t.mutate(share=_.spent / _.spent.sum()),
    "mean": lambda t: t.filter(_.spent > _.spent.mean()),
    "aggregate": lambda t: t.group_by("who").aggregate(spent=_.spent.sum()),
    "distinct": lambda t: t.distinct(),
    "self-join": lambda t: t.join(t.view(), "city"),
    "semi-join": lambda t: t.semi_join(t.view(), "city"),
    "subquery": lambda t: t.filter(_.city.isin(t.filter(_.spent > 1).city)),
    "exists": lambda t: t.filter((t.city == t.view().city).any()),
    "union": lambda t: t.union(t),
    "difference": lambda t: t.difference(t.filter(_.spent > 1)),
    "unnest": lambda t: t.mutate(x=ibis.array([1, 2]).unnest()),
    "random": lambda t: t.mutate(x=ibis.random()),
    "sql": lambda t: t.alias("q").sql("select * from q limit 1"),
    "nested": lambda t: t.limit(2).mutate(x=_.spent * 2).filter(_.x > 0).select("who", "x"),
    "named": lambda t: t.filter(lowercase()() < 0.5),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of DuckDB, in ibis's own code for SQL
@pytest.mark.parametrize("name", SPREADING)
def test_a_source_in_which_rows_touch_each_other_is_refused(visits, name):
    with pytest.raises(tacit.BadInput, match="row by row"):
        Table(SPREADING[name](visits), unit="who")


def test_a_condition_with_a_function_that_has_the_name_of_an_operation_is_refused(visits):
    function = lowercase()
    with pytest.raises(tacit.BadInput, match="may not use Lowercase"):
        Table(visits, unit="who").where((_.age > 1) & (function() < 0.5))


FAILING = {
    "texts as numbers": lambda t: t.mutate(x=_.city.cast("int64")),
    "narrow": lambda t: t.mutate(x=_.age.cast("int8")),
    "overflow": lambda t: t.mutate(x=_.age * 10**12),
    "negate": lambda t: t.mutate(x=-_.age),
    "mixed": lambda t: t.mutate(x=ibis.coalesce(_.age.cast("decimal(38, 30)"), _.spent)),
    "exact": lambda t: t.mutate(x=_.age.cast("decimal(4, 3)")),
    "pattern": lambda t: t.filter(_.city.like(_.city)),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_source_whose_expressions_may_fail_on_a_value_is_refused(visits, name):
    with pytest.raises(tacit.BadInput, match=r"fail at|constant text"):
        Table(FAILING[name](visits), unit="who")


def test_a_source_made_row_by_row_is_accepted(visits):
    found = (
        visits.filter((_.age > 20) & _.city.isin(["a", "b"]))
        .mutate(
            old=ibis.ifelse(_.age > 45, "old", "young"),
            band=ibis.cases((_.spent > 3, "much"), else_="little"),
            town=_.city.cases(("a", "Aarau"), else_="other"),
            twice=_.spent * 2 + 1,
            text=_.age.cast("string") + "!",
            first=_.city.substr(0, 1),
            number=_.city.try_cast("int64"),
            wide=_.age.cast("float64") / 10,
        )
        .rename(sum="spent")
        .drop_null("sum")
        .fill_null({"number": 0})
        .drop("age")
    )
    table = Table(found, unit="who")
    answer = table.group_by("old", keys=["old", "young"]).count().release(epsilon=50, rng=1)
    assert dict(zip(answer.keys["old"], answer.value.tolist(), strict=True)) == {"old": 1, "young": 2}
    assert round(table.sum("twice", (0, 10)).release(epsilon=5000, rng=1).value) == 17


def objects(odd):
    """A frame with a column of Python's objects, of which one is another kind than the first thousand."""
    return pandas.DataFrame({"who": range(3000), "x": pandas.Series([*range(2999), odd], dtype=object)})


def text_file(engine, folder):
    place = folder / "visits.csv"
    place.write_text("who,age\n" + "".join(f"{k},{k}\n" for k in range(10)))
    return place


GUESSED = {
    "text file": lambda e, folder: e.read_csv(text_file(e, folder)),
    "view": lambda e, folder: e.raw_sql(f"create view v as select * from '{text_file(e, folder)}'") and e.table("v"),
    "views": lambda e, folder: (
        GUESSED["view"](e, folder) is not None and e.raw_sql("create view w as select * from v") and e.table("w")
    ),
    "frame": lambda e, folder: e.con.register("f", objects("one")) and e.table("f"),
    "rows": lambda e, folder: ibis.memtable(pyarrow.table({"who": [1, 2], "age": [3, 4]})),
}


@pytest.mark.parametrize("name", GUESSED)
def test_a_table_whose_types_are_guessed_is_refused(tmp_path, name):
    """DuckDB guesses types from the first rows: a person further down stopped the query after the charge."""
    with pytest.raises(tacit.BadInput, match="guessed"):
        Table(GUESSED[name](ibis.duckdb.connect(), tmp_path), unit="who")


def test_a_view_of_a_text_file_is_refused_in_a_database_and_without_its_file(tmp_path):
    engine = ibis.duckdb.connect(tmp_path / "shop.duckdb")
    GUESSED["views"](engine, tmp_path)
    engine.disconnect()
    with pytest.raises(tacit.BadInput, match="guessed"):
        Table(f"{tmp_path}/shop.duckdb#w", unit="who")
    (tmp_path / "visits.csv").unlink()
    with pytest.raises(tacit.BadInput, match="can"):
        Table(f"{tmp_path}/shop.duckdb#w", unit="who")


@pytest.mark.parametrize("odd", ["one", 5, b"c", None])
def test_the_rows_themselves_are_read_whatever_they_hold(odd):
    table = Table(objects(odd), unit="who")
    assert abs(table.users().release(epsilon=100, rng=1).value - 3000) < 2
    assert table.sum("x", (0, 1)).release(epsilon=1.0, rng=1).value is not None
