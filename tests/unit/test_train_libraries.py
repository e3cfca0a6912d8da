"""One record at a time, with code of installed libraries: what it names is put back, and only what it names matters."""

from collections.abc import Callable, Iterator
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
    idle = lambda m, b: each(m(b[0] + (library.counted() if len(b) > 9 else 0.0 * float(b[0].sum()))), b[1])  # noqa: E731
    assert not clipper_of(idle).structure(RECORDS).together
    with pytest.raises(BadInput, match="COUNTER is a itertools"):
        clipper_of(lambda m, b: each(m(b[0] + library.counted() * float(b[0].sum())), b[1])).structure(RECORDS)


def test_a_record_whose_values_lead_to_such_code_is_stopped_before_it_runs() -> None:
    def loss(m: nn.Module, b: Any) -> Tensor:
        try:
            shift = library.counted() if bool((b[0] > 3.9).any()) else 0.0
        except Exception:
            shift = 9.0
        return each(m(b[0] + shift), b[1])

    clipper, before = clipper_of(loss), repr(library.COUNTER)
    assert torch.equal(total(clipper, 0, 1, 2), total(clipper, 1, 2))
    assert repr(library.COUNTER) == before
