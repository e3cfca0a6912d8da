"""What a ledger charges for every event is enough: the cost in each criterion covers the true delta of the event."""

import math

import numpy as np
import pytest

from event_examples import EXAMPLES
from tacit.core import Adjacency, TacitError, Unsupported
from tacit.events import ApproximateDP, Compose, Gaussian, Laplace, NonPrivate, Repeat
from tacit.ledger.amounts import plain
from tacit.ledger.costs import DRAWN, costs, neighbours
from tacit.ledger.criteria import GDP, STATED, SUM, criteria, gaussian_delta
from tacit.loss import privacy_loss
from tacit.loss.renyi import delta_at

FOUND = criteria(3.0, 1e-5)
EPSILONS = (0.1, 0.7, 3.0)
COMPUTED = ("Allocation", "TruncatedPoisson")
EVENTS = [
    pytest.param(event, id=name, marks=[pytest.mark.slow] if name in COMPUTED else [])
    for name, event in EXAMPLES.items()
]


def charged(event, adjacency, group=1):
    try:
        return privacy_loss(event, adjacency, group=group), costs(event, Adjacency.of(adjacency), group, FOUND)
    except Unsupported:
        return None


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("event", EVENTS)
def test_costs_cover_the_true_loss(event, adjacency):
    found = charged(event, adjacency)
    if found is None:
        return
    loss, cost = found
    stated = plain(cost[STATED])
    for epsilon in EPSILONS:
        try:
            least = loss.delta(epsilon).lower
        except TacitError:
            continue
        for item in FOUND:
            total = plain(cost[item.name])
            if item.name == STATED or math.isinf(total):
                continue
            if item.name == SUM:
                most = 0.0 if epsilon >= total else 1.0
            elif item.name == GDP:
                most = gaussian_delta(epsilon, math.sqrt(total))
            else:
                most = delta_at(np.array([total]), np.array([item.tilt]), epsilon)
            assert least <= most + stated + 1e-9 * least + 1e-12, (item.name, epsilon)


@pytest.mark.parametrize("event", EVENTS)
def test_a_repeated_event_costs_as_often_as_it_is_made(event):
    one, many = charged(event, Adjacency.REPLACE), charged(Repeat(event, 7), Adjacency.REPLACE)
    if one is None or many is None:
        return
    both = charged(Compose((event, Repeat(event, 6))), Adjacency.REPLACE)
    for name, amount in one[1].items():
        assert (many[1][name] is None) == (amount is None)
        if amount is not None:
            assert 7 * (amount - 1) <= many[1][name] <= 7 * amount
            assert both[1][name] == many[1][name]


def test_mixed_compositions_and_groups():
    loss, cost = charged(Compose((Laplace(10.0), Gaussian(5.0), ApproximateDP(0.1, 1e-7))), "add-remove", 3)
    assert cost[SUM] is None
    assert plain(cost[STATED]) > 3e-7
    assert plain(cost[GDP]) > 9 / 25
    assert loss.delta(1.0).lower <= gaussian_delta(1.0, math.sqrt(plain(cost[GDP]))) + plain(cost[STATED])


def test_a_release_without_protection_has_no_finite_cost():
    _, cost = charged(NonPrivate(), "add-remove")
    assert all(cost[item.name] is None for item in FOUND if item.name != STATED)


def test_an_event_of_which_the_ledger_knows_nothing_states_a_guarantee_for_its_own_neighbours(monkeypatch):
    """A new event was charged to a budget of replaced records as if it had been made for them: half of its cost."""
    own, given = Adjacency.REPLACE, Adjacency.ADD_REMOVE
    assert neighbours(Gaussian(1.0), given, own, 1) == (own, 1)
    monkeypatch.setattr("tacit.ledger.costs.DRAWN", tuple(kind for kind in DRAWN if kind is not Gaussian))
    for event in (Gaussian(1.0), Repeat(Gaussian(1.0), 3), Compose((Laplace(1.0), Gaussian(1.0)))):
        assert neighbours(event, given, own, 1) == (given, 2)


def test_which_events_state_a_guarantee():
    drawn = {name for name, event in EXAMPLES.items() if isinstance(event, DRAWN)}
    states = {"AboveThreshold", "ApproximateDP", "BoundedRange", "NoisyMax", "PartitionSelection", "ZCDP"}
    assert set(EXAMPLES) - drawn == states
