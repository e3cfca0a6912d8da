"""Helpers for the nodes of a traced step: insert an operation, and find the memory that operations write or return."""

from __future__ import annotations

import operator
from typing import Any

from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.fx.node import map_arg


def put(place: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Insert an operation before `place`, with its example value computed as for traced nodes."""
    with place.graph.inserting_before(place):
        found = place.graph.call_function(target, args, kwargs)
    found.meta["val"] = target(*map_arg(args, value), **kwargs)
    return found


def operand(node: Node, place: int = 0) -> Node:
    """The node that is this positional argument."""
    found = node.args[place]
    assert isinstance(found, Node)
    return found


def given(node: Node) -> tuple[Any, ...]:
    """All positional arguments of an operation: nodes, numbers, and lists of either."""
    return node.args


def value(node: Node) -> Any:
    """The example value that an operation had when it was traced."""
    return node.meta["val"]


def after(node: Node) -> Node:
    """The first node after `node` at which its value and all inputs of the graph are available."""
    following = node.next
    while following.op == "placeholder":
        following = following.next
    return following


def all_written(graph: Graph) -> set[int]:
    """The storages that operations of the graph mutate."""
    return {place for node in graph.nodes for target in _written(node) for place in storage(target)}


def _written(node: Node) -> list[Any]:
    """The arguments that an operation mutates; all of them if its schema does not say."""
    if node.op != "call_function" or node.target is operator.getitem:
        return []
    if not isinstance(node.target, OpOverload):
        return node.all_input_nodes
    arguments = node.target._schema.arguments
    given = [(one, node.kwargs.get(one.name)) for one in arguments if one.kwarg_only]
    given += zip(arguments, node.args, strict=False)
    return [value for one, value in given if one.alias_info is not None and one.alias_info.is_write]


def returned(graph: Graph) -> set[int]:
    """The storages that the graph returns."""
    return storage(graph.output_node().all_input_nodes)


def storage(found: object) -> set[int]:
    """The storages behind a node, a value or a list of them."""
    if isinstance(found, list | tuple):
        return set().union(*map(storage, found))
    if isinstance(found, Node):
        return storage(found.meta.get("val"))
    return {found.untyped_storage()._cdata} if isinstance(found, Tensor) else set()
