"""The table of theorems: order, constants and honesty."""

import math

import pytest

from tacit.core.events import Gaussian, Laplace, Poisson, Repeat
from tacit.loss import explain


def by_name(event, **arguments):
    return {item.name: item for item in explain(event, **arguments)}


def test_bounds_are_sorted_and_the_exact_one_is_last():
    found = explain(Repeat(Poisson(0.01, Gaussian(1.0)), 1000), delta=1e-5)
    bounds = [item.epsilon for item in found if item.bound]
    assert bounds == sorted(bounds, reverse=True)
    assert found[-1].name.startswith("privacy-loss distribution")
    assert [item.bound for item in found] == sorted(item.bound for item in found)


def test_the_gaussian_limit_is_called_an_approximation_and_is_too_low_here():
    found = explain(Repeat(Poisson(256 / 60_000, Gaussian(1.1)), 14_062), delta=1e-5)
    limit = next(item for item in found if not item.bound)
    assert "not a bound" in limit.name
    assert limit.epsilon == pytest.approx(2.3243, abs=1e-4)
    assert limit.epsilon < found[-1].epsilon


def test_renyi_is_as_tight_as_the_peers():
    found = by_name(Repeat(Poisson(256 / 60_000, Gaussian(1.1)), 14_062), delta=1e-5)
    assert found["moments (Renyi), improved conversion"].epsilon == pytest.approx(2.5966, abs=2e-3)


def test_advanced_composition_has_its_constants():
    found = by_name(Repeat(Laplace(10.0), 100), delta=1e-6)
    epsilon = 0.1 * (1 - 1e-7)
    wide = epsilon * math.sqrt(200 * math.log(2e6))
    assert found["advanced composition, k epsilon^2"].epsilon == pytest.approx(wide + 1.0, rel=1e-3)
    tanh = wide + 100 * epsilon * math.tanh(epsilon / 2)
    assert found["advanced composition, k epsilon tanh(epsilon/2)"].epsilon == pytest.approx(tanh, rel=1e-3)


def test_zcdp_and_the_classic_rule_need_plain_gaussians():
    found = by_name(Gaussian(10.0), delta=1e-5)
    assert found["zCDP"].epsilon == pytest.approx(0.005 + 2 * math.sqrt(0.005 * math.log(1e5)))
    assert found["classic Gaussian rule"].epsilon == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 10)
    assert "classic Gaussian rule" not in by_name(Gaussian(1.0), delta=1e-5)


def test_pure_events_keep_basic_composition_at_delta_zero():
    found = explain(Repeat(Laplace(10.0), 100), delta=0)
    assert found[0].name == "basic composition"
    assert found[-1].epsilon == pytest.approx(10.0)


def test_a_sample_of_everybody_is_no_sample():
    """No row comes twice, and plain Gaussians have their theorems."""
    found = explain(Repeat(Poisson(1.0, Gaussian(2.0)), 10), delta=1e-5)
    assert [item.name for item in found] == [item.name for item in explain(Repeat(Gaussian(2.0), 10), delta=1e-5)]
