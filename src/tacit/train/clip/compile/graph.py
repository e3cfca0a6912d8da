"""Rewrite a traced step so that a GPU runs it fast; the result stays the same up to rounding.

Convolutions are fastest in channels-last layout. So images are converted to it at the start, operations keep the layout
of their inputs, and group normalisation is rewritten so that it keeps the layout too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from ..arrays import ALIGNED
from .head import known_sums, own_gradients, own_sums, written_once
from .inner import norms_together
from .nodes import all_written, given, operand, returned, storage, value
from .ones import without_ones
from .views import casts_first, no_copies, one_view

aten = torch.ops.aten
FEW = 4
STRIDED = (
    aten.as_strided.default, aten.as_strided_.default, aten.as_strided_copy.default, aten.as_strided_scatter.default,
    aten._reshape_alias.default, aten._reshape_alias_copy.default,
)  # fmt: skip


def rewritten(traced: GraphModule) -> GraphModule:
    """Rewrite a traced step for a compiler: nothing computed twice, free layouts of views, channels-last images."""
    for node in traced.graph.find_nodes(op="call_function", target=aten.detach.default):
        node.replace_all_uses_with(node.args[0])
    for node in traced.graph.find_nodes(op="call_function", target=aten.t.default):
        if node.args[0].target is aten.t.default:
            node.replace_all_uses_with(node.args[0].args[0])
    free_layout(traced)
    traced.graph.eliminate_dead_code()
    last = bool(_images(traced)) and _strides_can_move(traced)
    if last or not _strided(traced):
        _elsewhere(traced.graph)
    else:
        _nothing_twice(traced.graph)
    if last:
        for node in _images(traced):
            _as_product(traced, node)
        _channels_last(traced)
    traced.recompile()
    return traced


def _elsewhere(graph: Graph) -> None:
    """Apply the passes that change where values lie in memory: recorded strides must be gone, or read from a copy."""
    no_copies(graph)
    without_ones(graph)
    known_sums(graph)
    written_once(graph)
    casts_first(graph)
    graph.eliminate_dead_code()
    own_sums(graph)
    own_gradients(graph)
    _nothing_twice(graph)
    one_view(graph)
    norms_together(graph)


def _nothing_twice(graph: Graph) -> None:
    """Compute equal operations on equal arguments once, except where their memory is mutated or returned."""
    own = all_written(graph) | returned(graph)
    done: dict[Any, Node] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node.is_impure():  # which draws of random numbers are
            continue
        if own.isdisjoint(storage([node, *node.all_input_nodes])):
            first = done.setdefault((node.target, repr(node.args), repr(node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)
    graph.eliminate_dead_code()


def is_random(traced: GraphModule) -> bool:
    """Whether the step draws random numbers, for dropout say."""
    return any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in traced.graph.nodes)


def free_layout(traced: GraphModule) -> None:
    """Let the compiler choose memory layouts: turn every view into a reshape, which copies where it must."""
    for target in (aten.view.default, aten._unsafe_view.default):
        for node in traced.graph.find_nodes(op="call_function", target=target):
            node.target = aten.reshape.default
    traced.recompile()


def _images(traced: GraphModule) -> list[Node]:
    """The nodes that convolve images."""
    return [node for node in traced.graph.nodes if node.target is aten.convolution.default and _is_image(node)]


def _is_image(node: Node) -> bool:
    image = node.meta.get("val")
    return isinstance(image, Tensor) and image.is_cuda and image.ndim == 4 and image.is_floating_point()


def _strided(traced: GraphModule) -> list[Node]:
    """The operations that read memory by strides recorded in the trace."""
    return [node for node in traced.graph.nodes if node.target in STRIDED]


def _strides_can_move(traced: GraphModule) -> bool:
    """Whether all recorded strides refer to contiguous memory that is never mutated, so that a copy can replace it."""
    noted, written = _strided(traced), all_written(traced.graph)
    return all(
        node.target is aten.as_strided.default
        and value(operand(node)).is_contiguous()
        and written.isdisjoint(storage(node))
        for node in noted
    )


def _channels_last(traced: GraphModule) -> None:
    """Convert input images to channels-last, and back to contiguous before an operation with recorded strides."""
    graph = traced.graph
    for node in graph.find_nodes(op="call_function", target=aten.as_strided.default):
        with graph.inserting_before(node):
            copy = graph.call_function(aten.clone.default, node.args[:1], {"memory_format": torch.contiguous_format})
        node.replace_input_with(node.args[0], copy)
    *_, last = inputs = graph.find_nodes(op="placeholder")
    for node in filter(_is_image, inputs):
        with graph.inserting_after(last):
            copy = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.channels_last})
        node.replace_all_uses_with(copy, lambda user, copy=copy: user is not copy)


def _as_product(traced: GraphModule, node: Node) -> None:
    """Turn a convolution of images with very few channels, at which libraries are slow, into a product with patches."""
    image, weight, bias, stride, padding, dilation, transposed, _, groups = given(node)
    rows, channels, *kernel = weight.meta["val"].shape
    length = weight.meta["val"][0].numel()
    if transposed or groups != 1 or channels >= FEW or length % ALIGNED:
        return
    count, _, tall, broad = node.meta["val"].shape

    def call(target: Any, *args: Any) -> Node:
        return traced.graph.call_function(target, args)

    with traced.graph.inserting_before(node):
        patches = call(
            aten.permute.default, call(aten.im2col.default, image, kernel, dilation, padding, stride), [0, 2, 1]
        )
        flat = call(aten.reshape.default, patches, [count * tall * broad, length])
        columns = call(aten.permute.default, call(aten.reshape.default, weight, [rows, length]), [1, 0])
        found = call(aten.mm.default, flat, columns)
        if bias is not None:
            found = call(aten.add.Tensor, found, bias)
        found = call(aten.permute.default, call(aten.reshape.default, found, [count, tall, broad, rows]), [0, 3, 1, 2])
    node.replace_all_uses_with(found)
    traced.graph.erase_node(node)


def group_norm(
    values: Tensor, weight: Tensor | None, bias: Tensor | None, _n: int, _c: int, _size: int, groups: int, eps: float
) -> Any:
    """Group normalisation that returns the memory layout of its input."""
    if values.ndim != 4:
        return NotImplemented
    spread, mean = torch.var_mean(values.unflatten(1, (groups, -1)), (2, 3, 4), correction=0)
    scale = torch.rsqrt(spread + eps)
    found = _normal(values, mean, scale)
    if weight is not None:
        found = found * weight[:, None, None]
    if bias is not None:
        found = found + bias[:, None, None]
    return found, mean, scale


def group_norm_backward(
    gradient: Tensor, values: Tensor, mean: Tensor, scale: Tensor, weight: Tensor | None, rows: int, channels: int,
    size: int, groups: int, wanted: list[bool],
) -> Any:  # fmt: skip
    """The backward pass of `group_norm`, with the sums that per-example gradients of weight and bias need."""
    if values.ndim != 4:
        return NotImplemented
    normal = _normal(values, mean, scale)
    along, plain = (gradient * normal).sum((2, 3)), gradient.sum((2, 3))
    inner = gradient if weight is None else gradient * weight[:, None, None]
    parts = (side if weight is None else side * weight for side in (plain, along))
    shift, turn = (part.unflatten(1, (groups, -1)).sum(2) * (groups / (channels * size)) for part in parts)
    found = _wide(scale, channels) * (inner - _wide(shift, channels) - normal * _wide(turn, channels))
    return found, along.sum(0) if wanted[1] else None, plain.sum(0) if wanted[2] else None


def _normal(values: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    return (values - _wide(mean, values.shape[1])) * _wide(scale, values.shape[1])


def _wide(by_group: Tensor, channels: int) -> Tensor:
    """(N, groups) -> (N, C, 1, 1)."""
    many = channels // by_group.shape[1]
    return by_group[:, :, None].expand(-1, -1, many).flatten(1)[:, :, None, None]


DECOMPOSED: dict[OpOverload, Callable[..., Any]] = {
    aten.native_group_norm.default: group_norm,
    aten.native_group_norm_backward.default: group_norm_backward,
}
