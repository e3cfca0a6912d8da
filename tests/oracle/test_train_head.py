"""Rewritten steps around a large vocabulary: the same gradients, in fewer passes; what is not understood stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from tacit.train.clip import Clipper, Compiled
from tacit.train.clip.compile import compiled, graph, head, nodes
from tacit.train.clip.rules import outer

aten = torch.ops.aten
SUMMED = aten._log_softmax_backward_data.default


def both(step: Callable[..., object], *given: Tensor) -> tuple[GraphModule, GraphModule]:
    """A step as it was traced, and as it is rewritten."""
    trace = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)
    before, after = trace(*given), graph.rewritten(trace(*given))
    after.graph.lint()
    return before, after


def count(traced: GraphModule, target: object) -> int:
    return sum(node.target is target for node in traced.graph.nodes)


def slope(kind: torch.dtype, *, mixed: bool, **how: object) -> Callable[..., Tensor]:
    """The gradient of cross-entropy by its logits; `mixed`: the loss in float32, as autocast has it on a GPU."""

    def step(logits: Tensor, label: Tensor, cotangent: Tensor) -> Tensor:
        logits = logits.to(kind).detach().requires_grad_()
        loss = F.nll_loss(F.log_softmax(logits, 1).to(torch.float32 if mixed else kind), label, **how)
        return torch.autograd.grad(loss, logits, cotangent.to(loss.dtype).expand_as(loss))[0]

    return step


def labelled(shape: tuple[int, ...], passed_over: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(len(shape))
    label = torch.randint(0, shape[1], (shape[0], *shape[2:]))
    return 3 * torch.randn(shape), label.masked_fill(torch.rand(label.shape) < 0.3, passed_over)


@pytest.mark.parametrize("shape", [(7, 13), (5, 13, 3), (4, 13, 3, 2)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kind", "mixed", "passed_over"),
    [(torch.float32, False, -100), (torch.bfloat16, False, 4), (torch.bfloat16, True, -100)],
)
def test_a_known_sum_is_not_made(  # torch turns one axis of positions into two, and that stays as it is
    shape: tuple[int, ...], reduction: str, weighted: bool, kind: torch.dtype, mixed: bool, passed_over: int
) -> None:
    logits, label = labelled(shape, passed_over)
    cotangent = torch.rand(label.shape if reduction == "none" else ()) + 0.5
    weight = torch.arange(1.0, 14.0, dtype=torch.float32 if mixed else kind) if weighted else None
    step = slope(kind, mixed=mixed, reduction=reduction, ignore_index=passed_over, weight=weight)
    before, after = both(step, logits, label, cotangent)
    assert (count(before, SUMMED), count(after, SUMMED)) == (1, 1 if len(shape) == 3 else 0)
    expected, found = step(logits, label, cotangent), after(logits, label, cotangent)
    assert found.dtype == expected.dtype
    room = 1e-6 if kind == torch.float32 else 2.0**-8
    torch.testing.assert_close(found, expected, rtol=room, atol=room * float(expected.abs().max()))
    assert not found.movedim(1, -1)[label == passed_over].any()


@pytest.mark.parametrize("how", ["smoothed", "shares", "softmax alone", "another axis"])
def test_other_losses_stay_as_they_are(how: str) -> None:
    logits, label = labelled((6, 5), -100)

    def step(logits: Tensor, label: Tensor) -> Tensor:
        logits = logits.detach().requires_grad_()
        if how == "smoothed":
            loss = F.cross_entropy(logits, label, label_smoothing=0.1, reduction="sum")
        elif how == "shares":
            loss = F.cross_entropy(logits, F.one_hot(label.clamp(min=0), 5) * 0.7, reduction="sum")
        elif how == "softmax alone":
            loss = (F.log_softmax(logits, 1) * logits.detach()).sum()
        else:
            loss = F.nll_loss(F.log_softmax(logits, 0), label, reduction="sum")
        return torch.autograd.grad(loss, logits)[0]

    _, after = both(step, logits, label)
    assert count(after, SUMMED) == 1
    torch.testing.assert_close(after(logits, label), step(logits, label), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("biased", [False, True])
def test_a_gradient_that_two_products_read_is_written_once(biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "MANY", 6 * 5)

    def step(x: Tensor, weight: Tensor, bias: Tensor, back: Tensor) -> tuple[Tensor, ...]:
        flat = x.view(6, 4)
        logits = torch.addmm(bias, flat, weight.t()) if biased else flat @ weight.t()
        gradient = logits.tanh().view(2, 3, 5)
        inputs = gradient.view(6, 5) @ weight
        longer = F.pad(gradient.unsqueeze(1), (0, 3)).view(2, 3, 8)
        return logits.clone(), inputs, longer @ longer.mT, gradient.sum(1), back + 1

    torch.manual_seed(0)
    given = torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5), torch.randn(())
    _, after = both(step, *given)
    pads = after.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    assert sorted(len(node.args[1]) for node in pads) == ([2, 2, 4] if biased else [2, 4])
    (gradient,) = (node for node in pads if tuple(node.meta["val"].shape) == (6, 8))
    assert sum(user.target is aten.mm.default for user in gradient.users) == 1
    for found, expected in zip(after(*given), step(*given), strict=True):
        torch.testing.assert_close(found, expected)
    monkeypatch.setattr(head, "MANY", 6 * 5 + 1)
    assert count(both(step, *given)[1], aten.constant_pad_nd.default) == 1


def test_what_is_written_into_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies of the same numbers, one changed in place; and two results that are equal, in memory of their own."""

    def step(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        turned = x.t().reshape(-1)
        changed = x.t().reshape(-1)
        changed.mul_(2.0)
        rows = x.double().view(2, 2, 3).view(4, 3)
        other, third = x.double().t().reshape(2, 6), x.double().t().reshape(2, 6)
        third.add_(1.0)
        longer = F.pad(x.view(2, 2, 3), (0, 1))
        longer.add_(1.0)
        mean, spread = torch.var_mean(x, 1)
        again = torch.var_mean(x, 1)[0]
        again.add_(5.0)
        late = x * 2
        part = late.t().reshape(12)
        late.add_(7.0)
        same = x + 1
        products = rows @ weight.double(), x @ weight, part.view(3, 4) + 0
        return turned, changed, *products, other, third, longer, mean + spread, again, late, same.clone(), same, x + 1

    monkeypatch.setattr(head, "MANY", 0)
    torch.manual_seed(0)
    given = torch.randn(4, 3), torch.randn(3, 2)
    _, after = both(step, *given)
    results = after(*given)
    for found, expected in zip(results, step(*given), strict=True):
        torch.testing.assert_close(found, expected)
    assert len({found.data_ptr() for found in results[-3:]}) == 3


@pytest.mark.parametrize("how", ["hook", "labels"])
def test_a_loss_is_followed_where_memory_changes_under_it(how: str) -> None:
    """Through a view, which no argument of a later operation shows."""
    logits, label = labelled((7, 13), -100)

    def step(logits: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        label = label.clone()
        logits = logits.detach().requires_grad_()
        output = F.log_softmax(logits, 1)

        def hook(gradient: Tensor) -> None:
            (gradient if how == "hook" else label).view(-1)[::2].mul_(3)

        output.register_hook(hook)
        loss = F.nll_loss(output, label, reduction="sum")
        return torch.autograd.grad(loss, logits)[0], label

    trace = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)
    after = graph.rewritten(trace(logits, label))
    assert count(after, SUMMED) == (1 if how == "hook" else 0)
    for found, expected in zip(after(logits, label), trace(logits, label)(logits, label), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("how", ["strides", "changed in place", "one bias", "another product"])
def test_a_taller_weight_is_seen_by_nobody_else(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are further apart must not show in what is read by strides or written through a view."""
    monkeypatch.setattr(head, "MANY", 0)

    def step(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        turned = weight.t()
        logits = torch.addmm(bias, x, turned) if how == "one bias" else x @ turned
        if how == "changed in place":
            logits.view(-1)[::2].mul_(3.0)
        gradient = logits.tanh()
        found = gradient @ weight, F.pad(gradient, (0, 3)).exp(), logits + 1
        if how == "strides":
            found += gradient.as_strided((3, 10), (10, 1)) + 1, logits.as_strided((3, 10), (10, 1)) + 1
        if how == "another product":
            found += (turned @ bias,)
        return found

    torch.manual_seed(0)
    other = torch.randn(5, 2) if how == "another product" else torch.randn(1)
    given = torch.randn(6, 4), torch.randn(5, 4), other
    _, after = both(step, *given)
    for found, expected in zip(after(*given), step(*given), strict=True):
        torch.testing.assert_close(found, expected)
    pads = count(after, aten.constant_pad_nd.default)
    assert pads == (1 if how == "strides" else 2)


def test_zeros_are_added_where_the_next_operation_adds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "MANY", 0)

    def step(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        longer = F.pad(x, (0, 2))
        return longer, F.pad(longer, (0, 1)), x.unsqueeze(0).expand(2, 6, 5) + 1, x @ weight

    given = torch.randn(6, 5), torch.randn(5, 4)
    _, after = both(step, *given)
    for found, expected in zip(after(*given), step(*given), strict=True):
        torch.testing.assert_close(found, expected)


def test_an_operation_that_does_not_say_what_it_writes_into_may_write_into_all() -> None:
    def unknown(values: Tensor) -> Tensor:
        return values.add_(1.0)

    empty = Graph()
    node = empty.placeholder("x")
    node.meta["val"] = torch.zeros(3)
    found = empty.call_function(unknown, (node,))
    assert nodes.all_written(empty) == nodes.storage(node)
    found.target = aten.add_.Tensor
    assert nodes.all_written(empty) == nodes.storage(node)
    found.target = aten.add.Tensor
    assert not nodes.all_written(empty)


def test_like_operations_are_done_once_and_draws_are_not() -> None:
    def step(x: Tensor, scratch: Tensor) -> tuple[Tensor, ...]:
        first = x.exp().view(2, 6).to(torch.bfloat16)
        scratch = scratch.clone()
        scratch.add_(1.0)
        second = x.exp().to(torch.bfloat16).unsqueeze(0).view(12)
        drawn = torch.rand_like(x) + torch.rand_like(x)
        return first.float().sum(), second.float().square().sum(), scratch.sum(), drawn.sum()

    given = torch.randn(4, 3), torch.randn(2)
    before, after = both(step, *given)
    assert (count(before, aten.exp.default), count(after, aten.exp.default)) == (2, 1)
    narrowed = [node for node in after.graph.nodes if node.kwargs.get("dtype") == torch.bfloat16]
    assert len(narrowed) == 1
    assert count(after, aten.rand_like.default) == 2
    assert graph.is_random(after)
    torch.manual_seed(3)
    found = after(*given)
    torch.manual_seed(3)
    for one, other in zip(found, step(*given), strict=True):
        torch.testing.assert_close(one, other)


class Words(nn.Module):
    """A small language model with a vocabulary that is no multiple of eight."""

    def __init__(self, biased: bool) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(29, 16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16)
        self.head = nn.Linear(16, 29, bias=biased)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(self.norm(x + self.down(F.gelu(self.up(self.norm(x))))))


def next_words(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    logits = model(batch[0])
    loss = F.cross_entropy(logits.flatten(0, 1), batch[1].flatten(), reduction="none")
    return loss.view(batch[1].shape).mean(1)


@pytest.mark.parametrize("biased", [False, True])
def test_a_whole_step_in_reduced_precision(biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made to believe in a GPU, so sides are aligned and kept in bfloat16: what a product reads is made once."""
    steps: list[GraphModule] = []

    def kept(traced: GraphModule) -> GraphModule:
        steps.append(graph.rewritten(traced))
        return steps[-1]

    monkeypatch.setattr(head, "MANY", 0)
    monkeypatch.setattr(outer, "narrow", lambda values: values.dtype == torch.bfloat16)
    monkeypatch.setattr(compiled, "rewritten", kept)
    monkeypatch.setattr(torch, "compile", lambda traced, **_: traced)
    torch.manual_seed(1)
    model = Words(biased)
    batch = torch.randint(0, 29, (6, 5)), torch.randint(0, 29, (6, 5)).masked_fill(torch.rand(6, 5) < 0.2, -100)
    clipper = Clipper(model, next_words, dict(model.named_parameters()), 0.3, "bfloat16")
    mask = torch.arange(6) != 2
    fast, slow = Compiled(clipper)(batch, mask), clipper(batch, mask)
    torch.testing.assert_close(fast.norms, slow.norms, rtol=2e-2, atol=1e-3)
    for name, total in slow.sums.items():
        assert float((fast.sums[name] - total).norm()) <= 2e-2 * float(total.norm()) + 1e-4, name
    (step,) = steps
    assert count(step, SUMMED) == 0
    pads = step.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    assert sum(tuple(node.meta["val"].shape) == (30, 32) for node in pads) == 1
    assert {tuple(node.meta["val"].shape) for node in pads} <= {(30, 32), (32, 16), (32,)}
    casts = [node for node in step.graph.nodes if node.target is aten._to_copy.default]
    narrowed = [node.args[0] for node in casts if node.kwargs["dtype"] == torch.bfloat16]
    assert len(narrowed) == len(set(narrowed))
