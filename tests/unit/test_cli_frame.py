"""The command's frame: help, version, JSON, one sentence and status 2 for every kind of bad input."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command import Command

ROOT = Path(__file__).resolve().parents[2]
VERBS = (
    "init",
    "ledger",
    "attack",
    "audit",
    "bracket",
    "calibrate",
    "disclose",
    "doctor",
    "epsilon",
    "gap",
    "pate",
    "plan",
    "query",
    "quickstart",
    "report",
    "train",
    "predict",
    "verify",
)


@pytest.fixture
def tacit(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Command(capsys, monkeypatch)


def test_help_lists_exactly_the_verbs_that_work(tacit):
    status, out, _ = tacit("--help")
    listed = re.findall(r"^  ([a-z]+)  ", out.split("Commands:")[1], flags=re.MULTILINE)
    assert status == 0
    assert sorted(listed) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(tacit, verb):
    status, out, _ = tacit(verb, "--help")
    assert status == 0
    assert "--json" in out


@pytest.mark.parametrize("given", [["--help"], ["epsilon", "--noise-multiplier", "1", "--delta", "1e-5"]])
def test_output_that_nobody_reads_is_no_refutation(given, tmp_path):
    """`tacit bracket ... | head`, in a shell with pipefail: status 1 would say that a claim is refuted."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "tacit", *given],
        cwd=tmp_path,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_help_imports_no_verb():
    """numpy alone would cost more than the page; the verbs come when they are used."""
    code = "import sys, tacit.cli\nsys.argv = ['tacit', '--help']\ntry:\n    tacit.cli.main()\nfinally:\n"
    code += "    print(*sorted({'numpy', 'scipy', 'jinja2', 'tacit.core'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.strip() == ""


def test_a_wrong_verb_names_the_nearest(tacit):
    assert "Did you mean 'epsilon'?" in tacit("epsilom")[2]


def test_no_verb_prints_help(tacit):
    status, out, _ = tacit()
    assert status == 0
    assert "Commands:" in out


def test_version(tacit):
    from tacit import __version__

    assert tacit("--version")[1].strip() == __version__


EPSILON = ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5")
AUDIT = ("audit", "somewhere:fit", "--epsilon", "1", "--data", "digits")
BAD = [
    ("nonsense",),
    ("epsilon",),
    ("epsilon", "--noise-multiplier", "x", "--delta", "1e-5"),
    (*EPSILON, "--rate", "1.5"),
    (*EPSILON, "--rate", "nan"),
    (*EPSILON, "--steps", "0"),
    (*EPSILON, "--steps", "2.5"),
    (*EPSILON, "--adjacency", "friends"),
    (*EPSILON, "--sampling", "lottery"),
    (*EPSILON, "--nonsense"),
    ("epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"),
    ("epsilon", "--noise-multiplier", "1", "--delta", "1"),
    ("epsilon", "--noise-multiplier", "1", "--delta", "-0.1"),
    ("epsilon", "--event", "absent.json", "--delta", "1e-5"),
    ("calibrate", "--delta", "1e-5"),
    ("calibrate", "--epsilon", "-3", "--delta", "1e-5"),
    ("calibrate", "--epsilon", "1", "--advantage", "0.1", "--delta", "1e-5"),
    ("plan", "--records", "0", "--epsilon", "1", "--delta", "1e-5"),
    ("plan", "--records", "100", "--epsilon", "1", "--delta", "1e-5", "--batch-size", "101"),
    ("audit", "somewhere:fit"),
    ("audit", "notanentry", "--epsilon", "1", "--data", "digits"),
    AUDIT,
    ("audit", "json:loads", "--epsilon", "1", "--data", "digits", "--pair", "json:loads"),
    ("audit", "json:nothing", "--epsilon", "1", "--data", "digits"),
    ("audit", "json:loads", "--epsilon", "-1", "--data", "digits"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "absent.csv"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "moon"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "digits", "--game", "chess"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "digits", "--canary", "parrot"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "digits", "--runs", "1"),
    ("audit", "json:loads", "--epsilon", "1", "--data", "digits", "--seed", "-1"),
    ("attack",),
    ("attack", "absent.csv"),
    ("attack", "absent.toml"),
    ("attack", "--model", "json:loads"),
    ("attack", "bad.csv"),
    ("attack", "nomember.csv"),
    ("attack", "onesided.csv"),
    ("gap", "absent.toml"),
    ("gap", "typo.toml"),
    ("bracket", "absent.toml"),
    ("bracket", "typo.toml"),
    ("bracket", "notoml.toml"),
    ("bracket", "both.toml"),
    ("train", "absent.toml"),
    ("train", "noplan.toml"),
    ("train", "batchnorm.toml"),
    ("report", "absent.json"),
    ("report", "bad.json"),
    ("report",),
    ("verify", "absent.json"),
    ("verify", "bad.json"),
    ("doctor", "json:loads"),
    ("doctor", "nowhere:model"),
    ("quickstart", "--out", "bad.csv"),
    ("quickstart", "--seed", "-4"),
]
FILES = {
    "bad.csv": "score,member\n0.5,maybe\n",
    "nomember.csv": "score,label\n0.5,1\n",
    "onesided.csv": "score,member\n0.5,1\n0.4,1\n",
    "bad.json": "{}",
    "notoml.toml": "data = [",
    "typo.toml": '[data]\nsorce = "digits"\n',
    "both.toml": '[data]\nsource = "digits"\n[model]\nmake = "a:b"\nfit = "a:c"\n',
    "noplan.toml": '[data]\nsource = "digits"\n[model]\nmake = "tacit.study.quickstart:network"\n',
    "batchnorm.toml": '[data]\nsource = "digits"\n[model]\nmake = "mine:normed"\n[plan]\nepsilon = 1.0\n',
    "mine.py": "from torch import nn\ndef normed():\n    return nn.Sequential(nn.Linear(64, 9), nn.BatchNorm1d(9))\n",
}


@pytest.mark.parametrize("words", BAD, ids=lambda words: " ".join(words))
def test_bad_input_is_one_sentence_and_status_two_and_writes_nothing(tacit, tmp_path, words):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    before = {path.name for path in tmp_path.iterdir()}
    status, out, err = tacit(*words)
    assert status == 2, err
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("tacit: ")]
    assert len(lines) == 1
    assert "Traceback" not in err
    left = {path.name for path in tmp_path.iterdir()} - before - {"__pycache__"}
    assert not any(list((tmp_path / name).iterdir()) for name in left)


def test_bad_input_as_json(tacit):
    status, out, err = tacit("epsilon", "--noise-multiplier", "-1", "--delta", "1e-5", "--json")
    error = json.loads(err)
    assert (status, out, error["schema"]) == (2, "", "tacit.error/1")
    assert error["error"]["code"] == "bad-input"
    assert set(error["error"]) == {"code", "message", "fix"}


def test_a_missing_option_points_to_the_help_of_its_own_verb(tacit):
    assert "See tacit ledger init --help." in tacit("ledger", "init", "b.db")[2]
    assert "See tacit ledger --help." in tacit("ledger", "nothing")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*EPSILON, "--steps", "2.5"), "'--steps': it must be a whole number. See tacit epsilon --help."),
        (("epsilon", "--noise-multiplier", "x", "--delta", "1e-5"), "'--noise-multiplier': it must be a number. See"),
        (("epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"), "tacit: --noise-multiplier must be a finite"),
        (("plan", "--records", "0", "--epsilon", "1", "--delta", "1e-5"), "tacit: --records must be a whole number"),
        (("verify", "absent.json"), "absent.json cannot be read: there is no such file."),
    ],
)  # fmt: skip
def test_an_error_names_the_option_that_was_given(tacit, words, said):
    assert said in tacit(*words)[2]


def test_an_argument_inside_a_file_is_not_called_an_option(tacit, tmp_path):
    """The noise multiplier of an event is not the option of that name, which nobody gave."""
    (tmp_path / "event.json").write_text('{"schema": "tacit.event/1", "type": "Gaussian", "noise_multiplier": -1}')
    _, _, err = tacit("epsilon", "--event", "event.json", "--delta", "1e-5")
    assert "noise_multiplier" in err
    assert "--noise-multiplier" not in err


def test_a_usage_line_shows_arguments_as_they_are_typed(tacit):
    assert "tacit report [OPTIONS] EVIDENCE" in tacit("report", "--help")[1]
    assert "tacit attack [OPTIONS] [run.toml|scores.csv]" in tacit("attack", "--help")[1]


def test_a_usage_error_as_json(tacit):
    assert json.loads(tacit("epsilon", "--json")[2])["schema"] == "tacit.error/1"


def test_an_unknown_key_names_the_nearest(tacit, tmp_path):
    (tmp_path / "typo.toml").write_text(FILES["typo.toml"])
    assert "'source'" in tacit("bracket", "typo.toml")[2]


def test_doctor(tacit, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    status, out, _ = tacit("doctor", "tacit.study.quickstart:network", "--json")
    found = json.loads(out)
    assert status == 0
    assert [row["parameter"] for row in found["model"]] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert {"name", "version", "needed_by", "install"} == set(found["packages"][0])


PROOF = """
import torch
from torch import nn

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.unused = nn.Linear(4, 3), nn.Linear(2, 2)

    def forward(self, x):
        return torch.cat([self.layer(row[None]) if row.sum() > 0 else self.layer(-row[None]) for row in x])

def branch():
    return Branch()

def plain():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))

def mixing():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

def batch():
    return torch.zeros(6, 4), torch.zeros(6, dtype=torch.long)

BATCH = batch()
"""


@pytest.mark.parametrize(
    ("model", "records", "rule", "why"),
    [
        ("plain", "all at once, each as if alone", "outer product of one position", ""),
        ("branch", "one at a time", "one record at a time, by ordinary autograd", "values of a tensor"),
        ("mixing", "refused", "refused", "batch normalisation"),
    ],
)
def test_doctor_shows_the_proof(tacit, tmp_path, monkeypatch, model, records, rule, why):
    (tmp_path / "proof_net.py").write_text(PROOF)
    monkeypatch.chdir(tmp_path)
    status, out, _ = tacit("doctor", f"proof_net:{model}", "--batch", "proof_net:BATCH", "--json")
    found = json.loads(out)
    assert status == 0
    assert (found["records"], found["model"][0]["rule"]) == (records, rule)
    assert why in found["why"]
    assert found["model"][0]["operations"] == (["linear"] if model == "plain" else [])
    assert (found["one_at_a_time"] is None) == (model == "mixing")
    assert records in tacit("doctor", f"proof_net:{model}", "--batch", "proof_net:batch")[1]
    assert tacit("doctor", "--batch", "proof_net:BATCH")[0] == 2


SLOW = """
import pathlib, time
def fit(x, y, rng):
    pathlib.Path("began").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_an_interrupt_is_one_sentence_and_a_status_of_its_own(tmp_path, isolation):
    """Ctrl-C reaches all processes of a terminal's foreground group."""
    (tmp_path / "mine.py").write_text(SLOW)
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(20, 3)), y=np.arange(20) % 2)
    given = ("audit", "mine:fit", "--epsilon", "1", "--data", "d.npz", "--canary", "blank", "--isolation", isolation)
    running = subprocess.Popen(
        [sys.executable, "-m", "tacit", *given], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    try:
        while not (tmp_path / "began").exists():
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        out, error = running.communicate(timeout=600)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
    assert (running.returncode, out) == (130, "")
    assert error.splitlines()[-1] == "tacit: stopped."
    assert "Traceback" not in error


def test_an_interrupt_says_how_to_go_on(tmp_path, capsys):
    """Only where there is something to go on from."""
    from tacit.cli.app import resumable

    state = tmp_path / "checkpoint"
    for there in (False, True):
        if there:
            state.write_text("done so far")
        with pytest.raises(KeyboardInterrupt), resumable(state, tmp_path / "run"):
            raise KeyboardInterrupt
        assert ("--resume" in capsys.readouterr().err) is there
