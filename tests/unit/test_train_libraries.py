"""One record at a time, with code of installed libraries: what it names is put back, and only what it names matters."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import train_kept_library as library
from tacit.core import BadInput
from tacit.train.clip import Clipper
from tacit.train.clip.isolation import Surroundings, kinds
from train_mixing import CLASSES, WIDTH, Net, each

pytestmark = pytest.mark.filterwarnings("ignore")
C = 0.1
GENERATOR = torch.Generator().manual_seed(3)
RECORDS = torch.randn(3, WIDTH, generator=GENERATOR).clamp(max=2), torch.randint(CLASSES, (3,), generator=GENERATOR)
RECORDS[0][0] = 4.0
RECORDS = torch.cat((RECORDS[0], torch.full((1, WIDTH), -4.0))), torch.cat((RECORDS[1], RECORDS[1][:1]))
CACHED = kinds.installed, kinds.of_a_user_class


@pytest.fixture(autouse=True)
def as_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kinds, "PLACES", (*kinds.PLACES, str(library.__file__)))
    for cache in CACHED:
        cache.cache_clear()
    yield
    for cache in CACHED:
        cache.cache_clear()
    library.SEEN.clear()
    library.TOTAL = 0.0
    library.PUT(0.0)


def keeping(put: Callable[[float], object], get: Callable[[], float]) -> Any:
    def loss(m: nn.Module, b: Any) -> Tensor:
        shift = get()
        if bool((b[0] > 3.9).any()):
            put(float(b[0].sum()))
        return each(m(b[0] - shift), b[1])

    return loss


def clipper_of(loss: Any) -> Clipper:
    torch.manual_seed(0)
    model = Net()
    return Clipper(model, loss, dict(model.named_parameters()), C)


def total(clipper: Clipper, *rows: int) -> Tensor:
    batch = tuple(tensor[list(rows)] for tensor in RECORDS)
    sums = clipper(batch, torch.ones(len(rows), dtype=torch.bool)).sums
    return torch.cat([part.double().flatten() for part in sums.values()])


def moved(loss: Any) -> float:
    """How far the first record moves the sum, or the sum of later steps, in clip norms."""
    clipper = clipper_of(loss)
    without, whole = total(clipper, 1, 2), total(clipper, 0, 1, 2)
    return max(float((whole - without).norm()), float((total(clipper, 1, 2) - without).norm()) * 100) / C


WAYS = {
    "variables": (lambda value: library.remember(value), lambda: library.remembered()),
    "enclosed": (lambda value: library.PUT(value), lambda: library.GET()),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_library_keeps_is_put_back(way: str) -> None:
    assert moved(keeping(*WAYS[way])) < 1.02
    assert (library.SEEN, library.TOTAL, library.GET()) == ([], 0.0, 0.0)


@pytest.mark.parametrize("way", WAYS)
def test_mutant_nobody_looks_at_what_is_called(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Surroundings, "_traced", lambda self, function: function())
    assert moved(keeping(*WAYS[way])) > 1.1


def test_an_object_that_cannot_be_put_back_is_refused_only_where_code_that_names_it_is_called() -> None:
    read = lambda x: torch.tensor([[float(row.sum())] for row in x])  # noqa: E731
    idle = lambda m, b: each(m(b[0] + (library.counted() if len(b) > 9 else 0.0) * read(b[0])), b[1])  # noqa: E731
    assert not clipper_of(idle).structure(RECORDS).together
    with pytest.raises(BadInput, match="COUNTER is a itertools"):
        clipper_of(lambda m, b: each(m(b[0] + library.counted() * read(b[0])), b[1])).structure(RECORDS)


def stubborn(count: Callable[[], float]) -> Any:
    """Catches everything, and tries again."""

    def tried() -> float:
        for _ in range(5):
            try:
                return count()
            except:  # noqa: E722
                pass
        try:
            return library.remembered() + count()
        except:  # noqa: E722
            library.remember(1.0)
        return 9.0

    return tried


def by_value(shift: Callable[[], float], least: float = 3.9) -> Any:
    return lambda m, b: each(m(b[0] + (shift() if bool((b[0] > least).any()) else 0.0)), b[1])


COUNTS: dict[str, Callable[[], float]] = {
    "raising": library.counted, "stubborn": stubborn(library.counted), "another name": library.counted_twice,
}  # fmt: skip


@pytest.mark.parametrize("way", COUNTS)
def test_a_record_whose_values_lead_to_such_code_is_stopped_before_it_runs(way: str) -> None:
    clipper, before = clipper_of(by_value(COUNTS[way])), repr(library.COUNTER)
    assert torch.equal(total(clipper, 0, 1, 2), total(clipper, 1, 2))
    assert torch.equal(total(clipper, 0, 0, 1, 2, 0), total(clipper, 1, 2))
    assert repr(library.COUNTER) == before
    assert (library.SEEN, library.TOTAL) == ([], 0.0)


def either() -> Any:
    """Two names of one object, by value."""

    def loss(m: nn.Module, b: Any) -> Tensor:
        size = float(b[0].mean())
        return each(m(b[0] + (library.counted() if size > 3 else library.counted_twice() if size < -3 else 0)), b[1])

    return loss


def test_who_was_stopped_before_changes_nothing_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clipper, before = clipper_of(either()), repr(library.COUNTER)
    assert torch.equal(total(clipper, 0, 3, 1), total(clipper, 1))
    assert repr(library.COUNTER) == before
    monkeypatch.setattr(Surroundings, "_forget", lambda self, mark, named: None)
    assert not torch.equal(total(clipper, 0, 3, 1), total(clipper, 1))


def test_mutant_code_that_catches_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Surroundings, "_watch_again", lambda self, frame, event, _: None)
    clipper, before = clipper_of(by_value(stubborn(library.counted))), repr(library.COUNTER)
    total(clipper, 0, 1, 2)
    assert repr(library.COUNTER) != before


def in_a_thread(value: float) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(library.remember, value).result()


def test_what_a_library_keeps_that_is_called_in_a_thread_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    moved(keeping(in_a_thread, lambda: 0.0))
    assert library.SEEN == []
    monkeypatch.setattr("threading.settrace", lambda function: None)
    moved(keeping(in_a_thread, lambda: 0.0))
    assert library.SEEN
