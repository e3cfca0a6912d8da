"""Trainings in several threads: torch's generators and its precision belong to the process, so steps take turns."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tacit.fleet import Fleet
from tacit.fleet.fleet import _make
from tacit.loss import Plan
from tacit.train import PrivateStep, private
from tacit.train.clip.capture.made_up import same_random
from tacit.train.clip.clipper import Clipper
from tacit.train.terms import data_term

DATA = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 3


class Items(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return DATA[0][row] + torch.randn(5), int(DATA[1][row])


def step_of(seed: int) -> PrivateStep:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    return private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.5, 4, 1.0), rng=seed)


def taken(step: PrivateStep) -> Tensor:
    for batch in step.batches(DATA):
        step(batch)
    return torch.cat([tensor.detach().flatten() for tensor in step.model.parameters()])


def looked() -> None:
    with same_random():
        torch.rand(3)


OTHERS: dict[str, Callable[[PrivateStep], object]] = {
    "a step": taken,
    "a look at made-up records": lambda _: looked(),
    "a data set that is identified": lambda _: data_term(Items(), None, None, bytes(32)),
    "a fleet's first weights": lambda _: _make(lambda: nn.Linear(2, 2), 0),
    "a fleet": lambda _: Fleet(lambda: nn.Linear(5, 3)).train(*DATA, torch.ones(40, 2), Plan(40, 0.5, 2, 1.0), rng=1),
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_another_thread_trains_waits_until_a_step_is_over(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread seeded the numbers of this one's dropout, publicly, and gave it back the program's precision."""
    alone, threads, seen = taken(step_of(3)), [], []
    beside, step, real = step_of(7), step_of(3), Clipper.together

    def meanwhile(self: Clipper, *given: Any) -> Any:
        if self is step._clipper and step.done == 2 and not threads:
            threads.append(threading.Thread(target=OTHERS[other], args=(beside,)))
            threads[0].start()
            threads[0].join(0.5)
            seen.append((threads[0].is_alive(), torch.get_float32_matmul_precision()))
        return real(self, *given)

    monkeypatch.setattr(Clipper, "together", meanwhile)
    torch.set_float32_matmul_precision("high")
    try:
        together = taken(step)
        threads[0].join()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == [(True, "highest")]
    assert torch.equal(alone, together)
