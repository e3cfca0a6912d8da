"""Epsilon of an event, or of the usual three numbers of private training."""

from __future__ import annotations

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.events import Event, Gaussian
from ..core.interval import Interval
from .dispatch import privacy_loss
from .sampling import POISSON, Sampling


def training_event(noise_multiplier: float, rate: float, steps: int, sampling: Sampling | str = POISSON) -> Event:
    """`steps` Gaussian sums over batches that hold a share `rate` of the records, drawn as `sampling` says."""
    return Sampling.of(sampling).event(Gaussian(noise_multiplier), rate, steps)


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
