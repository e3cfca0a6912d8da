"""A linear model of a table whose run file leaves the way of training open: the best method of `tacit.erm` makes it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("sqlalchemy")
import tacit
from command import Command
from tacit import BadInput, Column, Schema
from tacit.core.files import Lasting
from tacit.data import Records
from tacit.erm import PrivateLogisticRegression
from tacit.erm.estimator import AT_MOST, SIZE
from tacit.study.minimiser import Minimiser, Stream, left_open
from tacit.study.run_file import RunFile
from tacit.study.run_training import RunTraining
from tacit.train.recipe.networks import Shortened

SCHEMA = Schema(
    (
        Column("age", range=(0, 100)),
        Column("town", kind="category", words=("A", "B")),
        Column("buys", kind="category", words=("n", "y")),
    ),
    label="buys",
)
RNG = np.random.default_rng(0)
AGE, TOWN = RNG.integers(0, 100, 400), RNG.choice(["A", "B"], 400)
BUYS = np.where(AGE / 100 + 0.3 * (TOWN == "A") > 0.6, "y", "n")
RUN = """
[data]
source = "people.csv"
schema = "people.toml"
[model]
kind = "linear"
[plan]
epsilon = 2
delta = 1e-4
"""


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows = [f"{a},{t},{b}" for a, t, b in zip(AGE, TOWN, BUYS, strict=True)]
    Path("people.csv").write_text("\n".join(["age,town,buys", *rows]))
    SCHEMA.save("people.toml")
    Path("run.toml").write_text(RUN)
    return Command(capsys, monkeypatch)


def records():
    import pandas as pd

    x, y = SCHEMA.encode(pd.DataFrame({"age": AGE, "town": TOWN, "buys": BUYS}))
    return Records(x, y, schema=SCHEMA)


def test_a_run_file_without_python_pays_once_and_tells_what_it_did(tacit_):
    status, out, err = tacit_("ledger", "init", "budget.db", "--epsilon", 5, "--delta", 1e-3, "--unit", "record")
    assert status == 0, err
    status, out, err = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1, "--ledger", "budget.db")
    assert status == 0, err
    found = json.loads(out)
    assert "objective perturbation" in err
    assert (found["steps"], found["plot"]) == (1, None)
    assert 1.9 < found["epsilon"]["upper"] <= 2.0
    assert found["accuracy"]["validation"] > found["accuracy"]["baseline"] + 0.1
    assert found["receipt"]["seq"] == 1
    evidence = tacit.Evidence.load("run/evidence.json")
    assert type(evidence.claim.event).__name__ == "Compose"
    assert evidence.provenance["method"] == "objective"
    assert any("number of records" in line for line in evidence.not_covered)
    assert SIZE in evidence.claim.bound.assumptions  # nobody gave public_size
    assert any("accuracy on held-out records" in line for line in evidence.not_covered)
    assert evidence.claim.bound.assumptions == tuple(found["assumptions"])
    assert tacit.verify(evidence).ok
    assert {"model.safetensors", "evidence.json", "manifest.json"} <= {path.name for path in Path("run").iterdir()}
    assert not Path("run.unfinished").exists()


def test_only_a_file_that_leaves_the_way_open_is_minimised(tacit_):
    held, file = records(), RunFile.read("run.toml")
    assert left_open(file, held)
    assert RunTraining.of(file, held, None).code == "tacit.erm"
    for section, more in (("plan", {"rate": 0.1, "steps": 9}), ("train", {"lr": 1.0}), ("model", {"kind": "mlp"})):
        other = replace(file, sections={**file.sections, section: {**file.get(section), **more}})
        assert not left_open(other, held)
        assert RunTraining.of(other, held, None).code == "train.fit"
    assert not left_open(file, replace(held, schema=None))
    assert not left_open(file, replace(held, unit=np.arange(len(held.x))))


@pytest.mark.parametrize("plan", ["public_size = 0", "epsilon = inf", "epsilon = 0", "delta = 1", "public_size = -3"])
def test_bad_numbers_of_a_plan_are_one_sentence(tacit_, plan):
    """Once, public_size 0 divided by it, and an infinite epsilon could not be written."""
    name = plan.split()[0]
    lines = [line for line in RUN.splitlines() if not line.startswith(name)]
    Path("run.toml").write_text("\n".join([*lines, plan]))
    status, _, err = tacit_("train", "run.toml", "--out", "run", "--json")
    assert (status, json.loads(err)["error"]["code"]) == (2, "bad-input")
    assert name in json.loads(err)["error"]["message"]
    assert not Path("run.unfinished").exists()


def test_a_run_that_is_killed_after_it_paid_is_resumed_for_nothing_on_the_same_data_alone(tacit_, monkeypatch):
    assert tacit_("ledger", "init", "budget.db", "--epsilon", 5, "--delta", 1e-3, "--unit", "record")[0] == 0
    words = ("train", "run.toml", "--out", "run", "--ledger", "budget.db", "--json")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tacit.study.minimiser._network", killed)
        assert tacit_(*words)[0] == 130
    assert tacit_(*words)[0] == 2  # what is left must be resumed
    whole = Path("people.csv").read_text()
    Path("people.csv").write_text(whole.rsplit("\n", 1)[0])
    status, _, err = tacit_(*words, "--resume")
    assert (status, "have changed since this run began" in err) == (2, True)
    Path("people.csv").write_text(whole)
    status, out, err = tacit_(*words, "--resume")
    assert status == 0, err
    assert json.loads(out)["receipt"]["seq"] == 1
    assert len(tacit.Ledger("budget.db").entries()) == 1
    assert not Path("run.unfinished").exists()  # the secret is gone


MINIMISER = Minimiser(400, 5, 2.0, 2.0, 1e-4)


class Till:
    adjacency, unit = tacit.Adjacency.ADD_REMOVE, "record"

    def __init__(self):
        self.paid = {}

    def charge(self, event, *, key, purpose="", analyst="", adjacency=None, unit=None):
        assert self.paid.setdefault(key, event) == event


def make():
    return Shortened(5, 2, 2.0)


def test_a_run_that_is_done_again_pays_nothing_and_draws_the_same_noise(tmp_path):
    held, till, place = records(), Till(), Lasting(tmp_path / "checkpoint.secret")
    weights = []
    for _ in range(2):
        done = MINIMISER.trained(make, (held.x[:, :5], held.y), None, ledger=till, checkpoint=place)
        weights.append(done.model.layer.weight[1].tolist())
    assert weights[0] == weights[1]
    assert len(till.paid) == 1
    assert place.path.stat().st_mode & 0o777 == 0o600
    assert "cryptographic" in done.evidence.provenance["randomness"]
    assert not any("seed" in line for line in done.evidence.not_covered)
    other = Lasting(tmp_path / "other.secret")
    again = MINIMISER.trained(make, (held.x[:, :5], held.y), None, ledger=till, checkpoint=other)
    assert again.model.layer.weight[1].tolist() != weights[0]
    assert len(till.paid) == 2
    place.path.write_bytes(b"short")
    with pytest.raises(BadInput, match="damaged"):
        MINIMISER.trained(make, (held.x[:, :5], held.y), None, checkpoint=place)


def test_a_secret_serves_one_run(tmp_path, monkeypatch):
    """A copied secret, or a data file that changed, would else give two models for one charge."""
    held, till, place = records(), Till(), Lasting(tmp_path / "checkpoint.secret")
    x, y = held.x[:, :5], held.y
    MINIMISER.trained(make, (x, y), 1, ledger=till, checkpoint=place)
    for minimiser, data, seed in (
        (MINIMISER, (x, 1 - y), 1), (MINIMISER, (x[1:], y[1:]), 1), (MINIMISER, (x, y), 2), (MINIMISER, (x, y), None),
        (replace(MINIMISER, epsilon=3.0), (x, y), 1), (replace(MINIMISER, size_given=False), (x, y), 1),
    ):  # fmt: skip
        with pytest.raises(BadInput, match="have changed since this run began"):
            minimiser.trained(make, data, seed, ledger=till, checkpoint=place)
    monkeypatch.setattr("tacit.study.minimiser.version", "0.0.0")
    with pytest.raises(BadInput, match="have changed"):
        MINIMISER.trained(make, (x, y), 1, ledger=till, checkpoint=place)
    assert len(till.paid) == 1


def test_a_secret_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(tacit.TacitError, match=r"checkpoint\.secret cannot be written"):
        MINIMISER.trained(
            make, (records().x[:, :5], records().y), None, checkpoint=Lasting(tmp_path / "no/checkpoint.secret")
        )


def test_the_claim_says_how_many_records_there_may_be():
    """Once, the limit was named after an argument that the page does not show, also where nobody had given it."""
    file = RunFile(Path("run.toml"), {"plan": {"epsilon": 2, "delta": 1e-4}, "model": {"kind": "linear"}})
    read = Minimiser.of(file, records(), 360)
    told = Minimiser.of(replace(file, sections={"plan": {"epsilon": 2, "public_size": 400}}), records(), 360)
    assert read.bound(1e-4).assumptions[-1] == SIZE
    assert told.bound(1e-4).assumptions[-1] == AT_MOST.format(800) == "there are at most 800 records"
    done = replace(MINIMISER, size_given=False).trained(make, (records().x[:, :5], records().y), 1)
    assert SIZE in done.evidence.claim.bound.assumptions


def test_the_network_answers_as_the_estimator_does():
    held = records()
    x = np.concatenate((held.x[:, :5], 30 * held.x[:5, :5]))
    done = MINIMISER.trained(lambda: Shortened(5, 2, 2.0), (held.x[:, :5], held.y), 3)
    same = PrivateLogisticRegression(2.0, 1e-4, classes=[0, 1], norm_bound=2.0, public_size=400, random_state=3).fit(
        held.x[:, :5], held.y
    )
    assert np.allclose(done.predict_proba(x), same.predict_proba(x), atol=1e-5)
    assert done.evidence.claim.event == MINIMISER.event == same.event_
    assert MINIMISER.bound(1e-4) == same.bound_


def test_words_from_a_secret_are_uniform_and_repeat():
    one, two, other = Stream(b"a"), Stream(b"a"), Stream(b"b")
    first = one.words(4096)
    assert np.array_equal(first, two.words(4096))
    assert not np.array_equal(first, one.words(4096))
    assert not np.array_equal(first, other.words(4096))
    bits = np.unpackbits(first.view(np.uint8))
    assert abs(bits.mean() - 0.5) < 6.5 * 0.5 / np.sqrt(bits.size)
    assert not np.array_equal(*(each.words(8) for each in one.spawn(2)))
