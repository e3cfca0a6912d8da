"""Several arrays that a kernel treats as one, without copying: tables on their device say where each begins.

A recorded kernel (CUDA graph) contains the address of a table and reads the table when it is replayed. So tables are
filled after recording, with the addresses of the arrays that were recorded. Whoever records must keep tables and arrays
alive as long as the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...core import BadInput

TILE = 512
"""Entries that one program of the noise kernel makes at a time; `owners` has one entry for each tile."""
LANES, FEWEST, MOST = 1024, 8, 1024
"""A part has at most `rows` times `lanes` words; rows are at least FEWEST, and enough for about MOST parts."""


class Joined:
    """Float32 arrays of given sizes as one long array.

    `places` are addresses, `starts` say where each array begins in the whole, and `owners` give the array that holds
    every TILE-th entry. `parts` (3, count) list array, first entry and length of pieces that each lie in one array.
    """

    def __init__(self, sizes: Sequence[int], device: torch.device, lanes: int = LANES) -> None:
        self.sizes, self.device, self.count = list(sizes), device, sum(sizes)
        self.lanes, self.rows = lanes, max(FEWEST, -(-self.count // (lanes * MOST)))
        starts = np.concatenate(([0], np.cumsum(self.sizes)))
        owners = np.searchsorted(starts, np.arange(0, max(self.count, 1), TILE), side="right") - 1
        longest = self.rows * lanes
        parts = [(n, at, min(longest, size - at)) for n, size in enumerate(sizes) for at in range(0, size, longest)]
        self.starts, self.owners, self.parts = (
            torch.from_numpy(table).to(device)
            for table in (starts, owners.astype(np.int32), np.array(parts, dtype=np.int64).reshape(-1, 3).T.copy())
        )
        self.places = torch.zeros(len(self.sizes), dtype=torch.int64, device=device)
        self.arrays: list[Tensor] = []

    def at(self, arrays: Sequence[Tensor]) -> Joined:
        """Use these arrays from now on; work that was launched before uses the former ones."""
        plain = all(one.dtype == torch.float32 and one.is_contiguous() for one in arrays)
        if not plain or [one.numel() for one in arrays] != self.sizes:
            raise BadInput("Joined arrays are contiguous, of float32 and of the sizes that were given.")
        self.arrays = [one.view(-1) for one in arrays]
        self.places.copy_(torch.tensor([one.data_ptr() for one in arrays], dtype=torch.int64))
        return self

    def pieces(self) -> Iterator[Tensor]:
        """The parts as tensors."""
        for number, first, length in self.parts.T.tolist():
            yield self.arrays[number].narrow(0, first, length)
