"""A ledger that was changed, rolled back, replaced or sent away: it is refused before anything is charged."""

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy.engine import CursorResult

from tacit import Ledger, mechanism
from tacit.core import Adjacency, BadInput, BudgetExceeded, NotFinished
from tacit.events import ApproximateDP, Compose, Gaussian, Laplace, PartitionSelection
from tacit.ledger import chain
from tacit.ledger.criteria import criteria, sound
from tacit.ledger.postgres import Postgres, with_password
from tacit.ledger.shown import spending
from tacit.ledger.state import State
from tacit.ledger.store import Store, opened
from tacit.loss import privacy_loss

TENTH = Laplace(10.0)


@pytest.fixture
def path(tmp_path):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    ledger.charge(TENTH, key="a")
    ledger.store("a", "17")
    ledger.charge(TENTH, key="b")
    ledger.close()
    return tmp_path / "a.db"


def edited(path, *statements):
    """Change the file behind the ledger's back, triggers and all."""
    file = sqlite3.connect(path)
    file.execute("DROP TRIGGER IF EXISTS tacit_UPDATE")
    for statement, values in statements:
        file.execute(statement, values)
    file.commit()
    file.close()


def body_of(path, seq):
    file = sqlite3.connect(path)
    (found,) = file.execute("SELECT body FROM tacit_entry WHERE seq = ?", (seq,)).fetchone()
    file.close()
    return json.loads(found)


def put(path, seq, body, **more):
    written = chain.text(body)
    columns = {"body": written, **more}
    names = ", ".join(f"{name} = ?" for name in columns)
    edited(path, (f"UPDATE tacit_entry SET {names} WHERE seq = ?", (*columns.values(), seq)))


def refused(path):
    ledger = Ledger(path)
    with pytest.raises(NotFinished, match="damaged"):
        ledger.charge(TENTH, key="c")
    with pytest.raises(NotFinished, match="damaged"):
        ledger.remaining()
    assert not ledger.verify()
    assert not any(entry.key == "c" for entry in ledger.entries())


@pytest.mark.parametrize("whole", [False, True])
def test_a_changed_first_entry_is_not_used(path, whole):
    """Also with a hash of its own that fits: then the second entry does not follow it."""
    body = body_of(path, 0)
    body["budget"]["epsilon"] = 100.0
    body["criteria"] = [item.to_json() for item in criteria(100.0, 1e-6)]
    more = {"hash": chain.linked(chain.START, chain.text(body))} if whole else {}
    put(path, 0, body, **more)
    refused(path)


def test_a_first_entry_that_allows_more_than_its_budget_is_not_used(tmp_path):
    """The only entry, with hashes that fit: what it says is checked too."""
    Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record").close()
    body = body_of(tmp_path / "a.db", 0)
    body["criteria"][0]["limit"] += "0"
    hashed = chain.linked(chain.START, chain.text(body))
    put(tmp_path / "a.db", 0, body, hash=hashed)
    edited(tmp_path / "a.db", ("UPDATE tacit_head SET hash = ?", (hashed,)))
    refused(tmp_path / "a.db")


@pytest.mark.parametrize("budget", [(1.0, 1e-6), (0.1, 0.0), (8.0, 1e-5), (30.0, 1e-12)])
@pytest.mark.parametrize("stated", [0.0, 0.15, 1.0])
def test_criteria_of_every_budget_are_sound_and_larger_ones_are_not(budget, stated):
    found = criteria(*budget, stated)
    assert sound(found, *budget)
    assert not sound(found, budget[0] * 0.99, budget[1])
    assert not sound(found, budget[0], budget[1] * 0.99) or budget[1] == 0
    assert not sound((*found, found[0]), *budget)
    assert not sound(found[1:], *budget)


def test_sums_that_were_changed_alone_are_not_used(path):
    """The state row has no trigger; the last entry holds a hash of it."""
    fresh = State.start(Ledger(path).terms).to_text()
    edited(path, ("UPDATE tacit_head SET state = ?", (fresh,)))
    refused(path)


def test_a_changed_last_entry_is_not_followed(path):
    body = body_of(path, 3)
    put(path, 3, {**body, "purpose": "other"})
    refused(path)


def test_a_changed_answer_is_not_returned(path):
    put(path, 2, {**body_of(path, 2), "answer": "18"})
    ledger = Ledger(path)
    with pytest.raises(NotFinished, match="entry 2 was changed"):
        ledger.stored("a")
    with pytest.raises(NotFinished, match="entry 2 was changed"):
        ledger.store("a", "19")


def test_a_rollback_is_seen_by_whoever_was_there(path, tmp_path):
    """Without a receipt: an open ledger remembers the last entry that it saw."""
    shutil.copy(path, tmp_path / "old.db")
    ledger = Ledger(path)
    ledger.charge(TENTH, key="c")
    file, old = sqlite3.connect(path), sqlite3.connect(tmp_path / "old.db")
    old.backup(file)
    file.close()
    for ask in (ledger.remaining, lambda: ledger.charge(TENTH, key="d")):
        with pytest.raises(NotFinished, match="rolled back"):
            ask()
    other = Ledger(path)
    assert other.charge(TENTH, key="e").seq == 4  # as long as before, and not the same
    with pytest.raises(NotFinished, match="entry 4 was changed"):
        ledger.charge(TENTH, key="f")


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_file_that_was_moved_away_is_not_charged(path, tmp_path, how):
    """An open connection would go on writing into a file that nobody finds."""
    shutil.copy(path, tmp_path / "copy.db")
    ledger = Ledger(path)
    ledger.charge(TENTH, key="c")
    path.unlink() if how == "removed" else (tmp_path / "copy.db").replace(path)
    with pytest.raises(NotFinished, match="moved, removed or replaced"):
        ledger.charge(TENTH, key="d")
    if how == "replaced":
        assert [entry.key for entry in Ledger(path).entries()] == ["a", "b"]


def test_a_file_that_is_replaced_during_a_charge_gives_no_receipt(path, tmp_path, monkeypatch):
    shutil.copy(path, tmp_path / "copy.db")
    ledger, append = Ledger(path), Store.append

    def late(self, connection, row, state):
        append(self, connection, row, state)
        (tmp_path / "copy.db").replace(path)

    monkeypatch.setattr(Store, "append", late)
    with pytest.raises(NotFinished, match="this charge is not in it"):
        ledger.charge(TENTH, key="c")


def test_an_answer_that_could_not_be_stored_is_not_read_in_the_error(path, monkeypatch):
    """It would be a second draw for one charge: the retry draws anew."""
    ledger = Ledger(path)
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("CREATE TRIGGER full BEFORE INSERT ON tacit_entry WHEN NEW.kind = 'answer' BEGIN "
                 "SELECT RAISE(ABORT, 'disk is full'); END")  # fmt: skip
    with pytest.raises(NotFinished, match="full") as refusal:
        mechanism.laplace(123456789, sensitivity=1, epsilon=0.1, ledger=ledger, key="count")
    error = refusal.value
    while error is not None:
        assert "1234567" not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "event",
    [ApproximateDP(1.0, 1e-6), PartitionSelection(1.0, 1e-6), Compose((ApproximateDP(0.5, 1e-6), Laplace(2.0)))],
)
def test_an_event_that_states_the_whole_budget_may_be_the_only_charge(tmp_path, event):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    ledger.charge(event, key="a")
    assert ledger.verify()
    with pytest.raises(BudgetExceeded):
        ledger.charge(Gaussian(1e4), key="b")


@pytest.mark.parametrize("event", [ApproximateDP(1.0, 1.01e-6), ApproximateDP(1.001, 1e-6)])
def test_an_event_that_states_more_is_refused(tmp_path, event):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    with pytest.raises(BudgetExceeded):
        ledger.charge(event, key="a")
    ledger.charge(TENTH, key="b")
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproximateDP(1.0, 1e-6), key="c")


@pytest.mark.parametrize("url", ["postgresql://ann:s3cret@host:5432/money", "postgresql://host/money?password=s3cret"])
def test_a_pickled_ledger_holds_no_password(url, path):
    """A copy in the same process still opens; another process needs PGPASSWORD or a password file."""
    ledger = Ledger(path, wait=7.0)
    assert pickle.loads(pickle.dumps(ledger))._store.wait == 7.0
    ledger._store = Postgres(url, 5.0)
    sent = pickle.dumps(ledger)
    assert b"s3cret" not in sent
    assert b"money" in sent
    assert with_password(ledger._store.place) == url
    assert "s3cret" not in ledger._store.place


TAKES = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1], timeout=0.1, isolation_level=None)
try:
    file.execute("BEGIN IMMEDIATE")
    print("taken")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_making_a_ledger_that_is_there_leaves_the_locks_of_a_charge_alone(path):
    """`try: Ledger.create(...) except BadInput: Ledger(...)` in a thread, while another thread writes a charge."""
    ledger = Ledger(path)

    def again():
        with pytest.raises((BadInput, NotFinished)):
            opened(path, wait=0.05).make(chain.row(chain.START, body_of(path, 0)), "")

    with ledger._store.writing():
        thread = threading.Thread(target=again)
        thread.start()
        thread.join()
        command = [sys.executable, "-c", TAKES, str(path)]
        assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == "database is locked"
    assert ledger.verify()


def test_two_objects_of_one_process_wait_for_each_other(path):
    """A handle of the queue that one thread closes would give away the place of the other."""
    first, second = Ledger(path), Ledger(path, wait=0.05)
    with first._store.writing(), pytest.raises(NotFinished, match="held by another program"), second._store.turn():
        pytest.fail("both have their turn")


@pytest.mark.parametrize("statement", [1, 2, 4])
def test_ctrl_c_within_a_statement_leaves_no_lock(path, monkeypatch, statement):
    """A traceback holds the cursor, as that of a notebook does; the file must be free for everybody all the same."""
    left = [None] * (statement - 1)

    def stopped(self, *args):
        if left:
            left.pop()
            return own(self, *args)
        raise KeyboardInterrupt

    own = CursorResult._init_metadata
    monkeypatch.setattr(CursorResult, "_init_metadata", stopped)
    with pytest.raises(KeyboardInterrupt) as held:
        Ledger(path).charge(TENTH, key="c")
    monkeypatch.undo()
    other = Ledger(path, wait=0.5)
    other.charge(TENTH, key="c")
    assert other.verify()
    assert held.tb is not None


@pytest.mark.parametrize("kind", ["link", "second name", "fifo", "folder", "number"])
def test_a_queue_that_is_no_file_of_its_own_is_left_alone(path, tmp_path, kind):
    """A link at its place had the queue's number written over the first bytes of the file behind it."""
    place, other = Path(f"{path}.lock"), tmp_path / "other"
    place.unlink()
    other.write_text("somebody's data")
    make = {"link": lambda: place.symlink_to(other), "second name": lambda: place.hardlink_to(other)}
    make |= {"fifo": lambda: os.mkfifo(place), "folder": place.mkdir, "number": lambda: place.write_text("9" * 64)}
    make[kind]()
    Ledger(path, wait=0.5).charge(TENTH, key="c")
    assert other.read_text() == "somebody's data"


def test_a_file_with_two_names_is_refused(path, tmp_path):
    """A crash leaves its journal under one name; who opens the other would read what is half written."""
    os.link(path, tmp_path / "second.db")
    for name in ("a.db", "second.db"):
        with pytest.raises(BadInput, match="hard link"):
            Ledger(tmp_path / name)
    (tmp_path / "second.db").unlink()
    assert Ledger(path).verify()


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", 5, "k" * 201])
def test_keys_are_texts_wherever_they_are_named(path, key):
    ledger = Ledger(path)
    for call in (
        lambda: ledger.stored(key),
        lambda: ledger.store(key, "1"),
        lambda: ledger.fence(key, number=None, step=0, mark=""),
        lambda: ledger.charge(TENTH, key=key),
    ):
        with pytest.raises(BadInput, match="key must be a text"):
            call()


def test_deltas_of_large_groups_and_huge_epsilons_are_refused_in_one_sentence(path):
    ledger = Ledger(path)
    for event, group in ((ApproximateDP(1.0, 1e-9), 1000), (ApproximateDP(1e308, 1e-9), 10)):
        with pytest.raises(BudgetExceeded):
            ledger.charge(event, key="large", group=group)
    assert len(ledger.entries()) == 2


def test_so_far_is_what_a_plan_of_the_same_events_would_cost_at_most(tmp_path):
    """Never below the exact loss of the composition, exact for one kind of noise, and 0 before the first charge."""
    for name, events, most in (
        ("pure", [TENTH] * 3, 0.3),
        (
            "gaussian",
            [Gaussian(100.0)] * 4,
            1.001 * privacy_loss(Gaussian(50.0), Adjacency.ADD_REMOVE).epsilon(1e-6).upper,
        ),
        ("mixed", [Gaussian(100.0), TENTH, ApproximateDP(0.01, 1e-8)], 0.5),
    ):
        ledger = Ledger.create(tmp_path / f"{name}.db", epsilon=1.0, delta=1e-6, unit="record")
        assert ledger.so_far() == 0.0
        for place, event in enumerate(events):
            ledger.charge(event, key=str(place))
        kept = [ApproximateDP(event.epsilon) if isinstance(event, ApproximateDP) else event for event in events]
        exact = privacy_loss(Compose(tuple(kept)), Adjacency.ADD_REMOVE).epsilon(1e-6).lower
        assert exact <= ledger.so_far() * (1 + 1e-9) <= most * (1 + 1e-6)
        assert spending(ledger)[-1][1] == ledger.so_far()
    plan = Ledger.create(
        tmp_path / "plan.db", epsilon=1.0, delta=1e-6, unit="record", composition="planned", events=[Gaussian(10.0)] * 2
    )
    assert plan.so_far() == 0.0
    plan.charge(Gaussian(10.0), key="one")
    assert 0 < plan.so_far() < plan.spent().epsilon
