"""The ledger under fire: kills, concurrent spenders, charges per second, full disks, and what adaptive filters accept.

    python benchmarks/ledger.py [kills|spenders|rate|disk|filters ...] [--quick]

Without names all parts run. Each part is kept as it ends, in results/ledger.json. `kills` stops after some minutes and
goes on where it stopped when it is run again with the same --folder, which may lie in memory. `disk` mounts a small
tmpfs and needs the right to do so. Parts that need PostgreSQL start a server of their own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from machine import RESULTS, describe, keep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import ledger_fire as fire
from postgres_server import present, server
from tacit.core import Adjacency, NotFinished
from tacit.events import DiscreteGaussian, Gaussian
from tacit.ledger import Ledger
from tacit.ledger.costs import costs
from tacit.ledger.criteria import STATED, best_tilt, criteria, renyi_limit

PIECE, LANES, SECONDS = 170, 3, 130.0
"""Kills in one lane of a ledger, lanes, and how long one run of `kills` begins new pieces; run it again to go on."""
JUDGED = ("charges", "releases", "uncharged", "lost", "twice", "whole")


def made(url: str, **more: Any) -> str:
    Ledger.create(url, **{"epsilon": 1e6, "delta": 0.0, "unit": "record", **more}).close()
    return url


def kills(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """10,000 spenders killed with signal 9 at random moments, in pieces on a ledger each, which then is judged.

    Of a piece three are alive at a time, so that some die while others wait for the file.

    A kill does not lose what the system has taken, so a folder in memory serves as well as one on a disk, and faster.
    """
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=False).stdout
    state, each, wanted = folder / "kills.json", 20 if quick else PIECE, 100 if quick else 10_000
    totals = json.loads(state.read_text()) if state.exists() else dict.fromkeys(("pieces", "kills", *JUDGED), 0)
    started = time.perf_counter()
    while totals["kills"] < wanted and time.perf_counter() - started < SECONDS:
        piece = totals["pieces"]
        url, log = made(str(folder / f"kills-{piece}.db")), folder / f"kills-{piece}.log"
        lanes = [fire.forked(partial(_lane, url, log, each, f"{piece}-{lane}")) for lane in range(LANES)]
        assert fire.waited(lanes) == [0] * LANES
        found = fire.judged(url, log)
        assert (found["uncharged"], found["lost"], found["twice"], found["whole"]) == (0, 0, 0, 1), found
        before = totals["kills"]
        totals = {name: totals[name] + found[name] for name in JUDGED} | {"pieces": piece + 1}
        totals["kills"] = before + LANES * each
        state.write_text(json.dumps(totals))
        for path in folder.glob(f"kills-{piece}.*"):
            path.unlink()
        print(totals, f"{time.perf_counter() - started:.0f} s", flush=True)
        if not quick:
            _kept(f"kills on {kind.strip()}", [{"store": "sqlite", "file_system": kind.strip(), **totals}])
    return []


def _lane(url: str, log: Path, kills: int, tag: str) -> None:
    fire.killed(url, log, kills=kills, rng=random.Random(tag), tag=tag)


def spenders(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """64 spenders at once who want more than there is."""
    rows, each = [], 2 if quick else 40
    budget = 5.0 if quick else 100.0
    with server() as running:
        for store, url in (("sqlite", str(folder / "spenders.db")), ("postgresql", running.fresh("spenders"))):
            log = folder / f"spenders-{store}.log"
            found = fire.spenders(made(url, epsilon=budget), log, processes=64, each=each)
            rows.append({"store": store, "allowed": round(budget * 10), **found, **fire.judged(url, log)})
            print(rows[-1], flush=True)
            assert rows[-1]["charges"] == rows[-1]["allowed"]
            assert (rows[-1]["failed"], rows[-1]["uncharged"], rows[-1]["whole"]) == (0, 0, 1)
    return rows


def rate(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """Durable charges per second of 8 processes, beside one bare loop on the same file, before and after."""
    url, seconds = made(str(folder / "rate.db")), 2.0 if quick else 10.0
    before, slowest = fire.bare(Path(url), seconds)
    found = fire.spenders(url, folder / "rate.log", processes=8, each=int(max(seconds * before / 8, 5)))
    after, slow = fire.bare(Path(url), seconds)
    ours, bare = found["released"] / found["seconds"], (before + after) / 2
    waits = sorted(line["seconds"] for line in fire.read(folder / "rate.log"))
    row = {"charges_per_second": ours, "bare_per_second": bare, "ratio": ours / bare, **found}
    row |= {"median_wait": waits[len(waits) // 2], "longest_bare": max(slowest, slow)}
    print(row, flush=True)
    return [row]


def disk(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """A real file system that fills up: one sentence, nothing half, and on it goes when there is room."""
    place = folder / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=True)
    try:
        ledger, count, told = Ledger(made(str(place / "b.db"))), 0, ""
        while not told:
            try:
                ledger.charge(fire.TENTH, key=str(count))
                count += 1
            except NotFinished as error:
                told = str(error)
        subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
        found = {"charged": count, "entries": len(ledger.entries()), "told": told, "whole": ledger.verify().ok}
        found["goes_on"] = ledger.charge(fire.TENTH, key=str(count)).seq == count + 1
        ledger.close()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    print(found, flush=True)
    assert found["charged"] == found["entries"]
    return [found]


def filters(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """How many equal Gaussian charges are accepted, beside the best single Renyi order with all of delta."""
    rows = []
    for kind in (Gaussian, DiscreteGaussian):
        for budget in ((0.1, 1e-6), (0.5, 1e-6), (1.0, 1e-5), (1.0, 1e-6), (1.0, 1e-9), (3.0, 1e-6), (8.0, 1e-5)):
            noise, found = 500.0, criteria(*budget)
            best = renyi_limit(*budget, best_tilt(*budget)) / ((1 + best_tilt(*budget)) / (2 * noise**2))
            one = costs(kind(noise), Adjacency.ADD_REMOVE, 1, found)
            ours = max(item.limit // one[item.name] for item in found if item.name != STATED and one[item.name])
            rows.append({"event": kind.__name__, "budget": budget, "accepted": ours, "share": ours / int(best)})
            print(rows[-1], flush=True)
    return rows


PARTS = {"filters": filters, "rate": rate, "spenders": spenders, "disk": disk, "kills": kills}


def _kept(name: str, rows: list[dict[str, Any]]) -> None:
    path = RESULTS / "ledger.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else {}
    machine = describe("sqlalchemy", "psycopg")
    keep("ledger", machine, {**before, name: {"made": machine["made"], "load": machine["load"], "rows": rows}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small, and nothing is kept")
    parser.add_argument("--folder", type=Path, help="where the ledgers lie; a temporary folder unless given")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="tacit-ledger-"))
    folder.mkdir(exist_ok=True)
    for name in given.parts or PARTS:
        if name == "spenders" and not present():
            print("spenders: PostgreSQL is not here", flush=True)
            continue
        rows = PARTS[name](folder, given.quick)
        if rows and not given.quick:
            _kept(name, rows)


if __name__ == "__main__":
    main()
