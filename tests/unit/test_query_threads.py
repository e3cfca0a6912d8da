"""Threads may share one table, and tables may share one connection."""

import threading

import ibis
import pyarrow

from tacit.query import Table

VISITS = pyarrow.table({"who": range(200), "x": [1] * 200})


def asked_together(tables):
    """The answers of three threads that ask at the same time; a thread that waits for ever gives none."""
    found = []

    def ask(place):
        found.append(tables[place % len(tables)].users().release(epsilon=90, rng=1).value)

    threads = [threading.Thread(target=ask, args=(place,), daemon=True) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_threads_share_one_table():
    assert asked_together([Table(VISITS, unit="who")]) == [200] * 3


def test_tables_share_one_connection():
    engine = ibis.duckdb.connect()
    tables = [Table(engine.create_table(name, VISITS), unit="who") for name in ("a", "b")]
    assert asked_together(tables) == [200] * 3
