"""A ledger: what it accepts and refuses, what it remembers, and what it finds when somebody has touched it."""

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from tacit.core import Adjacency, BadInput, BudgetExceeded, Mismatch, NotFinished, Unsupported
from tacit.core.charger import AnswerStore, Fence, Receipt, Scoped
from tacit.core.errors import FileWarning
from tacit.core.event import Event
from tacit.events import (
    ZCDP,
    ApproximateDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    NoisyMax,
    NonPrivate,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from tacit.ledger import Ledger, chain
from tacit.ledger.amounts import plain, written
from tacit.ledger.costs import costs
from tacit.ledger.criteria import GDP, criteria, pure_mu
from tacit.ledger.state import State
from tacit.loss import privacy_loss
from tacit.loss.plan import plan

TENTH = Laplace(10.0)


@pytest.fixture
def make(tmp_path):
    def made(name="budget.db", **more):
        asked = {"epsilon": 1.0, "delta": 1e-6, "unit": "record", **more}
        return Ledger.create(tmp_path / name, **asked)

    return made


def accepted(ledger, event, most=10_000):
    for count in range(most):
        try:
            ledger.charge(event, key=f"key {count}")
        except BudgetExceeded:
            return count
    return most


def test_laplace_charges_that_add_up_to_the_budget_are_all_accepted(make):
    ledger = make()
    left = [ledger.charge(TENTH, key=f"count {number}").remaining for number in range(10)]
    assert left == [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(TENTH, key="one more")
    assert (refusal.value.asked, refusal.value.remaining) == (0.1, 0.0)
    assert len(ledger.entries()) == 10
    assert ledger.verify().ok


@pytest.mark.parametrize("epsilon", [0.7, 0.3, 1 / 3, 0.1, 0.2, 1.1])
def test_noise_multipliers_that_are_rounded_inverses_add_up_too(make, epsilon):
    ledger = make(epsilon=float(f"{3 * epsilon:.15g}") if epsilon != 1 / 3 else 1.0)
    for number in range(3):
        ledger.charge(Laplace(1 / epsilon), key=str(number))
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproximateDP(1e-9), key="more")


def test_a_receipt_names_its_entry_and_what_is_proven(make):
    ledger = make()
    assert ledger.spent().epsilon == 0.0
    receipt = ledger.charge(TENTH, key="a", purpose="report", analyst="ann")
    assert (receipt.seq, receipt.head, receipt.remaining) == (1, ledger.head(), 0.9)
    assert (receipt.spent.epsilon, receipt.spent.delta, receipt.spent.unit) == (1.0, 1e-6, "record")
    assert any("L1 norm" in text for text in receipt.spent.assumptions)
    assert ledger.so_far() == pytest.approx(0.1)
    (entry,) = ledger.entries()
    assert (entry.key, entry.purpose, entry.analyst, entry.event) == ("a", "report", "ann", TENTH)


def test_a_key_is_charged_once_and_for_one_event(make):
    ledger = make()
    first = ledger.charge(TENTH, key="a")
    ledger.charge(TENTH, key="b")
    assert ledger.charge(TENTH, key="a") == first
    assert ledger.remaining() == 0.8
    with pytest.raises(Mismatch, match="another event"):
        ledger.charge(Laplace(5.0), key="a")
    with pytest.raises(Mismatch, match="another event"):
        ledger.charge(TENTH, key="a", group=2)
    assert len(ledger.entries()) == 2


def test_another_process_goes_on_where_the_first_one_stopped(make, tmp_path):
    make().charge(Laplace(2.0), key="a")
    again = Ledger(tmp_path / "budget.db")
    assert (again.remaining(), again.unit, again.adjacency) == (0.5, "record", "add-remove")
    with pytest.raises(BudgetExceeded):
        again.charge(Laplace(1.9), key="b")


def test_remaining_is_the_largest_pure_epsilon_that_is_accepted(make):
    ledger = make(epsilon=2.0)
    for number in range(12):
        ledger.charge(Gaussian(12.0), key=f"g{number}")
        left = ledger.remaining()
        with pytest.raises(BudgetExceeded) as refusal:
            ledger.charge(ApproximateDP(left * (1 + 1e-6)), key="too much")
        assert refusal.value.remaining == left < refusal.value.asked
    ledger.charge(ApproximateDP(left), key="all")
    assert ledger.remaining() < 1e-4


@pytest.mark.parametrize("budget", [(1.0, 1e-5), (1.0, 1e-6), (3.0, 1e-6), (8.0, 1e-5), (0.5, 1e-9)])
@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
def test_equal_gaussian_charges_reach_95_percent_of_the_best_single_order(budget, kind):
    from tacit.core import Adjacency
    from tacit.ledger.costs import costs
    from tacit.ledger.criteria import STATED, best_tilt, criteria, renyi_limit

    found, (tilt, noise) = criteria(*budget), (best_tilt(*budget), 200.0)
    best = renyi_limit(*budget, tilt) / ((1 + tilt) / (2 * noise**2))
    one = costs(kind(noise), Adjacency.ADD_REMOVE, 1, found)
    ours = max(item.limit / one[item.name] for item in found if item.name != STATED and one[item.name])
    assert ours >= (0.95 if kind is Gaussian or budget[1] <= 1e-5 else 1) * best


def test_a_plan_that_takes_the_whole_budget_may_be_the_only_charge(make):
    event = plan(60_000, epsilon=1.0, delta=1e-6, epochs=1, batch_size=600).event
    ledger = make()
    assert ledger.charge(event, key="run").remaining == 0.0
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(ApproximateDP(1e-9), key="more")
    assert refusal.value.remaining == 0.0
    assert ledger.verify().ok
    second = make("second.db")
    second.charge(ApproximateDP(1e-9), key="a")
    with pytest.raises(BudgetExceeded):
        second.charge(event, key="run")


def test_refusals_name_what_was_asked_and_what_such_a_release_may_still_have(make):
    ledger = make()
    ledger.charge(Gaussian(8.0), key="a")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(Gaussian(5.0), key="b")
    assert 0 < refusal.value.remaining < refusal.value.asked
    asked = privacy_loss(Gaussian(5.0), "add-remove").epsilon(1e-6).upper
    assert refusal.value.asked == pytest.approx(asked)


def test_the_adaptive_attack_on_a_loss_distribution_is_refused(make):
    """Soundness rule 2: Gaussian of mu 0.15, then what the first answer makes best; each path alone passes a PLD."""
    ledger = make()
    ledger.charge(Gaussian(1 / 0.15), key="look")
    low = high = None
    for noise in (4.0, 5.0, 6.0, 6.667, 7.0):
        path = Compose((Gaussian(1 / 0.15), Gaussian(noise)))
        if privacy_loss(path, "add-remove").delta(1.0).upper <= 1e-6:
            low = noise
            break
    for epsilon in (0.9, 0.7, 0.5, 0.4):
        path = Compose((Gaussian(1 / 0.15), RandomizedResponse(epsilon)))
        if privacy_loss(path, "add-remove").delta(1.0).upper <= 1e-6:
            high = epsilon
            break
    refused = 0
    for event in (Gaussian(low), RandomizedResponse(high), ApproximateDP(0.0, 9e-7)):
        try:
            ledger.charge(event, key=str(event))
        except BudgetExceeded:
            refused += 1
    assert (low, high) != (None, None)
    assert refused == 3


def test_events_without_a_known_cost_are_refused(make):
    class Secret(Event):
        pass

    ledger = make(delta=1e-6)
    with pytest.raises(Unsupported):
        ledger.charge(Secret(), key="a")
    Event.registry.pop("Secret")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(NonPrivate(), key="a")
    assert math.isinf(refusal.value.asked)
    with pytest.raises(BadInput):
        ledger.charge({"epsilon": 0.1}, key="a")
    with pytest.raises(Unsupported):
        ledger.charge(FixedSize(10, 100, Gaussian(10.0)), key="a")
    assert ledger.entries() == []


def test_stated_deltas_come_out_of_their_own_share(make):
    ledger = make(delta=1e-5)
    ledger.charge(PartitionSelection(0.1, 9e-7), key="a")
    ledger.charge(Gaussian(20.0), key="b")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PartitionSelection(0.1, 9e-7), key="c")
    ledger.charge(Repeat(PartitionSelection(0.01, 3e-7), 2), key="d")
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproximateDP(0.0, 1e-12), key="e")


def test_the_part_of_stated_deltas_is_chosen_when_the_ledger_is_made(make):
    for place, share in enumerate((0.0, 0.15, 0.5, 1.0)):
        ledger = make(f"{place}.db", delta=1e-6, stated=share)
        assert sum(item.delta for item in ledger.terms.criteria) + share * 1e-6 <= 1e-6 * (1 + 1e-9)
        ledger.charge(TENTH, key="a")
        if share:
            ledger.charge(ApproximateDP(0.1, share * 1e-6), key="b")
        with pytest.raises(BudgetExceeded):
            ledger.charge(ApproximateDP(0.1, 1e-12), key="c")
    with pytest.raises(BadInput):
        make("5.db", stated=1.5)


def test_other_neighbours_are_converted_by_a_theorem_or_refused(make):
    replaced, added = make(adjacency="replace"), make("added.db")
    replaced.charge(ApproximateDP(0.1), key="a", adjacency="add-remove")
    assert replaced.remaining() == 0.8
    replaced.charge(Laplace(10.0), key="b", adjacency="add-remove")
    assert replaced.remaining() == pytest.approx(0.6)
    with pytest.raises(Mismatch, match="no theorem"):
        added.charge(ApproximateDP(0.1), key="a", adjacency="replace")
    with pytest.raises(Mismatch, match=r"one user.*Open a ledger for unit 'user'; in Python, group= says"):
        added.charge(TENTH, key="a", unit="user")
    added.charge(TENTH, key="a", unit="visit", group=3)
    assert added.remaining() == 0.7


def test_a_budget_that_is_used_up_shows_that_0_remains(make):
    """It showed 1e-16, which is what thirds, as they are written, leave of 1."""
    ledger = make()
    for key in "abc":
        ledger.charge(Laplace(3.0), key=key)
    assert 0 < ledger.remaining() < 1e-15
    assert repr(ledger).endswith(", 0 remains)")


def test_allotments_are_parts_of_the_budget(make):
    ledger = make()
    ledger.allot(0.3, analyst="ann")
    ledger.allot(0.5, purpose="survey")
    ledger.charge(Laplace(5.0), key="a", analyst="ann", purpose="survey")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(Laplace(5.0), key="b", analyst="ann")
    assert refusal.value.remaining == pytest.approx(0.1)
    ledger.charge(Laplace(1 / 0.3), key="c", analyst="bob", purpose="survey")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace(100.0), key="d", analyst="bob", purpose="survey")
    ledger.charge(Laplace(2.0), key="e", analyst="bob")
    assert ledger.remaining() == 0.0
    assert ledger.remaining(analyst="ann") == 0.0
    assert [item["remaining"] for item in ledger.allotments()] == pytest.approx([0.1, 0.0])
    assert ledger.verify().ok


def test_a_planned_ledger_takes_its_events_once_each_in_any_order(make):
    events = [Gaussian(9.0), Gaussian(9.0), Repeat(Poisson(0.01, Gaussian(1.5)), 100)]
    exact = privacy_loss(Compose(events), "add-remove").epsilon(1e-6).upper
    ledger = make(composition="planned", events=events)
    ledger.charge(events[2], key="train")
    assert ledger.spent().epsilon == exact <= 1.0
    for number in range(2):
        ledger.charge(Gaussian(9.0), key=str(number))
    with pytest.raises(BudgetExceeded):
        ledger.charge(Gaussian(9.0), key="third")
    with pytest.raises(BudgetExceeded):
        ledger.charge(TENTH, key="not planned")
    assert ledger.verify().ok
    with pytest.raises(BudgetExceeded):
        make("more.db", composition="planned", events=[*events, Gaussian(3.0)])
    other = make("group.db", composition="planned", events=events)
    with pytest.raises(BudgetExceeded):
        other.charge(Gaussian(9.0), key="a", group=2)


def test_answers_are_stored_once(make):
    ledger = make()
    with pytest.raises(Mismatch):
        ledger.store("a", "1")
    ledger.charge(TENTH, key="a")
    assert ledger.stored("a") is None
    assert ledger.store("a", "first é") == "first é"
    assert ledger.store("a", "second") == "first é" == ledger.stored("a")
    assert isinstance(ledger, AnswerStore)
    assert isinstance(ledger, Fence)
    assert isinstance(ledger, Scoped)


def test_a_run_goes_on_once(make):
    ledger = make()
    with pytest.raises(Mismatch):
        ledger.fence("run", number=None, step=0, mark="a")
    ledger.charge(TENTH, key="run")
    one = ledger.fence("run", number=None, step=0, mark="a")
    ledger.fence("run", number=one, step=5, mark="b")
    two = ledger.fence("run", number=None, step=5, mark="b")
    assert two > one
    with pytest.raises(Mismatch, match="elsewhere"):
        ledger.fence("run", number=one, step=6, mark="c")
    with pytest.raises(Mismatch, match="otherwise"):
        ledger.fence("run", number=two, step=5, mark="other")
    assert ledger.fence("run", number=two, step=5, mark="b") == two
    ledger.fence("run", number=two, step=9, mark="d", last=True)
    with pytest.raises(Mismatch, match="ended"):
        ledger.fence("run", number=None, step=9, mark="d")
    assert ledger.verify().ok


def touched(path, *statements):
    with sqlite3.connect(path) as file:
        for name in ("UPDATE", "DELETE"):
            file.execute(f"DROP TRIGGER tacit_{name}")
        for statement in statements:
            file.execute(statement)
    file.close()


@pytest.mark.parametrize(
    ("statement", "first_bad"),
    [
        ("UPDATE tacit_entry SET body = replace(body, '10.0', '99.0') WHERE seq = 2", 2),
        ("UPDATE tacit_entry SET name = 'x' WHERE seq = 3", 3),
        ("UPDATE tacit_entry SET hash = upper(hash) WHERE seq = 1", 1),
        ("DELETE FROM tacit_entry WHERE seq = 2", 2),
        ("DELETE FROM tacit_entry WHERE seq = 4", 4),
        ("DELETE FROM tacit_entry WHERE seq = 0", 0),
        ("UPDATE tacit_entry SET seq = CASE seq WHEN 2 THEN 1003 WHEN 3 THEN 1002 END WHERE seq IN (2, 3)", 2),
        ("UPDATE tacit_head SET state = replace(state, '\"charges\":4', '\"charges\":3')", 5),
        ("UPDATE tacit_head SET hash = 'a'", 5),
    ],
)
def test_whatever_was_touched_is_found(make, tmp_path, statement, first_bad):
    ledger = make()
    for number in range(4):
        ledger.charge(TENTH, key=str(number))
    assert ledger.verify().ok
    more = ["UPDATE tacit_entry SET seq = seq - 1000 WHERE seq > 1000"]
    touched(tmp_path / "budget.db", statement, *more)
    found = ledger.verify()
    assert (found.ok, found.first_bad) == (False, first_bad)
    assert found.problem


def test_entries_refuse_to_be_changed(make, tmp_path):
    make().charge(TENTH, key="a")
    with sqlite3.connect(tmp_path / "budget.db") as file, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        file.execute("DELETE FROM tacit_entry")
    file.close()


def test_a_receipt_finds_an_older_copy_and_a_new_chain(make, tmp_path):
    ledger = make()
    ledger.charge(TENTH, key="a")
    ledger.close()
    shutil.copy(tmp_path / "budget.db", tmp_path / "old.db")
    receipt = ledger.charge(TENTH, key="b")
    assert ledger.verify(receipt).ok
    assert ledger.verify(json.loads(json.dumps(receipt.to_json()))).ok
    old = Ledger(tmp_path / "old.db")
    assert old.verify().ok
    assert old.verify(receipt).problem.endswith("rolled back")
    old.charge(Laplace(11.0), key="c")
    assert (old.verify().ok, old.verify(receipt).ok) == (True, False)


@pytest.mark.parametrize("thorough", [False, True])
def test_a_whole_chain_written_anew_must_still_keep_its_sums_and_costs(make, tmp_path, thorough):
    """Somebody halves a cost and computes all hashes again, and all sums too where `thorough`."""
    ledger = make()
    for number in range(3):
        ledger.charge(Laplace(5.0), key=str(number))
    rows = [json.loads(row["body"]) for row in ledger.rows()]
    rows[2]["cost"]["sum"] = str(int(rows[2]["cost"]["sum"]) // 2)
    before, state, statements = ledger.rows()[0]["hash"], State.start(ledger.terms).after(rows[0]), []
    for body in rows[1:]:
        state = state.after(body)
        if thorough:
            body["total"] = written(state.totals)
        changed = chain.row(before, body)
        before = changed.hash
        new = f"body = '{changed.body}', hash = '{changed.hash}'"
        statements.append(f"UPDATE tacit_entry SET {new} WHERE seq = {changed.seq}")
    head = f"UPDATE tacit_head SET hash = '{before}'" + (f", state = '{state.to_text()}'" if thorough else "")
    touched(tmp_path / "budget.db", *statements, head)
    found = ledger.verify()
    assert found.first_bad == 2
    assert ("less than its event costs" in found.problem) == thorough


def test_a_clock_that_was_set_back_changes_nothing_but_the_time(make, monkeypatch):
    ledger = make()
    ledger.charge(TENTH, key="a")
    monkeypatch.setattr(chain, "now", lambda: "1999-01-01T00:00:00.000000Z")
    with pytest.warns(FileWarning, match="clock"):
        ledger.charge(TENTH, key="b")
    times = [entry.time for entry in ledger.entries()]
    assert times[0] == times[1]
    assert ledger.verify().ok


def test_a_held_file_is_one_sentence(make, tmp_path):
    make()
    ledger = Ledger(tmp_path / "budget.db", wait=0.2)
    holder = sqlite3.connect(tmp_path / "budget.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(NotFinished, match="held by another program; nothing was charged"):
        ledger.charge(TENTH, key="a")
    holder.execute("ROLLBACK")
    holder.close()
    assert ledger.charge(TENTH, key="a").seq == 1


def test_what_is_no_ledger_is_one_sentence(tmp_path, make):
    with pytest.raises(BadInput, match="is not there"):
        Ledger(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("a text that is no database " * 50)
    with pytest.raises(BadInput, match="not a ledger"):
        Ledger(tmp_path / "text.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(BadInput, match="not a ledger"):
        Ledger(tmp_path / "empty.db")
    with pytest.raises(BadInput, match="in memory"):
        Ledger(":memory:")
    with pytest.raises(BadInput, match="cannot lie in mysql"):
        Ledger("mysql://host/name")
    make()
    with pytest.raises(BadInput, match="holds a ledger already"):
        make(epsilon=5.0)
    with pytest.raises(BadInput):
        make("zero.db", epsilon=0.0)
    with pytest.raises(BadInput):
        make("wide.db", composition="odometer")
    with pytest.raises(BadInput):
        Ledger(tmp_path / "budget.db").charge(TENTH, key="")
    assert not (tmp_path / "zero.db").exists()


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_the_file_belongs_to_its_owner_alone(make, tmp_path):
    make()
    assert (tmp_path / "budget.db").stat().st_mode & 0o077 == 0


def test_a_budget_without_delta_counts_pure_charges_only(make):
    ledger = make(delta=0.0)
    ledger.charge(NoisyMax(0.5), key="a")
    ledger.charge(DiscreteLaplace(2.0), key="b")
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproximateDP(1e-12), key="c")
    with pytest.raises(BudgetExceeded):
        make("g.db", delta=0.0).charge(Gaussian(1e6), key="c")


def test_zcdp_and_selection_are_charged_by_their_renyi_curves(make):
    ledger = make()
    count = accepted(ledger, ZCDP(0.002))
    assert count == accepted(make("g.db"), DiscreteGaussian(1 / math.sqrt(2 * 0.002)))
    assert count > 8


def test_pages_for_people(make):
    ledger = make()
    ledger.charge(TENTH, key="<script>", purpose="<b>")
    text = ledger._repr_html_()
    assert "<svg" in text
    assert "not a claim" in text
    assert "<script>" not in text
    assert "0.9 remains" in repr(ledger)


def test_receipts_travel(make):
    receipt = make().charge(TENTH, key="a")
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert replace(receipt, seq=2) != receipt


def test_without_its_extra_a_ledger_says_what_to_install(tmp_path):
    """In a process of its own, where neither SQLAlchemy nor the driver can be imported; torch is never needed."""
    code = (
        "import sys\n"
        "sys.modules['sqlalchemy'] = sys.modules['torch'] = None\n"
        "import tacit\n"
        "try:\n    tacit.Ledger('b.db')\n"
        "except tacit.MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "This needs the extra `ledger`. Run: pip install 'tacit[ledger]'\n"


@pytest.mark.parametrize("noise", [1e6, 1e8, 1e12])
def test_releases_that_lose_next_to_nothing_are_not_charged_less_than_they_lose(noise):
    """For Laplace noise of a tiny epsilon, D_{1+t} is about (1 + t) epsilon^2 / 2, and mu about epsilon at least."""
    found = criteria(1.0, 1e-6)
    one = costs(Laplace(noise), Adjacency.ADD_REMOVE, 1, found)
    for item in found:
        if item.tilt is not None:
            assert plain(one[item.name]) >= (1 + item.tilt) / (2 * noise**2) * 0.999
    assert plain(one[GDP]) >= 1 / noise**2


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-6, 1e-4, 9.99e-4, 1.001e-3, 0.1, 5.0])
def test_a_pure_release_is_gaussian_private_to_all_digits(epsilon):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        truth = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
        assert 0 <= pure_mu(epsilon) / truth - 1 + mpmath.mpf("1e-11") < 1e-6


def test_odd_input_is_one_sentence(make, tmp_path):
    ledger, deep = make(), Laplace(1e6)
    for _ in range(400):
        deep = Compose((deep,))
    for url in (None, 3, b"b.db", tmp_path, "", " \n"):
        with pytest.raises(BadInput):
            Ledger(url)
    with pytest.raises(BadInput, match="nested too deeply"):
        ledger.charge(deep, key="a")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace(1e-90), key="a")
    for receipt in ({"seq": 1}, "text", 3, {"seq": float("inf"), "head": "0" * 64}):
        with pytest.raises(BadInput, match="receipt"):
            ledger.verify(receipt)
    assert ledger.entries() == []


@pytest.mark.parametrize("damage", ["body", "seq", "totals", "allotments", "conditions", "time", "nested"])
def test_a_damaged_ledger_is_one_sentence_wherever_it_is_read(tmp_path, damage):
    import sqlite3

    path = tmp_path / "l.db"
    made = Ledger.create(str(path), epsilon=4.0, delta=1e-5, unit="record")
    made.charge(Gaussian(9.0), key="a")
    made.allot(1.0, analyst="ann")
    connection = sqlite3.connect(path)
    table = {row[0]: row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
    for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        connection.execute(f"drop trigger {name}")
    entries = next(name for name in table if "entr" in name)
    heads = next(name for name in table if "head" in name)
    (kept,) = connection.execute(f"select state from {heads}").fetchone()
    state = json.loads(kept)
    state |= {
        "totals": {"totals": "x"},
        "allotments": {"allotments": [{"analyst": 3}]},
        "time": {"time": None},
        "conditions": {"conditions": [{}]},
    }.get(damage, {})
    if damage in ("body", "nested"):
        text = "{" if damage == "body" else '{"event":' * 5000
        connection.execute(f"update {entries} set body = ? where kind = 'charge'", (text,))
    elif damage == "seq":
        connection.execute(f"update {heads} set seq = 'x'")
    else:
        connection.execute(f"update {heads} set state = ?", (json.dumps(state),))
    connection.commit()
    connection.close()
    found, raised = Ledger(str(path)), []
    for ask in (found.remaining, found.entries, found.allotments, lambda: found.charge(Gaussian(9.0), key="a"),
                lambda: found.charge(Gaussian(50.0), key="b")):  # fmt: skip
        try:
            ask()
        except NotFinished as error:
            raised.append(str(error))
    assert raised
    assert all("is damaged" in text for text in raised)


def test_damage_that_sqlite_itself_quotes_is_one_sentence(tmp_path):
    """Its words then hold bytes that are no text."""
    path = tmp_path / "l.db"
    Ledger.create(str(path), epsilon=4.0, delta=1e-5, unit="record")
    with sqlite3.connect(path) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    data = bytearray(path.read_bytes())
    at = data.index(b"CREATE TABLE")
    data[at : at + 6] = b"CREATX"
    data[data.rindex(b"table", 0, at) + 5] = 0xCC  # the first letter of the table's name
    path.write_bytes(data)
    with pytest.raises((BadInput, NotFinished), match="damaged"):
        Ledger(str(path)).remaining()
