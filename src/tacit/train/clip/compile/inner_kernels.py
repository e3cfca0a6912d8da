r"""Inner products of sequences on NVIDIA GPUs, added up where they are made: nothing of size T x T goes through memory.

For two sides l (T x p) and r (T x d) of a sum of outer products, `sums` gives per sequence, in parts,

    \sum_{ts} (l_t . l_s)(r_t . r_s),    \sum_{ts} |l_t| |l_s| |r_t . r_s|,    \sum_t |l_t| |r_t|,    \sum_t |r_t|^2

One program makes both inner products of one block of positions with another in registers, in float32 from products of
numbers as they are. Both are symmetric, so each pair of blocks is visited once: blocks i and i + k (modulo their
number), k up to half of it. A block with itself (k = 0) is read once; any other pair counts twice. Sums over a block
run along one axis and then the other, so that a number passes few additions. The parts are added up by the caller, in
an order that does not change from run to run.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .inner import Tile


def sums(left: Tensor, right: Tensor, lengths: Tensor, positions: int, tile: Tile) -> Tensor:
    """(4, sequences, pairs of blocks) from the rows of all sequences, one sequence after the other.

    `left` is (sequences T, p) and `right` (sequences T, d), as a layer's own product has them; `lengths` are left's.
    """
    found = room(left, positions, tile)
    launch(left, right, lengths, found, positions, tile)
    return found


def room(left: Tensor, positions: int, tile: Tile) -> Tensor:
    """Where `launch` writes to."""
    return left.new_empty(4, len(left) // positions, tile.pairs(positions), dtype=torch.float32)


def launch(left: Tensor, right: Tensor, lengths: Tensor, found: Tensor, positions: int, tile: Tile) -> None:
    """`sums`, into memory that is there."""
    programs = found[0].numel()
    with torch.cuda.device_of(left):
        _sums[(programs,)](
            left, right, lengths, found, programs,
            T=positions, P=left.shape[1], D=right.shape[1], BLOCKS=triton.cdiv(positions, tile.block), M=tile.block,
            K=tile.step, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip


@triton.jit
def _sums(  # type: ignore[no-untyped-def]
    left, right, lengths, found, programs,
    T: tl.constexpr, P: tl.constexpr, D: tl.constexpr, BLOCKS: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    PAIRS: tl.constexpr = BLOCKS * (BLOCKS + 1) // 2
    program = tl.program_id(0)
    sequence, pair = (program // PAIRS).to(tl.int64), program % PAIRS
    apart, first = pair // BLOCKS, pair % BLOCKS
    second = (first + apart) % BLOCKS
    left += sequence * (T * P)
    right += sequence * (T * D)
    lengths += sequence * T
    if apart == 0:
        one = _inner(left, first, first, T, P, M, K, True)
        two = _inner(right, first, first, T, D, M, K, True)
        _store(found, program, programs, one, two, lengths, first, first, T, M, 1.0)
    else:
        one = _inner(left, first, second, T, P, M, K, False)
        two = _inner(right, first, second, T, D, M, K, False)
        _store(found, program, programs, one, two, lengths, first, second, T, M, 2.0)


@triton.jit
def _inner(  # type: ignore[no-untyped-def]
    values, first, second, T: tl.constexpr, LENGTH: tl.constexpr, M: tl.constexpr, K: tl.constexpr, SAME: tl.constexpr
):
    """Inner products of the rows of one block with those of another, numbers taken K at a time."""
    row, column = first * M + tl.arange(0, M), second * M + tl.arange(0, M)
    block = tl.zeros((M, M), dtype=tl.float32)
    for start in range(0, LENGTH, K):
        one = _rows(values, row, start, T, LENGTH, K)
        if SAME:
            block = tl.dot(one, tl.trans(one), block, input_precision="ieee")
        else:
            two = _rows(values, column, start, T, LENGTH, K)
            block = tl.dot(one, tl.trans(two), block, input_precision="ieee")
    return block


@triton.jit
def _rows(values, row, start, T: tl.constexpr, LENGTH: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """K numbers of some rows, zeros beyond the last row and number."""
    place = start + tl.arange(0, K)
    inside = (row < T)[:, None] & (place < LENGTH)[None, :]
    return tl.load(values + row.to(tl.int64)[:, None] * LENGTH + place[None, :], mask=inside, other=0.0)


@triton.jit
def _store(  # type: ignore[no-untyped-def]
    found, program, programs, one, two, lengths, first, second, T: tl.constexpr, M: tl.constexpr, TIMES: tl.constexpr
):
    row, column = first * M + tl.arange(0, M), second * M + tl.arange(0, M)
    down = tl.load(lengths + row, mask=row < T, other=0.0)
    across = tl.load(lengths + column, mask=column < T, other=0.0)
    tl.store(found + program, TIMES * _total(one * two))
    tl.store(found + programs + program, TIMES * _total(tl.abs(two) * across[None, :] * down[:, None]))
    if TIMES == 1.0:  # a block with itself
        own = tl.where(row[:, None] == column[None, :], two, 0.0)
        tl.store(found + 2 * programs + program, _total(tl.sqrt(own) * down[:, None]))
        tl.store(found + 3 * programs + program, _total(own))
    else:
        tl.store(found + 2 * programs + program, 0.0)
        tl.store(found + 3 * programs + program, 0.0)


@triton.jit
def _total(block):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(block, 1), 0)
