"""Bounds: what they check, and what they contradict."""

import math

import pytest

from tacit.core import Adjacency, BadInput, Bound, Mismatch, Side

UPPER = Bound(4.0, 1e-5, "upper", 1.0, "proof", "add-remove", assumes="Gaussian")


def lower(epsilon, **changes):
    fields = {"epsilon": epsilon, "delta": 1e-5, "side": "lower", "confidence": 0.95, "method": "m"}
    return Bound(**{**fields, "adjacency": "add-remove", **changes})


def test_strings_become_enums():
    assert UPPER.side is Side.UPPER
    assert UPPER.adjacency is Adjacency.ADD_REMOVE


def test_a_lower_bound_above_the_claim_contradicts_it_from_either_side():
    assert lower(4.1).contradicts(UPPER)
    assert UPPER.contradicts(lower(4.1))


def test_a_lower_bound_at_the_claim_does_not():
    assert not lower(4.0).contradicts(UPPER)


@pytest.mark.parametrize("change", [{"delta": 1e-6}, {"adjacency": "replace"}, {"unit": "user"}])
def test_bounds_about_different_things_cannot_be_compared(change):
    with pytest.raises(Mismatch):
        lower(9.0, **change).contradicts(UPPER)


def test_two_bounds_of_one_side_cannot_be_compared():
    with pytest.raises(Mismatch):
        UPPER.contradicts(UPPER)
    with pytest.raises(Mismatch):
        lower(1.0).contradicts(lower(2.0))


def test_a_family_reading_says_nothing_of_a_claim_outside_the_family():
    """Soundness rule 15: the Gaussian reading of a Laplace mechanism with epsilon 1 is 4.53."""
    laplace = Bound(1.0, 1e-5, "upper", 1.0, "proof", "add-remove", assumes="Laplace")
    pair = Bound(1.0, 1e-5, "upper", 1.0, "stated", "add-remove")
    reading = lower(4.53, assumes="Gaussian")
    assert not reading.contradicts(laplace)
    assert not reading.contradicts(pair)
    assert reading.contradicts(UPPER)
    assert lower(4.53).contradicts(laplace)


@pytest.mark.parametrize("bound", [UPPER, lower(2.5, assumptions=("coins are fair",)), lower(math.inf)])
def test_json_round_trip(bound):
    assert Bound.from_json(bound.to_json()) == bound


def test_infinity_is_null_in_json():
    assert lower(math.inf).to_json()["epsilon"] is None


@pytest.mark.parametrize(
    "change",
    [{"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 1.0}, {"delta": -0.1}, {"side": "middle"},
     {"confidence": 0.0}, {"confidence": 1.5}, {"adjacency": "neighbour"}, {"epsilon": True}],
)  # fmt: skip
def test_bad_fields_are_refused(change):
    with pytest.raises(BadInput):
        lower(**{"epsilon": 1.0, **change})
