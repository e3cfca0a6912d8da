"""Mistakes that people make with their own table: each is answered by one sentence that names the culprit.

No answer shows a value of a record: the tables hold one word that must never appear.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import tacit
from command import Command
from tacit.core import TacitError

SECRET = "Zanzibar"


def people(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    age = rng.integers(20, 80, rows)
    job = rng.choice(["clerk", "nurse", SECRET], rows)
    return pd.DataFrame({"who": np.arange(rows) // 2, "age": age, "job": job, "ill": np.where(age > 50, "yes", "no")})


def plain(text: str, name: str = "people.csv", encoding: str = "utf-8") -> None:
    Path(name).write_text(text, encoding=encoding)


def swapped(**columns: object) -> None:
    people().assign(**columns).to_csv("people.csv", index=False)


def run_file(*changes: tuple[str, str]) -> None:
    """What `tacit init` writes, with lines changed."""
    schema = tacit.Schema.of(people(), label="ill", unit="who", words={"job": ["clerk", "nurse"]})
    schema.save("people.schema.toml")
    text = (
        '[data]\nsource = "people.csv"\nschema = "people.schema.toml"\n[model]\nkind = "linear"\n'
        "[plan]\nepsilon = 3\ndelta = 1e-5\nrate = 0.5\nsteps = 2\n"
    )
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    Path("run.toml").write_text(text)


INIT = ("init", "people.csv", "--label", "ill")
MISTAKES: dict[str, tuple[Callable[[], object], tuple[str, ...], str]] = {
    "no label was named": (lambda: None, ("init", "people.csv"), "Give --label COLUMN, one of: who, age, job, ill."),
    "a kind of model that is not known": (
        lambda: run_file(('"linear"', '"forest"')),
        ("train", "run.toml"),
        "'forest' is not a kind in [model]. Did you mean",
    ),
    "a label that is not there": (lambda: None, ("init", "people.csv", "--label", "sick"), "no column 'sick'"),
    "a label of one value": (lambda: swapped(ill="no"), INIT, "label 'ill' holds one value only"),
    "a label that is a quantity": (
        lambda: swapped(ill=np.linspace(0, 1, 60)),
        INIT,
        "label 'ill' holds numbers with fractions",
    ),
    "a file that is not there": (lambda: None, ("init", "persons.csv", "--label", "ill"), "persons.csv is not there"),
    "a workbook": (lambda: plain("PK", "people.xlsx"), ("init", "people.xlsx"), "people.xlsx is a workbook"),
    "another encoding": (
        lambda: plain(f"age,job,ill\n30,Ärztin {SECRET},no\n", encoding="latin-1"),
        INIT,
        "people.csv is not text in UTF-8",
    ),
    "no header": (lambda: plain("31,2,0\n44,1,1\n"), INIT, "the first line holds numbers, not the names of columns"),
    "two columns of one name": (lambda: plain("age,age,ill\n1,2,no\n"), INIT, "two columns named 'age'"),
    "a line of another length": (
        lambda: plain(f"age;job;ill\n30;nurse;no\n31;nurse\n32;{SECRET};no\n"),
        INIT,
        "record 2 (line 3) has 2 values",
    ),
    "a range of three ends": (lambda: None, (*INIT, "--range", "age=0,60,120"), "range of 'age' must be two values"),
    "a range upside down": (
        lambda: None,
        (*INIT, "--range", "age=120,0"),
        "'age': range must be two numbers",
    ),
    "an option for another column": (lambda: None, (*INIT, "--words", "work=clerk"), "no column 'work'"),
    "files that are there already": (
        lambda: plain("", "people.schema.toml"),
        INIT,
        "people.schema.toml is there already",
    ),
    "a key of another library": (
        lambda: run_file(("rate", "sample_rate")),
        ("train", "run.toml"),
        "Did you mean 'rate'?",
    ),
    "a key in the wrong section": (
        lambda: run_file(("steps = 2", "steps = 2\nlr = 0.1")),
        ("train", "run.toml"),
        "It goes into [train].",
    ),
    "a column that went missing": (
        lambda: (run_file(), people().drop(columns="job").to_csv("people.csv", index=False)),
        ("train", "run.toml"),
        "people.csv has no column 'job'",
    ),
    "labels that the schema does not know": (
        lambda: (run_file(), swapped(ill="perhaps")),
        ("train", "run.toml"),
        "no record has a label that the schema knows",
    ),
    "a schema without a range": (
        lambda: (run_file(), plain('label = "ill"\n[columns.age]\nkind = "number"\n', "people.schema.toml")),
        ("train", "run.toml"),
        "Column 'age' is a number without a range",
    ),
    "an audit that cannot be": (
        lambda: run_file(("steps = 2", 'steps = 2\n[audit]\ngame = "one-run"')),
        ("train", "run.toml"),
        "by the game runs",
    ),
    "a folder that train did not write": (
        lambda: Path("empty").mkdir(),
        ("bracket", "empty"),
        "tacit train",
    ),
    "a table instead of a run file": (
        lambda: None,
        ("train", "people.csv"),
        "people.csv is a table, not a run file. tacit",
    ),
    "a table to be bracketed": (lambda: None, ("bracket", "people.csv"), "tacit init people.csv --label COLUMN"),
    "a range of words": (lambda: None, (*INIT, "--range", "age=low,high"), "'age' must be two numbers or two dates"),
    "two ranges for a column": (
        lambda: None,
        (*INIT, "--range", "age=0,99", "--range", "age=0,120"),
        "--range is given twice for column 'age'",
    ),
    "a range for the label": (lambda: None, (*INIT, "--range", "ill=0,1"), "The label 'ill' is given a range"),
    "words that no label has": (
        lambda: None,
        (*INIT, "--words", "ill=ja,nein"),
        "No record has one of the words that were given for the label",
    ),
    "the label as the unit": (lambda: None, (*INIT, "--unit", "ill"), "'ill' cannot be both the label and the unit"),
    "the label left out": (lambda: None, (*INIT, "--drop", "ill"), "'ill' is to be left out"),
    "dots that may be thousands": (
        lambda: plain("age;pay;ill\n" + "".join(f"{k};{k + 1}.{k:03};{'yno'[k % 2]}\n" for k in range(60))),
        INIT,
        "'pay' holds numbers such as 12.500, which is 12500 or 12.5. Give --decimal ,",
    ),
    "a mark that is none": (lambda: None, (*INIT, "--decimal", "point"), "--decimal is a point or a comma"),
    "evidence instead of a run file": (
        lambda: plain("{}", "evidence.json"),
        ("bracket", "evidence.json"),
        "evidence.json is no run file. tacit report and tacit verify read evidence",
    ),
    "evidence instead of scores": (
        lambda: plain("{}", "evidence.json"),
        ("attack", "evidence.json"),
        "evidence.json is no file of scores",
    ),
    "a folder instead of evidence": (
        lambda: Path("there").mkdir(),
        ("report", "there"),
        "there is a folder. Give the path",
    ),
    "this folder instead of evidence": (lambda: None, ("verify", "."), "tacit: . is a folder"),
    "a folder instead of a table": (lambda: None, ("init", ".", "--label", "ill"), ". is a folder"),
    "a file of another kind": (
        lambda: plain("{}", "people.json"),
        ("init", "people.json", "--label", "ill"),
        "neither a CSV nor a Parquet file",
    ),
    "a description of nothing": (
        lambda: run_file(),
        ("train", "run.toml", "--describe", "boss=me"),
        "Known: title, owner, purpose",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_on_the_command_line_is_answered(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    prepare, words, said = MISTAKES[name]
    prepare()
    status, out, err = Command(capsys, monkeypatch)(*words)
    last = err.strip().splitlines()[-1]
    assert status == 2
    assert not out
    assert last.startswith("tacit: ")
    assert said in last
    assert SECRET not in err
    assert len(last) < 420


def loop(model):
    step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=1.0), PLAN)
    return next(step.batches(FRAME))


FRAME = people()
SCHEMA = tacit.Schema.of(FRAME, label="ill", drop=["who"])
PLAN = tacit.Plan(60, 0.5, 2, 2.0)
IN_PYTHON: dict[str, tuple[Callable[[], object], str]] = {
    "a frame without a schema": (lambda: tacit.fit("linear", FRAME, PLAN), "the name of the label column alone"),
    "arrays with a model by name": (lambda: tacit.fit("linear", SCHEMA.encode(FRAME), PLAN), 'schema="LABEL"'),
    "a model of another width": (
        lambda: tacit.fit(torch.nn.Linear(3, 2), FRAME, PLAN, schema=SCHEMA),
        "first layer takes 3 numbers",
    ),
    "a kind that does not exist": (lambda: tacit.fit("forest", FRAME, PLAN, schema=SCHEMA), "'forest' is not known"),
    "labels of another length": (
        lambda: tacit.fit("linear", (FRAME.drop(columns="ill"), FRAME.ill[:50]), PLAN, schema="ill"),
        "50 labels for 60",
    ),
    "a loop on a frame without a schema": (lambda: loop(torch.nn.Linear(9, 2)), "A data frame needs a schema"),
    "a frame to predict without a column": (
        lambda: tacit.fit("linear", FRAME, PLAN, schema=SCHEMA, rng=1).predict(FRAME.drop(columns="age")),
        "no column 'age'",
    ),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_a_mistake_in_python_is_answered(name):
    call, said = IN_PYTHON[name]
    with pytest.raises(TacitError) as caught:
        call()
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
