"""Events with any numbers at all: refused in one sentence, or answered by proper intervals."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.errors import TacitError
from tacit.core.events import (
    BandedFactorisation,
    Compose,
    Event,
    Gaussian,
    LastIterate,
    MatrixFactorisation,
    ObjectivePerturbation,
    Poisson,
    TruncatedPoisson,
)
from tacit.loss import privacy_loss
from tacit.loss.conditions import conditions

WILD = st.one_of(
    st.floats(),
    st.sampled_from([1e-300, 1e-9, 1e300, -1.0, 0.0, True, "one", None]),
    st.floats(0.5, 20.0),
    st.floats(0.5, 20.0),
)
COUNT = st.one_of(st.integers(-2, 50), st.sampled_from([10**6, 10**15, 2.5, math.inf, None]))
TAME = st.floats(0.5, 20.0)
RATE = st.one_of(st.floats(0.0, 1.0), WILD)
ENTRY = st.one_of(st.floats(-2.0, 2.0), WILD)
TRIANGLE = st.integers(1, 4).flatmap(
    lambda size: st.tuples(*(st.tuples(*([ENTRY] * row)) for row in range(1, size + 1)))
)


@st.composite
def makers(draw):
    """A class and arguments for it, which may be impossible."""
    noise = draw(st.one_of(WILD, TAME))
    return draw(
        st.sampled_from(
            [
                (MatrixFactorisation, (noise, draw(TRIANGLE), draw(COUNT), draw(COUNT))),
                (BandedFactorisation, (noise, draw(TRIANGLE)[-1], draw(COUNT), draw(COUNT), draw(COUNT))),
                (ObjectivePerturbation, (noise, draw(WILD), draw(WILD))),
                (LastIterate, (noise, draw(COUNT), draw(WILD), draw(WILD), draw(WILD), draw(COUNT))),
                (
                    LastIterate,
                    (draw(TAME), 100, 0.5, 1.0, 0.25, 200, draw(RATE), draw(st.sampled_from([0.0, 0.1])), draw(WILD)),
                ),
                (TruncatedPoisson, (draw(RATE), draw(COUNT), Compose((Gaussian(draw(TAME)),)), draw(COUNT))),
                (Poisson, (draw(RATE), Gaussian(draw(TAME)))),
            ]
        )
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(makers(), st.sampled_from(["add-remove", "replace"]), st.sampled_from([0.0, 1e-12, 1e-3]))
def test_wild_events(maker, adjacency, delta):
    (make, arguments), sentence = maker, ""
    try:
        event = make(*arguments)
        assert Event.from_json(event.to_json()) == event
        assert all(text and "\n" not in text for text in conditions(event))
        found = privacy_loss(event, adjacency).epsilon(delta)
        assert 0 <= found.lower <= found.upper
    except TacitError as error:
        sentence = str(error)
    assert "\n" not in sentence


def test_a_maker_reaches_both_ends():
    """The test above must meet events that are refused and events that are answered."""
    with pytest.raises(TacitError):
        LastIterate(1.0, 10, 9.0, 1.0, 1.0, 10)
    assert privacy_loss(LastIterate(1.0, 10, 0.5, 1.0, 1.0, 10), "replace").epsilon(1e-3).upper > 0
