"""Squared norms by inner products in a compiled step on a GPU, with one kernel of our own per weight (`inner_kernels`).

The eager step writes the inner products out (`terms`), and the compiled step is compared with it before it is used. One
launch has fewer programs than a GPU has processors, so the launches for all weights run concurrently
(`norms_together`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node

from ..arrays import narrow
from .nodes import all_written, storage, value

PROCESSORS, STREAMS = 132, 4


@dataclass(frozen=True)
class Tile:
    """A kernel configuration: positions per block, entries read at a time, and launch settings; `speed` is relative."""

    block: int
    step: int
    warps: int
    stages: int
    speed: float

    def pairs(self, positions: int) -> int:
        """The number of pairs of blocks, including each block with itself."""
        blocks = -(-positions // self.block)
        return blocks * (blocks + 1) // 2

    def time(self, sequences: int, positions: int) -> float:
        """The estimated time of all programs, counting those that run concurrently once."""
        return -(-sequences * self.pairs(positions) // PROCESSORS) * self.block**2 / self.speed


# large blocks read less, small ones keep a GPU busy where there are few; by size alone, the sums are the same
TILES = (Tile(128, 64, 8, 4, 1.0), Tile(64, 64, 4, 4, 0.6))


def chosen(sequences: int, positions: int) -> Tile:
    return min(TILES, key=lambda tile: tile.time(sequences, positions))


def pays(left: Tensor, right: Tensor) -> bool:
    """Whether the kernel suits these factors: reduced precision, compiled, contiguous rows, and no wasted blocks."""
    if not (narrow(left) and isinstance(left, FakeTensor) and left.is_contiguous() and right.is_contiguous()):
        return False
    batch, groups, positions, _ = left.shape
    tile = chosen(batch * groups, positions)
    return tile.pairs(positions) * tile.block**2 <= positions**2


@torch.library.custom_op("tacit::inner_sums", mutates_args=())
def inner_sums(left: Tensor, right: Tensor, lengths: Tensor, positions: int) -> Tensor:
    """(4, sequences, parts); see `inner_kernels`."""
    return all_inner_sums([left], [right], [lengths], [positions])[0]


@inner_sums.register_fake
def _(left: Tensor, right: Tensor, lengths: Tensor, positions: int) -> Tensor:
    count = len(left) // positions
    return left.new_empty(4, count, chosen(count, positions).pairs(positions), dtype=torch.float32)


@torch.library.custom_op("tacit::all_inner_sums", mutates_args=())
def all_inner_sums(
    lefts: Sequence[Tensor], rights: Sequence[Tensor], lengths: Sequence[Tensor], positions: Sequence[int]
) -> list[Tensor]:
    """`inner_sums` of several weights, on several streams; the current stream waits for all of them.

    All memory belongs to the current stream, which reuses none of it before it has waited.
    """
    from .inner_kernels import launch, room

    given_sides = zip(lefts, rights, lengths, strict=True)
    sides = [(left.contiguous(), right.contiguous(), length.contiguous()) for left, right, length in given_sides]
    tiles = [chosen(len(left) // count, count) for (left, *_), count in zip(sides, positions, strict=True)]
    found = [room(left, count, tile) for (left, *_), count, tile in zip(sides, positions, tiles, strict=True)]
    streams = _streams(lefts[0].device) if lefts[0].is_cuda and len(lefts) > 1 else []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(stream.device))
    for place, work in enumerate(zip(sides, found, positions, tiles, strict=True)):
        given, out, count, tile = work
        with torch.cuda.stream(streams[place % STREAMS]) if streams else nullcontext():
            launch(*given, out, count, tile)
    for stream in streams:
        torch.cuda.current_stream(stream.device).wait_stream(stream)
    return found


@all_inner_sums.register_fake
def _(
    lefts: Sequence[Tensor], rights: Sequence[Tensor], lengths: Sequence[Tensor], positions: Sequence[int]
) -> list[Tensor]:
    return [inner_sums(*given) for given in zip(lefts, rights, lengths, positions, strict=True)]


@cache
def _streams(device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(STREAMS)]


def norms_together(graph: Graph) -> None:
    """Merge all norms by inner products of a traced step into one operation, at the place of the last of them.

    Operations that depend on one of them are moved behind it, in their order; if any of those is mutated, nothing is
    done.
    """
    every = graph.find_nodes(op="call_function", target=torch.ops.tacit.inner_sums.default)
    if len(every) < 2:
        return
    later = _hanging_on(every)
    read = [one for node in (*every, *later) for one in (node, *node.all_input_nodes)]
    if not all_written(graph).isdisjoint(storage(read)):
        return
    lists = [list(column) for column in zip(*(node.args for node in every), strict=True)]
    with graph.inserting_after(every[-1]):
        joined = place = graph.call_function(torch.ops.tacit.all_inner_sums.default, tuple(lists))
    joined.meta["val"] = [value(node) for node in every]
    for number, node in enumerate(every):
        with graph.inserting_after(place):
            place = graph.call_function(operator.getitem, (joined, number))
        place.meta["val"] = value(node)
        node.replace_all_uses_with(place)
    for node in later:
        place.append(node)
        place = node
    for node in every:
        graph.erase_node(node)


def _hanging_on(every: list[Node]) -> list[Node]:
    """The operations before the last of these nodes that depend on one of them."""
    found, node = dict.fromkeys(every), every[0]
    while node is not every[-1]:
        if not found.keys().isdisjoint(node.all_input_nodes):
            found[node] = None
        node = node.next
    return [node for node in found if node not in every]
