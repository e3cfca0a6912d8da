"""A secret column from many sums that are each a little off."""

from pathlib import Path

import numpy as np

from tacit import disclosure, mechanism
from tacit.core import source
from tacit.disclosure import Bar

from .shown import EPSILON, Shown, incomes


def reconstruction(folder: Path, people: int = 256) -> Shown:
    """A secret column from sums over random subsets, each a little off."""
    bits = incomes(folder, people)
    rng, numbers = source(0), np.random.default_rng(0)
    subsets = disclosure.random_subsets(people, 2 * people, rng)
    sums = subsets @ bits.astype(np.int64)
    off = numbers.uniform(-0.3, 0.3, len(sums)) * np.sqrt(people)
    plain = disclosure.reconstruct(subsets, sums + off).accuracy(bits)
    noisy = mechanism.laplace(sums, sensitivity=len(sums), epsilon=EPSILON, rng=rng).value
    private = disclosure.reconstruct(subsets, noisy, errors="heavy").accuracy(bits)
    told = f"{plain:.0%} of {people} incomes follow from {len(sums)} sums, each up to 0.3 sqrt(n) off"
    bars = Bar("sums a little off", plain), Bar("private sums", private, "private"), Bar("a coin", 0.5, "guessing")
    limit = disclosure.attainable(EPSILON)
    return Shown("Incomes from sums over subsets", f"{told}; {private:.0%} from private sums.", bars, limit)
