"""Sums over large sets of people, and what their differences tell."""

from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism
from tacit.disclosure import Asked, Bar

from .shown import EPSILON, Shown, incomes


def differencing(folder: Path, people: int = 200) -> Shown:
    """How many of these people earn much? And how many without the k-th? All sets are large."""
    rich = incomes(folder, people)
    everybody = frozenset(range(people))
    sets = [everybody, *(everybody - {k} for k in range(people))]
    sums = np.array([rich[sorted(some)].sum() for some in sets])
    exact = disclosure.differencing([Asked(some, float(answer)) for some, answer in zip(sets, sums, strict=True)])
    noisy = mechanism.laplace(sums, sensitivity=len(sets), epsilon=EPSILON, rng=1).value
    apart = noisy[0] - noisy[1:]
    right = float(np.mean((apart > np.median(apart)) == rich))  # half of them earn much
    said = f"{len(exact)} of {people} incomes follow from {len(sets)} sums of at least {people - 1} people"
    told = f"{said}; with Laplace noise of epsilon 1 for all sums, {right:.0%} are guessed."
    bars = Bar("exact sums", len(exact) / people), Bar("private sums", right, "private")
    limit = disclosure.attainable(EPSILON)
    return Shown("Incomes told by differences of large sums", told, (*bars, Bar("a coin", 0.5, "guessing")), limit)
