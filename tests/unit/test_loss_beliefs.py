"""Accuracy and posterior for a prior, against closed forms and sums over outcomes."""

import math

import pytest
from scipy.special import ndtr, ndtri

from tacit.core.errors import BadInput
from tacit.core.events import ApproximateDP, Gaussian, Laplace, NonPrivate, NoOp, RandomizedResponse, Repeat
from tacit.loss import privacy_loss


def loss(event):
    return privacy_loss(event, "add-remove")


def bayes(atoms, prior):
    """The best guess's accuracy, outcome by outcome."""
    return sum(max(prior * p, (1 - prior) * q) for p, q in atoms)


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("times", [1, 3, 10])
def test_accuracy_of_repeated_randomized_response(prior, times):
    true = 1 / (1 + math.exp(-0.7))
    atoms = [
        (
            math.comb(times, k) * true**k * (1 - true) ** (times - k),
            math.comb(times, k) * true ** (times - k) * (1 - true) ** k,
        )
        for k in range(times + 1)
    ]
    found = loss(Repeat(RandomizedResponse(0.7), times)).accuracy(prior)
    assert found.lower - 1e-9 <= bayes(atoms, prior) <= found.upper + 1e-9
    assert found.gap <= 1e-3


@pytest.mark.parametrize("prior", [1e-3, 0.3, 0.5, 0.9])
def test_accuracy_of_a_gaussian(prior):
    mu, odds = 0.8, math.log((1 - prior) / prior)
    threshold = mu / 2 + odds / mu
    right = prior * ndtr(mu - threshold) + (1 - prior) * ndtr(threshold)
    found = loss(Gaussian(1 / mu)).accuracy(prior)
    assert found.lower - 1e-12 <= right <= found.upper + 1e-12


@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
def test_pure_privacy_bounds_the_odds(prior):
    for event in (RandomizedResponse(1.5), Laplace(1 / 1.5), ApproximateDP(1.5)):
        found = loss(event).posterior(prior)
        odds = found.upper / (1 - found.upper) * (1 - prior) / prior
        assert odds == pytest.approx(math.exp(1.5), rel=1e-9)
        assert found.gap <= 1e-9
        assert loss(event).posterior(prior, 1e-6).upper <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_the_posterior_of_a_gaussian_holds_its_quantile(delta):
    """The loss is normal under P: its exact quantile lies between both ends, and epsilon(delta) lies below it."""
    mu = 0.5
    quantile = mu**2 / 2 - mu * ndtri(delta)
    exact = 1 / (1 + math.exp(-quantile))
    found = loss(Gaussian(1 / mu)).posterior(0.5, delta)
    assert found.lower <= exact <= found.upper
    naive = 1 / (1 + math.exp(-loss(Gaussian(1 / mu)).epsilon(delta).upper))
    assert naive < exact


def test_edges():
    assert loss(NoOp()).accuracy(0.3).upper == 0.7
    assert loss(NoOp()).posterior(0.3).upper == pytest.approx(0.3)
    assert loss(NonPrivate()).accuracy(0.3).lower == 1
    assert loss(NonPrivate()).posterior(0.3, 0.1).upper == 1
    assert loss(Gaussian(1.0)).posterior(0.3).upper == 1
    for bad in (-0.1, 1.1, math.nan, "half"):
        with pytest.raises(BadInput):
            loss(Gaussian(1.0)).accuracy(bad)
        with pytest.raises(BadInput):
            loss(Gaussian(1.0)).posterior(bad)
