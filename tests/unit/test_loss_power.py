"""Trade-off curves from delta at a few places: certified ends around the truth, no worse than what delta(0) says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from tacit.core.events import Event, Gaussian, Poisson, Repeat
from tacit.core.interval import Interval
from tacit.loss import power, privacy_loss
from tacit.loss.closed import GaussianTotal
from tacit.loss.quadrature import NotMet


def gaussian(mu: float, gap: float = 0.0) -> power.Profile:
    """delta of a Gaussian mechanism, with ends that are apart by a relative gap, and its derivative."""
    total = GaussianTotal(mu)

    def read(epsilon: float) -> tuple[Interval, float]:
        found = total.delta(epsilon)
        return Interval(found.lower * (1 - gap), found.upper * (1 + gap)), -total.parts(epsilon)[1]

    return read


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("fpr", [1e-6, 0.01, 0.4, 0.9])
@pytest.mark.parametrize("gap", [0.0, 1e-6, 1e-3])
def test_the_power_of_a_gaussian_is_inside(mu: float, fpr: float, gap: float) -> None:
    truth = float(ndtr(ndtri(fpr) + mu))
    tail, head = power.tail(gaussian(mu, gap), fpr), power.head(gaussian(mu, gap), fpr)
    found = Interval(min(tail.lower, head.lower), min(tail.upper, head.upper))
    assert found.lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= found.upper
    assert found.upper - fpr <= (truth - fpr) * (1 + 3 * gap + 1e-4) + 2 * gap * fpr
    if gap <= 1e-6:
        assert found.lower - fpr >= (truth - fpr) * (1 - 1e-3)


@pytest.mark.parametrize("way", [power.tail, power.head])
def test_three_places_bound_the_least_value_from_below(way: object) -> None:
    """Brute force over a fine grid never finds less than the lower end, nor only more than the upper one."""
    read = gaussian(1.3)
    epsilons = np.linspace(0.0, 12.0, 20_001)
    deltas = np.array([GaussianTotal(1.3).delta(float(epsilon)).upper for epsilon in epsilons])
    for fpr in (1e-4, 0.03, 0.6):
        tails, heads = deltas + np.exp(epsilons) * fpr, 1 - np.exp(-epsilons) * (1 - deltas - fpr)
        least = min(float((tails if way is power.tail else heads).min()), 1.0)
        found = power.tail(read, fpr) if way is power.tail else power.head(read, fpr)
        assert found.lower <= least * (1 + 1e-12)
        assert found.upper >= least * (1 - 1e-6)
        assert found.upper - found.lower <= 1e-4 * least


def test_where_nothing_can_be_read_far_out_the_best_place_counts() -> None:
    """A profile that ends early still gives the upper end of its last place; one that never begins gives none."""

    def short(epsilon: float) -> tuple[Interval, float]:
        if epsilon > 0.3:
            raise NotMet
        return gaussian(2.0)(epsilon)

    def never(epsilon: float) -> tuple[Interval, float]:
        raise NotMet

    found = power.tail(short, 1e-5)
    assert float(ndtr(ndtri(1e-5) + 2.0)) < found.upper <= GaussianTotal(2.0).delta(0.0).upper + 2e-5
    with pytest.raises(NotMet):
        power.tail(never, 0.1)


def training(rate: float, noise: float, steps: int) -> Event:
    return Repeat(Poisson(rate, Gaussian(noise)), steps)


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (training(1e-6, 0.5, 10_000_000), "add-remove"),
        (training(2.1e-6, 0.63, 296_682), "replace"),
        (training(1.8e-4, 15.2, 425_320_822), "zero-out"),
    ],
)
def test_advantages_of_long_trainings_are_sharp(event: Event, adjacency: str) -> None:
    """The lattice alone had lower ends of 0, or upper ends ten times too large."""
    found = privacy_loss(event, adjacency).advantage()
    assert found.lower >= found.upper * (1 - 1e-3) > 0


@pytest.mark.parametrize(
    ("event", "adjacency", "fpr", "most"),
    [
        (training(0.003991671, 2.66836122, 554_667), "replace", 1e-3, 0.1952),  # the lattice has 0.2418
        (training(0.0027764648, 2.373848, 3_960_113), "add-remove", 1e-4, 0.0996),  # 0.190
        (training(2.425e-6, 0.91863, 1_185_587), "replace", 2.07476e-3, 2.12e-3),  # 0.877
    ],
)
def test_trade_off_curves_of_long_trainings_are_sharp(event: Event, adjacency: str, fpr: float, most: float) -> None:
    found = privacy_loss(event, adjacency).tradeoff(fpr)
    assert fpr < found.lower <= found.upper <= most
    assert found.upper - found.lower <= 1e-3 * (found.upper - fpr)


def test_a_reading_does_not_depend_on_those_before_it() -> None:
    event, rates = training(0.003991671, 2.66836122, 554_667), (1e-6, 1e-3, 0.2)
    first, second = privacy_loss(event, "add-remove"), privacy_loss(event, "add-remove")
    forwards = [first.tradeoff(rate) for rate in rates]
    assert [second.tradeoff(rate) for rate in reversed(rates)] == forwards[::-1]


def test_no_power_is_above_what_the_advantage_allows() -> None:
    """Where no contour reaches the best place: a true-positive rate is at most fpr + delta(0)."""
    loss = privacy_loss(training(9.4e-6, 0.611, 109_897), "replace")
    assert loss.tradeoff(2e-5).upper <= 2e-5 + loss.advantage().upper
    assert math.isclose(loss.advantage().upper, loss.delta(0.0).upper)
