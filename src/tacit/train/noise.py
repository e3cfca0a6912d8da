r"""Gaussian noise from a keyed stream, and the key's life.

Every step has its own key, HMAC(secret, step, plan, batch and what the model made of it), and afterwards the secret is
replaced by HMAC(secret, "next") and forgotten. So an identical replay of a step repeats its noise and reveals nothing
new, any other step draws other noise, and a stolen checkpoint does not undo earlier steps (soundness rule 12).

The stream is ChaCha20 (Bernstein 2008; RFC 8439). Its secret comes from the operating system for a claim, from a seed
for an experiment; everything after the secret is the same code.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray
from torch import Tensor

from ..core import Source

_NONCE = bytes(16)
PAIRS = 2**15


class Keystream(Source):
    """ChaCha20 under one key, read from its start: for one step's sampling."""

    name = "ChaCha20"
    cryptographic = True

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(key, _NONCE), None).encryptor()

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._cipher.update(bytes(8 * count)), dtype=np.uint64)

    def spawn(self, count: int) -> list[Source]:
        return [Keystream(self._cipher.update(bytes(32))) for _ in range(count)]


class Secret:
    """A secret that gives one key per purpose and step, and moves on without a way back."""

    def __init__(self, value: bytes) -> None:
        self.value = value

    @classmethod
    def of(cls, source: Source) -> Secret:
        return cls(source.words(4).tobytes())

    def key(self, *parts: bytes) -> bytes:
        """HMAC-SHA256 over the parts, each with its length."""
        code = hmac.new(self.value, digestmod=hashlib.sha256)
        for part in parts:
            code.update(len(part).to_bytes(8, "little"))
            code.update(part)
        return code.digest()

    def advance(self) -> None:
        self.value = self.key(b"next")


def normal(key: bytes, count: int) -> Tensor:
    r"""`count` standard normal numbers in float32 from one key.

    Box and Muller 1958: sqrt(-2 ln u) (cos v, sin v), with u on the 2^53 midpoints of (0, 1), so that the radius
    reaches 8.6 standard deviations, and the angle v on 2^32 points. Made in pieces that fit the processor's cache.
    """
    cipher = Cipher(algorithms.ChaCha20(key, _NONCE), None).encryptor()
    noise = torch.empty(count + count % 2)
    piece = _Piece(min(PAIRS, len(noise) // 2))
    for start in range(0, len(noise), 2 * PAIRS):
        piece.fill(cipher, noise[start : start + 2 * PAIRS])
    return noise[:count]


class _Piece:
    """Scratch memory for some pairs of normal numbers."""

    def __init__(self, pairs: int) -> None:
        self.zeros, self.stream = bytes(12 * pairs), bytearray(12 * pairs)
        self.uniform, self.radius, self.angle = torch.empty(pairs, dtype=torch.float64), *torch.empty(2, pairs)

    def fill(self, cipher: Any, noise: Tensor) -> None:
        pairs = len(noise) // 2
        cipher.update_into(memoryview(self.zeros)[: 12 * pairs], self.stream)
        words = np.frombuffer(self.stream, dtype=np.uint64, count=pairs)
        turns = torch.frombuffer(self.stream, dtype=torch.int32, count=pairs, offset=8 * pairs)
        uniform, radius, angle = self.uniform[:pairs], self.radius[:pairs], self.angle[:pairs]
        uniform.copy_(torch.from_numpy((words >> np.uint64(11)).view(np.int64))).add_(0.5).mul_(2.0**-53)
        torch.mul(uniform.log_(), -2.0, out=radius).sqrt_()
        torch.mul(turns, 2 * math.pi * 2.0**-32, out=angle)
        torch.cos(angle, out=noise[:pairs])
        torch.sin(angle, out=noise[pairs:])
        noise.view(2, pairs).mul_(radius)


def digest(*arrays: Tensor) -> bytes:
    """A fingerprint of what a step computed: any other batch or parameters give other bytes."""
    code = hashlib.sha256()
    for array in arrays:
        code.update(np.ascontiguousarray(array.detach().cpu().double().numpy()).tobytes())
    return code.digest()
