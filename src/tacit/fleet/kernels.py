"""All of a step between the two wide matrix products of a network with one hidden layer, as one kernel for NVIDIA GPUs.

One program handles one model: bias and activation, logits, softmax, errors, norms and clipping, and the sums of the
second layer and of both biases. Only the weighted errors of the first layer are written to memory; they overwrite the
layer's products.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..train.clip.arrays import matmul_precision
from ..train.clip.rounding import LOST

ACTIVATIONS = ("Tanh", "ReLU", "Sigmoid")
LARGEST = (128, 64)
"""The largest number of hidden units and of classes that one program can hold."""


def errors(
    hidden: Tensor,
    parameters: tuple[Tensor | None, Tensor, Tensor | None],
    sums: tuple[Tensor | None, Tensor, Tensor | None],
    y: Tensor,
    mask: Tensor,
    squares: Tensor | None,
    *,
    activation: str,
    clip_norm: float,
    by: float,
    add: bool,
) -> None:
    """Overwrite `hidden`, the first layer's products (K hidden, B) without bias, with its weighted errors.

    `parameters` are the first bias (K, hidden), the second weight (K, classes, hidden) and its bias. Their sums, times
    `by`, are written to `sums`, or added to it if `add`. With `squares`, |x|^2 per example, errors are clipped as in
    DP-SGD. Without it they are averaged over the examples in `mask` (K, B).
    """
    models, classes, units = parameters[1].shape
    first, second, last = (parameters[1] if value is None else value for value in parameters)
    first_sum, second_sum, last_sum = (sums[1] if value is None else value for value in sums)
    exact = matmul_precision() == "highest"
    with torch.cuda.device_of(hidden):
        _errors[(models,)](
            hidden, first, second, last, first_sum, second_sum, last_sum, y, mask.view(torch.uint8),
            y if squares is None else squares, hidden.shape[1], mask.stride(0), mask.stride(1), clip_norm, by,
            UNITS=units, CLASSES=classes, HIDDEN=_padded(units), OUT=_padded(classes),
            COLUMNS=64 if units <= 32 else 32, ACTIVATION=ACTIVATIONS.index(activation), PRIVATE=squares is not None,
            FIRST=parameters[0] is not None, LAST=parameters[2] is not None, ADD=add,
            PRECISION="ieee" if exact else "tf32", ROOM=math.sqrt(max(LARGEST)) * LOST, num_warps=4,
        )  # fmt: skip


def _padded(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))


@triton.jit(do_not_specialize=["by", "clip_norm"])
def _errors(  # type: ignore[no-untyped-def]
    hidden, first, second, last, first_sum, second_sum, last_sum, y, mask, squares, batch, by_model, by_row, clip_norm,
    by, UNITS: tl.constexpr, CLASSES: tl.constexpr, HIDDEN: tl.constexpr, OUT: tl.constexpr, COLUMNS: tl.constexpr,
    ACTIVATION: tl.constexpr, PRIVATE: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, ADD: tl.constexpr,
    PRECISION: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    model = tl.program_id(0).to(tl.int64)
    unit, out = tl.arange(0, HIDDEN), tl.arange(0, OUT)
    real_unit, real_out = unit < UNITS, out < CLASSES
    place = model * (CLASSES * UNITS) + out[:, None] * UNITS + unit[None, :]
    weight = tl.load(second + place, mask=real_out[:, None] & real_unit[None, :], other=0.0)
    shift, lift = tl.zeros((HIDDEN,), tl.float32), tl.zeros((OUT,), tl.float32)
    if FIRST:
        shift = tl.load(first + model * UNITS + unit, mask=real_unit, other=0.0)
    if LAST:
        lift = tl.load(last + model * CLASSES + out, mask=real_out, other=0.0)
    share = 1.0
    if not PRIVATE:
        found = tl.zeros((COLUMNS,), tl.int32)
        for start in range(0, batch, COLUMNS):
            row = start + tl.arange(0, COLUMNS)
            found += tl.load(mask + model * by_model + row * by_row, mask=row < batch, other=0).to(tl.int32)
        share = 1.0 / tl.maximum(tl.sum(found, 0), 1).to(tl.float32)
    weight_sum = tl.zeros((OUT, HIDDEN), tl.float32)
    shift_sum, lift_sum = tl.zeros((HIDDEN,), tl.float32), tl.zeros((OUT,), tl.float32)
    for start in range(0, batch, COLUMNS):
        row = start + tl.arange(0, COLUMNS)
        real = row < batch
        spot = hidden + (model * UNITS + unit[:, None]) * batch + row[None, :]
        here = real_unit[:, None] & real[None, :]
        inside, slope = _activated(tl.load(spot, mask=here, other=0.0) + shift[:, None], ACTIVATION)
        inside = tl.where(here, inside, 0.0)
        logits = tl.dot(weight, inside, input_precision=PRECISION) + lift[:, None]
        logits = tl.where(real_out[:, None], logits, -float("inf"))
        raised = tl.exp(logits - tl.max(logits, 0)[None, :])
        label = tl.load(y + row, mask=real, other=0)
        error = raised / tl.sum(raised, 0)[None, :] - tl.where(out[:, None] == label[None, :], 1.0, 0.0)
        back = tl.dot(tl.trans(weight), error, input_precision=PRECISION) * slope
        back = tl.where(here, back, 0.0)
        member = tl.load(mask + model * by_model + row * by_row, mask=real, other=0) != 0
        if PRIVATE:
            seen = tl.load(squares + row, mask=real, other=0.0)
            high = tl.sqrt(tl.sum(inside * inside, 0)) + ROOM  # squares may underflow: no length is too short
            out_length, back_length = tl.sqrt(tl.sum(error * error, 0)) + ROOM, tl.sqrt(tl.sum(back * back, 0)) + ROOM
            squared = out_length * out_length * (high * high + (1.0 if LAST else 0.0))
            squared += back_length * back_length * (seen + (1.0 if FIRST else 0.0))
            norm = tl.sqrt(squared)
            factor = tl.minimum(clip_norm / tl.maximum(norm, 1.1754943508222875e-38), 1.0)
            factor = tl.where(member & (norm <= 18446744073709551616.0), factor, 0.0)  # 2^64; false for NaN too
        else:
            factor = tl.where(member, share, 0.0)
        used = (factor > 0.0)[None, :]
        error = tl.where(used, error * factor[None, :], 0.0)
        back = tl.where(used, back * factor[None, :], 0.0)
        inside = tl.where(used, inside, 0.0)
        tl.store(spot, back, mask=here)
        weight_sum += tl.dot(error, tl.trans(inside), input_precision=PRECISION)
        shift_sum += tl.sum(back, 1)
        lift_sum += tl.sum(error, 1)
    _put(second_sum + place, weight_sum * by, real_out[:, None] & real_unit[None, :], ADD)
    if FIRST:
        _put(first_sum + model * UNITS + unit, shift_sum * by, real_unit, ADD)
    if LAST:
        _put(last_sum + model * CLASSES + out, lift_sum * by, real_out, ADD)


@triton.jit
def _activated(value, ACTIVATION: tl.constexpr):  # type: ignore[no-untyped-def]
    """The activation and its slope."""
    if ACTIVATION == 0:
        inside = 1.0 - 2.0 / (tl.exp(2.0 * value) + 1.0)
        slope = 1.0 - inside * inside
    elif ACTIVATION == 1:
        inside = tl.where(value <= 0.0, 0.0, value)
        slope = tl.where(value <= 0.0, 0.0, 1.0)
    else:
        inside = 1.0 / (1.0 + tl.exp(-value))
        slope = inside * (1.0 - inside)
    return inside, slope


@triton.jit
def _put(place, made, mask, ADD: tl.constexpr):  # type: ignore[no-untyped-def]
    if ADD:
        made += tl.load(place, mask=mask, other=0.0)
    tl.store(place, made, mask=mask)
