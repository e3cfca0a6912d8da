"""The table of theorems: order, constants and honesty."""

import math

import pytest

from tacit.core.errors import BadInput
from tacit.core.events import ApproximateDP, Gaussian, Laplace, LastIterate, Poisson, RandomizedResponse, Repeat
from tacit.loss import explain, privacy_loss


def by_name(event, **arguments):
    return {item.name: item for item in explain(event, **arguments)}


def test_bounds_are_sorted_and_the_exact_one_is_last():
    found = explain(Repeat(Poisson(0.01, Gaussian(1.0)), 1000), delta=1e-5)
    bounds = [item.epsilon for item in found if item.bound]
    assert bounds == sorted(bounds, reverse=True)
    assert found[-1].name.startswith("privacy-loss distribution")
    assert [item.bound for item in found] == sorted(item.bound for item in found)


def test_an_event_beyond_the_numbers_is_one_sentence():
    many = LastIterate(4.0, 500, 0.5, 1.0, 0.25, 100, rate=0.2)
    with pytest.raises(BadInput, match="numbers too large"):
        explain(many, delta=1e-6, group=2000)


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


def test_group_privacy_pure_and_approximate():
    pure = by_name(Laplace(10.0), delta=0, group=5)
    assert pure["group privacy, pure: g epsilon"].epsilon == pytest.approx(0.5)
    found = explain(ApproximateDP(0.5, 1e-9), delta=1e-5, group=4)
    approximate = next(item for item in found if item.name.startswith("group privacy, approximate"))
    grown = 1e-9 * math.expm1(2.0) / math.expm1(0.5)
    assert grown < 1e-5
    assert approximate.epsilon == pytest.approx(2.0, rel=1e-3)
    assert found[-1].epsilon <= approximate.epsilon * (1 + 1e-9)
    too_little = explain(ApproximateDP(1.0, 1e-9), delta=1e-6, group=10)
    assert not any(item.name.startswith("group privacy, approximate") for item in too_little)


def test_a_group_is_not_worse_than_its_theorem():
    found = by_name(Gaussian(20.0), delta=1e-5, group=3)
    exact = found["privacy-loss distribution, certified"].epsilon
    mu = found["Gaussian differential privacy: mu^2 is the sum of mu_i^2"].epsilon
    group = next(item for name, item in found.items() if name.startswith("group privacy, approximate"))
    assert mu == pytest.approx(exact, rel=1e-9)
    assert exact < group.epsilon
    assert found["zCDP"].epsilon == pytest.approx(9 / 800 + 2 * math.sqrt(9 / 800 * math.log(1e5)))


def test_the_lectures_ten_thousand_queries():
    """Basic composition, the three advanced forms and the exact answer, with total delta k delta_0 + delta'."""
    found = by_name(Repeat(ApproximateDP(0.01), 10_000), delta=1e-5)
    wide = 0.01 * math.sqrt(2e4 * math.log(2e5))
    assert found["basic composition"].epsilon == pytest.approx(100.0, rel=1e-6)
    assert found["advanced composition, k epsilon^2"].epsilon == pytest.approx(wide + 1.0, rel=1e-4)
    drift = 1e4 * 0.01 * math.expm1(0.01)
    assert found["advanced composition, k epsilon (e^epsilon - 1)"].epsilon == pytest.approx(wide + drift, rel=1e-4)
    drift = 1e4 * 0.01 * math.tanh(0.005)
    assert found["advanced composition, k epsilon tanh(epsilon/2)"].epsilon == pytest.approx(wide + drift, rel=1e-4)
    assert found["privacy-loss distribution, certified"].epsilon == pytest.approx(4.3764, abs=1e-3)


def test_subsampling_has_the_logarithm():
    """ln(1 + q (e^epsilon - 1)) and q delta, not q epsilon."""
    found = by_name(Repeat(Poisson(0.01, RandomizedResponse(1.0)), 100), delta=1e-6)
    sampled = math.log1p(0.01 * math.expm1(1.0))
    wide = sampled * math.sqrt(200 * math.log(2e6))
    name = "subsampling lemma, advanced composition, k epsilon tanh(epsilon/2)"
    assert found[name].epsilon == pytest.approx(wide + 100 * sampled * math.tanh(sampled / 2), rel=1e-3)
    assert found["basic composition"].epsilon == pytest.approx(100 * sampled, rel=1e-3)


@pytest.mark.parametrize(
    "event",
    [
        Repeat(RandomizedResponse(0.1), 50),
        Repeat(Gaussian(10.0), 20),
        Repeat(Poisson(0.05, Gaussian(1.0)), 50),
        Laplace(3.0),
    ],
)
@pytest.mark.parametrize("group", [1, 2])
def test_no_theorem_is_below_the_truth(event, group):
    found = explain(event, delta=1e-5, group=group)
    truth = privacy_loss(event, "add-remove", group=group).epsilon(1e-5).lower
    assert all(item.epsilon >= truth * (1 - 1e-9) for item in found if item.bound)
