r"""A fingerprint of a sum under a secret key, a few words long: sums that differ in one bit have different ones
(soundness rule 12).

A part of the sum is a table of 32-bit words m_rl, in rows r and columns l (`lanes`). With secret u_r, v_l, w_l of 64
bits, and all arithmetic modulo 2^64, its fingerprint is computed twice, with independent keys:

    g_l = \sum_r u_r m_rl,     h = \sum_l (v_l (g_l mod 2^32) + w_l floor(g_l / 2^32))

Two different sums, neither of which depends on the keys, have the same fingerprints with probability at most 2^-64.
Proof: two words differ by d = 2^a b with b odd and a <= 31, since 0 < |d| < 2^32, so u d takes any value for at most
2^31 of the 2^64 keys u. Where m_rl differs, g_l stays the same with probability at most 2^-33, whatever the other keys
are. Where g_l differs, so does one of its halves, and h stays the same with probability at most 2^-33. Together that is
2^-32, and twice, with independent keys, 2^-64. Hashing by a random member of a family: Carter and Wegman 1979.

The keys are the ChaCha20 stream under the first of a step's keys from block 2^31 on, which `derive` does not use. The
bound holds as far as that stream cannot be told from random words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from ...core import BadInput
from .chacha import stream_of
from .joined import Joined

FIRST = 2**31
LOW = 2**32 - 1
Fingerprint = Callable[[Joined, Tensor, Tensor], None]


def fingerprint(joined: Joined, keys: Tensor, found: Tensor | None = None) -> Tensor:
    """Four words for each part of the sum, under the first eight words of `keys`; written to `found` if given."""
    found = torch.empty(length(joined), dtype=torch.int32, device=joined.device) if found is None else found
    _ours(joined.device)(joined, keys, found)
    return found


def length(joined: Joined) -> int:
    """The number of words of a fingerprint."""
    return 4 * joined.parts.shape[1]


def blocks(joined: Joined) -> int:
    """Blocks of the stream that the keys need: four numbers per column, two per row."""
    return -(-(4 * joined.lanes + 2 * joined.rows) // 8)


@lru_cache
def _ours(device: torch.device) -> Fingerprint:
    """The kernel if there is one and it agrees with the eager code; the eager code otherwise."""
    if device.type != "cuda":
        return eager
    from .kernels import fingerprint as kernel

    generator = torch.Generator().manual_seed(0)
    arrays = [
        torch.randn(size, generator=generator, dtype=torch.float32).to(device) for size in (5, 40_000, 0, 1, 9000)
    ]
    joined, keys = Joined([len(one) for one in arrays], device).at(arrays), torch.arange(16, device=device).int()
    ours, theirs = torch.zeros(2, length(joined), dtype=torch.int32, device=device)
    kernel(joined, keys, ours)
    eager(joined, keys, theirs)
    if not torch.equal(ours, theirs):
        raise BadInput("The fingerprint kernel of this device does not make the eager fingerprints, so it is not used.")
    return kernel


def eager(joined: Joined, keys: Tensor, found: Tensor) -> None:
    """The fingerprint as torch operations, on any device; 64-bit integers wrap around."""
    made = stream_of(keys[:8], torch.arange(FIRST, FIRST + blocks(joined), device=joined.device)).view(torch.int64)
    lanes, made = joined.lanes, made.flatten()
    columns, rows = made[: 4 * lanes].view(2, 2, lanes), made[4 * lanes :][: 2 * joined.rows].view(-1, 2)
    hashes = []
    for piece in joined.pieces():
        grid = torch.nn.functional.pad(_word(piece.view(torch.int32)), (0, -len(piece) % lanes)).view(-1, lanes)
        for row, (low, high) in zip(rows[: len(grid)].T, columns, strict=True):
            sums = (row[:, None] * grid).sum(0)
            hashes.append((low * _word(sums) + high * _word(sums >> 32)).sum())
    if hashes:
        found.view(torch.int64).copy_(torch.stack(hashes))


def _word(number: Tensor) -> Tensor:
    """The lower 32 bits, unsigned."""
    return number.to(torch.int64) & LOW
