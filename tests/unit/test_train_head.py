"""The gradient of a classifier's last layer is made by a kernel of ours only where it is what the kernel makes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx

from tacit.train.clip.compile import head
from tacit.train.clip.compile.views import casts_first

ROWS, COLUMNS = 5, 16


def traced(slope: Any = None) -> Graph:
    """Cross-entropy with its gradient, rewritten as far as on a GPU; `slope` may change the gradient's last lines."""

    def step(values: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        values = values.detach().requires_grad_()
        losses = F.cross_entropy(values, label, reduction="none")
        (found,) = torch.autograd.grad(losses.sum(), values)
        return losses.detach(), found

    trace = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)
    graph = trace(torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, dtype=torch.long)).graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])
    head.known_sums(graph)
    casts_first(graph)
    graph.eliminate_dead_code()
    if slope is not None:
        slope(graph)
    head.own_sums(graph)
    head.own_gradients(graph)
    return graph


def by_kernel(graph: Graph) -> bool:
    return bool(graph.find_nodes(op="call_function", target=torch.ops.tacit.softmax_gradient.default))


@pytest.fixture(autouse=True)
def _every_row_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "is_long", lambda values: values.ndim == 2)


def test_the_gradient_of_cross_entropy_is_made_by_the_kernel() -> None:
    assert by_kernel(traced())


def _other_comparison(graph: Graph) -> None:
    """Columns from the label on, in place of the label's own."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Tensor):
        node.target = torch.ops.aten.ge.Tensor


def _turned(graph: Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.eq.Tensor):
        node.args = node.args[::-1]


def _scaled(graph: Graph) -> None:
    """g_y - 2 p g in place of g_y - p g."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sub.Tensor):
        node.kwargs = {"alpha": 2}


@pytest.mark.parametrize("slope", [_other_comparison, _turned, _scaled])
def test_whatever_only_looks_like_it_is_left_as_it_is(slope: Any) -> None:
    assert not by_kernel(traced(slope))
