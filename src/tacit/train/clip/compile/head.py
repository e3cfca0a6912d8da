"""The last layer and the loss of a classifier with very many classes, in a traced step.

The logits of a language model and their gradient are its largest arrays by far. So these passes read each of them as
rarely as possible, and write the gradient once, padded to the row length that matrix units want.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from .nodes import after, all_written, given, operand, put, storage, value
from .views import PRODUCTS, is_view

aten = torch.ops.aten
LOSSES = (aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
NONE, MEAN = 0, 1
LONG, MANY = 2**13, 2**24


def known_sums(graph: Graph) -> None:
    r"""Compute the gradient of a log-softmax without a sum over all classes, where only the label's class has a
    gradient.

    d_k = g_k - p_k \sum_j g_j, and g is zero except at the label y, so the sum is g_y; zero for an ignored row.
    """
    written = all_written(graph)
    for node in graph.find_nodes(op="call_function", target=aten._log_softmax_backward_data.default):
        gradient, output, axis, kind = node.args
        loss = gradient.args[0] if gradient.target is aten._to_copy.default else gradient
        classes = value(output).shape
        if loss.target not in LOSSES or len(classes) < 2 or axis % len(classes) != 1:
            continue
        if not written.isdisjoint(storage([loss, gradient])):
            continue
        whole = torch.promote_types(value(output).dtype, torch.float32)
        label, total = _labels(loss)
        total, output = (put(node, aten._to_copy.default, part, dtype=whole) for part in (total, output))
        every = put(node, aten.arange.default, classes[1], device=value(output).device)
        every = put(node, aten.reshape.default, every, [-1] + [1] * (len(classes) - 2))
        found = put(node, aten.where.ScalarOther, put(node, aten.eq.Tensor, every, label), total, 0.0)
        share = put(node, aten.mul.Tensor, put(node, aten.exp.default, output), total)
        _replace(node, put(node, aten._to_copy.default, put(node, aten.sub.Tensor, found, share), dtype=kind))


def _labels(loss: Node) -> tuple[Node, Node]:
    """The labels, and the gradient of the loss at each label's entry; zero for rows that the loss ignores.

    Both are computed where the loss gets its arguments, since labels may be mutated later.
    """
    gradient, _, label, weight, reduction, passed_over, weights = loss.args
    label = put(loss, aten._to_copy.default, label, dtype=torch.int64)
    there = put(loss, aten.ne.Scalar, label, passed_over)
    found = put(loss, aten.neg.default, gradient)
    if weight is not None:
        own = put(loss, aten.where.ScalarOther, there, label, 0)
        found = put(loss, aten.mul.Tensor, found, put(loss, aten.index.Tensor, weight, [own]))
    if reduction == MEAN:
        found = put(loss, aten.div.Tensor, found, weights)
    found = put(loss, aten.where.ScalarOther, there, found, 0.0)
    return put(loss, aten.unsqueeze.default, label, 1), put(loss, aten.unsqueeze.default, found, 1)


def own_sums(graph: Graph) -> None:
    """Replace the log-softmax of long rows, and the loss that reads it, by our own kernel."""
    written = all_written(graph)
    for node in graph.find_nodes(op="call_function", target=aten._log_softmax.default):
        values, axis, _ = node.args
        casts = [user for user in node.users if user.target is aten._to_copy.default]
        readers = [user for output in (node, *casts) for user in output.users]
        losses = [user for user in readers if _reads_one(user) and user.args[1] < node]
        losses = [loss for loss in losses if written.isdisjoint(storage([*loss.args[:2], node]))]
        if not is_long(value(values)) or axis % 2 != 1 or not losses:
            continue
        sums = put(node, torch.ops.tacit.log_sum_exp.default, values, losses[0].args[1])
        largest, rest, own = (put(node, aten.slice.Tensor, sums, 1, column, column + 1) for column in range(3))
        lost = put(node, aten.add.Tensor, put(node, aten.sub.Tensor, largest, own), rest)
        lost = put(node, aten.squeeze.dim, lost, 1)
        _lost(losses[0], put(node, aten._to_copy.default, lost, dtype=value(node).dtype))
        found = put(node, aten.sub.Tensor, put(node, aten._to_copy.default, values, dtype=torch.float32), largest)
        found = put(node, aten.sub.Tensor, found, rest)
        _replace(node, put(node, aten._to_copy.default, found, dtype=value(node).dtype))


def own_gradients(graph: Graph) -> None:
    """Replace the gradient of long rows, in the form that `known_sums` gave it, by our own kernel with padded rows."""
    for exponential in graph.find_nodes(op="call_function", target=aten.exp.default):
        if (found := _spelt_out(exponential)) is None:
            continue
        last, sums, label, total = found
        rows = [operand(sums), sums, *(put(last, aten.reshape.default, one, [-1]) for one in (label, total))]
        columns, kind = value(last).shape[1], value(last).dtype
        pads = [
            node
            for node in graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
            if _source(operand(node)) is last and _zeros(node)
        ]
        width = columns + max(map(_zeros, pads), default=0)
        longer = put(last, torch.ops.tacit.softmax_gradient.default, *rows, width, kind)
        for pad in pads:
            if _zeros(pad) == width - columns:
                _replace(pad, put(pad, aten.reshape.default, longer, list(value(pad).shape)))
        _replace(last, put(last, aten.slice.Tensor, longer, 1, 0, columns) if pads else longer)


def _spelt_out(exponential: Node) -> tuple[Node, Node, Node, Node] | None:
    """Match the gradient of a log-softmax: its last node, the row sums, the labels, and each row's loss gradient."""
    beyond = _uncast(operand(exponential))
    shifted = operand(beyond) if beyond.target is aten.sub.Tensor else beyond
    if beyond.target is not aten.sub.Tensor or shifted.target is not aten.sub.Tensor:
        return None
    taken = [one.args[1] for one in (shifted, beyond)]
    parts = [part for part in taken if isinstance(part, Node) and part.target is aten.slice.Tensor]
    if len(parts) < len(taken):
        return None
    sums = operand(parts[0])
    if sums.target is not torch.ops.tacit.log_sum_exp.default or operand(parts[1]) is not sums:
        return None
    if [part.args[2] for part in parts] != [0, 1] or _uncast(operand(shifted)) is not _uncast(operand(sums)):
        return None
    share = _only_user(exponential, aten.mul.Tensor)
    slope = None if share is None else _only_user(share, aten.sub.Tensor)
    if share is None or slope is None or share.args[0] is not exponential or slope.args[1] is not share:
        return None
    chosen = operand(slope)
    if chosen.target is not aten.where.ScalarOther or chosen.args[2] != 0 or chosen.args[1] is not share.args[1]:
        return None
    total = operand(share, 1)
    if any(node.kwargs for node in (beyond, shifted, slope)) or not _at_labels(operand(chosen), total):
        return None
    return _only_user(slope, aten._to_copy.default) or slope, sums, operand(operand(chosen), 1), total


def _at_labels(chosen: Node, total: Node) -> bool:
    """Whether `chosen` selects in each row the column of its label; `total` has one number per row."""
    if chosen.target is not aten.eq.Tensor:
        return False
    every, label, shape = operand(chosen), operand(chosen, 1), tuple(value(chosen).shape)
    while is_view(every):
        every = operand(every)
    one = len(shape) == 2 and tuple(value(label).shape) == tuple(value(total).shape) == (shape[0], 1)
    return one and every.target is aten.arange.default and every.args == shape[1:]


def _only_user(node: Node, target: OpOverload) -> Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].target is target else None


def _uncast(node: Node) -> Node:
    """The node that was cast."""
    while node.target is aten._to_copy.default:
        node = operand(node)
    return node


def _reads_one(loss: Node) -> bool:
    """Whether this is the loss of every row at one label each, and nothing else is read from it."""
    if loss.target is not aten.nll_loss_forward.default or loss.args[3] != NONE:
        return False
    return value(operand(loss, 1)).dtype == torch.int64 and all(user.args[1] == 0 for user in loss.users)


def _lost(loss: Node, found: Node) -> None:
    r"""Replace the loss by \log \sum_k e^{x_k} - x_y."""
    logarithm, label, weight, _, passed_over = given(loss)
    there = put(loss, aten.ne.Scalar, label, passed_over)
    found = put(loss, aten._to_copy.default, found, dtype=value(logarithm).dtype)
    if weight is not None:
        own = put(loss, aten.where.ScalarOther, there, label, 0)
        found = put(loss, aten.mul.Tensor, found, put(loss, aten.index.Tensor, weight, [own]))
    found = put(loss, aten.where.ScalarOther, there, found, 0.0)
    for user in list(loss.users):
        _replace(user, found)
    loss.graph.erase_node(loss)


def is_long(values: Tensor) -> bool:
    """Whether these are rows so long that reading them dominates on a GPU, in float32 or less."""
    return values.is_cuda and values.ndim == 2 and values.shape[1] >= LONG and values.dtype.itemsize <= 4


@torch.library.custom_op("tacit::log_sum_exp", mutates_args=())
def log_sum_exp(values: Tensor, label: Tensor) -> Tensor:
    """(N, 3): of every row the largest number, the logarithm beyond it, and the label's number (`head_kernels`)."""
    from . import head_kernels

    return head_kernels.log_sum_exp(values, label)


@log_sum_exp.register_fake
def _(values: Tensor, label: Tensor) -> Tensor:
    return values.new_empty(len(values), 3, dtype=torch.float32)


@torch.library.custom_op("tacit::softmax_gradient", mutates_args=())
def softmax_gradient(
    values: Tensor, sums: Tensor, label: Tensor, total: Tensor, width: int, kind: torch.dtype
) -> Tensor:
    """(N, width); see `head_kernels`."""
    from . import head_kernels

    return head_kernels.softmax_gradient(values, sums, label, total, width, kind)


@softmax_gradient.register_fake
def _(values: Tensor, sums: Tensor, label: Tensor, total: Tensor, width: int, kind: torch.dtype) -> Tensor:
    return values.new_empty(len(values), width, dtype=kind)


def written_once(graph: Graph) -> None:
    """Where an array enters one product as it is and another one zero-padded, write only the padded array, if it is
    large.

    The zeros are multiplied with zeros that pad the other factor, usually a bfloat16 copy of a weight. The forward
    product with that weight is padded in the same way, and its output is a slice of a wider one.
    """
    written = all_written(graph)
    for pad in graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default):
        whole, missing = _source(pad.args[0]), _zeros(pad)
        products = [
            node
            for node in graph.find_nodes(op="call_function", target=aten.mm.default)
            if _source(node.args[0]) is whole and written.isdisjoint(storage([*node.args, whole, pad]))
        ]
        if missing and products and value(whole).numel() >= MANY:
            _with_zeros(whole, pad, products, missing)


def _with_zeros(whole: Node, pad: Node, products: list[Node], missing: int) -> None:
    """Use the padded array in `pad` and in all `products`, and a slice of it wherever else `whole` is used."""
    shape, place = list(value(whole).shape), after(whole)
    rows = put(place, aten.reshape.default, whole, [-1, shape[-1]])
    longer = put(place, aten.constant_pad_nd.default, rows, [0, missing], 0.0)
    padded = put(place, aten.reshape.default, longer, list(value(pad).shape))
    part = put(place, aten.slice.Tensor, longer, 1, 0, shape[-1])
    part = put(place, aten.reshape.default, part, shape)
    for node in products:
        weight = operand(node, 1)
        taller = put(after(weight), aten.constant_pad_nd.default, weight, [0, 0, 0, missing], 0.0)
        node.args = (longer, taller)
        _forward(weight, taller, missing)
    _replace(pad, padded)
    whole.replace_all_uses_with(part, lambda user: user is not rows)


def _forward(weight: Node, taller: Node, missing: int) -> None:
    """Compute x W^T as a slice of the product with the padded weight."""
    turned, written = put(after(taller), aten.t.default, taller), all_written(weight.graph)
    turns = [user for user in weight.users if user.target is aten.t.default]
    for node in dict.fromkeys(user for turn in turns for user in turn.users):
        if node.target not in PRODUCTS or node.args[-1] not in turns or node.kwargs:
            continue
        narrower = any(value(one).shape[-1:] != value(node).shape[1:] for one in given(node)[:-2])
        if narrower or not written.isdisjoint(storage(node)):
            continue
        bias = [put(node, aten.constant_pad_nd.default, one, [0, missing], 0.0) for one in node.args[:-2]]
        found = put(node, node.target, *bias, node.args[-2], turned)
        _replace(node, put(node, aten.slice.Tensor, found, 1, 0, value(node).shape[1]))


def _source(node: Node) -> Node:
    """Follow views that keep the last axis back to the array whose rows they show."""
    while is_view(node) and value(operand(node)).shape[-1:] == value(node).shape[-1:]:
        node = operand(node)
    return node


def _zeros(pad: Node) -> int:
    """How many zeros are appended to the last axis; 0 if the padding does anything else."""
    _, sides, *rest = given(pad)
    filled = rest[0] if rest else 0
    return sides[1] if len(sides) == 2 and sides[0] == 0 and sides[1] > 0 and filled == 0 else 0


def _replace(node: Node, found: Node) -> None:
    node.replace_all_uses_with(found)
    node.graph.erase_node(node)
