"""How a step is executed: part by part on any device, or on a GPU as a few recorded graphs.

Either way the private gradients are written to the parameters, and the key of the noise depends on everything that the
step computed. An identical replay of a step repeats its noise, and any other step draws other noise (soundness rule
12).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.arrays import Array
from ..clip.capture.coins import Coins
from ..noise.derive import derived, words_of
from ..noise.fingerprint import fingerprint
from ..noise.keys import Secret, digest, sum_hash
from ..noise.release import Release
from ..sample.examples import Batch
from .recorded import Draws, Whole, fits
from .totals import Part, Summed, Totals
from .workers import Workers


@dataclass(frozen=True, eq=False)
class Keys:
    """The inputs of the key of one step's noise, apart from what the step computes."""

    secret: Secret
    step: int
    plan: bytes
    index: Array

    @property
    def named(self) -> tuple[bytes, bytes]:
        return self.step.to_bytes(8, "little"), self.plan

    def of(self, seen: list[Tensor], sums: list[bytes]) -> bytes:
        """The key, from norms, losses and a hash of each process's sum, in the CPU's memory."""
        return self.secret.key(b"noise", *self.named, digest(torch.from_numpy(self.index), *seen), *sums)

    @property
    def hashes(self) -> bytes:
        """The key of hashes of this step's sum."""
        return self.secret.key(b"sum", *self.named)

    def two(self) -> bytes:
        """The two keys from which a device derives the key itself."""
        drawn = *self.named, hashlib.sha256(self.index.tobytes()).digest()
        return self.secret.key(b"norms", *drawn) + self.secret.key(b"noise", *drawn)


@dataclass(frozen=True, eq=False)
class Executed:
    """The results of a step besides its gradients: norms and losses of every part, and the key of the noise, if
    known.
    """

    parts: list[Part]
    key: bytes | Tensor | None = None


class Parted:
    """Execution part by part; `own` are the parameters, or shards of them, that this process updates."""

    def __init__(self, totals: Totals, release: Release, workers: Workers, own: Mapping[str, Tensor]) -> None:
        self.totals, self.release, self.workers, self.own = totals, release, workers, own

    def __call__(self, batch: Batch, keys: Keys, coins: Callable[[], Coins], draws: Draws) -> Executed:
        with draws():
            return self._executed(batch, keys, coins())

    def _executed(self, batch: Batch, keys: Keys, shared: Coins) -> Executed:
        summed = self.totals(batch, shared)
        key = self.noise_key(batch, summed, keys)
        noise = self.release.noise(self.workers.key(key), self._clip_norm)
        settled = self.totals.settled(batch, summed, shared)
        if settled.total is not summed.total:  # one that was not finite says little about the data
            key = self.noise_key(batch, settled, keys)
            noise = self.release.noise(self.workers.key(key), self._clip_norm)
        self.release(settled.total, noise, self.workers.key(key), self._clip_norm)
        self.workers.hand_over(self.own)
        return Executed(settled.parts, key)

    def slowly(self, batch: Batch, keys: Keys, coins: Callable[[], Coins], draws: Draws) -> Executed:
        """Repeat the step without the records that are not finite, after a recorded step has found some."""
        with draws():
            self.totals.begin()
            summed = self.totals.slowly(batch, coins())
        key = self.noise_key(batch, summed, keys)
        self.release(summed.total, None, key, self._clip_norm)
        return Executed(summed.parts, key)

    def noise_key(self, batch: Batch, summed: Summed, keys: Keys) -> bytes | Tensor:
        """The key from norms, losses and a hash of the sum; derived on the GPU if it holds the whole sum."""
        total = summed.total
        if total and total[0].is_cuda and self.workers.count == 1 and self.release.grid is None:
            return self.device_key(batch, summed, keys)
        return keys.of(summed.seen, self.workers.gathered([self._hash(total, keys)]))

    def _hash(self, total: list[Tensor], keys: Keys) -> bytes:
        """A hash of this process's sum, or of its part of the sum; made on the GPU if that holds it in float32."""
        if not total or not total[0].is_cuda or self.release.grid is not None:
            return sum_hash(total, keys.hashes)
        words = words_of(keys.two(), total[0].device)
        return fingerprint(self.release.joined(self.release.own(total)), words).cpu().numpy().tobytes()

    def device_key(self, batch: Batch, summed: Summed, keys: Keys) -> Tensor:
        """The key, derived on the device that holds the sum."""
        device = summed.total[0].device
        words = words_of(keys.two(), device)
        mark = fingerprint(self.release.joined(self.release.own(summed.total)), words)
        return derived(torch.cat((mark, summed.words(batch.slots, batch.physical, device))), words)

    @property
    def _clip_norm(self) -> float:
        return self.totals.clipper.clip_norm


class Recorded:
    """Execution of the usual step on a GPU as recorded graphs. Without `graphs`, the same work runs eagerly, on any
    device.
    """

    def __init__(self, parted: Parted, *, graphs: bool = True) -> None:
        self.parted, self.graphs = parted, graphs
        self.whole: Whole | None = None

    def takes(self, batch: Batch) -> bool:
        """Whether this batch is the usual case that can be recorded."""
        return fits(self.parted.totals, self.parted.release, batch)

    def __call__(self, batch: Batch, keys: Keys, coins: Callable[[], Coins], draws: Draws) -> Executed:
        if self.whole is None or not self.whole.suits(batch):
            self.whole = Whole(self.parted.totals, self.parted.release, batch, recorded=self.graphs)
        parts = self.whole(batch, keys.two, draws)
        return self.parted.slowly(batch, keys, coins, draws) if parts is None else Executed(parts)
