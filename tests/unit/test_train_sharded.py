"""Parameters in parts (FSDP2, two processes): the sums of one process, noise once and of the right size, one claim."""

import math
from pathlib import Path

import pytest
import torch

from tacit.train import fit
from tacit.train.clip.rounding import ROUNDING
from train_sharded import CASES, DATA, LOUD, flat, made, noise, trained

SCRIPT = Path(__file__).resolve().parents[1] / "train_sharded.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair(two_processes):
    folder = two_processes(SCRIPT)
    assert (folder / "status").read_text() == "0", (folder / "errors").read_text()[-3000:]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_parts_end_where_one_process_ends(pair, name: str) -> None:
    """Adam makes steps of like size of sums of any size: one that is off in a single entry would show."""
    alone = trained(**CASES[name], cut=False)
    for found in pair:
        torch.testing.assert_close(found[name], alone, rtol=0, atol=1e-4)
    assert torch.equal(pair[0][name], pair[1][name])


def spread(rows: torch.Tensor, precision: str = "float32") -> float:
    """Standard deviations from what the plan says, of the mean square: 6 would be wrong once in 5e8 times."""
    scale = LOUD.noise_multiplier * LOUD.clip_norm * (1 + ROUNDING[precision]) / LOUD.expected_batch
    return abs(float((rows / scale).square().mean()) - 1) / math.sqrt(2 / rows.numel())


def whole(noises: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([*noises.values()], dim=1)


def test_the_parts_noise_is_one_noise_of_the_right_size(pair) -> None:
    rows = whole(pair[0]["noise"])
    assert torch.equal(rows, whole(pair[1]["noise"]))
    assert spread(rows) < 6
    assert spread(whole(noise(cut=False))) < 6
    assert spread(whole(pair[0]["rounded noise"]), "bfloat16") < 6
    assert min(spread(rows * 1.1), spread(rows * 0.9)) > 6
    assert len(rows.flatten().unique()) == rows.numel()  # no part repeats another's


def test_parts_of_any_size_along_any_axis_have_independent_noise_of_one_scale(pair) -> None:
    """A process may hold none of a parameter, more of it than another, or a share along another axis.

    No two of 99 numbers may have a correlation of 0.4 over 300 steps, seven standard deviations. A process that added
    noise for the whole, or its share of it by the root of their number, would show in every parameter.
    """
    found = pair[0]["mixed noise"]
    assert {name: rows.shape[1] for name, rows in found.items()} == {
        "one": 1, "wide": 12, "table": 3, "first.weight": 45, "first.bias": 9, "last.weight": 27, "last.bias": 3
    }  # fmt: skip
    for rows in found.values():
        assert spread(rows) < 6
        assert rows.shape[1] == 1 or min(spread(rows * 2**0.5), spread(rows / 2**0.5)) > 6
    rows = whole(found)
    both = torch.corrcoef(rows.T) - torch.eye(rows.shape[1])
    assert both.abs().max() < 0.4
    assert torch.corrcoef(torch.cat((rows, rows[:, :1]), 1).T)[0, -1] > 0.4


def test_one_statement_of_evidence(pair) -> None:
    plan = CASES["flat"]["plan"]
    alone = fit(made(cut=False), DATA, plan, rng=5, average="ema", validation=tuple(one.clone() for one in DATA))
    for found in pair:
        assert found["evidence"] == (alone.evidence.claim.bound.epsilon, plan.steps)
        assert found["accuracy"] == pytest.approx(alone.evidence.utility["accuracy"], abs=0.02)
        torch.testing.assert_close(
            found["fit"], flat(tensor.detach() for tensor in alone.model.parameters()), rtol=0, atol=1e-3
        )


def test_what_cannot_be_done_is_refused(pair) -> None:
    told = ["not cut up among all", "another precision", "by other means", "in one piece", "are eager", "not saved"]
    told += ["optimizer.lr", "parameters"]
    for found in pair:  # on every process
        for sentence, words in zip(found["refusals"], told, strict=True):
            assert words in sentence
