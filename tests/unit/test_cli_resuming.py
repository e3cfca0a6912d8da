"""`attack` and `bracket` on the command line: --resume goes on, refuses other settings or code, or says so."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from command import Command

CODE = """
import numpy as np
from pathlib import Path

class Stop(BaseException):
    pass

def fit(x, y, rng):
    with open("calls", "a") as file:
        file.write("x")
    limit = Path("limit")
    if limit.exists() and Path("calls").stat().st_size > int(limit.read_text()):
        raise Stop
    shift = rng.normal(size=2) + x[:, :2].mean(axis=0)
    return lambda q: q[:, :2] + shift
"""
RUN = """
[data]
source = "d.npz"
members = "members"
[model]
fit = "resumed:fit"
[attack]
references = {references}
[audit]
runs = 16
canary = "blank"
isolation = "none"
"""


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("resumed", None)
    x = np.random.default_rng(0).normal(size=(80, 3))
    np.savez("d.npz", x=x, y=np.arange(80) // 2 % 2, members=np.arange(80) % 2 == 0)
    Path("resumed.py").write_text(CODE)
    Path("run.toml").write_text(RUN.format(references=4))
    yield Command(capsys, monkeypatch)
    sys.modules.pop("resumed", None)


def told(folder):
    found = json.loads(Path(folder, "evidence.json").read_text())
    for name in ("seconds", "made", "data_hmac"):
        found["provenance"].pop(name, None)
    return found


def interrupted(tacit_, verb, calls):
    Path("limit").write_text(str(calls))
    with pytest.raises(BaseException) as caught:
        tacit_(verb, "run.toml", "--seed", 3, "--out", "cut")
    assert type(caught.value).__name__ == "Stop"
    Path("limit").unlink()


@pytest.mark.parametrize("verb", ["attack", "bracket"])
def test_resume_goes_on_to_the_uninterrupted_result(tacit_, verb):
    assert tacit_(verb, "run.toml", "--seed", 3, "--out", "whole")[0] in (0, 3)
    once = Path("calls").stat().st_size
    Path("calls").unlink()
    interrupted(tacit_, verb, 4)
    assert not Path("cut").exists()
    assert "Use --resume" in tacit_(verb, "run.toml", "--seed", 3, "--out", "cut")[2]
    Path("run.toml").write_text(RUN.format(references=5))
    status, _, err = tacit_(verb, "run.toml", "--seed", 3, "--out", "cut", "--resume")
    assert (status, "attack.references was 4 and is now 5" in err) == (2, True)
    Path("run.toml").write_text(RUN.format(references=4))
    Path("resumed.py").write_text(CODE.replace("+ x[:", "- x[:"))
    assert "code of resumed.py" in tacit_(verb, "run.toml", "--seed", 3, "--out", "cut", "--resume")[2]
    Path("resumed.py").write_text(CODE + "# a comment changes nothing\n")
    assert tacit_(verb, "run.toml", "--seed", 3, "--out", "cut", "--resume")[0] in (0, 3)
    assert told("cut") == told("whole")
    assert Path("calls").stat().st_size == once + 2  # the target, and the training that was interrupted
    assert not list(Path().glob("*.unfinished"))
    assert "nothing to resume" in tacit_(verb, "run.toml", "--out", "cut", "--resume")[2]


def test_with_nothing_to_resume_it_is_said(tacit_):
    Path("scores.csv").write_text("score,member\n1,1\n0,0\n")
    for words in (("attack", "run.toml"), ("bracket", "run.toml"), ("attack", "scores.csv")):
        status, _, err = tacit_(*words, "--resume")
        assert (status, "There is nothing to resume for tacit-" in err) == (2, True)
    assert not list(Path().glob("tacit-*"))
