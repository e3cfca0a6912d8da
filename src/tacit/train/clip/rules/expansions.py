"""Run fused operations as simpler operations that have rules.

An expansion is called outside the capture, with the capture as its first argument, and enters it where a parameter is
consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..arrays import wide
from ..capture.errors import NoRule
from .lstm import Lstm
from .operators import EXPANSIONS

if TYPE_CHECKING:
    from ..capture.level import Level
    from ..capture.watch import Capture

State = tuple[Tensor, ...]


def bilinear(capture: Capture, first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""y_k = \sum_{ij} x_i W_kij z_j + b_k, as a linear layer on the outer product of x and z."""
    pairs = (first.unsqueeze(-1) * second.unsqueeze(-2)).flatten(-2)
    with capture:
        flattened = weight.flatten(1)
    return capture.run(F.linear, pairs, flattened, bias)


def batch_norm(
    capture: Capture,
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """With frozen statistics, an affine map of every example: y = (x - mean) / sqrt(var + eps) w + b by channel."""
    shape = (-1, *(1,) * (input.ndim - 2))
    found = (wide(input) - running_mean.view(shape)) * (wide(running_var) + eps).rsqrt().view(shape)
    capture.note(found)
    with capture:
        if weight is not None:
            found = found * weight.view(shape)
        if bias is not None:
            found = found + bias.view(shape)
    return found.to(input.dtype)


def aten_batch_norm(
    capture: Capture, input: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, *rest: Any
) -> Tensor:
    """torch.batch_norm, which orders its arguments differently and ends with a flag for cuDNN."""
    return batch_norm(capture, input, mean, var, weight, bias, *rest[:3])


def embedding_bag(
    capture: Capture,
    index: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Look rows up, then take their sum, mean or maximum; padding rows do not count."""
    if index.ndim == 1 and offsets is not None and offsets.shape == (1,) and not include_last_offset:
        index = index.unsqueeze(0)  # one bag: all ids of the record
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.unsqueeze(0)
        capture.note((index, per_sample_weights))
    if index.ndim != 2 or scale_grad_by_freq:
        raise NoRule(
            "An embedding bag with offsets or scale_grad_by_freq cannot be followed.",
            fix="Give one row of ids per example, with padding_idx, and leave the others off.",
        )
    rows = capture.run(F.embedding, index, weight)
    kept = torch.ones_like(index, dtype=torch.bool) if padding_idx is None else index != padding_idx % len(weight)
    if mode == "max":
        most = rows.masked_fill(~kept[..., None], -torch.inf).max(1).values
        return torch.where(kept.any(1, keepdim=True), most, 0.0)
    share = kept.to(rows.dtype) if per_sample_weights is None else kept * per_sample_weights
    total = (rows * share[..., None]).sum(1)
    return total / kept.sum(1, keepdim=True).clamp(min=1) if mode == "mean" else total


def lstm_cell(capture: Capture, x: Tensor, hx: Sequence[Tensor], *weights: Any) -> tuple[Tensor, Tensor]:
    """torch.lstm_cell, as two linear layers and its gates."""
    hidden, before = (_of_each(capture, part) for part in hx)
    theirs, own = _cell(capture, x, hidden, *weights)
    taken, kept, fresh, shown = (theirs + own).chunk(4, -1)
    cell = kept.sigmoid() * before + taken.sigmoid() * fresh.tanh()
    return shown.sigmoid() * cell.tanh(), cell


def gru_cell(capture: Capture, x: Tensor, hidden: Tensor, *weights: Any) -> Tensor:
    """torch.gru_cell."""
    hidden = _of_each(capture, hidden)
    theirs, own = (part.chunk(3, -1) for part in _cell(capture, x, hidden, *weights))
    reset, update = ((one + other).sigmoid() for one, other in zip(theirs[:2], own[:2], strict=True))
    fresh = torch.tanh(theirs[2] + reset * own[2])
    return fresh + update * (hidden - fresh)


def simple_cell(kind: Callable[[Tensor], Tensor]) -> Callable[..., object]:
    """torch.rnn_tanh_cell and torch.rnn_relu_cell."""

    def cell(capture: Capture, x: Tensor, hidden: Tensor, *weights: Any) -> Tensor:
        theirs, own = _cell(capture, x, _of_each(capture, hidden), *weights)
        return kind(theirs + own)

    return cell


def _of_each(capture: Capture, state: Tensor) -> Tensor:
    """A first state that is learned and so the same for all records, as one per record."""
    level = capture.level
    if level.owns(state) or id(state) not in capture.sources:
        return state
    return capture.run(torch.add, level.one(state.new_zeros(()).expand(level.batch)), state)


def _cell(
    capture: Capture, x: Tensor, hidden: Tensor, w_in: Tensor, w_state: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The contributions of a cell's input and of its state, before they are combined."""
    b_in, b_state = biases or (None, None)
    return capture.run(F.linear, x, w_in, b_in), capture.run(F.linear, hidden, w_state, b_state)


def lstm(capture: Capture, x: Tensor, hx: Any, weights: Sequence[Tensor], *rest: Any) -> object:
    """torch.lstm, unrolled in time."""
    packed = isinstance(hx, Tensor)  # refused below
    before = [] if packed else list(zip(*(_of_each(capture, part) for part in hx), strict=True))
    output, states = _stack(capture, x, before, weights, rest, _run_lstm)
    return output, *(torch.stack(part) for part in zip(*states, strict=True))


def gru(capture: Capture, x: Tensor, hx: Tensor, weights: Sequence[Tensor], *rest: object) -> object:
    """torch.gru, unrolled in time."""
    output, states = _stack(capture, x, [(state,) for state in _of_each(capture, hx)], weights, rest, _run_gru)
    return output, torch.stack([state for (state,) in states])


def simple(kind: Callable[[Tensor], Tensor]) -> Callable[..., object]:
    """torch.rnn_tanh and torch.rnn_relu."""

    def rnn(capture: Capture, x: Tensor, hx: Tensor, weights: Sequence[Tensor], *rest: Any) -> object:
        def run(*parts: Any) -> Any:
            return _run_simple(kind, *parts)

        output, states = _stack(capture, x, [(state,) for state in _of_each(capture, hx)], weights, rest, run)
        return output, torch.stack([state for (state,) in states])

    return rnn


def _stack(
    capture: Capture, x: Tensor, states: list[State], weights: Sequence[Tensor], rest: tuple[Any, ...], run: Any
) -> tuple[Tensor, list[State]]:
    """Stacked layers, each in one or two directions; `rest` as torch passes it."""
    if len(rest) != 6 or not isinstance(rest[0], bool):
        raise NoRule("A recurrent layer on packed sequences cannot be clipped.", fix="Pad the sequences and mask them.")
    biased, layers, dropout, training, both, batch_first = rest
    ways = 2 if both else 1
    each = len(weights) // (layers * ways)
    if each != (4 if biased else 2):
        raise NoRule("An LSTM with a projection (proj_size) cannot be clipped.", fix="Use a linear layer after it.")
    x = x.transpose(0, 1) if batch_first else x
    last: list[State] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            place = layer * ways + way
            mine = weights[place * each : (place + 1) * each]
            output, state = _one_way(capture, x, states[place], mine, run, backward=way == 1)
            outputs.append(output)
            last.append(state)
        x = torch.cat(outputs, -1) if both else outputs[0]
        if dropout and layer < layers - 1:
            x = F.dropout(x, dropout, training)
    return (x.transpose(0, 1) if batch_first else x), last


def _one_way(capture: Capture, x: Tensor, state: State, weights: Sequence[Tensor], run: Any, *, backward: bool) -> Any:
    r"""One layer in one direction, time first.

    The input's projection for all times is one linear layer. The recurrent weight meets h_{t-1} at time t, and its
    per-example gradient is \sum_t g_t h_{t-1}^T: one record for all times, with the g_t of the gates it feeds.
    """
    x = x.flip(0) if backward else x
    (w_in, w_state), biases = weights[:2], weights[2:]
    b_in, b_state = biases if biases else (None, None)
    gates = capture.run(F.linear, x, w_in, b_in)
    level = capture.level
    rows = gates.shape[1]
    theirs = _whole(level, gates)
    if not theirs.requires_grad:
        theirs = level.leaf(theirs)
    before = tuple(_whole(level, part[None])[0] for part in state)
    bare = (w_state.detach(), None if b_state is None else b_state.detach())
    with level.left():
        found, last, fed = run(theirs, before, *bare)
    met = torch.cat((before[0].detach()[None], found[:-1].detach()))
    capture.also(F.linear, (_first(met, rows), w_state, b_state), fed, partial(_first, rows=rows))
    hidden = level.one(_first(found, rows))
    return (hidden.flip(0) if backward else hidden), tuple(level.one(_first(part[None], rows))[0] for part in last)


def _whole(level: Level, values: Tensor) -> Tensor:
    """(T, B rows, d): all records of (T, rows, d), time first."""
    return level.all(values).transpose(0, 1).flatten(1, 2)


def _first(values: Tensor, rows: int) -> Tensor:
    """(B, T, rows, d) from (T, B rows, d)."""
    return values.unflatten(1, (-1, rows)).transpose(0, 1)


def _run_lstm(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> object:
    """All time steps, in float32 or better; the result has the dtype of the state."""
    hidden, cell = state
    wider = (None if part is None else wide(part) for part in (gates, hidden, cell, weight, bias))
    with torch.autocast(gates.device.type, enabled=False):
        found, last = (part.to(hidden.dtype) for part in Lstm.on_all(*wider))
    return found, (found[-1], last), gates


def _run_gru(gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> object:
    """n = tanh(x_n + r h_n): the state's part of this gate is scaled by r, so it is captured separately."""
    tap = torch.zeros_like(gates).requires_grad_()
    states = [state]
    for now, extra in zip(gates.unbind(0), tap.unbind(0), strict=True):
        (hidden,) = states[-1]
        own = (F.linear(hidden, weight, bias) + extra).chunk(3, -1)
        theirs = now.chunk(3, -1)
        reset, update = ((mine + other).sigmoid() for mine, other in zip(own[:2], theirs[:2], strict=True))
        fresh = torch.tanh(theirs[2] + reset * own[2])
        states.append((fresh + update * (hidden - fresh),))
    return torch.stack([hidden for (hidden,) in states[1:]]), states[-1], tap


def _run_simple(kind: Any, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> object:
    states = [state]
    for now in gates.unbind(0):
        states.append((kind(now + F.linear(states[-1][0], weight, bias)),))
    return torch.stack([hidden for (hidden,) in states[1:]]), states[-1], gates


EXPANSIONS[F.batch_norm] = batch_norm
EXPANSIONS[torch.batch_norm] = aten_batch_norm
EXPANSIONS[F.bilinear] = bilinear
EXPANSIONS[torch.bilinear] = bilinear
EXPANSIONS[F.embedding_bag] = embedding_bag
EXPANSIONS[torch.lstm_cell] = lstm_cell
EXPANSIONS[torch.gru_cell] = gru_cell
EXPANSIONS[torch.rnn_tanh_cell] = simple_cell(torch.tanh)
EXPANSIONS[torch.rnn_relu_cell] = simple_cell(torch.relu)
EXPANSIONS[torch.lstm] = lstm
EXPANSIONS[torch.gru] = gru
EXPANSIONS[torch.rnn_tanh] = simple(torch.tanh)
EXPANSIONS[torch.rnn_relu] = simple(torch.relu)
