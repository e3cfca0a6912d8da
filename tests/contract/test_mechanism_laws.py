"""What every release obeys: charge before draw, one answer per key, public errors, values of people never raise."""

import inspect
import json
import math

import numpy as np
import pytest

import mechanism_ledgers as ledgers
from mechanism_releases import NUMBERS, RELEASES, REPLACE_ONLY, WITH_DELTA
from tacit import mechanism, privacy_loss
from tacit.core import Answer, BadInput, BudgetExceeded, Mismatch
from tacit.core.answer import DATA_DEPENDENT

ALL = sorted(RELEASES)


def keeping(name, **changed):
    return ledgers.Keeping(adjacency="replace" if name in REPLACE_ONLY else "add-remove", **changed)


def test_every_public_release_is_here():
    """Functions that take a ledger: none may be left out of these laws."""
    offered = [getattr(mechanism, name) for name in mechanism.__all__]
    charging = {
        item.__name__ for item in offered if inspect.isfunction(item) and "ledger" in inspect.signature(item).parameters
    }
    assert charging == {name.split()[0] for name in RELEASES}


@pytest.mark.parametrize("name", ALL)
def test_docstrings_say_what_is_promised_and_what_the_caller_must_ensure(name):
    text = getattr(mechanism, name.split()[0]).__doc__
    assert "Guarantee:" in text
    assert "Caller ensures:" in text


@pytest.mark.parametrize("name", ALL)
def test_a_refused_charge_draws_nothing_and_touches_no_data(name):
    """The refusal comes before the values are looked at: an iterator of them is not even begun."""
    ledger, chance = keeping(name, most=0), np.random.default_rng(1)
    before = chance.bit_generator.state
    with pytest.raises(BudgetExceeded):
        RELEASES[name](NUMBERS, ledger=ledger, rng=chance)
    assert chance.bit_generator.state == before
    assert not ledger.answers


@pytest.mark.parametrize("name", ALL)
def test_the_same_key_is_one_charge_and_one_answer(name):
    ledger = keeping(name)
    first = RELEASES[name](NUMBERS, ledger=ledger, key="a")
    again = RELEASES[name]([value + 1 for value in NUMBERS], ledger=ledger, key="a")
    assert first.text() == again.text()
    assert len(ledger.charged) == 1
    assert first.receipt.seq == 1
    RELEASES[name](NUMBERS, ledger=ledger)
    assert len(ledger.charged) == 2


@pytest.mark.parametrize("name", ALL)
def test_the_event_charged_is_the_answer_s_and_within_epsilon(name):
    ledger = keeping(name)
    answer = RELEASES[name](NUMBERS, ledger=ledger, rng=3)
    assert list(ledger.charged.values()) == [answer.event]
    delta = 1e-6 if name in WITH_DELTA else 0.0
    assert privacy_loss(answer.event, answer.adjacency).epsilon(delta).upper <= 1 + 1e-9
    assert isinstance(answer, Answer)
    assert answer.release == name.split()[0]
    assert answer.error is not None or DATA_DEPENDENT in answer.notes
    assert "seed" in " ".join(answer.notes)


@pytest.mark.parametrize("name", ALL)
def test_the_neighbours_are_the_ledger_s_and_others_are_refused(name):
    ledger = ledgers.Keeping(adjacency="replace")
    assert RELEASES[name](NUMBERS, ledger=ledger).adjacency.value == "replace"
    with pytest.raises(Mismatch, match="replace"):
        RELEASES[name](NUMBERS, ledger=ledger, adjacency="zero-out")


@pytest.mark.parametrize("name", sorted(set(ALL) - REPLACE_ONLY - {"quantile", "median", "clipping_bound"}))
def test_replace_has_more_noise_or_is_charged_more(name):
    """Replacing one record is removing one and adding one: at equal noise it would cost twice as much."""
    one, two = (RELEASES[name](NUMBERS, adjacency=adjacency, rng=1) for adjacency in ("add-remove", "replace"))
    if name == "subsample_and_aggregate":  # one block changes either way
        assert two.error == pytest.approx(one.error, rel=1e-3)
    elif one.error is not None:
        assert two.error > 1.5 * one.error


ODD = [
    [math.nan] * 8,
    [math.inf, -math.inf, 1e308, -1e308, 5e-324, math.nan, 0.0, -0.0],
    [None] * 8,
    ["a", None, 1.0, math.nan, b"x", 2, True, "3"],
    np.array([2**62, -(2**62), 0, 1, 2, 3, 4, 5]),
    np.array([2**64 - 1] * 8, dtype=np.uint64),
    np.array([10**400, -(10**400), 1, 2, 3, 4, 5, 6], dtype=object),
    np.array(NUMBERS, dtype=np.float16),
    np.array([True, False] * 4),
    np.array(["2026-01-01"] * 8, dtype="datetime64[D]"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("values", ODD, ids=range(len(ODD)))
def test_no_value_of_a_person_raises_or_warns(name, values):
    """An error that one person's value can cause is a release (soundness rule 8)."""
    answer = RELEASES[name](values, rng=5)
    Answer.from_json(answer.text())
    flat = answer.value if isinstance(answer.value, np.ndarray) else np.array([0.0])
    assert flat.dtype.kind in "if"
    assert np.isfinite(flat).all()


def test_a_record_that_is_a_list_raises_nothing():
    """Per-record inputs: one person's odd value must not stop the release."""
    odd = [1.0, [1, 2], 3.0, ([4],), None, 5.0, 6.0, 7.0]
    for name in ("quantile", "median", "clipping_bound", "auction", "smooth_median", "propose_test_release"):
        RELEASES[name](odd, rng=1)
    RELEASES["randomized_response"](odd, rng=1)
    mechanism.estimate(odd, epsilon=1, categories=10)


def test_numbers_of_more_than_64_bits_are_refused_by_their_type():
    with pytest.raises(BadInput, match="64 bits"):
        mechanism.laplace(np.array([1.0], dtype=np.longdouble), sensitivity=1, epsilon=1)


BAD = [{"epsilon": value} for value in (0, -1, math.nan, math.inf, "1", True)]


@pytest.mark.parametrize("wrong", BAD, ids=str)
def test_bad_parameters_are_one_sentence_and_nothing_is_charged(wrong):
    ledger = ledgers.Keeping()
    calls = [
        lambda **k: mechanism.laplace(1.0, sensitivity=1, ledger=ledger, **k),
        lambda **k: mechanism.gaussian(1.0, sensitivity=1, delta=1e-6, ledger=ledger, **k),
        lambda **k: mechanism.exponential(NUMBERS, sensitivity=1, ledger=ledger, **k),
        lambda **k: mechanism.quantile(NUMBERS, 0.5, bounds=(0, 1), ledger=ledger, **k),
        lambda **k: mechanism.above_threshold(NUMBERS, 1, sensitivity=1, ledger=ledger, **k),
        lambda **k: mechanism.unknown_keys({}, delta=1e-6, ledger=ledger, **k),
        lambda **k: mechanism.randomized_response(NUMBERS, adjacency="replace", **k),
        lambda **k: mechanism.auction(NUMBERS, [1], ledger=ledger, **k),
        lambda **k: mechanism.subsample_and_aggregate(NUMBERS, np.mean, blocks=2, bounds=(0, 1), ledger=ledger, **k),
    ]
    for call in calls:
        with pytest.raises(BadInput, match="epsilon"):
            call(**wrong)
    assert not ledger.charged


@pytest.mark.parametrize(
    "call",
    [
        lambda: mechanism.laplace(1.0, sensitivity=0, epsilon=1),
        lambda: mechanism.laplace(1.0, sensitivity=1, epsilon=1, confidence=1),
        lambda: mechanism.laplace(1.0, sensitivity=1, epsilon=1e-16),
        lambda: mechanism.laplace([[1.0], [1.0, 2.0]], sensitivity=1, epsilon=1),
        lambda: mechanism.gaussian(1, sensitivity=1, epsilon=1, delta=0),
        lambda: mechanism.exponential([], sensitivity=1, epsilon=1),
        lambda: mechanism.exponential({"a": 1, "b": 2}, sensitivity=1, epsilon=1),
        lambda: mechanism.laplace({"a": 1}, sensitivity=1, epsilon=1),
        lambda: mechanism.median({"a": 1}, bounds=(0, 1), epsilon=1),
        lambda: mechanism.laplace(1, sensitivity=1, epsilon=1, confidence="high"),
        lambda: mechanism.noisy_max([1], sensitivity=1, epsilon=1, noise="normal"),
        lambda: mechanism.top([1, 2], 3, sensitivity=1, epsilon=1),
        lambda: mechanism.quantile([1], 0.5, bounds=(1, 0), epsilon=1),
        lambda: mechanism.quantile([1], 0.5, bounds=None, epsilon=1),
        lambda: mechanism.quantile([1], 0.5, bounds=(0, math.inf), epsilon=1),
        lambda: mechanism.quantile([1], 1.5, bounds=(0, 1), epsilon=1),
        lambda: mechanism.quantile([1], 0.5, bounds=(0, 1), grid=2**60, epsilon=1),
        lambda: mechanism.above_threshold([], 1, sensitivity=1, epsilon=1),
        lambda: mechanism.unknown_keys([1], epsilon=1, delta=1e-6),
        lambda: mechanism.unknown_keys({}, epsilon=1, delta=0),
        lambda: mechanism.smooth_median([1], bounds=(0, 1), epsilon=1, delta=1e-6, adjacency="add-remove"),
        lambda: mechanism.smooth_median([], bounds=(0, 1), epsilon=1, delta=1e-6),
        lambda: mechanism.smooth_median([1], bounds=(0, 1), epsilon=1e-9, delta=1e-6),
        lambda: mechanism.propose_test_release([1], proposal=2, bounds=(0, 1), epsilon=1, delta=1e-6),
        lambda: mechanism.auction([1], [], epsilon=1),
        lambda: mechanism.auction([1], [-1], epsilon=1),
        lambda: mechanism.randomized_response([1], epsilon=1, categories=1),
        lambda: mechanism.randomized_response([1], epsilon=1, categories="yes"),
        lambda: mechanism.randomized_response([1], epsilon=1, categories=["a", "a"]),
        lambda: mechanism.exponential_range([1], [1], bounds=(0, 1), sensitivity=1, epsilon=1),
        lambda: mechanism.subsample_and_aggregate([1], len, blocks=0, bounds=(0, 1), epsilon=1),
        lambda: mechanism.subsample_and_aggregate([1], len, blocks=1, bounds=(0, 1), epsilon=1, aggregate="mode"),
        lambda: mechanism.laplace(1, sensitivity=1, epsilon=1, key="a"),
        lambda: mechanism.laplace(1, sensitivity=1, epsilon=1, key="a", ledger=ledgers.Plain()),
        lambda: mechanism.classic_noise_multiplier(1.0, 1e-5),
        lambda: mechanism.Ladder([]),
        lambda: mechanism.Ladder([1, 2], step=0.1).submit([1]),
    ],
)
def test_misuse_is_refused_in_a_sentence(call):
    with pytest.raises(BadInput) as caught:
        call()
    assert caught.value.message.endswith(".")


def test_a_key_of_another_release_is_refused():
    ledger = ledgers.Keeping()
    mechanism.exponential([1, 2], sensitivity=1, epsilon=1, ledger=ledger, key="a")
    with pytest.raises(Mismatch):
        mechanism.quantile([1, 2], 0.5, bounds=(0, 1), epsilon=1, ledger=ledger, key="a")
    with pytest.raises(Mismatch):
        mechanism.exponential([1, 2], sensitivity=1, epsilon=2, ledger=ledger, key="a")


VALUES = [1.0, 2.0, 3.0]
SETTINGS = [
    lambda more, k: mechanism.laplace(1.0, sensitivity=1 + more, **k),
    lambda more, k: mechanism.laplace([1] * (2 + more), sensitivity=1, **k),
    lambda more, k: mechanism.gaussian(1.0, sensitivity=1 + more, delta=1e-6, **k),
    lambda more, k: mechanism.quantile(VALUES, 0.1 + 0.8 * more, bounds=(0, 9), **k),
    lambda more, k: mechanism.median(VALUES, bounds=(0, 9 + more), **k),
    lambda more, k: mechanism.clipping_bound(VALUES, share=0.5 + 0.1 * more, **k),
    lambda more, k: mechanism.above_threshold(VALUES, 1 + more, sensitivity=1, **k),
    lambda more, k: mechanism.auction(VALUES, [1, 2 + more], **k),
    lambda more, k: mechanism.exponential(VALUES, sensitivity=1 + more, **k),
    lambda more, k: mechanism.permute_and_flip(VALUES, sensitivity=1, monotone=bool(more), **k),
    lambda more, k: mechanism.top(VALUES, 1, sensitivity=1 + more, **k),
    lambda more, k: mechanism.exponential_range([0, 1], [0.5], bounds=(0, 1 + more), sensitivity=1, **k),
    lambda more, k: mechanism.unknown_keys({"a": 9}, keys_per_person=1 + more, delta=1e-6, **k),
    lambda more, k: mechanism.subsample_and_aggregate(VALUES, len, blocks=2 + more, bounds=(0, 9), **k),
    lambda more, k: mechanism.randomized_response([0], categories=["a", "b" if more else "c"], **k),
    lambda more, k: mechanism.smooth_median(VALUES, bounds=(0, 9 + more), delta=1e-6, **k),
    lambda more, k: mechanism.propose_test_release(VALUES, proposal=1 + more, bounds=(0, 9), delta=1e-6, **k),
]


@pytest.mark.parametrize("ask", SETTINGS)
def test_a_key_with_other_settings_is_refused_and_with_the_same_ones_answered(ask):
    """The event does not name bounds, prices or shares: the median was given back as the ninth decile."""
    given = {"epsilon": 1.0, "ledger": ledgers.Keeping(adjacency="replace"), "key": "a"}
    first = ask(0, given)
    assert repr(ask(0, given).value) == repr(first.value)
    with pytest.raises(Mismatch):
        ask(1, given)


def test_an_answer_that_was_kept_before_settings_were_is_still_given_back():
    ledger = ledgers.Keeping()
    given = {"epsilon": 1.0, "ledger": ledger, "key": "a"}
    first = mechanism.median(VALUES, bounds=(0, 9), **given)
    kept = json.loads(ledger.answers["a"])
    del kept["asked"]
    ledger.answers["a"] = json.dumps(kept)
    assert mechanism.median(VALUES, bounds=(0, 9), **given).value == first.value


def test_what_was_charged_and_not_stored_is_drawn_anew_for_no_charge():
    """Nothing had left: soundness rule 9. Of two that race, both get the answer that was stored first."""
    ledger = ledgers.Keeping()
    ledger.charge(mechanism.laplace(1, sensitivity=1, epsilon=1).event, key="a")
    answer = mechanism.laplace(1, sensitivity=1, epsilon=1, ledger=ledger, key="a")
    assert len(ledger.charged) == 1
    raced = ledgers.Keeping()
    raced.stored = lambda key: None
    raced.answers["a"] = answer.text()
    assert mechanism.laplace(50, sensitivity=1, epsilon=1, ledger=raced, key="a").value == answer.value


def test_an_account_says_who_asked_and_what_for():
    ledger = ledgers.Keeping()
    account = mechanism.Account(ledger, purpose="census", analyst="ann")
    mechanism.laplace(1, sensitivity=1, epsilon=1, ledger=account, key="a")
    assert ledger.asked[0] == ("a", "census", "ann")
    assert mechanism.laplace(9, sensitivity=1, epsilon=1, ledger=account, key="a").text() == ledger.answers["a"]
