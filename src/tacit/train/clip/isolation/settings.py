"""Settings of Python and torch for the whole process, and modes of torch that are in force: restored after a record."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.overrides as functions
import torch.utils._python_dispatch as dispatch
from torch._C import _functorch as C
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ..arrays import products, set_products

STACKS: tuple[tuple[Callable[[], list[Any]], Callable[[], object], Callable[[Any], object]], ...] = (
    (_get_current_function_mode_stack, functions._pop_mode, functions._push_mode),
    (_get_current_dispatch_mode_stack, dispatch._pop_mode, dispatch._push_mode),
)
PLACES = ("cpu", "cuda")
SAVING = torch._C._autograd
"""Where torch keeps hooks on saved tensors."""


class InForce:
    """Modes, hooks on saved tensors and levels of `torch.func` that are in force; a record may enter some for good."""

    def __init__(self) -> None:
        self.modes = [now() for now, _, _ in STACKS]
        self.hooks, self.forbidden = _saving(), SAVING._saved_tensors_hooks_get_disabled_error_message()
        self.levels, self.duals = C.get_dynamic_layer_stack_depth(), forward_ad._current_level

    def restore(self) -> None:
        if C.get_dynamic_layer_stack_depth() > self.levels:
            C.pop_dynamic_layer_stack_and_undo_to_depth(self.levels)
        for level in range(forward_ad._current_level, self.duals, -1):
            torch._C._exit_dual_level(level=level)
        forward_ad._current_level = self.duals
        for (now, pop, push), noted in zip(STACKS, self.modes, strict=True):
            _put_modes(now(), noted, pop, push)
        if SAVING._saved_tensors_hooks_get_disabled_error_message() != self.forbidden:
            SAVING._saved_tensors_hooks_enable()
        while (hooks := _saving()) is not None and hooks != self.hooks:
            SAVING._pop_saved_tensors_default_hooks()
        if hooks is None and self.hooks is not None:
            SAVING._push_saved_tensors_default_hooks(*self.hooks)
        if self.forbidden is not None:
            SAVING._saved_tensors_hooks_disable(self.forbidden)


def _saving() -> Any:
    return SAVING._top_saved_tensors_default_hooks(True)


def _put_modes(now: list[Any], noted: list[Any], pop: Callable[[], object], push: Callable[[Any], object]) -> None:
    """Leave the modes that are not noted, and enter the noted ones that were left."""
    kept = 0
    while kept < min(len(now), len(noted)) and now[kept] is noted[kept]:
        kept += 1
    for _ in now[kept:]:
        pop()
    for mode in noted[kept:]:
        push(mode)


class Flags:
    """Global settings of Python and torch that code may change."""

    def __init__(self) -> None:
        self.noted = [get() for get, _ in FLAGS]

    def restore(self) -> None:
        for (get, put), noted in zip(FLAGS, self.noted, strict=True):
            if get() != noted:
                put(noted)

    def moved(self) -> str:
        """The name of a setting that changed; not one that torch itself sets in the midst of a pass."""
        for (get, _), noted in zip(FLAGS, self.noted, strict=True):
            if get not in PASSING and get() != noted:
                return f"a setting of torch or Python ({getattr(get, '__name__', 'autocast').lstrip('_')})"
        return ""


def _folder() -> str | None:
    """The working folder; None if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return None


def _enter(noted: str | None) -> None:
    if noted is not None:
        os.chdir(noted)


def _set_thresholds(noted: tuple[int, int, int]) -> None:
    gc.set_threshold(*noted)


def _collect(noted: bool) -> None:
    (gc.enable if noted else gc.disable)()


def _device() -> torch.device | None:
    chosen = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if chosen is None else chosen.device


def _flushes() -> bool:
    return not bool(torch.full((), 1e-40, device="cpu") * 1.0)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(noted: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(noted[0], warn_only=noted[1])


def _products() -> str | tuple[str, ...]:
    """How float32 is multiplied, by torch's newer settings if those are in use, where the older ones raise."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return products()


def _set_products(noted: str | tuple[str, ...]) -> None:
    if isinstance(noted, str):
        torch.set_float32_matmul_precision(noted)
    else:
        set_products(noted)


def _anomalies() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomalies(noted: tuple[bool, bool]) -> None:
    torch.set_anomaly_enabled(*noted)


def _reductions() -> list[tuple[bool, bool]]:
    return [getattr(torch._C, f"_get_{name}")() for name in _REDUCTIONS]


def _set_reductions(noted: list[tuple[bool, bool]]) -> None:
    for name, values in zip(_REDUCTIONS, noted, strict=True):
        getattr(torch._C, f"_set_{name}")(*values)


_REDUCTIONS = [f"cublas_allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")]
_SDP = ("math", "flash", "mem_efficient", "cudnn", "overrideable")
_GET_SET = (
    "mkldnn_enabled", "mkldnn_deterministic", "nnpack_enabled", "cudnn_enabled", "cudnn_benchmark",
    "cudnn_deterministic", "deterministic_fill_uninitialized_memory", "math_sdp_allow_fp16_bf16_reduction",
    "cpu_allow_fp16_reduced_precision_reduction", "cublas_allow_fp16_accumulation", "qengine", "torch_function_state",
    "linalg_preferred_backend", "blas_preferred_backend", "dtensor_allow_implicit_replication",
)  # fmt: skip
_NAMED = (
    *((f"_get_{name}", f"_set_{name}") for name in _GET_SET),
    *((f"_get_{name}_sdp_enabled", f"_set_sdp_use_{name}") for name in _SDP),
    ("_check_sparse_tensor_invariants", "_set_check_sparse_tensor_invariants"),
    ("is_autocast_cache_enabled", "set_autocast_cache_enabled"),
)
"""Settings of torch by the names of the functions that read and set them."""
FLAGS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_products, _set_products),
    (_deterministic, _set_deterministic),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    *((partial(torch.is_autocast_enabled, place), partial(torch.set_autocast_enabled, place)) for place in PLACES),
    *((partial(torch.get_autocast_dtype, place), partial(torch.set_autocast_dtype, place)) for place in PLACES),
    (_anomalies, _set_anomalies),
    (_reductions, _set_reductions),
    (_flushes, torch.set_flush_denormal),
    (_device, torch.set_default_device),
    (torch.is_warn_always_enabled, torch.set_warn_always),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (sys.getswitchinterval, sys.setswitchinterval),
    (sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    (gc.get_threshold, _set_thresholds),
    (gc.isenabled, _collect),
    (_folder, _enter),
    *((getattr(torch._C, get), getattr(torch._C, put)) for get, put in _NAMED if hasattr(torch._C, get)),
)
PASSING = (torch.is_grad_enabled, torch._C._get_torch_function_state)  # type: ignore[attr-defined]
