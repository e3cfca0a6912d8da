"""The verb ledger, and runs that pay: JSON, exit statuses, receipts, and what the page says of earlier releases."""

import json
import sqlite3
from pathlib import Path

import pytest
import torch
from torch import nn

from command import Command
from tacit.core import BadInput, BudgetExceeded, Evidence, Mismatch, NotFinished
from tacit.events import Gaussian, Laplace
from tacit.ledger import Ledger
from tacit.loss import Plan
from tacit.train import fit, private

RUN = """
[data]
source = "digits"
[model]
kind = "linear"
[plan]
rate = 0.1
steps = 5
noise_multiplier = 20.0
delta = 1e-5
{more}
"""
PLAN = Plan(60, 0.5, 20, 20.0)
DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Command(capsys, monkeypatch)


@pytest.fixture
def budget(tacit_):
    def made(*more, epsilon=1):
        words = ("--epsilon", epsilon, "--delta", 1e-5, "--unit", "record", "--json", *more)
        status, out, _ = tacit_("ledger", "init", "b.db", *words)
        assert status == 0
        return json.loads(out)

    return made


def test_init_show_export_and_verify(tacit_, budget):
    found = budget()
    assert found["schema"] == "tacit.ledger/1"
    assert found["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert (found["unit"], found["adjacency"], found["composition"]) == ("record", "add-remove", "adaptive")
    receipt = Ledger("b.db").charge(Laplace(10.0), key="a", purpose="count", analyst="ann")
    Path("receipt.json").write_text(json.dumps(receipt.to_json()))
    shown = json.loads(tacit_("ledger", "show", "b.db", "--json", "--plot", "spent.svg")[1])
    assert (shown["remaining"], shown["spent"]["epsilon"]) == (0.9, 1.0)
    (entry,) = shown["entries"]
    assert (entry["seq"], entry["key"], entry["event"]["type"]) == (1, "a", "Laplace")
    assert "1 charge," in Path("spent.svg").read_text()
    status, out, _ = tacit_("ledger", "verify", "b.db", "--receipt", "receipt.json", "--json")
    checked = json.loads(out)
    assert (status, checked["ok"], checked["entries"], checked["first_bad"]) == (0, True, 1, None)
    assert checked["head"] == shown["head"] == receipt.head
    assert tacit_("ledger", "export", "b.db", "--out", "b.json")[0] == 0
    exported = json.loads(Path("b.json").read_text())
    assert [json.loads(item["body"])["kind"] for item in exported["chain"]] == ["open", "charge"]
    assert "ann" in tacit_("ledger", "show", "b.db")[1]


def test_what_is_said_to_remain_can_be_charged(tacit_, budget):
    """It was rounded to the nearest number, here up: a charge of as much was refused."""
    budget()
    kept = Ledger("b.db")
    kept.charge(Laplace(1 / 0.1234123), key="one")
    assert float(f"{kept.remaining():.4g}") > kept.remaining()
    said = next(line for line in tacit_("ledger", "show", "b.db")[1].splitlines() if line.startswith("remaining"))
    assert float(said.split()[1]) == 0.8765
    assert "0.8765 remains" in repr(kept)
    assert ">0.8765<" in kept._repr_html_()
    kept.charge(Laplace(1 / float(said.split()[1])), key="two")


def test_evidence_and_an_export_that_are_kept_elsewhere_show_a_rollback(tacit_, budget):
    budget()
    ledger = Ledger("b.db")
    Path("old.db").write_bytes(Path("b.db").read_bytes())
    receipt = ledger.charge(Laplace(10.0), key="a")
    ledger.close()
    named = {"ledger_entry": receipt.seq, "ledger_head": receipt.head}
    Path("evidence.json").write_text(json.dumps({"schema": "tacit.evidence/1", "provenance": named}))
    assert "chain    whole" in tacit_("ledger", "export", "b.db", "--out", "export.json")[1]
    for kept in ("evidence.json", "export.json"):
        assert tacit_("ledger", "verify", "b.db", "--receipt", kept)[0] == 0
        status, out, _ = tacit_("ledger", "verify", "old.db", "--receipt", kept)
        assert (status, "rolled back" in out) == (1, True)
    for wrong in ({}, {"provenance": {}}, {"chain": [], "head": receipt.head}, {"seq": 1, "head": "abc"}, [], 5):
        status, _, error = tacit_("ledger", "verify", "b.db", "--receipt", json.dumps(wrong))
        assert (status, error.count("\n")) == (2, 1), wrong


def test_a_broken_chain_and_a_rollback_leave_with_1(tacit_, budget):
    budget()
    ledger = Ledger("b.db")
    ledger.charge(Laplace(10.0), key="a")
    ledger.close()
    Path("old.db").write_bytes(Path("b.db").read_bytes())
    receipt = json.dumps(ledger.charge(Laplace(10.0), key="b").to_json())
    assert tacit_("ledger", "verify", "b.db", "--receipt", receipt)[0] == 0
    status, out, _ = tacit_("ledger", "verify", "old.db", "--receipt", receipt)
    assert status == 1
    assert "rolled back" in out
    file = sqlite3.connect("b.db")
    file.executescript("DROP TRIGGER tacit_DELETE; DELETE FROM tacit_entry WHERE seq = 1;")
    file.close()
    status, out, _ = tacit_("ledger", "verify", "b.db", "--json")
    assert (status, json.loads(out)["first_bad"]) == (1, 1)


def test_bad_input_leaves_with_2_and_writes_nothing(tacit_, budget):
    assert tacit_("ledger", "show", "none.db")[0] == 2
    assert tacit_("ledger", "init", "b.db", "--epsilon", -1, "--unit", "record")[0] == 2
    assert not Path("b.db").exists()
    budget()
    assert tacit_("ledger", "init", "b.db", "--epsilon", 9, "--unit", "record")[0] == 2
    assert tacit_("ledger", "verify", "b.db", "--receipt", "{}")[0] == 2
    for words in (
        ("export", "b.db", "--out", "b.db"),
        ("show", "b.db", "--plot", "b.db"),
    ):  # a slip would lose all charges
        status, _, told = tacit_("ledger", *words)
        assert (status, "is not overwritten" in told or "must end in .svg" in told) == (2, True)
    assert Ledger("b.db").terms.epsilon == 1.0


def test_an_export_ends_where_its_chain_ends_though_others_charge_meanwhile(tacit_, budget, monkeypatch):
    """A head of later, beside a chain of earlier, would be a receipt that names another entry."""
    budget()
    Ledger("b.db").charge(Laplace(20.0), key="a")
    rows = Ledger.rows

    def charged_after(self):
        kept = rows(self)
        Ledger("b.db").charge(Laplace(20.0), key="b")
        return kept

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "rows", charged_after)
        assert tacit_("ledger", "export", "b.db", "--out", "e.json")[0] == 0
    found = json.loads(Path("e.json").read_text())
    assert (len(found["chain"]), [item["key"] for item in found["entries"]]) == (2, ["a"])
    assert Ledger("b.db").verify(found).ok


def test_planned_ledgers_and_allotments(tacit_):
    Path("e.json").write_text(json.dumps(Gaussian(8.0).to_json()))
    words = ("--epsilon", 1, "--delta", 1e-5, "--unit", "record", "--json")
    status, out, _ = tacit_("ledger", "init", "p.db", *words, "--event", "e.json", "--event", "e.json")
    assert (status, json.loads(out)["composition"]) == (0, "planned")
    status, _, err = tacit_("ledger", "init", "q.db", *words, *("--event", "e.json") * 9)
    assert (status, json.loads(err)["error"]["code"]) == (3, "budget-exceeded")
    tacit_("ledger", "init", "a.db", *words)
    status, out, _ = tacit_("ledger", "allot", "a.db", "--epsilon", 0.25, "--analyst", "ann", "--json")
    assert (status, json.loads(out)["allotments"][0]["remaining"]) == (0, 0.25)


@pytest.mark.needs("sklearn")
def test_train_pays_before_its_first_step_and_the_evidence_says_so(tacit_, budget):
    budget()
    Ledger("b.db").charge(Laplace(20.0), key="count", purpose="survey")
    Path("run.toml").write_text(RUN.format(more='[ledger]\nurl = "b.db"\npurpose = "model"\nanalyst = "ann"'))
    status, out, _ = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    found = json.loads(out)
    assert (status, found["receipt"]["seq"]) == (0, 2)
    entry = Ledger("b.db").entries()[1]
    assert (entry.purpose, entry.analyst) == ("model", "ann")
    assert Ledger("b.db").verify(found["receipt"]).ok
    evidence = Evidence.load("run/evidence.json")
    assert evidence.threat["earlier releases"] == "1 charged to the ledger before: 1 x Laplace for survey"
    assert "remains" not in evidence.threat["composition"]
    assert evidence.threat["what remains"].startswith("epsilon 0.")
    assert float(evidence.threat["what remains"].split()[1]) <= Ledger("b.db").remaining()
    assert not any("no ledger" in text for text in evidence.not_covered)
    assert tacit_("report", "run/evidence.json", "--out", "page.html")[0] == 0
    assert "1 x Laplace for survey" in Path("page.html").read_text()


@pytest.mark.needs("sklearn")
def test_a_run_that_does_not_fit_is_refused_with_3_and_leaves_nothing(tacit_, budget):
    budget(epsilon=0.01)
    Path("run.toml").write_text(RUN.format(more=""))
    status, _, err = tacit_("train", "run.toml", "--out", "run", "--ledger", "b.db", "--json")
    assert status == 3
    assert json.loads([line for line in err.splitlines() if "schema" in line][-1])["error"]["code"] == "budget-exceeded"
    assert not Path("run").exists()
    assert Ledger("b.db").entries() == []
    Path("run.toml").write_text(RUN.format(more='[ledger]\npurpose = "x"'))
    assert tacit_("train", "run.toml", "--out", "run")[0] == 2


@pytest.mark.needs("sklearn")
def test_bracket_pays_for_what_it_trains_and_for_nothing_else(tacit_, budget):
    budget(epsilon=0.01)
    Path("run.toml").write_text(RUN.format(more=""))
    assert tacit_("bracket", "run.toml", "--out", "out", "--ledger", "b.db")[0] == 3
    assert not Path("out").exists()
    assert tacit_("train", "run.toml", "--out", "run", "--seed", 1)[0] == 0
    status, _, err = tacit_("bracket", "run", "--ledger", "b.db")
    assert status == 2
    assert "nothing is trained here" in err
    assert Ledger("b.db").entries() == []


@pytest.mark.needs("sklearn")
def test_without_a_ledger_train_says_what_it_would_be_charged(tacit_):
    Path("run.toml").write_text(RUN.format(more=""))
    status, out, err = tacit_("train", "run.toml", "--out", "run", "--json", "--seed", 1)
    assert (status, json.loads(out)["receipt"]) == (0, None)
    assert "No ledger is charged. With --ledger, this run is charged before its first step: epsilon " in err
    assert "Repeat(" not in err


@pytest.mark.parametrize(
    ("section", "words"),
    [("", ("--ledger", "")), ("", ("--ledger", " ")), ("[ledger]", ()), ("[ledger]\nurl = ''", ())],
)
@pytest.mark.parametrize("verb", ["train", "bracket"])
def test_a_ledger_that_is_named_by_nothing_is_refused(tacit_, verb, section, words):
    """`--ledger "$BUDGET"` with no such variable, or a [ledger] without its url, trained for nothing."""
    Path("run.toml").write_text(RUN.format(more=section))
    status, out, err = tacit_(verb, "run.toml", "--out", "run", "--seed", 1, *words)
    assert (status, out) == (2, "")
    assert "needs `url` in [ledger]" in err or "A ledger is named by" in err or "must be a text" in err
    assert not Path("run").exists()


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def test_fit_and_private_charge_the_plan_once_under_the_runs_id(budget):
    budget()
    ledger = Ledger("b.db")
    trained = fit(small(), DATA, PLAN, rng=3, ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.event == PLAN.event
    assert entry.key.startswith("train-")
    assert "other releases: no ledger was given" not in trained.evidence.not_covered
    model = small()
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, rng=4, ledger=ledger)
    for batch in step.batches(DATA):
        step(batch)
    assert len(ledger.entries()) == 2
    assert ledger.verify().ok


def test_a_copied_state_goes_on_once(budget, tmp_path):
    budget()
    ledger = Ledger("b.db")

    def begun():
        model = small()
        return private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLAN, rng=4, ledger=ledger)

    def advance(step, upto):
        for batch in step.batches(DATA):
            step(batch)
            if step.done == upto:
                return

    first = begun()
    advance(first, 5)
    saved = first.state_dict()
    one, two = begun(), begun()
    one.load_state_dict(saved)
    two.load_state_dict(saved)
    advance(one, 8)
    advance(two, 20)
    with pytest.raises(Mismatch, match="elsewhere"):
        advance(one, 20)
    assert len(ledger.entries()) == 1


def test_a_run_that_is_resumed_is_charged_once(budget, tmp_path):
    budget()
    ledger = Ledger("b.db")

    def stop(step, info):
        if step.done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(small(), DATA, PLAN, rng=3, ledger=ledger, checkpoint=tmp_path / "run.ckpt", progress=stop)
    done = fit(small(), DATA, PLAN, rng=3, ledger=ledger, checkpoint=tmp_path / "run.ckpt")
    assert done.evidence.provenance["steps"] == 20
    assert len(ledger.entries()) == 1
    assert ledger.verify().ok


def test_a_plan_for_other_neighbours_or_units_is_refused(budget):
    budget()
    replaced = Plan(60, 0.5, 20, 20.0, adjacency="replace")
    with pytest.raises(Mismatch, match="no theorem"):
        fit(small(), DATA, replaced, rng=3, ledger=Ledger("b.db"))
    by_user = {"users": list(range(60)), "records_per_user": 1}
    with pytest.raises(Mismatch, match="one user"):
        fit(small(), DATA, Plan(60, 0.5, 20, 20.0, unit="user"), rng=3, ledger=Ledger("b.db"), **by_user)
    with pytest.raises(BudgetExceeded):
        fit(small(), DATA, Plan(60, 0.5, 20, 0.5), rng=3, ledger=Ledger("b.db"))
    assert Ledger("b.db").entries() == []


class Unsure:
    """A ledger whose connection is lost as soon as the charge is written: nobody knows whether it is."""

    def __init__(self, ledger):
        self.ledger, self.lost = ledger, False

    def charge(self, event, *, key, purpose="", analyst=""):
        receipt = self.ledger.charge(event, key=key, purpose=purpose, analyst=analyst)
        if not self.lost:
            self.lost = True
            raise NotFinished("The connection was lost while a charge was written.")
        return receipt

    def fence(self, key, *, number, step, mark, last=False):
        return self.ledger.fence(key, number=number, step=step, mark=mark, last=last)


@pytest.mark.parametrize("fault", ["connection", "step"])
def test_a_run_that_may_have_been_paid_for_can_go_on(budget, tmp_path, fault, monkeypatch):
    """A state at step 0 holds the run's key: without it the same run would be paid for a second time."""
    budget()
    ledger, kept = Ledger("b.db"), tmp_path / "run.ckpt"

    def failing(step, batch):
        raise BadInput("A step that fails after it was paid for.")

    more = {"rng": 3, "checkpoint": kept, "ledger": Unsure(ledger) if fault == "connection" else ledger}
    with monkeypatch.context() as patch:
        if fault == "step":
            patch.setattr("tacit.train.step.PrivateStep._gradients", failing)
        with pytest.raises(NotFinished if fault == "connection" else BadInput):
            fit(small(), DATA, PLAN, **more)
    assert kept.exists()
    with pytest.raises(BadInput, match="other data"):  # a mistake in between destroys nothing
        fit(small(), (DATA[0] + 1, DATA[1]), PLAN, **more)
    assert kept.exists()
    fit(small(), DATA, PLAN, **more)
    assert len(ledger.entries()) == 1
    assert not kept.exists()


def test_a_run_that_was_refused_leaves_no_state(budget, tmp_path):
    budget()
    with pytest.raises(BudgetExceeded):
        fit(small(), DATA, Plan(60, 0.5, 20, 0.5), rng=3, ledger=Ledger("b.db"), checkpoint=tmp_path / "run.ckpt")
    assert not (tmp_path / "run.ckpt").exists()
