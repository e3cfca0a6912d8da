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
HALF = torch.tensor(2.0**-54, dtype=torch.float64)
Noise = Callable[..., None]


class Normals:
    """Standard normal numbers in float32 on one device: on a GPU by a kernel, tested there against the eager code."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._piece = _Piece(PAIRS)
        self._kernel: Noise | None = None

    def fill(self, flat: Tensor, key: bytes | Tensor, scale: float) -> None:
        """flat <- scale * noise; a key of eight words may lie on the device."""
        if isinstance(key, bytes) and self.device.type == "cpu":
            put(self._piece.run(key, len(flat), scale), [flat])
            return
        self._kernel = self._kernel or kernel(self.device)
        on_device(flat, key, scale, self._kernel)

    def add(self, rows: list[Tensor], key: bytes, scale: float, share: float) -> None:
        """rows <- share * rows + scale * noise, one flat draw over all of them, in a processor's memory."""
        put(self._piece.run(key, sum(map(len, rows)), scale), rows, share)


def put(pieces: Iterator[Tensor], rows: list[Tensor], share: float = 0.0) -> None:
    """rows <- share * rows + the pieces one after the other, each while it is in the processor's cache."""
    piece = torch.empty(0)
    for row in rows:
        while len(row):
            piece = piece if len(piece) else next(pieces)
            part = row[: len(piece)]
            if share:
                torch.add(piece[: len(part)], part, alpha=share, out=part)
            else:
                part.copy_(piece[: len(part)])
            piece, row = piece[len(part) :], row[len(part) :]


@lru_cache
def kernel(device: torch.device) -> Noise:
    """The kernel where there is one and it makes the eager noise; the eager code elsewhere."""
    if device.type != "cuda":
        return eager
    from .kernels import noise

    ours, theirs = torch.zeros(2, 4 * PAIRS + 1001, device=device)
    keys = torch.arange(64, dtype=torch.int32, device=device).view(8, 8)
    for found, make in ((ours, noise), (theirs, eager)):
        on_device(found, bytes(range(32)), 3.0, make)
        make(found[1:].view(8, -1), keys, 0, pairs_of(len(found) // 8), 3.0, 0.5, (2, 3))
    if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
        raise BadInput("The noise kernel of this device does not make the eager noise, so it is not used.")
    return noise


def on_processor(key: bytes, count: int) -> Tensor:
    """With the processor's own ChaCha20."""
    flat = torch.empty(count)
    put(_Piece(PAIRS).run(key, count), [flat])
    return flat


class _Piece:
    """Scratch memory for some pairs of normal numbers, small enough to stay in the processor's cache."""

    def __init__(self, pairs: int) -> None:
        self.zeros, self.stream = bytes(12 * pairs), bytearray(12 * pairs)
        self.uniform, self.radius = torch.empty(pairs, dtype=torch.float64), torch.empty(pairs)
        self.noise = torch.empty(2 * pairs)

    def run(self, key: bytes, count: int, scale: float = 1.0) -> Iterator[Tensor]:
        """`count` numbers of the stream times `scale`, piece by piece, each valid until the next."""
        cipher = Cipher(algorithms.ChaCha20(key, NONCE), None).encryptor()
        for start in range(0, count, len(self.noise)):
            size = min(len(self.noise), count - start)
            self._fill(cipher, pairs_of(size), scale)
            yield self.noise[:size]

    def _fill(self, cipher: Any, pairs: int, scale: float) -> None:
        cipher.update_into(memoryview(self.zeros)[: 12 * pairs], self.stream)
        words = np.frombuffer(self.stream, dtype=np.uint64, count=pairs)
        turns = torch.frombuffer(self.stream, dtype=torch.int32, count=pairs, offset=8 * pairs)
        uniform, radius = self.uniform[:pairs], self.radius[:pairs]
        uniform.copy_(torch.from_numpy(np.right_shift(words, np.uint64(11), out=words).view(np.int64)))
        torch.add(HALF, uniform, alpha=2.0**-53, out=uniform).log_()
        radius.copy_(uniform).mul_(-2.0).sqrt_().mul_(scale)
        cosines, sines = self.noise[: 2 * pairs].view(2, pairs)
        torch.cos(sines.copy_(turns).mul_(TURN), out=cosines).mul_(radius)
        sines.sin_().mul_(radius)


def pairs_of(count: int) -> int:
    """Pairs of a piece that holds `count` numbers: whole blocks of the stream."""
    return -(-count // (2 * WORDS)) * WORDS


def on_device(flat: Tensor, key: bytes | Tensor, scale: float, make: Noise) -> None:
    """flat <- scale * the same numbers, all whole pieces at once, then the last."""
    words = key if isinstance(key, Tensor) else key_words(key, flat.device)
    pieces, rest = divmod(flat.numel(), 2 * PAIRS)
    whole = flat.numel() - rest
    if pieces:
        make(flat[:whole].view(pieces, -1), words, 0, PAIRS, scale)
    if rest:
        make(flat[whole:].view(1, -1), words, pieces * 3 * PAIRS // WORDS, pairs_of(rest), scale)


def eager(
    rows: Tensor,
    key: Tensor,
    first: int,
    pairs: int,
    scale: float,
    share: float = 0.0,
    nonce: tuple[int, int] = (0, 0),
) -> None:
    """rows <- share * rows + scale * noise: each row is the start of a piece of `pairs` pairs; as torch operations.

    With one key the pieces follow each other in its stream, from block `first` on; with a key per row, (pieces, 8),
    each starts there in its own.
    """
    pieces, count = rows.shape
    keyed = key.dim() == 2
    blocks = torch.arange(first, first + (1 if keyed else pieces) * 3 * pairs // WORDS, device=rows.device)
    stream = stream_of(key[:, None] if keyed else key, blocks, nonce).view(pieces, 3 * pairs)
    low, high = (stream[:, : 2 * pairs].reshape(pieces, pairs, 2).to(torch.int64) & 0xFFFFFFFF).unbind(-1)
    uniform = ((high << 21) + (low >> 11)).double().add(0.5).mul(2.0**-53)
    radius = uniform.log().mul(-2.0).float().sqrt()
    angle = stream[:, 2 * pairs :] * TURN
    made = torch.cat((angle.cos() * radius, angle.sin() * radius), dim=1)[:, :count] * scale
    rows.copy_(made if share == 0.0 else made.add_(rows, alpha=share))
