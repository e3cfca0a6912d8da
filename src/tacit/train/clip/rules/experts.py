r"""Grouped products, as mixtures of experts use them: y_t = x_t W_{e(t)}, where e(t) is the expert of row t.

A record's rows come sorted by expert, and `offs` holds the end of every expert's rows, so e(t) is the number of ends
that are at most t. Rows behind the last end have no expert. For all records at once the rows of all of them are sorted
by expert again: a row meets its expert's weights and no other row.

    G_e = \sum_{t: e(t) = e} x_t g_t^T      for every expert e
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..capture.level import Level
from ..capture.rows import ROWS
from .operators import Found, argument, every, fallback, rule, uses
from .outer import Outer

if TYPE_CHECKING:
    from ..capture.kept import Record


ALIGNED = 16
"""Bytes that a row of the grouped product's matrices must be a multiple of; float64 it does not take at all."""


def experts_of(ends: Tensor, rows: int) -> Tensor:
    """(B, rows): the expert of every row, from the ends (B, experts); the number of experts for rows without one."""
    return (torch.arange(rows, device=ends.device)[:, None] >= ends[:, None, :]).sum(-1)


def grouped(level: Level, rows: Tensor, weight: Tensor, offs: Tensor | None = None, **kwargs: Any) -> Tensor:
    """All records' rows in one grouped product, where the weights are the same for all records."""
    plain = not any(value is not None for value in kwargs.values())
    if offs is None or not plain or not level.direct(rows) or rows.ndim != 2 or weight.ndim != 3 or level.owns(weight):
        return F.grouped_mm(rows, weight, offs=offs, **kwargs)
    whole, ends = level.all(rows), level.all(offs)
    with level.left():
        found = _product(whole.flatten(0, 1), weight, experts_of(ends, whole.shape[1]).flatten())
    return level.one(found.unflatten(0, (level.batch, -1)))


def _product(rows: Tensor, weight: Tensor, expert: Tensor) -> Tensor:
    """(rows, out): zeros for rows without an expert."""
    if weight.dtype == torch.float64 or any(side * weight.itemsize % ALIGNED for side in weight.shape[1:]):
        found = torch.bmm(rows[:, None], weight[expert.clamp(max=len(weight) - 1)])[:, 0]
    else:
        order = expert.argsort(stable=True)
        ends = torch.searchsorted(expert[order], torch.arange(len(weight), device=rows.device), right=True)
        sorted_rows = F.grouped_mm(rows[order].to(weight.dtype), weight, offs=ends.to(torch.int32))
        found = torch.empty_like(sorted_rows).index_copy(0, order, sorted_rows)
    return torch.where((expert < len(weight))[:, None], found, 0)


@rule(F.grouped_mm)
def grouped_product(record: Record, gradient: Tensor, batch: int) -> Found:
    """One outer product for every expert, over its own rows."""
    rows, weight, ends = record.args[0], record.args[1], argument(record, 2, "offs")
    if uses(record, rows) or not uses(record, weight) or weight.ndim != 3 or ends is None:
        yield from fallback(record, gradient, batch)
        return
    expert = experts_of(every(record, ends, batch), gradient.shape[1])
    mine = expert[:, None] == torch.arange(len(weight), device=expert.device)[:, None]
    left = torch.where(mine[..., None], every(record, rows, batch)[:, None], 0)
    right = gradient[:, None].expand(-1, len(weight), -1, -1)
    yield weight, Outer(left, right, weight.shape)


ROWS[F.grouped_mm] = grouped
