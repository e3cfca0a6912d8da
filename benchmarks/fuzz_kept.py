"""What runs and budgets keep, for benchmarks/fuzz.py: ledgers, receipts, manifests, settings, finished parts, options.

Each kind has a valid file, mutants of it that know its structure (with right checksums, so that the reader behind them
is reached), and the reader that a command would use.
"""

from __future__ import annotations

import functools
import io
import json
import random
import sqlite3
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_files import NASTY, Maker, _json, _npy, damaged, maker, mutated
from tacit.core import Evidence
from tacit.core.files import Lasting
from tacit.core.journal_head import head, seeded_key
from tacit.core.lines import stamped
from tacit.core.manifest import check_beside
from tacit.core.run_settings import check_settings, keep_settings, kept_settings
from tacit.data.loaders import Records
from tacit.study.finished_parts import HEAD, SCHEMA, Finished
from tacit.study.run_file import described_by
from tacit.study.training_files import RECORDS, trained_on

DATA = (np.arange(12.0).reshape(6, 2), np.arange(6) % 2)
RECORDS_OF = Records(DATA[0].astype(np.float32), DATA[1].astype(np.int64))
SETTINGS = {"train.schedule": "constant", "plan.delta": 1e-5, "model.make": "own:line", "code of own.py": "00ff"}
MANIFEST = {
    "schema": "tacit.manifest/1", "verb": "train",
    "files": {"evidence.json": {"sha256": "0" * 64, "bytes": 3}, "model.safetensors": {"sha256": "1" * 64, "bytes": 9}},
}  # fmt: skip
DESCRIBED = ["title=A model", "owner=Clinic", "people=All=some", "earlier releases=none"]


@functools.cache
def _ledger() -> bytes:
    from tacit.core.events import Gaussian
    from tacit.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.db"
        made = Ledger.create(str(path), epsilon=4.0, delta=1e-5, unit="record")
        made.charge(Gaussian(9.0), key="a", purpose="count")
        made.charge(Gaussian(7.0), key="b", analyst="ann")
        made.allot(1.0, analyst="ann")
        with sqlite3.connect(path) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
        return path.read_bytes()


def _ledger_mutant(rng: random.Random) -> bytes:
    """Another body, number or text in one row of one table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "l.db"
        path.write_bytes(_ledger())
        connection = sqlite3.connect(path)
        for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
            connection.execute(f"drop trigger {name}")  # they keep honest hands from changing entries
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        table = rng.choice([name for name in tables if not name.startswith("sqlite_")])
        columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
        rows = connection.execute(f"select rowid, * from {table}").fetchall()
        if rows:
            row, place = rng.choice(rows), rng.randrange(len(columns))
            _exchange(connection, table, columns[place], row[0], _other(row[1 + place], rng))
        connection.commit()
        connection.close()
        return path.read_bytes()


def _exchange(connection: sqlite3.Connection, table: str, column: str, row: int, value: Any) -> None:
    try:
        connection.execute(f"update {table} set {column} = ? where rowid = ?", (value, row))
    except (sqlite3.Error, OverflowError, UnicodeError):
        connection.rollback()


def _other(value: Any, rng: random.Random) -> Any:
    try:
        tree = json.loads(value)
    except (TypeError, ValueError):
        tree = None
    if isinstance(tree, dict) and rng.random() < 0.8:
        return _json(tree, rng).decode("utf-8", "replace")
    return rng.choice([item for item in NASTY if isinstance(item, str | int | float | None)])


def _read_ledger(path: Path) -> None:
    from tacit.core.events import Gaussian
    from tacit.ledger import Ledger

    found = Ledger(str(path))
    found.verify()
    found.remaining()
    found.entries()
    found.charge(Gaussian(50.0), key="new")


def _receipt(path: Path) -> None:
    from tacit.cli.ledger import _receipt as read
    from tacit.ledger.entry import read_receipt

    read_receipt(read(str(path)))


RECEIPT = {"seq": 3, "head": "0" * 64, "remaining": 1.5, "spent": {
    "epsilon": 1.0, "delta": 1e-5, "side": "upper", "confidence": 1.0, "method": "filter", "adjacency": "add-remove",
    "unit": "record", "assumptions": []}}  # fmt: skip


def _manifest(path: Path) -> None:
    beside = path.with_name("evidence.json")
    Evidence(subject="x").save(beside)
    check_beside(beside, {"weights_sha256": "0" * 64})


def _settings(path: Path) -> None:
    found = kept_settings(path.parent)
    if found is not None:
        check_settings(found, SETTINGS)


def _settings_bytes(rng: random.Random | None) -> bytes:
    if rng is None:
        with tempfile.TemporaryDirectory() as folder:
            keep_settings(Path(folder), "train", SETTINGS)
            return (Path(folder) / "settings.json").read_bytes()
    tree = mutated({"verb": "train", "settings": SETTINGS}, rng)
    return (stamped(tree) if isinstance(tree, dict) else json.dumps(tree)).encode("utf-8", "surrogatepass")


def _first() -> dict[str, Any]:
    return head(SCHEMA, {"target": "fit"}, DATA, [3], seeded_key(SCHEMA, [3]))


def _head(rng: random.Random | None) -> bytes:
    tree = _first() if rng is None else mutated(_first(), rng)
    return (stamped(tree) if isinstance(tree, dict) else json.dumps(tree)).encode("utf-8", "surrogatepass") + b"\n"


def _part(rng: random.Random | None) -> bytes:
    """A part whose line fits its bytes, whatever they are."""
    import hashlib

    out = io.BytesIO()
    np.save(out, np.arange(6.0))
    body = out.getvalue() if rng is None else _npy(np.arange(6.0), out.getvalue(), rng)
    line: Any = {"sha256": hashlib.sha256(body).hexdigest(), "words": 2, "children": 1}
    line = line if rng is None or rng.random() < 0.6 else mutated(line, rng)
    text = stamped(line, _first()) if isinstance(line, dict) else json.dumps(line)
    return text.encode("utf-8", "surrogatepass") + b"\n" + body


def _progress(path: Path) -> None:
    """The head as it is; a part under a right head."""
    if path.name != HEAD:
        path.with_name(HEAD).write_bytes(_head(None))
    found = Finished.of(Lasting(path.parent), {"target": "fit"}, DATA, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.part("part", lambda: np.arange(6.0))


def _list(rng: random.Random | None) -> bytes:
    import zipfile

    array = np.arange(6) % 2 == 0
    data, out = io.BytesIO(), io.BytesIO()
    np.save(data, array)
    body = data.getvalue() if rng is None else _npy(array, data.getvalue(), rng)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trained_on.npy", body)
    return out.getvalue()


def _options(rng: random.Random) -> bytes:
    tree = mutated(DESCRIBED, rng)
    texts = [item if isinstance(item, str) else json.dumps(item) for item in tree] if isinstance(tree, list) else ["x"]
    return "\n".join(damaged(text.encode("utf-8", "surrogatepass") or b"=", rng).decode("utf-8", "surrogateescape")
                     for text in texts).encode("utf-8", "surrogateescape")  # fmt: skip


def _described(path: Path) -> None:
    described_by(path.read_bytes().decode("utf-8", "surrogateescape").split("\n"))


MAKERS: dict[str, Maker] = {
    "ledger": maker("l.db", _ledger, _ledger_mutant),
    "receipt": maker("receipt.json", lambda: json.dumps(RECEIPT).encode(), lambda rng: _json(RECEIPT, rng)),
    "manifest": maker("manifest.json", lambda: json.dumps(MANIFEST).encode(), lambda rng: _json(MANIFEST, rng)),
    "settings": maker("settings.json", lambda: _settings_bytes(None), _settings_bytes),
    "progress head": maker(HEAD, lambda: _head(None), _head),
    "progress part": maker("part.npy", lambda: _part(None), _part),
    "records": maker(RECORDS, lambda: _list(None), _list),
    "described": maker("described.txt", lambda: "\n".join(DESCRIBED).encode(), _options),
}
READERS: dict[str, Callable[[Path], object]] = {
    "ledger": _read_ledger,
    "receipt": _receipt,
    "manifest": _manifest,
    "settings": _settings,
    "progress head": _progress,
    "progress part": _progress,
    "records": lambda path: trained_on(path.parent, RECORDS_OF),
    "described": _described,
}
