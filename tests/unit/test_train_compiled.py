"""The compiled step is the eager step, or it is refused."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Speed, private
from tacit.train.clip import Clipped, Clipper, Compiled
from tacit.train.clip.compile.agreement import agree
from train_zoo import CLASSES, ZOO, Use, classify, furthest, naive, trainable

DATA = torch.randn(64, 5, generator=torch.Generator().manual_seed(0)), torch.arange(64) % CLASSES


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def traced(name: str) -> tuple[Compiled, object, tuple]:
    torch.manual_seed(1)
    case = ZOO[name]
    model, batch = case.make(), case.batch(4)
    return Compiled(Clipper(model, case.loss, trainable(model), 0.5)), case, batch


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bare parameters", "tied layer"])
def test_compiled_norms_and_sums_equal_the_loop(name: str) -> None:
    compiled, case, batch = traced(name)
    found = compiled(batch, torch.ones(4, dtype=torch.bool))
    assert len(compiled.graphs) == 1
    sums, norms = naive(compiled.clipper.model, case.loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5


@pytest.mark.parametrize(
    "name",
    ["in place", "unused layer", "single numbers", "convolutions", "more convolutions", "weight standardisation",
     "merged low rank", "cross attention", "recurrent cells", "flattened, examples fastest", "tied words",
     "expanded ids"],
)  # fmt: skip
def test_models_can_be_traced(name: str, monkeypatch) -> None:
    """The traced graph, run without the compiler behind it, is what gets compiled."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    compiled, case, batch = traced(name)
    mask = torch.tensor([True, True, False, True])
    found = compiled(batch, mask)
    sums, _ = naive(compiled.clipper.model, case.loss, tuple(part[mask] for part in batch), 0.5)
    assert furthest(found.sums, sums) < 1e-5


def test_a_compiler_that_loses_the_norms_is_refused(monkeypatch) -> None:
    def broken(graph, **_):
        def run(*args):
            sums, norms, *rest = graph(*args)
            return sums, torch.zeros_like(norms), *rest

        return run

    monkeypatch.setattr(torch, "compile", broken)
    compiled, _, batch = traced("mlp")
    with pytest.raises(BadInput, match="does not clip as the eager one"):
        compiled(batch, torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize("lost", [False, True])
def test_models_that_draw_numbers_of_their_own_are_compared_too(lost: bool, monkeypatch) -> None:
    """Compiled and eager draw the same ones; a dropout within an LSTM is such a case."""

    def compiler(graph, **_):
        def run(*args):
            sums, norms, *rest = graph(*args)
            return sums, norms * (0.5 if lost else 1.0), *rest

        return run

    monkeypatch.setattr(torch, "compile", compiler)
    batch = torch.randn(4, 3, 5), torch.arange(4) % CLASSES

    def run(m, x):
        return m.b(m.r(x + torch.randn_like(x))[0].mean(1) * torch.bernoulli(torch.full((len(x), 1), 0.8)))

    model = Use(run, r=nn.LSTM(5, 6, 2, dropout=0.5, batch_first=True), b=nn.Linear(6, CLASSES))
    compiled = Compiled(Clipper(model, classify, trainable(model), 0.5))
    if lost:
        with pytest.raises(BadInput, match="does not clip as the eager one"):
            compiled(batch, torch.ones(4, dtype=torch.bool))
    else:
        assert compiled(batch, torch.ones(4, dtype=torch.bool)).norms.isfinite().all()


def test_lost_norms_do_not_hide_behind_a_large_sum(monkeypatch) -> None:
    """Short gradients, all alike: nothing needs clipping here, and the sum is many times as long as each."""

    def broken(graph, **_):
        def run(*args):
            sums, norms, *rest = graph(*args)
            return sums, torch.zeros_like(norms), *rest

        return run

    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return x + self.bias

    monkeypatch.setattr(torch, "compile", broken)
    model = Shift()
    compiled = Compiled(Clipper(model, lambda net, x: 0.01 * net(x), trainable(model), 0.5))
    with pytest.raises(BadInput, match="does not clip as the eager one"):
        compiled(torch.zeros(2048), torch.ones(2048, dtype=torch.bool))


def seen(norms, *sums) -> Clipped:
    named = {str(place): torch.tensor(total) for place, total in enumerate(sums)}
    return Clipped(named, torch.tensor(norms), torch.zeros(len(norms)), torch.zeros(len(norms), dtype=torch.bool))


RIGHT = seen([1.0] * 200, [3.0, 4.0], [0.3, 0.4])


@pytest.mark.parametrize(
    "other",
    [
        RIGHT,
        seen([1.04] * 200, [3.0, 4.0], [0.3, 0.4]),
        seen([1.0] * 198 + [1.3, 0.7], [3.0, 4.0], [0.3, 0.4]),
        seen([1.0] * 200, [4.0, 4.5], [0.3, 0.6]),
    ],
    ids=["same", "all a little", "two by much", "sums"],
)
def test_reduced_precision_may_differ_by_rounding(other: Clipped) -> None:
    assert agree(other, RIGHT, rough=True)
    assert agree(other, RIGHT, rough=False) is (other is RIGHT)


@pytest.mark.parametrize(
    "other",
    [
        seen([0.0] * 200, [3.0, 4.0], [0.3, 0.4]),
        seen([1.06] * 200, [3.0, 4.0], [0.3, 0.4]),
        seen([1.0] * 199 + [0.5], [3.0, 4.0], [0.3, 0.4]),
        seen([1.0] * 199 + [float("nan")], [3.0, 4.0], [0.3, 0.4]),
        seen([1.0] * 200, [6.0, 8.0], [0.6, 0.8]),
        seen([1.0] * 200, [0.0, 0.0], [0.3, 0.4]),
        seen([1.0] * 200, [3.0, 4.0], [0.3, float("nan")]),
        seen([1.0] * 200, [3.0, 4.0], [-0.3, -0.4]),
    ],
    ids=["lost", "all", "one by half", "not a number", "not clipped", "lost sum", "sum not a number", "turned round"],
)
def test_reduced_precision_may_not_differ_by_more(other: Clipped) -> None:
    assert not agree(other, RIGHT, rough=True)


def test_memory_that_is_written_into_is_nobody_elses(monkeypatch) -> None:
    """Two tensors of zeros are one only as long as they stay zeros."""

    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, CLASSES)

        def forward(self, x):
            first, second, third = (torch.zeros(len(x), CLASSES) for _ in range(3))
            first += self.layer(x)
            second += torch.tanh(self.layer(-x))
            return first * second + third

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    model = States()
    batch = tuple(part[:4] for part in DATA)
    found = Compiled(Clipper(model, classify, trainable(model), 0.5))(batch, torch.ones(4, dtype=torch.bool))
    assert furthest(found.sums, naive(model, classify, batch, 0.5)[0]) < 1e-5


def test_a_compiler_that_forgets_to_clip_is_refused(monkeypatch) -> None:
    def broken(graph, **_):
        def run(*args):
            sums, *rest = graph(*args)
            return [2 * part for part in sums], *rest

        return run

    monkeypatch.setattr(torch, "compile", broken)
    compiled, _, batch = traced("mlp")
    with pytest.raises(BadInput, match="does not clip as the eager one"):
        compiled(batch, torch.ones(4, dtype=torch.bool))


def test_a_compiler_that_never_clips_is_refused_where_nothing_needs_it(monkeypatch) -> None:
    """All made-up gradients are shorter than the clip norm; they are compared under one that shortens them."""

    def broken(graph, **_):
        return lambda trained, public, batch, mask, clip_norm: graph(trained, public, batch, mask, 1e6 * clip_norm)

    monkeypatch.setattr(torch, "compile", broken)
    compiled, _, batch = traced("mlp")
    compiled.clipper.clip_norm = 1e4
    with pytest.raises(BadInput, match="does not clip as the eager one"):
        compiled(batch, torch.ones(4, dtype=torch.bool))
    assert compiled.clipper.clip_norm == 1e4


def test_a_compiler_that_clips_a_little_late_is_refused_in_reduced_precision(monkeypatch) -> None:
    """By a fifth, which rounding may move a sum by; a single example must keep to what the noise has room for."""

    def broken(graph, **_):
        return lambda trained, public, batch, mask, clip_norm: graph(trained, public, batch, mask, 1.2 * clip_norm)

    monkeypatch.setattr(torch, "compile", broken)
    torch.manual_seed(1)
    case = ZOO["mlp"]
    model, batch = case.make(), case.batch(4)
    compiled = Compiled(Clipper(model, case.loss, trainable(model), 0.5, "bfloat16"))
    with pytest.raises(BadInput, match="does not clip as the eager one"):
        compiled(batch, torch.ones(4, dtype=torch.bool))


def test_results_may_lie_where_the_next_run_writes(monkeypatch) -> None:
    """As those of a recorded step do."""

    def reusing(graph, **_):
        kept = []

        def run(*args):
            sums, *rest = graph(*args)
            found = [*sums, *rest]
            kept[:] = kept or [torch.empty_like(part) for part in found]
            for place, part in zip(kept, found, strict=True):
                place.copy_(part)
            return kept[: len(sums)], *kept[len(sums) :]

        return run

    monkeypatch.setattr(torch, "compile", reusing)
    compiled, case, batch = traced("mlp")
    found = compiled(batch, torch.ones(4, dtype=torch.bool))
    assert furthest(found.sums, naive(compiled.clipper.model, case.loss, batch, 0.5)[0]) < 1e-5


def test_parameters_that_moved_are_read_where_they_lie(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    compiled, case, batch = traced("mlp")
    every = torch.ones(4, dtype=torch.bool)
    model = compiled.clipper.model
    for change in (
        lambda: None,
        lambda: setattr(model[0].weight, "data", torch.randn(8, 5)),
        lambda: model.load_state_dict({name: torch.randn_like(part) for name, part in model.state_dict().items()}),
    ):
        change()
        assert furthest(compiled(batch, every).sums, naive(model, case.loss, batch, 0.5)[0]) < 1e-5


def test_examples_without_a_finite_gradient_take_the_eager_way(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    compiled, case, (x, y) = traced("mlp")
    x[1] = float("nan")
    found = compiled((x, y), torch.ones(4, dtype=torch.bool))
    kept = [0, 2, 3]
    sums, _ = naive(compiled.clipper.model, case.loss, (x[kept], y[kept]), 0.5)
    assert isinstance(found, Clipped)
    assert furthest(found.sums, sums) < 1e-5


def elsewhere(compiled: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that rounds in a way of its own, and an eager step that gives nonsense."""
    ours = compiled._run

    def otherwise(graph: Any, batch: Any, mask: torch.Tensor) -> Clipped:
        found = ours(graph, batch, mask)
        return replace(found, sums={name: total * (1 + 2**-6) for name, total in found.sums.items()})

    monkeypatch.setattr(compiled, "_run", otherwise)
    monkeypatch.setattr(Clipper, "__call__", lambda *_: pytest.fail("another way rounds otherwise"))


@pytest.mark.parametrize("value", [float("nan"), 3e38])
def test_a_record_that_is_left_out_changes_nothing_for_the_others(value: float, monkeypatch) -> None:
    """To the last bit: the graph runs again with another record in that one's place, and padding may fail too."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    compiled, _, (x, y) = traced("mlp")
    assert bool(compiled((x, y), torch.ones(4, dtype=torch.bool)).norms.isfinite().all())
    elsewhere(compiled, monkeypatch)
    for mask in (torch.tensor([True, False, True, True]), torch.tensor([True, False, True, False])):
        without = compiled((x, y), mask)
        spoilt = x.clone()
        spoilt[1] = value
        for given in (mask, mask | torch.tensor([False, True, False, False])):
            found = compiled((spoilt, y), given)
            assert all(torch.equal(found.sums[name], total) for name, total in without.sums.items())
            assert found.norms.isinf().tolist() == [False, bool(given[1]), False, False]
    nobody = compiled((torch.full_like(x, value), y), torch.ones(4, dtype=torch.bool))
    assert not any(total.any() for total in nobody.sums.values())


def test_a_record_at_which_a_graph_raises_is_left_out(monkeypatch) -> None:
    """The graph has no Python code of the user's, but operations that look at values: a root of a matrix, say."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    model = nn.Linear(3, 2)

    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        root = torch.linalg.cholesky((40 + batch[:, :1, None]) * torch.eye(2))
        return model(batch).square().sum(1) * root[:, 0, 0]

    clipper = Clipper(model, loss, dict(model.named_parameters()), 0.5)
    compiled, every = Compiled(clipper), torch.ones(5, dtype=torch.bool)
    x = torch.randn(5, 3)
    others = torch.tensor([True, True, False, True, True])
    compiled(x, every)
    without = compiled(x, others)
    elsewhere(compiled, monkeypatch)
    x[2, 0] = -100.0
    for mask in (every, others):
        found = compiled(x, mask)
        assert all(torch.equal(found.sums[name], total * (1 + 2**-6)) for name, total in without.sums.items())


def test_sums_that_need_float64_get_it_in_a_graph(monkeypatch) -> None:
    """Two positions that cancel: the graph is repeated with exact sums, not by the eager step."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    model = nn.Linear(64, 10, bias=False)
    clipper = Clipper(
        model,
        lambda model, x: F.cross_entropy(model(x).mean(1), torch.zeros(len(x), dtype=torch.long), reduction="none"),
        dict(model.named_parameters()),
        1.0,
    )
    compiled, every = Compiled(clipper), torch.ones(10, dtype=torch.bool)
    x = torch.randn(10, 2, 64)
    compiled(x, every)
    x[0, 1] = 30 * x[0, 1] - 1e5 * x[0, 0]
    x[0, 0] *= 1e5
    right = clipper(x, every)
    assert bool(compiled.launched(x, every).norms.isnan().all())
    compiled.graph(x, every, exact=True)
    elsewhere(compiled, monkeypatch)
    found = compiled(x, every)
    assert found.sums["weight"].dtype == torch.float64
    assert furthest(found.sums, {"weight": right.sums["weight"] * (1 + 2**-6)}) < 1e-5


@pytest.mark.parametrize("rows", [8, 64])
def test_a_step_is_added_up_again_where_a_gradient_is_not_finite(rows: int, monkeypatch) -> None:
    """Noise is under way when this turns out: what is released is the eager sum of the others, whole parts and all."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    x, y = DATA[0].clone(), DATA[1]
    x[::9] = float("nan")
    x[1] = float("inf")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    plan = Plan(64, 0.5, 3, 1e-8, clip_norm=0.5)
    speed = Speed(physical_batch=rows, compile=True)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, loss=classify, rng=0, speed=speed)
    for batch in step.batches((x, y)):
        step.gradients(batch)
        kept = [row for row in batch.index if bool(x[row].isfinite().all())]
        assert len(kept) < len(batch.index)
        sums, _ = naive(model, classify, (x[kept], y[kept]), 0.5)
        found = {name: tensor.grad * plan.expected_batch for name, tensor in model.named_parameters()}
        assert furthest(found, sums) < 1e-4


@pytest.mark.slow
def test_a_compiled_run_is_the_eager_run() -> None:
    plan = Plan(64, 0.25, 4, 1.0)
    found = []
    for compile_ in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.0), nn.Tanh(), nn.Linear(8, CLASSES))
        speed = Speed(physical_batch=8, compile=compile_)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, loss=classify, rng=0, speed=speed)
        step.parted.noise_key = lambda *_: bytes(32)
        for batch in step.batches(DATA):
            step(batch)
        found.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_dropout_compiles_and_still_drops() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5), nn.Linear(64, CLASSES))
    compiled = Compiled(Clipper(model, classify, trainable(model), 0.5))
    batch, mask = (DATA[0][:4], DATA[1][:4]), torch.ones(4, dtype=torch.bool)
    first, second = compiled(batch, mask), compiled(batch, mask)
    assert not torch.equal(first.norms, second.norms)


def test_building_a_compiled_step_draws_no_random_numbers(monkeypatch) -> None:
    """A resumed run builds where the whole run stepped: what it draws then would move its dropout."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, CLASSES))
    compiled = Compiled(Clipper(model, classify, trainable(model), 0.5))
    before = torch.get_rng_state()
    compiled.graph((DATA[0][:4], DATA[1][:4]), torch.ones(4, dtype=torch.bool))
    assert torch.equal(torch.get_rng_state(), before)
