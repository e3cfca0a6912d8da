"""Unmodified Hugging Face models, and adapters on one, against the loop over examples."""

import pytest
import torch

from tacit.train.clip import Clipper
from train_transformers import make
from train_zoo import furthest, naive, trainable

pytestmark = [pytest.mark.needs("transformers"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "gpt2 with adapters", "llama", "bert", "t5", "vit"])
def test_unmodified_models_are_clipped_exactly(name: str) -> None:
    torch.manual_seed(0)
    model, loss = make(name)
    model.eval()
    ids = torch.randint(3, 50, (5, 7))
    mask = torch.ones_like(ids)
    mask[:2, 5:] = 0
    batch = {"ids": ids, "mask": mask}
    if name == "vit":
        batch = {"pixels": torch.randn(5, 3, 8, 8), "y": torch.tensor([0, 1, 0, 1, 1])}
    clipper = Clipper(model, loss, trainable(model), 0.5)
    found = clipper(batch, torch.ones(5, dtype=torch.bool))
    sums, norms = naive(model, loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    assert all(structure.checked for structure in clipper.structures.values())
