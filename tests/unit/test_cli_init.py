"""tacit init: from somebody's table to a model, without a line of Python."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from command import Command
from tacit.core import Evidence
from tacit.data import Schema


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, job = rng.integers(18, 80, 400), rng.choice(["clerk", "nurse", "?"], 400)
    ill = np.where(age + 20 * (job == "nurse") + rng.normal(size=400) * 10 > 60, "yes", "no")
    rows = [f"{1000 + k},{a},{j},{v}" for k, (a, j, v) in enumerate(zip(age, job, ill, strict=True))]
    Path("people.csv").write_text("\n".join(["number,age,job,ill", *rows]) + "\n")
    return Command(capsys, monkeypatch)


def test_from_a_table_to_a_trained_model(tacit_):
    status, out, err = tacit_("init", "people.csv", "--label", "ill", "--range", "age=0,120", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["left_out"] == ["number"]
    assert "'number' is left out" in err
    assert "If it is a quantity, keep it by its public range: --range number=LO,HI." in " ".join(err.split())
    schema = Schema.read("people.schema.toml")
    assert schema["age"].range == (0, 120)
    assert schema.derived == ("job", "ill")
    status, out, _ = tacit_("train", found["run"], "--out", "run", "--json", "--seed", "1")
    rates = json.loads(out)["accuracy"]
    assert status == 0
    assert rates["validation"] > rates["baseline"] + 0.1
    evidence = Evidence.load("run/evidence.json")
    assert any("job, ill: they were read off the data" in text for text in evidence.not_covered)


def test_a_model_that_learns_nothing_is_told_so(tacit_):
    tacit_("init", "people.csv", "--label", "ill", "--drop", "age", "--drop", "job", "--range", "number=0,9")
    text = Path("people.run.toml").read_text().replace("epsilon = 3 ", "epsilon = 0.01 ")
    Path("people.run.toml").write_text(text)
    status, out, err = tacit_("train", "people.run.toml", "--seed", "1")
    assert status == 0
    assert "the most frequent class has" in out
    assert "no better than answering with the most frequent class" in err
    told = ("verify", "tacit-train/evidence.json", "--key", "tacit-train/data.key", "--data", "people.run.toml")
    assert "The evidence is about these data." in tacit_(*told)[1]
    assert "a run file names its label itself" in tacit_(*told, "--label", "ill")[2]
    Path("people.csv").write_text("".join(Path("people.csv").read_text().splitlines(keepends=True)[:-1]))
    status, out, _ = tacit_(*told)
    assert (status, "about OTHER data" in out) == (1, True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_it_asks(tacit_, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("\n\n0,120\nclerk,nurse\nno,yes\n"))
    monkeypatch.setattr("tacit.cli.init.terminal", lambda: shown)
    assert tacit_("init", "people.csv", "--drop", "number")[0] == 0
    assert "Which column is to be predicted? [ill]: " in shown.getvalue()
    assert Schema.read("people.schema.toml").derived == ()


def test_a_wrong_answer_is_asked_for_again_and_nothing_about_columns_that_are_left_out(tacit_, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("sick\nill\nwho\n\n0-120\n120,0\n0,120\nclerk,nurse\nno,yes\n"))
    monkeypatch.setattr("tacit.cli.init.terminal", lambda: shown)
    assert tacit_("init", "people.csv")[0] == 0
    assert "There is no column 'sick'." in shown.getvalue()
    assert "There is no column 'who'." in shown.getvalue()
    assert shown.getvalue().count("Public range of age") == 3
    assert "of number" not in shown.getvalue()
    schema = Schema.read("people.schema.toml")
    assert (schema.derived, schema["age"].range) == ((), (0, 120))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["people.csv"], "--label COLUMN"),
        (["people.csv", "--label", "sick"], "no column 'sick'"),
        (["nobody.csv", "--label", "ill"], "nobody.csv is not there"),
        (["people.csv", "--label", "ill", "--range", "age"], "--range takes COLUMN=VALUES"),
        (["people.csv", "--label", "ill", "--range", "age=1"], "range of 'age' must be two values"),
        (["people.csv", "--label", "number"], "'number' has 400 different values"),
        (["people.csv", "--label", "ill", "--range", "age=9,1"], "'age': range must be two numbers"),
    ],
)
def test_a_wrong_option_is_one_sentence(tacit_, words, said):
    status, _, err = tacit_("init", *words)
    assert status == 2
    assert said in err
    assert not list(Path().glob("*.toml"))


def test_nothing_is_overwritten(tacit_):
    Path("people.run.toml").write_text("mine")
    status, _, err = tacit_("init", "people.csv", "--label", "ill")
    assert status == 2
    assert "people.run.toml is there already" in err
    assert Path("people.run.toml").read_text() == "mine"
    assert not Path("people.schema.toml").exists()


def test_a_disk_that_is_full_between_the_two_files_leaves_neither(tacit_, monkeypatch):
    import errno

    def full(self, to, real=Path.replace):
        if "run.toml" in self.name:
            raise OSError(errno.ENOSPC, "full")
        return real(self, to)

    monkeypatch.setattr(Path, "replace", full)
    status, _, err = tacit_("init", "people.csv", "--label", "ill")
    assert status == 3
    assert "the disk is full" in err
    assert [path.name for path in Path().iterdir()] == ["people.csv"]


def test_what_it_says_of_odd_columns_can_be_followed(tacit_):
    """Names with spaces, commas and a full stop; dates with a range of numbers; a quantity as the label."""
    header = '"Pat Nr.","Age (years)","BMI, kg",seen,notes,ill\n'
    notes = ["pain in the knee", "none at all today", "see the last letter"]
    rows = [
        f"{1000 + k},{k % 60},{k % 7},{k % 28 + 1:02}.01.2020,{notes[k % 3]} {k},{'ny'[k % 2]}\n" for k in range(300)
    ]
    Path("odd.csv").write_text(header + "".join(rows))
    options = ("--range", "seen=2019,2024")
    status, out, err = tacit_("init", "odd.csv", "--label", "ill", *options)
    out, err = " ".join(out.split()), " ".join(err.split())
    assert status == 0
    assert "--range 'Pat Nr.=LO,HI'." in err
    assert "Left out: 'Pat Nr.'." in out
    assert "notes feature text none is needed" in out
    assert "They are dates: give the range as two dates" in err
    _, _, err = tacit_("init", "odd.csv")
    assert "one of: 'Pat Nr.', Age (years), 'BMI, kg', seen, notes, ill." in " ".join(err.split())
    _, _, err = tacit_("init", "odd.csv", "--label", "ill", "--range", "Age (years)=0")
    assert "For example --range 'Age (years)=0,120'." in " ".join(err.split())
    status, _, err = tacit_("init", "odd.csv", "--label", "Age (years)", "--out", "other")
    assert status == 0
    assert "The label 'Age (years)' has 60 classes, one for each number." in " ".join(err.split())
