"""Places in which a ninth reader kept a value for the next record: objects of C code, and what torch has in force."""

from __future__ import annotations

import gc
import struct
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

Store = Callable[[nn.Module, float], object]
Load = Callable[[nn.Module], float]
LOCK, TAKEN, AGAIN, PACKED = threading.Lock(), threading.Lock(), threading.RLock(), struct.Struct("<i")
TAKEN.acquire()
FIELDS, CHILDREN = np.dtype([("a", "f4"), ("b", "f4")]), np.random.default_rng(5)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of kinds of tensors that torch calls new
    SPARSE = torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2))
    ROWS = torch.eye(2).to_sparse_csr()
    NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[], object]]] = {
    "the NaN check of autograd": (
        torch.is_anomaly_check_nan_enabled,
        lambda: torch.set_anomaly_enabled(torch.is_anomaly_enabled(), not torch.is_anomaly_check_nan_enabled()),
    ),
    "deterministic mkldnn": (torch._C._get_mkldnn_deterministic, lambda: torch._C._set_mkldnn_deterministic(True)),
    "filled memory": (
        torch._C._get_deterministic_fill_uninitialized_memory,
        lambda: torch._C._set_deterministic_fill_uninitialized_memory(False),
    ),
    "nnpack": (torch._C._get_nnpack_enabled, lambda: torch._C._set_nnpack_enabled(False)),
    "reductions in half precision": (
        torch._C._get_cublas_allow_fp16_reduced_precision_reduction,
        lambda: torch._C._set_cublas_allow_fp16_reduced_precision_reduction(False),
    ),
    "the cache of autocast": (torch.is_autocast_cache_enabled, lambda: torch.set_autocast_cache_enabled(False)),
    "a forbidden hook": (
        lambda: torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        lambda: torch._C._autograd._saved_tensors_hooks_disable("no"),
    ),
    "a level of forward derivatives": (lambda: forward_ad._current_level, forward_ad.enter_dual_level),
    "a number of threads": (torch.get_num_threads, lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
    "thresholds of garbage collection": (gc.get_threshold, lambda: gc.set_threshold(999, 10, 10)),
    "how often threads take turns": (sys.getswitchinterval, lambda: sys.setswitchinterval(0.25)),
}


class Functions(TorchFunctionMode):
    """A mode that does nothing but be there."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    """A mode that does nothing but be there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def changed(get: Callable[[], Any], put: Callable[[], object]) -> tuple[Store, Load]:
    """Kept as whether something is what it was when this was made."""
    usual = get()
    return (lambda m, v: put()), (lambda m: 0.0 if get() == usual else 9.0)


def counted(stack: Callable[[], int], enter: Callable[[], object]) -> tuple[Store, Load]:
    return (lambda m, v: enter()), (lambda m: float(stack()))


def pushed() -> None:
    torch._C._autograd._push_saved_tensors_default_hooks(lambda x: x, lambda x: x)


def values_of(tensor: Tensor) -> Tensor:
    return tensor._values() if tensor.layout == torch.sparse_coo else tensor.values()


def written(tensor: Tensor) -> tuple[Store, Load]:
    usual = values_of(tensor).detach().clone()
    return (lambda m, v: values_of(tensor).detach().fill_(v)), (
        lambda m: float((values_of(tensor).detach() - usual).abs().max())
    )


def seventh_ways() -> dict[str, tuple[Store, Load]]:
    """Locks, structs, dtypes, children of generators, sparse tensors, operators, modes, hooks and settings."""
    in_force = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
    return {
        "a lock": (lambda m, v: LOCK.acquire(False), lambda m: 9.0 * LOCK.locked()),
        "a lock that was taken": (
            lambda m, v: TAKEN.locked() and TAKEN.release(), lambda m: 9.0 * (not TAKEN.locked())),
        "a lock that counts": (lambda m, v: AGAIN.acquire(), lambda m: 9.0 * AGAIN._is_owned()),
        "a struct": (lambda m, v: struct.Struct.__init__(PACKED, "<ii"), lambda m: PACKED.size - 4.0),
        "names of a dtype": (
            lambda m, v: setattr(FIELDS, "names", ("a", "c")), lambda m: 9.0 * (FIELDS.names != ("a", "b"))),
        "children of a generator": (
            lambda m, v: CHILDREN.spawn(1), lambda m: float(CHILDREN.bit_generator.seed_seq.n_children_spawned)),
        "values of a sparse tensor": written(SPARSE),
        "values of rows": written(ROWS),
        "parts of a sparse tensor": (
            lambda m, v: SPARSE.copy_(torch.sparse_coo_tensor([[0, 1], [0, 0]], [1.0, v], (2, 2))),
            lambda m: float(SPARSE._nnz() - 1)),
        "gradient of a sparse tensor": (
            lambda m, v: setattr(SPARSE, "grad", SPARSE.detach()), lambda m: 9.0 * (SPARSE.grad is not None)),
        "a nested tensor": written(NESTED),
        "attribute of an operator": (
            lambda m, v: setattr(torch.ops.aten.add.Tensor, "kept", v),
            lambda m: float(vars(torch.ops.aten.add.Tensor).get("kept", 0.0))),
        "a function mode": counted(in_force[0], lambda: Functions().__enter__()),
        "a dispatch mode": counted(in_force[1], lambda: Operations().__enter__()),
        "hooks on saved tensors": changed(lambda: torch._C._autograd._top_saved_tensors_default_hooks(True), pushed),
    } | {name: changed(*pair) for name, pair in SETTINGS.items()}  # fmt: skip
