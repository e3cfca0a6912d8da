"""`tacit audit`: its help names every game, canary and place of runs; its options are checked before any run."""

import re

import pytest

from command import Command
from tacit.audits import CANARIES
from tacit.audits.games import GAMES
from tacit.audits.runs.workers import ISOLATIONS


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Command(capsys, monkeypatch)


def test_help_names_what_there_is(tacit_):
    status, out, _ = tacit_("audit", "--help")
    text = " ".join(out.split())
    assert status == 0
    assert [name for name in (*GAMES, *CANARIES, *ISOLATIONS, "auto") if name not in text] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", "1", "--pair", "json:loads", "--isolation", "none"), "go with --data"),
        (("--epsilon", "1", "--data", "digits", "--game", "chess"), "Use one of: one-run, runs, sequential, updates"),
        (("--epsilon", "1", "--data", "digits", "--game", "updates"), "repeated step by step"),
        (("--epsilon", "1", "--data", "digits", "--runs", "9"), "needs at least 10 runs"),
        (("--epsilon", "1", "--data", "digits", "--isolation", "moon"), "isolation must be one of"),
        (("--epsilon", "1", "--data", "digits", "--canary", "yellow"), "clip-aware"),
    ],
)
def test_options_are_checked_before_any_run(tacit_, words, said):
    status, out, err = tacit_("audit", "operator:setitem", *words, "--out", "there")
    assert (status, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("entry", ["value", "function"])
def test_a_pair_is_a_value_or_a_function(tacit_, tmp_path, entry):
    name = f"theirs_{entry}"
    (tmp_path / f"{name}.py").write_text(
        "def release(data, rng): return data\nvalue = (1.0, 0.0)\ndef function(): return value\n"
        "def bad(): raise ValueError('a secret')\n"
    )
    words = ("--epsilon", "1", "--runs", "400", "--seed", "1", "--json")
    status, out, err = tacit_("audit", f"{name}:release", "--pair", f"{name}:{entry}", *words)
    assert status == 1, err
    assert '"reason": "What gave it away' in out
    assert '"caught": []' in out
    _, table, _ = tacit_("audit", f"{name}:release", "--pair", f"{name}:{entry}", *words[:-1], "--again")
    assert re.search("^feature +value 0$", table, re.MULTILINE)  # what the audit has chosen to judge by
    status, _, err = tacit_("audit", f"{name}:release", "--pair", f"{name}:bad", *words)
    assert status == 2
    assert "secret" not in err
