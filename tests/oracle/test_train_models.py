"""A sample of benchmarks/models.py, and the operations that mixtures of experts and LayerDrop need."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.train.clip import Clipper
from tacit.train.clip.rules import experts
from train_zoo import Use, classify, furthest, naive, parameter, trainable

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SAMPLE = ["GPT2LMHeadModel", "BartForConditionalGeneration", "MixtralForCausalLM", "GptOssForCausalLM",
          "Wav2Vec2ForSequenceClassification", "SwinForImageClassification"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.needs("transformers")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_architectures(name: str, monkeypatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from architectures_text import TEXT
    from architectures_vision import SEERS
    from models import measured

    (architecture,) = [one for one in TEXT + SEERS if one.name == name]
    row = measured(architecture, (2, 3, 6))
    assert row["result"] == "exact", row
    assert row["off"] < 1e-5


def test_mutant_a_loop_that_clips_otherwise_is_far_away(monkeypatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import models
    from architectures import Architecture

    made = Architecture("none", "flat", "images", lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4)))
    assert models.measured(made, (2, 3))["result"] == "exact"
    clipper = models.Clipper
    monkeypatch.setattr(models, "Clipper", lambda *given: clipper(*given[:3], 1.001))
    assert models.measured(made, (2, 3))["result"] == "wrong"


def routed(model, x):
    """Rows sorted by expert, a grouped product, and back; the last row has no expert."""
    score = x[0] @ model.router
    expert = torch.cat((score.argmax(-1)[:-1], torch.full((1,), 3)))
    order = expert.argsort()
    ends = (expert[:, None] <= torch.arange(3)).sum(0).to(torch.int32)
    out = F.grouped_mm(x[0][order], model.w.transpose(1, 2), offs=ends)
    out = torch.where((torch.arange(len(order)) < ends[-1])[:, None], out, 0)
    back = torch.zeros_like(out).index_copy(0, order, out)
    return (back * score.max(-1).values[:, None]).sum(0, keepdim=True)


def test_grouped_products_run_with_all_records_at_once() -> None:
    torch.manual_seed(0)
    model = Use(routed, w=parameter(3, 4, 8), router=parameter(8, 3))
    clipper = Clipper(model, classify, trainable(model), 0.5)
    for rows in (3, 5, 8):
        batch = torch.randn(rows, 5, 8), torch.arange(rows) % 3
        found = clipper(batch, torch.ones(rows, dtype=torch.bool))
        assert furthest(found.sums, _looped(model, batch)) < 1e-5
    assert all(structure.together for structure in clipper.structures.values())


def _looped(model, batch):
    """Without grouped products, which take no float64."""
    twin = Use(_plainly, w=model.w, router=model.router)
    return naive(twin, classify, batch, 0.5)[0]


def _plainly(model, x):
    score = x[0] @ model.router
    out = torch.einsum("ti,toi->to", x[0], model.w[score.argmax(-1)])
    out = out * torch.tensor([1.0] * (len(out) - 1) + [0.0]).to(out)[:, None]
    return (out * score.max(-1).values[:, None]).sum(0, keepdim=True)


def test_mutant_rows_of_another_expert(monkeypatch) -> None:
    monkeypatch.setattr(experts, "experts_of", lambda ends, rows: torch.zeros(len(ends), rows, dtype=torch.long))
    torch.manual_seed(0)
    model = Use(routed, w=parameter(3, 4, 8), router=parameter(8, 3))
    clipper = Clipper(model, classify, trainable(model), 0.5)
    batch = torch.randn(4, 5, 8), torch.arange(4) % 3
    assert not clipper.structure(batch).together  # the comparison with records alone sees it


class Dropped(nn.Module):
    """LayerDrop: one coin for the batch decides whether a layer is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(x if torch.rand([]) < 0.5 else self.first(x))


def test_a_single_coin_is_one_for_all_records_and_may_be_branched_on() -> None:
    torch.manual_seed(0)
    model = Dropped()
    clipper = Clipper(model, classify, trainable(model), 0.5)
    x, y = torch.randn(6, 5), torch.arange(6) % 3
    kept = set()
    for seed in range(8):
        torch.manual_seed(seed)
        kept.add(bool(clipper((x, y), torch.ones(6, dtype=torch.bool)).sums["first.weight"].any()))
    assert kept == {True, False}
    assert clipper.structure((x, y)).together


def test_draws_of_more_than_one_number_are_every_records_own() -> None:
    model = Use(lambda m, x: m.h(x * torch.rand(1)), h=nn.Linear(5, 3))
    clipper = Clipper(model, classify, trainable(model), 0.5)
    x, y = torch.ones(4, 5), torch.zeros(4, dtype=torch.long)
    assert len(set(clipper((x, y), torch.ones(4, dtype=torch.bool)).norms.tolist())) == 4
