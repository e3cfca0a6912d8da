"""Data as people have them: lists, tuples, dicts, frames, Hugging Face data sets, texts of any length, slow items."""

import random
import time
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Buckets, Speed, fit, private
from tacit.train.clip import Clipper
from tacit.train.clip.tree import mapped
from tacit.train.sample.examples import Batch, Examples
from train_zoo import furthest, naive, trainable

ROWS = 40
PLAN = Plan(ROWS, 0.5, 4, 1.0)
X = np.random.default_rng(0).normal(size=(ROWS, 5)).astype(np.float32)
Y = np.arange(ROWS) % 3


def trained(data, **options) -> torch.Tensor:
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    found = fit(model, data, PLAN, rng=3, **options)
    assert all(info.idle == 0 for info in found.history)
    return model.weight.detach()


class Items(Dataset):
    def __init__(self, items) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int):
        return self.items[row]


FORMS = {
    "arrays": (X, Y),
    "lists of numbers": (X.tolist(), Y.tolist()),
    "doubles and small labels": (X.astype(np.float64), Y.astype(np.int8)),
    "a list of pairs": list(zip(X, Y, strict=True)),
    "a list of pairs of plain numbers": list(zip(X.tolist(), Y.tolist(), strict=True)),
    "a list of lists": [[x, int(y)] for x, y in zip(X, Y, strict=True)],
    "a data set": Items(list(zip(torch.from_numpy(X), Y, strict=True))),
    "a list with whole numbers among others": [
        ([1, 2, 3, 4, 5], 0) if row < 2 else (X[row].tolist(), int(Y[row])) for row in range(ROWS)
    ],
}


@pytest.mark.parametrize("name", list(FORMS)[1:-1])
def test_every_form_of_the_same_data_trains_the_same_model(name: str) -> None:
    torch.testing.assert_close(trained(FORMS[name]), trained(FORMS["arrays"]))


class Pair(NamedTuple):
    """A record, or columns, with names."""

    x: np.ndarray
    y: np.ndarray


@pytest.mark.parametrize("data", [Pair(X, Y), [Pair(x, y) for x, y in zip(X, Y, strict=True)]], ids=["columns", "list"])
def test_named_tuples_keep_their_names(data) -> None:
    def loss(model: nn.Module, batch: Pair) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch.x), batch.y, reduction="none")

    torch.testing.assert_close(trained(data, loss=loss), trained(FORMS["arrays"]))


class OneBuffer(Items):
    """Reads every record into the same memory, as readers of files do."""

    buffer = np.zeros(5, np.float32)

    def __getitem__(self, row: int):
        self.buffer[:] = self.items[row]
        return self.buffer, int(Y[row])


@pytest.mark.parametrize("mended", [True, False])
def test_records_that_are_read_into_the_same_memory_stay_apart(mended: bool, monkeypatch) -> None:
    """Otherwise all records of a part are the last one, which contributes as often as there are records."""
    if not mended:
        monkeypatch.setattr("tacit.train.sample.items.mapped", lambda function, rows: _changed(function, rows))
    assert torch.allclose(trained(OneBuffer(X)), trained((X, Y)), atol=1e-5) is mended


def _changed(function, rows):
    return rows if function is torch.Tensor.clone else mapped(function, rows)


def test_numbers_of_several_kinds_are_one_kind() -> None:
    data = FORMS["a list with whole numbers among others"]
    x = np.array([one for one, _ in data], np.float32)
    torch.testing.assert_close(trained(data), trained((x, np.array([y for _, y in data]))))


def words(model: nn.Module, batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")


@pytest.mark.parametrize(
    "data",
    [{"x": X.tolist(), "y": Y.tolist()}, [{"x": x, "y": int(y)} for x, y in zip(X, Y, strict=True)]],
    ids=["columns", "records"],
)
def test_dicts(data) -> None:
    torch.testing.assert_close(trained(data, loss=words), trained(FORMS["arrays"]))


@pytest.mark.needs("pandas")
def test_columns_of_frames() -> None:
    import pandas as pd

    frame = pd.DataFrame(X, index=range(100, 100 + ROWS)).assign(label=Y)
    torch.testing.assert_close(trained((frame.drop(columns="label"), frame["label"])), trained(FORMS["arrays"]))
    named = pd.Series(["a", "b"] * (ROWS // 2))
    with pytest.raises(BadInput, match="no number"):
        fit(nn.Linear(5, 3), (X, named), PLAN)


@pytest.mark.needs("datasets")
@pytest.mark.parametrize("kind", [None, "numpy", "torch"])
def test_hugging_face_data_sets(kind: str | None) -> None:
    import datasets

    data = datasets.Dataset.from_dict({"x": X.tolist(), "y": Y.tolist()}).with_format(kind)
    torch.testing.assert_close(trained(data, loss=words), trained(FORMS["arrays"]), rtol=1e-4, atol=1e-5)


TEXTS = [list(range(1, 1 + int(n))) for n in np.random.default_rng(1).integers(1, 12, ROWS)]
TEXTS[0], TEXTS[1] = [], list(range(1, 30))


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(40, 6), nn.Linear(6, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        kept = (ids != 0).float()[..., None]
        return self.head((torch.tanh(self.embed(ids)) * kept).sum(1) / kept.sum(1).clamp(min=1))


def read(model: nn.Module, batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["input_ids"]), batch["labels"], reduction="none")


LENGTHS = (4, 8, 16)
RECORDS = [{"input_ids": text, "labels": int(y)} for text, y in zip(TEXTS, Y, strict=True)]


def padded(text: list[int], length: int) -> list[int]:
    return text[:length] + [0] * (length - len(text))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_batch_holds_records_of_one_public_length_and_all_of_them(workers: int, fixed: bool) -> None:
    examples = Examples.of(RECORDS, Buckets(LENGTHS), workers)
    index = np.random.default_rng(2).permutation(ROWS)[:33]
    seen: dict[tuple, int] = {}
    for rows, mask in Batch(examples, index, 0, 5, fixed=fixed).parts():
        length = rows["input_ids"].shape[1]
        assert length in LENGTHS
        assert len(mask) == 5 if fixed else len(mask) <= 5
        for ids, label, kept in zip(rows["input_ids"].tolist(), rows["labels"].tolist(), mask.tolist(), strict=True):
            if kept:
                seen[(tuple(ids), label)] = seen.get((tuple(ids), label), 0) + 1
    expected: dict[tuple, int] = {}
    for row in index:
        length = next((one for one in LENGTHS if len(TEXTS[row]) <= one), LENGTHS[-1])
        key = tuple(padded(TEXTS[row], length)), int(Y[row])
        expected[key] = expected.get(key, 0) + 1
    assert seen == expected


def test_the_length_of_a_text_does_not_touch_another() -> None:
    """Removing the longest text moves nothing but its own contribution; a pad to the batch's longest would."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(40, 6), nn.Conv1d(6, 4, 3, padding=1))

    def averaging(m: nn.Module, batch) -> torch.Tensor:
        h = torch.tanh(m[1](m[0](batch["input_ids"]).transpose(1, 2))).mean(2)  # padding counts: its length shows
        return F.cross_entropy(h[:, :3], batch["labels"], reduction="none")

    clipper = Clipper(model, averaging, trainable(model), 0.5)
    examples = Examples.of(RECORDS, Buckets(LENGTHS))

    def total(index) -> dict[str, torch.Tensor]:
        sums: dict[str, torch.Tensor] = {}
        for rows, mask in Batch(examples, np.array(index), 0, 8, fixed=False).parts():
            for name, value in clipper(rows, mask).sums.items():
                sums[name] = sums.get(name, 0) + value
        return sums

    index = [1, 2, 3, 4, 5, 6, 7]
    alone = {"input_ids": torch.tensor([padded(TEXTS[1], 16)]), "labels": torch.tensor([int(Y[1])])}
    own, _ = naive(model, averaging, alone, 0.5)
    with_it, without = total(index), total(index[1:])
    assert furthest({name: with_it[name] - without[name] for name in own}, own) < 1e-4
    # the mutant: one length for all that depends on who is there
    lengths = [max(len(TEXTS[row]) for row in rows) for rows in (index, index[1:])]
    batches = [{"input_ids": torch.tensor([padded(TEXTS[row], one) for row in rows]), "labels": torch.tensor(Y[rows])}
               for rows, one in zip((index, index[1:]), lengths, strict=True)]  # fmt: skip
    moved = [naive(model, averaging, batch, 0.5)[0] for batch in batches]
    assert furthest({name: moved[0][name] - moved[1][name] for name in own}, own) > 1e-2


def test_training_on_texts_of_any_length_and_users() -> None:
    found = fit(Reads(), RECORDS, PLAN, loss=read, collate=Buckets(LENGTHS), rng=0, validation=[*map(dict, RECORDS)])
    assert all(info.idle == 0 for info in found.history)
    assert set(found.evidence.utility) == {"loss"}
    plan = Plan(10, 0.5, 3, 1.0, unit="user")
    ids = np.arange(ROWS) % 10
    found = fit(
        Reads(), RECORDS, plan, loss=read, collate=Buckets(LENGTHS), users=ids, records_per_user=3, rng=0,
        speed=Speed(physical_batch=9),
    )  # fmt: skip
    assert sum(info.idle for info in found.history) == 0


def test_a_user_s_records_have_the_largest_of_their_own_lengths() -> None:
    middle = next(row for row, text in enumerate(TEXTS) if 4 < len(text) <= 8)
    table, shares = np.array([[0, middle], [1, 2]]), np.full((2, 2), 0.5, np.float32)
    examples = Examples.of(RECORDS, Buckets(LENGTHS))
    parts = list(Batch(examples, table, 0, 4, fixed=False, shares=shares).parts())
    assert sorted(tuple(several.rows["input_ids"].shape) for several, _ in parts) == [(1, 2, 8), (1, 2, 16)]


def test_columns_as_a_tokenizer_gives_them() -> None:
    columns = {"input_ids": TEXTS, "labels": Y.tolist()}
    states = []
    for data in (columns, RECORDS):
        torch.manual_seed(0)
        model = Reads()
        fit(model, data, PLAN, loss=read, collate=Buckets(LENGTHS), rng=0)
        states.append(model.head.weight.detach())
    torch.testing.assert_close(*states)


def test_texts_are_prepared_one_by_one() -> None:
    def tokenise(item) -> dict:
        return {"input_ids": [ord(letter) % 39 + 1 for letter in item["text"]], "labels": item["label"]}

    data = [{"text": "x" * (row % 9), "label": row % 3} for row in range(ROWS)]
    with pytest.raises(BadInput, match="str, which is no number"):
        fit(Reads(), data, PLAN, loss=read)
    found = fit(Reads(), data, PLAN, loss=read, collate=Buckets(LENGTHS, prepare=tokenise), rng=0)
    assert len(found.history) == PLAN.steps


def test_a_collate_is_given_one_record_at_a_time() -> None:
    sizes = []

    def collate(items: list) -> dict:
        sizes.append(len(items))
        return {"x": torch.tensor(np.stack([x for x, _ in items])), "y": torch.tensor([int(y) for _, y in items])}

    torch.testing.assert_close(trained(FORMS["a list of pairs"], loss=words, collate=collate), trained((X, Y)))
    assert set(sizes) == {1}


def test_a_record_that_cannot_be_read_contributes_nothing_and_stops_nothing() -> None:
    class Broken(Items):
        def __getitem__(self, row: int):
            if row == 7:
                raise OSError("a file of somebody")
            return (X[row, :3], 0) if row == 8 else (X[row], int(Y[row]))

    found = fit(nn.Linear(5, 3), Broken(X), Plan(ROWS, 1.0, 2, 1.0, sampling="full"), rng=0)
    assert [info.idle for info in found.history] == [2, 2]
    kept = np.delete(np.arange(ROWS), [7, 8])
    model = nn.Linear(5, 3)
    batches = [Batch(Examples.of(data), np.arange(len(data)), 0, 64, fixed=True) for data in
               (Broken(X), Items([(X[row], int(Y[row])) for row in kept]))]  # fmt: skip
    clipper = Clipper(model, lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="none"), trainable(model), 0.5)
    sums = [clipper(*next(iter(batch.parts()))).sums for batch in batches]
    assert furthest(*sums) < 1e-6


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([(X[row, : 1 + row % 4], 0) for row in range(ROWS)], "differ in shape"),
        ({"input_ids": TEXTS, "labels": Y.tolist()}, "differ in shape"),
        ([object()] * ROWS, "Items|Data hold"),
        ({"x": X.tolist(), "y": [1, 2]}, "same number of rows"),
        ("data.csv", "got str"),
        (torch.utils.data.DataLoader(Items(X)), "got DataLoader"),
    ],
)
def test_what_cannot_be_data_is_said_before_anything_is_paid(data, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        fit(nn.Linear(5, 3), data, PLAN)


@pytest.mark.parametrize("wrong", [(), (0,), (2.5,)])
def test_lengths_are_whole_numbers(wrong) -> None:
    with pytest.raises(BadInput):
        Buckets(wrong)


def test_buckets_say_when_they_find_no_sequence() -> None:
    with pytest.raises(BadInput, match="no sequence"):
        fit(nn.Linear(5, 3), [{"x": X[0], "y": 0}] * ROWS, PLAN, collate=Buckets(LENGTHS), loss=words)


class Slow(Items):
    """Waits where a disk would, and draws random numbers of every kind, as transforms do."""

    def __getitem__(self, row: int):
        time.sleep(0.002)
        noise = torch.rand(5) + random.random() + np.random.rand()
        return torch.from_numpy(X[row]) + 0.01 * noise, int(Y[row])


def test_workers_keep_the_order_and_repeat_with_the_seed() -> None:
    torch.testing.assert_close(trained(FORMS["a data set"], speed=Speed(workers=2)), trained((X, Y)))
    found = [trained(Slow(X), speed=Speed(workers=2, physical_batch=7)) for _ in range(2)]
    assert torch.equal(*found)


def test_workers_that_cannot_read_are_said() -> None:
    import multiprocessing

    class Here(Items):
        def __getitem__(self, row: int):
            if multiprocessing.parent_process() is not None:
                raise RuntimeError("cannot be used in another process")
            return X[row], int(Y[row])

    with pytest.raises(BadInput, match="Worker processes cannot read"):
        fit(nn.Linear(5, 3), Here(X), PLAN, speed=Speed(workers=1))


def test_compiled_steps_take_buckets(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = Reads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = private(model, optimizer, PLAN, loss=read, speed=Speed(compile=True), rng=0)
    infos = [step(batch) for batch in step.batches(RECORDS, collate=Buckets(LENGTHS))]
    assert all(info.idle == 0 for info in infos)


def test_a_run_on_texts_goes_on_from_its_checkpoint_and_on_no_other_texts(tmp_path) -> None:
    from tacit.train import checkpoint as checkpoints

    def make():
        torch.manual_seed(0)
        model = Reads()
        return private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, loss=read, rng=0)

    step = make()
    batches = step.batches(RECORDS, collate=Buckets(LENGTHS))
    step(next(batches))
    kept = checkpoints.write(step.state_dict(), tmp_path / "run.secret")
    resumed = make()
    resumed.load_state_dict(checkpoints.read(kept))
    with pytest.raises(BadInput, match="other data"):
        resumed.batches(RECORDS[::-1], collate=Buckets(LENGTHS))
    assert len([resumed(batch) for batch in resumed.batches(RECORDS, collate=Buckets(LENGTHS))]) == PLAN.steps - 1
