"""Many tables at once, and synthetic rows: sums that add up, what one person moves, and how near the rows are."""

import itertools

import numpy as np
import pandas
import pyarrow
import pytest

import tacit
from query_people import CITIES, arrow, nasty, others
from tacit.core import source
from tacit.core.events import BoundedRange, DiscreteLaplace, Gaussian, walk
from tacit.query import Table
from tacit.query.marginals import Joint
from tacit.query.tree_model import _scaled, _simplex, fitted, spread

KEYS = {"city": CITIES, "visits": list(range(9))}
BINS = {"amount": [0, 20, 40, 60, 80, 100]}


def people(count=4000):
    """Three columns in a chain, and one that depends on nothing."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, count)
    b = np.where(rng.random(count) < 0.8, a, rng.integers(0, 3, count))
    c = np.where(rng.random(count) < 0.8, b, rng.integers(0, 3, count))
    d = rng.integers(0, 4, count)
    return pyarrow.table({"who": np.arange(count), "a": a, "b": b, "c": c, "d": d})


DOMAIN = {"a": range(3), "b": range(3), "c": range(3), "d": range(4)}


def test_marginals():
    query = Table(people(), unit="row").marginals(["a", "b", "d"], 2, keys=DOMAIN)
    event = query.preview(epsilon=1).event
    assert (event.event.noise_multiplier, event.steps) == (pytest.approx(3), 3)
    assert isinstance(event.event, DiscreteLaplace)
    answer = query.release(epsilon=1e5, rng=1)
    assert answer.table.column_names == ["columns", "cell", "value", "error"]
    frame = people().to_pandas()
    truth = [len(frame[(frame.a == i) & (frame.b == j)]) for i in range(3) for j in range(3)]
    assert answer.value[:9].tolist() == truth
    assert answer.value.sum() == 3 * 4000
    many = Table(people(), unit="row").marginals(list("abcd"), 2, keys=DOMAIN)
    price = many.preview(epsilon=1, delta=0.01)
    assert isinstance(price.event.event, Gaussian)
    assert tacit.privacy_loss(price.event, "add-remove").epsilon(0.01).upper <= 1
    assert price.error < many.preview(epsilon=1).error


def test_tables_that_agree():
    """Non-negative, whole, one total, the same single columns in every table, and nearer to the truth than before."""
    table = Table(people(300), unit="row")
    names, frame = list("abcd"), people(300).to_pandas()
    plain, agreed = (
        table.marginals(names, 2, keys=DOMAIN, consistent=part).release(epsilon=0.5, rng=3) for part in (False, True)
    )
    assert plain.value.min() < 0
    assert agreed.value.min() >= 0
    assert agreed.value.dtype.kind == "i"
    assert agreed.event == plain.event
    assert agreed.error is None or np.isnan(agreed.error).all()
    found, off, place = {}, {False: 0.0, True: 0.0}, 0
    for columns in itertools.combinations(names, 2):
        sizes = [len(DOMAIN[name]) for name in columns]
        cells = slice(place, place + sizes[0] * sizes[1])
        place = cells.stop
        found[columns] = agreed.value[cells].reshape(sizes)
        truth = pandas.crosstab(frame[columns[0]], frame[columns[1]]).to_numpy()
        for part, answer in ((False, plain), (True, agreed)):
            off[part] += float(((answer.value[cells].reshape(sizes) - truth) ** 2).sum())
    assert len({int(part.sum()) for part in found.values()}) == 1
    for (a, b), part in found.items():
        for (c, d), other in found.items():
            if a == c:
                assert (part.sum(axis=1) == other.sum(axis=1)).all()
            if b == d:
                assert (part.sum(axis=0) == other.sum(axis=0)).all()
    assert off[True] < 0.6 * off[False]
    with pytest.raises(tacit.BadInput, match="combinations"):
        table.marginals(["a", "b", "who"], 1, keys={**DOMAIN, "who": range(50_000)}, consistent=True)


@pytest.mark.parametrize("max_groups", [1, 3])
def test_nobody_moves_a_marginal_more_than_is_stated(max_groups):
    rng = np.random.default_rng(max_groups)

    def joint(rows):
        held = Table(arrow(rows), unit="who", max_groups=max_groups)
        query = held.marginals(["city", "visits", "amount"], 2, keys=KEYS, bins=BINS)
        found = Joint.read(query.domain.within(query.shape), query.domain)
        return [found.marginal(columns) for columns in query._subsets]

    table = others(rng)
    more = [(10_000, city, amount, k % 9) for k, (_, city, amount, _) in enumerate(nasty(rng))]
    for before, after in zip(joint(table), joint(table + more), strict=True):
        change = np.abs(after - before)
        assert 0 < change.sum() <= max_groups
        assert change.max() <= max_groups


def test_made_up_rows_resemble_the_table():
    query = Table(people(), unit="row").synthesize(list("abcd"), keys=DOMAIN)
    price = query.preview(epsilon=1, delta=1e-6)
    assert tacit.privacy_loss(price.event, "add-remove").epsilon(1e-6).upper <= 1
    assert {type(part) for part in walk(price.event)} >= {Gaussian, BoundedRange}
    answer = query.release(epsilon=1, delta=1e-6, rng=1)
    real, made = people().to_pandas(), answer.to_pandas()
    assert abs(len(made) - 4000) < 200
    for columns in itertools.combinations("abcd", 2):
        a, b = (frame.groupby(list(columns)).size() / len(frame) for frame in (real, made))
        assert a.subtract(b, fill_value=0).abs().sum() / 2 < 0.09, columns
    assert len(Table(people(), unit="row").synthesize(["a"], 7, keys=DOMAIN).release(epsilon=1, delta=1e-6).table) == 7


def test_a_label_keeps_its_dependence_on_every_column():
    """Two columns that depend on the label alone, and on each other: a tree without it leaves one of three out."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 6000)
    held = {name: np.where(rng.random(6000) < 0.8, y, rng.integers(0, 2, 6000)) for name in "abcd"}
    table = Table(pyarrow.table({**held, "y": y}), unit="row")
    query = table.synthesize([*held, "y"], keys=dict.fromkeys([*held, "y"], range(2)), label="y")
    price = query.preview(epsilon=1, delta=1e-6)
    assert tacit.privacy_loss(price.event, "add-remove").epsilon(1e-6).upper <= 1
    assert "for each value of y" in price.notes[0]
    made = query.release(epsilon=1, delta=1e-6, rng=1).to_pandas()
    assert abs(len(made) - 6000) < 300
    for name, values in held.items():
        assert abs(np.mean(made[name] == made.y) - np.mean(values == y)) < 0.03, name
    with pytest.raises(tacit.BadInput, match="label"):
        table.synthesize(["a", "b"], keys=dict.fromkeys("ab", range(2)), label="y")


def test_scores_move_by_no_more_than_is_stated():
    """One person with three combinations joins: every score of a pair moves by at most 64 x 3 and its rounding."""
    rng = np.random.default_rng(2)
    rows = others(rng)
    more = [(10_000, city, amount, k % 9) for k, (_, city, amount, _) in enumerate(nasty(rng))]
    scores = []
    for label in (None, "city"):
        for held in (rows, rows + more):
            table = Table(arrow(held), unit="who", max_groups=3)
            query = table.synthesize(["city", "visits", "amount"], keys=KEYS, bins=BINS, label=label)
            joint = Joint.read(query.domain.within(query.shape), query.domain)
            last = 5 if label else 1
            singles = [np.full((query.domain.sizes[k], last), 7.0) for k in query._others]
            scores.append(query._scores(joint, singles, 10.0))
    for before, after in (scores[:2], scores[2:]):
        assert all(abs(before[edge] - after[edge]) <= 64 * 3 + 1 for edge in before)
        assert before != after


def test_made_up_rows_are_kept_and_charged_once(tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=2, delta=1e-5, unit="row")
    query = Table(people(300), unit="row", ledger=ledger).synthesize(["a", "b"], keys=DOMAIN)
    first, again = (query.release(epsilon=0.5, delta=1e-7, key="k") for _ in range(2))
    assert first.table == again.table
    assert len(ledger.entries()) == 1


def test_the_fit_of_exact_tables_is_exact():
    rng = np.random.default_rng(1)
    joint = rng.random((3, 4))
    joint = np.round(joint / joint.sum() * 1e4)
    model = fitted([joint.sum(axis=1), joint.sum(axis=0)], {(0, 1): joint}, 1.0, 1.0)
    assert model.total == joint.sum()
    assert np.abs(model.pairs[0, 1] - joint / joint.sum()).max() < 1e-6
    rows = model.rows(10_000, source(0))
    counts = np.zeros((3, 4))
    np.add.at(counts, (rows[:, 0], rows[:, 1]), 1)
    assert np.abs(counts / 1e4 - joint / joint.sum()).max() < 1e-3  # rounded, not drawn


def test_small_steps():
    assert _simplex(np.array([0.5, 0.7, -0.4])).tolist() == pytest.approx([0.4, 0.6, 0.0])
    table = _scaled(np.ones((2, 2)) / 4, np.array([0.3, 0.7]), np.array([0.1, 0.9]))
    assert table.sum(axis=1) == pytest.approx([0.3, 0.7])
    assert table.sum(axis=0) == pytest.approx([0.1, 0.9])
    assert np.bincount(spread(np.array([1.0, 1.0, 2.0]), 8, source(0))).tolist() == [2, 2, 4]


@pytest.mark.parametrize(
    ("ask", "word"),
    [
        (lambda t: t.synthesize(["a"], keys=DOMAIN).release(epsilon=1), "delta"),
        (lambda t: t.synthesize(["a", "b"]), "not known"),
        (lambda t: t.synthesize(["a", "a"], keys=DOMAIN), "different"),
        (lambda t: t.marginals(["a", "b"], 3, keys=DOMAIN), "number of columns 2, got 3"),
        (lambda t: t.marginals(["nothing"], 1, keys=DOMAIN), "nothing"),
        (lambda t: t.group_by("a", keys=[1]).marginals(["b"], 1, keys=DOMAIN), "whole table"),
        (lambda t: t.marginals(["a", "who"], 2, keys={"a": range(3000), "who": range(3000)}), "cells"),
    ],
)
def test_refusals(ask, word):
    with pytest.raises(tacit.BadInput, match=word):
        ask(Table(people(50), unit="row"))
