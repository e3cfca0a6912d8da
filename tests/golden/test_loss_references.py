"""Intervals hold the stored slow references; two of them are computed again here."""

import importlib.util
import json
from pathlib import Path

import pytest

from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import privacy_loss

HERE = Path(__file__).parent
CASES = json.loads((HERE / "accounting.json").read_text(encoding="utf-8"))
SETTINGS = {
    (1.1, 256 / 60_000, 14_062, 1e-5): 2.381597,
    (0.6, 0.01, 5000, 1e-5): 15.625251,
    (9.4, 16_384 / 50_000, 2000, 1e-5): 7.424379,
    (1.0, 0.001, 100_000, 1e-6): 1.861047,
    (20.0, 1.0, 1000, 1e-6): 8.306225,
}


def interval(noise_multiplier, rate, steps, delta):
    return privacy_loss(Repeat(Poisson(rate, Gaussian(noise_multiplier)), steps), "add-remove").epsilon(delta)


def test_there_are_enough():
    assert len(CASES) >= 100


@pytest.mark.parametrize("setting", SETTINGS)
def test_reference_settings(setting):
    found = interval(*setting)
    assert abs(found.upper - SETTINGS[setting]) < 1e-6
    assert found.gap <= 1e-6


@pytest.mark.parametrize("tenth", range(10))
def test_stored_references_are_inside(tenth):
    for case in CASES[tenth::10]:
        found = interval(case["noise_multiplier"], case["rate"], case["steps"], case["delta"])
        reference = case["epsilon"]
        assert found.lower <= reference * (1 + 1e-13) + 1e-15
        assert reference * (1 - 1e-13) - 1e-15 <= found.upper
        assert found.upper - found.lower <= max(1e-3 * found.upper, 1e-6)


@pytest.mark.slow
@pytest.mark.needs("flint")
@pytest.mark.parametrize("index", [3, 17])
def test_references_can_be_computed_again(index):
    path = HERE.parent.parent / "benchmarks" / "accounting_reference.py"
    spec = importlib.util.spec_from_file_location("accounting_reference", path)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    reference.ctx.dps = 60
    case = CASES[index]
    again = reference.epsilon((case["noise_multiplier"], case["rate"], case["steps"], case["delta"]))
    assert again == pytest.approx(case["epsilon"], rel=1e-12)


def test_a_wrong_reference_would_be_caught():
    case = CASES[0]
    found = interval(case["noise_multiplier"], case["rate"] * 1.001, case["steps"], case["delta"])
    assert not found.lower <= case["epsilon"] <= found.upper
