"""The secret behind sampling and noise, and the life of its keys.

Every step has its own key, HMAC(secret, step, plan, batch, its norms and losses, and a hash of its sum), and afterwards
the secret is replaced by HMAC(secret, "next") and forgotten. So an identical replay of a step repeats its noise and
reveals nothing new, any other step draws other noise, and a stolen checkpoint does not undo earlier steps (soundness
rule 12).

The stream is ChaCha20 (Bernstein 2008; RFC 8439). Its secret comes from the operating system for a claim, from a seed
for an experiment; everything after the secret is the same code.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from itertools import chain

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.poly1305 import Poly1305
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
    """A hash of numbers that a step computed, such as norms; each fits in a float64."""
    values = [array.detach().cpu().numpy().ravel() for array in arrays]
    return hashlib.sha256(np.concatenate(values, dtype=np.float64).data).digest()


def sum_hash(total: Iterable[Tensor], key: bytes) -> bytes:
    """A hash of a sum under a secret key, which depends on every bit; the shapes are public.

    Two different sums of at most b bytes have the same hash with probability at most 8 ceil(b / 16) 2^-106.
    Reference: Bernstein 2005 (Poly1305), theorem 3.3.
    """
    code = Poly1305(key)
    for one in total:
        code.update(one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return code.finalize()
