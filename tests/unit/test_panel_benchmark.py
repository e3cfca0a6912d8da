"""The benchmark of the panel's chances tells a chance that is wrong from one that agrees."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(HOME))
    try:
        return importlib.import_module("panel_chances")
    finally:
        sys.path.remove(str(HOME))


@pytest.mark.parametrize(
    ("hits", "lower", "upper", "agrees"),
    [(95, 0.9, 1.0, True), (95, 0.0, 0.5, False), (5, 0.6, 0.9, False), (5, 0.0, 0.1, True), (60, 0.1, 0.45, True)],
)
def test_a_chance_agrees_when_both_intervals_meet(bench, hits, lower, upper, agrees):
    found = [number < hits for number in range(100)]
    chance = {"chance": (lower + upper) / 2, "lower": lower, "upper": upper}
    assert bench.row("a setting", "no noise", chance, found, 20)["agrees"] is agrees


def test_the_correct_training_is_held_to_the_nominal_rate(bench):
    assert bench.row("a setting", bench.CORRECT, None, [False] * 97 + [True] * 3, 20)["agrees"]
    assert not bench.row("a setting", bench.CORRECT, None, [False] * 75 + [True] * 25, 20)["agrees"]


def test_workers_give_the_answers_of_one_process(bench, monkeypatch):
    monkeypatch.setattr(bench, "refuted", lambda setting, fault, number: number % 3 == 0)
    repeats = [("a setting", "no noise", number) for number in range(7)]
    assert [found for _, found in bench.answers(iter(repeats), 1)] == [number % 3 == 0 for number in range(7)]


def test_the_panel_of_a_setting_is_made(bench, monkeypatch):
    """Of an audit with 40 runs nothing is known; the library's functions are called as they are written."""
    monkeypatch.setattr(bench, "whole_audit", lambda *given: [SimpleNamespace(planned=40)])
    assert bench.panel(next(iter(bench.SETTINGS))) == {}
