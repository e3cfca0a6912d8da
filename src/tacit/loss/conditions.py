"""What the reader of a bound must believe: one sentence for each condition of each event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from ..core.events import (
    ApproximateDP,
    BandedFactorisation,
    Event,
    LastIterate,
    MatrixFactorisation,
    ObjectivePerturbation,
    RepeatAndSelect,
    TruncatedPoisson,
)
from .reading import SAMPLING

STEADY = ("a record added, removed or exchanged leaves the steps of all others as they are",)
CONDITIONS: dict[type[Event], tuple[str, ...]] = {
    TruncatedPoisson: (
        "every batch is a fresh Poisson sample, cut down to `cap` records chosen uniformly",
        "there are at most `size` records",
    ),
    ApproximateDP: ("the release is (epsilon, delta)-DP under this adjacency, as it says",),
    RepeatAndSelect: ("only the best run is seen, and the number of runs is drawn as `shape` and `mean` say",),
    MatrixFactorisation: STEADY,
    BandedFactorisation: STEADY,
    ObjectivePerturbation: (
        "every loss is a convex, twice differentiable function of one inner product, as steep and as curved as stated",
        "the minimiser is exact, over all of space, and nothing else is released",
    ),
    LastIterate: (
        "every loss is convex and as steep and as smooth as stated everywhere, without clipping; constants are public",
        "the start does not depend on the data, and no iterate but the last is ever seen",
        "there are at most `size` records",
    ),
}
"""Conditions of events beside how batches are drawn."""


def conditions(event: Event) -> list[str]:
    """How batches are drawn, and all other conditions, of an event and the events in it."""
    found: list[str] = []
    for part in _parts(event):
        texts: tuple[str, ...] = (SAMPLING[type(part)][1],) if type(part) in SAMPLING else ()
        if isinstance(part, LastIterate):
            texts += _sampled(part)
        found += [text for text in (*texts, *CONDITIONS.get(type(part), ())) if text not in found]
    return found


def sampling_names(event: Event) -> str:
    """The kinds of sampling in an event, by name."""
    names = [SAMPLING[type(part)][0] for part in _parts(event) if type(part) in SAMPLING]
    names += ["truncated-poisson" for part in _parts(event) if isinstance(part, TruncatedPoisson)]
    names += ["poisson" for part in _parts(event) if isinstance(part, LastIterate) and part.rate < 1]
    return ", ".join(dict.fromkeys(names)) or "none"


def _sampled(event: LastIterate) -> tuple[str, ...]:
    drawn = (
        ("every step takes all records",)
        if event.rate == 1
        else ("every batch is a fresh Poisson sample of rate `rate`",)
    )
    return drawn if event.diameter is None else (*drawn, "every step ends with a projection onto one convex set")


def _parts(event: Event) -> Iterator[Event]:
    yield event
    for field_ in fields(event):
        value = getattr(event, field_.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Event):
                yield from _parts(item)
