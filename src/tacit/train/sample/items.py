"""Records of a map-style data set or a list: read one by one, in this process or by workers, and put into batches.

A record that cannot be read, or is shaped unlike the others, contributes nothing and is counted as idle: an error would
tell that it is there (soundness rule 8). What records look like is taken from several of them before the first step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ...core import BadInput
from ...core.global_randomness import turn
from ..clip.capture.coins import seed_wholly
from ..clip.tree import mapped
from .collate import FIX, Buckets, Collate, Description, describe, fitted, pattern_of, record, stacked
from .draw import Index

LOOKED_AT = 16
ALIKE = 0.75
SEED, WORDS = 2**62, 4
"""The key of a step's random numbers in worker processes is so many whole numbers below SEED."""


class Group(NamedTuple):
    """Units of one public length: their `rows` as one batch, and which of their records could be read (`good`)."""

    length: int | None
    places: list[int]
    rows: Any
    good: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Reader:
    """Read units by the numbers of their records; `pattern` is a record of zeros, used for those that cannot be
    read.
    """

    data: Any
    collate: Collate | None
    pattern: object
    looks: Description

    @property
    def buckets(self) -> Buckets | None:
        return self.collate if isinstance(self.collate, Buckets) else None

    def groups(self, index: Index, *, together: bool = False) -> list[Group]:
        """The units of `index`, (units,) or (units, records), grouped by length; `together`: padded to the largest.

        Another record of the unit stands for one that cannot be read: zeros might have no finite gradient, which takes
        the whole unit away.
        """
        table = index.reshape(len(index), -1)
        units = [[self._read(int(row)) for row in rows] for rows in table]
        lengths = [self._length(unit) for unit in units]
        if together and self.buckets is not None:
            lengths = [max(length for length in lengths if length is not None)] * len(lengths)
        found = []
        for length in sorted(set(lengths), key=lambda one: one or 0):
            places = [place for place, one in enumerate(lengths) if one == length]
            samples = [self._shaped(sample, length) for place in places for sample in _filled(units[place])]
            good = np.array([[sample is not None for sample in units[place]] for place in places])
            shape = (len(places), *index.shape[1:])
            rows = mapped(partial(_cut, shape), stacked(samples))
            found.append(Group(length, places, rows, good.reshape(shape)))
        return found

    def _read(self, row: int) -> Any:
        """A record as tensors, or None. They are copies: the code that reads may use their memory for the next one."""
        try:
            sample = record(self.data[row], self.collate)
            if describe(sample, self.buckets) != self.looks:
                return None
            return mapped(Tensor.clone, fitted(self.pattern, sample))
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a record does when it is read, nothing may be told by it
            return None

    def _length(self, unit: list[object]) -> int | None:
        """The largest public length among a unit's own records."""
        if self.buckets is None:
            return None
        return max((self.buckets.length(one) for one in unit if one is not None), default=self.buckets.public[0])

    def _shaped(self, sample: object, length: int | None) -> object:
        given = self.pattern if sample is None else sample
        return given if self.buckets is None or length is None else self.buckets.padded(given, length)

    def empty(self) -> Any:
        """A batch of one record of zeros."""
        first = None if self.buckets is None else self.buckets.public[0]
        return stacked([self._shaped(None, first)])


def _filled(unit: list[Any]) -> list[Any]:
    """A unit's records, with the first that could be read in the place of those that could not."""
    first = next((sample for sample in unit if sample is not None), None)
    return [first if sample is None else sample for sample in unit]


def _cut(shape: tuple[int, ...], tensor: Tensor) -> Tensor:
    return tensor.unflatten(0, shape)


@turn()
def reader(data: Any, count: int, collate: Collate | None) -> Reader:
    """Inspect some records, spread over the data, and take the form that most of them have."""
    buckets = collate if isinstance(collate, Buckets) else None
    found: dict[Description, list[Any]] = {}
    failed: BaseException | None = None
    rows = looked_at(count)
    for row in rows:
        try:
            sample = record(data[int(row)], collate)
            found.setdefault(describe(sample, buckets), []).append(sample)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # libraries in Rust raise others than `Exception`
            failed = error
    if not found:
        raise _unread(failed) from None  # what it says may hold a record's values
    looks, alike = max(found.items(), key=lambda pair: len(pair[1]))
    if len(alike) < ALIKE * len(rows):
        raise BadInput("Items of the data set cannot be put into one batch: they differ in shape.", fix=FIX)
    if buckets is not None and not buckets.sequences(alike[0]):
        raise BadInput("Buckets find no sequence in a record.", fix="Name its sequences: pad={'input_ids': 0}, say.")
    return Reader(data, collate, pattern_of(alike), looks)


def looked_at(count: int) -> Index:
    """Row numbers spread over the data, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, LOOKED_AT).astype(np.int64))


def _unread(error: BaseException | None) -> BadInput:
    if isinstance(error, BadInput):
        return error
    kind = "" if error is None else f" ({type(error).__name__})"
    return BadInput(f"Items of the data set cannot be made into tensors{kind}.", fix=FIX)


class _Chunks(Dataset[list[Group]]):
    """The work items of worker processes: groups of some units, with random numbers that follow from a key."""

    def __init__(self, source: Reader) -> None:
        self.source = source

    def __getitem__(self, asked: tuple[bytes, Index]) -> list[Group]:
        key, index = asked
        seed_wholly(key, read=True)
        return self.source.groups(index)


class Loader:
    """Read units in order, ahead of time by `workers` processes, which live for the whole run."""

    def __init__(self, source: Reader, workers: int) -> None:
        self.source, self.workers = source, workers
        self.asked: list[tuple[bytes, Index]] = []
        self._loader: DataLoader[list[Group]] | None = None

    def __call__(self, index: Index, rows: int) -> Iterator[list[Group]]:
        """The groups of `index`, at most `rows` units at a time, in its order."""
        size = max(1, -(-rows // max(self.workers, 1)))
        chunks = [index[start : start + size] for start in range(0, len(index), size)]
        if not self.workers:
            yield from map(self.source.groups, chunks)
            return
        key = torch.randint(SEED, (WORDS,)).numpy().tobytes()
        if self._loader is None:
            self._loader = self._start()
        self.asked[:] = [(key + place.to_bytes(8, "little"), chunk) for place, chunk in enumerate(chunks)]
        yield from self._loader

    def _start(self) -> DataLoader[list[Group]]:
        """Start the processes, and check that they can read what this one can."""
        found: DataLoader[list[Group]] = DataLoader(
            _Chunks(self.source),
            batch_size=None,
            sampler=self.asked,
            num_workers=self.workers,
            persistent_workers=True,
            generator=torch.Generator(),
            collate_fn=_as_it_is,
        )
        self.asked[:] = [(b"", looked_at(len(self.source.data)))]
        good = np.concatenate([group.good for groups in found for group in groups])
        if good.mean() < ALIKE:
            raise BadInput(
                "Worker processes cannot read the records that this process can.",
                fix="Use Speed(workers=0), or keep GPUs and open files out of the data set.",
            )
        return found


def _as_it_is(found: list[Group]) -> list[Group]:
    return found
