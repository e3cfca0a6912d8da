"""`tacit predict`: one answer per new record, in their order; what cannot be answered is one sentence and no file."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import tacit as library
from command import Command
from tacit import Column, Schema

SCHEMA = Schema(
    (Column("age", range=(0, 120)), Column("job", "category", words=("clerk", "nurse")),
     Column("ill", "category", words=("no", "yes")), Column("person", "text")), label="ill", unit="person",
)  # fmt: skip
RUN = """
[data]
source = "people.csv"
schema = "people.schema.toml"
[model]
{model}
[plan]
epsilon = 50.0
delta = 1e-4
{rest}
"""
PATE = """
[pate]
teachers = 4
aggregator = "gnmax"
noise_answer = 1
queries = 20
steps = 20
student = "mlp"
"""
OWN = """
from torch import nn

def make(features, classes):
    return nn.Sequential(nn.Linear(features, 3), nn.ReLU(), nn.Linear(3, classes))

def plain():
    return nn.Linear(3, 2)

def many():
    return nn.Linear(6, 3)
"""


def people(count=400):
    age = np.arange(count) % 100
    frame = pd.DataFrame({"person": [f"p{k}" for k in range(count)], "age": age.astype(float)})
    return frame.assign(job=np.where(age % 2, "clerk", "nurse"), ill=np.where(age > 50, "yes", "no"))


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    people().to_csv("people.csv", index=False)
    people(7).drop(columns="ill").to_csv("new.csv", index=False)
    SCHEMA.with_(unit=None, columns=SCHEMA.columns[:3]).save("people.schema.toml")
    (tmp_path / "own_predicted.py").write_text(OWN)
    return Command(capsys, monkeypatch)


def trained(schema=SCHEMA):
    plan = library.Plan(400, 0.2, 40, 0.4, unit="user")
    return library.fit("linear", people(), plan, schema=schema, rng=1)


def told(path="predictions.csv"):
    return list(csv.reader(Path(path).read_text(encoding="utf-8").splitlines()))


def test_answers_stand_beside_the_columns_that_are_kept(command, tmp_path):
    model = trained()
    model.save("kept")
    status, out, _ = command("predict", "kept", "new.csv", "--keep", "person,age", "--shares", "--json")
    assert status == 0
    found = json.loads(out)
    header, *rows = told()
    assert header == ["person", "age", "prediction", "share of no", "share of yes"]
    new = people(7)
    assert [row[:2] for row in rows] == [[f"p{k}", f"{float(k)}"] for k in range(7)]
    assert [row[2] for row in rows] == model.predict(new).tolist()
    assert np.allclose([[float(part) for part in row[3:]] for row in rows], model.predict_proba(new), atol=1e-6)
    assert (found["out"], found["records"], sum(found["counts"].values())) == ("predictions.csv", 7, 7)


@pytest.mark.parametrize("kind", ["csv", "parquet", "with labels", "other order and columns"])
def test_the_file_and_its_other_columns_do_not_matter(command, kind):
    """Labels, units and columns that the schema does not name are not looked at: they may be wrong or missing."""
    trained().save("kept")
    new = people(7).assign(ill="perhaps", more="x") if kind == "with labels" else people(7).drop(columns=["ill"])
    new = new[["job", "age"]] if kind == "other order and columns" else new
    name = "asked.parquet" if kind == "parquet" else "asked.csv"
    new.to_parquet(name) if kind == "parquet" else new.to_csv(name, index=False)
    assert command("predict", "kept", name)[0] == 0
    assert told()[0] == ["prediction"]
    assert [row[0] for row in told()[1:]] == trained().predict(people(7)).tolist()


def test_no_value_of_a_new_record_raises(command):
    trained().save("kept")
    odd = pd.DataFrame(
        {"age": ["", "old", "-1e300", "1e999", "nan"], "job": ["", "cook", "clerk", "x" * 500, "\u0000"]}
    )
    odd.to_csv("odd.csv", index=False)
    status, _, error = command("predict", "kept", "odd.csv")
    assert (status, error.splitlines()) == (
        0, ["Column 'age': 3 of 4 values are no numbers, and count as missing.",
            "Column 'job': 3 of 4 values are none of its words."],
    )  # fmt: skip
    assert len(told()) == 6


def test_values_with_any_end_of_line_keep_their_row(command):
    """A carriage return alone ends a line for most readers of CSV, and Python's writer left it without quotes."""
    trained().save("kept")
    new = people(5).assign(person=["a\rb", "c\nd", "e\r\nf", "=1", '"g",'])
    new.to_parquet("odd.parquet")
    assert command("predict", "kept", "odd.parquet", "--keep", "person")[0] == 0
    found = pd.read_csv("predictions.csv", dtype=str)
    assert found.person.tolist() == new.person.tolist()
    assert found.prediction.tolist() == trained().predict(people(5)).tolist()


def test_of_many_classes_the_most_frequent_are_counted(command, monkeypatch):
    """However the records are asked about, in one block or in several."""
    words = tuple(f"w{k}" for k in range(40))
    schema = Schema((Column("age", range=(0, 120)), Column("ill", "category", words=words)), label="ill")
    frame = people(200).assign(ill=[words[k % 40] for k in range(200)])
    library.fit("mlp", frame, library.Plan(200, 0.2, 3, 1.0), schema=schema, rng=1).save("many")
    status, out, _ = command("predict", "many", "people.csv", "--shares")
    first = Path("predictions.csv").read_bytes()
    assert status == 0
    assert "and 20 other classes" in out
    assert len(out.splitlines()) < 30
    monkeypatch.setattr("tacit.cli.predicting.BLOCK", 150)
    assert command("predict", "many", "people.csv", "--shares")[0] == 0
    assert Path("predictions.csv").read_bytes() == first


def test_no_code_runs_because_a_folder_names_it(command, tmp_path):
    """Folders are handed on: what a run file in one names is code of whoever wrote it."""
    (tmp_path / "run.toml").write_text(RUN.format(model="make = 'own_predicted:make'", rest="rate = 0.2\nsteps = 2\n"))
    assert command("train", "run.toml", "--out", "made", "--seed", "1")[0] == 0
    (tmp_path / "made" / "theirs.py").write_text("raise SystemExit('ran')")
    kept = tmp_path / "made" / "run.toml"
    kept.write_text(kept.read_text().replace("own_predicted:make", "made.theirs:make"))
    status, _, error = command("predict", "made", "new.csv")
    assert (status, "--make PKG:NAME" in error) == (2, True)


@pytest.mark.parametrize(
    ("made", "more"),
    [("kind = 'linear'", ()), ("kind = 'mlp'", ()), ("make = 'own_predicted:make'", ("--make", "own_predicted:make"))],
)
def test_a_folder_of_train_is_asked_as_train_says(command, tmp_path, made, more):
    (tmp_path / "run.toml").write_text(RUN.format(model=made, rest="rate = 0.2\nsteps = 5\n"))
    status, out, _ = command("train", "run.toml", "--out", "made", "--seed", "1")
    assert status == 0
    assert " ".join(("tacit predict made TABLE", *more, "answers")) in out
    assert command("predict", "made", "new.csv", *more)[0] == 0
    first = told()
    (tmp_path / "made").rename(tmp_path / "moved")
    for gone in ("people.csv", "people.schema.toml", "run.toml"):
        (tmp_path / gone).unlink()
    assert command("predict", "moved", "new.csv", "--out", "again.csv", *more)[0] == 0
    assert told("again.csv") == first
    assert len(first) == 8


@pytest.mark.slow
def test_a_student_is_asked_by_its_own_architecture(command, tmp_path):
    """Its teachers are of another one, which the run file names."""
    text = RUN.format(model="make = 'own_predicted:make'", rest=PATE)
    (tmp_path / "run.toml").write_text(text.replace("50.0", "500.0"))
    status, out, error = command("pate", "run.toml", "--out", "taught", "--seed", "1")
    assert status == 0, error
    assert "tacit predict taught" in out
    assert command("predict", "taught", "new.csv")[0] == 0
    assert len(told()) == 8


@pytest.fixture
def arrays(command, tmp_path):
    x = torch.arange(180.0).reshape(60, 3) / 180
    library.fit(nn.Linear(3, 2), (x, torch.arange(60) % 2), library.Plan(60, 0.5, 2, 1.0)).save("arrays")
    for name, value in {
        "x": x, "flat": x[:, 0], "none": x[:0], "words": np.array([["a"]]), "lost": x * np.nan, "wide": x.repeat(1, 2),
    }.items():  # fmt: skip
        np.savez(f"{name}.npz", x=np.asarray(value))
    np.savez("y.npz", y=np.arange(3))
    trained().save("kept")
    frame, schema = people().drop(columns="person"), SCHEMA.with_(unit=None, columns=SCHEMA.columns[:3])
    library.fit(nn.Linear(schema.width, 3), frame, library.Plan(400, 0.2, 2, 1.0), schema=schema).save("many")
    return command


def test_arrays_get_numbers_of_classes(arrays):
    assert arrays("predict", "arrays", "x.npz", "--make", "own_predicted:plain", "--shares")[0] == 0
    assert told()[0] == ["prediction", "share of 0", "share of 1"]
    assert len(told()) == 61


PLAIN = ("--make", "own_predicted:plain")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "new.csv"), "is no folder"),
        (("people.csv", "new.csv"), "is no folder"),
        ((".", "new.csv"), "holds no model.safetensors"),
        (("kept", "nothing.csv"), "is not there"),
        (("kept", "x.npz"), "trained on a table"),
        (("kept", "people.csv", "--keep", "zip"), "no column 'zip'"),
        (("kept", "people.csv", "--keep", "person,person"), "would have one name"),
        (("kept", "new.csv", "--out", "new.csv"), "not overwritten"),
        (("kept", "new.csv", "--out", "a.parquet"), "Use one of: .csv"),
        (("kept", "new.csv", "--out", "none/a.csv"), "cannot be written"),
        (("kept", "new.csv", "--make", "own_predicted:make"), "Leave --make out"),
        (("arrays", "x.npz"), "--make PKG:NAME"),
        (("arrays", "x.npz", "--make", "own_predicted:nothing"), "has no 'nothing'"),
        (("arrays", "x.npz", "--make", "own_predicted:make"), "raised TypeError"),
        (("arrays", "new.csv", *PLAIN), "trained without a schema"),
        (("arrays", "y.npz", *PLAIN), "must hold x"),
        (("arrays", "flat.npz", *PLAIN), "must hold x"),
        (("arrays", "none.npz", *PLAIN), "must hold x"),
        (("arrays", "words.npz", *PLAIN), "must hold x"),
        (("arrays", "lost.npz", *PLAIN), "60 of 60 records hold a number that is not finite"),
        (("many", "new.csv", "--make", "own_predicted:many"), "tacit: The model gives 3 numbers of a record"),
        (("arrays", "wide.npz", *PLAIN), "like those of its training"),
        (("arrays", "x.npz", *PLAIN, "--keep", "a"), "an .npz file has none"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(arrays, words, said, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    status, out, error = arrays("predict", *words)
    assert (status, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
