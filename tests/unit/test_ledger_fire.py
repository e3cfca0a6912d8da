"""A ledger under fire: concurrent spenders, kill -9, full disks, cut connections, and receipts that are on disk."""

import contextlib
import json
import os
import random
import sqlite3
import threading
import time
from functools import partial

import pytest
import sqlalchemy as sa

from ledger_fire import TENTH, forked, judged, killed, logged, read, spenders, traced, waited
from tacit import mechanism
from tacit.core import BadInput, BudgetExceeded, Mismatch, NotFinished
from tacit.events import Gaussian, Laplace
from tacit.ledger import Ledger
from tacit.ledger.forks import Transactions
from tacit.ledger.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="forks")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def place(request, tmp_path):
    """The URL of a place without a ledger, by name."""
    if request.param == "sqlite":
        return lambda name: str(tmp_path / f"{name}.db")
    running, mark = request.getfixturevalue("postgres"), f"{time.monotonic_ns()}"
    return lambda name: running.fresh(f"{name}_{mark}")


def make(url, **more):
    Ledger.create(url, **{"epsilon": 5.0, "delta": 0.0, "unit": "record", **more}).close()
    return url


def test_64_spenders_never_overspend(place, tmp_path):
    url = make(place("many"))
    found = spenders(url, tmp_path / "log", processes=64, each=2)
    assert (found["failed"], found["released"]) == (0, 50)
    assert judged(url, tmp_path / "log") == {
        "charges": 50, "releases": 50, "uncharged": 0, "lost": 0, "twice": 0, "whole": 1
    }  # fmt: skip
    assert Ledger(url).remaining() == 0.0


@pytest.mark.slow
def test_spenders_that_are_killed_lose_nothing_and_release_nothing_unpaid(place, tmp_path):
    url = make(place("killed"), epsilon=1e6)
    killed(url, tmp_path / "log", kills=40, rng=random.Random(7))  # `benchmarks/ledger.py` kills many more
    found = judged(url, tmp_path / "log")
    assert found["releases"] > 8
    assert (found["uncharged"], found["lost"], found["twice"], found["whole"]) == (0, 0, 0, 1)


def test_a_ledger_that_writes_after_its_receipt_is_caught(tmp_path, monkeypatch):
    """The mutant: a transaction is committed only when the next one begins."""
    url = make(str(tmp_path / "late.db"), epsilon=1e6)
    held = []

    @contextlib.contextmanager
    def late(store):
        while held:
            held.pop().exec_driver_sql("COMMIT")
        connection = store.engine.connect()
        store._begin(connection)
        held.append(connection)
        yield connection

    def caught(turn):
        with monkeypatch.context() as patched:
            patched.setattr(Store, "writing", late)
            killed(url, tmp_path / "log", kills=3, rng=random.Random(turn), tag=str(turn))
        held.clear()
        return bool(read(tmp_path / "log")) and judged(url, tmp_path / "log")["uncharged"] > 0

    assert any(caught(turn) for turn in range(100))


def test_racing_retries_get_one_charge_and_one_answer(place, tmp_path):
    url = make(place("race"))

    def retry(number):
        ledger = Ledger(url)
        receipt = ledger.charge(TENTH, key="the same")
        answer = ledger.store("the same", str(number))
        logged(tmp_path / "log", json.dumps({"seq": receipt.seq, "answer": answer}))

    assert not any(waited([forked(lambda number=number: retry(number)) for number in range(12)]))
    lines = read(tmp_path / "log")
    assert len({line["seq"] for line in lines}) == len({line["answer"] for line in lines}) == 1
    assert len(lines) == 12
    assert len(Ledger(url).entries()) == 1


def test_one_key_for_two_events_in_a_race_is_refused_for_one(place, tmp_path):
    url = make(place("clash"), delta=1e-6)

    def claim(event):
        with contextlib.suppress(Mismatch):
            Ledger(url).charge(event, key="k")
            logged(tmp_path / "log", '{"event": 1}')

    waited([forked(lambda event=event: claim(event)) for event in [TENTH, Gaussian(50.0)] * 4])
    assert len(read(tmp_path / "log")) == 4
    assert len(Ledger(url).entries()) == 1


@pytest.mark.needs("strace")
def test_a_receipt_comes_after_the_disk_has_it(tmp_path):
    make(str(tmp_path / "b.db"))
    assert traced(tmp_path / "b.db", "FULL", tmp_path / "trace") == []
    assert "b.db" in traced(tmp_path / "b.db", "OFF", tmp_path / "trace")  # the mutant


def test_a_full_disk_is_one_sentence_and_nothing_half(tmp_path):
    ledger = Ledger(make(str(tmp_path / "b.db"), epsilon=1e6))
    ledger.charge(TENTH, key="before")

    def full(connection, record):
        connection.execute(f"PRAGMA max_page_count={connection.execute('PRAGMA page_count').fetchone()[0] + 3}")

    import sqlalchemy

    ledger.close()
    sqlalchemy.event.listen(ledger._store.engine, "connect", full)
    told, charged = "", 0
    while not told:
        try:
            ledger.charge(TENTH, key=str(charged))
            charged += 1
        except NotFinished as error:
            told = str(error)
    assert told == "b.db cannot be written: the disk is full, and nothing was charged. Make room."
    with pytest.raises(NotFinished, match="nothing was stored; what this key was charged stands"):
        ledger.store("before", "x" * 100_000)  # the charge of this answer is there
    sqlalchemy.event.remove(ledger._store.engine, "connect", full)
    ledger.close()
    assert len(ledger.entries()) == charged + 1
    assert ledger.verify().ok
    assert ledger.charge(TENTH, key="after").seq == charged + 2


def test_a_file_that_may_not_grow_is_one_sentence(tmp_path):
    """The system refuses to write (a quota): in another process, since the limit cannot be raised again."""
    import resource
    import signal

    url = make(str(tmp_path / "b.db"), epsilon=1e6)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = Ledger(url)
        size = os.path.getsize(url)  # noqa: PTH202
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
        try:
            for number in range(100):
                ledger.charge(TENTH, key=str(number))
                os.write(1, b"")
        except NotFinished as error:
            os._exit(0 if "\n" not in str(error) else 2)

    assert waited([forked(limited)]) == [0]
    ledger = Ledger(url)
    assert ledger.verify().ok
    count = len(ledger.entries())
    assert ledger.charge(TENTH, key="after").seq == count + 1


def test_a_forked_process_opens_its_own_connection(place):
    ledger = Ledger(make(place("fork")))
    ledger.charge(TENTH, key="parent")
    assert waited([forked(lambda: ledger.charge(TENTH, key="child"))]) == [0]
    ledger.charge(TENTH, key="parent again")
    assert [entry.key for entry in ledger.entries()] == ["parent", "child", "parent again"]
    assert ledger.verify().ok


@contextlib.contextmanager
def charging(ledger, seconds):
    """A thread that is within a transaction with the ledger."""
    begun = threading.Event()

    def hold():
        with ledger._store.writing():
            begun.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    yield
    thread.join()


def test_a_fork_waits_for_the_charge_of_another_thread(tmp_path):
    """SQLite's memory of its locks is forked too: the child could not charge, and nobody else while it tried."""
    ledger = Ledger(make(str(tmp_path / "fork.db")), wait=1.0)
    with charging(ledger, 0.2):
        child = forked(lambda: ledger.charge(TENTH, key="child"))
        assert waited([child]) == [0]
    ledger.charge(TENTH, key="parent")
    assert ledger.verify()


def test_a_child_that_was_forked_within_a_charge_is_told_so_at_once(tmp_path, monkeypatch):
    ledger = Ledger(make(str(tmp_path / "torn.db")))
    monkeypatch.setattr("tacit.ledger.forks.LONGEST", 0.05)

    def refused():
        for use in (lambda: ledger.charge(TENTH, key="child"), lambda: Ledger(ledger._store.place)):
            with pytest.raises(NotFinished, match="forked in the middle of a charge"):
                use()
        ledger.close()

    with charging(ledger, 0.4):
        began = time.monotonic()
        assert waited([forked(refused)]) == [0]
        assert time.monotonic() - began < 5.0
    ledger.charge(TENTH, key="parent")
    assert waited([forked(lambda: ledger.charge(TENTH, key="child"))]) == [0]
    assert len(ledger.entries()) == 2


def test_no_charge_begins_while_a_fork_waits():
    """A stream of charges from several threads would starve it."""
    own, order, begun = Transactions(), [], threading.Event()

    def charge(name, seconds=0.0):
        with own.held():
            begun.set()
            time.sleep(seconds)
            order.append(name)

    def fork():
        own.begin_fork()
        order.append("fork")
        own.end_fork()

    def started(work, *given):
        thread = threading.Thread(target=work, args=given)
        thread.start()
        return thread

    threads = [started(charge, "first", 0.1)]
    begun.wait()
    threads.append(started(fork))
    while not own._forking:
        time.sleep(0.001)
    threads.append(started(charge, "second"))
    for thread in threads:
        thread.join()
    assert order == ["first", "fork", "second"]


def test_threads_share_a_ledger(place):
    from concurrent.futures import ThreadPoolExecutor

    ledger = Ledger(make(place("threads"), epsilon=1.0))

    def spend(number):
        try:
            return ledger.charge(TENTH, key=str(number)).seq
        except BudgetExceeded:
            return 0

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(spend, range(16)))
    assert found == [0] * 6 + list(range(1, 11))


@pytest.mark.needs("postgres")
def test_a_cut_connection_is_one_sentence_and_the_same_key_settles_it(postgres):
    url = make(postgres.fresh(f"cut_{time.monotonic_ns()}"))
    ledger = Ledger(url, wait=5.0)
    receipt = ledger.charge(TENTH, key="a")
    postgres.stop()
    try:
        with pytest.raises(NotFinished, match="cannot be reached; nothing was charged"):
            ledger.charge(TENTH, key="b")
    finally:
        postgres.start()
    assert ledger.charge(TENTH, key="a") == receipt
    assert ledger.charge(TENTH, key="b").seq == 2
    assert ledger.verify(receipt).ok


@pytest.mark.needs("postgres")
def test_a_connection_that_is_cut_while_writing_says_that_nobody_knows(postgres, monkeypatch):
    url = make(postgres.fresh(f"mid_{time.monotonic_ns()}"))
    ledger = Ledger(url)
    append = ledger._store.append

    def cut(connection, *given):
        append(connection, *given)
        own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        killer = Ledger(url)
        with killer._store.engine.connect() as other:
            other.exec_driver_sql(f"SELECT pg_terminate_backend({own})")

    monkeypatch.setattr(ledger._store, "append", cut)
    with pytest.raises(NotFinished, match="may be recorded or not"):
        ledger.charge(TENTH, key="a")
    monkeypatch.undo()
    assert ledger.charge(TENTH, key="a").seq == 1
    assert ledger.verify().ok


@pytest.mark.needs("postgres")
def test_a_connection_that_is_cut_after_a_charge_does_not_say_that_nothing_was_charged(postgres, monkeypatch):
    """A release charges, and then looks for an answer that is kept: what fails there was paid for."""
    url = make(postgres.fresh(f"after_{time.monotonic_ns()}"))
    ledger = Ledger(url)
    at = ledger._store.at

    def cut(connection, *, slot=None, seq=None):
        if str(slot).startswith("answer "):
            own = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            killer = Ledger(url)
            with killer._store.engine.connect() as other:
                other.exec_driver_sql(f"SELECT pg_terminate_backend({own})")
            killer.close()
        return at(connection, slot=slot, seq=seq)

    monkeypatch.setattr(ledger._store, "at", cut)
    with pytest.raises(NotFinished, match="what this key was charged stands"):
        mechanism.laplace(3, sensitivity=1, epsilon=0.1, ledger=ledger, key="a")
    monkeypatch.undo()
    assert [entry.key for entry in ledger.entries()] == ["a"]
    mechanism.laplace(3, sensitivity=1, epsilon=0.1, ledger=ledger, key="a")
    assert len(ledger.entries()) == 1


@pytest.mark.needs("postgres")
def test_a_held_table_is_one_sentence(postgres):
    url = make(postgres.fresh(f"held_{time.monotonic_ns()}"))
    holder, ledger = Ledger(url), Ledger(url, wait=0.3)
    with holder._store.writing(), pytest.raises(NotFinished, match="held by another program"):
        ledger.charge(TENTH, key="a")
    assert ledger.charge(TENTH, key="a").seq == 1


def reloaded(connection, change, wanted):
    """Change the server's settings, and wait until it has taken them."""
    connection.exec_driver_sql(f"ALTER SYSTEM {change}")
    connection.exec_driver_sql("SELECT pg_reload_conf()")
    for _ in range(600):
        if connection.exec_driver_sql("SHOW fsync").scalar() == wanted:
            return
        time.sleep(0.1)
    raise AssertionError("the server did not take its settings")


@pytest.mark.needs("postgres")
def test_a_server_that_does_not_write_to_disk_is_refused(postgres):
    url = make(postgres.fresh(f"sync_{time.monotonic_ns()}"))
    ledger = Ledger(url)
    with ledger._store.engine.connect() as connection:
        reloaded(connection, "SET fsync = off", "off")
        try:
            with pytest.raises(BadInput, match="fsync off"):
                Ledger(url)
        finally:
            reloaded(connection, "RESET fsync", "on")
    assert Ledger(url).remaining() == 5.0


@pytest.mark.needs("postgres")
def test_what_a_server_refuses_is_named(postgres):
    """A foreign transaction in the way, a server that takes no writes, tables that a crash empties."""
    name = f"odd_{time.monotonic_ns()}"
    ledger = Ledger(make(postgres.fresh(name)), wait=5.0)
    own = ledger._store.engine.url
    engine = sa.create_engine(own, isolation_level="SERIALIZABLE")
    with engine.connect() as foreign:
        foreign.exec_driver_sql("UPDATE tacit_head SET state = state")
        errors = []
        told = partial(pytest.raises, NotFinished, ledger.charge, TENTH, key="a")
        thread = threading.Thread(target=lambda: errors.append(told()))
        with ledger._store.engine.connect() as watching:
            thread.start()
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND starts_with(query, 'UPDATE')"
            )
            while not watching.exec_driver_sql(waits).scalar():
                time.sleep(0.02)
        foreign.commit()
        thread.join()
    engine.dispose()
    assert "held by another program; nothing was charged" in str(errors[0].value)
    frozen = Ledger(f"{ledger._store.url}%20-cdefault_transaction_read_only%3Don")
    with pytest.raises(BadInput, match="read-only"):
        frozen.charge(TENTH, key="a")
    assert ledger.charge(TENTH, key="a").seq == 1
    with ledger._store.engine.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE tacit_head SET UNLOGGED")
    with pytest.raises(BadInput, match="unlogged"):
        Ledger(ledger._store.url)


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(
    ("statement", "first_bad"),
    [
        ("UPDATE tacit_entry SET body = replace(body, '10.0', '99.0') WHERE seq = 2", 2),
        ("DELETE FROM tacit_entry WHERE seq = 3", 3),
    ],
)
def test_entries_on_a_server_refuse_changes_and_show_them(postgres, statement, first_bad):
    ledger = Ledger(make(postgres.fresh(f"touch_{time.monotonic_ns()}")))
    for number in range(3):
        ledger.charge(TENTH, key=str(number))
    with ledger._store.engine.connect() as connection:
        with pytest.raises(Exception, match="never changed"):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("DROP TRIGGER tacit_guard ON tacit_entry")
        connection.exec_driver_sql(statement)
    assert ledger.verify().first_bad == first_bad


def test_a_half_written_file_is_healed_or_refused(tmp_path):
    """Whoever was killed leaves a journal: the next one rolls it back. A file cut short is refused."""
    url = make(str(tmp_path / "b.db"), epsilon=1e6)
    ledger = Ledger(url)
    for number in range(30):
        ledger.charge(Laplace(10.0), key=str(number))
    ledger.close()
    data = (tmp_path / "b.db").read_bytes()
    (tmp_path / "b.db").write_bytes(data[: len(data) // 2])
    with pytest.raises((BadInput, NotFinished)):
        Ledger(url).charge(TENTH, key="more")
    with contextlib.suppress(sqlite3.DatabaseError):
        sqlite3.connect(url).close()
