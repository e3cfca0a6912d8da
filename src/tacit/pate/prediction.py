r"""A few private predictions, without a student: sample and aggregate with any training.

The records are split into disjoint shards, a model is trained on each, and the models' votes on each input are released
by a noisy maximum. Each answer is paid for, so this is for a handful of inputs: beyond that, teach a student (`PATE`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core import Adjacency, Answer, BadInput, Charger, Event, Mismatch, Source, check
from ..core.events import Gaussian, NoisyMax, Repeat
from ..mechanism.charging import Offer, Random, Terms
from ..mechanism.choices import Distances, permuted
from ..mechanism.scales import gaussian_multiplier, round_epsilon
from .aggregators import MOVE, GNMax, multiplier
from .paying import check_unit
from .records import Given
from .shards import shards
from .teachers import train
from .trying import assumed, tried

QUESTION = "hash of the inputs, classes and number of teachers: "
FLIP = 2.0
"""Permute and flip by votes: two counts move against each other by at most 2."""


@np.errstate(all="ignore")  # no record's value stops it, whatever `numpy.seterr` says
def private_predictions(
    teacher: object,
    x: object,
    y: ArrayLike | None,
    asked: object,
    *,
    classes: Sequence[object] | None = None,
    schema: object = None,
    epsilon: float,
    delta: float = 0.0,
    teachers: int = 50,
    users: ArrayLike | None = None,
    adjacency: Adjacency | str | None = None,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the labels of a few public inputs `asked`, by models trained on disjoint shards of (x, y).

    Guarantee: `Repeat(NoisyMax(epsilon/k, "exponential"), k)` for k inputs, or with delta above 0 `Repeat(Gaussian, k)`
    where that needs less noise: (epsilon, delta)-DP under every adjacency, charged before anything is trained.
    Caller ensures: one row per person, or `users`; the inputs, the classes and all arguments are public.
    Edge cases: as for the teachers of `PATE`; no value of a record raises.
    Error: depends on the data.
    Reference: Nissim, Raskhodnikova and Smith 2007 (sample and aggregate); McKenna and Sheldon 2020.
    """
    given = Given.of(x, y, asked, users, classes, schema)
    terms = Terms(ledger, key, rng, adjacency)
    if ledger is not None:
        check_unit(ledger, given.unit)
    count = len(given.public_x)
    event, scale = _priced(check.positive("epsilon", epsilon), check.delta(delta), count, terms.neighbours)
    teachers = check.whole("teachers", teachers)
    if teachers > len(given.y):
        raise BadInput(f"There are {teachers} teachers and only {len(given.y)} records.", fix="Use fewer teachers.")
    how = tried(teacher, given.public_x, len(given.classes))

    def draw(chance: Source) -> Any:
        places, learning, noise = chance.spawn(3)
        shard = shards(len(given.y), teachers, users=given.users, rng=places)
        made = train(how, given.x, given.y, shard, teachers=teachers, classes=len(given.classes), rng=learning)
        counts = made.counts(given.public_x)
        if isinstance(scale, Fraction):
            chosen = [permuted(Distances(row, scale), noise) for row in counts]
        else:
            chosen = GNMax(scale).told(counts, noise, count).labels.tolist()
        return np.asarray(given.classes[np.array(chosen, dtype=np.int64)])

    asked_for = _question(given, teachers)
    notes = (asked_for, *assumed(how))
    return _same(Offer("private_predictions", event, terms.neighbours, notes=notes).drawn(draw, terms), asked_for)


def _question(given: Given, teachers: int) -> str:
    """What was asked, by a hash of public facts: a key answers one question."""
    facts = f"{given.public_x.shape} {given.public_x.dtype.str} {given.classes.tolist()!r} {teachers}".encode()
    values = given.public_x.tobytes() if given.public_x.dtype.kind != "O" else repr(given.public_x.tolist()).encode()
    return QUESTION + hashlib.sha256(facts + values).hexdigest()[:32]


def _same(answer: Answer, asked_for: str) -> Answer:
    """The answer, if it was kept for this question."""
    if any(note.startswith(QUESTION) and note != asked_for for note in answer.notes):
        raise Mismatch("The key was used for other inputs.", fix="Choose a key of its own for each question.")
    return answer


def _priced(epsilon: float, delta: float, count: int, adjacency: Adjacency) -> tuple[Event, Fraction | float]:
    """The event, and the scale of permute and flip (a fraction) or the deviation of Gaussian noise, in votes."""
    each = round_epsilon(epsilon, 0.0, count, adjacency)
    flip = Fraction(FLIP) / Fraction(each)
    if delta > 0:
        single = gaussian_multiplier(epsilon, delta, adjacency)
        noise = single * math.sqrt(count) * MOVE / adjacency.sensitivity * (1 + 2.0**-40)
        if noise < float(flip):
            return Repeat(Gaussian(multiplier(noise, MOVE, adjacency)), count), noise
    return Repeat(NoisyMax(each, "exponential"), count), flip
