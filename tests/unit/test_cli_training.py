"""The verb train as a user meets it: what is written, what is shown, what is left behind."""

import io
import json
from pathlib import Path

import numpy as np
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
    names = [
        "data.key", "evidence.json", "manifest.json", "model.safetensors", "records.npz", "run.toml", "training.svg",
    ]  # fmt: skip
    assert sorted(path.name for path in Path("run").iterdir()) == names
    weights = load_file(found["model"])
    assert torch.equal(weights["a.weight"], weights["b.weight"])
    assert "step 20/20  epsilon" in err
    plot = Path(found["plot"])
    assert plot.stat().st_mode & 0o777 == 0o600
    drawn = plot.read_text()
    for words in ("training loss: not for publication", "clipping: not for publication", "epsilon at delta 0.00001"):
        assert words in drawn
    shown = [line.split("loss ")[1].split()[0] for line in err.splitlines() if "loss " in line]
    evidence = Path(found["evidence"]).read_text()
    assert shown
    assert not any(loss in evidence for loss in shown)


SIMPLE = """
from torch import nn

def line():
    return nn.Linear(2, 2)
"""


@pytest.mark.parametrize("canaries", [True, False])
def test_canaries_that_were_left_out_do_not_count_in_accuracy(tacit_, canaries: bool) -> None:
    """They are made to be noticed, with labels that fit them ill: here all of theirs are wrong."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = np.stack((2.0 * y - 1, rng.normal(size=400)), axis=1)
    members, thrown = np.arange(400) < 200, np.zeros(400, dtype=bool)
    thrown[150:300] = True
    Path("plain_model.py").write_text(SIMPLE)
    named = {"canaries": thrown} if canaries else {}
    np.savez("people.npz", x=x, y=np.where(thrown & ~members, 1 - y, y), members=members, **named)
    run = RUN.format(more="lr = 1.0").replace('"digits"', '"people.npz"').replace("own_model:tied", "plain_model:line")
    Path("run.toml").write_text(run.replace("noise_multiplier = 2.0", "noise_multiplier = 0.5"))
    status, out, _ = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert status == 0
    found = json.loads(out)
    assert found["accuracy"]["validation"] == (1.0 if canaries else 0.5)
    evidence = json.loads(Path(found["evidence"]).read_text())
    assert evidence["utility"]["test accuracy"] == found["accuracy"]["validation"]
    assert evidence["utility"]["most frequent class"] == found["accuracy"]["baseline"]


def test_where_only_canaries_were_left_out_there_is_no_accuracy(tacit_) -> None:
    members = np.arange(60) < 50
    Path("plain_model.py").write_text(SIMPLE)
    np.savez("people.npz", x=np.ones((60, 2)), y=np.arange(60) % 2, members=members, canaries=np.arange(60) > 40)
    Path("run.toml").write_text(
        RUN.format(more="").replace('"digits"', '"people.npz"').replace("own_model:tied", "plain_model:line")
    )
    status, out, _ = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert status == 0
    assert json.loads(out)["accuracy"]["validation"] is None


def test_labels_without_an_output_are_told_before_training_and_listed_as_not_covered(tacit_) -> None:
    """The library's own steps stop at no label; the command looks at the whole file first, for its operator."""
    Path("plain_model.py").write_text(SIMPLE)
    Path("run.toml").write_text(
        RUN.format(more="").replace('"digits"', '"people.npz"').replace("own_model:tied", "plain_model:line")
    )
    np.savez("people.npz", x=np.ones((60, 2)), y=np.arange(60) % 2 + 1)
    status, _, err = tacit_("train", "run.toml", "--out", "run", "--seed", 1)
    assert status == 2
    assert "one column per class, for all labels" in err
    assert not Path("run").exists()
    np.savez("people.npz", x=np.ones((60, 2)), y=np.arange(60) % 2)
    status, out, _ = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert status == 0
    listed = json.loads(Path(json.loads(out)["evidence"]).read_text())["not_covered"]
    assert any("every label is one of the model's classes" in line for line in listed)


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
