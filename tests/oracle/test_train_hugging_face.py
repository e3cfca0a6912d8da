"""Unmodified Hugging Face models, and adapters on one, against the loop over examples."""

import pytest
import torch

from tacit.train.clip import Clipper, Compiled
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
    assert all(structure.together for structure in clipper.structures.values())


MASKS = {"none is left out": (), "ends": ((0, slice(4, 7)), (3, slice(6, 7))), "starts": ((0, slice(3)), (3, slice(1)))}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "attention", "traced"),
    [
        *((name, attention, False) for name in ("gpt2", "llama", "bert") for attention in ("sdpa", "eager")),
        *(("gpt2", "eager", True), ("llama", "sdpa", True), ("bert", "sdpa", True)),
    ],
)
def test_masks_of_every_kind(name: str, attention: str, traced: bool, monkeypatch) -> None:
    """Their code skips a mask that leaves nothing out; a step traced on other masks must not have learnt that."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    model, loss = make(name, attention, layers=1)
    model.eval()
    assert model.config._attn_implementation == attention
    clipper = Clipper(model, loss, trainable(model), 0.5)
    step = Compiled(clipper) if traced else clipper
    ids, seen = torch.randint(3, 50, (5, 7)), []
    for places in MASKS.values():
        mask = torch.ones_like(ids)
        for place in places:
            mask[place] = 0
        batch = {"ids": ids, "mask": mask}
        found = step(batch, torch.ones(5, dtype=torch.bool))
        sums, norms = naive(model, loss, batch, 0.5)
        torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
        assert furthest(found.sums, sums) < 1e-5
        seen.append(found.norms[0])
    assert len(clipper.structures) == 1
    assert len(set(map(float, seen))) == len(MASKS)  # the masks matter to what is measured
