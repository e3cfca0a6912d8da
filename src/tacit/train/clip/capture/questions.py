"""Answers that user code gets about a per-record tensor in a form other than a tensor.

Inside a `Level` a tensor has the shape and dtype of one record, and code may ask for these. Strides are different: in
memory the tensor lies among all records, and its strides may be multiples of their number. Code that branches on such a
stride would treat all records according to how many there are. So strides are answered only where records lie one after
another, because strides within a record do not depend on their number then. For any other question that returns
something, the model runs one record at a time. The model also does so if its code gives a tensor other memory, or other
strides while records do not lie one after another.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from torch import Tensor

from .functions import name_of
from .level import Level

KINDS = frozenset((
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "__len__", "is_floating_point", "is_complex",
    "is_signed", "is_same_size", "is_inference", "is_conj", "is_neg", "get_device", "result_type", "type", "can_cast",
    "promote_types", "has_names", "__dir__",
))  # fmt: skip
"""Functions that return the shape or dtype of a tensor."""
ATTRIBUTES = frozenset((
    "shape", "ndim", "dtype", "device", "layout", "itemsize", "nbytes", "requires_grad", "retains_grad", "output_nr",
    "_version", "names", "name",
))  # fmt: skip
_ROWS = type(iter(()))
"""The type of the iterator that a loop over a tensor uses."""
LYING = frozenset(("stride", "is_contiguous", "dim_order", "storage_offset"))
STRIDED = frozenset(("as_strided", "as_strided_copy", "as_strided_scatter"))
"""Functions that read memory by strides: inside a level, torch applies them where all records are."""
MOVED = frozenset(("as_strided_", "resize_", "resize_as_", "set_", "addbmm_"))
"""Functions that give a tensor other memory: inside a level, they change that of all records and not a record's own.

`addbmm_` enlarges a tensor that is too small for its sum; torch's other in-place functions raise.
"""


def unanswered(func: object, result: object, tensors: Iterable[Tensor], level: Level) -> str:
    """The question about records whose answer may depend on how many there are, or a use of memory; empty if none."""
    if (name := _in_memory(func)) and (name in MOVED or not _one_by_one(tensors, level)):
        return f"{name} on a record, which would be applied to the memory of all records"
    if not _tells(result) or _of_a_kind(func):
        return ""
    name = name_of(func)
    if name in LYING and _one_by_one(tensors, level):
        return ""
    return f"{name} of a tensor, which may depend on how many records there are"


def _tells(result: object) -> bool:
    """Whether a result contains anything other than tensors."""
    if result is None or isinstance(result, Tensor | _ROWS):
        return False
    if isinstance(result, tuple | list):
        return any(map(_tells, result))
    return any(map(_tells, result.values())) if isinstance(result, dict) else True


@cache
def _of_a_kind(func: object) -> bool:
    name = name_of(func)
    if getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__"):
        return name in ATTRIBUTES or name.startswith("is_")
    return name in KINDS


@cache
def _in_memory(func: object) -> str:
    """The name of a function that uses a tensor's memory and not its entries; empty for any other."""
    name = name_of(func)
    return name if name in STRIDED or name in MOVED else ""


def _one_by_one(tensors: Iterable[Tensor], level: Level) -> bool:
    """Whether in all of these tensors records lie one after another."""
    return all(_behind_each_other(tensor, level) for tensor in tensors if level.owns(tensor))


def _behind_each_other(tensor: Tensor, level: Level) -> bool:
    """Whether no stride within a record is a multiple of the number of records."""
    if not level.direct(tensor):
        return False
    values, axis = level.under(tensor)
    lengths = [step * size for step, size in zip(values.stride(), values.shape, strict=True)]
    return level.batch == 1 or values.stride(axis) >= max(lengths[:axis] + lengths[axis + 1 :], default=0)
