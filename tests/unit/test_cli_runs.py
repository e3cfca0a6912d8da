"""A folder belongs to one run: results together or not at all, locks, resumes, exchanged files, words of failures."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command import Command
from tacit.core import BadInput
from tacit.core.locks import Lock
from tacit.core.run_folder import run_folder

RUN = """
[data]
source = "d.npz"
[model]
make = "own:{make}"
[plan]
rate = 0.5
steps = {steps}
noise_multiplier = 1.0
public_size = 54
delta = 1e-5
[train]
lr = {lr}
"""
CODE = """
import os, time, warnings
import torch
from torch import nn

def line():
    return nn.Linear(3, 2)

def ready(path):
    return os.path.exists(path) and os.path.getsize(path) > 6000

class Slow(nn.Linear):
    def forward(self, x):
        while "SLOWLY" in os.environ:
            time.sleep(0.04)
            if not ready("killed.unfinished/checkpoint.secret"):
                break
        return super().forward(x)

def slow():
    return Slow(3, 2)

class Loud(nn.Linear):
    def forward(self, x):
        if len(x) > 5:
            print("planted-stdout", x[0, 0].item())
            import sys, os
            print("planted-stderr", file=sys.stderr)
            os.system("echo planted-child")
            warnings.warn("planted-warning")
            raise ValueError(f"planted-text {x[0, 0]}")
        return super().forward(x)

def loud():
    return Loud(3, 2)
"""


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CODE)
    rng = np.random.default_rng(0)
    np.savez("d.npz", x=rng.normal(size=(60, 3)), y=np.arange(60) % 2)
    write()
    return Command(capsys, monkeypatch)


def write(make="line", steps=20, lr=0.5):
    Path("run.toml").write_text(RUN.format(make=make, steps=steps, lr=lr))


def files(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def command(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "tacit", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "SLOWLY": "1"},
    )  # fmt: skip


def test_a_finished_folder_is_refused_and_again_takes_a_new_one(tacit_):
    assert tacit_("train", "run.toml", "--seed", 1)[0] == 0
    before = {path.name: path.read_bytes() for path in Path("tacit-train").iterdir()}
    for more, said in (((), "a folder belongs to one run"), (("--resume",), "nothing to resume")):
        status, _, err = tacit_("train", "run.toml", *more)
        assert status == 2
        assert said in err
    assert {path.name: path.read_bytes() for path in Path("tacit-train").iterdir()} == before
    status, out, _ = tacit_("train", "run.toml", "--again", "--json")
    assert json.loads(out)["out"] == "tacit-train-2"
    assert files("tacit-train-2") == files("tacit-train")
    assert not list(Path().glob("*.unfinished"))


def test_resume_says_when_there_is_nothing_to_resume(tacit_):
    status, _, err = tacit_("train", "run.toml", "--resume")
    assert status == 2
    assert "There is nothing to resume for tacit-train." in err
    assert not list(Path().glob("tacit-train*"))
    assert tacit_("audit", "own:line", "--epsilon", 1, "--data", "d.npz", "--resume")[0] == 2


def test_a_folder_in_use_is_refused(tacit_):
    with run_folder("tacit-train", "train"):
        status, _, err = tacit_("train", "run.toml")
    assert status == 2
    assert "tacit-train is being written by another run." in err


@pytest.mark.slow
def test_a_killed_training_is_resumed_to_the_same_files_and_another_one_is_kept_out(tacit_):
    """Killed by the operating system; the worker's lock goes with it. Weights, evidence and plot as if never."""
    write(make="slow", steps=120)
    running = command("train", "run.toml", "--seed", "1", "--out", "killed")
    checkpoint = Path("killed.unfinished/checkpoint.secret")
    while not checkpoint.exists() or checkpoint.stat().st_size <= 6000:  # some steps are in it, and the model waits
        assert running.poll() is None
        time.sleep(0.02)
    assert "another run" in tacit_("train", "run.toml", "--seed", 1, "--out", "killed")[2]
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert not Path("killed").exists()
    status, _, err = tacit_("train", "run.toml", "--seed", 1, "--out", "killed")
    assert status == 2
    assert "did not end" in err
    write(make="slow", steps=120, lr=0.25)
    status, _, err = tacit_("train", "run.toml", "--seed", 1, "--out", "killed", "--resume")
    assert status == 2
    assert "optimizer.lr was 0.5 and is now 0.25" in err
    write(make="slow", steps=120)
    assert tacit_("train", "run.toml", "--seed", 1, "--out", "killed", "--resume")[0] == 0
    assert tacit_("train", "run.toml", "--seed", 1, "--out", "whole")[0] == 0
    assert Path("killed/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    told = [json.loads(Path(name, "evidence.json").read_text()) for name in ("killed", "whole")]
    assert told[0]["claim"] == told[1]["claim"]
    assert not list(Path().glob("*.unfinished"))


@pytest.mark.parametrize("place", ["before", "rename", "after"])
def test_an_end_at_the_commit_leaves_all_or_nothing_and_loses_nothing(tacit_, monkeypatch, place):
    """As if killed before, at and after the one rename."""
    from tacit.core import run_folder as module

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module.RunFolder, "abandon", lambda self: None)  # a killed process cleans nothing up
        target = {"before": ("manifest", kill), "after": ("sweep", kill)}.get(place)
        if target:
            patch.setattr(module, *target)
        else:
            patch.setattr(
                Path,
                "replace",
                lambda self, to, real=Path.replace: kill() if self.name == "results" else real(self, to),
            )
        with pytest.raises(Killed):
            tacit_("train", "run.toml", "--seed", 1)
    module.HELD = set()
    done = Path("tacit-train").exists()
    assert done == (place == "after")
    status, _, err = tacit_("train", "run.toml", "--seed", 1, "--resume")
    assert status == (2 if done else 0), err
    results = ["evidence.json", "manifest.json", "model.safetensors", "training.svg"]
    assert files("tacit-train") == sorted([*results, "data.key", "records.npz", "run.toml"])
    assert not list(Path().glob("*.unfinished"))
    assert tacit_("verify", "tacit-train/evidence.json")[0] == 0


def test_exchanged_weights_are_refused_by_verify_report_and_bracket(tacit_):
    for name in ("one", "two"):
        assert tacit_("train", "run.toml", "--out", name)[0] == 0
    mixed = Path("mixed")
    mixed.mkdir()
    (mixed / "evidence.json").write_bytes(Path("one/evidence.json").read_bytes())
    assert tacit_("verify", "mixed/evidence.json")[0] == 0  # by itself it says nothing about other files
    (mixed / "model.safetensors").write_bytes(Path("two/model.safetensors").read_bytes())
    for words in (("verify",), ("report",)):
        status, _, err = tacit_(*words, "mixed/evidence.json")
        assert status == 2
        assert "model.safetensors is not the one that this evidence was written with" in err
    Path("members.npz").write_bytes(Path("d.npz").read_bytes())
    with np.load("d.npz") as data:
        np.savez("members.npz", x=data["x"], y=data["y"], members=np.arange(60) % 10 != 0)
    Path("take.toml").write_text(
        '[data]\nsource = "members.npz"\nmembers = "members"\n[model]\nmake = "own:line"\n'
        'file = "two/model.safetensors"\nevidence = "one/evidence.json"\n'
    )
    status, _, err = tacit_("bracket", "take.toml")
    assert status == 2
    assert "not those that the evidence is about" in err
    Path("one/evidence.json").write_text(Path("one/evidence.json").read_text().replace("own", "0wn", 1) + " ")
    assert "evidence.json is not the one" in tacit_("verify", "one/evidence.json")[2]


@pytest.mark.slow
def test_nothing_of_a_record_is_in_the_words_of_a_failure(tacit_):
    """An exception of the model is told by kind and place; prints, child processes and warnings are dropped.

    This model is trained one record at a time, so it raises when the held-out records are predicted: the training can
    be resumed, and no result is there.
    """
    write(make="loud")
    out, err = command("train", "run.toml", "--out", "a").communicate()
    assert "planted" not in out + err
    assert "ValueError was raised in own.py, line 31, in forward." in err
    assert "Traceback" not in err
    assert not Path("a").exists()
    assert files("a.unfinished") == ["checkpoint.secret", "lock", "settings.json"]
    _, err = command("train", "run.toml", "--out", "b", "--debug").communicate()
    for word in ("planted-stdout", "planted-stderr", "planted-child", "planted-text", "Traceback"):
        assert word in err


def test_a_lock_is_held_once_and_given_back(tmp_path):
    path = tmp_path / "lock"
    with Lock(path, "held"), pytest.raises(BadInput, match="held"), Lock(path, "held"):
        pass
    with Lock(path, "held"):
        pass


def test_without_room_for_charts_a_training_has_no_plot_and_a_bracket_is_refused_before_its_work(tacit_, monkeypatch):
    from tacit.reports import engine

    monkeypatch.setattr(engine, "_limit", lambda: 12 * 2**30)
    status, out, err = tacit_("train", "run.toml", "--seed", 1, "--json")
    assert status == 0
    assert json.loads(out)["plot"] is None
    assert "No plot was drawn. Charts cannot be drawn under a limit of 12 GiB" in err
    assert "training.svg" not in files("tacit-train")
    for words in (("bracket", "tacit-train"), ("quickstart",)):
        status, _, err = tacit_(*words)
        assert status == 3
        assert "Charts cannot be drawn" in err
    assert not list(Path().glob("*bracket*")) + list(Path().glob("*quickstart*"))


@pytest.mark.parametrize("what", ["bomb", "header", "cut", "object", "shape"])
def test_a_damaged_list_of_the_records_trained_on_is_one_sentence(tacit_, tmp_path, what):
    from tacit.core import BadInput
    from tacit.data import load
    from tacit.study.training_files import RECORDS, trained_on

    path = tmp_path / RECORDS
    made = {
        "bomb": lambda: np.savez_compressed(path, trained_on=np.zeros(2**31, dtype=bool)),
        "object": lambda: np.savez(path, trained_on=np.array([None] * 60)),
        "shape": lambda: np.savez(path, trained_on=np.zeros((60, 1), dtype=bool)),
    }.get(what, lambda: np.savez(path, trained_on=np.zeros(60, dtype=bool)))
    if what == "bomb":  # as many bytes as a limit would let pass, written in parts
        import zipfile

        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("trained_on.npy", "w") as file:
            file.write(b"\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (1099511627776,), }")
            file.write(b" " * 50 + b"\n" + bytes(2**22))
    else:
        made()
    body = path.read_bytes()
    if what == "cut":
        path.write_bytes(body[: len(body) // 2])
    if what == "header":
        path.write_bytes(body.replace(b"(60,)", b"(6" + b"0" * 12 + b",)")[: len(body)])
    with pytest.raises(BadInput):
        trained_on(tmp_path, load("d.npz"))
