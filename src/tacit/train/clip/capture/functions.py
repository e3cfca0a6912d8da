"""Properties of torch functions other than their gradients: names, in-place writes, and how to open composites."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....core import BadInput

# Every element of the parameter appears at most once in the result, so norms are those of the parameter.
_ONE_TO_ONE = {
    "T", "mT", "t", "transpose", "permute", "view", "view_as", "reshape", "flatten", "unflatten", "squeeze",
    "unsqueeze", "contiguous", "narrow", "select", "movedim", "swapaxes", "swapdims", "chunk", "split", "unbind",
    "tensor_split", "to", "float", "double", "half", "bfloat16", "type", "type_as", "clone", "neg", "ravel",
}  # fmt: skip


_SAME = {
    "transformers::grouped_mm_fallback": F.grouped_mm, "aten::embedding": torch.embedding, "aten::max": torch.max,
    "aten::min": torch.min, "aten::select_scatter": torch.select_scatter,
}  # fmt: skip


def known(func: Any) -> Any:
    """The torch function that another function, or a library's operator of that name, is equivalent to."""
    if func is torch._grouped_mm:  # what a pass sees of F.grouped_mm
        return F.grouped_mm
    if isinstance(func, torch._ops.OpOverload):
        return _SAME.get(func._schema.name, func)
    return _SAME.get(func._qualified_op_name, func) if isinstance(func, torch._ops.OpOverloadPacket) else func


_FILTERED = (
    F.linear, torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose1d, torch.conv_transpose2d,
    torch.conv_transpose3d,
)  # fmt: skip
_ORDER: dict[object, tuple[str, ...]] = {
    **dict.fromkeys(_FILTERED, ("input", "weight", "bias")),
    **dict.fromkeys((F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, torch.max, torch.min), ("input",)),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), ("tensors", "dim")),
    **dict.fromkeys((F.bilinear, torch.bilinear), ("input1", "input2", "weight", "bias")),
    torch.matmul: ("input", "other"), torch.mm: ("input", "mat2"), Tensor.mm: ("self", "mat2"),
    torch.addmm: ("input", "mat1", "mat2"), Tensor.addmm: ("self", "mat1", "mat2"),
    torch.masked_fill: ("input", "mask", "value"), torch.embedding: ("weight", "indices"),
    torch.select_scatter: ("input", "src", "dim", "index"), Tensor.select_scatter: ("self", "src", "dim", "index"),
}  # fmt: skip
"""Names of the arguments that rules read by their place."""


def as_known(
    func: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A call by the function that it is equivalent to, with arguments by place where rules read them by place."""
    func = known(func)
    names = _ORDER.get(func, ()) if kwargs else ()
    if names and "self" in kwargs:  # as operators name it
        kwargs = {names[0] if key == "self" else key: value for key, value in kwargs.items()}
    if func is _FUSED and kwargs.get("options") is not None:  # parts of its own making, in which nobody can look on
        kwargs = {**kwargs, "options": None}
    for name in names[len(args) :]:
        if name not in kwargs:
            break
        args, kwargs = (*args, kwargs[name]), {key: value for key, value in kwargs.items() if key != name}
    return func, args, kwargs


_FUSED = getattr(F, "linear_cross_entropy", 0)
_CHECKED = ("aten", "prims", "prim", "tacit")


@cache
def own_vmap_rule(func: object) -> str:
    """The name of an operator from outside torch that defines its own `vmap` rule; empty for any other."""
    packet = func if isinstance(func, torch._ops.OpOverloadPacket) else getattr(func, "overloadpacket", None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ""
    name: str = packet._qualified_op_name
    if name.partition("::")[0] in _CHECKED:
        return ""
    found = any(
        torch._C._dispatch_has_kernel_for_dispatch_key(getattr(packet, one).name(), "FuncTorchBatched")
        for one in packet.overloads()
    )
    return name if found else ""


_COMPILED = ("torchvision::deform_conv2d",)
"""Operators of a library that keep records apart. Others of torchvision do not: those that pool regions read the image
that a box names, which need not be the record's own; and how many boxes `nms` keeps depends on their values.
"""


@cache
def stranger(func: object) -> str:
    """The name of a function from outside torch, whose body runs unobserved; empty for any other.

    A library's function passes itself to a mode by `handle_torch_function`. An operator with a Python kernel is called
    with one record after another, whose values it may read and keep.
    """
    if isinstance(func, types.FunctionType):
        return "" if str(func.__module__).partition(".")[0] in ("torch", "tacit") else func.__qualname__
    packet = func if isinstance(func, torch._ops.OpOverloadPacket) else getattr(func, "overloadpacket", None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ""
    name: str = packet._qualified_op_name
    return "" if name.partition("::")[0] in _CHECKED or name in _COMPILED else name


def name_of(func: object) -> str:
    """A readable name; attribute getters are called after their attribute, overloads of an operator after it."""
    func = func.overloadpacket if isinstance(func, torch._ops.OpOverload) else func
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return name


def one_to_one(func: object, args: tuple[object, ...]) -> bool:
    """Whether the result contains every element of the first argument at most once."""
    name = name_of(func)
    if name == "__getitem__":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        return all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in index)
    return name in _ONE_TO_ONE


@cache
def _writes(func: object) -> bool:
    name = name_of(func)
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def in_place(func: object, kwargs: dict[str, object]) -> bool:
    """Whether the call writes into its first argument."""
    return kwargs.get("inplace") is True or _writes(func)


@cache
def out_of_place(func: object) -> Callable[..., object] | None:
    """The out-of-place form of an arithmetic operation that writes into its first argument; None if there is none."""
    table: dict[Any, Callable[..., Any]] = {
        Tensor.add_: torch.add, Tensor.sub_: torch.sub, Tensor.mul_: torch.mul, Tensor.div_: torch.div,
        Tensor.__iadd__: torch.add, Tensor.__isub__: torch.sub, Tensor.__imul__: torch.mul,
    }  # fmt: skip
    return table.get(func)


@cache
def opened(func: object) -> Callable[..., Any] | None:
    """A copy of a Python composite of torch.nn.functional that runs its own body, so that the mode sees its parts.

    Such functions pass themselves to the active mode as a whole. The copy made here behaves as if no mode were active.
    """
    if not isinstance(func, types.FunctionType) or func.__module__ != F.__name__:
        return None
    never = {name: _never for name in func.__globals__ if name.startswith("has_torch_function")}
    copy = types.FunctionType(
        func.__code__, {**func.__globals__, **never}, func.__name__, func.__defaults__, func.__closure__
    )
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def _never(*_: object) -> bool:
    return False


_LOOKUPS: dict[object, int] = {F.embedding: 3, F.embedding_bag: 3}


def _given(args: tuple[object, ...], kwargs: dict[str, object], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def refuse(func: object, args: tuple[object, ...], kwargs: dict[str, object], private: bool) -> None:
    """Refuse operations whose meaning is lost when records are processed one at a time."""
    if func is torch.randperm and args and args[0] == 1:
        raise BadInput(
            "The records of a batch are shuffled (torch.randperm over the batch), as mixup and CutMix do; a mixed "
            "record is two people's, so neither can be clipped.",
            fix="Change every record on its own: tacit.train.Augment with flips, crops or noise.",
        )
    if func in _LOOKUPS and _given(args, kwargs, _LOOKUPS[func], "max_norm") is not None:
        raise BadInput(
            "An embedding with max_norm changes its rows by which of them are looked up, which would carry data past "
            "the noise.",
            fix="Leave max_norm off.",
        )
    if not private or (func is not F.batch_norm and func is not torch.batch_norm):
        return
    if _given(args, kwargs, 5, "training"):
        raise BadInput(
            "Batch normalisation mixes the examples of a batch, so no example's gradient can be clipped.",
            fix="Call tacit.train.replace_batch_norm(model), which puts group normalisation in its place, or "
            "tacit.train.freeze_batch_norm(model), which keeps the statistics the layers have.",
        )


_SHAPES = {
    "type_as", "to", "expand_as", "view_as", "reshape_as", "broadcast_tensors", "meshgrid",
}  # fmt: skip


@cache
def gives_shape(func: object) -> bool:
    """Whether a result that is equal for all records may be computed from records: it then depends on shapes or dtypes
    only.

    Some torch operations return more, such as whether all entries of all records are true (`torch._is_all_true`).
    """
    if getattr(func, "__name__", "") == "__get__":
        return True
    name = name_of(func)
    return name in _SHAPES or name.startswith("new_") or name.endswith("_like")


_STATIC = ("index", "one_hot")
"""Operations whose shapes depend on values in some calls only; inside a level those calls raise."""
_PACKED = ("_pack_padded_sequence", "_pad_packed_sequence")
"""Operations whose shapes depend on values, and of which torch's tags say nothing."""


def shaped_by_values(
    func: object, args: tuple[object, ...], kwargs: dict[str, object], own: Callable[..., bool]
) -> bool:
    """Whether the shape of the result depends on values of records, mostly according to torch's tags.

    Inside a level some of these operations succeed only if all records give the same shape. User code could see that,
    and the other records would decide it. `own` says which tensors are records'.
    """
    if name_of(func) != "repeat_interleave":
        return _shaped(func)
    repeats = _given(args, kwargs, 1, "repeats")
    how_often = args[0] if repeats is None else repeats
    return isinstance(how_often, Tensor) and own(how_often) and _given(args, kwargs, 3, "output_size") is None


@cache
def _shaped(func: object) -> bool:
    name = name_of(func)
    if name in _PACKED:
        return True
    name = name.strip("_")
    packet = getattr(torch.ops.aten, name, None) if name.isidentifier() else None
    if name in _STATIC or not isinstance(packet, torch._ops.OpOverloadPacket):
        return False
    return any(torch.Tag.dynamic_output_shape in getattr(packet, one).tags for one in packet.overloads())


FACTORIES = {
    torch.zeros, torch.ones, torch.full, torch.empty, torch.zeros_like, torch.ones_like, torch.full_like,
    torch.empty_like,
}  # fmt: skip
"""Functions that make a tensor that user code may write into."""


DROPOUTS = {F.dropout, torch.dropout, F.dropout1d, F.dropout2d, F.dropout3d, torch.feature_dropout}
"""Functions that multiply by random factors."""
_DRAWS = {torch.rand, torch.randn, torch.randint}


def public_coin(func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether a single random number is drawn that no record takes part in, such as the coin of LayerDrop.

    In a batch it is one number for all records, and code may branch on it: it reveals nothing about any of them.
    """
    sizes = (*args, kwargs.get("size"))
    return func in _DRAWS and any(isinstance(size, tuple | list) and len(size) == 0 for size in sizes)
