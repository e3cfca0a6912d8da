r"""The ChaCha20 key stream as torch operations: the same bytes as any other implementation, on any device.

Block j of the stream is P^20(s_j) + s_j on sixteen 32-bit words, s_j = (constants, key, j, nonce), where P^20 is ten
double rounds of additions, exclusive ors and rotations. Blocks do not depend on each other, so a device makes them all
at once; `kernels` does it in one go on a GPU and is tested against this.

Reference: Bernstein 2008; RFC 8439, section 2.3 (with a 64-bit counter, as the original has it).
"""

from __future__ import annotations

import struct

import torch
from torch import Tensor

WORDS = 16
_CONSTANTS = struct.unpack("<4i", b"expand 32-byte k")
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def keystream(key: bytes, count: int, device: torch.device | str = "cpu") -> Tensor:
    """The first `count` 32-bit words of the stream under `key` and a zero nonce, as int32."""
    blocks = -(-count // WORDS)
    counter = torch.arange(blocks, dtype=torch.int64, device=device)
    return stream_of(key_words(key, device), counter).flatten()[:count]


def key_words(key: bytes, device: torch.device | str) -> Tensor:
    """A 32-byte key as eight words."""
    return torch.tensor(struct.unpack("<8i", key), dtype=torch.int32, device=device)


def stream_of(key: Tensor, counter: Tensor, nonce: tuple[int, int] | tuple[Tensor, Tensor] = (0, 0)) -> Tensor:
    """Blocks number `counter` (int64) of the stream, one row of sixteen words each; keys may be many, (K, 1, 8)."""
    low = counter.to(torch.int32)
    high = (counter >> 32).to(torch.int32)
    zero = torch.zeros_like(low)
    start = [zero + word for word in (*_CONSTANTS, *key.unbind(-1))] + [low, high, *(zero + word for word in nonce)]
    state = list(start)
    for _ in range(10):
        for places in _COLUMNS + _DIAGONALS:
            _quarter(state, *places)
    return torch.stack([mixed + first for mixed, first in zip(state, start, strict=True)], dim=-1)


def _quarter(state: list[Tensor], a: int, b: int, c: int, d: int) -> None:
    """The quarter round; additions wrap around at 2^32."""
    for amounts in ((16, 12), (8, 7)):
        state[a] = state[a] + state[b]
        state[d] = _rotated(state[d] ^ state[a], amounts[0])
        state[c] = state[c] + state[d]
        state[b] = _rotated(state[b] ^ state[c], amounts[1])


def _rotated(word: Tensor, amount: int) -> Tensor:
    """Rotated left; the right shift of a signed word is masked to be a logical one."""
    return (word << amount) | ((word >> (32 - amount)) & ((1 << amount) - 1))
