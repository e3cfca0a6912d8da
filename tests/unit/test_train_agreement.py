"""Processes that differ are refused before the first step, by name, in all of them; a dead one is one sentence."""

import argparse
import functools
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput, NotFinished
from tacit.loss import Plan
from tacit.train import private
from tacit.train.descriptions import model_term
from tacit.train.sample.examples import Examples
from tacit.train.scale.workers import reached
from tacit.train.terms import check_same, data_term, described, differing
from train_disagreement import FIT_WAYS, WAYS

SCRIPT = Path(__file__).resolve().parents[1] / "train_disagreement.py"
NAMED = {
    "lr": "optimizer.lr is 0.5 in process 0 and 0.6 in process 1",
    "momentum": "optimizer.momentum is 0.0 in process 0 and 0.9",
    "optimizer": "optimizer",
    "dropout": "model differs",
    "model": "model differs",
    "loss": "loss differs",
    "data": "data differs",
    "size": "data differs",
    "physical_batch": "speed.physical_batch is 4 in process 0 and 8",
    "noise": "noise is float32 in process 0 and grid in process 1",
    "version": "version.torch",
    "drift": "parameters differs",
    "schedule": "optimizer.lr is 0.5 in process 0 and 0.4",
    "delta": "delta is 1e-05 in process 0 and 0.001 in process 1",
    "average": "average is none in process 0 and ema in process 1",
    "ledger": "ledger is none in process 0 and Paid in process 1",
    "seed": "seed differs",
    "source": "source is ",
    "checkpoint": "checkpoint is yes in process 0 and no in process 1",
    "other place": "steps done is 1 in process 0 and 0 in process 1",
    "last step": "parameters differs",
    "items": "data differs",
    **dict.fromkeys(("attribute", "method of the model", "hook"), "model differs"),
    **dict.fromkeys(FIT_WAYS[-4:], "loss differs"),
}


@pytest.fixture(scope="module")
def told(two_processes):
    folder = two_processes(SCRIPT)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in ("0", "1", "lost")}


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, *FIT_WAYS])
def test_two_processes_that_differ_are_refused_and_both_name_what_differs(told, way) -> None:
    expected = NAMED.get(way, f"plan.{way} is ")
    for rank in ("0", "1"):
        assert told[rank][way].startswith("The processes of this run do not agree"), (rank, told[rank][way])
        assert expected in told[rank][way]


@pytest.mark.slow
def test_processes_that_agree_are_not_refused_and_a_dead_one_ends_the_other_with_a_sentence(told) -> None:
    assert [told[rank]["none"] for rank in ("0", "1")] == ["accepted"] * 2
    assert told["lost"].startswith("Another process of this run has ended")


def test_an_exchange_that_fails_is_one_sentence() -> None:
    with pytest.raises(NotFinished, match="Another process"), reached():
        raise RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.1.1]:40123")


def test_what_differs_is_named_with_its_values() -> None:
    with pytest.raises(BadInput, match=r"plan.clip_norm is 1.0 in process 0 and 100 in process 2\."):
        check_same([{"plan.clip_norm": "1.0"}, {"plan.clip_norm": "1.0"}, {"plan.clip_norm": "100"}])
    assert differing([{"a": "1"}, {"a": "1", "b": "2"}]) == ["b"]
    check_same([{"a": "1"}, {"a": "1"}])


def test_functions_are_told_apart_by_what_they_do() -> None:
    def scaled(by):
        return lambda x: by * x

    assert described(scaled(2)) == described(scaled(2))
    assert described(scaled(2)) != described(scaled(3))
    assert described(lambda x: x + 1) != described(lambda x: x + 2)

    class Loss:
        def __init__(self, weight):
            self.weight = weight

        def __call__(self, model, batch):
            return self.weight

    assert described(Loss(1.0)) == described(Loss(1.0)) != described(Loss(2.0))


def test_what_is_a_processes_own_is_not_compared() -> None:
    class Loss:
        def __init__(self, rank):
            self.rank, self.local_rank, self.device = rank, rank, f"cuda:{rank}"

        def __call__(self, model, batch):
            return self.rank

    assert described(Loss(0)) == described(Loss(1))
    assert described(torch.nn.Parameter(torch.ones(2))) == described(torch.nn.Parameter(torch.zeros(2)))
    model = nn.Linear(2, 2)
    before = described(lambda: model)
    nn.init.zeros_(model.weight)
    assert described(lambda: model)[:-24] == before[:-24]
    weighted = [nn.CrossEntropyLoss(weight=torch.tensor([by, 1.0])) for by in (1.0, 1.0, 2.0)]
    assert described(weighted[0]) == described(weighted[1]) != described(weighted[2])


def script(rank: int, weight: float = 2.0, width: int = 3) -> list[Any]:
    """What the script of process `rank` gives to a run: loss and model with all that usual scripts hang on them."""
    device, is_main, run_dir = f"cuda:{rank}", rank == 0, Path(f"/scratch/{rank}")
    logger = logging.getLogger(f"train.{rank}")
    logger.setLevel(logging.INFO if is_main else logging.ERROR)
    writer, start_time = object() if is_main else None, 1e9 + rank
    settings = {"rank": rank, "device": device, "output_dir": str(run_dir), "weight": weight}
    given = argparse.Namespace(local_rank=rank, started=start_time, weight=weight, place=device)

    def loss(model: nn.Module, batch: Any, log_dir: str = f"/logs/{rank}") -> Any:
        if writer is not None and is_main:
            logger.info("%s %s %s", start_time, run_dir, log_dir)
        return settings["weight"] * given.weight * model(batch[0].to(device))

    model = nn.Sequential(nn.Linear(2, width))
    model.local_rank, model.logger, model.created_time = rank, logger, start_time
    return [loss, functools.partial(loss, log_dir=str(rank)), model]


def test_ordinary_scripts_agree_and_others_do_not() -> None:
    first, second, heavier = script(0), script(1), script(1, weight=3.0)
    for one, other, third in zip(first[:2], second[:2], heavier[:2], strict=True):
        assert described(one) == described(other) != described(third)
    assert model_term(first[2]) == model_term(second[2]) != model_term(script(1, width=4)[2])


def test_records_of_somebody_elses_data_set_are_looked_at_and_random_ones_are_not_held_against_it() -> None:
    class Items(torch.utils.data.Dataset):
        def __init__(self, shift, noise=0.0):
            self.shift, self.noise = shift, noise

        def __len__(self):
            return 40

        def __getitem__(self, place):
            return torch.full((2,), place + self.shift) + self.noise * torch.randn(2), place % 2

    def term(data, key=bytes(32)):
        return data_term(data, None, None, key)

    class Flipped(Items):
        """Draws at random by itself, and seldom: every process sees something else."""

        def __init__(self, seed):
            super().__init__(0.0)
            self.own = np.random.default_rng(seed)

        def __getitem__(self, place):
            x, y = super().__getitem__(place)
            return (-x if self.own.random() < 0.3 else x), y

    assert term(Items(0.0)) == term(Items(0.0)) != term(Items(1e-3))
    assert len({term(Flipped(seed)) for seed in range(20)}) == 1
    torch.manual_seed(0)
    Examples.of(Items(0.0, 1.0))
    after = torch.randn(1)
    torch.manual_seed(0)
    first = term(Items(0.0, 1.0))
    assert torch.randn(1) == after
    assert term(Items(0.0, 1.0)) == first  # from a generator that all processes share, wherever it stands


def test_parts_of_a_random_data_set_are_told_apart_by_their_rows() -> None:
    """Each process took a part of its own: the sample was drawn as if all had the same records."""

    class Random(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, row: int) -> torch.Tensor:
            return torch.tensor(np.random.default_rng().normal(size=2))

    parts = [torch.utils.data.Subset(Random(), rows) for rows in ([0, 1, 2, 3], [4, 5, 6, 7], range(4))]
    parts += [torch.utils.data.Subset(parts[0], [0, 1]), torch.utils.data.Subset(parts[1], [0, 1])]
    first, second, again, inner, other = (data_term(part, None, None, bytes(32))[0] for part in parts)
    assert first == again
    assert len({first, second, inner, other}) == 4


def test_data_are_known_by_a_keyed_hash() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    one, other = bytes(32), bytes([1] * 32)
    assert data_term((x, x), None, None, one) == data_term((x.clone(), x), None, None, one)
    assert data_term((x, x), None, None, one) != data_term((x, x), None, None, other)
    assert data_term((x, x), None, None, one) != data_term((x, x), [1, 2, 2], 1, one)
    assert data_term({"a": x, "b": x + 1}, None, None, one) != data_term({"a": x + 1, "b": x}, None, None, one)


def test_a_step_describes_its_settings_and_its_versions() -> None:
    model = nn.Linear(3, 2)
    step = private(model, torch.optim.Adam(model.parameters(), lr=0.1), Plan(10, 0.5, 2, 1.0))
    found = step.course.terms
    assert found["plan.noise_multiplier"] == "1.0"
    assert found["optimizer.betas"] == "[0.9, 0.999]"
    assert found["version.torch"] == torch.__version__
    assert found["model"].startswith("#")
