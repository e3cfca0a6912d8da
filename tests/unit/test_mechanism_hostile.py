"""Inputs that nobody expects: mixed types, numbers beyond floats, generators, keys that JSON cannot hold."""

import contextlib
import datetime
import time
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import torch

import mechanism_ledgers as ledgers
import tacit
from mechanism_releases import RELEASES, REPLACE_ONLY
from tacit import mechanism
from tacit.core import Adjacency, BadInput
from tacit.events import Laplace
from tacit.ledger import Ledger
from tacit.mechanism import aggregation
from tacit.mechanism.choices import Distances
from tacit.mechanism.columns import items_of
from tacit.mechanism.inputs import clamped, float_of, numbers, off_grid, on_grid, records, step_of
from tacit.mechanism.numeric import Grid


class Rude:
    def __float__(self):
        raise RuntimeError("no")

    def __hash__(self):
        raise RuntimeError("no")


class RudeInt(int):
    def __float__(self):
        raise RuntimeError("no")


class RudeFloat(float):
    def as_integer_ratio(self):
        raise RuntimeError("no")


ODD = [True, 7, 2.5, 2**60, 2**63, -1, 10**400, "x", "3", b"2", 1j, None, [1], (2, 3), {}, Decimal("sNaN"), Rude()]
ODD += [np.longdouble(1), np.int64(2**60), np.timedelta64(1, "s"), np.datetime64("2026-01-01"), Fraction(1, 3)]
ODD += [RudeInt(5), RudeFloat(2.5), np.array([1, 2]), np.array([[4.0]])]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_one_person_s_type_changes_nobody_else_s_value(kind):
    """An array of one type turned True into text beside a word, and every number into nothing beside a complex one."""
    bounds = (0.0, 2.0**70)
    alone = [clamped(kind([item]), bounds, missing=0.5)[0] for item in ODD]
    together = clamped(kind(ODD), bounds, missing=0.5)
    assert together.tolist() == alone
    for place in range(len(ODD)):
        rest = ODD[:place] + ODD[place + 1 :]
        assert clamped(kind(rest), bounds, missing=0.5).tolist() == alone[:place] + alone[place + 1 :]


def test_a_value_counts_alike_in_columns_of_any_type():
    """One missing value turns a column of whole numbers into one of floats: the others' values must not move."""
    bounds = (0.0, 2.0**70)
    for value in (3, 2**53 + 1, 2**60 + 1, 2**63 - 1):
        columns = [np.array([value]), np.array([value], dtype=float), np.array([value], dtype=object), [value]]
        assert len({clamped(column, bounds)[0] for column in columns}) == 1


@pytest.mark.parametrize("start", [0, 2**53 - 1, 2**53, 2**60, 2**62, 2**63 - 1, 2**64 - 1, 2**80])
def test_numbers_one_apart_stay_one_apart(start):
    """Whatever holds them; 2^64 - 1 used to count as 2^53, and 2^64 as itself."""

    def makers(value):
        yield from (value, [value], [value, 0.5], Decimal(value), [Fraction(value)], np.array([value], dtype=object))
        if -(2**63) <= value < 2**63:
            yield from (np.int64(value), np.array([value]), [np.int64(value), 0.5])
        elif 0 <= value < 2**64:
            yield np.array([value], dtype=np.uint64)

    for sign in (1, -1):
        places = set()
        for value in (sign * start, sign * (start + 1)):
            found = {int(on_grid(numbers(given), Fraction(1, 2)).ravel()[0]) for given in makers(value)}
            assert found == {2 * value}
            places |= found
        assert len(places) == 2


def test_one_number_is_put_on_the_grid_like_an_array_of_one():
    draws = np.random.default_rng(1)
    scaled = draws.uniform(-9, 9, 200) * 2.0 ** draws.integers(-60, 60, 200)
    odd = [0.0, -0.0, 5e-324, 1.7976931348623157e308, -1e308, 0.5, -0.5, 1.5, float("nan"), float("inf"), -float("inf")]
    odd += [2**60, -(2**60) - 1, 2**1000, 2**1000 + 5, 10**400, True, np.float32(0.3), None, "x", Decimal("0.3")]
    for value in [*odd, *scaled.tolist()]:
        for spacing in (Fraction(1), Fraction(1, 1024), Fraction(8), Fraction(1, 2**80)):
            step = int(on_grid(numbers(value), spacing).item())
            assert step_of(value, spacing) == step
            assert float_of(step, spacing) == off_grid(np.array(step, dtype=object), spacing)


@pytest.mark.parametrize(
    "release",
    [
        lambda **k: mechanism.laplace(1.0, sensitivity=1, **k),
        lambda **k: mechanism.laplace(1, sensitivity=1, **k),
        lambda **k: mechanism.gaussian(1.0, sensitivity=1, delta=1e-14, **k),
        lambda **k: mechanism.gaussian(1, sensitivity=2**40, delta=1e-6, **k),
        lambda **k: mechanism.above_threshold([1.0], 1, sensitivity=1, **k),
        lambda **k: mechanism.unknown_keys({"a": 1}, delta=1e-6, **k),
        lambda **k: mechanism.clipping_bound([1.0], **k),
        lambda **k: mechanism.subsample_and_aggregate([1.0], len, blocks=1, bounds=(0, 1), **k),
        lambda **k: mechanism.smooth_median([1.0], bounds=(0, 1), delta=1e-6, **k),
        lambda **k: mechanism.Thresholdout(size=9, threshold=0.1, budget=1, **k),
    ],
)
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_paid_for(release):
    ledger = ledgers.Keeping(adjacency="replace")
    with pytest.raises(BadInput):
        release(epsilon=1e-15, ledger=ledger)
    assert not ledger.charged


@pytest.mark.parametrize("name", sorted(set(RELEASES) - {"unknown_keys", "skellam", "exponential_range"}))
def test_a_generator_is_read_once_and_counts_like_its_list(name):
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    one, other = (RELEASES[name](given, rng=3) for given in (values, (value for value in values)))
    assert np.array_equal(one.value, other.value)


def test_queries_that_can_be_stopped_are_not_asked_twice_for_one_charge():
    """Whoever stops the iterator, and asks again under the key, would learn of fresh noise each time."""
    ledger = ledgers.Keeping()
    with pytest.raises(BadInput, match="known length"):
        mechanism.above_threshold(iter([1.0, 2.0]), 1, sensitivity=1, epsilon=1, ledger=ledger, key="a")
    assert not ledger.charged
    mechanism.above_threshold(iter([1.0, 2.0]), 1, sensitivity=1, epsilon=1, ledger=ledger)


class Unspelt:
    """A key that has no text."""

    def __repr__(self):
        raise SystemExit


def nested(depth):
    word = ()
    for _ in range(depth):
        word = (word,)
    return word


WORDS = [
    Unspelt(),
    datetime.date(2026, 1, 2),
    datetime.datetime(2026, 1, 2, 3),
    Decimal("1.50"),
    b"x",
    float("inf"),
    None,
    1.5,
]
WORDS += [("a", datetime.date(2026, 1, 1)), frozenset([1]), 1 + 2j, True, np.int64(7), 10**5000, "\udc80", "\u00e4"]
WORDS += [np.datetime64("2026-01-02"), np.datetime64("2026-01-02", "ns"), np.timedelta64(3, "D"), np.bytes_(b"x")]
WORDS += [np.float64("nan"), np.longdouble(1.5), np.complex128(1j), ("a", np.datetime64("2026-01-02"))]
TEXTS = (Unspelt, frozenset, complex, np.timedelta64, np.longdouble)


def test_a_key_that_is_nested_deeply_is_stored():
    ledger = ledgers.Keeping()
    answers = [
        mechanism.unknown_keys({nested(3000): 900}, epsilon=1, delta=1e-6, ledger=ledger, key="a", rng=seed).text()
        for seed in (1, 2)
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: type(word).__name__)
def test_every_key_can_be_stored_and_comes_back_the_same(word):
    """An answer that cannot be stored is drawn again for one charge."""
    ledger = ledgers.Keeping()
    answers = [
        mechanism.unknown_keys({word: 900}, epsilon=1, delta=1e-6, ledger=ledger, key="a", rng=seed) for seed in (1, 2)
    ]
    assert answers[0].text() == answers[1].text()
    assert len(answers[0].value) == 1
    if not isinstance(word, TEXTS) and word == word and "ns" not in str(getattr(word, "dtype", "")):
        assert list(answers[0].value) == [word]


def test_an_answer_of_more_numbers_than_a_file_may_hold_is_kept(monkeypatch):
    """It was charged and kept, and nobody could read it."""
    monkeypatch.setattr("tacit.core.json_text.MOST", 40)
    ledger = ledgers.Keeping()
    for seed in (1, 2):
        found = mechanism.laplace(np.zeros(100), sensitivity=1, epsilon=1, ledger=ledger, key="a", rng=seed)
    assert found.value.shape == (100,)


@pytest.mark.parametrize("name", sorted(RELEASES))
def test_a_confidence_is_checked_before_the_charge_and_kept_as_a_float(name):
    """Three releases paid first; twelve failed to keep the answer at a confidence of numpy's float32."""
    ledger = ledgers.Keeping(adjacency="replace")
    for wrong in (1.5, 0.0, 1.0, "x", None):
        with pytest.raises(BadInput, match="confidence must be"):
            RELEASES[name]([1.0, 2.0, 3.0], ledger=ledger, key="a", confidence=wrong)
    assert not ledger.charged
    for kind in (np.float32, Fraction, Decimal, np.array):
        found = RELEASES[name]([1.0, 2.0, 3.0], ledger=ledger, key=kind.__name__, confidence=kind(0.5))
        assert type(found.confidence) is float


@pytest.mark.parametrize("name", sorted(REPLACE_ONLY))
def test_releases_that_show_the_number_of_records_refuse_add_remove(name):
    assert RELEASES[name]([1.0, 2.0], rng=1).adjacency is Adjacency.REPLACE
    ledger = ledgers.Keeping(adjacency="add-remove")
    for terms in ({"adjacency": "add-remove"}, {"ledger": ledger}):
        with pytest.raises(BadInput, match="add-remove"):
            RELEASES[name]([1.0, 2.0], rng=1, **terms)
    assert not ledger.charged


def test_a_thresholdout_is_for_a_public_number_of_records():
    terms = {"size": 9, "threshold": 0.1, "epsilon": 1.0, "budget": 1}
    assert mechanism.Thresholdout(**terms, rng=1).adjacency is Adjacency.REPLACE
    with pytest.raises(BadInput, match="add-remove"):
        mechanism.Thresholdout(**terms, adjacency="add-remove")


def test_a_clipping_bound_is_near_the_data():
    """100 values below 50: 64 and a few doublings; all larger powers used to tie, so that 2^52 was as likely as 64."""
    values = np.random.default_rng(1).uniform(30, 50, 100)
    found = [mechanism.clipping_bound(values, epsilon=1.0, rng=seed).value for seed in range(60)]
    assert np.median(found) == 64
    assert sorted(found)[-3] <= 2**11


def test_the_number_of_values_within_a_clipping_bound_is_off_by_no_more_than_it_says():
    """200 releases at confidence 0.9: a right bound is broken more than 45 times with a chance below 1e-6."""
    values, broken = np.exp2(np.random.default_rng(2).normal(0, 3, 100)), 0
    for seed in range(200):
        answer = mechanism.clipping_bound(values, epsilon=0.5, share=0.6, confidence=0.9, rng=seed)
        off = float(answer.notes[1].split("share n - ")[1].split()[0])
        within, half = ((values <= bound).sum() for bound in (answer.value, answer.value / 2))
        broken += within < 60 - off or half > 60 + off
    assert broken <= 45
    assert off < 60


def test_rows_of_several_columns_are_one_person_each():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": np.arange(60.0), "b": 1.0})
    for values in (table, table.to_numpy()):
        with pytest.raises(BadInput, match="One column"):
            mechanism.median(values, bounds=(0, 1), epsilon=1)
    assert records(table[["a"]]).shape == (60,)
    answer = mechanism.subsample_and_aggregate(
        table, lambda rows: rows["a"].mean(), blocks=3, bounds=(0, 60), epsilon=50.0, rng=1
    )
    assert answer.value == pytest.approx(29.5, abs=8)


@pytest.mark.parametrize("values", [{"a": 1}, np.zeros((3, 2)), np.zeros(3, np.longdouble)], ids=["dict", "2", "long"])
@pytest.mark.parametrize("name", ["median", "quantile", "clipping_bound", "auction", "smooth_median"])
def test_what_is_no_column_of_numbers_is_refused_before_it_is_paid_for(name, values):
    ledger = ledgers.Keeping(adjacency="replace")
    with pytest.raises(BadInput):
        RELEASES[name](values, ledger=ledger)
    assert not ledger.charged


@pytest.mark.parametrize("name", ["laplace", "gaussian", "exponential", "noisy_max", "top"])
def test_long_numbers_are_refused_before_they_are_paid_for(name):
    ledger = ledgers.Keeping()
    for values in (np.zeros(4, np.longdouble), {"a": 1}):
        with pytest.raises(BadInput):
            RELEASES[name](values, ledger=ledger)
    assert not ledger.charged


def test_prices_that_are_a_column_of_the_bids_are_refused():
    pandas = pytest.importorskip("pandas")
    bids = pandas.Series([1.0, 2.0, 3.0])
    with pytest.raises(BadInput, match="bids themselves"):
        mechanism.auction(bids, bids.iloc[1:], epsilon=1.0)


TERMS = {
    "laplace": lambda e, s: mechanism.laplace([1.0, 2.0], sensitivity=s, epsilon=e, rng=1),
    "gaussian": lambda e, s: mechanism.gaussian(5, sensitivity=s, epsilon=e, delta=1e-6, rng=1),
    "skellam": lambda e, s: mechanism.skellam(5, sensitivity=s, epsilon=e, delta=1e-6, rng=1),
    "exponential": lambda e, s: mechanism.exponential([1, 2], sensitivity=s, epsilon=e, rng=1),
    "noisy_max": lambda e, s: mechanism.noisy_max([1, 2], sensitivity=s, epsilon=e, noise="laplace", rng=1),
    "top": lambda e, s: mechanism.top([1, 2, 3], 2, sensitivity=s, epsilon=e, rng=1),
    "quantile": lambda e, s: mechanism.quantile([1, 2], 0.5, bounds=(0, 9), epsilon=e, rng=1),
    "clipping_bound": lambda e, s: mechanism.clipping_bound([1, 2], epsilon=e, rng=1),
    "above_threshold": lambda e, s: mechanism.above_threshold([1, 2], 1, sensitivity=s, epsilon=e, rng=1),
    "unknown_keys": lambda e, s: mechanism.unknown_keys({"a": 90}, epsilon=e, delta=1e-6, rng=1),
    "smooth_median": lambda e, s: mechanism.smooth_median([1, 2], bounds=(0, 9), epsilon=e, delta=1e-6, rng=1),
    "propose": lambda e, s: mechanism.propose_test_release(
        [1] * 99, proposal=s, bounds=(0, 9), epsilon=e, delta=1e-6, rng=1
    ),
    "mean": lambda e, s: mechanism.subsample_and_aggregate([1.0], max, blocks=2, bounds=(0, 9), epsilon=e, rng=1),
    "middle": lambda e, s: mechanism.subsample_and_aggregate(
        [1.0], max, blocks=2, bounds=(0, 9), epsilon=e, aggregate="median", rng=1
    ),
    "auction": lambda e, s: mechanism.auction([1, 2], [1, 2], epsilon=e, rng=1),
    "exponential_range": lambda e, s: mechanism.exponential_range(
        [1, 2], [3.0], bounds=(0, 9), sensitivity=s, epsilon=e, rng=1
    ),
    "randomized_response": lambda e, s: mechanism.randomized_response([0, 1], epsilon=e, rng=1),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64, Fraction, Decimal])
@pytest.mark.parametrize("name", TERMS)
def test_parameters_count_alike_whatever_type_they_have(name, kind):
    """numpy's whole numbers overflow inside fractions: the smooth median had noise of a wrong scale at np.int64(1)."""
    plain = TERMS[name](1, 1)
    for terms in ((kind(1), 1), (1, kind(1))):
        other = TERMS[name](*terms)
        assert np.array_equal(plain.value, other.value)
        assert plain.event == other.event


def test_distances_between_whole_numbers_are_exact():
    """Products of numpy's whole numbers wrap around without a word."""
    scale = Fraction(0.1) / Fraction(0.3)
    for scores in (np.array([2**61, 0]), np.array([2**61, 0], dtype=object), [2**61, 0]):
        assert Distances.of(scores, scale).exact(1) == 2**61 / scale


def test_odd_parameters_and_responses_are_answered():
    assert mechanism.skellam(5, sensitivity=1, epsilon=800.0, delta=1e-6, rng=1).value == 5
    shares = mechanism.estimate([None, [1], "a", 3], epsilon=5.0, categories=[None, "a"]).value
    assert shares.sum() == pytest.approx(1)


class Panic(BaseException):
    """What libraries in Rust raise."""


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, Panic])
def test_a_function_that_leaves_on_one_person_tells_nothing(error):
    def leaves(block):
        raise error

    answer = mechanism.subsample_and_aggregate([1.0], leaves, blocks=2, bounds=(0, 10), epsilon=50.0, rng=2)
    assert answer.value == pytest.approx(5, abs=answer.error)


def test_a_person_at_the_keyboard_can_interrupt_a_function():
    def interrupted(block):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mechanism.subsample_and_aggregate([1.0], interrupted, blocks=2, bounds=(0, 10), epsilon=50.0, rng=1)


def test_no_query_raises_after_the_charge():
    """A query that is no number counts as 0; it was seen only while drawing, after the charge."""
    ledger = ledgers.Plain()
    for item in ODD:
        answer = mechanism.above_threshold([item, 1e6], 1000, sensitivity=1, epsilon=50, ledger=ledger, rng=1)
        assert answer.value in ((0,), (1,))
    assert [step_of(item, Fraction(1)) for item in (RudeInt(5), RudeFloat(2.5), np.array([[4.0]]), [1, 2], {})] == [
        5, 3, 4, 0, 0
    ]  # fmt: skip
    assert step_of(np.longdouble(2) ** 60 + 1, Fraction(1)) == 2**60 + 1


def test_an_answer_that_raises_is_none_of_the_categories():
    shares = mechanism.randomized_response([0] * 500 + [Rude()], epsilon=20, rng=1).value
    assert shares[0] > 0.99


def test_what_a_mask_hides_is_no_number():
    """numpy keeps the values below a mask and computes with them: a bound of 512 came of a hidden 300."""
    masked = np.ma.array([1.0, 2.0, 300.0], mask=[False, False, True])
    assert clamped(masked, (0, 10), missing=5).tolist() == [1, 2, 5]
    assert (
        mechanism.clipping_bound(np.ma.array([1.0] * 99 + [300.0], mask=[0] * 99 + [1]), epsilon=1e3, rng=1).value <= 2
    )
    for held in (masked, np.ma.array([1, 2, 300], mask=[False, False, True])):
        released = mechanism.laplace(held, sensitivity=1, epsilon=1e4, rng=1).value
        assert type(released) is np.ndarray
        assert released == pytest.approx([1, 2, 0], abs=0.01)


COLUMNS = {
    "pandas Int64": lambda values: pandas.Series(values, dtype="Int64"),
    "pandas Arrow": lambda values: pandas.Series(values, dtype="uint8[pyarrow]"),
    "pandas category": lambda values: pandas.Series(values, dtype="category"),
    "pandas boolean": lambda values: pandas.Series([v if v is None else v > 1 for v in values], dtype="boolean"),
    "pandas table": lambda values: pandas.DataFrame({"n": pandas.Series(values, dtype="Int64")}),
    "polars": lambda values: polars.Series(values, dtype=polars.Int32),
    "polars table": lambda values: polars.DataFrame({"n": values, "m": [1] * len(values)}),
    "Arrow": pyarrow.array,
    "Arrow booleans": lambda values: pyarrow.array([v if v is None else v > 1 for v in values]),
    "Arrow chunks": lambda values: pyarrow.chunked_array([values]),
    "Arrow dictionary": lambda values: pyarrow.array(values, pyarrow.int64()).dictionary_encode(),
    "Arrow table": lambda values: pyarrow.table({"n": values}),
    "polars 128 bits": lambda values: polars.Series(values, dtype=polars.Int128),
    "polars objects": lambda values: polars.Series(values, dtype=polars.Object),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_missing_number_does_not_change_what_a_column_is(name):
    """Libraries make floats of whole numbers, or raise, where one is missing: everybody would see that one is."""
    whole, missing = (
        mechanism.laplace(COLUMNS[name](values), sensitivity=1, epsilon=1e5, rng=1)
        for values in ([3, 2, 2**7], [3, 2, None])
    )
    assert whole.event == missing.event
    assert whole.value.dtype == missing.value.dtype
    assert whole.value.shape == missing.value.shape
    assert np.ravel(missing.value)[-2 if name == "polars table" else -1] == pytest.approx(0, abs=0.01)
    if "table" not in name:  # a median is of one column
        assert mechanism.median(COLUMNS[name]([3, 2, None]), bounds=(0, 9), epsilon=1e3, rng=1).value < 4


def test_a_missing_record_is_at_the_lower_bound_in_every_kind_of_column():
    for name in sorted(set(COLUMNS) - {"pandas boolean", "pandas Arrow", "Arrow booleans"}):
        if "table" not in name:
            assert clamped(COLUMNS[name]([3, -2, None]), (-5, 5)).tolist() == [3, -2, -5], name


def test_a_lazy_frame_is_refused_and_a_missing_time_is_no_number():
    """Without rows there is nothing to release, and noise alone would look like an answer."""
    with pytest.raises(BadInput, match="lazy frame"):
        mechanism.laplace(polars.LazyFrame({"n": [500]}), sensitivity=1, epsilon=1.0, rng=1)
    assert mechanism.laplace(pandas.NaT, sensitivity=1, epsilon=1e4, rng=1).value == pytest.approx(0, abs=0.01)


def far(kind, value):
    """A column of times, the last of which Python has no object for where `value` is large."""
    held = pyarrow.array([0, 86_400_000, value], pyarrow.int64()).view(kind)
    return [held, pyarrow.chunked_array([held]), pandas.Series(pandas.arrays.ArrowExtensionArray(held))]


DATES = pyarrow.array([1, 2, 2**31 - 1], pyarrow.int32()).cast(pyarrow.date32())
FAR = [
    DATES,
    polars.Series([1, 2, -(10**6)], dtype=polars.Int32).cast(polars.Date),
    polars.Series([1, 2, 2**62]).cast(polars.Datetime("ms")),
    polars.Series([1, 2, 2**62]).cast(polars.Datetime("us", "Asia/Kolkata")),
    polars.Series([1, 2, 2**62]).cast(polars.Duration("ms")),
    *far(pyarrow.timestamp("s"), 2**62),
    *far(pyarrow.timestamp("us", "Asia/Kolkata"), -(2**62)),
    *far(pyarrow.duration("s"), 2**62),
    *far(pyarrow.date64(), 2**62),
]


@pytest.mark.parametrize("column", FAR, ids=range(len(FAR)))
def test_a_time_that_python_does_not_have_is_nobodys_and_no_panic(column, capfd):
    """A library raises at such a time, polars with a panic on the terminal: both tell of one person."""
    *known, last = items_of(column)
    assert last is None
    assert None not in known
    answer = mechanism.randomized_response(column, categories=known, epsilon=30.0, rng=1)
    assert answer.value.shape == (2,)
    mechanism.median(column, bounds=(0, 1), epsilon=1.0, rng=1)
    assert capfd.readouterr().err == ""


def test_a_list_of_times_that_python_does_not_have_is_nobodys(capfd):
    times = polars.Series([1, 2, 2**62]).cast(polars.Datetime("ms")).implode()
    assert items_of(times) == [None]
    assert capfd.readouterr().err == ""


def test_lengths_of_time_are_no_whole_numbers():
    for value in ([np.timedelta64(5, "D")], [1, np.timedelta64(5, "D")]):
        assert mechanism.laplace(value, sensitivity=1, epsilon=1e4, rng=1).value[-1] == pytest.approx(0, abs=0.01)


def test_utilities_of_a_range_are_read_one_by_one():
    """In an array of floats 2^53 + 1 becomes 2^53: utilities moved by 2 where they are said to move by 1."""
    for seed in range(20):
        found = mechanism.exponential_range(
            [2**53, 2**53 + 1, 0.5], [4, 8], bounds=(0, 12), sensitivity=1, epsilon=200, monotone=True, rng=seed
        )
        assert 4 <= found.value < 8


class RudeCount:
    def __int__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("odd", [RudeCount(), np.ma.masked, float("nan"), None, "x"])
def test_a_number_of_people_that_is_none_counts_as_0_whatever_it_raises(odd):
    counts = {"many": 10_000, "odd": odd}
    assert set(mechanism.unknown_keys(counts, epsilon=1.0, delta=1e-6, rng=1).value) == {"many"}


def test_what_is_no_list_is_refused_before_it_is_paid_for():
    ledger = ledgers.Plain()
    more = {"epsilon": 1.0, "ledger": ledger}
    for call in (
        *(lambda q=q: mechanism.above_threshold(q, 1.0, sensitivity=1.0, **more) for q in (5, np.array(1.0), "12")),
        *(
            lambda d=d: mechanism.subsample_and_aggregate(d, np.mean, blocks=3, bounds=(0, 1), **more)
            for d in (5, np.array(1.0))
        ),
        *(lambda p=p: mechanism.auction([1.0], p, **more) for p in (["a"], [10**400], [[1], [2, 3]], {"a": 1}, [1j])),
        lambda: mechanism.unknown_keys({"a": 5}, delta=5e-324, keys_per_person=3, **more),
    ):
        with pytest.raises(BadInput):
            call()
    assert not ledger.charged


def test_a_delta_next_to_1_is_calibrated_like_one_a_little_smaller():
    for value in (1, 1.0):
        assert mechanism.gaussian(value, sensitivity=1, epsilon=1.0, delta=1 - 2**-53, rng=1).error >= 0


@pytest.mark.filterwarnings("error")
def test_scores_that_are_farther_apart_than_floats_reach_are_chosen_in_silence():
    """One person's score warned of an overflow, after the charge."""
    for noise in ("laplace", "gumbel", "exponential"):
        found = mechanism.noisy_max([1.0, 2.5, -1e300], sensitivity=1e-10, epsilon=50, noise=noise, rng=1)
        assert found.value == 1


@pytest.mark.parametrize("epsilon", [1e-100, 1e-20, 1e-9, 1.0, 800.0])
def test_responses_are_estimated_at_any_epsilon(epsilon):
    found = mechanism.randomized_response([0, 1, 1], epsilon=epsilon, categories=3, rng=1)
    assert np.isfinite(found.value).all()
    assert np.isfinite(found.error)
    assert sum(found.value) == pytest.approx(1, abs=1e-9 * max(1, np.abs(found.value).max()))


@pytest.mark.parametrize("beside", [np.array([0.5]), np.array([1], dtype=np.uint64)])
def test_whole_numbers_beside_a_column_of_another_kind_keep_their_last_digit(beside) -> None:
    def steps(grid, number):
        return int(grid.steps(frame(number)).ravel()[0])

    def frame(number):
        return pandas.DataFrame({"n": np.array([number], dtype=np.int64), "other": beside})

    grid = Grid.of(frame(0), 1.0)
    middle = steps(grid, 2**53 + 2)
    for number in (2**53 + 1, 2**53 + 3):
        assert abs(steps(grid, number) - middle) <= grid.l1(1.0)


@pytest.mark.parametrize("key", ["", 0])
def test_an_empty_key_is_refused_before_the_charge(key, tmp_path) -> None:
    ledger = Ledger.create(str(tmp_path / "budget.db"), epsilon=5.0, delta=0.0, unit="person")
    with pytest.raises(BadInput, match="key must be"):
        mechanism.laplace(5, sensitivity=1, epsilon=1.0, key=key, ledger=ledger)
    assert not ledger.entries()


def test_rounds_of_an_epsilon_below_all_rounding_are_plain():
    """The search for more noise never ended: a computed epsilon is never as small as 1e-29."""
    answer = mechanism.top([1.0, 0.0], 2, sensitivity=1, epsilon=1e-29, delta=1e-300, rng=1)
    assert answer.event.event.epsilon == 5e-30


@pytest.mark.parametrize("bounds", [(-8e307, 8e307), (1e308, 1.5e308)])
def test_a_mean_of_blocks_near_the_largest_float_is_released(bounds):
    """The noisy mean was beyond all floats: an error, in some cases after the charge."""
    for seed in range(20):
        answer = mechanism.subsample_and_aggregate([bounds[1]], max, blocks=1, bounds=bounds, epsilon=0.1, rng=seed)
        assert np.isfinite(answer.value)
        assert np.isfinite(answer.error)


SILENT = [np.complex128(1 + 1j), np.complex64(1), np.array(5 + 1j), np.ma.masked, Decimal("sNaN"), None, "x"]


@pytest.mark.parametrize("odd", SILENT, ids=str)
@pytest.mark.parametrize("release", ["median", "clipping_bound", "laplace", "above_threshold", "exponential", "keys"])
def test_no_value_makes_a_library_warn(release, odd):
    """numpy warned of one person's complex or masked number: whoever saw the warning knew of it."""
    calls = {
        "median": lambda: mechanism.median([odd, 2.0], bounds=(0, 9), epsilon=1.0, rng=1),
        "clipping_bound": lambda: mechanism.clipping_bound([odd, 2.0], epsilon=1.0, rng=1),
        "laplace": lambda: mechanism.laplace([odd, 2.0], sensitivity=1.0, epsilon=1.0, rng=1),
        "above_threshold": lambda: mechanism.above_threshold([odd, 2.0], 1, sensitivity=1, epsilon=1.0, rng=1),
        "exponential": lambda: mechanism.exponential([odd, 2.0], sensitivity=1, epsilon=1.0, rng=1),
        "keys": lambda: mechanism.unknown_keys({"a": odd, "b": 90}, epsilon=1.0, delta=1e-6, rng=1),
    }
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        calls[release]()
    assert not told


def test_a_masked_whole_number_leaves_a_list_whole():
    masked = list(np.ma.masked_array([3, 4], mask=[False, True]))
    assert mechanism.laplace(masked, sensitivity=1, epsilon=50.0, rng=1).value.tolist() == [3, 0]
    assert mechanism.laplace([3, 4], sensitivity=1, epsilon=50.0, rng=1).value.dtype == np.int64


def test_a_count_beyond_all_numbers_takes_no_time():
    began = time.perf_counter()
    found = mechanism.unknown_keys({"a": Decimal("1E+9999999"), "b": 2.9}, epsilon=9.0, delta=1e-9, rng=1).value
    assert list(found) == ["a"]
    assert time.perf_counter() - began < 1


def test_prices_too_far_apart_are_refused_before_they_are_paid_for():
    ledger = ledgers.Keeping()
    with pytest.raises(BadInput, match="too far apart"):
        mechanism.auction([1.0], [1e-100, 1e100], epsilon=1e-100, ledger=ledger)
    assert not ledger.charged


def test_gaussian_noise_at_the_ends_of_its_parameters():
    with pytest.raises(BadInput, match="delta must be at least"):
        mechanism.gaussian(1.5, sensitivity=1, epsilon=1.0, delta=5e-324)
    for value in (1.5, 3):
        for delta in (1e-6, 1 - 2**-53):
            assert mechanism.gaussian(value, sensitivity=1, epsilon=1e100, delta=delta, rng=1).value == value


def test_a_response_that_cannot_be_compared_is_none_of_the_categories():
    class Odd:
        def __hash__(self) -> int:
            raise ZeroDivisionError

    assert mechanism.estimate([Odd(), "a", "b"], epsilon=5.0, categories=["a", "b"]).value.sum() == pytest.approx(1)


def _later_answers(extra: bool) -> list[float]:
    """What a function that draws once per record answers on blocks; one person's record makes its block draw more."""
    found: list[float] = []

    def function(block: np.ndarray) -> float:
        draws = np.random.uniform(size=len(block) + (5 if (block == 9).any() else 0))
        found.append(float(draws[0]))
        return 0.5

    np.random.seed(0)
    data = np.ones(40)
    data[0] = 9.0 if extra else 1.0
    mechanism.subsample_and_aggregate(data, function, blocks=8, bounds=(0, 1), epsilon=1.0, rng=5)
    return found


def test_a_block_that_draws_more_often_leaves_the_other_blocks_alone(monkeypatch):
    """Global generators went on from block to block, so one record moved all later answers."""
    pairs = zip(_later_answers(False), _later_answers(True), strict=True)
    assert sum(one != other for one, other in pairs) <= 1
    monkeypatch.setattr(aggregation, "lent", lambda generator: contextlib.nullcontext())
    pairs = zip(_later_answers(False), _later_answers(True), strict=True)
    assert sum(one != other for one, other in pairs) > 1


def test_a_block_that_warns_tells_nothing(capsys, monkeypatch):
    """numpy warned of one person's zero, and settings that its block left behind would have told of it too."""

    def function(block):
        if (block == 0).any():
            np.seterr(all="raise")
            warnings.warn("a zero", stacklevel=1)
        return np.log(block).mean()

    before = np.geterr()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        mechanism.subsample_and_aggregate([1.0, 0.0] * 5, lambda block: np.log(block).mean(), **BLOCKS)
        mechanism.subsample_and_aggregate(np.array([1.0, 0.0] * 5), function, **BLOCKS)
        mechanism.subsample_and_aggregate([1.0] * 5, lambda _: np.complex128(1 + 1j), **BLOCKS)
    assert (told, np.geterr(), capsys.readouterr().err) == ([], before, "")
    monkeypatch.setattr(aggregation, "_silence", contextlib.nullcontext)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        mechanism.subsample_and_aggregate([1.0, 0.0] * 5, lambda block: np.log(block).mean(), **BLOCKS)


BLOCKS = {"blocks": 3, "bounds": (-1, 1), "epsilon": 1.0}


class Panic(BaseException):
    pass


class Panics:
    """As an object of a library in Rust, whose errors are no `Exception`."""

    ndim = 0

    def __float__(self):
        raise Panic

    def item(self):
        raise Panic


class Nobody:
    @property
    def __class__(self):
        raise RuntimeError("no")


class Loud:
    def __float__(self):
        warnings.warn("of one person", stacklevel=1)
        return 1.0


class RudeFraction(Fraction):
    def __lt__(self, other):
        raise RuntimeError("no")

    __gt__ = __le__ = __lt__


OF_RECORDS = {
    "median": lambda values: mechanism.median(values, bounds=(0, 8), epsilon=1),
    "smooth_median": lambda values: mechanism.smooth_median(values, bounds=(0, 8), epsilon=1, delta=1e-5),
    "clipping_bound": lambda values: mechanism.clipping_bound(values, epsilon=1),
    "above_threshold": lambda values: mechanism.above_threshold(values, 3.0, sensitivity=1, epsilon=1),
    "auction": lambda values: mechanism.auction(values, [1.0, 4.0], epsilon=1),
    "unknown_keys": lambda values: mechanism.unknown_keys(dict(enumerate(values)), epsilon=1, delta=1e-5),
    "randomized_response": lambda values: mechanism.randomized_response(values, epsilon=1, categories=[1.0, 2.0]),
    "thresholdout": lambda values: mechanism.Thresholdout(size=3, threshold=0.5, epsilon=1, budget=1).query(
        [0], values
    ),
}


@pytest.mark.parametrize(
    "odd", [Panics, Nobody, Loud, lambda: RudeFraction(1, 3)], ids=["panics", "nobody", "loud", "rude"]
)
@pytest.mark.parametrize("name", OF_RECORDS)
def test_no_record_raises_or_warns_whatever_its_class_does(name, odd):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for values in ([1.0, odd(), 2.0], (1.0, 2.0, odd()), iter([odd(), 1.0, 2.0])):
            OF_RECORDS[name](values)
    assert not told


def test_a_list_of_what_is_no_number_is_one_sentence():
    """PyTorch raised its own errors through the release."""
    for tensor in (torch.ones((), requires_grad=True), torch.ones((), dtype=torch.bfloat16)):
        with pytest.raises(BadInput, match="an array of numbers"):
            mechanism.laplace([tensor, tensor], sensitivity=1, epsilon=1)


@pytest.mark.parametrize(
    "ledger", ["", "budget.db", False, [], object()], ids=["empty", "a path", "False", "a list", "an object"]
)
def test_what_cannot_be_charged_is_refused_wherever_it_is_given(ledger):
    with pytest.raises(BadInput, match="open ledger"):
        mechanism.Account(ledger)
    with pytest.raises(BadInput, match="open ledger"):
        tacit.search(lambda candidate, chance: (1, 1.0), [1], event=Laplace(1.0), delta=1e-6, ledger=ledger)
    with pytest.raises(BadInput, match="needs the ledger"):
        mechanism.Account(None)
