"""The verb train as a user meets it: what is written, what is shown, what is left behind."""

import io
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from command import Command
from tacit.loss import Plan
from tacit.train import Progress, Speed, fit

RUN = """
[data]
source = "digits"
[model]
make = "own_model:tied"
[plan]
rate = 0.1
steps = 20
noise_multiplier = 2.0
delta = 1e-5
[train]
{more}
"""
MODEL = """
from torch import nn

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.head(self.b(self.a(x).tanh()).tanh())

tied = Tied
"""


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("own_model.py").write_text(MODEL)
    return Command(capsys, monkeypatch)


@pytest.mark.needs("sklearn")
@pytest.mark.needs("altair")
def test_model_evidence_and_a_plot_for_the_operator(tacit_) -> None:
    from safetensors.torch import load_file

    Path("run.toml").write_text(RUN.format(more="lr = 1.0"))
    status, out, err = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert status == 0
    found = json.loads(out)
    assert sorted(path.name for path in Path("run").iterdir()) == ["evidence.json", "model.safetensors", "training.svg"]
    weights = load_file(found["model"])
    assert torch.equal(weights["a.weight"], weights["b.weight"])
    assert "step 20/20  epsilon" in err
    plot = Path(found["plot"])
    assert plot.stat().st_mode & 0o777 == 0o600
    drawn = plot.read_text()
    for words in ("training loss: not for publication", "clipping: not for publication", "epsilon at delta 1e-05"):
        assert words in drawn
    shown = [line.split("loss ")[1].split()[0] for line in err.splitlines() if "loss " in line]
    evidence = Path(found["evidence"]).read_text()
    assert shown
    assert not any(loss in evidence for loss in shown)


@pytest.mark.needs("sklearn")
def test_without_pictures_the_run_is_kept_and_says_so(tacit_, monkeypatch) -> None:
    from tacit.cli import curves
    from tacit.core import MissingExtra

    def absent():
        raise MissingExtra("report")

    monkeypatch.setattr(curves, "_altair", absent)
    Path("run.toml").write_text(RUN.format(more="lr = 1.0"))
    status, out, err = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert status == 0
    assert json.loads(out)["plot"] is None
    assert "No plot was drawn" in err
    assert Path("run/model.safetensors").exists()


@pytest.mark.needs("sklearn")
def test_a_refused_run_leaves_no_folder(tacit_) -> None:
    Path("run.toml").write_text(RUN.format(more='average = "median"'))
    assert tacit_("train", "run.toml", "--out", "new")[0] == 2
    assert not Path("new").exists()
    Path("old").mkdir()
    assert tacit_("train", "run.toml", "--out", "old")[0] == 2
    assert Path("old").exists()


def test_a_plan_says_where_to_start(tacit_) -> None:
    status, out, _ = tacit_("plan", "--records", 60000, "--epsilon", 3, "--delta", 1e-5, "--clip-norm", 0.5, "--json")
    assert status == 0
    hint = json.loads(out)["hint"]
    assert "learning rate 4 (or 0.4 with momentum 0.9)" in hint
    assert "ema" in hint
    assert "batch than 512" in hint


def test_a_note_before_the_first_compilation(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    data, plan = (torch.randn(40, 5), torch.arange(40) % 3), Plan(40, 0.5, 2, 1.0)
    for compiled in (True, False):
        stream, seen = io.StringIO(), []
        shown = Progress(1e-3, stream, also=lambda step, info, seen=seen: seen.append(step.done))
        fit(nn.Linear(5, 3), data, plan, rng=0, speed=Speed(compile=compiled), progress=shown)
        assert stream.getvalue().startswith("compiling the step") is compiled
        assert seen == [1, 2]
