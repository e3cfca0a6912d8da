"""Drop axes of length one from element-wise operations of a traced step.

Every record is run as a batch of one, so tensors of a traced step are (B, 1, ...). Products and convolutions run on
(B, ...). Between them a compiler would have to show channels-last images in five axes, which it does by copying.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from .nodes import all_written, put, storage, value

aten = torch.ops.aten
CASTS = (aten._to_copy.default,)


def without_ones(graph: Graph) -> None:
    """Run element-wise operations on (B, 1, ...) as operations on (B, ...), shown as before to whoever reads them."""
    written = all_written(graph)
    for node in list(graph.nodes):
        if not _elementwise(node) or not written.isdisjoint(storage([node, *node.all_input_nodes])):
            continue
        shape = list(value(node).shape)
        if len(shape) < 3 or shape[1] != 1 or shape[0] == 1:
            continue
        given = [_dropped(node, one, len(shape)) for one in node.args]
        found = put(node, node.target, *given, **node.kwargs)
        node.replace_all_uses_with(put(node, aten.reshape.default, found, shape))
        graph.erase_node(node)


def _elementwise(node: Node) -> bool:
    """Whether every entry of the result depends on the entries at its own place only, and nothing is mutated."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or not isinstance(value_of(node), Tensor):
        return False
    if any(isinstance(one, list | tuple) for one in node.args) or "memory_format" in node.kwargs:
        return False
    if any(isinstance(one, Node) for one in node.kwargs.values()) or node.target._schema.is_mutable:
        return False
    return node.target in CASTS or torch.Tag.pointwise in node.target.tags


def value_of(node: Node) -> object:
    return node.meta.get("val")


def _dropped(place: Node, given: object, axes: int) -> object:
    """An argument without the axis that corresponds to the result's second one."""
    if not isinstance(given, Node) or not isinstance(value_of(given), Tensor):
        return given
    shape = list(value(given).shape)
    axis = len(shape) - axes + 1
    if axis < 0:
        return given
    return put(place, aten.reshape.default, given, shape[:axis] + shape[axis + 1 :])
