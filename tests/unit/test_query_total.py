"""No value of a person raises, is shown, or decides how other rows are read; no two questions share a key."""

import datetime as dt
from decimal import Decimal

import ibis
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from ibis import _

import tacit
from query_people import arrow
from tacit.query import Table, bounding, count, sum
from tacit.query.bounding import executed, totals
from tacit.query.frames import text

FAR = dt.datetime(2200, 1, 1)


def people(table):
    """How many people the question is about, exactly."""
    query = table.count()
    return totals(query.shape, query._terms(query.aggregates), lost=True).everybody


# conditions


@pytest.fixture(scope="module")
def odd():
    """One ordinary row, and rows that an engine cannot cast."""
    engine = ibis.duckdb.connect()
    engine.raw_sql("set timezone = 'UTC'")
    engine.raw_sql("""create table odd as select * from (values
        (1, timestamp '2020-01-01', timestamp_ns '2020-01-01', date '2020-01-01', 5::hugeint, 1.5::decimal(38, 30),
            'abc', 7::bigint),
        (2, 'infinity'::timestamp, timestamp_ns '2262-01-01', date '5881580-07-10',
            170141183460469231731687303715884105727::hugeint, 99999999.5::decimal(38, 30), 'a\\', 4611686018427387904),
        (3, timestamp '294247-01-10', null, '-infinity'::date, null, -99999999.5::decimal(38, 30), '%', null)
        ) v(who, ts, tsn, day, huge, exact, word, big)""")
    return Table(engine.table("odd"), unit="who")


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (_.huge == 1.5, 0),
        (_.huge == _.exact, 0),
        (_.exact.isin([1.5, 10**12]), 1),
        (_.exact.between(-(10**9), 10**9), 3),
        (_.huge.identical_to(_.exact), 0),
        (ibis.coalesce(_.exact, _.huge) > 3, 1),
        (_.exact > Decimal("1e30"), 0),
        (_.exact.isin([Decimal("1.5"), Decimal("1e30")]), 1),
        (_.exact < Decimal("1.5000001"), 2),
        (_.big == 0.00012345678901234567, 0),
        (_.big == 4611686018427387904, 1),  # whole numbers are compared as they are
        (_.tsn > FAR, 1),
        (_.ts.year() > 2020, 1),
        (_.day.month() == 1, 1),
        (_.word.like("a%"), 2),
    ],
)
def test_conditions_fail_on_no_value(odd, condition, rows):
    assert people(odd.where(condition)) == rows


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        (_.ts == _.tsn, "one precision"),
        (_.tsn > dt.datetime(2900, 1, 1), "nanoseconds"),
        ("tsn > 2900-01-01", "nanoseconds"),
        (_.tsn > dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "without a time zone"),
        ("ts > 2020-01-01T00:00:00+01:00", "without a time zone"),
        (_.word.like("a\\"), "backslash"),
        (_.word.ilike("%\\"), "backslash"),
        (_.word.like(_.word), "constant"),
        (_.word == _.big, "does not fit"),
        (_.day == _.ts, "one kind"),
        (_.big + 1 > 3, "Add"),
        (_.big > _.big.mean(), "Mean"),
    ],
)
def test_conditions_that_could_fail_are_refused(odd, condition, word):
    with pytest.raises(tacit.BadInput, match=word):
        odd.where(condition)


@pytest.mark.parametrize("kind", [pandas.Series, polars.Series, np.array, list, tuple, pyarrow.array])
def test_a_mask_of_the_data_is_no_condition(kind):
    """ibis took its first value for all rows: the first person's number decided whether anybody was counted."""
    frame = pandas.DataFrame({"who": range(100), "fare": [50.0] + [5.0] * 99})
    table = Table(frame, unit="who")
    for mask in (
        kind((frame.fare > 10).tolist()),
        lambda _: kind((frame.fare > 10).tolist()),
        frame.fare.max() > 10,
        True,
    ):
        with pytest.raises(tacit.BadInput):
            table.where(mask)
    both = table.where(_.fare > 1, lambda t: t.fare < 10).count()
    assert totals(both.shape, both._terms(both.aggregates), lost=False).people.tolist() == [99]


def test_times_of_seconds():
    """Times farther than microseconds reach are compared in seconds."""
    held = pyarrow.table({"who": [1, 2, 3], "at": pyarrow.array([0, 2**60, None], pyarrow.timestamp("s"))})
    table = Table(held, unit="who")
    assert people(table.where("at >= 2020-01-01")) == people(table.where(_.at >= dt.datetime(2020, 1, 1))) == 1
    for condition in (_.at.year() > 3, _.at > dt.datetime(2020, 1, 1, 0, 0, 0, 5)):
        with pytest.raises(tacit.BadInput):
            table.where(condition)


@pytest.mark.parametrize("zone", [dt.UTC, dt.timezone(dt.timedelta(hours=2))])
def test_times_with_a_zone(tmp_path, zone):
    """ibis writes the name of Python's object for the zone: DuckDB stopped at it, after the charge."""
    engine = ibis.duckdb.connect()
    engine.raw_sql("set timezone = 'America/New_York'")
    engine.raw_sql("""create table t as select * from (values (1, timestamptz '2020-01-01 00:00:00+00'),
        (2, timestamptz '2020-01-01 00:30:00+00'), (3, 'infinity'::timestamptz)) v(who, seen)""")
    table, noon = Table(engine.table("t"), unit="who"), dt.datetime(2020, 1, 1, 0, 30, tzinfo=dt.UTC).astimezone(zone)
    text = noon.isoformat()
    for condition in (_.seen == noon, _.seen.isin([noon]), _.seen.between(noon, noon), f"seen = {text}"):
        assert people(table.where(condition)) == 1
    assert people(table.where(ibis.coalesce(_.seen, noon) >= noon)) == 2


def test_a_time_without_a_zone_is_in_utc_whatever_the_session_says():
    """The engine would take the zone of its session: the same question had other answers on other machines."""
    engine = ibis.duckdb.connect()
    engine.raw_sql("create table t as select 1 as who, timestamptz '2020-01-01 03:00:00+00' as seen")
    table = Table(engine.table("t"), unit="who")
    for zone in ("UTC", "America/New_York"):
        engine.raw_sql(f"set timezone = '{zone}'")
        for hour, expected in ((2, 1), (4, 0)):
            moment = dt.datetime(2020, 1, 1, hour)
            assert people(table.where(f"seen >= {moment}")) == people(table.where(_.seen >= moment)) == expected


FAR_SECONDS = pyarrow.array([1, 2**62, None], pyarrow.int64())


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_with_a_zone_that_the_engine_does_not_reach_are_missing(unit):
    """DuckDB stopped at such a time, after the charge."""
    held = pyarrow.table({"who": [1, 2, 3], "at": FAR_SECONDS.view(pyarrow.timestamp(unit, "UTC"))})
    assert people(Table(held, unit="who").where("at >= 1970-01-01")) == 1
    assert people(Table(held, unit="at")) == 1
    with pytest.raises(tacit.BadInput, match="cannot read every value"):
        Table(pyarrow.table({"who": [1, 2, 3], "long": FAR_SECONDS.view(pyarrow.duration(unit))}), unit="long")


def test_large_whole_numbers_are_compared_exactly():
    """In double precision 2^53 + 1 equals 2^53: a question about one account was answered with two."""
    held = pyarrow.table({"who": [1, 2, 3], "account": [2**53, 2**53 + 1, 2**53 + 2]})
    table = Table(held, unit="who")
    assert people(table.where(f"account = {2**53 + 1}")) == 1
    assert people(table.where(f"account > {2**53}")) == people(table.where(f"account != {2**53}")) == 2
    assert people(table.where(f"account < {10**30}")) == 3
    with pytest.raises(tacit.BadInput, match="one kind"):
        Table(pyarrow.table({"who": [1], "many": [[1]]}), unit="who").where(_.many == [1])


def test_an_engine_whose_values_may_raise_is_refused(tmp_path, monkeypatch):
    """SQLite keeps texts in columns of numbers and takes texts for equal; opening a wrong path made an empty file."""
    sqlite = pytest.importorskip("sqlite3")
    monkeypatch.chdir(tmp_path)
    with sqlite.connect("s.db") as connection:
        connection.execute("create table t (who integer)")
    with pytest.raises(tacit.BadInput, match="do not run on a database of kind 'sqlite'"):
        Table(f"sqlite:///{tmp_path}/other.db#t", unit="who")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    with pytest.raises(tacit.BadInput, match="do not run on sqlite"):
        Table(ibis.sqlite.connect("s.db").table("t"), unit="who")


def test_a_constant_that_the_engine_cannot_make_costs_nothing(tmp_path, odd, monkeypatch):
    """Planning for no rows does not make it."""
    monkeypatch.setattr("tacit.query.conditions.constant", lambda moment, kind: ibis.literal("x").cast(kind))
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=1, delta=0, unit="person")
    query = Table(odd.source.relation, unit="who", ledger=ledger).where("ts > 2020-01-01").count()
    with pytest.raises(tacit.BadInput, match="nothing was charged"):
        query.release(epsilon=1)
    assert not ledger.entries()


def test_a_date_that_python_cannot_hold_is_nobodys_key(odd):
    query = odd.group_by("day").count()
    held = totals(query.shape, query._terms(query.aggregates), lost=False)
    assert held.keys == ((dt.date(2020, 1, 1),),)


# values


class Unkind:
    def __str__(self):
        raise RuntimeError("17")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        (1.0, "1"),
        (Decimal("1.00"), "1"),
        (np.int64(1), "1"),
        (2.5, "2.5"),
        (float("nan"), None),
        (pandas.NA, None),
        (pandas.NaT, None),
        (None, None),
        (True, "True"),
        ("a\ud800", "a?"),
        (1e300, "1e+300"),
        (Decimal("sNaN"), None),
        (Unkind(), None),
    ],
)
def test_objects_as_texts(value, expected):
    assert text(value) == expected
    for other in ("a", np.array([1, 2])):  # what it stands beside does not matter
        frame = pandas.DataFrame({"who": pandas.Series([value, other], dtype=object)})
        held = Table(frame, unit="who").source
        assert executed(held, held.relation)["who"].to_pylist()[0] == expected


def test_equal_ids_of_several_types_are_one_person():
    """1, 1.0 and Decimal(1) are equal and hash alike in Python: they must not count three times."""
    ids = pandas.Series([1, 1.0, Decimal(1), np.float32(1), "2"], dtype=object)
    assert people(Table(pandas.DataFrame({"who": ids}), unit="who")) == 2


def test_types_that_arrow_adds_are_texts():
    periods = pandas.DataFrame(
        {"who": pandas.Series([pandas.Period("2020"), None, pandas.Period("2021")]), "x": [1, 2, 3]}
    )
    table = Table(periods, unit="who")
    assert people(table) == 2
    assert people(table.where("who = 2021")) == 1
    with pytest.raises(tacit.BadInput, match="Int128"):
        Table(polars.DataFrame({"who": polars.Series([1], dtype=polars.Int128)}), unit="who")


def test_sums_that_leave_64_bits_do_not_raise(monkeypatch):
    """Clipped at 2^61, whatever one person adds; an empty table has a sum of 0."""
    rows = [(who, "Basel", 1.0, 2**31) for who in range(5000)]

    def total(rows):
        query = Table(arrow(rows), unit="row", lost=0).aggregate(s=sum("visits", (0, 2**31)))
        return next(iter(totals(query.shape, query._terms(query.aggregates), lost=False).terms.values())).tolist()

    assert total(rows) == [5000 * 2**31]
    assert total([]) == [0]
    monkeypatch.setattr(bounding, "ROOM", 2**40)
    assert total(rows) == [2**40]


def test_many_bins_and_keys():
    """Expressions that nest once for each bin or key are too deep for ibis and for engines."""
    held = pandas.DataFrame({"who": range(10), "a": range(10), "b": range(10), "x": np.arange(10.0)})
    table = Table(held, unit="who")
    query = table.histogram("x", np.linspace(0, 10, 601).tolist())
    assert totals(query.shape, query._terms(query.aggregates), lost=False).people.sum() == 10
    keys = [(i, j) for i in range(30) for j in range(20)]
    query = table.group_by("a", "b", keys=keys).count()
    assert totals(query.shape, query._terms(query.aggregates), lost=False).people.sum() == 10


def test_keys_of_dates_and_large_numbers():
    day, large = dt.date(2020, 1, 1), 2**53 + 1
    table = Table(pyarrow.table({"who": [1, 2, 3], "day": [day] * 3, "large": [large] * 3}), unit="who")
    for key in (day, dt.datetime(2020, 1, 1), pandas.Timestamp(2020, 1, 1), "2020-01-01"):
        assert table.group_by("day", keys=[key]).count().release(epsilon=1e5, rng=1).value.tolist() == [3]
    assert table.group_by("large", keys=[large, large - 1]).count().release(epsilon=1e5, rng=1).value.tolist() == [3, 0]
    for column, key in (("day", dt.datetime(2020, 1, 1, 5)), ("large", 1.5), ("large", 2**63)):
        with pytest.raises(tacit.BadInput, match="not of its type"):
            table.group_by(column, keys=[key]).count()
    with pytest.raises(tacit.BadInput, match="not of its type"):
        Table(pyarrow.table({"who": [1], "a": ["None"]}), unit="who").group_by("a", keys=[None]).count()


# files

LINES = [f"{k},c{k % 3},{k}" for k in range(60)]


def written(path, *odd, at=30):
    lines = [*LINES[:at], *odd, *LINES[at:]]
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in ["who,city,x", *lines]))
    return Table(path, unit="who")


@pytest.mark.parametrize(
    "odd",
    [
        ['200,"Basel,3'],
        ['200,"Basel,3', '201,Bern,"'],
        ['200,"a\nb",3'],
        ['200,"a\rb",3'],
        ['200,"a"b,3'],
        ['200, "a,3'],
        ['"200'],
    ],
)
def test_a_quote_that_is_not_closed_on_its_line_is_refused(tmp_path, odd):
    """Other people's rows would be part of the value; nothing is charged, and a preview does not read."""
    table = written(tmp_path / "t.csv", *odd)
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=1, delta=0, unit="person")
    query = Table(tmp_path / "t.csv", unit="who", ledger=ledger).count()
    assert query.preview(epsilon=1).error
    with pytest.raises(tacit.BadInput, match="double quote"):
        query.release(epsilon=1)
    assert not ledger.entries()
    with pytest.raises(tacit.BadInput, match="double quote"):
        table.count().release(epsilon=1, rng=1)


@pytest.mark.parametrize(
    "odd",
    [
        '200,"a, b",3',
        '200,"a ""b""",3',
        '200,5" pipe,3',
        b"200,a\xffb,3",
        b"200,a\x00b,3",
        "200,a,b,c",
        "200",
        "",
        '"",,',
    ],
)
def test_a_line_of_a_csv_file_leaves_the_others_alone(tmp_path, odd):
    table = written(tmp_path / "t.csv", odd).where("who < 100")
    table.source.form(())
    assert people(table) == 60


@pytest.mark.parametrize(("odd", "counted"), [("200,c1,3,4,5", 1), ("200,c1", 1), ("200", 0), (b"200,c1\xff,3", 0)])
def test_a_line_of_another_length_is_read_as_far_as_it_goes(tmp_path, odd, counted):
    table = written(tmp_path / "t.csv", odd).where("who = 200", "city = c1")
    assert people(table) == counted


def test_semicolons_bring_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("who;x\n1;1,5\n2;1.234,5\n3;2.25\n4;1,2,3\n")
    query = Table(tmp_path / "t.csv", unit="who").sum("x", (0, 2048))
    (total,) = totals(query.shape, query._terms(query.aggregates), lost=False).terms.values()
    assert total[0] * 2048 / 2**20 == 1.5 + 1234.5 + 2.25


# before the charge


def test_a_type_that_the_engine_cannot_read_costs_nothing(tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=1, delta=0, unit="person")
    wide = pyarrow.array([Decimal(1)], pyarrow.decimal256(50, 2))
    query = Table(pyarrow.table({"who": [1], "x": wide}), unit="who", ledger=ledger).sum("x", (0, 1))
    with pytest.raises(tacit.BadInput, match="nothing was charged"):
        query.release(epsilon=1)
    assert not ledger.entries()
    half = pyarrow.array(np.array([1, 2], dtype=np.float16))
    assert Table(pyarrow.table({"who": [1, 2], "x": half}), unit="who").sum("x", (0, 4)).release(epsilon=1e6, rng=1)


def test_the_unit_is_said_without_doubt(tmp_path):
    with pytest.raises(tacit.BadInput, match='column "row"'):
        Table(pyarrow.table({"row": [1, 1]}), unit="row")
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=1, delta=0, unit="who")
    held = pyarrow.table({"who": [1, 1], "session": [1, 2]})
    with pytest.raises(tacit.Mismatch, match="another column"):
        Table(held, unit="session", ledger=ledger).count().release(epsilon=1)
    assert Table(held, unit="who", ledger=ledger).count().release(epsilon=1).receipt.seq == 1


# keys of answers


def test_different_questions_have_different_names(tmp_path):
    """Each of these pairs had one name, so that a key gave the answer of the other."""
    held = pyarrow.table({"who": [1, 2], "city": ["a", "b"], "x": ["1", "2"], "x = y": ["1", "2"]})

    def joined(regions):
        public = pandas.DataFrame({"city": ["a", "b"], "region": regions})
        return Table(held, unit="who").join(public, "city").group_by("region", keys=["p", "q"]).count()

    assert joined(["p", "q"]).digest == joined(["p", "q"]).digest != joined(["q", "p"]).digest
    engine = ibis.duckdb.connect()
    source = engine.create_table("t", held)
    parts = [Table(source.filter(source.who > k), unit="who").count().digest for k in (1, 1, 2)]
    assert parts[0] == parts[1] != parts[2]
    table = Table(held, unit="who")
    texts = [table.where(given).count().digest for given in ("x = 'y = 5'", "`x = y` = 5")]
    assert texts[0] != texts[1]
    words = [table.where(_.city == word).count().digest for word in ("ibis_a_b", "ibis_a_c")]
    assert words[0] != words[1]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.csv").write_text("who,city\n1,a\n")
    files = [Table(tmp_path / name / "t.csv", unit="who").count().digest for name in ("one", "one", "two")]
    assert files[0] == files[1] != files[2]


def test_a_released_key_says_that_few_people_are_overestimated():
    query = Table(pyarrow.table({"who": [1], "a": ["b"]}), unit="who").group_by("a").aggregate(n=count())
    assert any("overestimated" in note for note in query.preview(epsilon=1, delta=1e-6).notes)
