r"""Randomized response: every person adds noise alone, so that nobody needs to be trusted with the truth.

Of k public categories the truth is told with probability p = 1/(1 + (k - 1) e^{-epsilon}), and else another category,
uniformly, with q = (1 - p)/(k - 1) each. If a share f_c of all responses says c, the unbiased estimate of the true
share is (f_c - q)/(p - q).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, KeysView, Sequence, Set
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, Answer, BadInput, Charger, Source, check, source
from ..core.events import RandomizedResponse
from . import scales
from .charging import Offer, Random, Terms
from .exact import Bounds, exp_bounds, flips, uniform_below
from .inputs import Floats, alone, records

Whole = NDArray[np.int64]
Categories = int | Sequence[Hashable] | NDArray[np.generic]
COVERS = "the error covers the noise of the responses, not how the people were chosen; their number is public"


def respond(answer: object, *, epsilon: float, categories: Categories = 2, rng: Random = None) -> object:
    """One person's side: the response that this person may send to anybody.

    Guarantee: `RandomizedResponse(epsilon, k)`, whatever the receiver does with the response.
    Caller ensures: one response per person, or epsilon counts once for each.
    Edge cases: an answer outside the categories is replaced by a random one before it is randomized.
    """
    epsilon = check.positive("epsilon", epsilon)
    return _randomized([alone(answer)], _words(categories), epsilon, source(rng))[1][0]


def randomized_response(
    answers: object,
    *,
    epsilon: float,
    categories: Categories = 2,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Randomize every answer and release the unbiased shares of the categories.

    Guarantee: `RandomizedResponse(epsilon, k)` for each person under replace (unless told otherwise) or zero-out, drawn
    exactly; the receiver needs no trust. Add-remove is refused: how many people answered is public.
    Caller ensures: one answer per person; the categories are public.
    Edge cases: an answer outside the categories is replaced by a random one before it is randomized.
    Error: all shares at once are within `error` of those of the given answers, with probability `confidence`.
    Reference: Warner 1965; Kairouz, Bonawitz and Ramage 2016 (k categories); Hoeffding 1963, Theorem 2.
    """
    terms = Terms(ledger, key, rng, adjacency).of_public_size("answers")
    words, given = _words(categories), _listed(answers)
    epsilon = check.positive("epsilon", epsilon)
    event = RandomizedResponse(epsilon, len(words))
    error = _error(event, len(given), confidence)
    asked = (len(given), *words)
    offer = Offer("randomized_response", event, terms.neighbours, error, confidence, "local", (COVERS,), asked)
    return offer.drawn(lambda chance: _shares(_randomized(given, words, epsilon, chance)[0], event), terms)


def estimate(responses: object, *, epsilon: float, categories: Categories = 2, confidence: float = 0.95) -> Answer:
    """The receiver's side: unbiased shares from responses that people made by `respond`; draws nothing.

    Guarantee: post-processing of `RandomizedResponse(epsilon, k)` of each person.
    Caller ensures: the responses were made with this epsilon and these categories, one for each person.
    """
    words = _words(categories)
    epsilon = check.positive("epsilon", epsilon)
    event = RandomizedResponse(epsilon, len(words))
    place = {word: i for i, word in enumerate(words)}
    found = [where for item in _listed(responses) if (where := _place(place, item, -1)) >= 0]
    error = _error(event, len(found), confidence)
    offer = Offer("estimate", event, Adjacency.REPLACE, error, confidence, "local", (COVERS,))
    return offer.drawn(lambda chance: _shares(np.array(found, dtype=np.int64), event), Terms())


def _words(categories: Categories) -> tuple[Hashable, ...]:
    if isinstance(categories, str):
        raise BadInput("categories must be a number or a list of words.")
    given: Any = categories.tolist() if isinstance(categories, np.ndarray) else categories
    listed = isinstance(given, Sequence | Set | KeysView)
    words: tuple[Hashable, ...] = tuple(given if listed else range(check.whole("categories", given)))
    if not all(isinstance(word, Hashable) for word in words):
        raise BadInput("categories must be words or numbers.")
    if len(words) < 2 or len(set(words)) != len(words):
        raise BadInput("categories must be at least two, all different.")
    return words


def _randomized(
    answers: list[object], words: tuple[Hashable, ...], epsilon: float, chance: Source
) -> tuple[Whole, list[Hashable]]:
    """Responses as numbers and as words; steps of k - 1 places turn a truth into every other category alike."""
    k, place = len(words), {word: i for i, word in enumerate(words)}
    random = uniform_below(chance, k, len(answers))
    given = (_place(place, item, int(i)) for item, i in zip(answers, random, strict=True))
    truth = np.fromiter(given, dtype=np.int64, count=len(answers))
    lies = ~flips(chance, np.full(truth.size, _truthful(epsilon, k)), lambda _: _truth_bounds(epsilon, k))
    told = np.where(lies, (truth + 1 + uniform_below(chance, k - 1, truth.size)) % k, truth)
    return told, [words[i] for i in told.tolist()]


def _listed(answers: object) -> list[object]:
    """The answers as a list with one item per person; an item may be of any type."""
    return list(map(alone, answers)) if isinstance(answers, list | tuple) else records(answers).tolist()


def _place(places: dict[Hashable, int], item: object, otherwise: int) -> int:
    """Index of the category of an answer; `otherwise` if it is none, or raises when it is hashed or compared."""
    try:
        return places.get(item, otherwise)
    except Exception:  # an error that one person's answer can cause is a release
        return otherwise


def _truthful(epsilon: float, k: int) -> float:
    return 1 / (1 + (k - 1) * math.exp(-epsilon))


def _told_apart(epsilon: float, k: int) -> float:
    """p - q, of which no digits are lost however small epsilon is."""
    return -math.expm1(-epsilon) * _truthful(epsilon, k)


def _truth_bounds(epsilon: float, k: int) -> Bounds:
    """Bounds of 1/(1 + (k - 1) e^{-epsilon})."""

    def bounds(bits: int) -> tuple[int, int]:
        more = bits + k.bit_length() + 8
        low, high = exp_bounds(Fraction(epsilon), more)
        top = 1 << (more + bits)
        return top // ((1 << more) + (k - 1) * high), -(-top // ((1 << more) + (k - 1) * low))

    return bounds


def _shares(told: Whole, event: RandomizedResponse) -> Floats:
    k = event.categories
    lied = math.exp(-event.epsilon) * _truthful(event.epsilon, k)
    heard = np.bincount(told, minlength=k) / max(told.size, 1)
    return np.asarray((heard - lied) / _told_apart(event.epsilon, k))


def _error(event: RandomizedResponse, people: int, confidence: float) -> float:
    r"""Each share f_c is a mean of independent numbers in [0, 1]: P(|f_c - E f_c| >= t) <= 2 e^{-2 n t^2}."""
    k = event.categories
    failure = scales.each_failure(confidence, 1) / (1 if k == 2 else k)
    return math.sqrt(math.log(2 / failure) / (2 * max(people, 1))) / _told_apart(event.epsilon, k)
