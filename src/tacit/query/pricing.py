r"""What an answer costs and how far it may be off: decided from public numbers, before any data are read.

Epsilon is shared out between what is released: the keys where they are not known, how many people lost something to
bounding, and the terms. One person moves the statistic of a term by at most s in each of at most g groups. It gets
discrete Laplace noise of scale g s/epsilon_i, or Gaussian noise of deviation sqrt(g) s z where a delta is given and
that is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from ..core import Adjacency, BadInput, Event, Source, check
from ..core.errors import Argument
from ..core.events import AboveThreshold, Compose, DiscreteLaplace, Gaussian, PartitionSelection
from ..loss import calibrate
from ..mechanism import draws, scales, unknown_keys
from ..mechanism.draws import Whole
from .terms import People, Rows, Term

Part = DiscreteLaplace | Gaussian | AboveThreshold | PartitionSelection
"""The kinds of event that an answer is charged as."""
KEYS_SHARE = Fraction(1, 2)
"""Of epsilon, for keys that are not known, where there are other terms."""
BOUNDS_SHARE = Fraction(1, 5)
"""Of epsilon, for bounds that are found privately, for each column."""


@dataclass(frozen=True)
class Noise:
    """Exact noise on whole numbers: discrete Laplace of this scale, or a rounded normal of this deviation."""

    event: DiscreteLaplace | Gaussian
    spread: Fraction

    @classmethod
    def laplace(cls, moved: int, epsilon: float, neighbours: Adjacency) -> Noise:
        event = DiscreteLaplace(scales.pure_multiplier(epsilon, neighbours.sensitivity), moved)
        return cls(event, _drawable(Fraction(event.noise_multiplier) * moved))

    @classmethod
    def gaussian(cls, most: int, groups: int, multiplier: float) -> Noise:
        root = Fraction(isqrt(groups << 60) + (0 if isqrt(groups) ** 2 == groups else 1), 1 << 30)
        return cls(Gaussian(multiplier), _drawable(Fraction(multiplier) * most * root))

    def drawn(self, count: int, source: Source) -> Whole:
        draw = draws.discrete_laplace if isinstance(self.event, DiscreteLaplace) else draws.rounded_normal
        return draw(self.spread, count, source)

    def reach(self, failure: float) -> float:
        """How far one number's noise reaches, but for a chance of `failure`."""
        if isinstance(self.event, DiscreteLaplace):
            return float(scales.laplace_reach(self.spread, failure))
        return float(max(math.ceil(scales.normal_reach(float(self.spread), failure) - 0.5), 0))


@dataclass(frozen=True)
class Prices:
    """How epsilon is divided: noise of every term, of the count of people who lost rows, of keys and of bounds."""

    terms: dict[Term, Noise]
    lost: Noise | None
    keys: PartitionSelection | None
    free: frozenset[Term]
    """Terms that the release of the keys answers already."""
    bounds: float | None
    """Epsilon for the bounds of each column that needs them."""
    events: tuple[Part, ...]

    @property
    def event(self) -> Event:
        return self.events[0] if len(self.events) == 1 else Compose(self.events)


@dataclass(frozen=True)
class Asked:
    """What is to be paid for: public numbers alone."""

    terms: tuple[Term, ...]
    groups: int
    rows: int
    known: bool
    lost: Fraction
    """Share of epsilon that tells how many people lost something; 0 does not ask."""
    columns: int = 0
    """How many columns need bounds."""


def prices(asked: Asked, *, epsilon: float, delta: float, neighbours: Adjacency) -> Prices:
    """Share out (epsilon, delta), so that a ledger which adds the parts up as they are written finds no more."""
    given = check.positive("epsilon", epsilon)
    if check.delta(delta) == 0 and not asked.known:
        raise BadInput(
            "The keys are not known beforehand, and releasing them needs a delta above 0.",
            fix=(
                *("Give ", Argument("keys"), " (all that should be released), words in ", Argument("schema"), ", or "),
                *(Argument("delta"), " such as 1e-6."),
            ),
        )
    least = given
    while (charged := _charged(found := _shared(asked, least, delta, neighbours), neighbours)) is not None:
        if charged <= scales.written(given):
            break
        least = math.nextafter(least, 0.0)
    return found


def _shared(asked: Asked, epsilon: float, delta: float, neighbours: Adjacency) -> Prices:
    whole = Fraction(epsilon)
    lost = Noise.laplace(1, down(whole * asked.lost), neighbours) if asked.lost else None
    bounds = down(whole * BOUNDS_SHARE / asked.columns) if asked.columns else None
    rest = whole * (1 - asked.lost - (BOUNDS_SHARE if asked.columns else 0))
    free = frozenset(t for t in asked.terms if isinstance(t, People) or (isinstance(t, Rows) and asked.rows == 1))
    free = frozenset() if asked.known else free
    paid = tuple(term for term in asked.terms if term not in free)
    keys = None
    if not asked.known:
        share = KEYS_SHARE if paid else Fraction(1)
        keys = selection(down(rest * share), delta, asked.groups, neighbours)
        rest, delta = rest * (1 - share), 0.0
    terms = _noise(paid, asked, rest, delta, neighbours)
    return Prices(terms, lost, keys, free, bounds, _events(terms, lost, keys, bounds, asked.columns))


def _charged(found: Prices, neighbours: Adjacency) -> Fraction | None:
    """The sum of the parts' epsilons as they are written; None where a part has no epsilon of its own."""
    total = Fraction(0)
    for event in found.events:
        if isinstance(event, Gaussian):
            return None
        own = neighbours.sensitivity / event.noise_multiplier if isinstance(event, DiscreteLaplace) else event.epsilon
        total += scales.written(own)
    return total


def selection(epsilon: float, delta: float, groups: int, neighbours: Adjacency) -> PartitionSelection:
    """What the release of keys costs that are not known; one that could not be drawn is refused, before the charge."""
    unknown_keys({}, epsilon=epsilon, delta=delta, keys_per_person=groups, adjacency=neighbours, rng=0)  # of nobody
    return PartitionSelection(epsilon, delta)


def _drawable(spread: Fraction) -> Fraction:
    """The spread of noise, unless that is too wide to be drawn: to be said before the charge."""
    if spread > draws.LARGEST:
        raise BadInput(
            "The noise would be too large to be drawn exactly.",
            fix=(
                "Raise ",
                Argument("epsilon"),
                ", or lower ",
                Argument("max_rows"),
                " and ",
                Argument("max_groups"),
                ".",
            ),
        )
    return spread


def _noise(
    terms: Sequence[Term], asked: Asked, epsilon: Fraction, delta: float, neighbours: Adjacency
) -> dict[Term, Noise]:
    """Laplace or Gaussian for all, whichever reaches less far."""
    if not terms:
        return {}
    each = down(epsilon / len(terms))
    plain = {term: Noise.laplace(term.most(asked.rows) * asked.groups, each, neighbours) for term in terms}
    if delta == 0:
        return plain
    found = calibrate(epsilon=down(epsilon), delta=delta, steps=len(terms), adjacency=neighbours).noise_multiplier
    normal = {term: Noise.gaussian(term.most(asked.rows), asked.groups, found) for term in terms}
    return normal if normal[terms[0]].reach(0.05) < plain[terms[0]].reach(0.05) else plain


def _events(
    terms: dict[Term, Noise], lost: Noise | None, keys: PartitionSelection | None, bounds: float | None, columns: int
) -> tuple[Part, ...]:
    found: list[Part] = [AboveThreshold(bounds)] * columns if bounds is not None else []
    found += [keys] if keys is not None else []
    found += [noise.event for noise in terms.values()]
    return tuple(found + ([lost.event] if lost is not None else []))


def down(exact: Fraction) -> float:
    """The largest number of floating point that is at most a fraction."""
    found = float(exact)
    return found if Fraction(found) <= exact else math.nextafter(found, 0.0)
