"""The limits of a ledger's criteria against 80 digits, for budgets far outside of ordinary ranges."""

import random

import mpmath
import pytest

from tacit.core import Adjacency
from tacit.events import Laplace, Poisson, RandomizedResponse
from tacit.ledger.amounts import PARTS
from tacit.ledger.costs import costs
from tacit.ledger.criteria import GDP, SUM, criteria, gaussian_delta, pure_mu, pure_renyi, sound


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(80):
        yield


def gaussian(epsilon, mu):
    epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def reached(item, epsilon, delta):
    """By what factor the limit exceeds its share: of delta for Gaussian privacy, else of epsilon."""
    most = mpmath.mpf(item.limit) / PARTS
    if item.name == GDP:
        return gaussian(epsilon, mpmath.sqrt(most)) / item.delta
    if item.name == SUM:
        return most / mpmath.mpf(repr(epsilon))
    order = mpmath.mpf(item.tilt) + 1
    own = -mpmath.log(item.delta) + (order - 1) * mpmath.log(1 - 1 / order) - mpmath.log(order)
    return (most + own / (order - 1)) / epsilon


@pytest.mark.parametrize("seed", range(4))
def test_no_limit_exceeds_its_share(seed):
    """At epsilon 1e-10 the limit of Gaussian privacy allowed up to 1e34 times its share of delta."""
    rng = random.Random(seed)
    for _ in range(12):
        epsilon = 10 ** rng.uniform(-16, 6)
        delta = 10 ** rng.choice((rng.uniform(-300, -20), rng.uniform(-20, -0.001)))
        found = criteria(epsilon, delta, rng.choice((0.0, 0.15, 0.9)))
        assert sound(found, epsilon, delta)
        for item in found[:-1]:
            assert reached(item, epsilon, delta) <= 1 + 1e-9, (item.name, epsilon, delta)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-301, 1e-299])
def test_a_delta_at_the_end_of_floats_leaves_the_plain_sum(delta):
    for stated in (0.0, 0.15, 1.0):
        found = criteria(1.0, delta, stated)
        assert found[0].name == SUM
        assert sound(found, 1.0, delta)


def test_gaussian_delta_keeps_its_digits():
    rng = random.Random(5)
    for _ in range(200):
        mu, a = 10 ** rng.uniform(-16, 2), rng.uniform(-36, 3)
        if (epsilon := mu * (mu / 2 - a)) > 0:
            assert abs(gaussian_delta(epsilon, mu) / gaussian(epsilon, mu) - 1) < 1e-9, (epsilon, mu)


def test_pure_events_cost_what_randomized_response_does():
    rng = random.Random(6)
    for _ in range(100):
        epsilon, tilt = 10 ** rng.uniform(-18, 1.5), 10 ** rng.uniform(-3, 3)
        e, t = mpmath.mpf(epsilon), mpmath.mpf(tilt)
        renyi = mpmath.log((mpmath.exp((1 + t) * e) + mpmath.exp(-t * e)) / (1 + mpmath.exp(e))) / t
        mu = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(e)) - 1)
        assert (pure_renyi(epsilon, tilt) + 1e-15) * (1 + 1e-9) >= renyi, (epsilon, tilt)
        assert pure_mu(epsilon) * (1 + 1e-11) >= mu, epsilon


def test_events_that_lose_next_to_nothing_cost_no_less():
    """Their largest loss is the logarithm of a ratio near 1: at epsilon 5e-8 its rounding took 1e-8 of the cost."""
    rng, found = random.Random(7), criteria(1.0, 1e-6)
    for _ in range(100):
        rate, epsilon = 10 ** rng.uniform(-12, -1), 10 ** rng.uniform(-12, -4)
        sampled = mpmath.log1p(mpmath.mpf(rate) * mpmath.expm1(1))
        for event, pure in (
            (RandomizedResponse(epsilon, 3), mpmath.mpf(epsilon)),
            (Poisson(rate, Laplace(1.0)), sampled),
        ):
            cost = costs(event, Adjacency.ZERO_OUT, 1, found)
            mu = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(pure)) - 1)
            assert mpmath.mpf(cost[SUM]) / PARTS >= pure * (1 - mpmath.mpf(2) ** -52), event
            assert mpmath.mpf(cost[GDP]) / PARTS >= mu**2, event
