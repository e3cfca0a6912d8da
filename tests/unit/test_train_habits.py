"""Habits of ordinary users: settings of torch around a training, `torch.func` and compiled parts inside a model, and
weights that the forward pass itself moves."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip import Clipper
from tacit.train.clip.capture import keeping, probe, ranges
from tacit.train.clip.isolation import surroundings
from train_mixing import CLASSES, WIDTH, each

pytestmark = pytest.mark.filterwarnings("ignore")
C, ROWS = 0.1, 4
Loss = Callable[[nn.Module, Any], Tensor]
BACKENDS = torch.backends


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.arange(ROWS) % CLASSES


def clipped(model: nn.Module, loss: Loss) -> tuple[Clipper, Any]:
    clip = Clipper(model, loss, dict(model.named_parameters()), C)
    return clip, clip(batch(), torch.ones(ROWS, dtype=torch.bool))


def off(model: nn.Module, loss: Loss, sums: dict[str, Tensor]) -> float:
    """How far sums are from those of a loop over records by ordinary autograd, in clip norms."""
    parameters = dict(model.named_parameters())
    expected = {name: torch.zeros_like(one, dtype=torch.float64) for name, one in parameters.items()}
    for x, y in zip(*batch(), strict=True):
        found = torch.autograd.grad(loss(model, (x[None], y[None])).sum(), list(parameters.values()))
        dense = [one.to_dense().double() for one in found]
        length = float(torch.cat([one.flatten() for one in dense]).norm())
        for name, one in zip(parameters, dense, strict=True):
            expected[name] += one * min(1.0, C / length)
    return max(float((sums[name].double() - one).norm()) / C for name, one in expected.items())


def looked_up_in_grad(m: nn.Module, b: Any) -> Tensor:
    """A library's function that encloses tensors is called for the first time inside a level of `torch.func`."""
    table = torch.arange(9.0).view(3, 3)
    slope = torch.func.grad(lambda x: (x[:, :3] * F.embedding(b[1], table)).sum())(b[0])
    return each(m(b[0] + 0.1 * slope), b[1])


def classified_in_vmap(m: nn.Module, b: Any) -> Tensor:
    return torch.func.vmap(lambda x, y: F.cross_entropy(m(x[None]), y[None]))(*b)


@pytest.mark.parametrize("loss", [looked_up_in_grad, classified_in_vmap])
def test_one_at_a_time_every_record_contributes_inside_levels_of_torch_func(loss: Loss) -> None:
    model = network()
    clip, found = clipped(model, loss)
    assert not next(iter(clip.structures.values())).together
    assert found.norms.isfinite().all()
    assert off(model, loss, found.sums) < 1e-5


def test_mutant_our_own_code_runs_in_the_users_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first record of every batch gave nothing, and so which one it was hung on the others; now all are stopped."""
    monkeypatch.setattr(surroundings, "plainly", nullcontext)
    with pytest.raises(BadInput, match="library encloses"):
        clipped(network(), looked_up_in_grad)


def test_mutant_an_index_is_looked_at_inside_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record would contribute: said before the first step."""
    monkeypatch.setattr(ranges, "_any", bool)
    with pytest.raises(BadInput, match="no made-up record"):
        clipped(network(), classified_in_vmap)


class Bounded(nn.Module):
    """Keeps its weights within bounds in the forward pass."""

    def __init__(self, how: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.inner, self.how = network(), how

    def forward(self, x: Tensor) -> Tensor:
        self.how(self.inner[2].weight)
        out: Tensor = self.inner(x)
        return out


@torch.no_grad()
def normalise(weight: Tensor) -> None:
    weight.copy_(F.normalize(weight, dim=1))


def ordinary(m: nn.Module, b: Any) -> Tensor:
    return each(m(b[0]), b[1])


def clamp(weight: Tensor) -> None:
    weight.data.clamp_(-0.1, 0.1)


def test_weights_that_the_forward_pass_writes_are_refused_where_nothing_would_be_trained() -> None:
    with pytest.raises(BadInput, match="writes into a trained parameter") as refused:
        clipped(Bounded(normalise), ordinary)
    assert "project" in refused.value.fix


def test_a_pass_does_not_leave_bounded_weights_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample without records has no pass: that it was empty would show in the weights, without noise."""

    def left() -> bool:
        model = Bounded(clamp)
        clip, _ = clipped(model, ordinary)
        with torch.no_grad():
            model.inner[2].weight.add_(0.5)
        before = model.inner[2].weight.detach().clone()
        clip(batch(), torch.ones(ROWS, dtype=torch.bool))
        return torch.equal(model.inner[2].weight, before)

    assert left()
    monkeypatch.setattr(keeping, "SHARE", 0.0)
    assert not left()


class Words(nn.Module):
    """Sparse gradients, and code that decides by a value."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Embedding(7, 5, sparse=True), nn.Linear(5, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.table(ids)
        out: Tensor = self.last(torch.stack([row if float(row.sum()) > 0 else -row for row in h]))
        return out


def test_sparse_gradients_one_at_a_time() -> None:
    def loss(m: nn.Module, b: Any) -> Tensor:
        return each(m(b[1]), b[1])

    model = Words()
    _, found = clipped(model, loss)
    assert off(model, loss, found.sums) < 1e-5


@pytest.mark.parametrize("how", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_labels_of_margins_are_kept_in_range(how: Callable[..., Tensor]) -> None:
    def loss(m: nn.Module, b: Any) -> Tensor:
        labels = b[1] if how is F.multi_margin_loss else F.pad(b[1][:, None], (0, CLASSES - 1), value=-1)
        return how(m(b[0]), labels, reduction="none")

    model = network()
    clip, found = clipped(model, loss)
    assert next(iter(clip.structures.values())).together
    assert off(model, loss, found.sums) < 1e-5
    x, y = batch()
    y[2] = 10**6
    other = clip((x, y), torch.ones(ROWS, dtype=torch.bool))
    less = clip(batch(), torch.arange(ROWS) != 2)
    assert all(torch.equal(other.sums[name], one) for name, one in less.sums.items())


def test_compiled_parts_run_as_they_are_written() -> None:
    model = network()
    calls = []

    def backend(graph: Any, _: Any) -> Any:
        calls.append(graph)
        return graph

    model[0] = torch.compile(model[0], backend=backend)
    _, found = clipped(model, lambda m, b: each(m(b[0]), b[1]))
    assert not calls
    assert (
        off(
            network(), lambda m, b: each(m(b[0]), b[1]), {k.replace("_orig_mod.", ""): v for k, v in found.sums.items()}
        )
        < 1e-5
    )


# Settings around a training


@contextmanager
def default(kind: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def newer(place: Any, kind: str) -> Iterator[None]:
    before = place.fp32_precision
    place.fp32_precision = kind
    try:
        yield
    finally:
        place.fp32_precision = before


def noise(kind: torch.dtype) -> Tensor:
    """The noise of a step in which no record contributes anything."""
    model = nn.Linear(100, 100)
    step = private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        Plan(8, 1.0, 1, 1.0, sampling="full"),
        loss=lambda m, b: 0 * m(b[0]).sum(1),
        rng=1,
    )
    with default(kind):
        for one in step.batches((torch.zeros(8, 100, dtype=torch.float32),)):
            step(one)
    assert model.weight.grad is not None
    return model.weight.grad


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_noise_is_as_fine_whatever_torchs_default_type_is(kind: torch.dtype) -> None:
    """In bfloat16 ten thousand numbers took few values, and the last bits of a sum would have stayed as they were."""
    found = noise(kind)
    assert len(found.unique()) > 9_900
    assert found.dtype == torch.float32
    assert abs(float(found.std()) * 8 / (1 + 2**-6 + 2**-12) - 1) < 0.03


def trained(around: Callable[[], AbstractContextManager[Any]]) -> Tensor:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with around():
        step = private(model, optimizer, Plan(ROWS, 1.0, 2, 1e-3, sampling="full"), rng=1)
        for one in step.batches(batch()):
            assert step(one).idle == 0
    return torch.cat([one.detach().flatten() for one in model.parameters()])


AROUND: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inference mode": torch.inference_mode,
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "products in TF32": lambda: newer(BACKENDS.cuda.matmul, "tf32"),
    "products in bfloat16": lambda: newer(BACKENDS.mkldnn.matmul, "bf16"),
    "everything in TF32": lambda: newer(BACKENDS, "tf32"),
}


@pytest.mark.parametrize("name", AROUND)
def test_settings_around_a_training_change_nothing(name: str) -> None:
    before = [one.fp32_precision for one in (BACKENDS.cuda.matmul, BACKENDS.mkldnn.matmul, BACKENDS)]
    assert torch.equal(trained(AROUND[name]), trained(nullcontext))
    assert [one.fp32_precision for one in (BACKENDS.cuda.matmul, BACKENDS.mkldnn.matmul, BACKENDS)] == before


class Packed(nn.Module):
    """Sequences of several lengths, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.say = nn.GRU(2, 3, batch_first=True), nn.Linear(3, CLASSES)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out: Tensor = self.say(self.read(packed)[1][-1])
        return out


def test_lengths_of_packed_sequences_may_be_a_field_of_the_record() -> None:
    model = Packed()
    clip = Clipper(model, lambda m, b: each(m(b[0], b[1]), b[2]), dict(model.named_parameters()), C)
    rows = torch.randn(3, 4, 2), torch.tensor([2, 4, 1]), torch.tensor([0, 1, 0])
    assert bool(clip(rows, torch.ones(3, dtype=torch.bool)).norms.isfinite().all())


class Mixout(nn.Module):
    """Mixes each weight at random with what it was at the start: at first losses are not random, gradients are."""

    def __init__(self, *, reads: bool) -> None:
        super().__init__()
        self.layer, self.reads = nn.Linear(WIDTH, CLASSES), reads
        self.register_buffer("start", self.layer.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.bernoulli(torch.full_like(self.layer.weight, 0.5))
        weight = kept * self.layer.weight + (1 - kept) * self.start
        if self.reads and float(x.sum()) > 1e6:
            return F.linear(2 * x, weight)
        return F.linear(x, weight, self.layer.bias)


@pytest.mark.parametrize("reads", [False, True])
def test_gradients_that_are_random_before_losses_are_do_not_count_as_a_disagreement(reads: bool) -> None:
    torch.manual_seed(0)
    clip, found = clipped(Mixout(reads=reads), lambda m, b: each(m(b[0]), b[1]))
    assert clip.structure(batch()).together is not reads
    assert bool(found.norms.isfinite().all())


def test_mutant_random_numbers_are_looked_for_at_the_present_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "moved_weights", lambda *_: nullcontext())
    torch.manual_seed(0)
    loss: Loss = lambda m, b: each(m(b[0]), b[1])  # noqa: E731
    assert not clipped(Mixout(reads=False), loss)[0].structure(batch()).together
    with pytest.raises(BadInput, match="other gradients for the same record"):
        clipped(Mixout(reads=True), loss)
