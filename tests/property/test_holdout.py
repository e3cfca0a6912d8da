"""Which records are trained on: one record, or one user, more or less changes at most that one."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Adjacency
from tacit.data import Records
from tacit.study.holdout import in_value_order, training_rows

rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 6)), min_size=2, max_size=60)


def table(some, *, users=False):
    """Records of few different values, so that many are equal; the third number says whose each is."""
    x, y, whose = (np.array(column) for column in zip(*some, strict=True))
    return Records(x[:, None].astype(np.float32), y.astype(np.int64), unit=whose if users else None)


def trained(some, **more):
    """Trained-on records as a collection."""
    data = table(some, **more)
    kept = training_rows(data, "add-remove")
    return Counter((float(x[0]), int(y)) for x, y in zip(data.x[kept], data.y[kept], strict=True))


def apart(one, other):
    return (one - other).total() + (other - one).total()


def by_place(records, adjacency):
    """The mutant: every tenth place is held out, whatever neighbours are."""
    return np.arange(len(records.x)) % 10 != 0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(rows, st.integers(0, 59))
def test_one_record_less_is_at_most_one_record_less_to_train_on(some, place):
    less = some[: place % len(some)] + some[place % len(some) + 1 :]
    assert apart(trained(some), trained(less)) <= 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(rows)
def test_one_user_less_takes_no_record_of_others_away(some):
    gone = some[0][2]
    less = [each for each in some if each[2] != gone]
    if not less:
        return
    both, one = table(some, users=True), table(less, users=True)
    with_, without = training_rows(both, "add-remove"), training_rows(one, "add-remove")
    before = Counter(tuple(sorted(map(float, both.x[(both.unit == k) & with_, 0]))) for k in set(both.unit) - {gone})
    after = Counter(tuple(sorted(map(float, one.x[(one.unit == k) & without, 0]))) for k in set(one.unit))
    # a user of equal records may take the place of the one who left
    assert apart(before, after) <= 2
    whole = [set(with_[both.unit == k]) for k in set(both.unit)]
    assert all(len(fate) == 1 for fate in whole)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows, st.integers(0, 59))
def test_in_the_order_of_values_one_record_less_leaves_all_others_in_their_places(some, place):
    """Equal records stand at several places of a file: kept in its order, more than one of them could move."""
    less = some[: place % len(some)] + some[place % len(some) + 1 :]
    sequences = []
    for each in (some, less):
        data = table(each)
        kept = in_value_order(data, training_rows(data, "add-remove"))
        sequences.append([(float(data.x[k, 0]), int(data.y[k])) for k in kept])
    longer, shorter = sequences
    cut = [longer[:k] + longer[k + 1 :] for k in range(len(longer))]
    assert shorter == longer or shorter in cut


def test_the_order_of_the_file_tells_nothing():
    some = [(k % 4, k % 2, 0) for k in range(200)]
    mixed = [some[k] for k in np.random.default_rng(0).permutation(200)]
    assert trained(some) == trained(mixed)


def test_by_places_many_records_would_change():
    some = [(k % 7, k % 2, 0) for k in range(200)]
    data, less = table(some), table(some[1:])
    one, other = (Counter(each.x[by_place(each, None), 0].tolist()) for each in (data, less))
    assert apart(one, other) > 1
    assert apart(trained(some), trained(some[1:])) <= 1


@pytest.mark.parametrize("adjacency", ["replace", "zero-out", Adjacency.REPLACE])
def test_where_nobody_moves_every_tenth_place_is_held_out(adjacency):
    data = table([(k % 4, k % 2, k // 3) for k in range(60)])
    assert np.array_equal(training_rows(data, adjacency), np.arange(60) % 10 != 0)
    own = table([(k % 4, k % 2, 99 - k // 3) for k in range(60)], users=True)
    assert np.array_equal(training_rows(own, adjacency), np.arange(60) // 3 % 10 != 0)


def test_about_one_in_ten_is_held_out_also_where_all_are_alike():
    for some in ([(1, 1, 0)] * 5000, [(k, k % 2, 0) for k in range(5000)]):
        assert 400 < 5000 - training_rows(table(some), "add-remove").sum() < 600
