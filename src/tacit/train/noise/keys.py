"""The secret behind sampling and noise, and the life of its keys.

Every step has its own key, HMAC(secret, step, plan, batch and what the model made of it), and afterwards the secret is
replaced by HMAC(secret, "next") and forgotten. So an identical replay of a step repeats its noise and reveals nothing
new, any other step draws other noise, and a stolen checkpoint does not undo earlier steps (soundness rule 12).

The stream is ChaCha20 (Bernstein 2008; RFC 8439). Its secret comes from the operating system for a claim, from a seed
for an experiment; everything after the secret is the same code.
"""

from __future__ import annotations

import hashlib
import hmac
from itertools import chain

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray
from torch import Tensor

from ...core import Source
from .gaussian import NONCE


class Keystream(Source):
    """ChaCha20 under one key, read from its start: for one step's sampling."""

    name = "ChaCha20"
    cryptographic = True

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.ChaCha20(key, NONCE), None).encryptor()

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
        lengths = [len(part).to_bytes(8, "little") for part in parts]
        return hmac.digest(self.value, b"".join(chain.from_iterable(zip(lengths, parts, strict=True))), "sha256")

    def advance(self) -> None:
        self.value = self.key(b"next")


def digest(*arrays: Tensor) -> bytes:
    """A fingerprint of what a step computed: any other batch or parameters give other bytes."""
    values = [array.detach().cpu().numpy().ravel() for array in arrays]
    return hashlib.sha256(np.concatenate(values, dtype=np.float64).data).digest()
