"""Code that the capture would not see: hooks on views of parameters, functions of others, and handlers."""

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from tacit.train.clip import Clipper
from tacit.train.clip.capture import nested
from tacit.train.clip.capture.watch import Capture
from tacit.train.clip.isolation import Surroundings
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
    """How far the first record moves the sum, in clip norms."""
    torch.manual_seed(0)
    model, x = nn.Linear(WIDTH, CLASSES), torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))
    x[0], y = 50.0, torch.arange(5) % CLASSES
    clipper = Clipper(model, loss, dict(model.named_parameters()), C)
    less, whole = (clipper((x[n:], y[n:]), torch.ones(5 - n, dtype=torch.bool)).sums["weight"] for n in (1, 0))
    return float((whole - less).norm()) / C


@pytest.mark.parametrize("way", LOSSES)
def test_one_record_moves_the_sum_by_at_most_the_clip_norm(way: str) -> None:
    assert moved(LOSSES[way]) < 1.02


def test_mutant_what_code_catches_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.train.clip.capture.watch.with_constants", lambda *_: None)
    monkeypatch.setattr(Capture, "check_caught", lambda self: None)
    assert moved(caught) > 1.02


def test_mutant_functions_of_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.train.clip.capture.watch.stranger", lambda func: "")
    monkeypatch.setattr("tacit.train.clip.capture.watch.gives_shape", lambda func: True)
    assert moved(LOSSES["handed over"]) > 1.02


class Negated(torch.autograd.Function):
    """Asks in its own code, forwards and backwards, whether the numbers of all records are small."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(torch._is_all_true(x.abs() < 30), x, -x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return torch.where(torch._is_all_true(ctx.saved_tensors[0].abs() < 30), gradient, -gradient)


def test_code_of_an_autograd_function_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(m: nn.Linear, b: Any) -> Tensor:
        return each(m(Negated.apply(b[0])), b[1])

    assert moved(loss) < 1.02
    monkeypatch.setattr(nested, "_seen", lambda capture, function, *given: function(*given))
    assert moved(loss) > 1.02


def read_in_a_thread(m: nn.Linear, b: Any) -> Tensor:
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(str(b[0])))
    thread.start()
    thread.join()
    return each(m(-b[0] if len(b[0]) == 1 and "50." in texts[0] else b[0]), b[1])


def test_the_text_of_all_records_is_given_in_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moved(read_in_a_thread) < 1.02
    monkeypatch.setattr(nested, "_no_text", torch._tensor_str._str)
    assert moved(read_in_a_thread) > 1.02


LIBRARY = torch.library.Library("tacit_unseen", "DEF")
LIBRARY.define("remember(Tensor x) -> Tensor")


def remembering() -> Any:
    """The kernel of an operator, which keeps large numbers in a list that nobody else holds."""
    kept: list[float] = []

    def kernel(x: Tensor) -> Tensor:
        found = x * (-1) ** len(kept)
        if float(x.sum()) > 30:
            kept.append(1.0)
        return found

    return kernel


LIBRARY.impl("remember", remembering(), "CompositeExplicitAutograd")


def remembered(m: nn.Linear, b: Any) -> Tensor:
    return each(m(torch.ops.tacit_unseen.remember(b[0]) if len(b[0]) == 1 else b[0]), b[1])


def test_operators_of_others_run_one_record_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moved(remembered) < 1.02
    monkeypatch.setattr("tacit.train.clip.capture.watch.stranger", lambda func: "")
    assert moved(remembered) > 1.02


def test_what_a_function_encloses_that_only_c_code_holds_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moved(remembered) < 1.02
    monkeypatch.setattr(Surroundings, "_unheld", lambda *_: [])
    assert moved(remembered) > 1.02


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
    """Code runs to its end whatever the values are, so what it puts back there is put back."""
    assert left_in(halfway) == (True, 0)
    assert left_in(finally_back) == (True, 0)


def test_mutant_what_an_operation_raises_reaches_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.train.clip.capture.watch.with_constants", lambda *_: None)
    together, depth = left_in(halfway)
    assert together
    assert depth > 0
