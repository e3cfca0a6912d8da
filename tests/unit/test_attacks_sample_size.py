"""A weak experiment says how many records it would need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tacit
from tacit.attacks import measure, outsiders_needed
from tacit.attacks.controls import planted_leak
from tacit.attacks.sample_size import records_needed, rounded
from tacit.core import Observations, Scores
from tacit.study.membership import too_few


def scores(members, outsiders, shift=6.0, seed=0):
    rng = np.random.default_rng(seed)
    values = np.r_[rng.normal(size=members) + shift, rng.normal(size=outsiders)]
    return Scores(values, np.arange(members + outsiders) < members, attack="a", randomised=False)


@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_as_many_outsiders_as_are_said_show_it_and_fewer_do_not(confidence):
    needed = outsiders_needed(measure(scores(300, 300), (0.01,), confidence), 0.01)
    assert needed is not None
    assert scores(300, needed).tpr(0.01, confidence).lower > 0.9
    assert scores(300, int(0.95 * needed) - 10).tpr(0.01, confidence).lower == 0.0


def test_a_weaker_attack_needs_more_and_a_guess_needs_nothing():
    strong, weak, guess = (
        outsiders_needed(measure(scores(600, 600, shift), (0.01,), 0.99), 0.01) for shift in (6.0, 0.8, 0.0)
    )
    assert strong is None  # the sample shows it already
    assert weak is not None
    assert weak > 1000
    assert guess is None


def test_several_targets_are_not_counted():
    item = measure(scores(300, 300), (0.01,))
    assert outsiders_needed(item, 0.01) is not None
    assert outsiders_needed(replace(item, targets=2), 0.01) is None
    assert outsiders_needed(item, 0.02) is None  # a rate that was not asked for


def test_at_a_rate_of_one_no_number_of_outsiders_would_do():
    assert outsiders_needed(measure(scores(300, 300), (1.0,)), 1.0) is None


def test_one_sentence_at_the_largest_rate_that_is_not_shown():
    small, large = (measure(scores(n, n), (0.01, 0.001), 0.95) for n in (300, 700))
    (words,) = too_few([small])
    assert (
        words == "whether an attack beats guessing where it wrongly accuses 1 in 100 outsiders: that takes at least 440"
    )
    (words,) = too_few([small, large])
    assert "1 in 1,000 outsiders: that takes at least 4,4" in words
    assert too_few([measure(scores(300, 300, 0.0), (0.01,))]) == ()


def test_an_attack_says_how_many_outsiders_it_would_take():
    """A forest that gives everybody away, with 200 outsiders, said only that the sample is too small."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 5)), rng.integers(0, 2, 400)
    known = {tuple(row): label for row, label in zip(x[:200].tolist(), y[:200], strict=True)}

    def target(rows):
        found = (known.get(tuple(row)) for row in rows.tolist())
        return np.array([[0.5, 0.5] if label is None else 0.9 * np.eye(2)[label] + 0.05 for label in found])

    found = tacit.attack(target, (x[:200], y[:200]), (x[200:], y[200:]), rng=0)
    assert any("1 in 100 outsiders: that takes at least 510" in text for text in found.not_covered)


@pytest.mark.parametrize("each", [6, 15])
def test_a_planted_leak_that_few_records_show_says_how_many_would(each):
    member = np.arange(2 * each) < each
    margin = np.random.default_rng(0).normal(size=(2 * each, 1))

    def attack(target, others):
        return Scores(target.margin[:, 0], member, attack="a", randomised=False)

    found = planted_leak(attack, Observations.from_margin(margin, member=member[:, None]), None)
    needed = records_needed(1.0, 0.999)
    assert found.passed == (each >= needed)
    assert found.passed or found.found.endswith(f"more members and outsiders are needed, about {needed}")


def test_numbers_are_rounded_up_to_two_digits():
    assert [rounded(count) for count in (7, 44, 437, 4370, 59905)] == [7, 44, 440, 4400, 60000]
    assert records_needed(0.5, 0.999) is None
