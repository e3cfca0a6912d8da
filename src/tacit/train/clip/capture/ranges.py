"""Make index operations total: no index in a record may stop a step (soundness rule 8).

An index out of range raises on a CPU and ends the process on a GPU, for all records at once. Here it is clamped before
the operation runs, and the record that held it is marked, so that it contributes nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._C import _functorch as C
from torch.nn.modules.utils import _ntuple
from torch.overrides import TorchFunctionMode
from torch.sparse import check_sparse_tensor_invariants

from ....core import BadInput
from .domains import MENDS, Mend, exchanged
from .domains import given as _given
from .level import Level
from .unwritten import called

Range = tuple[int, str, int, int, int | None]
Place = Callable[[tuple[Any, ...], dict[str, Any]], Range | list[Range] | None]
"""Where an operation has its index (position and name), the index's least and largest value, and one more allowed."""
PLACES: dict[object, Place] = {}
REGIONS = "regions"
"""Stands for the operators of torchvision that pool regions: the first number of each names the image it is in."""


def bounded(
    func: object, args: tuple[object, ...], kwargs: dict[str, object], level: Level
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor | None]:
    """The arguments with per-record indices clamped into range, and a mask (B,) of the records that were not."""
    function = _function(func)
    if function in MENDS:
        return MENDS[function](args, kwargs, level)
    _check_looks(func, args, kwargs, level)
    place = PLACES.get(function)
    found = (place(args, _named(kwargs)) if place is not None else None) or []
    outside = None
    for one in found if isinstance(found, list) else [found]:
        args, kwargs, off = _put_inside(one, args, kwargs, level)
        outside = off if outside is None else outside if off is None else outside | off
    return args, kwargs, outside


@cache
def _function(func: object) -> object:
    """The function that an operator of `torch.ops.aten` is called behind; any other function itself.

    Some operators never ask whether an index is in range: inside a level, the next record's numbers lie behind it.
    """
    if not isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return func
    named = func._schema.name if isinstance(func, torch._ops.OpOverload) else func._qualified_op_name
    space, _, name = named.partition("::")
    if space == "torchvision" and "roi_" in name:
        return REGIONS
    name = name.strip("_").removesuffix("_forward")
    name = _CALLED.get(name, name)
    written = f"{name}_" if named.endswith("_") else name
    places = (torch, F, Tensor) if space == "aten" else ()
    known = PLACES.keys() | MENDS.keys()
    return next((found for one in places if (found := getattr(one, written, None)) in known), func)


_CALLED = {"cross_entropy_loss": "cross_entropy"}
_CALLED |= dict.fromkeys(("index", "unsafe_index", "unsafe_index_put", "index_put_impl"), "index_put")


def _check_looks(func: object, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> None:
    """Refuse operators that read or write memory where whole numbers of records say, and do not look at these.

    They are those of torch's derivatives, which autograd calls with numbers that it made itself, and what its caller
    calls unsafe.
    """
    operator = isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket)
    unsafe = kwargs.get("unsafe") is True or (operator and "backward" in str(func))
    if unsafe and any(_is_index(one) and level.owns(one) for one in (*args, *kwargs.values())):
        raise BadInput(
            f"{getattr(func, '__name__', func)} reads memory where numbers of a record say, and does not look whether "
            "that is inside its tensors.",
            fix="Call the function whose derivative it is, and leave unsafe=True out.",
        )


def _named(kwargs: dict[str, object]) -> dict[str, object]:
    """Named as functions name their arguments, where an operator is called by the names of its own."""
    return {"input": kwargs["self"], **kwargs} if "self" in kwargs else kwargs


def _put_inside(
    range_: Range, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level
) -> tuple[tuple[object, ...], dict[str, object], Tensor | None]:
    position, name, low, high, allowed = range_
    index = args[position] if position < len(args) else kwargs.get(name)
    if index is None or not _is_index(index) or not level.owns(index):
        return args, kwargs, None
    inside, outside = _moved(index, low, high, level, allowed)
    if position < len(args):
        return (*args[:position], inside, *args[position + 1 :]), kwargs, outside
    return args, {**kwargs, name: inside}, outside


class _Looking(TorchFunctionMode):
    """A mode in which torch looks at the indices of sparse tensors that it makes, also where it is asked not to."""

    def __enter__(self) -> _Looking:
        self.before = check_sparse_tensor_invariants.is_enabled()
        check_sparse_tensor_invariants.enable()
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if not self.before:
            check_sparse_tensor_invariants.disable()

    def looked(self, kwargs: Any) -> dict[str, Any]:
        """Arguments by name, without the wish not to be looked at."""
        return {**kwargs, "check_invariants": True} if "check_invariants" in (kwargs or {}) else kwargs or {}


class InRange(_Looking):
    """A mode for made-up records outside a level: clamps their integers into the range of what they index."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        args, kwargs, _ = bounded(func, args, self.looked(kwargs), _EVERY)
        return called(func, args, kwargs)


class Inside(_Looking):
    """A mode for a single record: an index out of range raises before the operation runs.

    Some operations do not check and read arbitrary memory (`ctc_loss`); on a GPU the process would end.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        kwargs = self.looked(kwargs)
        outside = bounded(func, args, kwargs, ONE_RECORD)[2]
        if outside is not None and _any(outside):
            raise IndexError("An index is out of range.")
        return called(func, args, kwargs)


def _any(outside: Tensor) -> bool:
    """Whether any entry is true, read below the `torch.func` levels that user code has entered."""
    with torch._C._DisableFuncTorch():
        while C.is_functorch_wrapped_tensor(outside):
            outside = C.get_unwrapped(outside)
        return bool(outside.any())


class _Every(Level):
    """Stands in for a level where there is none: all indices are checked."""

    def owns(self, tensor: Tensor) -> bool:
        return True

    def direct(self, tensor: Tensor) -> bool:
        return False


class _One(_Every):
    """Stands in for a level where there is a single record."""

    def direct(self, tensor: Tensor) -> bool:
        return True

    def all(self, tensor: Tensor) -> Tensor:
        return tensor


_EVERY = _Every(1)
ONE_RECORD = _One(1)
"""The level for code that sees one record, by itself or inside the user's own `vmap`."""


def _is_index(index: object) -> bool:
    return isinstance(index, Tensor) and not index.is_floating_point() and index.dtype != torch.bool


def _moved(index: Tensor, low: int, high: int, level: Level, allowed: int | None = None) -> tuple[Tensor, Tensor]:
    """Indices clamped to `low` .. `high`, or equal to `allowed`, and a mask (B,) of the records that changed."""
    inside = index.clamp(low, high)
    if allowed is not None:
        inside = torch.where(index == allowed, index, inside)
    return inside, level.marked(inside != index)


def _subscript(
    args: tuple[Any, ...], kwargs: dict[str, Any], level: Level
) -> tuple[tuple[object, ...], dict[str, object], Tensor | None]:
    """x[i, ...], whose indices count from either end."""
    tensor, given = args[0], args[1]
    items = list(given) if isinstance(given, tuple) else [given]
    if not any(_is_index(item) and level.owns(item) for item in items):
        return args, kwargs, None
    taken = sum(_axes(item) for item in items)
    axis, outside = 0, None
    for place, item in enumerate(items):
        if item is Ellipsis:
            axis += tensor.ndim - taken
            continue
        if _is_index(item) and level.owns(item):
            size = tensor.shape[axis]
            items[place], off = _moved(item, -size, size - 1, level)
            outside = off if outside is None else outside | off
        axis += _axes(item)
    new = tuple(items) if isinstance(given, tuple) else items[0]
    return (tensor, new, *args[2:]), kwargs, outside


def _listed(
    args: tuple[Any, ...], kwargs: dict[str, Any], level: Level
) -> tuple[tuple[object, ...], dict[str, object], Tensor | None]:
    """index_put: a subscript as a list, in which None stands for a whole axis."""
    tensor, items = _given(args, _named(kwargs), 0, "input"), _given(args, kwargs, 1, "indices")
    if not isinstance(tensor, Tensor) or not isinstance(items, tuple | list):
        return args, kwargs, None
    whole = tuple(slice(None) if item is None else item for item in items)
    found, _, outside = _subscript((tensor, whole), {}, level)
    if outside is None:
        return args, kwargs, None
    inside: Any = found[1]
    new = type(items)(None if isinstance(item, slice) else item for item in inside)
    return *exchanged(args, kwargs, 1, "indices", new), outside


def _regions(
    args: tuple[Any, ...], kwargs: dict[str, Any], level: Level
) -> tuple[tuple[object, ...], dict[str, object], Tensor | None]:
    """Images and regions (n, 5): the image of a region is one of the record's own."""
    images, rois = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "rois")
    inside = rois[:, :1].nan_to_num(nan=-1.0).clamp(0, len(images) - 1)
    off, rois = inside != rois[:, :1], torch.cat((inside, rois[:, 1:]), 1)
    rest = {name: value for name, value in kwargs.items() if name not in ("input", "rois")}
    outside = level.marked(off)
    return (images, rois, *args[2:]), rest, outside


def _bags(rows: Place) -> Mend:
    """embedding_bag: indices are rows of the table. Offsets begin at 0, never fall and end among the indices.

    On a GPU torch looks at none of this but whether offsets fall, which ends the process.
    """

    def mend(args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> Any:
        range_: Any = rows(args, kwargs := _named(kwargs))
        args, kwargs, outside = (args, kwargs, None) if range_ is None else _put_inside(range_, args, kwargs, level)
        offsets, indices = _given(args, kwargs, 2, "offsets"), _given(args, kwargs, *range_[:2]) if range_ else None
        if not isinstance(offsets, Tensor) or offsets.ndim != 1 or not level.owns(offsets) or indices is None:
            return args, kwargs, outside
        proper = (offsets[:1] == 0).all() & (offsets.diff() >= 0).all() & (offsets[-1:] <= indices.numel()).all()
        off = level.marked(~proper)
        changed = exchanged(args, kwargs, 2, "offsets", torch.where(proper, offsets, 0))
        return *changed, off if outside is None else outside | off

    return mend


def _axes(item: object) -> int:
    """How many axes of the tensor one item of a subscript consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype == torch.bool else 1


def _rows_of(table: int, name: str) -> Place:
    def place(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        weight = _given(args, kwargs, table, name)
        return (0, "input", 0, weight.shape[0] - 1, None) if isinstance(weight, Tensor) else None

    return place


def _classes(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Labels of cross-entropy and of the negative log-likelihood."""
    logits = _given(args, kwargs, 0, "input")
    if not isinstance(logits, Tensor) or not logits.ndim:
        return None
    classes = logits.shape[1] if logits.ndim > 1 else logits.shape[0]
    return 1, "target", 0, classes - 1, _given(args, kwargs, 4, "ignore_index", -100)


def _classes_of_head(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Labels of a linear layer and cross-entropy in one."""
    weight, ignored = _given(args, kwargs, 1, "linear_weight"), kwargs.get("ignore_index")
    if not isinstance(weight, Tensor) or not weight.ndim:
        return None
    return 2, "target", 0, weight.shape[0] - 1, -100 if ignored is None else ignored


def _margin(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Labels of the multi-class margin."""
    values = _given(args, kwargs, 0, "input")
    return (1, "target", 0, values.shape[-1] - 1, None) if isinstance(values, Tensor) and values.ndim else None


def _margins(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Labels of the multi-label margin; -1 ends a list of them."""
    values = _given(args, kwargs, 0, "input")
    return (1, "target", -1, values.shape[-1] - 1, None) if isinstance(values, Tensor) and values.ndim else None


def _along(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """gather, scatter, index_select: (tensor, dim, index, ...)."""
    tensor, dim = _given(args, kwargs, 0, "input"), _given(args, kwargs, 1, "dim")
    if not isinstance(tensor, Tensor) or not isinstance(dim, int):
        return None
    return 2, "index", 0, (tensor.shape[dim] if tensor.ndim else 1) - 1, None


def _taken_along(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    tensor, dim = _given(args, kwargs, 0, "input"), _given(args, kwargs, 2, "dim")
    if not isinstance(tensor, Tensor):
        return None
    size = tensor.numel() if dim is None else tensor.shape[dim]
    return 1, "indices", -size if dim is not None else 0, size - 1, None


def _taken(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    tensor = _given(args, kwargs, 0, "input")
    return (1, "index", -tensor.numel(), tensor.numel() - 1, None) if isinstance(tensor, Tensor) else None


def _unpooled(axes: int) -> Place:
    """max_unpool: where every number is put, as a place in one channel of the result."""

    def place(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        values, kernel = _given(args, kwargs, 0, "input"), _given(args, kwargs, 2, "kernel_size")
        stride, padding = _given(args, kwargs, 3, "stride"), _given(args, kwargs, 4, "padding", 0)
        sides = (_ntuple(axes)(one) for one in (kernel, kernel if stride is None else stride, padding))
        plain = [
            (length - 1) * step + wide - 2 * pad
            for length, wide, step, pad in zip(values.shape[-axes:], *sides, strict=True)
        ]
        shape = _given(args, kwargs, 5, "output_size")
        return 1, "indices", 0, math.prod(plain if shape is None else shape[-axes:]) - 1, None

    return place


def _one_hot(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    classes = _given(args, kwargs, 1, "num_classes", -1)
    return (0, "tensor", 0, classes - 1, None) if classes > 0 else None


def _ctc(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Labels and lengths of connectionist temporal classification, which torch does not check on a CPU."""
    values, labels = _given(args, kwargs, 0, "log_probs"), _given(args, kwargs, 1, "targets")
    if not isinstance(values, Tensor) or not isinstance(labels, Tensor) or not labels.ndim:
        return None
    lengths = (2, "input_lengths", 0, values.shape[0], None), (3, "target_lengths", 0, labels.shape[-1], None)
    return [(1, "targets", 0, values.shape[-1] - 1, None), *lengths]


def _segments(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Where segments begin and end, at which torch does not look, and their lengths, of which it sees the sum only."""
    values, axis = _given(args, kwargs, 0, "data"), kwargs.get("axis", 0)
    if not isinstance(values, Tensor) or not isinstance(axis, int) or not values.ndim:
        return None
    nowhere = sys.maxsize  # both are given by name
    return [(nowhere, name, 0, values.shape[axis], None) for name in ("offsets", "lengths")]


PLACES[torch.segment_reduce] = _segments
PLACES |= dict.fromkeys((F.ctc_loss, torch.ctc_loss, torch._ctc_loss), _ctc)
PLACES[F.embedding] = _rows_of(1, "weight")
PLACES[torch.embedding] = lambda args, kwargs: (1, "indices", 0, _given(args, kwargs, 0, "weight").shape[0] - 1, None)
PLACES[F.cross_entropy] = _classes
PLACES[F.nll_loss] = _classes
if hasattr(F, "linear_cross_entropy"):
    PLACES[F.linear_cross_entropy] = _classes_of_head
PLACES[F.multi_margin_loss] = _margin
PLACES[F.multilabel_margin_loss] = _margins
PLACES[F.one_hot] = _one_hot
_ALONG: tuple[object, ...] = (
    torch.gather, Tensor.gather, torch.index_select, Tensor.index_select, torch.scatter, Tensor.scatter,
    Tensor.scatter_, torch.scatter_add, Tensor.scatter_add, Tensor.scatter_add_, torch.scatter_reduce,
    Tensor.scatter_reduce, Tensor.scatter_reduce_, torch.index_add, Tensor.index_add, Tensor.index_add_,
    torch.index_fill, Tensor.index_fill, Tensor.index_fill_, torch.index_copy, Tensor.index_copy, Tensor.index_copy_,
    torch.index_reduce, Tensor.index_reduce, Tensor.index_reduce_,
)  # fmt: skip
PLACES |= dict.fromkeys(_ALONG, _along)
PLACES |= {torch.take_along_dim: _taken_along, Tensor.take_along_dim: _taken_along}
PLACES |= dict.fromkeys((torch.take, Tensor.take, torch.put, Tensor.put, Tensor.put_), _taken)
PLACES |= {F.max_unpool1d: _unpooled(1), F.max_unpool2d: _unpooled(2), F.max_unpool3d: _unpooled(3)}
MENDS[F.embedding_bag] = _bags(_rows_of(1, "weight"))
MENDS |= dict.fromkeys((torch.embedding_bag, torch._embedding_bag), _bags(PLACES[torch.embedding]))
MENDS |= {REGIONS: _regions, Tensor.__getitem__: _subscript, Tensor.__setitem__: _subscript}
MENDS |= dict.fromkeys((torch.index_put, torch.index_put_, Tensor.index_put, Tensor.index_put_), _listed)
