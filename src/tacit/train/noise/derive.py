r"""The key of a step's noise, made on the device from what the step computed there: no wait for the processor.

M_1, M_2, ... are the words of the sum's fingerprint, norms and losses, three at a time. F_K is the block function of
ChaCha20 on 128 bits of input (its counter and nonce). The secret gave two keys for this step and batch:

    key = F_K2(h),   h = F_K1(1, M_1) xor F_K1(2, M_2) xor ...   (128 bits of it)

For F a pseudorandom function, h takes one value for two different M with probability 2^-128 (Bellare, Guerin and
Rogaway 1995 use this hash in XOR-MAC). So other norms or losses give an unrelated key, and equal ones the same key
(soundness rule 12).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from ...core import BadInput
from .chacha import stream_of

PER_BLOCK = 3
Derive = Callable[[Tensor, Tensor, Tensor], None]


def derived(seen: Tensor, keys: Tensor, found: Tensor | None = None) -> Tensor:
    """Derive the eight words of a key from the words of `seen`, on its device, under two keys (16 words)."""
    found = torch.empty(8, dtype=torch.int32, device=seen.device) if found is None else found
    _ours(seen.device)(seen.contiguous().view(torch.int32), keys, found)
    return found


def words_of(keys: bytes, device: torch.device) -> Tensor:
    """Two keys as sixteen words."""
    return torch.tensor(struct.unpack("<16i", keys), dtype=torch.int32, device=device)


@lru_cache
def _ours(device: torch.device) -> Derive:
    """The kernel if there is one and it agrees with the eager code; the eager code otherwise."""
    if device.type != "cuda":
        return eager
    from .kernels import derive

    seen, keys = (
        torch.arange(1000, dtype=torch.int32, device=device),
        torch.arange(16, dtype=torch.int32, device=device),
    )
    ours, theirs = torch.zeros(2, 8, dtype=torch.int32, device=device)
    derive(seen, keys, ours)
    eager(seen, keys, theirs)
    if not torch.equal(ours, theirs):
        raise BadInput("The key kernel of this device does not make the eager keys, so it is not used.")
    return derive


def eager(seen: Tensor, keys: Tensor, found: Tensor) -> None:
    """The derivation as torch operations, on any device."""
    blocks = torch.nn.functional.pad(seen, (0, -len(seen) % PER_BLOCK)).view(-1, PER_BLOCK)
    number = torch.arange(len(blocks), device=seen.device)
    mixed = stream_of(keys[:8], _long(number, blocks[:, 0]), (blocks[:, 1], blocks[:, 2]))[:, :4]
    while len(mixed) > 1:
        half = len(mixed) // 2
        mixed = torch.cat((mixed[:half] ^ mixed[half : 2 * half], mixed[2 * half :]))
    a, b, c, d = (mixed.sum(0) if len(mixed) else seen.new_zeros(4)).unbind()
    found.copy_(stream_of(keys[8:], _long(a, b), (c, d)).view(-1)[:8])


def _long(low: Tensor, high: Tensor) -> Tensor:
    return (low.to(torch.int64) & 0xFFFFFFFF) | (high.to(torch.int64) << 32)
