"""Per-example norms and clipped sums against a loop over examples, for every model that breaks a peer."""

import pytest
import torch

from tacit.train.clip import Clipper
from train_zoo import ZOO, furthest, naive, trainable


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("rows", [1, 4])
def test_norms_and_sums_equal_the_loop(name: str, rows: int) -> None:
    """One record, and as many as a sequence is long; the test below has five.

    By its rules: a model whose rules disagree with the loop would be run one record at a time, and be right.
    """
    torch.manual_seed(1)
    case = ZOO[name]
    model, batch = case.make(), case.batch(rows)
    clipper = Clipper(model, case.loss, trainable(model), 0.5)
    found = clipper(batch, torch.ones(rows, dtype=torch.bool))
    assert clipper.alone_because == ""
    sums, norms = naive(model, case.loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    assert set(found.sums) == set(trainable(model))


@pytest.mark.parametrize("name", ZOO)
def test_masked_examples_contribute_nothing(name: str) -> None:
    torch.manual_seed(2)
    case = ZOO[name]
    model, batch = case.make(), case.batch(5)
    mask = torch.tensor([True, False, True, True, False])
    found = Clipper(model, case.loss, trainable(model), 0.5)(batch, mask)
    kept = tuple(part[mask] for part in batch)
    sums, _ = naive(model, case.loss, kept, 0.5)
    assert furthest(found.sums, sums) < 1e-5
