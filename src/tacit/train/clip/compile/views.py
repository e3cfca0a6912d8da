"""Views in a traced step, written such that a compiler writes what they are of once.

A compiler keeps an array that a product reads as it is, and makes a new one for every view that a product reads of
something not kept. And it does not see that a cast of a view is a view of the cast.
"""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from .nodes import after, all_written, given, operand, put, returned, storage, value

aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.addmm.default)
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default)


def is_view(node: Node) -> bool:
    """Whether it shows all numbers of its argument in the same order: any two of these in a row are a reshape."""
    if node.target is aten.transpose.int:
        shape = value(node).shape
        first, last = sorted(axis % len(shape) for axis in given(node)[1:])
        return sum(size != 1 for size in shape[first : last + 1]) <= 1
    return node.target in VIEWS


def no_copies(graph: Graph) -> None:
    """A copy that lies as what it is of does is that, where neither is written into or handed out."""
    own = all_written(graph) | returned(graph)
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        source = node.args[0]
        same = value(node).stride() == value(source).stride() and value(source).storage_offset() == 0
        if same and own.isdisjoint(storage([node, source])):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def casts_first(graph: Graph) -> None:
    """Views of views are views of what is there, and a cast of a view to fewer digits is a view of the cast."""
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
    """Where a product reads a view of an array, all other views of it are views of that one.

    If the array is a cast, what the product reads is the cast: a cast alone would not be kept.
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
    """`source`, in the shape of `node`, in its stead."""
    shape = list(value(node).shape)
    same = list(value(source).shape) == shape
    node.replace_all_uses_with(source if same else put(place, aten.reshape.default, source, shape))
    node.graph.erase_node(node)
