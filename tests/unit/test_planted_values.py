"""Planted values are found nowhere: in what `pate`, `query`, `disclose`, PATE and private estimators say and write."""

import json
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from command import Command

NUMBER, WORD = 7319.284, "Zebulonquux"
CODE = f"""
import logging, sys, warnings
import numpy as np
from torch import nn

def loud(x):
    print(x.max(), "{WORD}")
    print(x.max(), file=sys.stderr)
    warnings.warn(f"{{x.max()}} {WORD}")
    logging.getLogger("taught").error("%s {WORD}", x.max())

def fit(x, y, rng):
    loud(x)
    if x.max() > 7000:
        raise KeyError(f"{{x.max()}} {WORD}")
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)

class Bad(nn.Linear):
    def forward(self, x):
        if x.shape[0] > 20 and float(x.max()) > 7000:
            raise ValueError(f"bad value {{x.max()}} of {WORD}")
        return super().forward(x)

def make():
    return nn.Linear(3, 2)

def broken(x, y, rng):
    raise RuntimeError(f"{{x.max()}} {WORD}")
"""
RUN = """
[data]
source = "{source}"
label = "y"
members = "m"
{unit}
[model]
{model}
[plan]
delta = 1e-3
[pate]
teachers = 6
aggregator = "gnmax"
noise_answer = 3
queries = 15
classes = 2
steps = 5
{more}
"""
GIVEN = ("taught.py", "d.csv", "e.csv", "bad.csv", "log.json", "schema.toml")


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("taught", None)
    Path("taught.py").write_text(CODE)
    rng = np.random.default_rng(0)
    header, rows = ["a", "b", "c", "y", "m", "who"], []
    for k, (a, b, c) in enumerate(rng.normal(size=(80, 3))):
        rows.append(
            [f"{a:.3f}", f"{b:.3f}", f"{NUMBER if k == 8 else c:.3f}", str(k % 2), str(int(k % 4 < 2)), WORD + str(k)]
        )
    for name, width in (("d.csv", 6), ("e.csv", 5)):
        Path(name).write_text("\n".join(",".join(row[:width]) for row in [header, *rows]) + "\n")
    Path("bad.csv").write_text(Path("e.csv").read_text() + f"1,2,{WORD},1,1\n")
    yield Command(capsys, monkeypatch)
    sys.modules.pop("taught", None)


def marks():
    texts = [str(NUMBER), f"{NUMBER:.2f}", WORD, repr(float(np.float32(NUMBER)))]
    return [mark.encode() for mark in texts] + [struct.pack(kind, NUMBER) for kind in ("<f", "<d", ">f", ">d")]


def traces():
    """Files that hold a planted value, as text or as the bytes of a number."""
    files = [path for path in Path().rglob("*") if path.is_file() and path.name not in GIVEN]
    files = [path for path in files if "__pycache__" not in str(path)]
    return [(str(path), mark) for path in files for mark in marks() if mark in path.read_bytes()]


def test_the_search_can_find_something(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("left.npy", np.array([1.0, NUMBER], dtype=np.float32))
    assert traces()


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_nothing_is_found_after_pate(tacit_):
    told = []

    def run(*words):
        status, out, err = tacit_(*words)
        told.append(out + err)
        return status

    def file(model, source="d.csv", unit='unit = "who"', more=""):
        Path("run.toml").write_text(RUN.format(model=model, source=source, unit=unit, more=more))
        return "run.toml"

    kept = "release_epsilon = 0.5\npropose = 60.0\n"
    assert run("pate", file('make = "taught:make"', more=kept), "--out", "good") == 0, told[-1]
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path("good").iterdir()}
    assert {modes[name] for name in ("records.npz", "data.key")} == {0o600}
    assert run("report", "good/evidence.json", "--out", "page.html") == 0
    assert run("verify", "good/evidence.json") == 0
    assert run("pate", file('fit = "taught:fit"'), "--out", "fitted", "--json") == 0, told[-1]
    assert run("bracket", "fitted") == 2
    assert run("pate", file('fit = "taught:broken"'), "--out", "failed") == 2
    assert run("pate", file('make = "taught:make"', "bad.csv", ""), "--out", "failed2") == 2
    assert run("pate", file('make = "taught:make"', "e.csv", "", "teachers = 7"), "--out", "failed3") == 2
    assert not [path for path in Path().iterdir() if path.name.endswith(".unfinished")]
    words = "\n".join(told)
    assert not [mark for mark in ("7319.2", WORD) if mark in words], words
    assert "Traceback" not in words
    assert traces() == []


@pytest.mark.filterwarnings("always")
def test_nothing_is_found_after_query_and_disclose(tacit_):
    told = []

    def run(*words):
        status, out, err = tacit_(*words)
        told.append(out + err)
        return status

    asked = ("query", "d.csv", "--unit", "who", "--epsilon", 1, "--seed", 0)
    assert run("ledger", "init", "budget.db", "--epsilon", 9, "--delta", 1e-6, "--unit", "who") == 0
    assert run(*asked, "--mean", "c", "--bounds", "0,10", "--out", "mean.json", "--ledger", "budget.db") == 0, told[-1]
    assert run(*asked, "--count", "--by", "y", "--keys", "0,1", "--out", "count.csv") == 0, told[-1]
    assert run(*asked, "--quantile", "c:0.5", "--bounds", "0,10", "--out", "half.svg") == 0, told[-1]
    assert run(*asked, "--count", "--by", "who", "--delta", 1e-6, "--out", "who.csv") in (0, 2), told[-1]
    assert run("query", "bad.csv", "--unit", "row", "--epsilon", 1, "--mean", "c", "--bounds", "0,1") in (0, 2)
    assert run(*asked, "--mean", "nothing", "--bounds", "0,10") == 2
    assert run(*asked, "--count", "--where", "nothing >= 3") == 2
    assert run("disclose", "d.csv", "--columns", "a,b,c", "--secret", "y", "--unit", "who", "--out", "shown") == 0
    assert run("disclose", "d.csv", "--columns", "who,c", "--out", "shown2") == 0
    queries = [{"people": [WORD, "b"], "answer": NUMBER + 1}, {"people": ["b"], "answer": 1}]
    Path("log.json").write_text(json.dumps({"queries": queries}))
    assert run("disclose", "log.json", "--out", "shown3") == 0
    assert "1 of 2 people" in told[-1] or "2 of 2 people" in told[-1]
    Path("log.json").write_text(json.dumps({"queries": [{"people": [WORD, 1.5], "answer": NUMBER}]}))
    assert run("disclose", "log.json") == 2
    words = "\n".join(told)
    assert not [mark for mark in ("7319.2", WORD) if mark in words], words
    assert "Traceback" not in words
    assert traces() == []


def test_nothing_is_found_in_what_estimators_and_students_leave(tmp_path, monkeypatch):
    """Evidence, page and pickle of a PATE student and of a private estimator; what they print; an error's text."""
    from tacit.erm import PrivateLogisticRegression
    from tacit.pate import PATE, GNMax

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = (x[:, 0] > 0).astype(int)
    x[8, 2] = NUMBER
    users = [f"{WORD}{k}" for k in range(150)]

    def line(x, y, rng):
        weight = x.T @ (2.0 * y - 1)
        return lambda asked: (asked @ weight > 0).astype(int)

    run = PATE(line, student="linear", teachers=6, aggregator=GNMax(3.0), delta=1e-3, classes=[0, 1], random_state=0)
    run.fit(x[:150], y[:150], x[150:], users)
    run.release_bound(epsilon=0.5, propose=60.0)
    run.teacher = None  # a function of this test cannot be pickled
    Path("student.pkl").write_bytes(pickle.dumps(run))
    run.evidence().save("pate.json")
    run.report("pate.html")
    made = PrivateLogisticRegression(1.0, 1e-5, norm_bound=1.0, classes=[0, 1], random_state=0).fit(x, y)
    made.evidence().save("erm.json")
    made.report("erm.html")
    words = [repr(run), repr(made), repr(run.evidence()), repr(vars(run)["design_"])]
    short = (lambda: run.fit(x[:150], y[:150], x[150:], users[:9]), lambda: PrivateLogisticRegression().fit(x, y[:9]))
    for bad in short:
        with pytest.raises((tacit.TacitError, ValueError)) as caught:
            bad()
        words.append(str(caught.value))
    assert not [mark for mark in ("7319.2", WORD) if mark in "\n".join(words)], words
    assert traces() == []
