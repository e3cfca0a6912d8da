"""Two processes train what one trains: same clipped sums to rounding, noise once, one account, one checkpoint."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput, BudgetExceeded, Unsupported
from tacit.loss import Plan
from tacit.train import private
from tacit.train.scale.workers import Workers
from train_processes import CASES, trained

SCRIPT = Path(__file__).resolve().parents[1] / "train_processes.py"


@pytest.fixture(scope="module")
def pair(two_processes):
    folder = two_processes(SCRIPT)
    assert (folder / "status").read_text() == "0", (folder / "errors").read_text()[-2000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_equal_one(pair, name: str) -> None:
    """The noise is large beside a learning rate of 0.5: added twice, or not alike, it would show."""
    alone = trained(**CASES[name])
    for found in pair:
        np.testing.assert_allclose(found[name]["parameters"], alone["parameters"], rtol=1e-4, atol=1e-5)
        assert found[name]["clip_norm"] == pytest.approx(alone["clip_norm"], rel=1e-6)
        assert found[name]["examples"] == alone["examples"]
    assert pair[0][name]["parameters"] == pair[1][name]["parameters"]


@pytest.mark.slow
def test_processes_stay_together_with_keys_of_their_own_making(pair) -> None:
    assert pair[0]["free"]["parameters"] == pair[1]["free"]["parameters"]
    assert pair[0]["free"]["parameters"] != pair[0]["flat"]["parameters"]
    assert pair[0]["free"]["losses"] == pair[1]["free"]["losses"]


@pytest.mark.slow
def test_whole_numbers_add_up_alike_in_any_order(pair) -> None:
    assert pair[0]["grid"]["parameters"] == trained(**CASES["grid"])["parameters"]


@pytest.mark.slow
def test_the_first_process_pays_and_a_refusal_stops_all(pair) -> None:
    assert [found["accounts"]["charges"] for found in pair] == [1, 0]
    assert [found["accounts"]["refusal"] for found in pair] == ["BudgetExceeded"] * 2


@pytest.mark.slow
def test_one_checkpoint_for_all(pair) -> None:
    assert pair[0]["checkpoint"]["parameters"] == pair[1]["checkpoint"]["parameters"]
    assert any(pair[0]["checkpoint"]["seen"])
    assert [found["checkpoint"]["left"] for found in pair] == [False, False]


@pytest.mark.slow
def test_a_schedule_is_followed_by_all_and_progress_is_shown_by_one(pair) -> None:
    """A hook that moves the learning rate in one process only would tear their models apart."""
    first, second = (found["scheduled"] for found in pair)
    assert first["parameters"] == second["parameters"]
    assert first["lr"] == second["lr"] == 0.1
    assert ["step 4/4" in found["told"] for found in (first, second)] == [True, False]
    assert second["told"] == ""


@pytest.mark.slow
def test_a_step_that_one_process_broke_off_is_not_taken_again(pair) -> None:
    """It would add up what the others send for their next step."""
    first, second = (found["broken"] for found in pair)
    assert (first["done"], second) == (0, {"told": [], "done": 1})
    assert first["told"][0] == ""
    assert ["broken off halfway" in told for told in first["told"][1:]] == [True, True]


@pytest.mark.slow
def test_all_processes_give_the_same_evidence_or_none(pair) -> None:
    """The first alone writes checkpoints and asks the ledger; the evidence of the others did not know of either."""
    assert [found["overtaken"] for found in pair] == ["Mismatch"] * 2
    assert [found["unfenced"] for found in pair] == [[False, True]] * 2


def test_a_process_alone_changes_nothing() -> None:
    alone = Workers.here()
    assert alone == Workers(0, 1)
    assert alone.gathered([1, 2]) == [1, 2]
    assert alone.agreed("x") == "x"


def test_a_wrapped_model_is_refused() -> None:
    class Wrapped(nn.parallel.DistributedDataParallel):
        def __init__(self) -> None:
            nn.Module.__init__(self)
            self.module = nn.Linear(2, 2)

    model = Wrapped()
    with pytest.raises(BadInput, match="several processes"):
        private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(10, 0.5, 1, 1.0))


def test_errors_cross_processes_whole() -> None:
    for error in (BadInput("Bad.", fix="Better."), BudgetExceeded(2.0, 1.0), Unsupported("x", "replace", fix="y")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), vars(again)) == (str(error), vars(error))
