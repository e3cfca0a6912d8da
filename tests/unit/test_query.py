"""Private tables, by hand: what is counted, what it costs, what is kept, and what is refused."""

import builtins
import json
import math
import subprocess
import sys
import xml.dom.minidom
from datetime import date
from fractions import Fraction

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import mechanism_ledgers as ledgers
import tacit
from command import Command
from query_people import arrow
from tacit.core.events import BoundedRange, Compose, DiscreteLaplace, Gaussian, PartitionSelection, Repeat, walk
from tacit.query import Table, count, mean, sum, users, variance
from tacit.query.bounding import totals

ROWS = [
    (1, "Basel", 10.0, 1),
    (1, "Basel", 20.0, 2),
    (1, "Basel", 90.0, 3),
    (2, "Basel", 30.0, 1),
    (2, "Bern", 200.0, 1),
    (3, "Bern", None, 4),
    (None, "Bern", 50.0, 9),
]


def exact(query):
    found = query._terms(query.aggregates)
    held = totals(query.shape, found, lost=True)
    return held, [held.terms[term].tolist() for term in found]


def table(**more):
    return Table(arrow(ROWS), **{"unit": "who", "max_rows": 2, "max_groups": 2, **more})


def test_what_is_added_up():
    cities = ["Basel", "Bern", "Chur"]
    held, (rows, people, total) = exact(
        table().group_by("city", keys=cities).aggregate(n=count(), who=users(), total=sum("amount", (0, 64)))
    )
    assert held.keys == (("Basel",), ("Bern",), ("Chur",))
    assert rows == [3, 2, 0]  # person 1 counts with two rows of three
    assert people == [2, 2, 0]
    step = 64 / 2**20
    assert [value * step for value in total] == [94 + 30, 64, 0]  # 10 + 20 + 64 is within 2 x 64; 200 is clipped
    assert (held.lost, held.everybody) == (2, 3)  # person 1: a row and a value; person 2: a value


def test_means_of_people_with_many_rows():
    """Person 1 counts as two rows of their own mean."""
    _, (centred, number) = exact(table().where("city = Basel").mean("amount", (0, 128)))
    mean_of_one = (10 + 20 + 90) / 3
    step = 128 / 2**20
    assert number == [3]
    assert centred[0] * step + 3 * 64 == pytest.approx(2 * mean_of_one + 30, abs=3 * step)


def test_answers_are_near_and_say_how_near():
    many = [(k % 500, "Basel" if k % 3 else "Bern", float(k % 100), k % 7) for k in range(5_000)]
    held = Table(arrow(many), unit="who", max_rows=10, max_groups=2)
    answer = (
        held.group_by("city", keys=["Basel", "Bern"])
        .aggregate(
            n=count(),
            average=mean("amount", (0, 100)),
            spread=variance("amount", (0, 100)),
            whole=sum("visits", (0, 6)),
        )
        .release(epsilon=20, rng=1)
    )
    frame = pandas.DataFrame(many, columns=["who", "city", "amount", "visits"]).groupby("city")
    truth = {"n": frame.size(), "average": frame.amount.mean(), "whole": frame.visits.sum()}
    truth["spread"] = frame.amount.var(ddof=0)
    for name, values in truth.items():
        for value, noisy, error in zip(values, answer.value[name], answer.error[name], strict=True):
            assert abs(noisy - value) <= error
            assert error < 0.2 * value
    assert answer.value["n"].dtype.kind == answer.value["whole"].dtype.kind == "i"
    assert answer.lost.lower <= 0.05


def test_error_bars_cover(monkeypatch):
    """Each with at least 95 %: 400 releases, and the chance of fewer than 360 is below 1e-5 (the seeds are fixed)."""
    held = Table(arrow(ROWS * 30), unit="row", lost=0)
    query = held.aggregate(n=count(), average=mean("amount", (0, 128)), total=sum("amount", (0, 128)))
    found, (_, centred, number, _) = exact(query)
    truth = {
        "n": 210,
        "average": 64 + centred[0] / number[0] * 128 / 2**20,
        "total": 30 * (10 + 20 + 90 + 30 + 128 + 50),
    }
    monkeypatch.setattr("tacit.query.release.totals", lambda *a, **k: found)
    monkeypatch.setattr(type(query), "_check_form", lambda *a: None)
    hits = dict.fromkeys(truth, 0)
    for seed in range(400):
        answer = query.release(epsilon=1, rng=seed)
        for name, value in truth.items():
            hits[name] += abs(answer.value[name] - value) <= answer.error[name] + 1e-9
    assert min(hits.values()) >= 360
    assert max(hits["n"], hits["total"]) < 399  # and not far too wide


@pytest.mark.parametrize(
    "make", [lambda t: t, lambda t: t.to_pandas(), polars.from_arrow], ids=["arrow", "pandas", "polars"]
)
def test_frames(make):
    held = Table(make(arrow(ROWS)), unit="who", max_rows=2, max_groups=2)
    answer = held.group_by("city", keys=["Basel", "Bern"]).count().release(epsilon=1e4, rng=1)
    assert answer.value.tolist() == [3, 2]
    assert answer.table.column_names == ["city", "value", "error"]
    assert answer.to_pandas().value.tolist() == answer.to_polars()["value"].to_list() == [3, 2]
    assert "3 +- 0" in repr(answer)
    assert "<table>" in answer._repr_html_()


@pytest.fixture
def files(tmp_path):
    pyarrow.parquet.write_table(arrow(ROWS), tmp_path / "visits.parquet")
    arrow(ROWS).to_pandas().to_csv(tmp_path / "visits.csv", index=False)
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as engine:
        held = arrow(ROWS)
        engine.register("held", held)
        engine.execute("create table visits as from held")
    return tmp_path


@pytest.mark.parametrize("name", ["visits.parquet", "visits.csv", "shop.duckdb#visits"])
def test_files(files, name):
    held = Table(f"{files}/{name}", unit="who", max_rows=2, max_groups=2)
    query = held.group_by("city", keys=["Basel", "Bern"]).sum("amount", (0, 64))
    _, (total,) = exact(query)
    assert [value * 64 / 2**20 for value in total] == [124, 64]


def test_a_value_does_not_change_the_type_of_a_csv_column(tmp_path):
    """One person's text would turn a guessed column of numbers into texts, and an error would tell."""
    path = tmp_path / "v.csv"
    path.write_text("who,amount\n" + "\n".join(f"{k},{k}" for k in range(50)) + "\n50,ten\n51,nan\n52,\n53,1,2\n")
    _, (total,) = exact(Table(path, unit="who").sum("amount", (0, 64)))
    assert total[0] * 64 / 2**20 == 49 * 50 / 2 + 1  # what is no number adds nothing; a cell too many is not read


# costs


def cost(event, factor=1):
    """The exact sum of pure epsilons and stated ones."""
    parts = event.events if isinstance(event, Compose) else (event,)
    return builtins.sum(
        factor / Fraction(part.noise_multiplier) if isinstance(part, DiscreteLaplace) else Fraction(part.epsilon)
        for part in parts
    )


@pytest.mark.parametrize("lost", [0, 0.05, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1, 7.3])
def test_parts_never_cost_more_than_was_asked(lost, epsilon):
    held = table(lost=lost)
    for grouped, delta in ((held, 0.0), (held.group_by("city", keys=["Basel"]), 0.0), (held.group_by("city"), 1e-6)):
        for aggregates in (
            {"n": count()},
            {"n": count(), "people": users(), "m": mean("amount", (0, 3))},
            {"s": sum("amount", "private"), "v": variance("visits", "private"), "m": mean("amount", "private")},
        ):
            event = grouped.aggregate(**aggregates).preview(epsilon=epsilon, delta=delta).event
            assert 0.999 * epsilon < cost(event) <= Fraction(epsilon)


def test_one_event_for_all():
    query = (
        table(lost=0.1).group_by("city", keys=["Basel", "Bern", "Chur"]).aggregate(n=count(), m=mean("amount", (0, 9)))
    )
    event = query.preview(epsilon=1).event
    assert isinstance(event, Compose)
    assert len(event.events) == 4  # rows, centred sum, numbers, lost
    assert cost(event) <= 1
    assert query.release(epsilon=1, rng=1).event == event


def test_gaussian_where_it_reaches_less():
    held = Table(arrow(ROWS), unit="who", max_groups=50, lost=0)
    query = held.group_by("visits", keys=range(100)).count()
    assert isinstance(query.preview(epsilon=1).event, DiscreteLaplace)
    price = query.preview(epsilon=1, delta=1e-6)
    assert isinstance(price.event, Gaussian)
    assert price.error < query.preview(epsilon=1).error
    assert tacit.privacy_loss(price.event, "add-remove").epsilon(1e-6).upper <= 1
    few = Table(arrow(ROWS), unit="who", lost=0).group_by("visits", keys=range(100)).count()
    assert isinstance(few.preview(epsilon=1, delta=1e-6).event, DiscreteLaplace)


def test_unknown_keys():
    many = [(k, "Basel" if k < 400 else f"rare {k}", 1.0, 1) for k in range(420)]
    held = Table(arrow(many), unit="who")
    with pytest.raises(tacit.BadInput, match="delta"):
        held.group_by("city").count().release(epsilon=1)
    for query in (held.group_by("city").count(), held.group_by("city").sum("amount", (0, 2))):
        answer = query.release(epsilon=1, delta=1e-6, rng=3)
        assert answer.keys == {"city": ("Basel",)}
        assert abs(answer.value[0] - 400) <= 4 * answer.error[0]
        selections = [part for part in walk(answer.event) if isinstance(part, PartitionSelection)]
        assert [part.delta for part in selections] == [1e-6]
    assert answer.notes


def test_private_bounds():
    many = [(k, "Basel", float(k % 50), 1) for k in range(4_000)]
    answer = Table(arrow(many), unit="who").mean("amount", "private").release(epsilon=4, rng=3)
    assert abs(answer.value - 24.5) <= answer.error < 2
    assert cost(answer.event) <= 4
    price = Table(arrow(many), unit="who").mean("amount", "private").preview(epsilon=4)
    assert price.event == answer.event
    assert price.error is None


def test_private_bounds_of_a_few_hundred_people():
    """The first power of two that enough people stay within: powers far above the data are never asked about."""
    few = Table(arrow([(k, "Basel", float(k % 100), 1) for k in range(900)]), unit="who")
    errors = [few.sum("amount", "private").release(epsilon=1, rng=seed).error for seed in range(12)]
    assert sorted(errors)[6] < 1_000
    assert sorted(errors)[-2] < 10_000


def test_replace_doubles_the_noise(tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=9, delta=0, unit="person", adjacency="replace")
    query = table(ledger=ledger, lost=0).count()
    assert query.preview(epsilon=1).error > 1.9 * table(lost=0).count().preview(epsilon=1).error
    assert query.release(epsilon=1, rng=1).adjacency == "replace"


def test_charge_then_read_then_keep(tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=2.5, delta=0, unit="person")
    query = table(ledger=ledger).group_by("city", keys=["Basel", "Bern"]).count()
    assert query.preview(epsilon=1).remaining == pytest.approx(2.5)
    assert not ledger.entries()
    first = query.release(epsilon=1, key="monday")
    again = query.release(epsilon=1, key="monday")
    assert first.value.tolist() == again.value.tolist()
    assert first.lost == again.lost
    assert len(ledger.entries()) == 1
    with pytest.raises(tacit.Mismatch):  # the same event for another question
        table(ledger=ledger).group_by("city", keys=["Basel", "Chur"]).count().release(epsilon=1, key="monday")
    query.release(epsilon=1)
    with pytest.raises(tacit.BudgetExceeded):
        query.release(epsilon=1)
    assert len(ledger.entries()) == 2
    assert ledger.remaining() == pytest.approx(0.5)


QUESTIONS = {
    "count": lambda found: found.count(),
    "several": lambda found: found.aggregate(n=count(), mean=mean("amount", (0, 64)), more=sum("amount", "private")),
    "groups": lambda found: found.group_by("city", keys=["Basel", "Bern", "Chur"]).variance("amount", (0, 64)),
    "quantile": lambda found: found.group_by("city", keys=["Basel", "Bern", "Chur"]).quantile("amount", 0.5, (0, 64)),
    "top": lambda found: found.top("city", 3, keys=["Basel", "Bern", "Chur"]),
    "marginals": lambda found: found.marginals(["city"], 1, keys={"city": ["Basel", "Bern"]}),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("epsilon", [0.55, 1.1, 2.35, 1.4281684985421803])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_question_may_take_all_that_remains(tmp_path, asked, epsilon, adjacency):
    """The parts of epsilon add up to no more than it, as a ledger reads them: as they are written."""
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=epsilon, delta=0, unit="person", adjacency=adjacency)
    QUESTIONS[asked](table(ledger=ledger)).release(epsilon=ledger.remaining())
    assert ledger.remaining() < 1e-12


def test_a_question_about_keys_that_are_not_known_may_take_all_that_remains(tmp_path):
    for place, epsilon in enumerate([0.55, 1.1, 2.35, 1.4281684985421803]):
        ledger = tacit.Ledger.create(tmp_path / f"{place}.db", epsilon=epsilon, delta=1e-6, unit="person")
        table(ledger=ledger).group_by("city").aggregate(n=count(), all=sum("amount", (0, 64))).release(
            epsilon=epsilon, delta=1e-7
        )
        assert len(ledger.entries()) == 1


def test_a_failing_engine_is_charged_and_may_be_asked_again(tmp_path, monkeypatch):
    from tacit.query import bounding

    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=1, delta=0, unit="person")
    query = table(ledger=ledger).count()

    class Broken:
        name = "duckdb"

        def to_pyarrow(self, expression):
            raise RuntimeError("person 17 has amount 99")

    broken = bounding.executed
    monkeypatch.setattr(
        bounding, "executed", lambda held, e: broken(type("T", (), {"backend": Broken(), "engine": "x"})(), e)
    )
    with pytest.raises(tacit.NotFinished) as told:
        query.release(epsilon=1, key="k")
    assert "17" not in str(told.value)
    assert "99" not in str(told.value)
    monkeypatch.undo()
    assert query.release(epsilon=1, key="k").receipt.seq == 1
    assert len(ledger.entries()) == 1


def test_nothing_shows_rows():
    held = table().where("amount > 5").group_by("city", keys=["Basel"])
    for shown in (held, held.count(), held.source):
        assert "90" not in repr(shown)


# refusals


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda: Table(arrow(ROWS)), "unit"),
        (lambda: Table(arrow(ROWS), unit="nobody"), "nobody"),
        (lambda: table().sum("nothing", (0, 1)), "nothing"),
        (lambda: table().sum("city", (0, 1)).release(epsilon=1, rng=1), None),  # texts: none is a number
        (lambda: table().sum("amount"), "bounds"),
        (lambda: table().sum("amount", (5, 1)), "lower before upper"),
        (lambda: table().sum("amount", (0, math.inf)), "finite"),
        (lambda: table().mean("amount", "publicly"), "bounds"),
        (lambda: table().count().release(epsilon=-1), "epsilon"),
        (lambda: table().count().release(epsilon=math.nan), "epsilon"),
        (lambda: table().count().release(epsilon=1, delta=2), "delta"),
        (lambda: table(max_rows=0), "max_rows"),
        (lambda: table(max_groups=-1), "max_groups"),
        (lambda: table(lost=1.5), "lost"),
        (lambda: table().group_by("amount"), "histogram"),
        (lambda: table().group_by("city", "city"), "twice"),
        (lambda: table().group_by("visits", keys=["x"]).count(), "type"),
        (lambda: table().group_by("city", keys="Basel").count(), "list"),
        (lambda: table().group_by("city", keys=[]).count(), "keys"),
        (lambda: table().aggregate(), "at least one"),
        (lambda: table().aggregate(n=3), "no aggregate"),
        (lambda: table().where("amount"), "condition"),
        (lambda: table().where("nothing > 3"), "nothing"),
        (lambda: table().where("visits = many"), "text"),
        (lambda: table().where(lambda t: t.amount > t.amount.mean()), "Mean"),
        (lambda: table().where(lambda t: t.amount / t.visits > 1), "Divide"),
        (lambda: table().where(lambda t: t.amount), "true or false"),
        (lambda: table().where(lambda t: t.city > date(2024, 1, 1)), "kind|fit"),
        (lambda: table().where(lambda t: t.city == t.visits), "kind|fit"),
        (lambda: table().where(lambda t: t.count() > 3), "Count"),
        (lambda: table().where(lambda t: t.amount == t.amount.max()), "Max"),
        (lambda: table().where(lambda t: t.mutate(m=t.amount.mean()).m > 3), "this table"),
        (lambda: table().histogram("amount", [3, 1]), "rising"),
        (lambda: table().histogram("city", [0, 1]).release(epsilon=1, rng=1), None),
        (lambda: Table("nowhere.parquet", unit="who"), "nowhere.parquet"),
        (lambda: Table(3, unit="who"), "int"),
        (lambda: Table("postgresql://localhost/x", unit="who"), "#"),
        (lambda: table().count().release(epsilon=1, key="k"), "ledger"),
        (lambda: table(max_rows=10**6).sum("amount", (0, 1)).release(epsilon=1e-9), "noise"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(ask, word):
    if word is None:
        ask()
        return
    with pytest.raises(tacit.BadInput, match=word) as told:
        ask()
    assert "\n" not in str(told.value)
    assert "200" not in str(told.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: (table.count(), 0.0),
        lambda table: (table.group_by("city").count(), 1e-6),
        lambda table: (table.top("city", 1), 1e-6),
        lambda table: (table.group_by("city").quantile("amount", 0.5, (0, 9)), 1e-6),
        lambda table: (table.marginals(["city"], 1, keys={"city": ["Bern"]}), 0.0),
    ],
)
@pytest.mark.parametrize("epsilon", [1.2e-13, 1e-14])
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_paid_for(ask, epsilon):
    ledger = ledgers.Keeping()
    query, delta = ask(table(ledger=ledger))
    try:
        query.release(epsilon=epsilon, delta=delta)
    except tacit.core.BadInput:
        assert not ledger.charged
    else:
        assert epsilon > 1e-13


def test_units_of_ledgers(tmp_path):
    people = tacit.Ledger.create(tmp_path / "p.db", epsilon=1, delta=0, unit="person")
    rows = tacit.Ledger.create(tmp_path / "r.db", epsilon=1, delta=0, unit="row")
    with pytest.raises(tacit.Mismatch):
        table(unit="row", ledger=people).count().release(epsilon=1)
    with pytest.raises(tacit.Mismatch):
        table(ledger=rows).count().release(epsilon=1)
    assert not people.entries() + rows.entries()


def test_injection():
    """Names and values are quoted: they are names and values."""
    name = 'city"; DROP TABLE x; --'
    held = pyarrow.table({name: ["a'; DROP TABLE y; --", "b"], "who": [1, 2]})
    answer = Table(held, unit="who").group_by(name, keys=["a'; DROP TABLE y; --", "' OR 1=1"]).count()
    assert answer.release(epsilon=1e4, rng=1).value.tolist() == [1, 0]
    assert exact(Table(held, unit="who").where(f'`{name}` = "\' OR 1=1 --"').count())[1] == [[0]]


def test_schema_gives_bounds_words_and_unit():
    columns = (
        tacit.Column("amount", range=(0, 64)),
        tacit.Column("city", "category", words=("Basel", "Bern")),
        tacit.Column("visits", range=(0, 9), public=False),
    )
    held = Table(arrow(ROWS), schema=tacit.Schema(columns, unit="who"), max_rows=2, max_groups=2)
    query = held.group_by("city").sum("amount")
    assert query.shape.keys.values == (("Basel",), ("Bern",))
    assert query.aggregates["sum(amount)"].bounds == (0, 64)
    with pytest.raises(tacit.BadInput, match="read off the data"):
        held.sum("visits")


def test_public_join():
    cantons = pyarrow.table({"city": ["Basel", "Bern"], "canton": ["BS", "BE"]})
    _, (rows,) = exact(table().join(cantons, "city").group_by("canton", keys=["BS", "BE"]).count())
    assert rows == [3, 2]
    with pytest.raises(tacit.BadInput, match="several rows"):
        table().join(pyarrow.concat_tables([cantons, cantons]), "city")
    with pytest.raises(tacit.BadInput, match="no column"):
        table().join(cantons, "amount")


def test_conditions():
    import ibis

    for given, rows in (
        ("amount >= 30", 3),
        ("amount < 30", 2),
        ("city = Bern", 2),
        ("city != 'Bern'", 3),
        ("visits == 1", 3),
        (ibis._.city.isin(["Bern"]) & ibis._.amount.notnull(), 1),
        (lambda t: t.city.lower() == "bern", 2),
    ):
        assert exact(table().where(given).count())[1] == [[rows]], given


def test_a_question_keeps_its_name_in_another_process():
    """Conditions are described as the engine is told them, so functions of the table are too."""
    names = [table().where(lambda t: t.amount > 3).count().name for _ in range(2)]
    assert names[0] == names[1]
    assert names[0] != table().where(lambda t: t.amount > 4).count().name
    assert table().where("amount > 3").count().name != table().where("amount > 4").count().name


def test_histogram_and_dates():
    _, (rows,) = exact(table(max_groups=3).histogram("amount", [0, 20, 50, 200]))
    assert rows == [1, 2, 2]
    held = pyarrow.table({"who": [1, 2, 3], "day": [date(2024, 1, 1), date(2024, 1, 2), None]})
    answer = Table(held, unit="who").group_by("day", keys=["2024-01-01", date(2024, 1, 2)]).count()
    answer = answer.release(epsilon=1e4, rng=1)
    assert answer.value.tolist() == [1, 1]
    assert answer.keys == {"day": ("2024-01-01", "2024-01-02")}


def test_quantiles():
    many = [(k, "Basel" if k % 2 else "Bern", float(k % 100), 1) for k in range(3_000)]
    held = Table(arrow(many + [(7, "Basel", 1e300, 1)]), unit="who", max_groups=2)
    answer = held.group_by("city", keys=["Basel", "Bern"]).quantile("amount", 0.25, (0, 100)).release(epsilon=4, rng=1)
    assert answer.value == pytest.approx([25, 24], abs=3)
    assert answer.event == Repeat(BoundedRange(2.0), 2)
    whole = held.quantile("amount", 0.5, (0, 100))
    assert whole.preview(epsilon=1).event == BoundedRange(1.0)
    assert whole.release(epsilon=1, rng=1).value == pytest.approx(50, abs=3)
    unknown = held.group_by("city").quantile("amount", 0.5, (0, 100)).release(epsilon=2, delta=1e-6, rng=1)
    assert unknown.keys == {"city": ("Basel", "Bern")}
    assert cost_of_parts(unknown.event) <= 2
    with pytest.raises(tacit.BadInput, match="q must"):
        held.quantile("amount", 2, (0, 1))
    with pytest.raises(tacit.BadInput, match="given"):
        held.quantile("amount", 0.5, "private")


def cost_of_parts(event):
    parts = event.events if isinstance(event, Compose) else (event,)
    return builtins.sum(part.event.epsilon * part.steps if isinstance(part, Repeat) else part.epsilon for part in parts)


def test_a_replaced_person_moves_twice_as_many_groups(tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=9, delta=0, unit="person", adjacency="replace")
    held = table(ledger=ledger).group_by("city", keys=["Basel", "Bern"])
    assert held.quantile("amount", 0.5, (0, 9)).preview(epsilon=1).event == Repeat(BoundedRange(0.25), 4)
    answer = held.quantile("amount", 0.5, (0, 9)).release(epsilon=1, key="k")
    assert answer.text() == held.quantile("amount", 0.5, (0, 9)).release(epsilon=1, key="k").text()


def test_top():
    many = [
        (k, city, 1.0, 1)
        for k in range(300)
        for city in (["Basel", "Bern", "Chur"] if k < 100 else ["Basel", "Bern"][: 1 + k % 2])
    ]
    held = Table(arrow(many), unit="who", max_groups=3)
    answer = held.top("city", 2, keys=["Zug", "Chur", "Bern", "Basel"]).release(epsilon=2, rng=1)
    assert answer.keys == {"city": ("Basel", "Bern")}
    assert answer.value.tolist() == [1, 2]
    assert answer.event == Repeat(BoundedRange(1.0), 2)
    answer = held.top("city", 2).release(epsilon=2, delta=1e-6, rng=1)
    assert answer.keys == {"city": ("Basel", "Bern")}
    assert abs(answer.value[0] - 300) <= answer.error[0]
    with pytest.raises(tacit.BadInput, match="at most"):
        held.top("city", 5, keys=["Zug"]).release(epsilon=1)


def test_several_columns():
    held = table().group_by("city", "visits", keys=[("Basel", 1), ("Bern", 4)])
    assert exact(held.count())[1] == [[2, 1]]
    crossed = table(max_groups=9).group_by("city", "visits", keys={"city": ["Basel"], "visits": [1, 2]})
    assert exact(crossed.count())[1] == [[2, 1]]


def test_stored_answers_are_json(tmp_path):
    answer = table().group_by("city", keys=["Basel"]).count().release(epsilon=1, rng=1)
    assert json.loads(answer.text())["schema"] == "tacit.answer/1"
    assert "<svg" in answer.chart()


def test_a_chart_says_what_the_answer_says():
    """Where no error is known it said +- 0; of several aggregates it drew the first alone."""
    held = table().group_by("city", keys=["Basel", "Bern", "a name of more than 24 letters"])
    both = held.aggregate(n=count(), average=mean("amount", (0, 100))).release(epsilon=9, rng=1)
    drawn = both.chart()
    assert "n by city" in drawn
    assert "average by city" in drawn
    assert "a name of more than 24 …" in drawn
    assert f">{both.figures['n'].value[0]} +- " in drawn
    middle = held.quantile("amount", 0.5, (0, 100)).release(epsilon=9, rng=1).chart()
    assert "+-" not in middle
    assert "without an error" in middle
    many = table().group_by("visits", keys=range(100)).count().release(epsilon=9, rng=1).chart()
    assert "and 40 more groups" in many
    rows = table().synthesize(["city"], keys={"city": ["Basel", "Bern"]}).release(epsilon=9, delta=1e-6, rng=1)
    with pytest.raises(tacit.BadInput, match="no chart"):
        rows.chart()


@pytest.mark.parametrize("odd", ["\x1b[2Jred", "a\nb", "\x85", "a\tb", "\u202eabc", "\ufffe", "\u2028", "<b>&"])
def test_a_key_neither_steers_a_terminal_nor_breaks_a_picture(odd):
    """A key that enough people hold reached the terminal and the picture with its control characters."""
    frame = pandas.DataFrame({"who": range(90), odd: [odd] * 90})
    answer = Table(frame, unit="who").group_by(odd).count().release(epsilon=9, delta=1e-3, rng=1)
    assert answer.keys[odd] == (odd,)
    xml.dom.minidom.parseString(answer.chart())
    lines = answer.lines()
    assert len(lines) == len("\n".join(lines).splitlines()) == 2
    assert "\x1b" not in repr(answer)


# the command


@pytest.fixture
def command(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def test_command(files, command):
    words = ["query", f"{files}/visits.parquet", "--unit", "who", "--by", "city", "--keys", "Basel,Bern,Chur"]
    words += ["--max-groups", 2]
    status, out, err = command(
        *words, "--count", "--sum", "visits", "--bounds", "0,9", "--epsilon", 1e4, "--seed", 1, "--json"
    )
    assert status == 0, err
    found = json.loads(out)
    assert found["schema"] == "tacit.query/1"
    assert [(row["by"]["city"], row["aggregate"], row["value"]) for row in found["answers"]][:2] == [
        ("Basel", "count", 2), ("Basel", "sum(visits)", 7)
    ]  # fmt: skip
    assert {"epsilon", "delta", "event", "receipt", "rows_lost", "version", "seconds"} <= set(found)
    status, out, err = command(*words, "--count", "--epsilon", 1)
    assert status == 0, err
    assert out.splitlines()[0].split() == ["city", "count"]
    assert "+-" in out


def test_command_of_quantiles_and_words(files, command):
    words = ["query", f"{files}/visits.csv", "--unit", "who", "--epsilon", 1e3, "--seed", 1, "--json"]
    status, out, err = command(*words, "--quantile", "amount:0.5", "--bounds", "0,100")
    assert status == 0, err
    (row,) = json.loads(out)["answers"]
    assert 0 <= row["value"] <= 100
    assert row["error"] is None
    status, out, err = command(*words, "--top", "city:1", "--keys", "Basel,Bern")
    assert status == 0, err
    assert len(json.loads(out)["answers"]) == 1
    assert command(*words, "--quantile", "amount", "--bounds", "0,100")[0] == 2


def test_command_with_a_budget(files, command):
    words = [
        "query",
        f"{files}/visits.csv",
        "--unit",
        "who",
        "--users",
        "--epsilon",
        "0.75",
        "--ledger",
        f"{files}/b.db",
    ]
    assert command("ledger", "init", f"{files}/b.db", "--epsilon", 1, "--unit", "person")[0] == 0
    status, out, _ = command(*words, "--preview", "--json")
    price = json.loads(out)
    assert (status, price["remaining"]) == (0, 1.0)
    assert price["error"] > 0
    first = json.loads(command(*words, "--key", "k", "--json", "--out", f"{files}/a.csv")[1])
    again = json.loads(command(*words, "--key", "k", "--json", "--out", f"{files}/a.svg")[1])
    assert first["answers"] == again["answers"]
    assert first["receipt"]["seq"] == again["receipt"]["seq"] == 1
    assert (files / "a.csv").read_text().startswith('"value","error"')
    assert (files / "a.svg").read_text().startswith("<svg")
    assert command(*words)[0] == 3  # the budget refuses


def test_command_takes_the_delta_of_unknown_groups_from_the_budget(files, command):
    """`tacit query T --unit U --count --by C --epsilon 1 --ledger L`: a tenth of what is set aside."""
    for name, more in (("b.db", ["--delta", "1e-6"]), ("pure.db", [])):
        command("ledger", "init", files / name, "--epsilon", 9, "--unit", "person", *more)
    words = ["query", files / "visits.csv", "--unit", "who", "--epsilon", 1, "--ledger", files / "b.db", "--json"]
    found = json.loads(command(*words, "--count", "--by", "city")[1])
    assert found["delta"] == pytest.approx(1e-6 * 0.15 / 10)
    parts = [
        part for part in walk(tacit.Ledger(files / "b.db").entries()[0].event) if isinstance(part, PartitionSelection)
    ]
    assert [part.delta for part in parts] == [found["delta"]]
    assert json.loads(command(*words, "--top", "city:1")[1])["delta"] == found["delta"]
    assert json.loads(command(*words, "--count")[1])["delta"] == 0
    assert json.loads(command(*words, "--count", "--by", "city", "--keys", "Bern")[1])["delta"] == 0
    assert command(*words, "--count", "--by", "city", "--delta", 0)[0] == 2
    assert command(*words[:-2], files / "pure.db", "--count", "--by", "city")[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count"], "--unit user_id"),
        (["--unit", "who"], "--top C:K"),
        (["--unit", "who", "--quantile", "amount:50", "--bounds", "0,1"], "amount:0.5"),
        (["--unit", "who", "--sum", "nothing", "--bounds", "0,1"], "nothing"),
        (["--unit", "who", "--sum", "amount"], "--bounds lower,upper"),
        (["--unit", "who", "--sum", "amount", "--bounds", "9,1"], "lower before upper"),
        (["--unit", "who", "--sum", "amount", "--bounds", "a,b"], "numbers"),
        (["--unit", "who", "--count", "--by", "city"], "--keys"),
        (["--unit", "who", "--count", "--keys", "a"], "--by"),
        (["--unit", "who", "--count", "--out", "x.exe"], "x.exe"),
        (["--unit", "who", "--count", "--where", "amount"], "condition"),
        (["--unit", "who", "--histogram", "amount"], "edges"),
        (["--unit", "who", "--count", "--ledger", "no.db"], "no.db"),
    ],
)
def test_command_refuses_in_one_sentence(files, command, words, said):
    status, out, err = command("query", f"{files}/visits.parquet", *words, "--epsilon", 1)
    assert status == 2
    assert not out
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_command_says_what_to_do_where_limits_cut_many_people(tmp_path, command):
    rows = "".join(f"{person}\n" * 5 for person in range(300))
    (tmp_path / "many.csv").write_text(f"who\n{rows}")
    words = ["query", f"{tmp_path}/many.csv", "--unit", "who", "--count", "--epsilon", 5, "--seed", 1]
    status, _, told = command(*words, "--out", f"{tmp_path}/many.csv")
    assert (status, "the table itself" in told) == (2, True)  # it would be overwritten by its answer
    assert "--max-rows" in command(*words)[1]
    assert "--max-rows" not in command(*words, "--max-rows", 5)[1]


def test_a_locked_database(files, command):
    """Another process has the file open for writing: nothing is charged."""
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    path = f"{files}/shop.duckdb"
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline().strip() == "open"
        status, _, err = command("query", f"{path}#visits", "--unit", "who", "--count", "--epsilon", 1)
        other.stdin.close()
    assert status == 3
    assert "locked" in err


def test_a_function_of_the_table_is_settled_when_it_is_given() -> None:
    ibis = pytest.importorskip("ibis")
    limit = 3
    asked = table().where(lambda t: t.amount > limit).count()
    before = asked.name
    limit = 4
    assert asked.name == before == table().where(ibis._.amount > 3).count().name
    with pytest.raises(tacit.BadInput, match="each time it is read"):
        table().where(ibis._.city.isin(name for name in ("Bern", "Basel")))


def test_keys_are_lists_of_single_values() -> None:
    pandas = pytest.importorskip("pandas")
    cities = pandas.Series(["Bern", "Bern", "Basel"])
    for keys in (cities.value_counts(), pandas.DataFrame({"city": cities}), cities.groupby(cities)):
        with pytest.raises(tacit.BadInput, match="must be a list"):
            table().group_by("city", keys=keys).count().preview(epsilon=1.0)
    with pytest.raises(tacit.BadInput, match="not of its type"):
        table().group_by("city", keys=[("Bern",)]).count().preview(epsilon=1.0)
    table().group_by("city", keys=cities.drop_duplicates()).count().preview(epsilon=1.0)
