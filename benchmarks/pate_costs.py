"""What answers of teachers cost: the noise that so many may have, and how many there may be at some noise."""

from __future__ import annotations

import math

from tacit.pate import GNMax
from tacit.pate.design import designed


def cost(rule, answers, delta):
    """The epsilon of so many answers."""
    return designed(rule, available=answers, queries=answers, answers=None, epsilon=None, delta=delta).epsilon


def noise_for(epsilon, answers, delta):
    """The least noise of GNMax, to 0.1 votes, with which so many answers cost at most epsilon."""
    low, high = 0.1, 1e6
    while high - low > 0.05:
        middle = (low + high) / 2
        low, high = (low, middle) if cost(GNMax(middle), answers, delta) <= epsilon else (middle, high)
    return math.ceil(high * 10) / 10


def answers_for(epsilon, rule, delta):
    """The most answers that cost at most epsilon."""
    low, high = 1, 2
    while cost(rule, high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(rule, middle, delta) <= epsilon else (low, middle)
    return low
