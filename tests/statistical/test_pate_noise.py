"""The noise on votes is the noise that is charged for: frequencies against integrals, and mutants that must fail."""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

import tacit
from tacit.core import Adjacency, source
from tacit.pate import ConfidentGNMax, GNMax, LNMax

DRAWS = 40_000
LIMIT = 6.5
"""Standard deviations: 27 comparisons exceed it with a chance below 1e-8, and seeds are fixed."""


def winner_shares(counts, noise, density, below):
    """P(class k wins) = Int f(z) prod_j F(z + n_k - n_j) dz."""
    found = []
    for k, own in enumerate(counts):
        others = [own - other for j, other in enumerate(counts) if j != k]
        chance = lambda z, others=others: density(z / noise) / noise * math.prod(below((z + d) / noise) for d in others)  # noqa: E731
        found.append(integrate.quad(chance, -12 * noise, 12 * noise, limit=400, epsabs=1e-11)[0])
    return np.array(found)


def gaussian_shares(counts, noise):
    return winner_shares(counts, noise, stats.norm.pdf, special.ndtr)


def laplace_shares(counts, noise):
    below = lambda z: 0.5 * math.exp(z) if z < 0 else 1 - 0.5 * math.exp(-z)  # noqa: E731
    return winner_shares(counts, noise, lambda z: 0.5 * math.exp(-abs(z)), below)


def off(rule, counts, expected, seed=0):
    """The largest deviation of frequencies, in standard deviations."""
    labels = rule.told(np.tile(counts, (DRAWS, 1)), source(seed), DRAWS).labels
    found = np.bincount(labels, minlength=len(counts)) / DRAWS
    return float((np.abs(found - expected) / np.sqrt(expected * (1 - expected) / DRAWS)).max())


CASES = [((30, 20, 10), 8.0), ((12, 11, 11, 6), 5.0), ((20, 20), 15.0)]


@pytest.mark.parametrize(("counts", "noise"), CASES)
def test_gaussian_winner(counts, noise):
    expected = gaussian_shares(counts, noise)
    assert expected.sum() == pytest.approx(1, abs=1e-8)
    assert off(GNMax(noise), counts, expected) < LIMIT


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_another_scale_is_seen(factor):
    counts, noise = CASES[0]
    assert off(GNMax(noise * factor), counts, gaussian_shares(counts, noise)) > LIMIT
    assert off(LNMax(noise * factor), counts, laplace_shares(counts, noise)) > LIMIT


@pytest.mark.parametrize(("counts", "noise"), CASES[:1])
def test_laplace_winner(counts, noise):
    assert off(LNMax(noise), counts, laplace_shares(counts, noise)) < LIMIT


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_share_of_answered_queries(factor):
    rule = ConfidentGNMax(35, 8.0 * factor, 1e-3)
    told = rule.told(np.tile([30, 20, 10], (DRAWS, 1)), source(1), DRAWS)
    expected = special.ndtr((30 - 35) / 8.0)
    deviation = abs(told.answered.mean() - expected) / math.sqrt(expected * (1 - expected) / DRAWS)
    assert (deviation < LIMIT) == (factor == 1.0)


@pytest.mark.parametrize(("share", "verdict"), [(1.0, "consistent"), (0.3, "refuted")])
def test_audit_of_votes_under_their_event(share, verdict):
    """One vote moves in every one of 60 queries; noise that is too small is refuted."""
    event = GNMax(6.0).event(60, 60, Adjacency.ADD_REMOVE)
    before, after = np.tile([6, 5], (60, 1)), np.tile([5, 6], (60, 1))

    def release(counts, rng):
        return GNMax(6.0 * share).told(counts, source(rng), 60).labels.sum()

    found = tacit.audit_mechanism(
        release, (before, after), claim=event, delta=1e-3, adjacency="add-remove", runs=1500, rng=1
    )
    assert found.verdict == verdict, found.sentence
