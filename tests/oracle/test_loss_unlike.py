"""Unlike kinds composed, random allocation of k of t among them, against sums over all outcomes (Theorem 6).

The pair of k of t releases is the mean over all k-subsets, written out: with j_a outcomes of ratio r_a its ratio is the
k-th elementary symmetric polynomial of all ratios over C(t, k). Nothing here is shared with the accountant.
"""

import math

import numpy as np
import pytest

from tacit.core.events import Allocation, Compose, DiscreteGaussian, DiscreteLaplace, Poisson, Repeat
from tacit.loss import allocation, privacy_loss


def laplace(scale, shift):
    """P and Q masses by ratio: noise on the integers e^{-|k|/b} moved by `shift`."""
    k = np.arange(-int(60 * scale), int(60 * scale) + shift + 1)
    p, q = (np.exp(-np.abs(k - move) / scale) * math.tanh(0.5 / scale) for move in (shift, 0))
    return merged(p, q)


def gaussian(scale, shift):
    k = np.arange(-int(14 * scale + 5), int(14 * scale + 5) + shift + 1)
    total = np.exp(-(np.arange(-200, 201) ** 2) / (2 * scale**2)).sum()
    p, q = (np.exp(-((k - move) ** 2) / (2 * scale**2)) / total for move in (shift, 0))
    return merged(p, q)


def merged(p, q):
    """One outcome for each ratio."""
    names, place = np.unique(np.round(np.log(p) - np.log(q), 9), return_inverse=True)
    return np.bincount(place, p, names.size), np.bincount(place, q, names.size)


def sampled(pair, rate):
    return (1 - rate) * pair[1] + rate * pair[0], pair[1]


def product(*pairs):
    p, q = np.ones(1), np.ones(1)
    for mine, theirs in pairs:
        p, q = merged(np.outer(p, mine).ravel(), np.outer(q, theirs).ravel())
    return p, q


def subsets(pair, times, steps):
    """k of t releases with two ratios."""
    p, q = pair
    assert p.size == 2
    low, high = p / q
    j = np.arange(steps + 1)
    weight = np.array([math.comb(steps, int(n)) * q[1] ** n * q[0] ** (steps - n) for n in j])
    ratio = np.array(
        [
            sum(
                math.comb(int(n), i) * math.comb(steps - int(n), times - i) * high**i * low ** (times - i)
                for i in range(times + 1)
            )
            / math.comb(steps, times)
            for n in j
        ]
    )
    return merged(weight * ratio, weight)


def delta(pair, epsilon):
    p, q = pair
    grown = math.exp(epsilon)
    return max(np.maximum(p - grown * q, 0).sum(), np.maximum(q - grown * p, 0).sum())


SPLITS = [(1, 5), (2, 5), (3, 7), (3, 10), (4, 13), (5, 11)]
BESIDE = Compose((DiscreteGaussian(2.5), Repeat(Poisson(0.2, DiscreteLaplace(1.5)), 2)))


def beside():
    once = sampled(laplace(1.5, 1), 0.2)
    return product(gaussian(2.5, 1), once, once)


@pytest.mark.parametrize(("times", "steps"), SPLITS)
def test_k_of_t_beside_other_kinds_is_what_all_outcomes_say(times, steps):
    truth = product(subsets(laplace(1.2, 1), times, steps), beside())
    loss = privacy_loss(Compose((Allocation(times, steps, DiscreteLaplace(1.2)), BESIDE)), "add-remove")
    for asked in (0.1, 1e-4, 1e-11):
        found = loss.epsilon(asked)
        assert delta(truth, found.upper) <= asked * (1 + 1e-8)
        assert delta(truth, found.lower * (1 - 1e-9)) >= asked * (1 - 1e-8)


def test_mutant_with_longer_blocks_is_caught(monkeypatch):
    """Blocks that hold more releases than there are hide the record too well; no lower end stands guard."""
    block = allocation._block
    monkeypatch.setattr(allocation, "below_levels", lambda *given: allocation.NOTHING)
    monkeypatch.setattr(allocation, "_block", lambda pair, size: block(pair, size + 2))
    truth = product(subsets(laplace(1.2, 1), 3, 7), beside())
    found = privacy_loss(Compose((Allocation(3, 7, DiscreteLaplace(1.2)), BESIDE)), "add-remove").epsilon(1e-4)
    assert delta(truth, found.upper) > 1e-4 * 1.01
