r"""Choosing one of several public candidates by private scores; only the choice is released.

`sensitivity` bounds how far any one score moves when a record is added or removed; `monotone` says that adding a record
never lowers a score (or never raises one), as with counts. The scale of the noise is range/epsilon, where the range is
how far two scores can move against each other:

    range = sensitivity x (1 if monotone else 2) x (2 if replace, since replacing is removing and adding)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import BoundedRange, NoisyMax, Repeat
from . import scales
from .charging import Offer, Random, Terms
from .choices import Distances, by_laplace, by_weight, permuted
from .inputs import array_of, collected, plain

Choose = Callable[[Distances, Source], int]
NOISES: dict[str, Choose] = {"gumbel": by_weight, "exponential": permuted, "laplace": by_laplace}


def exponential(
    utilities: object,
    *,
    sensitivity: float,
    epsilon: float,
    monotone: bool = False,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Choose a candidate by the exponential mechanism: P(i) proportional to e^{u_i epsilon / range}.

    Guarantee: `BoundedRange(epsilon)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: the candidates are public (fixed without the data); no utility moves by more than `sensitivity`;
    `monotone` is true of them if it is claimed.
    Edge cases: NaN counts as 0, infinities as the largest numbers.
    Error: the utility of the choice is below the best by at most `error`, with probability `confidence`.
    Reference: McSherry and Talwar 2007, Theorem 6; Dong, Durfee and Rogers 2020 (bounded range).
    """
    terms = Terms(ledger, key, rng, adjacency)
    event = BoundedRange(check.positive("epsilon", epsilon))
    return _chosen("exponential", utilities, event, sensitivity, monotone, confidence, terms, by_weight)


def permute_and_flip(
    utilities: object,
    *,
    sensitivity: float,
    epsilon: float,
    monotone: bool = False,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Choose a candidate by permute and flip: never farther below the best, in expectation, than `exponential`.

    Guarantee: `NoisyMax(epsilon, "exponential")`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: as for `exponential`.
    Edge cases: NaN counts as 0, infinities as the largest numbers.
    Error: the utility of the choice is below the best by at most `error`, with probability `confidence`.
    Reference: McKenna and Sheldon 2020, Theorem 1; docs/proofs/sampling.md, Theorem 9 (monotone utilities).
    """
    terms = Terms(ledger, key, rng, adjacency)
    event = NoisyMax(check.positive("epsilon", epsilon), "exponential")
    return _chosen("permute_and_flip", utilities, event, sensitivity, monotone, confidence, terms, permuted)


def noisy_max(
    scores: object,
    *,
    sensitivity: float,
    epsilon: float,
    noise: str = "gumbel",
    monotone: bool = False,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the index of the largest noisy score, never the noisy score itself.

    `noise`: gumbel (the exponential mechanism), exponential (permute and flip) or laplace, of scale range/epsilon.

    Guarantee: `NoisyMax(epsilon, noise)`, epsilon-DP, drawn exactly and charged before the draw.
    Caller ensures: as for `exponential`.
    Edge cases: NaN counts as 0, infinities as the largest numbers.
    Error: the score of the choice is below the best by at most `error`, with probability `confidence`.
    Reference: Dwork and Roth 2014, Claim 3.9; Ding et al. 2021; docs/proofs/sampling.md, Theorem 9.
    """
    check.one_of("noise", noise, NOISES)
    terms = Terms(ledger, key, rng, adjacency)
    event = NoisyMax(check.positive("epsilon", epsilon), noise)
    return _chosen("noisy_max", scores, event, sensitivity, monotone, confidence, terms, NOISES[noise])


def top(
    scores: object,
    k: int,
    *,
    sensitivity: float,
    epsilon: float,
    delta: float = 0.0,
    monotone: bool = False,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release the indices of about the k largest scores, best first: k rounds of the exponential mechanism.

    Guarantee: `Repeat(BoundedRange(e), k)`, which is (epsilon, delta)-DP: e = epsilon/k, and more where delta > 0.
    Caller ensures: as for `exponential`.
    Edge cases: k beyond the number of candidates is refused; NaN counts as 0.
    Error: every choice is below the best candidate left by at most `error`, all with probability `confidence`.
    Reference: Durfee and Rogers 2019 (peeling is one-shot Gumbel noise); Dong, Durfee and Rogers 2020.
    """
    terms, scores = Terms(ledger, key, rng, adjacency), collected(scores)
    neighbours, size = terms.neighbours, _size(scores)
    if check.whole("k", k) > size:
        raise BadInput(f"k must be at most the number of candidates {size}, got {k}.")
    each = scales.round_epsilon(check.positive("epsilon", epsilon), check.delta(delta), int(k), neighbours)
    event = Repeat(BoundedRange(each), int(k))
    scale = scale_of(sensitivity, each, monotone, neighbours)
    error = reach(scale, size, scales.each_failure(confidence, int(k)))

    def draw(chance: Source) -> np.ndarray:
        values, left, found = Distances.of(scores, scale).values, np.arange(size), []
        for _ in range(int(k)):
            place = by_weight(Distances(values[left], scale), chance)
            found.append(int(left[place]))
            left = np.delete(left, place)
        return np.array(found)

    asked = size, float(sensitivity), bool(monotone)
    return Offer("top", event, neighbours, error, confidence, asked=asked).drawn(draw, terms)


def scale_of(sensitivity: float, epsilon: float, monotone: bool, adjacency: Adjacency) -> Fraction:
    """The scale of the noise: range/epsilon."""
    factor = Fraction(1 if monotone else 2) * Fraction(adjacency.sensitivity)
    return Fraction(check.positive("sensitivity", sensitivity)) * factor / Fraction(epsilon)


def _size(scores: object) -> int:
    size = plain(array_of(scores)).size
    if size == 0:
        raise BadInput("There must be at least one candidate.")
    return size


def reach(scale: Fraction, size: int, failure: float, laplace: bool = False) -> float:
    r"""How far below the best the choice is at most, up to a chance of `failure`.

    Exponential mechanism: scale log(size/failure) (McSherry and Talwar 2007); permute and flip is never worse
    (McKenna and Sheldon 2020). Laplace: every noise is within scale log(size/failure), twice that in all.
    """
    if size == 1:
        return 0.0
    return float(scale) * (math.log(size) - math.log(failure)) * (2 if laplace else 1) * (1 + 1e-12)


def _chosen(
    name: str,
    utilities: object,
    event: BoundedRange | NoisyMax,
    sensitivity: float,
    monotone: bool,
    confidence: float,
    terms: Terms,
    choose: Choose,
) -> Answer:
    utilities = collected(utilities)
    moved, sure = check.positive("sensitivity", sensitivity), check.probability("confidence", confidence)
    public = (name, event, moved, bool(monotone), sure, terms.neighbours)
    offer, scale = _chosen_offer(_size(utilities), choose is by_laplace, *public)
    return offer.drawn(lambda chance: choose(Distances.of(utilities, scale), chance), terms)


@lru_cache(maxsize=1024)
def _chosen_offer(
    size: int,
    laplace: bool,
    name: str,
    event: BoundedRange | NoisyMax,
    sensitivity: float,
    monotone: bool,
    confidence: float,
    neighbours: Adjacency,
) -> tuple[Offer, Fraction]:
    """The public part of a choice, and the scale of its noise."""
    scale = scale_of(sensitivity, event.epsilon, monotone, neighbours)
    error = reach(scale, size, scales.each_failure(confidence, 1), laplace)
    asked = size, float(sensitivity), monotone
    return Offer(name, event, neighbours, error, confidence, asked=asked), scale
