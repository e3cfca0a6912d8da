"""Checks of public arguments: what passes, what is refused, and that the sentence names the argument."""

import math

import pytest

from tacit.core import BadInput, check


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, "x", "2.0", None, True])
def test_positive_refuses(value):
    with pytest.raises(BadInput, match="noise"):
        check.positive("noise", value)


def test_positive_takes_numbers():
    assert check.positive("noise", 2) == 2.0


def test_nonnegative_takes_infinity_only_where_it_means_something():
    assert check.nonnegative("epsilon", math.inf, infinite=True) == math.inf
    with pytest.raises(BadInput):
        check.nonnegative("epsilon", math.inf)


@pytest.mark.parametrize(
    ("value", "zero", "one"), [(0.0, False, True), (1.0, True, False), (-0.1, True, True), (1.1, True, True)]
)
def test_probability_refuses(value, zero, one):
    with pytest.raises(BadInput, match="rate"):
        check.probability("rate", value, zero=zero, one=one)


@pytest.mark.parametrize("value", [0, 2.5, math.inf, math.nan, True, "a"])
def test_whole_refuses(value):
    with pytest.raises(BadInput, match="steps"):
        check.whole("steps", value)


def test_whole_takes_a_float_that_is_whole():
    assert check.whole("steps", 1e3) == 1000
    assert isinstance(check.whole("steps", 1e3), int)
