"""Reduced precision: contributions stay within the clip norm, sums and noise stay in float32 (soundness rule 11)."""

import pytest
import torch
from torch import nn

from tacit.loss import Plan
from tacit.train import Speed, private
from tacit.train.clip import Clipper, Forward
from tacit.train.clip.rounding import ROUNDING
from tacit.train.clip.rules import outer as terms
from tacit.train.clip.sums import group_slack, group_squares, per_example
from tacit.train.noise.release import Release
from train_zoo import CLASSES, ZOO, Use, classify, furthest, naive, trainable

NAMES = [
    "mlp", "convolutions", "lstm", "tied words", "sequence first", "bare parameters", "weight norm", "low rank",
    "flattened",
]  # fmt: skip


def contributions(clipper: Clipper, batch: tuple, rows: int) -> torch.Tensor:
    """Norms of c_i G_i, from the operations' own numbers, in float64."""
    structure = clipper.structure(batch)
    assert structure.together
    forward = Forward(clipper.losses, batch, clipper.parameters, structure.copies)
    found, losses, _ = per_example(forward, torch.ones(rows, dtype=torch.bool))
    with torch.no_grad():
        kept = torch.ones(rows, dtype=torch.bool)
        memo: dict = {}
        squares = group_squares(found, losses, clipper.weigh, memo)
        room = group_slack(found, squares, clipper.weigh, memo)
        (weights,) = clipper.weigh(squares.sqrt() + room, kept, clipper.clip_norm)
        squares = torch.zeros(rows, dtype=torch.float64)
        for row in range(rows):
            one = torch.zeros(rows)
            one[row] = weights[row]
            for parts in found.values():
                piece = sum(part.weighted(one).double() for part in parts)
                squares[row] += piece.square().sum()
    return squares.sqrt()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_no_contribution_exceeds_the_clip_norm(name: str, precision: str) -> None:
    torch.manual_seed(0)
    case = ZOO[name]
    model, batch = case.make(), case.batch(8)
    clipper = Clipper(model, case.loss, trainable(model), 0.05, precision)
    found = contributions(clipper, batch, 8)
    assert (found > 0.01).any()
    assert (found <= 0.05 * (1 + ROUNDING[precision])).all()


def rounded_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU does, here: bfloat16 operands multiplied as they are."""
    monkeypatch.setattr(terms, "narrow", lambda values: values.dtype == torch.bfloat16)


@pytest.mark.parametrize("name", NAMES)
def test_rounded_operands_leave_contributions_within_the_clip_norm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounded_products(monkeypatch)
    torch.manual_seed(0)
    case = ZOO[name]
    model, batch = case.make(), case.batch(8)
    found = contributions(Clipper(model, case.loss, trainable(model), 0.05, "bfloat16"), batch, 8)
    assert (found > 0.01).any()
    assert (found <= 0.05 * (1 + ROUNDING["bfloat16"])).all()


@pytest.mark.parametrize("room", [True, False])
def test_cancelling_positions_need_the_room_for_rounding(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """l_1 r + l_2 r nearly cancels and the rounding of c l_1 and c l_2 does not."""
    rounded_products(monkeypatch)
    over = 0
    for scale in torch.linspace(0.5, 1.0, 40):
        left = torch.tensor([[[[1 + 2**-7] * 300, [-1.0] * 300]]], dtype=torch.bfloat16)
        right = torch.full((1, 1, 2, 400), 1.0, dtype=torch.bfloat16)
        outer, memo = terms.Outer(left, right, torch.Size((300, 400))), {}
        norm = outer.norm2(memo).sqrt()
        clip = float(scale * norm)
        weight = (clip / (norm + (outer.slack2(memo) ** 0.5 if room else 0.0))).clamp(max=1.0)
        over += float(outer.weighted(weight).double().norm()) > clip * (1 + ROUNDING["bfloat16"])
    assert (over == 0) if room else (over > 5)


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_sums_are_float32_and_near_the_exact_ones(name: str) -> None:
    torch.manual_seed(0)
    case = ZOO[name]
    model, batch = case.make(), case.batch(6)
    mask = torch.ones(6, dtype=torch.bool)
    exact, rough = (Clipper(model, case.loss, trainable(model), 0.5, kind)(batch, mask) for kind in ROUNDING)
    assert rough.norms.dtype == torch.float32
    assert {tensor.dtype for tensor in rough.sums.values()} == {torch.float32}
    torch.testing.assert_close(rough.norms, exact.norms, rtol=0.1, atol=0.02)


def test_a_model_kept_in_bfloat16_gets_float32_noise(monkeypatch) -> None:
    model = torch.nn.Linear(5, CLASSES, bias=False).to(torch.bfloat16)
    data = torch.randn(100, 5).to(torch.bfloat16), torch.arange(100) % CLASSES
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(100, 0.1, 2, 1.0), loss=classify, rng=0)
    released = []
    keep = Release.__call__
    monkeypatch.setattr(
        Release, "__call__", lambda self, total, *rest: (released.extend(total), keep(self, total, *rest))
    )
    for batch in step.batches(data):
        step(batch)
    assert {total.dtype for total in released} == {torch.float32}
    assert model.weight.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_recurrent_layers_kept_in_reduced_precision(kind: torch.dtype) -> None:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True), nn.Linear(8, CLASSES)

        def forward(self, x):
            return self.head(self.words(x)[0].mean(1)).float()

    torch.manual_seed(0)
    model = Reader().to(kind)
    batch = torch.randn(4, 6, 5).to(kind), torch.arange(4) % CLASSES
    found = Clipper(model, classify, trainable(model), 0.5)(batch, torch.ones(4, dtype=torch.bool))
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=0.02, atol=0)
    assert furthest(found.sums, sums) < 0.02


@pytest.mark.parametrize("rows", [4, 70])
def test_a_float64_parameter_under_a_float32_loss(rows: int) -> None:
    torch.manual_seed(0)
    scale = nn.Parameter(torch.randn(3, CLASSES, dtype=torch.float64))
    model = Use(lambda m, x: m.head(x) * m.scale.sum(0).float(), head=nn.Linear(5, CLASSES), scale=scale)
    batch = torch.randn(rows, 5), torch.arange(rows) % CLASSES
    clipper = Clipper(model, classify, trainable(model), 0.5)
    assert clipper.structure(batch).together
    found = clipper(batch, torch.ones(rows, dtype=torch.bool))
    sums, norms = naive(model, classify, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=0)
    assert furthest(found.sums, sums) < 1e-5


def test_training_in_bfloat16_steps() -> None:
    model = ZOO["mlp"].make()
    data = torch.randn(100, 5), torch.arange(100) % CLASSES
    speed = Speed(precision="bfloat16")
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(100, 0.2, 3, 1.0), rng=0, speed=speed)
    assert [step(batch).loss is not None for batch in step.batches(data)] == [True] * 3
    assert step.evidence(1e-3).provenance["precision"] == "bfloat16"


@pytest.mark.parametrize(("precision", "inside"), [("float32", ("highest", False)), ("bfloat16", ("medium", True))])
def test_float32_means_float32_whatever_the_program_has_set(precision: str, inside: tuple[str, bool]) -> None:
    seen, before = [], torch.get_float32_matmul_precision()

    def loss(model, batch):
        seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return classify(model, batch)

    model = ZOO["mlp"].make()
    clipper = Clipper(model, loss, trainable(model), 1.0, precision)
    torch.set_float32_matmul_precision("medium")
    try:
        clipper((torch.randn(4, 5), torch.arange(4) % CLASSES), torch.ones(4, dtype=torch.bool))
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(seen) == {inside}
