"""Events: frozen, checked, and the same after a trip through JSON."""

import dataclasses
import json
import math

import pytest

from tacit.core.errors import BadInput
from tacit.core.events import (
    Allocation,
    BandedFactorisation,
    Compose,
    DiscreteGaussian,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    MatrixFactorisation,
    NoisyMax,
    ObjectivePerturbation,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    family,
    rescaled,
)


def test_json_is_as_the_contract_shows_it():
    event = Repeat(Poisson(0.01, Gaussian(1.1)), 9)
    assert event.to_json() == {
        "schema": "tacit.event/1",
        "type": "Repeat",
        "event": {"type": "Poisson", "rate": 0.01, "event": {"type": "Gaussian", "noise_multiplier": 1.1}},
        "steps": 9,
    }
    assert Event.from_json(json.dumps(event.to_json())) == event
    assert Event.from_json({"type": "Gaussian", "noise_multiplier": 2}) == Gaussian(2.0)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"type": "Nonsense"}',
        '{"type": "Gaussian", "sigma": 1}',
        '{"type": "Gaussian", "noise_multiplier": -1}',
        '{"schema": "tacit.event/9", "type": "NoOp"}',
        '{"type": "Repeat", "event": 3, "steps": 2}',
        "{}",
    ],
)
def test_bad_json_is_refused_in_one_sentence(text):
    with pytest.raises(BadInput) as caught:
        Event.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(0.0),
        lambda: Gaussian(math.inf),
        lambda: Laplace(math.nan),
        lambda: Poisson(1.1, Gaussian(1.0)),
        lambda: Poisson(0.1, 3),
        lambda: Repeat(Gaussian(1.0), 0),
        lambda: Repeat(Gaussian(1.0), 2.5),
        lambda: Compose(Gaussian(1.0)),
        lambda: RandomizedResponse(1.0, 1),
        lambda: FixedSize(11, 10, Gaussian(1.0)),
        lambda: Allocation(5, 4, Gaussian(1.0)),
        lambda: NoisyMax(1.0, "cauchy"),
        lambda: RepeatAndSelect(Gaussian(1.0), 0.5),
        lambda: RepeatAndSelect(Gaussian(1.0), 5.0, -1.0),
        lambda: DiscreteGaussian(1.0, 0),
        lambda: BandedFactorisation(1.0, (), 3),
        lambda: BandedFactorisation(1.0, 3.0, 3),
        lambda: BandedFactorisation(1.0, (math.nan,), 3),
        lambda: BandedFactorisation(1.0, (1.0, 0.5), 3, 2, 1),
        lambda: BandedFactorisation(1.0, (1.0,), 0),
        lambda: MatrixFactorisation(1.0, ()),
        lambda: MatrixFactorisation(1.0, ((1.0,), (1.0,))),
        lambda: MatrixFactorisation(1.0, ((math.inf,),)),
        lambda: MatrixFactorisation(1.0, 3.0),
        lambda: MatrixFactorisation(1.0, (("a",),)),
        lambda: MatrixFactorisation(1.0, ((1.0,),), 0),
        lambda: ObjectivePerturbation(1.0, -0.1, 1.0),
        lambda: ObjectivePerturbation(1.0, 0.25, 0.0),
        lambda: LastIterate(1.0, 10, 3.0, 1.0, 1.0, 100),
        lambda: LastIterate(1.0, 10, 1.0, 1.0, 1.0, 100, rate=0.0),
        lambda: LastIterate(1.0, 10, 1.0, 1.0, 1.0, 100, diameter=0.0),
        lambda: LastIterate(1.0, 10, 0.9, 1.0, 1.0, 100, regularization=1.0),
    ],
)
def test_impossible_events_are_refused(make):
    with pytest.raises(BadInput):
        make()


def test_events_are_frozen_and_hashable():
    event = Poisson(0.1, Gaussian(1.0))
    assert {event: 1}[Poisson(0.1, Gaussian(1.0))] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.rate = 0.2


def test_a_family_leaves_the_noise_open():
    event = Compose((Repeat(Poisson(0.1, Gaussian(1.0)), 5), Laplace(2.0)))
    assert family(event) == "Compose(Repeat(Poisson(rate=0.1, Gaussian), steps=5), Laplace)"
    assert rescaled(event, 2.0) == Compose((Repeat(Poisson(0.1, Gaussian(2.0)), 5), Laplace(4.0)))
    assert family(rescaled(event, 2.0)) == family(event)
    assert family(event) != family(Compose((Repeat(Poisson(0.2, Gaussian(1.0)), 5), Laplace(2.0))))


def test_a_long_encoder_has_a_short_family():
    long = MatrixFactorisation(1.0, tuple((1.0,) * k for k in range(1, 60)))
    assert len(family(long)) < 2000
    assert family(rescaled(long, 2.0)) == family(long)
    assert family(MatrixFactorisation(1.0, tuple((2.0,) * k for k in range(1, 60)))) != family(long)


def test_every_event_has_its_public_name_where_type_checkers_see_it():
    import tacit.events

    assert {*Event.registry, "Event", "family"} == set(tacit.events.__all__)
    assert all(getattr(tacit.events, name) is kind for name, kind in Event.registry.items())
