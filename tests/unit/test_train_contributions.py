"""No record contributes more than C (1 + r), whatever its numbers; without each guard one does (soundness rule 24)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.loss import Plan
from tacit.train import Speed, StepInfo, private
from tacit.train.clip import Clipper, arrays, rounding, sums
from tacit.train.clip.rounding import LARGE, OWN, PRODUCTS, ROUND, ROUND64, ROUNDING, SUMS
from tacit.train.clip.rules import outer, terms
from tacit.train.clip.rules.outer import Outer
from tacit.train.clip.rules.terms import Dense, Gather, Viewed
from tacit.train.clip.sums import Clipped, clipped_terms
from tacit.train.clip.weigh import Weigh
from train_zoo import classify, trainable

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def search(monkeypatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(FOLDER)
    import contributions

    yield contributions
    for name in ("contributions", "contributions_fleet", "machine"):
        sys.modules.pop(name, None)


def cancelling() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A record whose two positions nearly cancel, and nine of zeros."""
    generator = torch.Generator().manual_seed(11)
    one, other = torch.randn(2, 64, generator=generator)
    x = torch.zeros(10, 2, 64)
    x[0, 0], x[0, 1] = 1e5 * one, 30 * other - 1e5 * one
    torch.manual_seed(0)
    return nn.Linear(64, 10, bias=False), (x, torch.zeros(10, dtype=torch.long))


def step_on_cancelling(**kwargs: Any) -> tuple[float, StepInfo]:
    """The length of the sum with hardly any noise, and what the step says."""
    model, data = cancelling()
    plan = Plan(10, 1.0, 1, 1e-3, sampling="full")
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, rng=1, loss=averaged, **kwargs)
    (info,) = [step(batch) for batch in step.batches(data)]
    return 10 * float(model.weight.grad.norm()), info


def averaged(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).mean(1), batch[1], reduction="none")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_positions_that_cancel_are_clipped_and_said_to_be(compiled: bool) -> None:
    length, info = step_on_cancelling(speed=Speed(compile=compiled))
    assert 0.99 < length < 1.01 + 2e-3 * 25
    assert (info.clipped, info.idle, info.examples) == (0.1, 9, 10)


def test_inner_products_in_float32_without_their_rounding_would_not_clip(monkeypatch) -> None:
    monkeypatch.setattr(Outer, "_by_inner", lambda outer: True)
    assert step_on_cancelling()[0] < 1.1
    monkeypatch.setattr(outer, "inner_error", lambda *sizes: 0.0)
    exact = Outer._inner
    monkeypatch.setattr(Outer, "_inner", lambda *given: exact(*given).float())
    assert step_on_cancelling()[0] > 100


def test_a_search_for_the_largest_contribution_finds_none_above(search) -> None:
    rows = search.searched(6, 1)
    assert {row["rule"] for row in rows} == set(search.RULES)
    assert sum(row["tries"] for row in rows) > 20_000
    assert max(row["worst"] for row in rows) <= 1
    assert min(row["worst"] for row in rows) > 0.01


CANCELLING = [(seed, 8, 4, 24, (9, 0, 7, 0)) for seed in range(6)]
TINY = [(seed, 1, 200, 96, (-19, 18, 0, 20)) for seed in range(2)]
MANY = [(seed, 16, 24, 24, (7, 0, 6, 0), 300) for seed in range(2)]


def test_fleets_need_their_room_for_positions_that_cancel(search, monkeypatch) -> None:
    """A mutant of a convolution's length: without what adding up positions rounds."""
    assert worst(search, "float32", "fleet, convolution", CANCELLING) <= 1
    monkeypatch.setattr("tacit.fleet.layers.of_sums", lambda length, reach, positions: length)
    assert worst(search, "float32", "fleet, convolution", CANCELLING) > 1


def test_fleets_need_their_room_for_squares_that_underflow(search, monkeypatch) -> None:
    """Where the processor takes numbers below 2^-126 for zero."""
    torch.set_flush_denormal(True)
    try:
        assert worst(search, "float32", "fleet, linear", TINY) <= 1
        monkeypatch.setattr("tacit.fleet.certified.LOST", 0.0)
        assert worst(search, "float32", "fleet, linear", TINY) > 1
    finally:
        torch.set_flush_denormal(False)


def test_fleets_need_float64_for_sums_of_parts_that_cancel(search, monkeypatch) -> None:
    name = "fleet, convolution, many records"
    assert worst(search, "float32", name, MANY) <= 1
    monkeypatch.setattr("tacit.fleet.certified.ROUND", 0.0)
    assert worst(search, "float32", name, MANY) > 1


def worst(search: Any, precision: str, name: str, cases: list[tuple]) -> float:
    found = search.Worst(precision)
    for case in cases:
        found.sides = search.drawn(*case)
        found.see(name)
    return found.value


@pytest.mark.parametrize(("asked", "share"), [("highest", 0.0), ("high", 2.0**-10), ("medium", 2.0**-7)])
def test_products_in_reduced_precision_count_where_they_are_allowed(asked: str, share: float) -> None:
    left = torch.randn(2, 1, 3, 4)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(asked)
    try:
        counted = [part.slack2({}) for part in (Dense(left), Outer(left[:, :, :1], left[:, :, :1], torch.Size((4, 4))))]
        norms = Dense(left).norm2({}), Outer(left[:, :, :1], left[:, :, :1], torch.Size((4, 4))).norm2({})
    finally:
        torch.set_float32_matmul_precision(before)
    for slack2, norm2 in zip(counted, norms, strict=True):
        assert bool((torch.as_tensor(slack2) >= share**2 * norm2).all())
        assert bool((torch.as_tensor(slack2) <= 1.03 * share**2 * norm2 + 1e-30).all())


def test_sums_are_made_in_full_float32_whatever_the_program_has_set(monkeypatch) -> None:
    seen, model = [], nn.Linear(5, 3)
    exact = sums.weighted

    def watched(*given: Any) -> Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return exact(*given)

    monkeypatch.setattr(sums, "weighted", watched)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        clipper = Clipper(model, classify, trainable(model), 1.0, "bfloat16")
        given = (torch.randn(4, 5), torch.arange(4) % 3), torch.ones(4, dtype=torch.bool)
        clipper(*given)
        seen.clear()  # the probe's, of made-up records
        clipper(*given)
    finally:
        torch.set_float32_matmul_precision(before)
    assert set(seen) == {"highest"}


def whole_numbers() -> tuple[Tensor, Tensor]:
    """Positions that cancel but for one, of whole numbers, against others that are not: inner products round."""
    torch.manual_seed(0)
    left = torch.randint(-100, 101, (64, 16, 24)).float()
    one = torch.eye(24)[:1].expand(64, 1, -1)
    right = 1e3 * torch.randn(64, 1, 24).expand(-1, 33, -1)
    return torch.cat((left, -left, one), 1), right.contiguous()


CANCEL = [(seed, 8, 24, 24, (4, 4, cancels, 0)) for seed in range(4) for cancels in range(2, 8)]


def test_without_room_for_tf32_a_contribution_exceeds_the_clip_norm(search, monkeypatch) -> None:
    assert worst(search, "tf32", "inner products", CANCEL) <= 1
    monkeypatch.setattr(search, "COARSE", {"high": 0.0})
    assert worst(search, "tf32", "inner products", CANCEL) > 1


@pytest.mark.parametrize("counted", [True, False])
def test_a_square_by_inner_products_is_never_too_little(counted: bool, monkeypatch) -> None:
    monkeypatch.setattr(Outer, "_by_inner", lambda outer: True)
    monkeypatch.setattr(outer, "narrow", lambda values: values.dtype == torch.bfloat16)
    if not counted:
        monkeypatch.setattr(outer, "inner_error", lambda *sizes: 0.0)
    left, right = (side[:, None].bfloat16() for side in whole_numbers())
    exact = torch.einsum("bgtp,bgtd->bpd", left.double(), right.double()).square().sum((1, 2))
    found = Outer(left, right, torch.Size((24, 24))).norm2({})
    assert bool((found >= exact).all()) is counted


def test_a_fleets_sums_that_may_move_too_far_are_made_in_float64() -> None:
    from tacit.fleet.certified import Clip

    clip, weight = Clip(torch.ones(1, 2, dtype=torch.bool), 1.0), torch.ones(1, 2)
    for sway, rough in ((10.0, False), (1e6, True)):
        assert clip.settled(weight, torch.full((1, 2), sway, dtype=torch.float64)).rough.tolist() == [rough]


def test_inner_products_in_float64_need_their_room_too(monkeypatch) -> None:
    """Positions of 2^23 that cancel but for ones: |G|^2 is below what float64 loses of the inner products."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.randint(2**22, 2**23, (64, 24), generator=generator).float()
    ones = torch.randint(0, 2, (64, 24), generator=generator).float()
    left = torch.stack((whole, ones - whole), 1)[:, None]
    right = whole.flip(0)[:, None, None].expand(-1, 1, 2, -1)
    exact = ones.double().square().sum(1) * right[:, 0, 0].double().square().sum(1)
    monkeypatch.setattr(Outer, "_by_inner", lambda outer: True)
    assert bool((Outer(left, right, torch.Size((24, 24))).norm2({}) >= exact).all())
    monkeypatch.setattr(outer, "inner_error", lambda *sizes: 0.0)
    assert not bool((Outer(left, right, torch.Size((24, 24))).norm2({}) >= exact).all())


def test_a_factor_that_float32_cannot_square_counts_as_not_finite(monkeypatch) -> None:
    """The product of both sides is small, but what underflows in the other one would count."""
    monkeypatch.setattr(Outer, "_by_inner", lambda outer: True)
    left, right = torch.full((2, 1, 3, 4), 1e25), torch.full((2, 1, 3, 5), 1e-30)
    left[1] = 1.0
    assert Outer(left, right, torch.Size((4, 5))).norm2({}).isfinite().tolist() == [False, True]


def test_a_mixture_that_cancels_needs_room_for_what_writing_it_out_rounds(search, monkeypatch) -> None:
    cases = [(seed, 33, 24, 24, (6, 6, 0, alike)) for seed in range(4) for alike in (0, 3, 9)]
    assert worst(search, "float32", "mixture", cases) <= 1
    left = torch.full((1, 1, 33, 4), 1 + 2.0**-9)
    plain, other = (Outer(left * 3e4, left, torch.Size((4, 4))) for _ in range(2))
    exact = torch.einsum("btp,btd->bpd", *(side[:, 0].double() for side in (plain.left, plain.right)))
    parts = [plain, Dense(-other.dense())]
    off = float((exact - other.dense().double()).norm())
    assert off > 0
    assert float(terms.norm2(parts)) == 0
    assert float(terms.slack2(parts, {}).sqrt()) > off


def length(found: Clipped) -> float:
    return float(torch.cat([total.double().flatten() for total in found.sums.values()]).norm())


def clipped(parts: list, clip_norm: float, most: int = 512) -> Clipped:
    rows = len(parts[0].norm2({}))
    shape = getattr(parts[0], "shape", None) or parts[0].values.shape[1:]
    given = {"w": torch.zeros(shape)}, {"w": parts}, torch.zeros(rows), torch.ones(rows, dtype=torch.bool)
    return clipped_terms(*given, clip_norm, Weigh(most=most))


@pytest.mark.parametrize("lost", [True, False])
def test_what_underflows_in_a_square_counts(lost: bool, monkeypatch) -> None:
    """Lengths of 10^-24 read as zero in float32, and 10^18 times that is not."""
    if not lost:
        monkeypatch.setattr(outer, "LOST", 0.0)
    left, right = torch.full((1, 1, 1, 200), 1e-24), torch.full((1, 1, 1, 200), 1e18)
    within = length(clipped([Outer(left, right, torch.Size((200, 200)))], 1e-6)) <= 1e-6 * (1 + ROUNDING["float32"])
    assert within is lost


@pytest.mark.parametrize("value", [3e38, 1e30, 1e20, float("inf"), float("nan")])
@pytest.mark.parametrize("positions", [1, 3])
def test_records_beyond_what_float32_can_square_give_nothing_and_harm_nobody(value: float, positions: int) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(3, 1, positions, 4), torch.randn(3, 1, positions, 5)
    alone = clipped([Outer(left[1:], right[1:], torch.Size((4, 5)))], 1.0)
    left[0, 0, 0, 0] = value
    for sides in ((left, right), (right.mT.contiguous().mT, left)):
        found = clipped([Outer(*sides, torch.Size((sides[0].shape[-1], sides[1].shape[-1])))], 1.0)
        assert found.norms.isfinite().tolist() == [False, True, True]
        assert not found.shortened[0]
        assert abs(length(found) - length(alone)) < 1e-6
    assert LARGE == 2.0**64


def test_long_gradients_are_measured_in_parts(monkeypatch) -> None:
    """Squares of 2^24 like numbers added up in float32 come out too small by more than there is room for."""
    values = torch.full((1, 2**24), 1 + 2.0**-12)
    exact = (1 + 2.0**-12) ** 2 * 2**24
    assert float(arrays.square(values)) > exact * (1 - OWN["float32"])
    monkeypatch.setattr(arrays, "PART", 2**24)
    assert float(arrays.square(values)) < exact * (1 - OWN["float32"])


def test_a_row_looked_up_very_often_is_added_up_in_float64(monkeypatch) -> None:
    many = 2**15
    index = torch.zeros(many, 1, dtype=torch.long)
    rows = torch.full((many, 1, 1), 1.0 + 2.0**-9 / 3)
    gather, ones = Gather(index, rows, torch.Size((2, 1))), torch.ones(many)
    exact = float(rows.double().sum())
    assert abs(float(gather.weighted(ones)[0]) - exact) < 2 * ROUND * exact
    monkeypatch.setattr(terms, "_often", lambda index: False)
    assert abs(float(gather.weighted(ones)[0]) - exact) > SUMS / 2


def alike(records: int) -> list:
    """Contributions that all round the same way when they are added to a sum of them."""
    return [Dense(torch.full((records, 3), (1.0 + 2.0**-9 / 3) / 3**0.5))]


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("form", ["dense", "outer"])
def test_sums_over_very_many_records_stay_near_the_exact_ones(form: str, guarded: bool, monkeypatch) -> None:
    records = 2**15
    (dense,) = alike(records)
    parts = [dense]
    if form == "outer":
        parts = [Outer(dense.values[:, None, None], torch.ones(records, 1, 1, 1), torch.Size((3, 1)))]
    if not guarded:
        monkeypatch.setattr(sums, "needs_float64", lambda *given: torch.tensor(False))
        monkeypatch.setattr(arrays, "SHORT", records)
        monkeypatch.setattr(outer, "cut", lambda *given: records)
        monkeypatch.setattr(torch, "matmul", one_by_one)
        monkeypatch.setattr(Tensor, "__matmul__", one_by_one)
    found = clipped(parts, 1.0, records)
    off = abs(length(found) - records)
    assert (off <= SUMS / 2) is guarded


def one_by_one(left: Tensor, right: Tensor) -> Tensor:
    """A product as the plainest loop makes it, in the float32 of its factors: an order that torch may take too."""
    if left.ndim == 1:
        return (left[:, None] * right).cumsum(0)[-1] if left.dtype == torch.float64 else running(left[:, None] * right)
    return running((left.mT[:, :, None] * right[:, None, :]).flatten(1)).view(left.shape[0], right.shape[1])


def running(rows: Tensor) -> Tensor:
    total = rows.numpy()[0].copy()
    for row in rows.numpy()[1:]:
        total += row
    return torch.from_numpy(total)


def test_float64_is_for_samples_that_need_it() -> None:
    few, many = (clipped(alike(records), 1.0, records) for records in (64, 4096))
    assert few.sums["w"].dtype == torch.float32
    assert many.sums["w"].dtype == torch.float64
    assert rounding.links(64, 64) * 64 * ROUND < PRODUCTS < rounding.links(4096, 64) * 4096 * ROUND


def test_weights_leave_room_for_float64_too() -> None:
    sway, weight = torch.tensor([[1e14, 10.0]], dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    found = rounding.borne(sway, weight, 1.0, 1000)
    assert found[0, 1] == 1
    torch.testing.assert_close(float(found[0, 0] * 1e14 * ROUND64), PRODUCTS / 1000)


@pytest.mark.parametrize(("records", "kind"), [(1000, torch.float32), (200_000, torch.float64)])
def test_parts_are_added_up_in_float64_where_there_are_many(records: int, kind: torch.dtype) -> None:
    assert rounding.sum_kind(records, 1024) == kind
    assert rounding.at_most(records) > records


def test_a_view_of_a_parameter_keeps_a_sum_in_float64() -> None:
    weight = torch.zeros(3, 1, requires_grad=True)
    values = torch.full((4096, 1, 3), (1.0 + 2.0**-9 / 3) / 3**0.5)
    parts = [Viewed([Dense(values)], weight.T, weight, lambda one: one.T)]
    found = terms.weighted(parts, torch.ones(4096, dtype=torch.float64))
    torch.testing.assert_close(found, values.double().sum(0).mT, rtol=1e-12, atol=0)


def test_noise_is_added_to_large_sums_in_float64() -> None:
    """Gradients are the sum and its noise, rounded once."""
    torch.manual_seed(0)
    rows, model = 3000, nn.Linear(4, 3)
    data = torch.randn(rows, 4) + 1, torch.zeros(rows, dtype=torch.long)
    step = private(
        model, torch.optim.SGD(model.parameters(), lr=0.0), Plan(rows, 1.0, 1, 1e-9, sampling="full"),
        loss=classify, rng=0, speed=Speed(physical_batch=128),
    )  # fmt: skip
    kinds = []
    release = step._release.own
    step._release.own = lambda total: release((kinds.extend(one.dtype for one in total), total)[1])
    exact = Clipper(model, classify, trainable(model), 1.0, weigh=Weigh(most=10**6))(
        data, torch.ones(rows, dtype=torch.bool)
    )
    for batch in step.batches(data):
        step(batch)
    assert kinds == [torch.float64] * 2
    for name, parameter in model.named_parameters():
        assert parameter.grad.dtype == torch.float32
        torch.testing.assert_close(parameter.grad, (exact.sums[name] / rows).float(), rtol=1e-6, atol=1e-9)


def test_a_sample_larger_than_expected_takes_its_own_size(monkeypatch) -> None:
    model = nn.Linear(5, 3)
    plan = Plan(100, 0.1, 2, 1.0)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, loss=classify, rng=0)
    before, step.parted.totals.most = step._clipper.weigh.most, 3
    for batch in step.batches((torch.randn(100, 5), torch.arange(100) % 3)):
        step(batch)
    assert step._clipper.weigh.most != before


def test_one_record_among_very_many_moves_the_sum_by_the_clip_norm() -> None:
    """The figure of a review: 1.0e-3 above at 200,000 records in float32; here fewer, of a small model."""
    torch.manual_seed(0)
    model, rows = nn.Linear(4, 3), 30_000
    x, y = torch.randn(rows, 4) + 1, torch.zeros(rows, dtype=torch.long)
    clipper = Clipper(model, classify, trainable(model), 1.0, weigh=Weigh(most=rows))
    mask = torch.ones(rows, dtype=torch.bool)
    whole = clipper((x, y), mask)
    mask[rows // 2] = False
    without = clipper((x, y), mask)
    moved = [(total.double() - without.sums[name].double()).flatten() for name, total in whole.sums.items()]
    assert 0.5 < float(torch.cat(moved).norm()) <= 1 + OWN["float32"]


@pytest.mark.parametrize(
    "around", [torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad()], ids=["autocast", "no gradients"]
)
def test_modes_around_a_step_change_nothing(around) -> None:
    """Under autocast, sums over records were made in bfloat16: one record moved them by 1.09 C."""
    x = torch.full((128, 16), 0.5)
    x[-1] = torch.randn(16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(_sum_of_scaled(x, around), _sum_of_scaled(x, contextlib.nullcontext()))


def _sum_of_scaled(x: torch.Tensor, around) -> torch.Tensor:
    model = nn.Module()
    model.register_parameter("w", nn.Parameter(torch.ones(16)))
    plan = Plan(len(x), 1.0, 1, 1e-6, sampling="full")
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, loss=lambda m, b: (b * m.w).sum(1), rng=1)
    with around:
        for batch in step.batches(x):
            step(batch)
    return model.w.grad
