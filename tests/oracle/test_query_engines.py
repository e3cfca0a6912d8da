"""The same statistics before noise, bit for bit, on DuckDB and on a real PostgreSQL server, and by a loop in Python."""

import hashlib
import math
from collections import defaultdict
from datetime import date

import ibis
import numpy as np
import pytest

import tacit
from query_people import CITIES, nasty, others
from tacit.query import Table, count, mean, sum, users, variance
from tacit.query.bounding import totals
from tacit.query.ranking import SALT

ASKED = {
    "n": count(),
    "people": users(),
    "total": sum("amount", (0, 100)),
    "both": sum("amount", (-7.3, 2.1)),
    "wide": sum("amount", (0, 1e9)),  # 5e-324 is far below a step: PostgreSQL would raise
    "far": mean("amount", (-1e90, 1e90)),
    "whole": sum("visits", (-3, 8)),
    "average": mean("amount", (-20, 100)),
    "spread": variance("amount", (0, 100)),
}


def rows():
    rng = np.random.default_rng(3)
    odd = [(who, city, amount, max(min(n, 2**62), -(2**62))) for who, city, amount, n in nasty(rng, 300)]
    halves = [(20_000 + k, "Bern", (k + 0.5) * 100 / 2**20, k) for k in range(40)]  # ties of rounding
    return others(rng, 300) + odd + halves


@pytest.fixture(scope="module")
def url(postgres):
    import psycopg

    place = postgres.fresh("query_engines")
    with psycopg.connect(place) as connection:
        connection.execute("create table visits (who bigint, city text, amount double precision, visits bigint)")
        with connection.cursor() as cursor:
            cursor.executemany("insert into visits values (%s, %s, %s, %s)", rows())
    return f"{place}#visits"


def statistics(source, keys=CITIES, without=None):
    table = Table(source, unit="who", max_groups=2, max_rows=3, portable=True)
    table = table if without is None else table.where(f"who != {without}")
    query = table.group_by("city", keys=keys).aggregate(**ASKED)
    found = query._terms(query.aggregates)
    exact = totals(query.shape, found, lost=True)
    by_key = {key: [int(exact.terms[term][k]) for term in found] for k, key in enumerate(exact.keys)}
    return by_key, exact.lost, exact.everybody


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
@pytest.mark.parametrize("keys", [CITIES, None], ids=["known", "unknown"])
def test_duckdb_and_postgresql_agree_bit_for_bit(url, keys):
    from query_people import arrow

    duckdb, postgresql = statistics(arrow(rows()), keys), statistics(url, keys)
    assert duckdb == postgresql
    assert duckdb[1] > 0


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
@pytest.mark.parametrize("keys", [CITIES, None], ids=["known", "unknown"])
def test_nobody_moves_more_than_is_stated_on_postgresql(url, keys):
    """The person of 300 odd rows leaves: every term moves by at most what its noise is scaled for."""
    held, _, everybody = statistics(url, keys)
    without, _, others = statistics(url, keys, without=10_000)
    query = Table(url, unit="who").aggregate(**ASKED)
    most = [term.most(3) for term in query._terms(query.aggregates)]
    nobody = [0] * len(most)
    moved = 0
    for key in held.keys() | without.keys():
        change = [abs(a - b) for a, b in zip(held.get(key, nobody), without.get(key, nobody), strict=True)]
        assert all(a <= b for a, b in zip(change, most, strict=True)), key
        moved += any(change)
    assert 0 < moved <= 2
    assert everybody - others == 1


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_no_value_of_postgresql_is_seen(postgres):
    """Dates that Python cannot hold, texts padded with blanks, decimals that no float holds."""
    import psycopg
    from ibis import _

    place = postgres.fresh("query_values")
    with psycopg.connect(place) as connection:
        connection.execute("create table odd (who int, day date, word char(5), exact numeric, x double precision)")
        connection.execute("insert into odd values (5, null, null, 1e-400, null)")
        connection.execute("""insert into odd values (1, '2020-01-01', 'a', 1, 1), (2, 'infinity', 'b', 1e400, 5e-324),
            (3, '5874897-12-31', 'a', 'NaN', 1e308), (4, '4713-01-01 BC', null, '-infinity', '-infinity')""")
    table = Table(f"{place}#odd", unit="who")

    def people(held):
        query = held.count()
        return totals(query.shape, query._terms(query.aggregates), lost=False)

    assert [key for (key,) in people(table.group_by("day")).keys] == [date(2020, 1, 1)]
    assert people(table.group_by("word", keys=["a", "b"])).people.tolist() == [2, 1]
    assert table.marginals(["word"], 1, keys={"word": ["a", "b"]}).release(epsilon=1e5, rng=1).value.tolist() == [2, 1]
    assert people(table.where(_.exact == _.x)).people.tolist() == [1]
    assert people(table.where(ibis.coalesce(_.exact) > 0.5)).people.tolist() == [3]  # NaN is above all numbers
    assert math.isfinite(table.quantile("x", 0.5, (0, 1e9)).release(epsilon=1, rng=1).value)
    assert math.isfinite(table.sum("x", "private").release(epsilon=1, rng=1).value)


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_truth_values_are_numbers_on_both_engines(postgres):
    """PostgreSQL has no cast from a truth value to 64 bits."""
    import psycopg
    import pyarrow

    rows = [(who, (True, False, None)[who % 3]) for who in range(31)]
    place = postgres.fresh("query_truths")
    with psycopg.connect(place) as connection:
        connection.execute("create table t (who int, paid boolean)")
        with connection.cursor() as cursor:
            cursor.executemany("insert into t values (%s, %s)", rows)
    frame = pyarrow.table({"who": [who for who, _ in rows], "paid": [paid for _, paid in rows]})
    for source in (frame, f"{place}#t"):
        table = Table(source, unit="who", lost=0)
        query = table.aggregate(total=sum("paid", (0, 1)), share=mean("paid", (0, 1)))
        exact = totals(query.shape, query._terms(query.aggregates), lost=False)
        assert [int(exact.terms[term][0]) for term in query._terms(query.aggregates)] == [11, 11, 21]
        assert math.isfinite(table.quantile("paid", 0.5, (0, 1)).release(epsilon=1, rng=1).value)


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_nobodys_spelling_names_the_group_of_others_on_postgresql(postgres):
    """A collation that takes texts for equal: the group has the spelling of one person, and joins match twice."""
    import pandas
    import psycopg

    place = postgres.fresh("query_spellings")
    with psycopg.connect(place) as connection:
        connection.execute("create collation alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        connection.execute("create table t (who int, city text collate alike)")
        connection.execute(
            "insert into t select i, case i when 0 then 'BERN' else 'Bern' end from generate_series(0, 40) i"
        )
    table = Table(f"{place}#t", unit="row", lost=0)
    for keys, expected in ((["Bern"], [40]), (["BERN"], [1]), (None, [1, 40])):
        query = table.group_by("city", keys=keys).count()
        assert totals(query.shape, query._terms(query.aggregates), lost=False).people.tolist() == expected
    public = pandas.DataFrame({"city": ["Bern", "BERN"], "region": ["west", "west"]})
    query = table.join(public, "city").group_by("region", keys=["west"]).count()
    assert totals(query.shape, query._terms(query.aggregates), lost=False).people.tolist() == [41]


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_a_unit_of_another_collation_is_one_person_on_postgresql(postgres):
    """Texts of two collations cannot be joined for the hash: the server said so after the charge."""
    import psycopg

    place = postgres.fresh("query_names")
    with psycopg.connect(place) as connection:
        connection.execute("create collation same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        connection.execute("create table t (who text collate same, city text)")
        connection.execute("insert into t values ('ann', 'a'), ('ANN', 'b'), ('Ann', 'c'), ('bob', 'a')")
    query = Table(f"{place}#t", unit="who", max_groups=1).group_by("city", keys=["a", "b", "c"]).count()
    assert int(totals(query.shape, query._terms(query.aggregates), lost=False).people.sum()) == 2


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_the_groups_that_a_person_keeps_hang_on_no_order_of_rows_on_postgresql(postgres):
    """Equal ids with several spellings: 1 and 1.00 of `numeric`, ann and ANN of `citext`."""
    import psycopg

    place = postgres.fresh("query_orders")
    with psycopg.connect(place) as connection:
        connection.execute("create extension if not exists citext")
        for name, order in (("there", "k, b"), ("back", "k desc, b desc")):
            connection.execute(f"create table {name} (who numeric, name citext, city text)")
            connection.execute(
                f"""insert into {name} select case when b then 1 else 1.00 end, case when b then 'ann' else 'ANN' end,
                'k' || k from generate_series(10, 49) k, (values (true), (false)) v(b) order by {order}"""
            )
    keys = [f"k{k}" for k in range(10, 50)]
    for unit in ("who", "name"):
        found = set()
        for name in ("there", "back"):
            query = Table(f"{place}#{name}", unit=unit, max_groups=3).group_by("city", keys=keys).count()
            found.add(tuple(totals(query.shape, query._terms(query.aggregates), lost=False).people.tolist()))
        assert len(found) == 1
        assert found.pop().count(1) == 3


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_patterns_of_a_collation_of_its_own_are_answered_on_postgresql(postgres):
    """The server refuses them, and said so only when it read a row: after the charge, and only if there was one."""
    import psycopg
    from ibis import _

    place = postgres.fresh("query_patterns")
    with psycopg.connect(place) as connection:
        connection.execute(
            "create collation like_it (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        connection.execute("create table t (who int, city text collate like_it)")
        connection.execute("insert into t values (1, 'Bern'), (2, 'BERN'), (3, null), (4, 'Chur')")
    table = Table(f"{place}#t", unit="who", lost=0)
    conditions = [_.city.like("B%"), _.city.ilike("%n"), _.city.startswith("Be"), _.city.lower().contains("er")]
    for condition, people in zip([*conditions, _.city.endswith("n")], (2, 2, 1, 2, 1), strict=True):
        query = table.where(condition).count()
        assert totals(query.shape, query._terms(query.aggregates), lost=False).people.tolist() == [people]


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_a_database_whose_texts_cannot_all_be_read_is_refused(postgres):
    """One person's word stopped the server while it sent the keys, after the charge."""
    import psycopg

    with psycopg.connect(postgres.fresh("query_encodings"), autocommit=True) as connection:
        for name, encoding in (("ascii", "SQL_ASCII"), ("latin", "LATIN1"), ("windows", "WIN1252")):
            form = f"encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0"
            connection.execute(f"create database query_{name} {form}")

    def url(name, more=""):
        return f"postgresql://tacit@/{name}?host={postgres.folder}{more}"

    with psycopg.connect(url("query_latin")) as connection:
        connection.execute("create table t as select 1 as who, chr(233) as word")
    query = Table(f"{url('query_latin')}#t", unit="who").group_by("word").count()
    assert totals(query.shape, query._terms(query.aggregates), lost=False).keys == (("é",),)
    utf8, latin = "&client_encoding=utf8", "&client_encoding=latin1"
    for name, more in (("query_ascii", ""), ("query_ascii", utf8), ("query_windows", utf8), ("postgres", latin)):
        with pytest.raises(tacit.BadInput, match="some of them cannot be read"):
            Table(f"{url(name, more)}#t", unit="who")


def naive(keys):
    """Rules of the docs in plain Python: 2 groups of a person by md5, 3 rows, sums clipped, means of many rows."""
    people = defaultdict(lambda: defaultdict(list))
    for who, city, amount, _ in rows():
        if who is not None and city in keys:
            people[who][city].append(None if amount is None or math.isnan(amount) else amount)
    counts, sums = defaultdict(int), defaultdict(int)
    for who, groups in people.items():
        order = sorted(groups, key=lambda city: hashlib.md5(f"{who}|{city}|{SALT}".encode()).hexdigest())
        for city in order[:2]:
            steps = [math.floor(min(max(x, 0), 100) * 2**20 / 128 + 0.5) for x in groups[city] if x is not None]
            counts[city] += min(len(groups[city]), 3)
            sums[city] += min(builtin_sum(steps), 3 * math.floor(100 * 2**20 / 128))
    return counts, sums


builtin_sum = __builtins__["sum"] if isinstance(__builtins__, dict) else __builtins__.sum


def test_duckdb_agrees_with_a_loop():
    from query_people import arrow

    found, _, _ = statistics(arrow(rows()))
    counts, sums = naive(CITIES)
    for (city,), (number, _, total, *_) in found.items():
        assert (number, total) == (counts[city], sums[city])


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_a_release_from_postgresql(url, tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=2, delta=0, unit="person")
    table = Table(url, unit="who", ledger=ledger).where("amount >= 1").group_by("city", keys=CITIES)
    answer = table.mean("amount", (0, 100)).release(epsilon=1, key="k")
    assert (answer.value >= 0).all()
    assert (answer.value <= 100).all()
    with pytest.raises(tacit.BadInput, match="no table"):
        Table(url.replace("#visits", "#nothing"), unit="who")
    with pytest.raises(tacit.BadInput, match="cannot be opened"):
        Table("postgresql://nobody:secret@127.0.0.1:9/none#t", unit="who")
    assert len(ledger.entries()) == 1


@pytest.mark.needs("postgres")
@pytest.mark.needs("psycopg")
def test_no_number_of_postgresql_raises(postgres):
    """Decimals beyond all floats, NaN, infinities and the largest whole numbers are moved to the bounds."""
    import psycopg

    place = postgres.fresh("query_odd")
    odd = ["1e400", "-1e400", "NaN", "0.5", "1e-400"]
    with psycopg.connect(place) as connection:
        connection.execute("create table odd (who int, a numeric, b double precision, c bigint, d real)")
        for who, text in enumerate(odd):
            real = text if "400" not in text else text.replace("400", "308")
            values = (who, text, real, (-1) ** who * (2**63 - 1), "infinity" if who % 2 else "-infinity")
            connection.execute("insert into odd values (%s, %s::numeric, %s::double precision, %s, %s::real)", values)
    table = Table(f"{place}#odd", unit="who")
    for column in "abcd":
        query = table.aggregate(s=sum(column, (-3, 8)), m=mean(column, (-3, 8)), v=variance(column, (-3, 8)))
        terms = query._terms(query.aggregates)
        exact = totals(query.shape, terms, lost=True)
        assert all(abs(int(exact.terms[term][0])) <= 5 * term.most(1) for term in terms), column
        assert exact.everybody == 5
    query = table.sum("c", "private").release(epsilon=1, rng=1)
    assert math.isfinite(query.value)
