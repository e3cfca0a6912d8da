"""Rewrite the views of a traced step so that the compiler writes each array only once.

The compiler keeps an array that a matrix product reads directly. For a view of an array that is not kept, it writes a
new array for every product that reads the view. It also does not recognise that casting a view equals viewing the cast.
"""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from .nodes import after, all_written, given, operand, put, returned, storage, value

aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.addmm.default)
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default)


def is_view(node: Node) -> bool:
    """Whether a node shows all entries of its argument in the same order: two of them in a row are one reshape."""
    if node.target is aten.transpose.int:
        shape = value(node).shape
        first, last = sorted(axis % len(shape) for axis in given(node)[1:])
        return sum(size != 1 for size in shape[first : last + 1]) <= 1
    return node.target in VIEWS


def no_copies(graph: Graph) -> None:
    """Remove a clone whose strides equal its source's, unless either tensor is mutated or returned."""
    own = all_written(graph) | returned(graph)
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        source = node.args[0]
        same = value(node).stride() == value(source).stride() and value(source).storage_offset() == 0
        if same and own.isdisjoint(storage([node, source])):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def casts_first(graph: Graph) -> None:
    """Collapse chains of views, and move a down-cast before the view that it reads."""
    written = all_written(graph)
    for node in list(graph.nodes):
        cast = _is_cast(node) and is_view(node.args[0]) and _shorter(node)
        if not (cast or is_view(node)):
            continue
        source = node.args[0].args[0] if is_view(node.args[0]) else node.args[0]
        if not written.isdisjoint(storage([node, source])):
            continue
        if cast:
            source = put(node, aten._to_copy.default, source, **node.kwargs)
        _show(node, source, node)


def one_view(graph: Graph) -> None:
    """Where a product reads a view of an array, derive all other views of the array from that view.

    If the array is a cast, the product is made to read the cast itself, since the compiler would not keep a cast
    otherwise.
    """
    written = all_written(graph)
    for product in [node for node in graph.nodes if node.target in PRODUCTS]:
        rows = product.args[-2]
        if not is_view(rows) or not written.isdisjoint(storage(rows.args[0])):
            continue
        source, shape = rows.args[0], list(value(rows).shape)
        views = [user for user in source.users if is_view(user)]
        place, cast = after(source), _is_cast(source)
        read = put(place, aten.reshape.default, source.args[0] if cast else source, shape)
        if cast:
            read = put(place, aten._to_copy.default, read, **source.kwargs)
            views.append(source)
        for view in views:
            _show(view, read, after(read))


def _is_cast(node: Node) -> bool:
    return node.target is aten._to_copy.default and "memory_format" not in node.kwargs


def _shorter(cast: Node) -> bool:
    return value(cast).dtype.itemsize < value(operand(cast)).dtype.itemsize


def _show(node: Node, source: Node, place: Node) -> None:
    """Replace `node` by `source`, reshaped to the shape of `node`."""
    shape = list(value(node).shape)
    same = list(value(source).shape) == shape
    node.replace_all_uses_with(source if same else put(place, aten.reshape.default, source, shape))
    node.graph.erase_node(node)
