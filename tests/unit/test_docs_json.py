"""With --json each verb prints the fields that docs/contract.md lists for it, inner ones too, and no others."""

import functools
import json
import re

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from command import Command
from pages import DOCS
from report_samples import plain
from tacit.study.quickstart import Settings
from tacit.study.recipe import Effort

CONTRACT = (DOCS / "contract.md").read_text(encoding="utf-8")
TOKEN = re.compile(r"`(\w+)`|\b([IEB])\b|([:{}\[\]])")
KINDS = {
    "I": "lower upper",
    "E": "value lower upper n note",
    "B": "epsilon delta side confidence method adjacency unit assumes assumptions",
}


def fields(text):
    """Name and inner fields (empty where the contract says nothing of them) of each field that a text lists."""
    tokens = [next(filter(None, found.groups())) for found in TOKEN.finditer(text)]
    return inside(iter(tokens))


def inside(tokens):
    """The fields up to the brace that closes them, or to the end."""
    found, name, before = {}, None, ""
    for token in tokens:
        if token == "}":
            break
        if token == "{":
            found[name] = inside(tokens)
        elif token in KINDS:
            inner = {field: {} for field in KINDS[token].split()}
            found.update({name: inner} if before in (":", "[") else inner)
        elif token not in (":", "[", "]"):
            found[name := token] = {}
        before = token
    return found


def listed(verb):
    """The fields that are always there, and those that an option adds."""
    text = re.sub(r"those of `([\w ]+)`", lambda other: cell(other[1]), cell(verb))
    text = re.sub(r"E with (`\w+`)", r"{E, \1}", text)
    always, _, with_option = text.partition("with `--")
    return fields(always), fields(with_option)


def cell(verb):
    (row,) = [line for line in CONTRACT.splitlines() if line.startswith(f"| `{verb}` |")]
    return row.split(" | ")[2]


def differences(value, names, more=(), place=""):
    """Places whose fields are other ones than those listed; a null and a list without entries have none."""
    if isinstance(value, list):
        return [found for entry in value for found in differences(entry, names, more, f"{place}[]")]
    if not isinstance(value, dict) or not names:
        return []
    allowed = {**names, **dict(more)}
    wrong = [f"{place}.{name}" for name in (set(names) - set(value)) | (set(value) - set(allowed))]
    both = [name for name in value if name in allowed]
    return wrong + [found for name in both for found in differences(value[name], allowed[name], (), f"{place}.{name}")]


RUN = '[data]\nsource = "digits"\n[model]\nkind = "linear"\n[plan]\ndelta = 1e-5\n'
PATE = (
    '[pate]\nteachers = 20\naggregator = "gnmax"\nnoise_answer = 4\nqueries = 20\nsteps = 20\n'
    '[ledger]\nurl = "of_people.db"\n'
)
TRAINED = "epsilon = 4.0\nbatch_size = 400\nepochs = 1\n[audit]\nruns = 20\n[attack]\nreferences = 2\n"
THEIRS = """
def release(data, rng): return data + rng.normal()
pair = (1.0, 0.0)
def make(): from torch import nn; return nn.Linear(3, 2)
"""

ANSWERS = {
    "init": ("people.csv", "--label", "ill", "--out", "described"),
    "epsilon": ("--noise-multiplier", "1", "--rate", "0.1", "--steps", "9", "--delta", "1e-5", "--explain"),
    "calibrate": ("--advantage", "0.1", "--rate", "0.1", "--steps", "9", "--delta", "1e-5"),
    "plan": ("--records", "6000", "--epsilon", "3", "--delta", "1e-5"),
    "train": ("train.toml",),
    "attack": ("scores.csv",),
    "gap": ("people.toml", "--references", "2"),
    "disclose": ("people.csv", "--columns", "age,ill", "--out", "seen"),
    "audit": ("theirs_json:release", "--pair", "theirs_json:pair", "--epsilon", "1", "--runs", "40"),
    "bracket": ("train.toml",),
    "predict": ("trained", "newcomers.npz", "--make", "theirs_json:make"),
    "pate": ("pate.toml",),
    "query": ("people.csv", "--unit", "row", "--count", "--epsilon", "0.5", "--ledger", "budget.db"),
    "verify": ("evidence.json",),
    "report": ("evidence.json", "--out", "page.html"),
    "ledger init": ("other.db", "--epsilon", "1", "--delta", "1e-6", "--unit", "row"),
    "ledger show": ("budget.db",),
    "ledger verify": ("budget.db",),
    "ledger export": ("budget.db", "--out", "export.json"),
    "ledger allot": ("budget.db", "--epsilon", "0.1", "--purpose", "tests"),
    "quickstart": (),
    "doctor": (),
}
"""A quick command for each verb."""
SMALL = functools.partial(
    Settings,
    records=600,
    steps=5,
    epochs=2,
    effort=Effort(references=3, targets=2, runs=40, own_runs=16, fault_runs=40),
    plain_runs=20,
)


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """The command, in a folder with what those commands read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("tacit.study.quickstart.Settings", SMALL)
    monkeypatch.setattr("tacit.study.gap_settings.EPOCHS", (1, 2, 3))
    rows = "".join(f"{20 + k % 50},{'ny'[k % 2]}\n" for k in range(400))
    (tmp_path / "people.csv").write_text(f"age,ill\n{rows}")
    (tmp_path / "people.toml").write_text('[data]\nsource = "people.csv"\nlabel = "ill"\n')
    (tmp_path / "scores.csv").write_text("score,member\n" + "".join(f"{k % 97},{k % 2}\n" for k in range(400)))
    (tmp_path / "train.toml").write_text(RUN + TRAINED)
    (tmp_path / "pate.toml").write_text(RUN + PATE)
    (tmp_path / "theirs_json.py").write_text(THEIRS)
    plain().save(tmp_path / "evidence.json")
    tacit.Ledger.create("of_people.db", epsilon=100.0, delta=1e-3, unit="record")
    ledger = tacit.Ledger.create("budget.db", epsilon=1.0, delta=1e-6, unit="row")
    ledger.charge(tacit.events.Laplace(10.0), purpose="tests", key="first")
    return Command(capsys, monkeypatch)


def saved(folder):
    """A folder with a model of its owner's own, and new records beside it."""
    x = torch.arange(180.0).reshape(60, 3) / 180
    tacit.fit(nn.Linear(3, 2), (x, torch.arange(60) % 2), tacit.Plan(60, 0.5, 2, 1.0)).save(folder)
    np.savez(folder.with_name("newcomers.npz"), x=x.numpy())


LONG = ("bracket", "quickstart")


def test_every_verb_has_a_command_here():
    rows = CONTRACT.split("<!-- verbs -->")[1].split("<!-- /verbs -->")[0]
    assert set(ANSWERS) == set(re.findall(r"^\| `([\w ]+)` \|", rows, re.MULTILINE))


@pytest.mark.parametrize("verb", [pytest.param(verb, marks=[pytest.mark.slow] * (verb in LONG)) for verb in ANSWERS])
def test_json_has_the_fields_of_the_contract(verb, command, tmp_path):
    if verb == "predict":
        saved(tmp_path / "trained")
    status, out, err = command(*verb.split(), *ANSWERS[verb], "--json")
    assert status in (0, 1, 3), err
    found = {name: value for name, value in json.loads(out).items() if name not in ("schema", "version", "seconds")}
    assert differences(found, *listed(verb)) == []
