"""Where randomness comes from: the operating system for a claim, a seed for an experiment.

There is no ambient state and no default seed. Every distribution is built here from 64-bit words, by the same code for
both sources, so a test of the seeded one is a test of the cryptographic one.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import check
from .errors import BadInput

Floats = NDArray[np.float64]
Shape = int | tuple[int, ...]
RandomLike = "Source | int | np.random.Generator | None"


class Source(ABC):
    """A stream of independent uniform 64-bit words, and the draws that are made from it."""

    name: str
    cryptographic: bool

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` uniform 64-bit words."""

    @abstractmethod
    def spawn(self, count: int) -> list[Source]:
        """Independent sources, for work done in parallel."""

    def uniform(self, shape: Shape = ()) -> Floats:
        """Uniform on the 2^53 midpoints (k + 1/2) 2^-53, rounded to float64: never 0, never 1."""
        words = self.words(_size(shape))
        middle = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.minimum(middle, 1 - 2.0**-53).reshape(shape)  # the last midpoint would round to 1

    def normal(self, shape: Shape = ()) -> Floats:
        """Standard normal by Box and Muller 1958, float64; the radius reaches 8.6 standard deviations."""
        size = _size(shape)
        half = (size + 1) // 2
        uniform = self.uniform((2, half))
        radius = np.sqrt(-2.0 * np.log(uniform[0]))
        angle = 2.0 * math.pi * uniform[1]
        return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[:size].reshape(shape)

    def bernoulli(self, rate: float, shape: Shape = ()) -> NDArray[np.bool_]:
        """True with probability `rate`, to 2^-53."""
        return np.asarray(self.uniform(shape) < check.probability("rate", rate))

    def coins(self, shape: Shape = ()) -> NDArray[np.bool_]:
        """Fair coins."""
        return np.asarray((self.words(_size(shape)) >> np.uint64(63)).astype(bool)).reshape(shape)

    def integers(self, high: int, shape: Shape = ()) -> NDArray[np.int64]:
        """Uniform on 0 .. high - 1, to high 2^-53."""
        return np.asarray(np.minimum((self.uniform(shape) * high).astype(np.int64), high - 1))

    def permutation(self, count: int) -> NDArray[np.intp]:
        """A uniform order of 0 .. count - 1."""
        return np.argsort(self.words(count), kind="stable")

    def generator(self) -> np.random.Generator:
        """A numpy generator started from this source, for code that wants one (never for a claim's noise)."""
        return np.random.Generator(np.random.PCG64DXSM([int(word) for word in self.words(4)]))


class Cryptographic(Source):
    """The operating system's generator; the default, and the only source for a claim."""

    name = "cryptographic, from the operating system"
    cryptographic = True

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def spawn(self, count: int) -> list[Source]:
        return [Cryptographic() for _ in range(count)]


class Seeded(Source):
    """A repeatable stream (Philox), for experiments and tests."""

    name = "seeded, for an experiment"
    cryptographic = False

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._bits = np.random.Philox(self._sequence)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def spawn(self, count: int) -> list[Source]:
        return [Seeded(child) for child in self._sequence.spawn(count)]


class Replayed(Seeded):
    """A stream that work goes through again after it was interrupted, up to the place where it was.

    It comes from a seed, or from words that the work keeps until it has ended. `mark` gives its position. Parts of
    the work that were finished are not done again, and the numbers that they drew are skipped.
    """

    def __init__(self, origin: Sequence[int], *, seeded: bool) -> None:
        super().__init__(np.random.SeedSequence(list(origin)))
        self.origin, self.drawn, self.children = list(origin), 0, 0
        self.name = Seeded.name if seeded else "from a secret of the operating system, kept while the run lasts"

    def words(self, count: int) -> NDArray[np.uint64]:
        self.drawn += count
        return super().words(count)

    def spawn(self, count: int) -> list[Source]:
        self.children += count
        return super().spawn(count)

    @property
    def mark(self) -> list[int]:
        """Where the stream comes from, and how far it has been used."""
        return [*self.origin, self.drawn, self.children]

    def skip(self, words: int, children: int) -> None:
        """Use up what a finished part drew."""
        self.words(words)
        self.spawn(children)


def source(rng: Source | int | np.random.Generator | None = None) -> Source:
    """The source a user means: None is cryptographic; a whole number or a numpy Generator is an experiment."""
    if rng is None:
        return Cryptographic()
    if isinstance(rng, Source):
        return rng
    if isinstance(rng, np.random.Generator):
        return Seeded(int(rng.integers(0, 2**63, dtype=np.int64)))
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise BadInput(f"rng must be None, a whole number or a numpy Generator, got {type(rng).__name__}.")
    return Seeded(int(rng))


def _size(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)
