"""Epsilon of an event, or of the usual three numbers of private training."""

from __future__ import annotations

import math
from fractions import Fraction

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.events import (
    Allocation,
    Event,
    FixedSize,
    Gaussian,
    Poisson,
    Repeat,
    Shuffled,
)
from ..core.interval import Interval
from .dispatch import privacy_loss


def training_event(noise_multiplier: float, rate: float, steps: int, sampling: str = "poisson") -> Event:
    """`steps` Gaussian sums over batches that hold a share `rate` of the records, drawn as `sampling` says."""
    return sampled_event(Gaussian(noise_multiplier), rate, steps, sampling)


def sampled_event(release: Event, rate: float, steps: int, sampling: str, size: int | None = None) -> Event:
    """`release` on `steps` batches that hold a share `rate` of `size` records, drawn as `sampling` says."""
    if sampling == "poisson":
        return Repeat(Poisson(rate, release), steps)
    if sampling == "full":
        if rate != 1.0:
            raise BadInput(f"full sampling takes every record in every step: rate must be 1, got {rate:g}.")
        return Repeat(release, steps)
    share = Fraction(check.probability("rate", rate, zero=False)).limit_denominator(10**9)
    if sampling == "fixed-size":
        batch, size = (share.numerator, share.denominator) if size is None else (_batch(rate, size), size)
        return Repeat(FixedSize(batch, size, release), steps)
    if sampling not in ("shuffled", "allocation"):
        raise BadInput(
            f"sampling {sampling!r} is not known.", fix="Use one of: poisson, fixed-size, shuffled, allocation, full."
        )
    batches = whole_passes(rate, sampling)
    if check.whole("steps", steps) % batches:
        raise BadInput(f"{sampling} sampling goes in passes of {batches} steps, got {steps} steps.")
    one = Shuffled(batches, release) if sampling == "shuffled" else Allocation(1, batches, release)
    return Repeat(one, steps // batches)


def whole_passes(rate: float, sampling: str) -> int:
    """Steps of one pass over the units: 1/rate, which must be a whole number."""
    batches = round(1 / rate)
    if not math.isclose(batches * rate, 1.0, rel_tol=1e-6):
        raise BadInput(f"{sampling} sampling goes in passes of 1 / rate steps: {1 / rate:g} is not a whole number.")
    return batches


def _batch(rate: float, size: int) -> int:
    """A fixed batch size must be a whole number of records."""
    batch = round(rate * size)
    if not math.isclose(batch, rate * size, rel_tol=1e-9) or batch < 1:
        raise BadInput(
            f"A fixed batch of rate x public_size = {rate * size:g} records is not a whole number.",
            fix="Give rate = batch / public_size.",
        )
    return batch


def epsilon(
    event: Event | None = None,
    *,
    delta: float,
    noise_multiplier: float | None = None,
    rate: float = 1.0,
    steps: int = 1,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
) -> Interval:
    """Certified epsilon at `delta` of `event`, or of `steps` Poisson-sampled Gaussian sums.

    Guarantee: the true epsilon lies in the interval; `upper` is the claim.
    Caller ensures: with numbers instead of an event, every batch is a fresh Poisson sample of rate `rate`.
    """
    if (event is None) == (noise_multiplier is None):
        raise BadInput("epsilon needs either an event or a noise_multiplier.", fix="Give exactly one of them.")
    if event is None:
        event = training_event(check.positive("noise_multiplier", noise_multiplier or 0.0), rate, steps)
    elif rate != 1.0 or steps != 1:
        raise BadInput(
            "rate and steps go with noise_multiplier.",
            fix="Put them into the event: Repeat(Poisson(rate, ...), steps).",
        )
    return privacy_loss(event, adjacency).epsilon(delta)
