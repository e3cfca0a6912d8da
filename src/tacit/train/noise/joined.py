"""Arrays that a kernel takes as one, where they lie: tables on their device say where each begins.

A recorded kernel (CUDA graph) holds the address of a table and reads it when it is replayed, so tables are filled after
recording, with the places of the arrays that were recorded. Whoever records keeps tables and arrays for as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from ...core import BadInput

TILE = 512
"""Numbers that one program of the noise kernel makes at a time; `owners` has an entry for each so many."""
LANES, FEWEST, MOST = 1024, 8, 1024
"""A part is at most `rows` times `lanes` words; rows are at least FEWEST, and as many as make about MOST parts."""


class Joined:
    """Arrays of float32 of given sizes as one long array.

    `places` are addresses, `starts` say where arrays begin in the whole, `owners` name the array in which every TILE-th
    number lies. `parts` (3, count) are array, first number and length of pieces that each lie in one array.
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
        """From now on these arrays; work that was launched before meets the ones before."""
        plain = all(one.dtype == torch.float32 and one.is_contiguous() for one in arrays)
        if not plain or [one.numel() for one in arrays] != self.sizes:
            raise BadInput("Joined arrays are contiguous, of float32 and of the sizes that were given.")
        self.arrays = [one.view(-1) for one in arrays]
        self.places.copy_(torch.tensor([one.data_ptr() for one in arrays], dtype=torch.int64))
        return self

    def pieces(self) -> Iterator[Tensor]:
        """The parts themselves."""
        for number, first, length in self.parts.T.tolist():
            yield self.arrays[number].narrow(0, first, length)
