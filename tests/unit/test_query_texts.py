"""Texts that are equal and spelt differently, texts that are not Unicode, categories, and the order of answers."""

import ibis
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
from ibis import _

import tacit
from tacit.query import Table, bounding, quantiles
from tacit.query.bounding import totals

NOT_UTF8 = pyarrow.array([b"Bern", b"Bern", b"B\xffrn", b"c\xe2\x82"])


def exactly(query):
    """How many people each group has."""
    held = totals(query.shape, query._terms(query.aggregates), lost=False)
    return {key[0]: int(n) for key, n in zip(held.keys, held.people, strict=True)}


def unchecked():
    """Arrow believes that bytes are texts when it is told so."""
    return pyarrow.Array.from_buffers(pyarrow.string(), len(NOT_UTF8), NOT_UTF8.buffers())


# collations


def spelt(who):
    """A table of 40 people in Bern, of whom one writes it otherwise, in a column that takes both for equal."""
    engine = ibis.duckdb.connect()
    engine.raw_sql("create table t (who int, city varchar collate nocase)")
    engine.raw_sql(f"insert into t select i, case when i = {who} then 'BERN' else 'Bern' end from range(40) r(i)")
    return Table(engine.table("t"), unit="who")


def test_nobodys_spelling_names_the_group_of_others():
    """A group called by one of its spellings is not found under the other: one person moved a count from 40 to 0."""
    for who in range(0, 40, 3):
        table = spelt(who)
        assert exactly(table.group_by("city", keys=["Bern"]).count()) == {"Bern": 39}
        assert exactly(table.group_by("city").count()) == {"BERN": 1, "Bern": 39}


def test_the_groups_that_a_person_keeps_hang_on_no_order_of_rows():
    """The engine calls a person by the spelling that it reads first, and the choice went by that."""
    rows = [(name, city) for k in range(20) for name in (f"ann{k}", f"ANN{k}") for city in "xy"]
    found = set()
    for order in (rows, rows[::-1]):
        engine = ibis.duckdb.connect()
        engine.raw_sql("create table t (who varchar collate nocase, city varchar)")
        engine.raw_sql(f"insert into t values {', '.join(map(repr, order))}")
        table = Table(engine.table("t"), unit="who")
        people = exactly(table.group_by("city", keys=["x", "y"]).users())
        assert sum(people.values()) == 20
        found.add(tuple(people.items()))
    assert len(found) == 1


def test_0_and_minus_0_are_one_person_whose_groups_hang_on_no_order_of_rows():
    """They are equal and have two texts, and the hash that all engines share is one of texts."""
    rows = [(sign * 0.0, f"k{place:02}") for place in range(40) for sign in (1, -1)]
    keys = [f"k{place:02}" for place in range(40)]
    for portable in (True, False):
        found = set()
        for order in (rows, rows[::-1], rows[::2] + rows[1::2]):
            frame = pandas.DataFrame(order, columns=["who", "city"])
            table = Table(frame, unit="who", max_groups=3, portable=portable).group_by("city", keys=keys)
            found.add(tuple(exactly(table.users()).items()))
        assert len(found) == 1
        assert sum(number for _, number in found.pop()) == 3


def test_a_row_matches_one_public_row():
    """A public table that spells a city twice would make two rows of one person's."""
    public = pandas.DataFrame({"city": ["Bern", "BERN"], "region": ["west", "west"]})
    query = Table(spelt(3).source, unit="row").join(public, "city").group_by("region", keys=["west"]).count()
    assert exactly(query) == {"west": 40}


def test_an_engine_that_compares_all_texts_otherwise_is_refused():
    engine = ibis.duckdb.connect()
    engine.raw_sql("set default_collation = 'nocase'")
    with pytest.raises(tacit.BadInput, match="collation"):
        Table(engine.create_table("t", pyarrow.table({"who": [1]})), unit="who")


# texts that are not Unicode


def test_texts_of_parquet_that_are_not_utf8_cost_nothing(tmp_path):
    """The engine would stop at them after the charge. Questions that do not read them are answered."""
    path, ledger = tmp_path / "t.parquet", tacit.Ledger.create(tmp_path / "b.db", epsilon=1e6, delta=0, unit="person")
    pyarrow.parquet.write_table(pyarrow.table({"who": [1, 2, 3, 4], "city": unchecked()}), path)
    table = Table(path, unit="who", ledger=ledger)
    for query in (table.group_by("city", keys=["Bern"]).count(), table.where(_.city == "Bern").count()):
        with pytest.raises(tacit.BadInput, match="not UTF-8") as caught:
            query.release(epsilon=1)
        assert "rn" not in str(caught.value).replace("Write it again", "")
        assert caught.value.__cause__ is None
        assert not ledger.entries()
    assert table.count().release(epsilon=1e5, rng=1).value == 4


def test_times_of_parquet_that_the_engine_does_not_reach_cost_nothing(tmp_path):
    """DuckDB turns milliseconds into microseconds as it reads, and stopped at a time beyond them after the charge."""
    path, ledger = tmp_path / "t.parquet", tacit.Ledger.create(tmp_path / "b.db", epsilon=1e6, delta=0, unit="person")
    far = pyarrow.array([1, 2**62], pyarrow.int64()).view(pyarrow.timestamp("ms"))
    pyarrow.parquet.write_table(pyarrow.table({"who": [1, 2], "at": far}), path)
    table = Table(path, unit="who", ledger=ledger)
    for query in (table.where("at >= 1970-01-01").count(), table.count()):
        with pytest.raises(tacit.BadInput, match="290,000"):
            query.release(epsilon=1)
    assert not ledger.entries()


@pytest.mark.parametrize("form", ["texts", "dictionary"])
def test_texts_of_arrow_that_are_not_utf8_are_replaced(form):
    held = unchecked()
    if form == "dictionary":
        held = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2, 3], pyarrow.int32()), held)
    table = Table(pyarrow.table({"who": [1, 2, 3, 4], "city": held}), unit="who")
    assert exactly(table.group_by("city").count()) == {"B�rn": 1, "Bern": 2, "c�": 1}
    for condition in (_.city.upper() == "BERN", _.city.length() == 4, _.city.like("B%")):
        assert exactly(table.where(condition).group_by("city", keys=["Bern"]).count()) == {"Bern": 2}


# categories and types


def test_a_missing_value_does_not_rename_categories():
    """pandas keeps whole numbers of which one is missing as 1.0, 2.0 .., and texts of these are other keys."""
    for numbers in ([1, 2, 1], [1, 2, 1, None]):
        frame = pandas.DataFrame({"who": range(len(numbers)), "kind": pandas.Series(numbers).astype("category")})
        assert exactly(Table(frame, unit="who").group_by("kind", keys=["1", "2"]).count()) == {"1": 2, "2": 1}
    mixed = pandas.DataFrame({"who": [1, 2, 3], "kind": pandas.Categorical([1.0, "a", "b\ud800"])})
    assert exactly(Table(mixed, unit="who").group_by("kind").count()) == {"1": 1, "a": 1, "b?": 1}


@pytest.mark.parametrize(
    "held",
    [
        pyarrow.array([(1, 2, 3)], pyarrow.month_day_nano_interval()),
        pyarrow.array([b"a"], pyarrow.binary_view()),
        pyarrow.array([b"ab"], pyarrow.binary(2)),
    ],
)
def test_types_that_are_not_known_are_one_sentence(held):
    with pytest.raises(tacit.BadInput, match="which cannot be read"):
        Table(pyarrow.table({"who": [1], "x": held}), unit="who")


def test_times_without_a_text_are_nobodys_name():
    held = pyarrow.table({"at": pyarrow.array([0, 2**60], pyarrow.timestamp("s")), "g": ["a", "b"]})
    with pytest.raises(tacit.BadInput, match="whose row"):
        Table(held, unit="at", portable=True)


@pytest.mark.parametrize("above", ["\n", " \n\r\n", "\ufeff\n"])
def test_a_header_below_blank_lines_is_no_row(tmp_path, above):
    """The engine takes the first line for the header, blank or not, and counted the header as a person."""
    path = tmp_path / "t.csv"
    path.write_text(above + "who,city\n1,Bern\n", encoding="utf-8")
    with pytest.raises(tacit.BadInput, match="blank lines"):
        Table(path, unit="who")
    path.write_text("\ufeffwho,city\n1,Bern\n", encoding="utf-8")
    assert exactly(Table(path, unit="who").group_by("city").count()) == {"Bern": 1}


# the order of answers


def test_a_seed_gives_each_key_the_same_noise_in_any_order(monkeypatch):
    """Engines answer in the order of their threads."""
    cities = [f"c{k % 35}" for k in range(490)]  # 14 people each, near to the threshold
    held = pyarrow.table({"who": range(490), "city": cities, "x": np.arange(490.0)})
    table = Table(held, unit="who", lost=0).group_by("city")
    asked = {"median": (table.quantile("x", 0.5, (0, 500)), 2.0), "count": (table.count(), 1.0)}

    def released():
        return {name: query.release(epsilon=at, delta=1e-6, rng=7).to_pandas() for name, (query, at) in asked.items()}

    plain = released()
    original = bounding.executed

    def reordered(source, expression):
        found = original(source, expression)
        return found.take(np.random.default_rng(1).permutation(found.num_rows))

    for module in (bounding, quantiles):
        monkeypatch.setattr(module, "executed", reordered)
    for name, again in released().items():
        assert 2 < len(again) < 33
        assert again.equals(plain[name]), name


@pytest.mark.parametrize("odd", [b"1", True, 1.5, pandas.Timestamp(0), pandas.Timedelta(1), "x"])
@pytest.mark.parametrize("usual", [["a", "b"], [b"a", b"b"], [1, 2], [True, False], [pandas.Timedelta(1), "b"]])
def test_one_persons_category_changes_no_other_persons_word(usual, odd):
    """Arrow chooses one type for all categories of pandas: of "a" beside b"1" it makes b"a"."""
    words = [
        exactly(Table(pandas.DataFrame({"c": pandas.Categorical(values)}), unit="row").group_by("c").count())
        for values in (usual * 3, [*usual * 3, odd])
    ]
    assert sum(words[1].values()) == 7
    assert set(words[0]) <= set(words[1])


def test_a_dictionary_of_dates_beyond_pythons_is_read():
    dates = pyarrow.array([1, 2, 2**31 - 1], pyarrow.int32()).cast(pyarrow.date32()).dictionary_encode()
    table = Table(pyarrow.table({"d": dates}), unit="row")
    assert exactly(table.group_by("d").count()) == {"1970-01-02": 1, "1970-01-03": 1}
