r"""Standard normal numbers from one key, the same on every device up to the rounding of its logarithm and cosine.

Box and Muller 1958: sqrt(-2 ln u) (cos v, sin v), with u on the 2^53 midpoints of (0, 1), so that the radius reaches
8.6 standard deviations (soundness rule 11), and the angle v on 2^32 points. The stream is read in pieces of `PAIRS`
pairs: first the 64-bit words of the radii, then the 32-bit words of the angles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
Pieces = Callable[[Tensor, Tensor, int, int], Tensor]


class Normals:
    """Standard normal numbers in float32 on one device: on a GPU by a compiled kernel, tested against the eager one."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._piece = _Piece(PAIRS)
        self._tested: set[tuple[int, int]] = set()
        self._fast: Pieces | None = None

    def add(self, total: Tensor, key: bytes, scale: float) -> None:
        """total <- total + scale * noise, in place."""
        if self.device.type != "cpu":
            pieces = self._compiled if self.device.type == "cuda" else eager_pieces
            total.add_(on_device(key, total.numel(), self.device, pieces), alpha=scale)
            return
        for part, noise in zip(total.split(2 * PAIRS), self._piece.run(key, total.numel()), strict=True):
            part.add_(noise[: len(part)], alpha=scale)

    def _compiled(self, key: Tensor, blocks: Tensor, many: int, pairs: int) -> Tensor:
        if self._fast is None:
            self._fast = torch.compile(eager_pieces, fullgraph=True, dynamic=False)
        found = self._fast(key, blocks, many, pairs)
        if (many, pairs) not in self._tested:
            first = eager_pieces(key, blocks[: -(-3 * pairs // WORDS)], 1, pairs)
            if not torch.allclose(found[: 2 * pairs], first, rtol=1e-4, atol=1e-5):
                raise BadInput("The compiled noise is not the eager noise, so it is not used.")
            self._tested.add((many, pairs))
        return found


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
        """The stream's normal numbers, piece by piece, each valid until the next; the last may be one too long."""
        cipher = Cipher(algorithms.ChaCha20(key, NONCE), None).encryptor()
        for start in range(0, count, len(self.noise)):
            length = min(len(self.noise), count - start)
            noise = self.noise[: length + length % 2]
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


def on_device(key: bytes, count: int, device: torch.device, pieces: Pieces) -> Tensor:
    """The same numbers with ChaCha20 as torch operations, all pieces at once."""
    words = key_words(key, device)
    pairs = (count + 1) // 2
    whole, rest = divmod(pairs, PAIRS)
    found = []
    for first, many, size in ((0, whole, PAIRS), (whole * 3 * PAIRS // WORDS, min(rest, 1), rest)):
        if many:
            blocks = torch.arange(first, first - (-many * 3 * size // WORDS), dtype=torch.int64, device=device)
            found.append(pieces(words, blocks, many, size))
    return torch.cat(found)[:count] if found else torch.empty(0, device=device)


def eager_pieces(key: Tensor, blocks: Tensor, many: int, pairs: int) -> Tensor:
    """`many` pieces of `pairs` pairs from the given blocks of the stream; a pure function, to be compiled."""
    stream = stream_of(key, blocks).flatten()[: many * 3 * pairs].view(many, 3 * pairs)
    low, high = (stream[:, : 2 * pairs].reshape(many, pairs, 2).to(torch.int64) & 0xFFFFFFFF).unbind(-1)
    uniform = ((high << 21) + (low >> 11)).double().add(0.5).mul(2.0**-53)
    radius = uniform.log().mul(-2.0).float().sqrt()
    angle = stream[:, 2 * pairs :] * TURN
    return torch.cat((angle.cos() * radius, angle.sin() * radius), dim=1).flatten()
