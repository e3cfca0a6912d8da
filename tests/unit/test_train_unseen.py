"""Code that the capture would not see: hooks on views of parameters, functions of others, and handlers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from tacit.train.clip import Clipper
from tacit.train.clip.capture.watch import Capture
from train_mixing import CLASSES, WIDTH, each

pytestmark = pytest.mark.filterwarnings("ignore")
C = 0.1


def hooked(m: nn.Linear, b: Any) -> Tensor:
    weight = m.weight.t()
    if weight.requires_grad:
        weight.register_hook(lambda gradient: gradient * 1000)
    return each(b[0] @ weight, b[1])


def written(m: nn.Linear, b: Any) -> Tensor:
    weight = m.weight.clone()
    weight.mul_(1000)
    return each(b[0] @ weight.t() / 1000, b[1])


def negated_if_large(x: Tensor) -> Tensor:
    if has_torch_function((x,)):
        return handle_torch_function(negated_if_large, (x,), x)  # type: ignore[no-any-return]
    return torch.where(torch._is_all_true(x.abs() < 30), x, -x)


def caught(m: nn.Linear, b: Any) -> Tensor:
    try:
        torch.linalg.cholesky((1000 - b[0].square().sum(-1))[:, None, None])
    except RuntimeError:
        return each(m(-b[0]), b[1])
    return each(m(b[0]), b[1])


def halfway(m: nn.Linear, b: Any) -> Tensor:
    """Something that is set for one operation, and put back behind it."""
    m.depth += 1
    root = torch.linalg.cholesky((1000 - b[0].square().sum(-1))[:, None, None])
    m.depth -= 1
    return each(m(b[0]), b[1]) + 0 * root[:, 0, 0]


def finally_back(m: nn.Linear, b: Any) -> Tensor:
    m.depth += 1
    try:
        root = torch.linalg.cholesky((1000 - b[0].square().sum(-1))[:, None, None])
    finally:
        m.depth -= 1
    return each(m(b[0]), b[1]) + 0 * root[:, 0, 0]


LOSSES = {
    "hook": hooked, "written": written, "handed over": lambda m, b: each(m(negated_if_large(b[0])), b[1]),
    "caught": caught,
}  # fmt: skip


def moved(loss: Any) -> float:
    torch.manual_seed(0)
    model, x = nn.Linear(WIDTH, CLASSES), torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))
    x[4], y = 50.0, torch.arange(5) % CLASSES
    clipper = Clipper(model, loss, dict(model.named_parameters()), C)
    whole, less = (clipper((x[:n], y[:n]), torch.ones(n, dtype=torch.bool)).sums["weight"] for n in (5, 4))
    return float((whole - less).norm()) / C


@pytest.mark.parametrize("way", LOSSES)
def test_one_record_moves_the_sum_by_at_most_the_clip_norm(way: str) -> None:
    assert moved(LOSSES[way]) < 1.02


def test_mutant_what_code_catches_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capture, "check_caught", lambda self: None)
    assert moved(caught) > 1.02


def test_mutant_functions_of_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.train.clip.capture.watch.stranger", lambda func: "")
    monkeypatch.setattr("tacit.train.clip.capture.watch.gives_shape", lambda func: True)
    assert moved(LOSSES["handed over"]) > 1.02


def left_in(loss: Any) -> tuple[bool, int]:
    """Whether all records run at once, and what a batch leaves that has a record at which torch raises."""
    torch.manual_seed(0)
    model, x = nn.Linear(WIDTH, CLASSES), torch.randn(5, WIDTH)
    model.depth = 0  # type: ignore[assignment]
    x[4], batch = 50.0, (x, torch.arange(5) % CLASSES)
    clipper = Clipper(model, loss, dict(model.named_parameters()), C)
    clipper(batch, torch.ones(5, dtype=torch.bool))
    return clipper.structure(batch).together, int(model.depth)  # type: ignore[arg-type]


def test_a_pass_that_a_value_stops_leaves_nothing_behind() -> None:
    """Code that puts its state back even then keeps running with all records at once."""
    assert left_in(halfway) == (False, 0)
    assert left_in(finally_back) == (True, 0)


def test_mutant_no_operation_is_made_to_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.train.clip.capture.probe.stays_halfway", lambda *_: False)
    together, depth = left_in(halfway)
    assert together
    assert depth > 0
