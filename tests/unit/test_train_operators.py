"""Operations at which torch's `vmap` mixes records or gives a wrong gradient: none of them is believed.

Truth is a loop over single records by ordinary autograd.
"""

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tacit.core import BadInput
from tacit.train.clip import Clipper, sums
from tacit.train.clip.capture import probe
from tacit.train.clip.capture.kept import Record
from tacit.train.clip.capture.level import Level
from tacit.train.clip.capture.ranges import InRange, Inside
from tacit.train.clip.capture.watch import Capture
from tacit.train.clip.rounding import ROUNDING
from tacit.train.clip.rules.operators import RULES

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, LENGTH, CLASSES, ROWS = 4, 5, 3, 6
C = 0.1
ROOM = C * (1 + ROUNDING["float32"])
aten = torch.ops.aten
Batch = tuple[Tensor, ...]


class Net(nn.Module):
    """A layer for sequences, and one that makes a table for each record."""

    def __init__(self, use: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.table, self.last = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, 20), nn.Linear(WIDTH, CLASSES)
        self.use = use

    def forward(self, *given: Tensor) -> Tensor:
        return self.use(self, *given)


def loss(m: nn.Module, b: Batch) -> Tensor:
    return F.cross_entropy(m(*b[:-1]), b[-1], reduction="none")


def clipper(model: nn.Module, of: Callable[..., Tensor] = loss, norm: float = C) -> Clipper:
    return Clipper(model, of, dict(model.named_parameters()), norm)


def total(clip: Clipper, batch: Batch, *, without: int | None = None) -> Tensor:
    torch.manual_seed(1)
    found = clip(batch, torch.arange(len(batch[0])) != (-1 if without is None else without))
    return torch.cat([one.double().flatten() for one in found.sums.values()])


def by_a_loop(model: nn.Module, batch: Batch, norm: float) -> Tensor:
    """The clipped sum by ordinary autograd; a record that raises adds nothing."""
    every, found = list(model.parameters()), []
    for place in range(len(batch[0])):
        try:
            value = loss(model, tuple(part[place : place + 1] for part in batch))
        except (IndexError, RuntimeError):
            continue
        parts = torch.autograd.grad(value.sum(), every, allow_unused=True)
        pairs = zip(parts, every, strict=True)
        whole = torch.cat([(torch.zeros_like(of) if one is None else one).double().flatten() for one, of in pairs])
        found.append(whole * min(1.0, norm / float(whole.norm())))
    return torch.stack(found).sum(0)


def rows_of(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.stack([change(row) for row in x])


def packed(m: Any, x: Tensor, lengths: Tensor) -> Tensor:
    """A layer on the steps that are no padding."""
    steps = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    whole, _ = pad_packed_sequence(steps._replace(data=m.layer(steps.data)), batch_first=True)
    return whole.sum(1) / lengths[:, None]


def stretched(m: Any, x: Tensor, lengths: Tensor) -> Tensor:
    """Every step as often as a length says."""
    return rows_of(x, lambda row: m.layer(row.repeat_interleave((row[:, 0] > 2) + 1, 0)).mean(0, keepdim=True))[:, 0]


def spread(m: Any, x: Tensor, lengths: Tensor) -> Tensor:
    return rows_of(x, lambda row: row.sum() * m.layer(row)[torch.repeat_interleave((row[:, 0] > 2) + 1)].mean(0))


def counted(m: Any, x: Tensor, lengths: Tensor) -> Tensor:
    """By an operator that is called by its full name."""
    return rows_of(x, lambda row: m.layer(row).mean(0) * aten.bincount.default((row[:, 0] > 2).long()).sum())


SHAPED = {"packed": packed, "stretched": stretched, "spread": spread, "counted": counted}


@pytest.mark.parametrize("name", SHAPED)
def test_who_shapes_by_values_runs_one_record_at_a_time(name: str) -> None:
    """While all records give the same shape torch takes them together; a record with another would take all along."""
    model = Net(SHAPED[name])
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(ROWS, LENGTH, WIDTH, generator=generator).clamp(max=2), torch.arange(ROWS) % CLASSES
    batch, clip = (x, torch.full((ROWS,), LENGTH), y), clipper(model)
    assert not clip.structure(batch).together
    odd = x.clone()
    odd[2, :2] = 3.0
    other = odd, torch.tensor([5, 5, 3, 5, 5, 5]), y
    for found in (batch, other):
        torch.testing.assert_close(total(clip, found), by_a_loop(model, found, C), rtol=1e-4, atol=1e-6)
    assert (total(clip, other) - total(clip, other, without=2)).norm() <= ROOM


def test_how_often_steps_are_repeated_may_be_public() -> None:
    def use(m: Any, x: Tensor) -> Tensor:
        return m.layer(x.repeat_interleave(torch.tensor([1, 2, 1, 1, 3]), 1).repeat_interleave(2, 1)).mean(1)

    model = Net(use)
    batch, clip = (torch.randn(ROWS, LENGTH, WIDTH), torch.arange(ROWS) % CLASSES), clipper(model)
    assert clip.structure(batch).together
    torch.testing.assert_close(total(clip, batch), by_a_loop(model, batch, C), rtol=1e-4, atol=1e-6)


def in_a_table(look: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Every record makes a table of its own and looks something up."""

    def use(m: Any, x: Tensor, index: Tensor) -> Tensor:
        tables = m.table(x[:, 0]).view(len(x), LENGTH, WIDTH)
        return m.last(torch.stack([look(*pair) for pair in zip(tables, index, strict=True)]).mean(1))

    return use


LOOKS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a function": lambda table, index: F.embedding(index, table),
    "padding": lambda table, index: F.embedding(index, table, padding_idx=2),
    "an operator": lambda table, index: aten.embedding(table, index),
    "its overload": lambda table, index: aten.embedding.default(table, index),
    "its padding": lambda table, index: aten.embedding.default(table, index, 2),
    "names of its own": lambda table, index: aten.gather(self=table, dim=0, index=index[:, None].expand(-1, WIDTH)),
    "filled": lambda table, index: aten.index_fill(table, 0, index, 3.0),
    "filled in place": lambda table, index: aten.index_fill_.int_Scalar(table.clone(), 0, index, 3.0),
}


@pytest.mark.parametrize("name", LOOKS)
def test_an_index_beyond_a_records_own_table_reaches_nobody_elses(name: str) -> None:
    """Some operators ask for no range: inside a level the next record's table lies behind."""
    model = Net(in_a_table(LOOKS[name]))
    generator = torch.Generator().manual_seed(2)
    x, index = torch.randn(ROWS, 1, WIDTH, generator=generator), torch.randint(0, LENGTH, (ROWS, 2))
    index[0] = torch.tensor([2, 1])
    clip, y = clipper(model), torch.arange(ROWS) % CLASSES
    batch = x, index, y
    assert clip.structure(batch).together
    torch.testing.assert_close(total(clip, batch), by_a_loop(model, batch, C), rtol=1e-4, atol=1e-6)
    index[3] = torch.tensor([LENGTH + 2, LENGTH])
    batch, kept = (x, index, y), torch.arange(ROWS) != 3
    torch.testing.assert_close(total(clip, batch), total(clip, batch, without=3))
    rest = tuple(part[kept] for part in batch)
    torch.testing.assert_close(total(clip, batch), by_a_loop(model, rest, C), rtol=1e-4, atol=1e-6)


@pytest.fixture
def regions() -> Iterator[None]:
    """Operators with the names of torchvision's, where that is not installed."""
    if importlib.util.find_spec("torchvision") is not None:
        importlib.import_module("torchvision")
        yield
        return
    library = torch.library.Library("torchvision", "DEF")
    library.define("roi_pick(Tensor input, Tensor rois) -> Tensor")
    library.define("nms_of(Tensor boxes) -> Tensor")
    library.impl("roi_pick", lambda input, rois: input[rois[:, 0].long()], "CompositeImplicitAutograd")
    library.impl("nms_of", lambda boxes: boxes * 1, "CompositeImplicitAutograd")
    yield
    library._destroy()


def test_a_region_names_an_image_of_its_own_record(regions: None) -> None:
    if not hasattr(torch.ops.torchvision, "roi_pick"):
        pytest.skip("the stand-ins are for where torchvision is not installed")
    images, rois = torch.randn(2, 1, 4, 4), torch.zeros(3, 5)
    with InRange():
        rois[:, 0] = torch.tensor([0.0, 1.0, 7.0])
        assert torch.equal(torch.ops.torchvision.roi_pick(images, rois), images[[0, 1, 1]])
    for beyond in (2.0, -1.0, torch.nan, torch.inf):
        rois[:, 0] = beyond
        with Inside(), pytest.raises(IndexError):
            torch.ops.torchvision.roi_pick(images, rois)
    clip = clipper(Net(lambda m, x: m.last(torch.ops.torchvision.nms_of(x)[:, 0])))
    batch = torch.randn(ROWS, 1, WIDTH), torch.arange(ROWS) % CLASSES
    assert not clip.structure(batch).together
    assert "nms_of" in clip.alone_because


@pytest.mark.parametrize("drop", [F.dropout, nn.Dropout(0.5), torch.dropout], ids=["function", "module", "operator"])
def test_dropout_of_a_parameter_trains_it(drop: Any) -> None:
    """DropConnect: which entries fall is each record's own, and the others have their gradient."""

    def use(m: Any, x: Tensor) -> Tensor:
        weight = m.layer.weight
        fallen = drop(weight) if isinstance(drop, nn.Module) else drop(weight, 0.5, True)
        return F.linear(x, fallen, m.layer.bias)

    model = Net(use)
    batch, clip = (torch.randn(ROWS, WIDTH), torch.zeros(ROWS).long()), clipper(model, norm=1e9)
    assert clip.structure(batch).together
    for row in range(ROWS):
        one = tuple(part[row : row + 1] for part in batch)
        torch.manual_seed(1)
        found = clip(one, torch.ones(1, dtype=torch.bool)).sums
        expected = batch[0][row] * found["layer.bias"][:, None]  # for entries that fell: 0 in its place
        kept = found["layer.weight"] != 0
        torch.testing.assert_close(found["layer.weight"][kept], 2 * expected[kept])
        assert 0 < int(kept.sum()) < kept.numel()
    assert clip(batch, torch.ones(ROWS, dtype=torch.bool)).sums["layer.weight"].norm() > 0


def test_other_randomness_inside_an_operation_on_a_parameter_runs_one_record_at_a_time() -> None:
    model = Net(lambda m, x: F.linear(x, torch.native_dropout(m.layer.weight, 0.5, True)[0], m.layer.bias))
    batch, clip = (torch.randn(ROWS, WIDTH), torch.zeros(ROWS).long()), clipper(model, norm=1e9)
    assert not clip.structure(batch).together
    assert "random numbers of every record's own" in clip.alone_because
    found = clip(batch, torch.ones(ROWS, dtype=torch.bool))
    assert found.sums["layer.weight"].norm() > 0
    assert found.norms.isfinite().all()


def score(m: Any, b: Batch) -> Tensor:
    """Sliced score matching: the loss differentiates the network along a random direction."""
    x = b[0].detach().requires_grad_()
    way = torch.randn_like(x)
    found = torch.tanh(m.last(x)) @ m.last.weight
    (slope,) = torch.autograd.grad((found * way).sum(), x, create_graph=True)
    return (way * slope).sum(1) + found.square().sum(1) / 2


def test_a_loss_that_differentiates_along_a_random_direction_runs_one_record_at_a_time() -> None:
    """It was refused: looks at the loss ran without gradients, and did not see that it draws numbers."""
    clip = clipper(Net(lambda m, x: m.last(x)), score)
    batch = (torch.randn(ROWS, WIDTH),)
    assert not clip.structure(batch).together
    assert total(clip, batch).norm() > 0
    assert (total(clip, batch) - total(clip, batch, without=2)).norm() <= ROOM


def test_a_loss_that_differentiates_and_mixes_is_refused() -> None:
    def mixes(m: Any, b: Batch) -> Tensor:
        x = b[0].detach().requires_grad_()
        (slope,) = torch.autograd.grad(m.last(x).square().sum(), x, create_graph=True)
        return (slope - slope.mean(0)).square().sum(1)

    with pytest.raises(BadInput, match="depends on the other examples"):
        clipper(Net(lambda m, x: m.last(x)), mixes).structure((torch.randn(ROWS, WIDTH),))


def test_a_loss_that_follows_a_clock_is_not_said_to_mix_examples() -> None:
    class Plain:
        def run(self, seed: int, function: Callable[[], Tensor]) -> Tensor:
            return function()

    calls, batch = itertools.count(), (torch.randn(ROWS, WIDTH),)
    with pytest.raises(BadInput, match="follow something else too: a clock"):
        probe._apart(lambda b: b[0].sum(1) + (next(calls) > 2), batch, batch, Plain(), 0)


def test_a_loss_that_draws_is_compared_on_single_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that gives a wrong gradient is noticed though random numbers of a batch cannot be compared."""

    def noisy(m: Any, x: Tensor) -> Tensor:
        return m.last(x + torch.randn_like(x))

    batch = torch.randn(ROWS, WIDTH), torch.arange(ROWS) % CLASSES
    assert clipper(Net(noisy)).structure(batch).together
    right = probe.weighted_sums

    def wrong(*given: Any) -> Any:
        return {name: 2 * tensor if name == "last.weight" else tensor for name, tensor in right(*given).items()}

    monkeypatch.setattr(probe, "weighted_sums", wrong)
    clip = clipper(Net(noisy))
    assert not clip.structure(batch).together
    assert clip.alone_because == probe.DISAGREES


def test_gradients_of_outputs_are_held_while_terms_are_known_by_their_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor made in between could have the identity of one that is gone, and terms would share a wrong length."""
    known: list[int] = []

    def rule(record: Record, gradient: Tensor, batch: int) -> Iterator[Any]:
        known.append(id(gradient))
        yield from ()

    monkeypatch.setitem(RULES, torch.sin, rule)
    capture = Capture({}, Level(2))
    one = torch.ones(2, 3)
    many = [Record(torch.sin, (), {}, one, (), frozenset(), 0, lambda tensor: tensor.clone(), ())] * 20
    capture.records.extend(many)
    sums._by_source(capture, [one] * 20, 2)
    assert len(set(known)) == 20


PLACED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda p, row: F.linear(p, row, row[:, 0]), "linear, twice": lambda p, row: F.linear(p[0], row, p[0]),
    "layer norm": lambda p, row: F.layer_norm(p, (WIDTH,), row[0], row[1]),
    "rms norm": lambda p, row: F.rms_norm(p, (WIDTH,), row[0]),
    "group norm": lambda p, row: F.group_norm(p[None], 2, row[0], row[1]),
    "instance norm": lambda p, row: F.instance_norm(p[None], weight=row[0], bias=row[1]),
    "convolution": lambda p, row: F.conv1d(p[None], row[None, :, :3]),
    "transposed convolution": lambda p, row: F.conv_transpose1d(p[None], row[:, None]),
    "where, twice": lambda p, row: torch.where(row > 0, p, p) * row,
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_a_parameter_may_stand_where_data_usually_do(name: str) -> None:
    """The rules of these functions look for parameters in other places, and gave this one no gradient there."""
    weights = torch.linspace(-1, 2, 16)

    def use(m: Any, x: Tensor) -> Tensor:
        every = [PLACED[name](m.start, row).flatten().sin() for row in x]
        return torch.stack([(one * weights[: len(one)]).sum() for one in every])[:, None] * m.last(x[:, 0])

    model = Net(use)
    model.start = nn.Parameter(torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(3)))
    generator = torch.Generator().manual_seed(4)
    batch, clip = (torch.randn(ROWS, 4, WIDTH, generator=generator), torch.arange(ROWS) % CLASSES), clipper(model)
    assert clip.structure(batch).together, clip.alone_because
    torch.testing.assert_close(total(clip, batch), by_a_loop(model, batch, C), rtol=1e-4, atol=1e-6)


STRIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "as_strided": lambda h: h.as_strided((2, 2), (1, 2)), "its operator": lambda h: aten.as_strided(h, (4,), (1,), 0),
    "a copy": lambda h: torch.as_strided_copy(h, (4,), (1,), 0),
}  # fmt: skip
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "in place": lambda h: h.clone().as_strided_((2,), (2,)), "cut": lambda h: h.detach().clone().resize_(2),
    "cut by another": lambda h: aten.resize_as_(h.detach().clone(), torch.zeros(2)),
    "enlarged": lambda h: h.detach().clone().addbmm_(h.mean().expand(1, 2, 1), torch.ones(1, 1, 4)).flatten()[:4],
}  # fmt: skip


def through_memory(change: Callable[[Tensor], Tensor], *, records_last: bool) -> Clipper:
    """A record's hidden numbers, which lie beside those of other records in memory or behind them."""

    def use(m: Any, x: Tensor) -> Tensor:
        hidden = [m.table.weight[:4] @ row if records_last else m.table(row)[:4] for row in x]
        return m.last(x) * torch.stack([(change(h).flatten().sin() * torch.arange(1.0, 5)[: change(h).numel()]).sum()
                                        for h in hidden])[:, None]  # fmt: skip

    return clipper(Net(use))


@pytest.mark.parametrize("name", STRIDES | MOVES)
@pytest.mark.parametrize("records_last", [False, True])
def test_strides_of_a_record_do_not_reach_into_others(name: str, records_last: bool) -> None:
    """Inside a level torch applies them to the memory of all records, which may lie in another order."""
    clip = through_memory((STRIDES | MOVES)[name], records_last=records_last)
    batch = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)), torch.arange(ROWS) % CLASSES
    together = name in STRIDES and not records_last
    assert clip.structure(batch).together == together
    assert clip.alone_because != probe.DISAGREES  # this is seen before anything is compared
    torch.testing.assert_close(total(clip, batch), by_a_loop(clip.model, batch, C), rtol=1e-4, atol=1e-6)


def test_a_slice_in_the_place_of_another_has_its_own_gradient() -> None:
    """Torch's `vmap` sums it over the slices beside it."""
    places = (
        lambda t, s: torch.select_scatter(t, s, 0, 1), lambda t, s: t.select_scatter(s, dim=-2, index=-1),
        lambda t, s: aten.select_scatter.default(t, s, 0, 1),
        lambda t, s: aten.select_scatter(self=t, src=s, dim=0, index=1),
    )  # fmt: skip

    def use(m: Any, x: Tensor) -> Tensor:
        found = [place(m.layer.weight, m.table(row)[:4]) + place(row.outer(row), m.table(row)[4:8])[:3] for row in x
                 for place in places]  # fmt: skip
        return m.last(x) * torch.stack([one.sin().sum() for one in found]).view(len(x), -1).sum(1, keepdim=True)

    clip = clipper(Net(use))
    batch = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)), torch.arange(ROWS) % CLASSES
    assert clip.structure(batch).together, clip.alone_because
    torch.testing.assert_close(total(clip, batch), by_a_loop(clip.model, batch, C), rtol=1e-4, atol=1e-6)


def test_a_made_up_record_without_a_gradient_says_nothing_about_the_others() -> None:
    """Where a logarithm is not defined, a record's NaN was counted into what was compared for all others."""
    clip = clipper(Net(lambda m, x: m.last(x) * x.log().sum(1, keepdim=True)))
    batch = torch.rand(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)) + 0.1, torch.arange(ROWS) % CLASSES
    assert clip.structure(batch).together, clip.alone_because
    torch.testing.assert_close(total(clip, batch), by_a_loop(clip.model, batch, C), rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not hasattr(F, "linear_cross_entropy"), reason="this version of torch is older")
@pytest.mark.parametrize("trained", [False, True])
def test_a_head_and_its_loss_in_one_run_at_once(*, trained: bool) -> None:
    """In parts of its own making it asks which tensors have gradients, and gave none to those of records."""
    head = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(3))

    def lost(m: Any, b: Batch) -> Tensor:
        options, hidden = nn.LinearCrossEntropyOptions(batch_chunk_size=1), m.table(b[0])[:, :WIDTH]
        given = (m.last.weight if trained else head), b[1]
        return F.linear_cross_entropy(hidden, *given, reduction="none", options=options)

    model = Net(lambda m, x: x)
    clip = clipper(model, lost)
    batch = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(2)), torch.arange(ROWS) % CLASSES
    assert clip.structure(batch).together, clip.alone_because
    rows = [clipper(model, lost).alone(tuple(part[row : row + 1] for part in batch), torch.ones(1).bool()).sums
            for row in range(ROWS)]  # fmt: skip
    for name, found in clip(batch, torch.ones(ROWS).bool()).sums.items():
        torch.testing.assert_close(found, sum(one[name] for one in rows), rtol=1e-4, atol=1e-6)
    beyond = batch[0], batch[1].clone()
    beyond[1][2] = CLASSES
    torch.testing.assert_close(total(clip, beyond), total(clip, beyond, without=2))
