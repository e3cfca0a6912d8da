"""One person, whatever their rows hold, moves no statistic before noise by more than its stated sensitivity."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from query_people import CITIES, arrow, nasty, others
from tacit.query import Table, count, mean, sum, terms, users, variance
from tacit.query.bounding import totals

ALL = {
    "n": count(),
    "people": users(),
    "total": sum("amount", (0, 100)),
    "both": sum("amount", (-7.3, 2.1)),
    "positive": sum("amount", (18, 90)),
    "wide": sum("amount", (-1e9, 1e12)),
    "whole": sum("visits", (-3, 8)),
    "average": mean("amount", (-20, 100)),
    "spread": variance("amount", (0, 100)),
    "found": sum("visits", "private"),
}
LIMITS = [(1, 1), (2, 3), (3, 50)]


def statistics(rows, keys, max_groups, max_rows, unit="who", lost=True):
    """Before noise: every term by key, and how many people lost something and how many nothing.

    Rows are ranked before they are added up only where `lost` is not asked.
    """
    held = Table(arrow(rows), unit=unit, max_groups=max_groups, max_rows=max_rows)
    query = held.group_by("city", keys=keys).aggregate(**ALL)
    found = query._terms(query.aggregates)
    exact = totals(query.shape, found, lost=lost)
    by_key = {term: Counter(dict(zip(exact.keys, exact.terms[term].tolist(), strict=True))) for term in found}
    return query.shape, by_key, np.array([exact.lost, exact.everybody - exact.lost])


def moved(table, person, *limits, before=None, **more):
    """How far each term moves in each group when one person joins, beside what it may."""
    shape, first, lost_before = before or statistics(table, *limits, **more)
    _, then, lost_after = statistics(table + person, *limits, **more)
    for term in first:
        change = {key: abs(then[term][key] - first[term][key]) for key in first[term].keys() | then[term].keys()}
        yield term, shape, max(change.values(), default=0), len([key for key in change if change[key]])
    assert np.abs(lost_after - lost_before).sum() <= (2 if person[0][0] == 3 else 1)


@pytest.mark.parametrize("lost", [True, False], ids=["groups ranked", "rows ranked"])
@pytest.mark.parametrize("keys", [CITIES, None], ids=["known", "unknown"])
@pytest.mark.parametrize(("max_groups", "max_rows"), LIMITS)
def test_nobody_moves_more_than_is_stated(keys, max_groups, max_rows, lost):
    rng = np.random.default_rng(max_groups * 100 + max_rows)
    table = others(rng)
    before = statistics(table, keys, max_groups, max_rows, lost=lost)
    for person in (nasty(rng), nasty(rng, 1), nasty(rng, 30, who=3)):  # a newcomer, one row, more rows of somebody
        times = 2 if person[0][0] == 3 else 1  # rows exchanged: out and in
        for term, shape, most, groups in moved(table, person, keys, max_groups, max_rows, before=before, lost=lost):
            assert most <= term.most(shape.rows) * times, term
            assert groups <= shape.groups * times, term


@pytest.mark.parametrize("lost", [True, False], ids=["groups ranked", "rows ranked"])
def test_fifty_thousand_rows(lost):
    rng = np.random.default_rng(5)
    for term, shape, most, groups in moved(others(rng), nasty(rng, 50_000), CITIES, 2, 2, lost=lost):
        assert most <= term.most(shape.rows), term
        assert groups <= shape.groups


@pytest.mark.parametrize("keys", [CITIES, None], ids=["known", "unknown"])
def test_a_quantile_has_one_number_of_a_person(keys):
    rng = np.random.default_rng(9)

    def numbers(rows):
        held = Table(arrow(rows), unit="who", max_groups=2).group_by("city", keys=keys)
        query = held.quantile("amount", 0.5, (-20, 100))
        found = query.shape.table.backend.to_pyarrow(query._expression(None)).to_pylist()
        assert all(abs(row["x"]) <= query._value.most for row in found)
        return Counter({(row["k0"], row["x"]): row["n"] for row in found})

    table = others(rng)
    before, after = numbers(table), numbers(table + nasty(rng))
    more = after - before
    assert not before - after
    assert more.total() <= 2
    assert len({key for key, _ in more}) == more.total() > 0


def test_a_row_that_is_a_person():
    rng = np.random.default_rng(6)
    table = others(rng)
    before = statistics(table, CITIES, 9, 9, unit="row")
    for row in [(7, "Basel", odd, 2**62) for odd in (None, math.nan, -math.inf, 1e300)]:
        for term, _, most, groups in moved(table, [row], CITIES, 9, 9, unit="row", before=before):
            assert most <= term.most(1), term
            assert groups <= 1


def test_the_noise_is_that_of_the_stated_sensitivity():
    """Scale = groups x clip / epsilon, no more and no less, for every term."""
    held = Table(arrow([]), unit="who", max_groups=3, max_rows=4, lost=0)
    for aggregate in ALL.values():
        query = held.group_by("city", keys=CITIES).aggregate(it=aggregate)
        if aggregate is not ALL["found"]:
            found = query._prices(0.5, 0.0)
            share = len(found.terms)
            for term, noise in found.terms.items():
                assert math.isclose(noise.spread, 3 * term.most(4) * share / 0.5, rel_tol=1e-12)
    total = held.group_by("city", keys=CITIES).sum("amount", (0, 100))
    (noise,) = total._prices(0.5, 0.0).terms.values()
    grid = total.aggregates["sum(amount)"].grid(total.shape.table)
    assert noise.spread * grid.spacing <= 3 * 4 * 100 / 0.5


def unbounded(self, person, rows):
    return person.rows


def one_sided(self, person, rows):
    from tacit.query.engines import ibis

    return ibis().least(person.sum(self.of), self._ends(rows)[1])


MUTANTS = {"rows": (terms.Rows, unbounded), "total": (terms.Total, one_sided)}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch):
    kind, wrong = MUTANTS[name]
    monkeypatch.setattr(kind, "bounded", wrong)
    rng = np.random.default_rng(7)
    person = nasty(rng) + [(10_000, city, -1e300, 3) for city in CITIES for _ in range(200)]
    found = moved(others(rng), person, CITIES, 2, 2)
    assert any(most > term.most(shape.rows) for term, shape, most, _ in found)


def test_mutants_of_ranks_are_caught(monkeypatch):
    """Without ranks a person counts in every group, whether groups are ranked or rows."""
    from tacit.query import bounding

    rng = np.random.default_rng(8)
    table, person = others(rng), nasty(rng)
    groups, rows = bounding._over_groups, bounding.kept_rows

    def caught(lost):
        return any(n > shape.groups for _, shape, _, n in moved(table, person, CITIES, 2, 2, lost=lost))

    assert not caught(True)
    assert not caught(False)
    monkeypatch.setattr(
        bounding, "_over_groups", lambda r, s, *a, lost: groups(r, replace(s, max_groups=99), *a, lost=lost)
    )
    monkeypatch.setattr(bounding, "kept_rows", lambda shape, given: rows(replace(shape, max_groups=99), given))
    assert caught(True)
    assert caught(False)


@pytest.mark.parametrize("hashes", ["own", "all equal"])
@pytest.mark.parametrize(("keys", "max_groups"), [(CITIES, 2), (CITIES, 9), (None, 3)])
def test_ranking_rows_first_gives_the_statistics_of_ranking_groups(keys, max_groups, hashes, monkeypatch):
    """Every term, with odd values and many rows; where all hashes are equal the keys decide."""
    from tacit.query import ranking
    from tacit.query.values import whole

    rng = np.random.default_rng(11)
    table = others(rng) + nasty(rng)
    if hashes == "all equal":
        monkeypatch.setattr(ranking, "_hash", lambda shape, columns: whole(0))
    shape, rows_first, _ = statistics(table, keys, max_groups, 2, lost=False)
    assert shape.rows_first
    assert rows_first == statistics(table, keys, max_groups, 2)[1]


def test_a_mutant_that_bounds_nobody_alone_is_caught(monkeypatch):
    """Rows are added up together only of people who have at most `max_rows` in the group."""
    from tacit.query import bounding
    from tacit.query.engines import ibis

    def together(shape, given):
        found = kept(shape, given)
        return found.mutate(u=ibis().null(found["u"].type()))

    rng = np.random.default_rng(12)
    kept = bounding.kept_rows
    monkeypatch.setattr(bounding, "kept_rows", together)
    found = list(moved(others(rng), nasty(rng), CITIES, 2, 2, lost=False))
    assert any(most > term.most(shape.rows) for term, shape, most, _ in found)


@pytest.mark.parametrize("listed", [[0, 1], [0, 3, 255], [-1, 0, 2], [0, 2**15], [0, 2**31], [-(2**63), 0, 2**63 - 1]])
def test_whole_keys_of_any_size_keep_their_rows(listed):
    """Listed keys are sorted in as few bits as hold the list; other keys are left out whatever they are."""
    import pyarrow

    kinds = [*listed, 7, 2**40, -(2**40), 2**63 - 1]
    table = pyarrow.table({"who": np.arange(len(kinds)), "kind": np.array(kinds, dtype=np.int64)})
    query = Table(table, unit="who", lost=0).group_by("kind", keys=listed).count()
    exact = totals(query.shape, query._terms(query.aggregates), lost=False)
    assert query.shape.rows_first
    assert exact.people.tolist() == [kinds.count(key) for key in listed]


@pytest.mark.parametrize("keys", [None, [3, 1_000_000]])
def test_sums_of_millions_of_people_are_exact(keys):
    """Odd whole numbers whose sum is beyond 2^53: double precision would round it."""
    import pyarrow

    rows = 5_000_000
    amounts = np.full(rows, 2**31 - 1, dtype=np.int64)
    amounts[0] = 2
    table = pyarrow.table({"who": np.arange(rows), "kind": np.full(rows, 3, dtype=np.int64), "x": amounts})
    query = Table(table, unit="who", lost=0).group_by("kind", keys=keys).sum("x", (0, 2**31))
    exact = totals(query.shape, query._terms(query.aggregates), lost=False)
    assert query.shape.rows_first
    assert dict(zip(exact.keys, exact.people.tolist(), strict=True))[(3,)] == rows
    (sums,) = (found for term, found in exact.terms.items() if isinstance(term, terms.Total))
    assert dict(zip(exact.keys, sums.tolist(), strict=True))[(3,)] == int(amounts.sum())
