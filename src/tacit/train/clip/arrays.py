"""Products, sums and buffers of per-example arrays: computed in float32 or better, in memory that is reused."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import _functorch as C

from ...core.global_randomness import turn
from .rounding import COARSE, LONGER, SHORT

ALIGNED = 8
# the C library's: larger blocks are always mapped by themselves; and how far from the heap at least
MAPPED, FAR = 2**25, 2**36
REDUCED = (torch.bfloat16, torch.float16)
_CUDNN: Any = torch.backends.cudnn
_MKLDNN: Any = torch.backends.mkldnn
SETTINGS: tuple[Any, ...] = (
    torch.backends.cuda.matmul, _MKLDNN.matmul, _CUDNN.conv, _CUDNN.rnn, _MKLDNN.conv, _MKLDNN.rnn,
)  # fmt: skip
PART = 1024
"""How many squares are added up in float32; the partial sums are added up in float64."""


def square(values: Tensor) -> Tensor:
    """Squared norms over all axes but the first, in float64."""
    return squares(flat(values))


def squares(values: Tensor) -> Tensor:
    """Squared norms along the last axis, in float64; relative error at most (PART + 4) ROUND, apart from underflow."""
    values = wide(values)
    count = values.shape[-1]
    whole = count // PART
    if count <= PART:
        return torch.linalg.vector_norm(values, dim=-1).double().square()
    parts = values[..., : whole * PART].unflatten(-1, (whole, PART))
    found = torch.linalg.vector_norm(parts, dim=-1).double().square().sum(-1)
    if count > whole * PART:
        found = found + torch.linalg.vector_norm(values[..., whole * PART :], dim=-1).double().square()
    return found


def summed(weight: Tensor, values: Tensor) -> Tensor:
    r"""\sum_i c_i v_i of rows (B, d), computed as short partial sums; in float64 if the weights are."""
    if weight.dtype == torch.float64 != values.dtype:
        parts = zip(weight.split(SHORT), values.split(SHORT), strict=True)
        return added(some @ rows.double() for some, rows in parts)
    weight = weight.to(values.dtype)  # of a float64 parameter under a float32 loss
    count = len(values) // SHORT * SHORT
    if values.is_cuda or len(values) <= SHORT:
        return weight @ values
    whole = weight[:count].view(-1, 1, SHORT), values[:count].view(-1, SHORT, values.shape[1])
    found = torch.bmm(*whole).sum((0, 1))
    return found.add_(weight[count:] @ values[count:]) if count < len(values) else found


def crossed(left: Tensor, right: Tensor, length: int, room: Room | None = None) -> Tensor:
    r"""\sum_k l_k r_k^T of rows (groups, K, p) and (groups, K, d), or without groups; on a CPU as short partial sums.

    In float64 if one of the factors is. The summands are written to reused memory where there is some.
    """
    if left.is_cuda:
        return product(left.mT, right) if left.ndim > 2 else left.mT @ right
    left, right = wide(left), wide(right)
    kind = torch.promote_types(left.dtype, right.dtype)
    length = LONGER if kind == torch.float64 else length
    found = place = None
    for some, others in zip(left.split(length, -2), right.split(length, -2), strict=True):
        sides = some.mT.to(kind), others.to(kind)
        if found is None:
            found = torch.matmul(*sides)
        else:  # memory in moderate pieces is reused, not mapped anew
            if place is None:
                place = torch.empty_like(found) if room is None else room.take(tuple(found.shape), found)
            found.add_(torch.matmul(*sides, out=place))
    assert found is not None
    return found


def added(parts: Iterator[Tensor]) -> Tensor:
    """The sum of some tensors, added one after the other."""
    found = next(parts)
    for one in parts:
        found.add_(one)
    return found


def flat(values: Tensor) -> Tensor:
    """(B, entries) in float32 or better, also for a single number."""
    return wide(values).flatten(1) if values.ndim > 1 else wide(values).unsqueeze(1)


def wide(values: Tensor) -> Tensor:
    """In float32 or better: norms and sums are never computed in reduced precision (soundness rule 11)."""
    return values.float() if values.dtype in REDUCED else values


def narrow(values: Tensor) -> bool:
    """Whether products may take these values as they are: a GPU multiplies them exactly and accumulates in float32."""
    return values.dtype == torch.bfloat16 and values.is_cuda


def coarse(values: Tensor) -> float:
    """The relative rounding error of a float32 product's two factors together, where TF32 or bfloat16 is allowed."""
    return COARSE[matmul_precision()] if values.dtype == torch.float32 else 0.0


def matmul_precision() -> str:
    """`torch.get_float32_matmul_precision`, which raises if torch's newer settings are in use, without raising."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        found = products()[:2]
        return "medium" if "bf16" in found else "high" if "tf32" in found else "highest"


def products() -> tuple[str, ...]:
    """How torch multiplies and convolves float32, according to its newer settings (`torch.backends`)."""
    return tuple(one.fp32_precision for one in SETTINGS)


def set_products(kinds: Iterable[str]) -> None:
    """Restore the newer settings."""
    for one, kind in zip(SETTINGS, kinds, strict=True):
        one.fp32_precision = kind


@contextmanager
def ordinary_modes(device: torch.device) -> Iterator[None]:
    """Run operations without autocast and with gradients, whatever surrounds a step.

    Autocast would sum over records in half precision, for which the noise has no margin, and `torch.no_grad` would hide
    gradients. Ctrl-C may leave a mode or a level of `torch.func` in force; whatever does so is taken away at the end.
    """
    functions, dispatch, levels = _depths()
    lowered = torch.is_autocast_enabled(device.type)
    exact = torch.autocast(device.type, enabled=False) if lowered else nullcontext()
    with torch.inference_mode(False), exact, torch.enable_grad():
        if device.type == "cuda":
            _woken(device)
        try:
            yield
        finally:
            while torch._C._len_torch_function_stack() > functions:
                torch._C._pop_torch_function_stack()
            while torch._C._len_torch_dispatch_stack() > dispatch:
                torch._C._pop_torch_dispatch_stack()
            if C.get_dynamic_layer_stack_depth() > levels:
                C.pop_dynamic_layer_stack_and_undo_to_depth(levels)


@cache
def _woken(device: torch.device) -> None:
    """Give torch's own thread for backward passes a context on a GPU: without one its first matrix product warns."""
    torch.ones((), device=device, requires_grad=True).mul(2).backward()


def _depths() -> tuple[int, int, int]:
    """How many function modes, dispatch modes and levels of `torch.func` are in force."""
    modes = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    return *modes, C.get_dynamic_layer_stack_depth()


def uncompiled(model: nn.Module) -> AbstractContextManager[object]:
    """Run parts of a model that the user compiled in eager mode, so that every operation is seen.

    Models without such parts are left alone: `torch.cond` compiles what it runs, and has no gradient otherwise.
    """
    dynamo = sys.modules.get("torch._dynamo")  # not loaded where nothing is compiled
    if dynamo is None or not any(isinstance(one, dynamo.OptimizedModule) or _calls(one) for one in model.modules()):
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def _calls(module: nn.Module) -> bool:
    """Whether a module runs compiled code in place of its own (`module.compile()`)."""
    return getattr(module, "_compiled_call_impl", None) is not None


def full_float32() -> AbstractContextManager[None]:
    """Multiply and convolve float32 without TF32 or bfloat16, whatever was set before."""
    return float32_products(tf32=False)


@contextmanager
def float32_products(*, tf32: bool) -> Iterator[None]:
    """Multiply and convolve float32 with TF32, or without, whatever was set before.

    These settings hold for the whole process, so other threads that change them wait.
    """
    with turn(), _set_products(tf32):
        yield


@contextmanager
def _set_products(tf32: bool) -> Iterator[None]:
    try:
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:  # the newer settings are in use, and torch does not translate them
        with _by_newer_settings(tf32):
            yield
        return
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextmanager
def _by_newer_settings(tf32: bool) -> Iterator[None]:
    before = products()
    set_products(("tf32" if tf32 else "ieee",) * len(before))
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        set_products(before)


def product(left: Tensor, right: Tensor) -> Tensor:
    """Batched matrix products, in float32 or better."""
    if narrow(left) and left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(wide(left), wide(right))


def diagonal(values: Tensor) -> Tensor:
    """(B, T) from (B, T, T) by slicing: torch.diagonal makes the compiler warn."""
    return values.flatten(1)[:, :: values.shape[-1] + 1]


def aligned(values: Tensor) -> Tensor:
    """Pad the last axis with zeros to a multiple of eight: matrix units are slow for any other length."""
    missing = -values.shape[-1] % ALIGNED
    return F.pad(values, (0, missing)) if missing else values


def kept_only(values: Tensor, kept: Tensor) -> Tensor:
    """Set the examples that are not kept to zero, whatever their values (NaN included)."""
    return torch.where(kept.view(-1, *(1,) * (values.ndim - 1)), values, 0)


class Room:
    """Memory for written-out gradients, kept from step to step: mapping it again costs as much as filling it."""

    def __init__(self) -> None:
        self.blocks: list[Tensor] = []
        self.used = 0
        self.top: Tensor | None = None

    def clear(self) -> None:
        """Mark all of it as free; the next step asks for the same sizes in the same order."""
        self.used = 0

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        count = math.prod(shape)
        if self.used == len(self.blocks):
            self.blocks.append(like.new_empty(0))
        block = self.blocks[self.used]
        if block.numel() < count or block.dtype != like.dtype:
            block = self.blocks[self.used] = like.new_empty(count)
        self.used += 1
        return block[:count].view(shape)

    def hold(self, values: Tensor) -> None:
        """Keep the highest heap allocation of a step alive.

        Free heap memory above the last kept block is returned to the system, and the next step would have to map it
        again page by page. Blocks that are mapped separately lie far above any heap.
        """
        if values.untyped_storage().nbytes() >= MAPPED:
            return
        higher = 1 if self.top is None else values.data_ptr() - self.top.data_ptr()
        if 0 < higher < FAR or higher < -FAR:
            self.top = values
