"""One record of an odd type, shape or id: it contributes nothing, and nobody else is treated otherwise."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import private
from tacit.train.sample.collate import usual_kind
from tacit.train.sample.columns import as_tensors
from tacit.train.sample.items import reader
from tacit.train.sample.users import Users

ROWS = 24
PLAN = Plan(ROWS, 1.0, 1, 1e-6, sampling="full")
X = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 3


def summed(data) -> tuple[torch.Tensor, int]:
    """The clipped sum of all records, with noise that is far below it, and how many were idle."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), PLAN, rng=1)
    (info,) = [step(batch) for batch in step.batches(data)]
    return torch.cat([tensor.grad.flatten() for tensor in model.parameters()]) * PLAN.expected_batch, info.idle


def with_(values, odd, place: int) -> list:
    return [*values[:place], odd, *values[place + 1 :]]


class Panic(BaseException):
    """As libraries written in Rust raise."""


class Raises(list):
    def __getitem__(self, row):
        if row == 0:
            raise Panic
        return super().__getitem__(row)


RECORDS = [(x, int(y)) for x, y in zip(X.tolist(), Y, strict=True)]
ODD_RECORDS = {
    "a fraction for a label": (X[0].tolist(), 1.5),
    "no memory": (torch.zeros(4, device="meta"), 1),
    "nested": (torch.nested.nested_tensor([X[0]], layout=torch.jagged), 1),
    "complex": (X[0].to(torch.complex64), 1),
}
ODD_LABELS = {"a fraction": 1.0, "nothing": None, "too large": 2**63, "a word": "a", "not a number": float("nan")}
EVEN_RECORDS = {
    "sparse": (X[0].to_sparse(), 0),
    "in double precision": (X[0].double(), 0),
    "with a gradient": (X[0].clone().requires_grad_(), 0),
    "an unusual whole number": (X[0], torch.tensor(0, dtype=torch.uint16)),
}


@pytest.fixture(scope="module")
def sums() -> dict[str, torch.Tensor]:
    masked = Y.clone()
    masked[0] = -100
    return {"all": summed((X, Y))[0], "without the first": summed((X, masked))[0]}


@pytest.mark.parametrize("kind", ODD_RECORDS)
def test_an_odd_record_leaves_the_others_alone(kind: str, sums) -> None:
    found, idle = summed(with_(RECORDS, ODD_RECORDS[kind], 0))
    assert idle == 1
    torch.testing.assert_close(found, sums["without the first"], atol=1e-4, rtol=0)


def test_a_record_that_panics_leaves_the_others_alone(sums) -> None:
    found, idle = summed(Raises(RECORDS))
    assert idle == 1
    torch.testing.assert_close(found, sums["without the first"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ODD_LABELS)
def test_an_odd_element_of_a_column_leaves_the_others_alone(kind: str, sums) -> None:
    found, idle = summed((X, with_(Y.tolist(), ODD_LABELS[kind], 0)))
    assert idle == 1
    torch.testing.assert_close(found, sums["without the first"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", EVEN_RECORDS)
def test_a_record_whose_numbers_can_be_read_takes_part(kind: str, sums) -> None:
    found, idle = summed(with_(RECORDS, EVEN_RECORDS[kind], 0))
    assert idle == 0
    torch.testing.assert_close(found, sums["all"], atol=1e-4, rtol=0)


def test_the_kind_of_numbers_is_what_two_records_have() -> None:
    whole, wide, odd = torch.int64, torch.float32, torch.uint16
    assert usual_kind([wide, whole, whole]) is whole
    assert usual_kind([wide, whole, wide, whole]) is wide
    assert usual_kind([odd, odd, whole, whole, whole]) is whole  # torch does not compare these


@pytest.mark.parametrize(
    "columns",
    [(list(X), Y), (list(X.numpy()), Y), (X, list(Y)), (X, tuple(Y.tolist())), ([*X[:-1].tolist(), X[-1]], Y)],
    ids=["tensors", "arrays", "single numbers", "a tuple of numbers", "one tensor among lists"],
)
def test_lists_of_tensors_are_columns_of_records(columns, sums) -> None:
    found, idle = summed(columns)
    assert idle == 0
    torch.testing.assert_close(found, sums["all"], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "data",
    [(X, Y.to(torch.uint16)), (X, Y.to(torch.uint32)), [(x, y) for x, y in zip(X, Y.to(torch.uint64), strict=True)],
     (X.numpy().astype(">f4"), Y.numpy().astype(">i8"))],
    ids=["uint16", "uint32", "records", "other byte order"],
)  # fmt: skip
def test_numbers_of_unusual_kinds_are_read(data, sums) -> None:
    found, idle = summed(data)
    assert idle == 0
    torch.testing.assert_close(found, sums["all"], atol=1e-4, rtol=0)


def test_a_record_that_cannot_be_read_takes_no_other_of_its_user_away() -> None:
    def by_logarithm(model: nn.Module, batch) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0].log()), batch[1], reduction="none")

    records = [(x, y) for x, y in zip(X.abs() + 0.1, Y, strict=True)]
    ids, plan = [0, 0, 0, *range(1, ROWS - 2)], Plan(ROWS - 2, 1.0, 1, 1e-6, sampling="full", unit="user")
    found = []
    for odd in ((None, 1), (records[1][0], torch.tensor(-100))):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, rng=1, loss=by_logarithm)
        batches = step.batches(with_(records, odd, 1), users=ids, records_per_user=3)
        assert [step(batch).idle for batch in batches] == [0]
        found.append(model.weight.grad)
    torch.testing.assert_close(*found, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "data", [X.to_sparse(), X.to("meta"), torch.nested.nested_tensor(list(X), layout=torch.jagged)]
)
def test_tensors_whose_rows_cannot_be_drawn_are_refused(data: torch.Tensor) -> None:
    with pytest.raises(BadInput, match="sparse, nested"):
        as_tensors((data, Y))


def test_what_has_no_rows_is_no_constant() -> None:
    """It would reach every record's loss whole."""
    from scipy.sparse import csr_matrix

    with pytest.raises(BadInput, match="rows cannot be drawn"):
        as_tensors((csr_matrix(X.numpy()), Y))
    assert as_tensors((X, Y, 0.5))[2] == 0.5


def test_an_error_about_records_does_not_hold_what_they_say() -> None:
    with pytest.raises(BadInput, match=r"tensors \(ValueError\)") as caught:
        reader(Speaks(), 5, None)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


class Speaks:
    def __getitem__(self, row):
        raise ValueError("Alice's diagnosis")


LARGE = [2**60 + place for place in range(6)]


@pytest.mark.parametrize("odd", [float("nan"), None, 0.5, "x", 10**5000, [1, 2]], ids=range(6))
def test_one_id_neither_merges_other_users_nor_splits_them(odd) -> None:
    found = Users.of([*LARGE, 1, 1.0, odd], 2, 9)
    own = sorted(tuple(records.tolist()) for records in found.records)
    assert [records for records in own if 8 not in records] == [(0,), (1,), (2,), (3,), (4,), (5,), (6, 7)]


@pytest.mark.needs("pandas")
@pytest.mark.needs("polars")
def test_a_missing_id_in_a_frame_merges_no_users() -> None:
    import pandas as pd
    import polars as pl

    for column in (pd.Series([*LARGE, None], dtype="Int64"), pl.Series([*LARGE, None])):
        assert len(Users.of(column, 2, 7).records) == 6
        assert as_tensors((torch.zeros(7, 1), column))[1][:6] == LARGE


@pytest.mark.needs("pyarrow")
def test_a_missing_value_in_an_arrow_column_or_under_a_mask_is_one_records_own(sums) -> None:
    """NumPy's view of an Arrow column with one missing number makes fractions of all; of a masked one, no mask."""
    import pyarrow as pa

    labels = with_(Y.tolist(), None, 0)
    hidden = np.ma.array(with_(Y.tolist(), 2, 0), mask=[row == 0 for row in range(ROWS)])
    for column in (pa.array(labels), pa.chunked_array([labels]), hidden):
        found, idle = summed((X, column))
        assert idle == 1
        assert torch.allclose(found, sums["without the first"], atol=1e-4)
    masked = np.ma.array([*LARGE, 1], mask=[False] * 6 + [True])
    for ids in (pa.array([*LARGE, None]), pa.chunked_array([LARGE, [None]]), masked):
        assert len(Users.of(ids, 2, 7).records) == 6


def test_ids_that_are_equal_numbers_are_one_user_and_none_raises() -> None:
    class Raises:
        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    ids = [Decimal("5.0"), Decimal("5.00"), Fraction(5), 5, 5.0, True, 1, Decimal("sNaN"), Raises()]
    assert sorted(map(len, Users.of(ids, 2, len(ids)).records)) == [2, 5]


def test_so_many_records_of_a_user_that_memory_would_end_are_refused_before_the_charge():
    """The text of numpy's error held how large the sample was."""
    x, y = torch.zeros(20, 2), torch.zeros(20, dtype=torch.long)
    model = nn.Linear(2, 2)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(20, 0.5, 3, 1.0, unit="user"))
    with pytest.raises(BadInput, match="records_per_user must be at most 16,384"):
        step.batches((x, y), users=np.arange(20), records_per_user=10**9)
