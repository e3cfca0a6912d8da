"""Events to and from dp-accounting, whose vocabulary many tools write.

Guarantee: a round trip keeps the meaning. What has no counterpart raises BadInput; nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.errors import BadInput, MissingExtra
from ..core.events import (
    ZCDP,
    Compose,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    NoOp,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    TruncatedPoisson,
)


def to_dp_accounting(event: Event) -> Any:
    """Convert an event to a dp_accounting.DpEvent."""
    peer = _peer()
    match event:
        case Gaussian(noise_multiplier=z):
            return peer.GaussianDpEvent(z)
        case Laplace(noise_multiplier=z):
            return peer.LaplaceDpEvent(z)
        case DiscreteLaplace(noise_multiplier=z, sensitivity=s):
            return peer.dp_event.DiscreteLaplaceDpEvent(noise_parameter=1 / (z * s), sensitivity=s)
        case ZCDP(rho=rho):
            return peer.ZCDpEvent(rho)
        case NoOp():
            return peer.NoOpDpEvent()
        case NonPrivate():
            return peer.NonPrivateDpEvent()
        case Poisson(rate=rate, event=inner):
            return peer.PoissonSampledDpEvent(rate, to_dp_accounting(inner))
        case FixedSize(batch=batch, size=size, event=inner):
            return peer.SampledWithoutReplacementDpEvent(size, batch, to_dp_accounting(inner))
        case TruncatedPoisson(rate=rate, cap=cap, event=Gaussian(noise_multiplier=z), size=int(size)):
            return peer.dp_event.TruncatedSubsampledGaussianDpEvent(size, rate, cap, z)
        case RepeatAndSelect(event=inner, mean=mean, shape=shape):
            return peer.dp_event.RepeatAndSelectDpEvent(
                to_dp_accounting(inner), mean, math.inf if shape is None else shape
            )
        case Repeat(event=inner, steps=steps):
            return peer.SelfComposedDpEvent(to_dp_accounting(inner), steps)
        case Compose(events=parts):
            return peer.ComposedDpEvent([to_dp_accounting(part) for part in parts])
    raise BadInput(f"dp-accounting has no event like {type(event).__name__}.")


def from_dp_accounting(event: Any) -> Event:
    """Convert a dp_accounting.DpEvent to an Event.

    Randomized response is read with its count of buckets and its noise parameter."""
    name = type(event).__name__
    simple = {"NoOpDpEvent": NoOp(), "NonPrivateDpEvent": NonPrivate()}
    if name in simple:
        return simple[name]
    readers: dict[str, Callable[[], Event]] = {
        "GaussianDpEvent": lambda: Gaussian(event.noise_multiplier),
        "LaplaceDpEvent": lambda: Laplace(event.noise_multiplier),
        "ZCDpEvent": lambda: ZCDP(event.rho),
        "RandomizedResponseDpEvent": lambda: _response(event.noise_parameter, event.num_buckets),
        "PoissonSampledDpEvent": lambda: Poisson(event.sampling_probability, from_dp_accounting(event.event)),
        "SampledWithoutReplacementDpEvent": lambda: FixedSize(
            event.sample_size, event.source_dataset_size, from_dp_accounting(event.event)
        ),
        "DiscreteLaplaceDpEvent": lambda: DiscreteLaplace(
            1 / (event.noise_parameter * event.sensitivity), event.sensitivity
        ),
        "TruncatedSubsampledGaussianDpEvent": lambda: TruncatedPoisson(
            event.sampling_probability, event.truncated_batch_size, Gaussian(event.noise_multiplier), event.dataset_size
        ),
        "RepeatAndSelectDpEvent": lambda: RepeatAndSelect(
            from_dp_accounting(event.event), event.mean, None if math.isinf(event.shape) else event.shape
        ),
        "SelfComposedDpEvent": lambda: Repeat(from_dp_accounting(event.event), event.count),
        "ComposedDpEvent": lambda: Compose(tuple(from_dp_accounting(part) for part in event.events)),
    }
    if name not in readers:
        raise BadInput(f"There is no event here like dp-accounting's {name}.")
    return readers[name]()


def _response(noise: float, buckets: int) -> RandomizedResponse:
    """Theirs answers at random with probability `noise`, truth included: epsilon = log(1 + k (1 - noise)/noise)."""

    if not 0 < noise <= 1:
        raise BadInput(f"noise_parameter must be in (0, 1], got {noise!r}.")
    return RandomizedResponse(math.log1p(buckets * (1 - noise) / noise), buckets)


def _peer() -> Any:
    try:
        import dp_accounting  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("dev", "pip install dp-accounting") from None
    return dp_accounting
