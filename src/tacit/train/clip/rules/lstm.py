r"""The recurrence of an LSTM over all times, with its backward pass written out: few operations per time step.

    z_t = x_t + W h_{t-1} + b: the gates i, f, g, o before their sigmoids and (g) tanh
    c_t = f c_{t-1} + i g,    h_t = o tanh(c_t)

Backwards dh_t = dy_t + W^T dz_{t+1} and dc_t = f_{t+1} dc_{t+1} + dh_t o (1 - tanh^2 c_t), and dz_t is dc_t (for i, f
and g) or dh_t (for o) times a slope that depends on neither. So the slopes of all times are made at once, and the loop
is left with one matrix product and four small steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function

_sigmoid_slope = torch.ops.aten.sigmoid_backward
_tanh_slope = torch.ops.aten.tanh_backward


class Lstm(torch.autograd.Function):
    """(x, h_0, c_0, W, b) -> (h_1 ... h_T, c_T), time first; x is the input's part of the gates, W and b constants."""

    @classmethod
    def on_all(cls, *args: Tensor | None) -> tuple[Tensor, Tensor]:
        """`apply` for tensors that hold all records: torch's own asks for a rule for one while a level is entered."""
        with enable_single_level_autograd_function():
            found: tuple[Tensor, Tensor] = super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]
            return found

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        width = weight.shape[1]
        gates = x.clone() if bias is None else x + bias
        cells = [cell]
        hiddens, bent = gates.new_empty(2, *gates.shape[:2], width)
        two, fresh, shown = (part.unbind() for part in gates.split((2 * width, width, width), -1))
        for t, gate in enumerate(gates.unbind()):
            gate.addmm_(hidden, weight.mT)
            taken, kept = two[t].sigmoid_().chunk(2, -1)
            cells.append((kept * cells[t]).addcmul_(taken, fresh[t].tanh_()))
            bend = torch.tanh(cells[-1], out=bent[t])
            hidden = torch.mul(shown[t].sigmoid_(), bend, out=hiddens[t])
        ctx.save_for_backward(gates, torch.stack(cells[:-1]), bent, weight)
        return hiddens, cells[-1]

    @staticmethod
    def backward(ctx: Any, d_hiddens: Tensor, d_cell: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, bent, weight = ctx.saved_tensors
        taken, kept, fresh, shown = gates.chunk(4, -1)
        slopes = _sigmoid_slope(fresh, taken), _sigmoid_slope(cells, kept), _tanh_slope(taken, fresh)
        found = torch.cat((*slopes, _sigmoid_slope(bent, shown)), dim=-1)
        rise = _tanh_slope(shown, bent).unbind()
        by_cell, by_hidden = found.unflatten(-1, (4, -1)).split((3, 1), 2)
        kept = kept.unbind()
        d_hidden, d_cell = d_hiddens[-1], d_cell.clone()
        for t in reversed(range(len(gates))):
            d_cell.addcmul_(d_hidden, rise[t])
            by_cell[t].mul_(d_cell[:, None])
            by_hidden[t].mul_(d_hidden[:, None])
            d_cell.mul_(kept[t])
            d_hidden = torch.addmm(d_hiddens[t - 1], found[t], weight) if t else found[t] @ weight
        return found, d_hidden, d_cell, None, None
