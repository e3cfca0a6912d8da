r"""Standard normal numbers from one key, the same on every device up to the rounding of its logarithm and cosine.

Box and Muller 1958: sqrt(-2 ln u) (cos v, sin v). Here u is on the 2^53 midpoints of (0, 1), so that the radius reaches
8.6 standard deviations (soundness rule 11), and the angle v is on 2^32 points. The stream is read in pieces of `PAIRS`
pairs, the last one of as many as are needed, in whole blocks: first the 64-bit words of the radii, then the 32-bit
words of the angles. A piece gives all its cosines, then all its sines. Types are named: torch's default is the user's,
and noise in bfloat16 would leave the last bits of a sum as they are.
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

from ...core import BadInput
from .chacha import WORDS, key_words, stream_of
from .joined import Joined

NONCE = bytes(16)
PAIRS = 2**15
TURN = 2 * math.pi * 2.0**-32
HALF = torch.tensor(2.0**-54, dtype=torch.float64)
MINUS_TWO, ANGLE = torch.tensor([-2.0, TURN], dtype=torch.float32)
ELEVEN = np.uint64(11)
Noise = Callable[..., None]


class Normals:
    """Standard normal numbers in float32 on one device: on a GPU by a kernel, tested there against the eager code."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pieces = Pieces()
        self._kernel: Noise | None = None

    def fill(self, flat: Tensor, key: bytes | Tensor, scale: float) -> None:
        """flat <- scale * noise; a key of eight words may lie on the device."""
        if isinstance(key, bytes) and self.device.type == "cpu":
            put(self._pieces(key, len(flat), scale), [flat])
            return
        self._kernel = self._kernel or kernel(self.device)
        on_device(flat, key, scale, self._kernel)

    def add(self, rows: list[Tensor], key: bytes, scale: float, share: float) -> None:
        """rows <- share * rows + scale * noise, one flat draw over all of them, in a processor's memory."""
        put(self._pieces(key, sum(map(len, rows)), scale), rows, share)


def add(joined: Joined, key: bytes | Tensor, scale: float, share: float) -> None:
    """joined <- share * joined + scale * noise: `Normals.add` where the arrays of a device lie, in one kernel."""
    words = key if isinstance(key, Tensor) else key_words(key, joined.device)
    if joined.device.type == "cuda":
        kernel_into(joined.device)(joined, words, PAIRS, pairs_of(joined.count % (2 * PAIRS)), scale, share)
    else:
        eager_into(joined, words, scale, share)


def eager_into(joined: Joined, words: Tensor, scale: float, share: float) -> None:
    """Add noise by torch operations, on any device."""
    flat = torch.empty(joined.count, dtype=torch.float32, device=joined.device)
    on_device(flat, words, scale, eager)
    put(iter([flat]), joined.arrays, share)


def put(pieces: Iterator[Tensor], rows: list[Tensor], share: float = 0.0) -> None:
    """rows <- share * rows + the pieces in order, each while it is in the CPU's cache."""
    piece, used, length = torch.empty(0), 0, 0
    for row in rows:
        start, end = 0, len(row)
        while start < end:
            if used == length:
                piece = next(pieces)
                used, length = 0, len(piece)
            size = min(length - used, end - start)
            part, noise = row.narrow(0, start, size), piece if size == length else piece.narrow(0, used, size)
            if share:
                torch.add(noise, part, alpha=share, out=part)
            else:
                part.copy_(noise)
            start, used = start + size, used + size


@lru_cache
def kernel(device: torch.device) -> Noise:
    """The kernel if there is one and it reproduces the eager noise; the eager code otherwise."""
    if device.type != "cuda":
        return eager
    from .kernels import noise

    ours, theirs = torch.zeros(2, 4 * PAIRS + 1001, dtype=torch.float32, device=device)
    keys = torch.arange(64, dtype=torch.int32, device=device).view(8, 8)
    for found, make in ((ours, noise), (theirs, eager)):
        on_device(found, bytes(range(32)), 3.0, make)
        make(found[1:].view(8, -1), keys, 0, pairs_of(len(found) // 8), 3.0, 0.5, (2, 3))
    if not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
        raise BadInput("The noise kernel of this device does not make the eager noise, so it is not used.")
    return noise


@lru_cache
def kernel_into(device: torch.device) -> Noise:
    """The kernel for joined arrays, after it has reproduced the eager noise in arrays of odd sizes."""
    from .kernels import noise_into

    sizes = 5, 2 * PAIRS, 0, 700, 70_001
    ours, theirs = (
        Joined(sizes, device).at([torch.ones(size, dtype=torch.float32, device=device) for size in sizes])
        for _ in range(2)
    )
    words = torch.arange(8, dtype=torch.int32, device=device)
    noise_into(ours, words, PAIRS, pairs_of(ours.count % (2 * PAIRS)), 3.0, 0.5)
    eager_into(theirs, words, 3.0, 0.5)
    if not torch.allclose(torch.cat(ours.arrays), torch.cat(theirs.arrays), rtol=1e-4, atol=1e-5):
        raise BadInput("The noise kernel of this device does not make the eager noise, so it is not used.")
    return noise_into


def on_processor(key: bytes, count: int) -> Tensor:
    """Noise on a CPU, with its own ChaCha20 implementation."""
    flat = torch.empty(count, dtype=torch.float32)
    put(Pieces()(key, count), [flat])
    return flat


class Pieces:
    """The numbers of the stream piece by piece on a CPU, where a piece and its scratch memory fit in the cache."""

    def __init__(self) -> None:
        self._made: dict[int, _Piece] = {}

    def __call__(self, key: bytes, count: int, scale: float = 1.0) -> Iterator[Tensor]:
        """`count` numbers times `scale`; each piece is valid until the next."""
        cipher = Cipher(algorithms.ChaCha20(key, NONCE), None).encryptor()
        for start in range(0, count, 2 * PAIRS):
            size = min(2 * PAIRS, count - start)
            made = self._piece(pairs_of(size)).made(cipher, scale)
            yield made if len(made) == size else made[:size]

    def _piece(self, pairs: int) -> _Piece:
        """Memory for whole pieces, and for the last one of the latest size."""
        if pairs not in self._made:
            self._made = {size: piece for size, piece in self._made.items() if size == PAIRS}
            self._made[pairs] = _Piece(pairs)
        return self._made[pairs]


class _Piece:
    """Memory for some pairs, with its views: making a view costs as much as some thousand numbers."""

    def __init__(self, pairs: int) -> None:
        self.zeros, self.stream = bytes(12 * pairs), bytearray(12 * pairs)
        self.words = np.frombuffer(self.stream, dtype=np.uint64, count=pairs)
        self.whole, self.uniform = (torch.from_numpy(self.words.view(kind)) for kind in (np.int64, np.float64))
        self.turns = torch.frombuffer(self.stream, dtype=torch.int32, offset=8 * pairs)
        self.radius, self.noise = (torch.empty(size, dtype=torch.float32) for size in (pairs, 2 * pairs))
        self.both = self.noise.view(2, pairs)
        self.cosines, self.sines = self.both

    def made(self, cipher: Any, scale: float) -> Tensor:
        """The next numbers of the stream; its words are converted to uniform numbers in place."""
        cipher.update_into(self.zeros, self.stream)
        np.right_shift(self.words, ELEVEN, out=self.words)
        uniform = torch.add(HALF, self.uniform.copy_(self.whole), alpha=2.0**-53, out=self.uniform)
        radius = self.radius.copy_(uniform.log_()).mul_(MINUS_TWO).sqrt_().mul_(scale)
        torch.cos(self.sines.copy_(self.turns).mul_(ANGLE), out=self.cosines)
        self.sines.sin_()
        self.both.mul_(radius)
        return self.noise


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
    angle = stream[:, 2 * pairs :].float() * TURN
    made = torch.cat((angle.cos() * radius, angle.sin() * radius), dim=1)[:, :count] * scale
    rows.copy_(made if share == 0.0 else made.add_(rows, alpha=share))
