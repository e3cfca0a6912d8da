"""Laws that every event obeys, over the whole registry; a new event without an example here fails the first test."""

import functools
import itertools
import math
import operator

import numpy as np
import pytest

from event_examples import ADJACENCY, EXAMPLES, UNSUPPORTED
from tacit.core.errors import BadInput, Unsupported
from tacit.core.events import (
    ZCDP,
    ApproximateDP,
    Compose,
    Event,
    Gaussian,
    Laplace,
    NoOp,
    Poisson,
    Repeat,
    family,
    rescaled,
)
from tacit.loss import composed, privacy_loss

DELTA = 1e-6
SUPPORTED = list(EXAMPLES)


@functools.cache
def loss_of_example(name: str):
    """One loss for all laws: what it has computed once it need not compute again."""
    return privacy_loss(EXAMPLES[name], ADJACENCY.get(name, "add-remove"))


@functools.cache
def epsilon_of_example(name: str):
    return loss_of_example(name).epsilon(DELTA)


@functools.cache
def advantage_of_example(name: str):
    return loss_of_example(name).advantage()


def overlap(a, b, slack=0.0):
    if math.isinf(a.upper) or math.isinf(b.upper):
        return a.upper == b.upper
    return a.lower <= b.upper * (1 + slack) and b.lower <= a.upper * (1 + slack)


def test_every_event_has_an_example():
    built_in = {name for name, cls in Event.registry.items() if cls.__module__.startswith("tacit.core.events.")}
    assert built_in == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_json_round_trip(name):
    event = EXAMPLES[name]
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
def test_every_pair_has_a_theorem_or_raises(name, adjacency):
    if (name, adjacency) in UNSUPPORTED:
        with pytest.raises(Unsupported):
            privacy_loss(EXAMPLES[name], adjacency)
    else:
        assert privacy_loss(EXAMPLES[name], adjacency).epsilon(1e-3).upper >= 0


@pytest.mark.parametrize("name", SUPPORTED)
def test_repeating_is_composing(name):
    event, adjacency = EXAMPLES[name], ADJACENCY.get(name, "add-remove")
    repeated = privacy_loss(Repeat(event, 3), adjacency).epsilon(DELTA)
    composed = privacy_loss(Compose((event,) * 3), adjacency).epsilon(DELTA)
    added = (3 * loss_of_example(name)).epsilon(DELTA)
    assert overlap(repeated, composed)
    assert overlap(repeated, added)
    assert overlap(composed, added)
    assert epsilon_of_example(name).lower <= repeated.upper


@pytest.mark.parametrize("name", SUPPORTED)
def test_nothing_is_neutral_and_order_does_not_matter(name):
    loss = loss_of_example(name)
    nothing = privacy_loss(NoOp(), ADJACENCY.get(name, "add-remove"))
    other = privacy_loss(Gaussian(4.0), ADJACENCY.get(name, "add-remove"))
    with_nothing = (loss + nothing).epsilon(DELTA)
    assert with_nothing == epsilon_of_example(name) or name == "Allocation"
    assert overlap(with_nothing, epsilon_of_example(name))
    assert overlap((loss + other).epsilon(DELTA), (other + loss).epsilon(DELTA))
    assert (0 * loss).epsilon(0.0).upper == 0


@pytest.mark.parametrize("name", SUPPORTED)
def test_delta_never_rises_and_agrees_with_epsilon(name):
    loss = loss_of_example(name)
    ends = [advantage_of_example(name)] + [loss.delta(epsilon) for epsilon in (0.2, 0.5, 1.0, 2.0)]
    for earlier, later in itertools.pairwise(ends):
        assert later.lower <= earlier.upper
    found = loss.epsilon(1e-3)
    if math.isfinite(found.upper):
        assert loss.delta(found.upper * (1 + 1e-6) + 1e-9).lower <= 1e-3 * (1 + 1e-9)
        assert loss.delta(found.lower * (1 - 1e-6)).upper >= 1e-3 * (1 - 1e-3) or found.lower == 0


@pytest.mark.parametrize("name", SUPPORTED)
def test_many_rates_at_once_have_the_limits_that_each_has_alone_or_hardly_more(name):
    """A one-run audit asks for 1,100 limits at each of 24 amounts of noise: one by one that takes a minute."""
    loss, rates = loss_of_example(name), np.array([0.0, 1e-7, 0.001, 0.3, 1.0])
    alone = np.array([loss.tradeoff(float(rate)).upper for rate in rates])
    assert (alone <= loss.tradeoffs(rates)).all()
    assert (loss.tradeoffs(rates) <= alone + 1e-4).all()
    with pytest.raises(BadInput, match="must be in"):
        loss.tradeoffs(np.array([0.5, 1.5]))


@pytest.mark.parametrize("name", SUPPORTED)
def test_the_trade_off_curve_is_one(name):
    loss = loss_of_example(name)
    powers = [loss.tradeoff(fpr) for fpr in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0)]
    for fpr, power in zip((0.0, 0.01, 0.1, 0.5, 0.9, 1.0), powers, strict=True):
        assert fpr <= power.lower <= power.upper <= 1
    for earlier, later in itertools.pairwise(powers):
        assert earlier.lower <= later.upper
    advantage = max(power.lower - fpr for fpr, power in zip((0.01, 0.1, 0.5, 0.9), powers[1:5], strict=True))
    assert advantage <= advantage_of_example(name).upper + 1e-12


@pytest.mark.parametrize("name", SUPPORTED)
def test_beliefs_stay_between_what_was_known_and_all(name):
    loss = loss_of_example(name)
    for prior in (0.0, 0.1, 1.0):
        accuracy, posterior = loss.accuracy(prior), loss.posterior(prior, DELTA)
        assert max(prior, 1 - prior) <= accuracy.lower <= accuracy.upper <= 1
        assert prior <= posterior.lower <= posterior.upper <= 1
    half, advantage = loss.accuracy(0.5), advantage_of_example(name)
    assert half.upper == pytest.approx((1 + advantage.upper) / 2)
    assert half.lower == pytest.approx((1 + advantage.lower) / 2)


@pytest.mark.parametrize("name", [name for name in SUPPORTED if rescaled(EXAMPLES[name], 2.0) != EXAMPLES[name]])
def test_more_noise_never_costs_more_and_stays_in_the_family(name):
    event, adjacency = EXAMPLES[name], ADJACENCY.get(name, "add-remove")
    noisier = rescaled(event, 1.3)
    assert family(noisier) == family(event)
    assert privacy_loss(noisier, adjacency).epsilon(DELTA).upper < epsilon_of_example(name).upper


@pytest.mark.parametrize(
    "event", [Gaussian(2.0), Laplace(3.0), Poisson(0.1, Gaussian(1.0)), ApproximateDP(0.2, 1e-9), ZCDP(0.1)]
)
def test_a_larger_group_costs_more(event):
    found = [privacy_loss(event, "add-remove", group=k).epsilon(1e-4).upper for k in (1, 2, 3)]
    assert found[0] < found[1] < found[2]


def test_group_privacy_of_approximate_dp_has_its_constant():
    """delta (e^{k epsilon} - 1)/(e^epsilon - 1): at k = 10, epsilon 1 it is 12,818 delta."""
    loss = privacy_loss(ApproximateDP(1.0, 1e-9), "add-remove", group=10)
    assert loss.delta(10.0).upper == pytest.approx(12_818e-9, rel=1e-4)


def test_a_composition_of_many_events_is_put_in_order_once(monkeypatch):
    """Putting it in order after each event takes time that grows with the square of their number."""
    ordered, merged = [], composed._merged
    monkeypatch.setattr(composed, "_merged", lambda *several: ordered.append(len(several)) or merged(*several))
    many = tuple(Gaussian(1 + place / 1000) for place in range(50))
    found = privacy_loss(Compose(many), "add-remove")
    assert ordered == [50, 50]
    assert found == functools.reduce(operator.add, [privacy_loss(event, "add-remove") for event in many])


def test_releases_on_one_sample_are_not_two_samples():
    rate, steps = 256 / 60_000, 2340
    joint = privacy_loss(Repeat(Poisson(rate, Compose((Gaussian(1.1), Gaussian(1.1)))), steps), "add-remove")
    wrong = privacy_loss(Repeat(Compose((Poisson(rate, Gaussian(1.1)),) * 2), steps), "add-remove")
    assert joint.epsilon(1e-5).upper == pytest.approx(2.06, abs=0.01)
    assert wrong.epsilon(1e-5).upper == pytest.approx(1.32, abs=0.01)


def test_readings_take_their_argument_by_name():
    loss = privacy_loss(Gaussian(2.0), "add-remove")
    assert loss.epsilon(delta=DELTA) == loss.epsilon(DELTA)
    assert loss.delta(epsilon=1.0) == loss.delta(1.0)
    assert loss.tradeoff(fpr=0.01) == loss.tradeoff(0.01)
