"""Values at which torch's operations raise, stop a GPU or read beside a tensor, and calls by the names of arguments.

Truth is a loop over single records by ordinary autograd.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.train.clip import Clipper
from tacit.train.clip.capture import domains
from tacit.train.clip.capture.ranges import InRange, Inside
from tacit.train.clip.rounding import ROUNDING

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, LENGTH, CLASSES, ROWS, C = 4, 3, 3, 5, 0.1
ROOM = C * (1 + ROUNDING["float32"])
aten = torch.ops.aten
Batch = tuple[Tensor, ...]
Use = Callable[..., Tensor]


class Net(nn.Module):
    """A layer, some bare parameters, and a function of them and of a batch of one."""

    def __init__(self, use: Use) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.weight = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.randn(CLASSES, WIDTH))
        self.kernel, self.pairs = nn.Parameter(torch.randn(2, WIDTH, 2)), nn.Parameter(torch.randn(2, WIDTH, WIDTH))
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.use = use

    def forward(self, *given: Tensor) -> Tensor:
        return torch.cat([self.use(self, *(part[None] for part in row)) for row in zip(*given, strict=True)])


def loss(m: nn.Module, b: Batch) -> Tensor:
    return m(*b)


def clipper(use: Use) -> Clipper:
    model = Net(use)
    return Clipper(model, loss, dict(model.named_parameters()), C)


def total(clip: Clipper, batch: Batch, *, without: int = -1) -> Tensor:
    torch.manual_seed(1)
    found = clip(batch, torch.arange(len(batch[0])) != without)
    return torch.cat([one.double().flatten() for one in found.sums.values()])


def by_a_loop(clip: Clipper, batch: Batch) -> Tensor:
    """The clipped sum; a record that raises, or whose gradient is not finite, adds nothing."""
    every = list(clip.parameters.values())
    found = torch.zeros(sum(one.numel() for one in every), dtype=torch.float64)
    for place in range(len(batch[0])):
        try:
            value = loss(clip.model, tuple(part[place : place + 1] for part in batch))
        except (IndexError, RuntimeError):
            continue
        parts = zip(torch.autograd.grad(value.sum(), every, allow_unused=True), every, strict=True)
        whole = torch.cat([(torch.zeros_like(of) if one is None else one).double().flatten() for one, of in parts])
        if whole.isfinite().all():
            found += whole * min(1.0, C / max(float(whole.norm()), 1e-30))
    return found


def near(found: Tensor, expected: Tensor) -> None:
    assert expected.norm() > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def sequences(seed: int = 2) -> Tensor:
    return torch.randn(ROWS, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))


# Calls by the names of arguments

NAMED: dict[str, Use] = {
    "linear": lambda m, x: F.linear(weight=m.weight, input=x).tanh().sum((1, 2)),
    "conv1d": lambda m, x: torch.conv1d(input=x.mT, weight=m.kernel).tanh().sum((1, 2)),
    "matmul": lambda m, x: torch.matmul(input=x, other=m.weight.T).tanh().sum((1, 2)),
    "mm": lambda m, x: torch.mm(x[:, 0], mat2=m.weight.T).tanh().sum(1),
    "addmm": lambda m, x: torch.addmm(input=m.layer.bias, mat1=x[:, 0], mat2=m.weight.T).tanh().sum(1),
    "bilinear": lambda m, x: F.bilinear(input1=x, input2=x.sin(), weight=m.pairs).tanh().sum((1, 2)),
    "cat": lambda m, x: torch.cat(tensors=[x[0], m.weight], dim=0).tanh().sum()[None],
    "masked_fill": lambda m, x: torch.masked_fill(input=x * m.scale, mask=x > 0, value=m.scale[0]).sin().sum((1, 2)),
    "take": lambda m, x: torch.take(input=x * m.scale, index=x.argmax()[None]),
    "max": lambda m, x: torch.max(input=m.layer(x))[None],
    "aten.max": lambda m, x: aten.max.default(self=m.layer(x))[None],
}


@pytest.mark.parametrize("name", NAMED)
def test_arguments_may_be_given_by_name(name: str) -> None:
    clip = clipper(NAMED[name])
    batch = (sequences(),)
    assert clip.structure(batch).together, clip.alone_because
    near(total(clip, batch), by_a_loop(clip, batch))


def test_an_empty_list_beside_tensors_of_any_shape() -> None:
    clip = clipper(lambda m, x: torch.cat([torch.zeros(0), m.layer(x), m.weight[None]], -1).tanh().sum((1, 2)))
    batch = (sequences(),)
    assert clip.structure(batch).together
    near(total(clip, batch), by_a_loop(clip, batch))


# Several largest numbers

EXTREMES: dict[str, Callable[[Tensor], Tensor]] = {
    "method": lambda h: h.max(), "function": lambda h: torch.min(h), "operator": lambda h: aten.max(h),
    "overload": lambda h: aten.min.default(h), "along an axis": lambda h: h.max(-1).values.sum(),
    "of two": lambda h: torch.max(h, h.flip(-1)).sum(), "in vmap": lambda h: torch.vmap(lambda row: row.max())(h).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_the_gradient_of_several_largest_numbers_is_that_of_the_record_alone(name: str) -> None:
    """Torch's `vmap` gives the whole of it to one of them: the sum was off by 0.3 C for each such record."""
    clip = clipper(lambda m, x: EXTREMES[name](x[0] * m.scale)[None])
    x = sequences().sign()
    assert clip.structure((x,)).together
    near(total(clip, (x,)), by_a_loop(clip, (x,)))


# Values outside of a domain


def chances(m: Any, x: Tensor, y: Tensor) -> Tensor:
    """Soft or several labels, as a network with a sigmoid at its end learns them."""
    return F.binary_cross_entropy(m.layer(x).sigmoid(), y, reduction="none").mean((1, 2))


def chosen(m: Any, x: Tensor, y: Tensor) -> Tensor:
    return (m.layer(x) * torch.bernoulli(y)).sum((1, 2))


def drawn(m: Any, x: Tensor, y: Tensor) -> Tensor:
    return m.layer(x)[0].flatten()[torch.multinomial(y[0].flatten(), 2)].sum()[None]


def scattered(m: Any, x: Tensor, y: Tensor) -> Tensor:
    return m.layer(x).masked_scatter(y > 0.9, x[0, :2, 0]).tanh().sum((1, 2))


@pytest.mark.parametrize("use", [chances, scattered], ids=["chances", "scattered"])
def test_values_outside_of_a_domain_concern_their_record_alone(use: Use) -> None:
    """Targets that are fractions were refused: those of made-up records are not between 0 and 1."""
    clip, x = clipper(use), sequences()
    y = torch.rand(ROWS, LENGTH, CLASSES, generator=torch.Generator().manual_seed(3)) * 0.8
    assert clip.structure((x, y)).together
    near(total(clip, (x, y)), by_a_loop(clip, (x, y)))
    kept = torch.arange(ROWS) != 2
    for value in (torch.nan, -0.1, 3.0):
        other = y.clone()
        other[2] = value
        torch.testing.assert_close(total(clip, (x, other)), total(clip, (x, other), without=2), rtol=0, atol=ROOM)
        near(total(clip, (x, other), without=2), by_a_loop(clip, (x[kept], y[kept])))
        near(total(clip, (x, other)), by_a_loop(clip, (x, other)))


OUTSIDE: dict[str, Callable[[Tensor], object]] = {
    "binary cross-entropy": lambda v: F.binary_cross_entropy(v, torch.rand(2, 3)),
    "its operator": lambda v: aten.binary_cross_entropy(v, torch.rand(2, 3)),
    "bernoulli": torch.bernoulli, "its method": lambda v: v.bernoulli(),
    "bernoulli in place": lambda v: torch.zeros(2, 3).bernoulli_(v), "multinomial": lambda v: torch.multinomial(v, 2),
    "multinomial by name": lambda v: v.multinomial(num_samples=2), "poisson": torch.poisson,
    "masked_scatter": lambda v: torch.zeros(2, 3).masked_scatter(~(v == 0.5), torch.zeros(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_would_stop_a_gpu_is_replaced_before_the_operation_runs(name: str) -> None:
    values = torch.full((2, 3), 0.5)
    with Inside():
        OUTSIDE[name](values)
    for wrong in (torch.nan, -1.0):
        values[1] = wrong
        with InRange():
            OUTSIDE[name](values)
        with Inside(), pytest.raises(IndexError, match="An index is out of range"):
            OUTSIDE[name](values)


@pytest.mark.parametrize("use", [chosen, drawn], ids=["chosen", "drawn"])
def test_probabilities_that_are_none_concern_their_record_alone(use: Use) -> None:
    clip, x, y = clipper(use), sequences(), torch.rand(ROWS, LENGTH, CLASSES)
    assert clip.structure((x, y)).together
    y[2] = torch.nan
    near(total(clip, (x, y)), total(clip, (x, y), without=2))


def test_targets_are_asked_where_torch_asks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "_targets_too", lambda: False)
    args, _, off = domains.MENDS[F.binary_cross_entropy]((torch.rand(2), torch.tensor([2.0, 0.0])), {}, Every(1))
    assert off is not None
    assert not off.any()
    assert args[1].tolist() == [2.0, 0.0]


class Every(domains.Level):
    def owns(self, tensor: Tensor) -> bool:
        return True

    def direct(self, tensor: Tensor) -> bool:
        return True

    def all(self, tensor: Tensor) -> Tensor:
        return tensor


# Indices

INDEXED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "index_put": lambda t, i: t.index_put((i,), t[0]),
    "index_put by name": lambda t, i: torch.index_put(input=t, indices=[i], values=t[0], accumulate=True),
    "index_put in place": lambda t, i: t.clone().index_put_((i,), t[0]),
    "operator": lambda t, i: aten.index_put(t, [i], t[0]),
    "with a whole axis": lambda t, i: aten.index(t.mT, [None, i]),
    "unsafe": lambda t, i: aten._unsafe_index(t, [i]), "put": lambda t, i: t.put(i * WIDTH, t[0, :2]),
    "put in place": lambda t, i: t.clone().put_(index=i * WIDTH, source=t[0, :2]),
    "index_reduce": lambda t, i: t.index_reduce(0, i, t[:2], "prod"), "take": lambda t, i: t.take(index=i * WIDTH),
    "unpooling": lambda t, i: F.max_unpool1d(t[:1, :2], i[None] * 2 + torch.arange(2), 3),
    "within vmap": lambda t, i: torch.vmap(lambda one: t[one])(i),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXED)
def test_every_function_with_an_index_looks_before_it_runs(name: str) -> None:
    def use(m: Any, x: Tensor, index: Tensor) -> Tensor:
        return INDEXED[name](x[0] * m.scale, index[0]).sin().sum()[None]

    clip, x, index = clipper(use), sequences(), torch.tensor([[0, 2]] * ROWS)
    assert clip.structure((x, index)).together
    near(total(clip, (x, index)), by_a_loop(clip, (x, index)))
    for beyond in (LENGTH, -LENGTH - 3, 10**6):
        index[2, 1] = beyond
        near(total(clip, (x, index)), total(clip, (x, index), without=2))
        with Inside(), pytest.raises(IndexError, match="An index is out of range"):
            INDEXED[name](x[0], index[2])


def test_operators_that_do_not_look_are_refused() -> None:
    """One reached the next record's table, and others ended the process."""

    def looked_up(m: Any, x: Tensor, index: Tensor) -> Tensor:
        return aten.embedding_dense_backward(m.layer(x)[0], index[0], 5, -1, False).sin().sum()[None]

    def summed(m: Any, x: Tensor, index: Tensor) -> Tensor:
        return torch.segment_reduce(m.layer(x)[0, 0], "sum", lengths=index[0], unsafe=True).sin().sum()[None]

    batch = sequences(), torch.tensor([[0, 2, 1]] * ROWS)
    for use in (looked_up, summed):
        with pytest.raises(BadInput, match="reads memory where numbers of a record say"):
            clipper(use).structure(batch)
        with Inside(), pytest.raises(BadInput, match="reads memory where numbers of a record say"):
            use(Net(use), *batch)


def test_a_segment_ends_inside_its_own_record() -> None:
    """Torch does not look at offsets: one read the next records' numbers, and a large one ended the process."""

    def use(m: Any, x: Tensor, offsets: Tensor) -> Tensor:
        return torch.segment_reduce(m.layer(x)[0, 0], "sum", offsets=offsets[0], axis=0).sin().sum()[None]

    clip, x, offsets = clipper(use), sequences(), torch.tensor([[0, 2, CLASSES]] * ROWS)
    assert clip.structure((x, offsets)).together
    near(total(clip, (x, offsets)), by_a_loop(clip, (x, offsets)))
    rest = total(clip, (x, offsets), without=2)
    for beyond in (CLASSES + 2, 10**9, -1):
        offsets[2, 2] = beyond
        near(total(clip, (x, offsets)), rest)
    for wrong in ({"offsets": torch.tensor([0, CLASSES + 1])}, {"lengths": torch.tensor([4, 2**63 - 1, 2**63 - 1, 1])}):
        with Inside(), pytest.raises(IndexError, match="An index is out of range"):
            torch.segment_reduce(torch.ones(CLASSES), "sum", **wrong)


@pytest.mark.parametrize("asked", [{}, {"check_invariants": False}], ids=["as it is", "unchecked"])
def test_a_sparse_tensor_is_looked_at_before_it_is_read(asked: dict[str, bool]) -> None:
    """Its indices are a record's: torch does not look at them by itself, and the process ended."""

    def use(m: Any, x: Tensor, ends: Tensor, columns: Tensor) -> Tensor:
        near_by = torch.sparse_csr_tensor(ends[0], columns[0], torch.ones(LENGTH), (LENGTH, LENGTH), **asked)
        return (near_by @ m.layer(x)[0]).tanh().sum()[None]

    for mode in (Inside(), InRange()):
        with mode, pytest.raises(RuntimeError, match="is not satisfied"):
            torch.sparse_csr_tensor(torch.arange(LENGTH + 1), torch.arange(LENGTH) + 1, torch.ones(3), (3, 3), **asked)
    x, ends, columns = sequences(), torch.arange(LENGTH + 1).repeat(ROWS, 1), torch.tensor([[1, 2, 0]] * ROWS)
    with pytest.raises(BadInput, match="is not satisfied"):
        clipper(use).structure((x, ends, columns))

    def of_public_rows(m: Any, x: Tensor, columns: Tensor) -> Tensor:
        return use(m, x, torch.arange(LENGTH + 1)[None], columns)

    clip = clipper(of_public_rows)
    near(total(clip, (x, columns)), by_a_loop(clip, (x, columns)))
    columns[2, 0] = 10**6
    near(total(clip, (x, columns)), total(clip, (x, columns), without=2))
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()


def test_offsets_that_begin_at_zero_are_made_up() -> None:
    def use(m: Any, ids: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(ids[0], m.weight, offsets[0], mode="sum").tanh().sum()[None]

    clip, batch = clipper(use), (torch.tensor([[0, 2, 1]] * ROWS), torch.tensor([[0, 2]] * ROWS))
    near(total(clip, batch), by_a_loop(clip, batch))


@pytest.mark.parametrize("called", ["function", "by name", "operator"])
@pytest.mark.parametrize("offsets", [[0, 3, 1], [0, 1, 9], [1, 2, 3], [0, -1, 2]])
def test_offsets_of_bags_are_looked_at_before_torch_reads_by_them(called: str, offsets: list[int]) -> None:
    """On a GPU torch reads and writes beside its tensors, or ends the process."""
    table, ids = torch.randn(5, 2), torch.tensor([0, 1, 4])

    def bags(given: list[int]) -> Tensor:
        if called == "operator":
            return aten._embedding_bag(table, ids, torch.tensor(given))[0]
        if called == "by name":
            return F.embedding_bag(input=ids, weight=table, offsets=torch.tensor(given), mode="sum")
        return F.embedding_bag(ids, table, torch.tensor(given), mode="sum")

    with Inside():
        torch.testing.assert_close(bags([0, 1, 3])[:2], torch.stack((table[0], table[1] + table[4])))
    with Inside(), pytest.raises(IndexError, match="An index is out of range"):
        bags(offsets)
    with InRange():
        assert bags(offsets).isfinite().all()


@pytest.mark.parametrize("wrong", [[0, 9], [1, 2], [0, -1]])
def test_wrong_offsets_of_bags_concern_their_record_alone(wrong: list[int]) -> None:
    def use(m: Any, x: Tensor, offsets: Tensor) -> Tensor:
        rows = F.embedding_bag(torch.tensor([0, 2, 1]), x[0].detach(), offsets[0], mode="sum")
        return m.layer(rows).tanh().sum()[None]

    clip, x, offsets = clipper(use), sequences(), torch.tensor([[0, 2]] * ROWS)
    near(total(clip, (x, offsets)), by_a_loop(clip, (x, offsets)))
    offsets[2] = torch.tensor(wrong)
    near(total(clip, (x, offsets)), total(clip, (x, offsets), without=2))


def test_a_parameter_may_have_a_domain() -> None:
    """Weights that are moved for a comparison left it, and what torch said of that came out."""

    def use(m: Any, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy(m.chance, y[0, 0], weight=x[0, 0, :CLASSES] ** 2, reduction="sum")[None]

    model = Net(use)
    model.chance = nn.Parameter(torch.full((CLASSES,), 0.001))
    y = torch.rand(ROWS, 1, CLASSES, generator=torch.Generator().manual_seed(3))
    clip = Clipper(model, lambda m, b: m(*b), dict(model.named_parameters()), C)
    near(total(clip, (sequences(), y)), by_a_loop(clip, (sequences(), y)))
