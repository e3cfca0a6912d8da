"""A ledger under fire: many spenders at once, spenders that are killed, and traces of what reached the disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from tacit.core import BudgetExceeded
from tacit.events import Laplace
from tacit.ledger import Ledger

TENTH = Laplace(10.0)


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a forked process that ends without cleaning up after its parent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def waited(children: list[int]) -> list[int]:
    """The exit statuses of all children."""
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def logged(path: Path, line: str) -> None:
    """One line in one write: what was written stays, whatever becomes of the process."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def spenders(url: str, log: Path, *, processes: int, each: int, wait: float = 60.0) -> dict[str, float]:
    """All spenders at once; each tries `each` charges of epsilon 0.1, and logs its releases with the time they took."""
    Ledger(url).close()

    def spend(number: int) -> None:
        ledger = Ledger(url, wait=wait)
        for place in range(each):
            started = time.perf_counter()
            with contextlib.suppress(BudgetExceeded):
                receipt = ledger.charge(TENTH, key=f"{number}-{place}")
                took = time.perf_counter() - started
                logged(log, json.dumps({"key": f"{number}-{place}", "seq": receipt.seq, "seconds": took}))

    started = time.perf_counter()
    codes = waited([forked(lambda number=number: spend(number)) for number in range(processes)])
    seconds = time.perf_counter() - started
    released = read(log)
    longest = max((line["seconds"] for line in released), default=0.0)
    return {"failed": sum(map(bool, codes)), "released": len(released), "seconds": seconds, "longest_wait": longest}


def read(log: Path) -> list[dict]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def killed(url: str, log: Path, *, kills: int, rng: random.Random, tag: str = "", wait: float = 60.0) -> float:
    """Fork a spender, kill it with signal 9 after a random time, and again; returns the longest time given.

    The longest is adjusted as it goes, so that about half of the spenders get as far as a release.
    """

    def spend(number: int) -> None:
        ledger = Ledger(url, wait=wait)
        for place in range(1000):
            key = f"{tag} {number}-{place}"
            receipt = ledger.charge(TENTH, key=key)
            logged(log, json.dumps({"key": key, "seq": receipt.seq, "head": receipt.head}))  # the release

    started = time.perf_counter()
    waited([forked(lambda: spend_once(url, tag))])
    longest = 2 * (time.perf_counter() - started)
    for number in range(kills):
        child = forked(lambda number=number: spend(number))
        before = log.stat().st_size if log.exists() else 0
        time.sleep(rng.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        longest *= 0.93 if log.exists() and log.stat().st_size > before else 1.1
    return longest


def spend_once(url: str, tag: str) -> None:
    Ledger(url).charge(TENTH, key=f"{tag} first")


def judged(url: str, log: Path) -> dict[str, int]:
    """Releases without a charge, receipts whose entry is gone, keys charged twice, and whether the chain is whole."""
    ledger = Ledger(url)
    rows = {json.loads(row["body"])["seq"]: row["hash"] for row in ledger.rows()}
    entries, released = ledger.entries(), read(log)
    charged = {entry.key: entry.seq for entry in entries}
    return {
        "charges": len(entries),
        "releases": len(released),
        "uncharged": sum(line["key"] not in charged for line in released),
        "lost": sum(rows.get(line["seq"]) != line.get("head", rows.get(line["seq"])) for line in released),
        "twice": len(entries) - len(charged),
        "whole": int(ledger.verify().ok),
    }


TRACED = """
import os, sys
from tacit.events import Laplace
from tacit.ledger import Ledger, sqlite
sqlite.SYNCHRONOUS = sys.argv[2]
ledger = Ledger(sys.argv[1])
ledger.remaining()
os.write(1, b"BEGIN")
ledger.charge(Laplace(10.0), key=sys.argv[2])
os.write(1, b"RECEIPT")
"""


def traced(path: Path, synchronous: str, log: Path) -> list[str]:
    """Files of the ledger that were written after their last sync when the receipt came; empty is what must be."""
    calls = "openat,close,write,pwrite64,fsync,fdatasync,ftruncate"
    command = ["strace", "-f", "-e", f"trace={calls}", "-o", str(log), sys.executable, "-c", TRACED]
    subprocess.run([*command, str(path), synchronous], check=True, capture_output=True, timeout=600)
    names: dict[str, str] = {}
    unsynced: dict[str, bool] = {}
    begun = False
    for line in log.read_text(errors="replace").splitlines():
        if '"BEGIN"' in line:
            begun = True
        if '"RECEIPT"' in line:
            return sorted(name for name, dirty in unsynced.items() if dirty)
        if found := re.search(r'openat\(AT_FDCWD, "([^"]*)".*= (\d+)$', line):
            names[found[2]] = Path(found[1]).name
        elif (found := re.search(r"(pwrite64|fsync|fdatasync|ftruncate)\((\d+)", line)) and begun:
            name = names.get(found[2], "")
            if name in (path.name, f"{path.name}-journal"):
                unsynced[name] = found[1] in ("pwrite64", "ftruncate")
    raise AssertionError("no receipt was traced")


def bare(path: Path, seconds: float) -> tuple[float, float]:
    """One bare loop on the same file with the same settings: durable transactions per second, and the longest."""
    import sqlite3

    from tacit.ledger import sqlite as settings

    file = sqlite3.connect(path, isolation_level=None)
    file.execute(f"PRAGMA journal_mode={settings.JOURNAL}")
    file.execute(f"PRAGMA synchronous={settings.SYNCHRONOUS}")
    file.execute("CREATE TABLE IF NOT EXISTS bare (seq INTEGER PRIMARY KEY, slot TEXT UNIQUE, name TEXT, body TEXT)")
    file.execute("CREATE INDEX IF NOT EXISTS bare_name ON bare (name)")
    file.execute("CREATE TABLE IF NOT EXISTS bare_head (id INTEGER PRIMARY KEY, state TEXT)")
    file.execute("INSERT OR REPLACE INTO bare_head VALUES (1, '')")
    count, longest, started = 0, 0.0, time.perf_counter()
    while (begun := time.perf_counter()) - started < seconds:
        key = f"{started} {count}"
        file.execute("BEGIN IMMEDIATE")
        file.execute("INSERT INTO bare (slot, name, body) VALUES (?, ?, ?)", (key, key, "x" * 1500))
        file.execute("UPDATE bare_head SET state = ?", ("y" * 500 + key,))
        file.execute("COMMIT")
        count, longest = count + 1, max(longest, time.perf_counter() - begun)
    file.close()
    return count / (time.perf_counter() - started), longest
