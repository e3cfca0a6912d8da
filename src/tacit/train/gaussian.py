r"""Standard normal numbers from one key, the same on every device up to the rounding of its logarithm and cosine.

Box and Muller 1958: sqrt(-2 ln u) (cos v, sin v), with u on the 2^53 midpoints of (0, 1), so that the radius reaches
8.6 standard deviations (soundness rule 11), and the angle v on 2^32 points. The stream is read in pieces of `PAIRS`
pairs, the last one of as many as are needed, in whole blocks: first the 64-bit words of the radii, then the 32-bit
words of the angles. A piece gives all its cosines, then all its sines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from torch import Tensor

from ..core import BadInput
from .chacha import WORDS, key_words, stream_of

NONCE = bytes(16)
PAIRS = 2**15
TURN = 2 * math.pi * 2.0**-32
Noise = Callable[..., None]


class Normals:
    """Standard normal numbers in float32 on one device: on a GPU by a kernel, tested there against the eager code."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._piece = _Piece(PAIRS)
        self._kernel: Noise | None = None

    def fill(self, flat: Tensor, key: bytes, scale: float) -> None:
        """flat <- scale * noise."""
        if self.device.type != "cpu":
            self._kernel = self._kernel or kernel(self.device)
            on_device(flat, key, scale, self._kernel)
            return
        for part, noise in zip(flat.split(2 * PAIRS), self._piece.run(key, flat.numel()), strict=True):
            torch.mul(noise[: len(part)], scale, out=part)


@lru_cache
def kernel(device: torch.device) -> Noise:
    """The kernel where there is one and it makes the eager noise; the eager code elsewhere."""
    if device.type != "cuda":
        return eager
    from .kernels import noise

    ours, theirs = torch.zeros(2, 4 * PAIRS + 1001, device=device)
    for found, make in ((ours, noise), (theirs, eager)):
        on_device(found, bytes(range(32)), 3.0, make)
    if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
        raise BadInput("The noise kernel of this device does not make the eager noise, so it is not used.")
    return noise


def on_processor(key: bytes, count: int) -> Tensor:
    """With the processor's own ChaCha20."""
    pieces = [noise.clone() for noise in _Piece(PAIRS).run(key, count)]
    return torch.cat(pieces)[:count] if pieces else torch.empty(0)


class _Piece:
    """Scratch memory for some pairs of normal numbers, small enough to stay in the processor's cache."""

    def __init__(self, pairs: int) -> None:
        self.zeros, self.stream = bytes(12 * pairs), bytearray(12 * pairs)
        self.uniform, self.radius, self.angle = torch.empty(pairs, dtype=torch.float64), *torch.empty(2, pairs)
        self.noise = torch.empty(2 * pairs)

    def run(self, key: bytes, count: int) -> Iterator[Tensor]:
        """The stream's normal numbers, piece by piece, each valid until the next; the last may be too long."""
        cipher = Cipher(algorithms.ChaCha20(key, NONCE), None).encryptor()
        for start in range(0, count, len(self.noise)):
            noise = self.noise[: 2 * pairs_of(min(len(self.noise), count - start))]
            self._fill(cipher, noise)
            yield noise

    def _fill(self, cipher: Any, noise: Tensor) -> None:
        pairs = len(noise) // 2
        cipher.update_into(memoryview(self.zeros)[: 12 * pairs], self.stream)
        words = np.frombuffer(self.stream, dtype=np.uint64, count=pairs)
        turns = torch.frombuffer(self.stream, dtype=torch.int32, count=pairs, offset=8 * pairs)
        uniform, radius, angle = self.uniform[:pairs], self.radius[:pairs], self.angle[:pairs]
        uniform.copy_(torch.from_numpy((words >> np.uint64(11)).view(np.int64))).add_(0.5).mul_(2.0**-53)
        torch.mul(uniform.log_(), -2.0, out=radius).sqrt_()
        torch.mul(turns, TURN, out=angle)
        torch.cos(angle, out=noise[:pairs])
        torch.sin(angle, out=noise[pairs:])
        noise.view(2, pairs).mul_(radius)


def pairs_of(count: int) -> int:
    """Pairs of a piece that holds `count` numbers: whole blocks of the stream."""
    return -(-count // (2 * WORDS)) * WORDS


def on_device(flat: Tensor, key: bytes, scale: float, make: Noise) -> None:
    """flat <- scale * the same numbers, all whole pieces at once, then the last."""
    words = key_words(key, flat.device)
    pieces, rest = divmod(flat.numel(), 2 * PAIRS)
    whole = flat.numel() - rest
    if pieces:
        make(flat[:whole].view(pieces, -1), words, 0, PAIRS, scale)
    if rest:
        make(flat[whole:].view(1, -1), words, pieces * 3 * PAIRS // WORDS, pairs_of(rest), scale)


def eager(rows: Tensor, key: Tensor, first: int, pairs: int, scale: float, share: float = 0.0) -> None:
    """rows <- share * rows + scale * noise: each row is the start of a piece of `pairs` pairs; as torch operations."""
    pieces, count = rows.shape
    blocks = torch.arange(first, first + pieces * 3 * pairs // WORDS, dtype=torch.int64, device=rows.device)
    stream = stream_of(key, blocks).view(pieces, 3 * pairs)
    low, high = (stream[:, : 2 * pairs].reshape(pieces, pairs, 2).to(torch.int64) & 0xFFFFFFFF).unbind(-1)
    uniform = ((high << 21) + (low >> 11)).double().add(0.5).mul(2.0**-53)
    radius = uniform.log().mul(-2.0).float().sqrt()
    angle = stream[:, 2 * pairs :] * TURN
    made = torch.cat((angle.cos() * radius, angle.sin() * radius), dim=1)[:, :count] * scale
    rows.copy_(made if share == 0.0 else made.add_(rows, alpha=share))
