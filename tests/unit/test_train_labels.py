"""A label that names no output stops nothing and moves nothing (soundness rule 8): the default loss is total."""

import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.loss import Plan
from tacit.train import Augment, Progress, Speed, fit, private
from tacit.train.clip import Clipper, Compiled
from tacit.train.step import cross_entropy
from tacit.train.validation import accuracy
from train_zoo import CLASSES, classify, furthest, naive, trainable

PLAN = Plan(40, 0.5, 6, 1.0)
OUTSIDE = [-1, -100, CLASSES, 255, 2**62, -(2**62)]
GOOD = torch.tensor([True, False, True, True, False, True, False, False, False, False])
Y = torch.tensor([0, -1, 1, 2, -100, 0, CLASSES, 255, 2**62, -(2**62)])


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def features(rows: int, *shape: int) -> torch.Tensor:
    return torch.randn(rows, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_label_outside_contributes_nothing_and_the_others_all(compiled: bool, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model, x = small(), features(10, 5)
    clipper = Clipper(model, cross_entropy, trainable(model), 0.5)
    found = (Compiled(clipper) if compiled else clipper)((x, Y), torch.ones(10, dtype=torch.bool))
    sums, norms = naive(model, classify, (x[GOOD], Y[GOOD]), 0.5)
    torch.testing.assert_close(found.norms[GOOD].double(), norms, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.losses[GOOD], classify(model, (x[GOOD], Y[GOOD])).detach())
    assert found.norms[~GOOD].eq(0).all()
    assert found.losses[~GOOD].eq(0).all()
    assert furthest(found.sums, sums) < 1e-5


@pytest.mark.slow
def test_compiled_by_the_real_compiler_too() -> None:
    model, x = small(), features(10, 5)
    found = Compiled(Clipper(model, cross_entropy, trainable(model), 0.5))((x, Y), torch.ones(10, dtype=torch.bool))
    assert furthest(found.sums, naive(model, classify, (x[GOOD], Y[GOOD]), 0.5)[0]) < 1e-5
    assert torch.equal(found.norms > 0, GOOD)


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_a_position_outside_counts_as_zero_in_its_example_s_mean(shape: tuple[int, ...]) -> None:
    """Words and pixels: as torch's own ignored ones do."""
    logits = features(4, CLASSES, *shape).requires_grad_()
    y = torch.arange(4 * 6).reshape(4, *shape) % CLASSES
    bad = torch.rand(y.shape, generator=torch.Generator().manual_seed(1)) < 0.4
    bad[3] = True
    losses = cross_entropy(nn.Identity(), (logits, torch.where(bad, CLASSES + 7, y)))
    expected = (F.cross_entropy(logits, y, reduction="none") * ~bad).flatten(1).mean(1)
    torch.testing.assert_close(losses, expected)
    assert losses[3] == 0
    found, wanted = (torch.autograd.grad(some.sum(), logits)[0] for some in (losses, expected))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_labels_of_any_width(kind: torch.dtype) -> None:
    """-100, the mark of what is ignored, is 156 in an unsigned byte, which may be a class."""
    logits, y = features(3, 200), torch.tensor([0, 120, 5]).to(kind)
    torch.testing.assert_close(cross_entropy(nn.Identity(), (logits, y)), classify(nn.Identity(), (logits, y.long())))
    if kind == torch.uint8:
        high = torch.tensor([156, 200, 255], dtype=kind)
        losses = cross_entropy(nn.Identity(), (logits, high))
        assert losses[0] == classify(nn.Identity(), (logits[:1], torch.tensor([156])))[0]
        assert losses[1:].eq(0).all()


def test_soft_labels_are_as_they_were() -> None:
    logits, y = features(4, CLASSES), torch.softmax(features(4, CLASSES), 1)
    assert torch.equal(cross_entropy(nn.Identity(), (logits, y)), F.cross_entropy(logits, y, reduction="none"))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("bad", OUTSIDE)
def test_a_bad_label_in_any_batch_stops_no_training(bad: int, compiled: bool, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = small()
    y = torch.arange(40) % CLASSES
    y[17] = bad
    speed = Speed(physical_batch=8, compile=compiled)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, rng=3, speed=speed)
    seen = [(17 in batch.index, step(batch).idle) for batch in step.batches((features(40, 5), y))]
    assert seen.count((True, 1)) > 0
    assert set(seen) <= {(True, 1), (False, 0)}
    assert all(tensor.isfinite().all() for tensor in model.parameters())


def test_the_noise_of_a_run_with_a_bad_label_is_added_to_the_others_sum() -> None:
    """Full batches without noise to speak of: with the bad record the model is the one trained without it."""
    plan = Plan(40, 1.0, 4, 1e-6, sampling="full")
    x, y = features(40, 5), torch.arange(40) % CLASSES
    y[17] = CLASSES
    ends = []
    for data in ((x, y), (x[y < CLASSES], y[y < CLASSES])):
        ends.append(fit(small(), data, plan, rng=0).model)
    for one, other in zip(*(model.parameters() for model in ends), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_labels_that_are_all_outside_train_on_noise_and_the_operator_is_told() -> None:
    """The newcomer's labels from 1 on: an error would tell whether one record has the last of them."""
    x, y = features(40, 5), torch.arange(40) % CLASSES
    told = io.StringIO()
    trained = fit(small(), (x, y + 77), PLAN, rng=0, progress=Progress(1e-3, told))
    assert all(type(info.idle) is int and info.idle == info.examples > 0 for info in trained.history)
    assert "{0} of {0} gave nothing".format(trained.history[0].examples) in told.getvalue().splitlines()[0]
    shifted = fit(small(), (x, y + 1), PLAN, rng=0)
    assert all(0 < info.idle < info.examples for info in shifted.history)
    told = io.StringIO()
    right = fit(small(), (x, y), PLAN, rng=0, progress=Progress(1e-3, told))
    assert all(info.idle == 0 for info in right.history)
    assert "nothing" not in told.getvalue()


def test_a_record_that_is_not_finite_is_among_those_that_gave_nothing() -> None:
    x, y = features(40, 5), torch.arange(40) % CLASSES
    x[0] = torch.nan
    plan = Plan(40, 1.0, 2, 1.0, sampling="full")
    assert [info.idle for info in fit(small(), (x, y), plan, rng=0).history] == [1, 1]


def test_an_augmented_record_with_a_bad_label_gave_nothing() -> None:
    x, y = features(40, 5), torch.arange(40) % CLASSES
    y[3] = -1
    plan = Plan(40, 1.0, 2, 1.0, sampling="full")
    trained = fit(small(), (x, y), plan, rng=0, augment=Augment(lambda batch: (batch[0] * 2, batch[1]), times=2))
    assert [info.idle for info in trained.history] == [1, 1]


def test_accuracy_counts_labels_that_name_no_output_as_wrong_and_leaves_out_ignored_ones() -> None:
    logits = torch.eye(4)
    assert accuracy(Fixed(logits), (torch.zeros(4, 1), torch.tensor([0, 1, 3, 9]))) == 0.5
    assert accuracy(Fixed(logits), (torch.zeros(4, 1), torch.tensor([0, 1, 3, -100]))) == pytest.approx(2 / 3)
    words = torch.eye(4).repeat(2, 1, 1)  # (records, classes, positions): position t says class t
    labels = torch.tensor([[0, 1, 2, -100], [0, 0, 0, 0]])
    assert accuracy(Fixed(words), (torch.zeros(2, 1), labels)) == pytest.approx(4 / 7)


class Fixed(nn.Module):
    """Gives what it holds."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits
