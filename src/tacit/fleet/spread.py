"""Train a fleet in parts, on Ray workers or in this process, and keep finished parts so that an interrupted fleet can
resume.

A part is as many models as are trained at once. Its seeds are those that its models would have in a single process, so
the result does not depend on where a part is trained.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..core import check
from ..core.errors import BadInput, MissingExtra
from ..core.files import unwritten
from ..core.randomness import Source, source
from ..loss import Plan
from ..train import checkpoint
from .fleet import Fleet, Models, Progress
from .identity import made_of, template
from .memory import BLOCK
from .order import Epochs
from .reading import whatever_they_hold
from .stack import Stack

Words = NDArray[np.uint64]
Parameters = dict[str, Tensor]
Work = Callable[[int], Parameters]
SCHEMA = "tacit.fleet-part/1"
SIZE = 256


def spread(
    fleet: Fleet,
    x: ArrayLike,
    y: ArrayLike,
    member: ArrayLike,
    schedule: Epochs | Plan,
    *,
    own: Sequence[int] = (),
    rng: Source | int | np.random.Generator | None = None,
    workers: int = 0,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> Models:
    """Run `fleet.train` in parts of `fleet.models_at_once` models (256 if not given). On one kind of processor the
    models are the same, bit for bit.

    `workers` above 0 trains that many parts at once on Ray (a running cluster if there is one, else a local one).
    `folder` keeps finished parts; calling again with the same arguments and folder trains only what is missing. Until
    the last part is finished the folder holds seeds, which would undo the privacy of a `Plan`; only its owner may read
    it.
    """
    sides = np.asarray(member, dtype=bool)
    if sides.ndim != 2 or 0 in sides.shape:
        raise BadInput("A fleet needs a membership matrix of records x models.")
    total, count = fleet.total(schedule), sides.shape[1]
    records = (
        [part.numpy() for part in whatever_they_hold(x, y)] if total else [np.asarray(x, np.float32), np.asarray(y)]
    )
    arrays = records[0], records[1], sides
    size = BLOCK * math.ceil(check.whole("models_at_once", fleet.models_at_once or SIZE) / BLOCK)
    parts, chance = range(math.ceil(count / size)), source(rng)
    words, done, store = chance.words(2 * count + 1), {}, None
    if folder is not None:
        settings = (type(schedule).__name__, asdict(schedule), list(own), size, fleet.order, fleet.precision)
        made, network = made_of(fleet)
        store = _Store(Path(folder), (*settings, made), (*arrays, *network))
        words, done = store.words(words, repeatable=not chance.cryptographic), store.parts(parts)
    work = functools.partial(_part, fleet, arrays, schedule, tuple(own), words, size)
    todo = [k for k in parts if k not in done]
    for k, parameters in _ray(work, todo, workers) if check.whole("workers", workers, least=0) else _here(work, todo):
        done[k] = parameters
        if store is not None:
            store.keep(k, parameters, last=len(done) == len(parts))
        if progress is not None:
            progress(min(len(done) * size, count), count)
    if store is not None:
        store.forget()  # where all parts were there already
    return Models(tuple(_stack(fleet, done[k]) for k in parts), sides, chance.name)


class _Part(Source):
    """A random source that returns the seeds that this part of the fleet would get in a single process."""

    name = "a part of a fleet"
    cryptographic = False

    def __init__(self, words: Words, models: slice) -> None:
        order, starts, noise = words[:1], words[1 : 1 + len(words) // 2], words[1 + len(words) // 2 :]
        self._words = np.concatenate((order, starts[models], noise[models]))

    def words(self, count: int) -> Words:
        if count != self._words.size:
            raise BadInput("A part of a fleet draws its own words, once.")
        return self._words

    def spawn(self, count: int) -> list[Source]:
        raise BadInput("A part of a fleet has no other randomness.")


def _part(
    fleet: Fleet,
    arrays: tuple[Any, Any, NDArray[np.bool_]],
    schedule: Epochs | Plan,
    own: tuple[int, ...],
    words: Words,
    size: int,
    k: int,
) -> Parameters:
    """Train one part and return its parameters on the CPU."""
    x, y, member = arrays
    models = slice(k * size, min((k + 1) * size, member.shape[1]))
    found = replace(fleet, models_at_once=size).train(
        x, y, member[:, models], schedule, own=own, rng=_Part(words, models)
    )
    (stack,) = found.stacks
    return {name: value.detach().cpu() for name, value in stack.parameters.items()}


def _here(work: Work, todo: Sequence[int]) -> Iterator[tuple[int, Parameters]]:
    for k in todo:
        yield k, work(k)


def _ray(work: Work, todo: Sequence[int], workers: int) -> Iterator[tuple[int, Parameters]]:
    """Yield parts as they finish on Ray; what they share is sent once."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray") from None
    if not todo:
        return
    started = not ray.is_initialized()
    if started:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        shared, threads = ray.put(work), torch.get_num_threads()
        remote = ray.remote(num_cpus=1)(_threaded)
        waiting, running = list(todo), dict[Any, int]()
        while waiting or running:
            while waiting and len(running) < workers:
                k = waiting.pop(0)
                running[remote.remote(shared, threads, k)] = k
            (ready, *_), _ = ray.wait(list(running), num_returns=1)
            k = running.pop(ready)
            found = ray.get(ready)
            yield k, {name: torch.from_numpy(array.copy()) for name, array in found.items()}
    finally:
        if started:
            ray.shutdown()


def _threaded(work: Work, threads: int, k: int) -> dict[str, NDArray[np.generic]]:
    """Train a part on a worker with the caller's number of threads, since sums depend on how they are split."""
    torch.set_num_threads(threads)
    return {name: value.numpy() for name, value in work(k).items()}


def _stack(fleet: Fleet, parameters: Parameters) -> Stack:
    return fleet.stack(template(fleet), {name: value.to(fleet.device) for name, value in parameters.items()})


class _Store:
    """A folder of finished parts, with the seeds of all parts until the last is finished."""

    def __init__(self, folder: Path, settings: object, arrays: Sequence[NDArray[np.generic]]) -> None:
        self._folder, self._file = folder, folder / "fleet.pt"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise BadInput(f"The folder {folder} cannot be made.") from None
        self._old = folder / "fleet.pt.old"
        self._sweep()
        new: dict[str, Any] = {"schema": SCHEMA, "key": os.urandom(32)}
        self._state = checkpoint.read(self._file) if self._file.exists() else new
        if self._state.get("schema") != SCHEMA:
            raise BadInput(f"{self._file.name} is not a fleet that this version can go on with.")
        if not isinstance(self._state.get("key"), bytes):
            raise BadInput(f"{self._file.name} is damaged: it holds no key.")
        self._seal = seal = _seal(self._state["key"], settings, arrays)
        if self._state.setdefault("seal", seal) != seal:
            raise BadInput(f"The folder {folder.name} holds another fleet.", fix="Give an empty folder.")

    def words(self, drawn: Words, *, repeatable: bool) -> Words:
        """The seeds that were drawn the first time; they are on disk before any model is trained from them.

        A hash of repeatable seeds stays, so that a fleet from another seed, or from a secret, is told apart later too.
        """
        seed = hmac.digest(self._state["key"], drawn.tobytes(), "sha256").hex() if repeatable else ""
        if self._state.setdefault("seed", seed) != seed:
            raise BadInput(
                f"The folder {self._folder.name} holds a fleet of another seed.", fix="Give an empty folder."
            )
        if not self._file.exists():
            self._state["words"] = torch.from_numpy(drawn.view(np.int64).copy())
            checkpoint.write(self._state, self._file)
        if "words" not in self._state:
            return drawn  # all parts are there
        kept: Words = self._state["words"].numpy().view(np.uint64)
        return kept

    def parts(self, numbers: Sequence[int]) -> dict[int, Parameters]:
        paths = {k: self._folder / f"part-{k}.pt" for k in numbers}
        found = {k: self._read(path) for k, path in paths.items() if path.exists()}
        if "words" not in self._state and len(found) < len(paths):
            raise BadInput(f"The folder {self._folder.name} lacks a part of a finished fleet.", fix="Start anew.")
        return found

    def _read(self, path: Path) -> Parameters:
        """Read a finished part; one that is damaged or belongs to another fleet is refused by name, and kept."""
        state = checkpoint.read(path)
        found = state.get("parameters")
        if state.get("seal") != self._seal or not isinstance(found, dict):
            raise BadInput(f"{path.name} is no part of this fleet.", fix="Remove it, and it is trained again.")
        return found

    def keep(self, k: int, parameters: Parameters, *, last: bool) -> None:
        checkpoint.write({"seal": self._seal, "parameters": parameters}, self._folder / f"part-{k}.pt")
        if last:
            self.forget()

    def forget(self) -> None:
        """Delete the seeds: those of the noise must not outlive the training."""
        if "words" not in self._state:
            return
        self._sweep()
        with unwritten(self._file):
            os.link(self._file, self._old)
        del self._state["words"]
        checkpoint.write({name: self._state[name] for name in ("schema", "key", "seal", "seed")}, self._file)
        checkpoint.destroy(self._old)

    def _sweep(self) -> None:
        """Remove what a process left that ended while deleting the seeds, but not a second name of the current file."""
        checkpoint.forget(self._old)
        if self._old.exists() and self._file.exists() and self._old.samefile(self._file):
            self._old.unlink()
        checkpoint.destroy(self._old)


def _seal(key: bytes, settings: object, arrays: Sequence[NDArray[np.generic]]) -> str:
    """A keyed hash of what a fleet is trained on."""
    seal = hmac.new(key, json.dumps(settings, sort_keys=True, default=str).encode(), hashlib.sha256)
    for array in arrays:
        seal.update(repr((array.shape, array.dtype.str)).encode())
        seal.update(np.ascontiguousarray(array).data)
    return seal.hexdigest()
