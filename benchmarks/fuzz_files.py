"""Files for benchmarks/fuzz.py: a valid file of each kind, and mutants of it that know its structure.

A mutant exchanges, drops, renames or doubles parts of the value tree (numbers of the wrong kind or size, texts, depth,
lone surrogates, control characters), keeps checksums right where the format has them so that the reader behind is
reached, or damages the bytes.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacit.core.lines import stamped

NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, -(2**64), 10**400, 0.0, -0.0, 1e-320, 1e308, -1e308, 0.5,
    "", "x", "0", "nan", "inf", "1e999", "\x1b[31mred\x07", "\u202egnp.exe", "=cmd|' /C calc'!A0", "a" * 5000, "\x00",
    "../../etc/passwd", "'; drop table", [], {}, [[]], [None], {"": None}, [1, [2, [3]]], ["a", 1, None],
]  # fmt: skip
RAW = ["NaN", "Infinity", "-Infinity", "1" * 5000, '"\\ud800"', "[" * 3000, '{"a":' * 500, "1e99999", "tru", ""]
Maker = Callable[[int, int], tuple[str, bytes]]
HERE = Path(__file__).parent


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all parts of a tree."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in paths(item, (*path, key)))]


def mutated(tree: Any, rng: random.Random, nasty: list[Any] = NASTY) -> Any:
    """A copy with one to three parts exchanged, dropped, doubled, renamed or swapped."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = [place for place in paths(tree) if place]
        if not places:
            return rng.choice(nasty)
        place = rng.choice(places)
        holder = functools.reduce(lambda part, key: part[key], place[:-1], tree)
        key, how = place[-1], rng.random()
        if how < 0.6:
            holder[key] = copy.deepcopy(rng.choice(nasty))
        elif how < 0.75:
            del holder[key]
        elif how < 0.85 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif how < 0.85:
            holder[rng.choice(["x", key.upper(), "\x1b]0;t\x07", key * 50])] = holder.pop(key)
        else:
            other = rng.choice(places)
            source = functools.reduce(lambda part, step: part[step] if _has(part, step) else None, other, tree)
            holder[key] = copy.deepcopy(source)
    return tree


def _has(part: Any, step: Any) -> bool:
    return (isinstance(part, dict) and step in part) or (
        isinstance(part, list) and isinstance(step, int) and step < len(part)
    )


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut, doubled, inserted or zeroed."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at, how = rng.randrange(len(made) + 1), rng.random()
        if how < 0.45 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif how < 0.6:
            del made[at:]
        elif how < 0.75:
            made[at:at] = rng.choice([b"\x00", b"\xff\xfe", b'"', b",", b"\n", b"]", b"\xed\xa0\x80", bytes(300)])
        elif how < 0.9:
            made[at : at + rng.randrange(64)] = b""
        else:
            made[at : at + 16] = bytes(16)
    return bytes(made)


def _json(tree: Any, rng: random.Random) -> bytes:
    text = json.dumps(mutated(tree, rng))
    if rng.random() < 0.15:
        at = rng.choice([k for k, mark in enumerate(text) if mark == ":"] or [0])
        text = text[: at + 1] + rng.choice(RAW) + text[at + 1 :]
    return text.encode()


def maker(name: str, valid: Callable[[], bytes], by_structure: Callable[[random.Random], bytes]) -> Maker:
    """Three of four mutants by structure, one by bytes; number 0 is the valid file."""

    @functools.cache
    def whole() -> bytes:
        return valid()

    def make(seed: int, number: int) -> tuple[str, bytes]:
        rng = random.Random(f"{seed} {name} {number}")
        if number == 0:
            return name, whole()
        data = by_structure(rng) if rng.random() < 0.75 else damaged(whole(), rng)
        return name, data[: 2**22]

    return make


@functools.cache
def _evidence() -> Any:
    from tacit.reports import words  # noqa: F401  (a report may follow)

    kept = json.loads((HERE / "results" / "own-training-evidence.json").read_text())
    return kept if "schema" in kept else next(iter(kept.values()))


EVENT = {
    "schema": "tacit.event/1", "type": "Compose", "events": [
        {"type": "Repeat", "steps": 9, "event": {"type": "Poisson", "rate": 0.01,
                                                 "event": {"type": "Gaussian", "noise_multiplier": 1.1}}},
        {"type": "RandomizedResponse", "epsilon": 1.0, "categories": 3}, {"type": "Laplace", "noise_multiplier": 2.0},
        {"type": "MatrixFactorisation", "noise_multiplier": 1.0, "encoder": [[1.0], [0.5, 1.0]]},
        {"type": "Shuffled", "batches": 4, "event": {"type": "Gaussian", "noise_multiplier": 1.0}},
    ],
}  # fmt: skip
RUN = {
    "data": {"source": "d.csv", "label": "y", "categories": {"w": ["a", "b"]}}, "model": {"make": "pkg:make"},
    "plan": {"epsilon": 4.0, "delta": 1e-5, "epochs": 3, "batch_size": 8, "clip_norm": 1.0},
    "train": {"optimizer": "sgd", "lr": 0.5, "compile": False}, "attack": {"attacks": ["lira"], "fpr": [0.01]},
    "audit": {"runs": 100, "confidence": 0.95}, "output": {"folder": "out", "seed": 3},
}  # fmt: skip
SCHEMA = {
    "label": "y", "unit": "who", "groups": ["w"],
    "columns": {
        "a": {"kind": "number", "range": [0, 10]}, "w": {"kind": "category", "words": ["p", "q"]},
        "t": {"kind": "text"}, "d": {"kind": "date", "range": ["1990-01-01", "2030-01-01"]},
        "y": {"kind": "category", "words": ["no", "yes"], "public": False},
    },
}  # fmt: skip


def toml(tree: Any) -> str:
    """A tree as TOML; what TOML cannot hold becomes something it cannot read."""
    if not isinstance(tree, dict):
        return _value(tree)
    plain = [f"{json.dumps(str(key))} = {_value(item)}" for key, item in tree.items() if not isinstance(item, dict)]
    tables = [
        f"[{json.dumps(str(key))}]\n" + "\n".join(f"{json.dumps(str(k))} = {_value(v)}" for k, v in item.items())
        for key, item in tree.items()
        if isinstance(item, dict)
    ]
    return "\n".join([*plain, *tables]) + "\n"


def _value(item: Any) -> str:
    if isinstance(item, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_value(inner)}" for key, inner in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(map(_value, item)) + "]"
    if isinstance(item, str):
        return json.dumps(item)
    return (
        {True: "true", False: "false", None: "nan"}.get(item, repr(item)) if not isinstance(item, float) else repr(item)
    )


def _toml(tree: Any, rng: random.Random) -> bytes:
    text = toml(mutated(tree, rng))
    if rng.random() < 0.1:
        text += rng.choice(["[[a]]", "a." * 2000 + "b = 1", "x = " + "[" * 2000, "n = " + "9" * 5000, "z = inf", "q ="])
    return text.encode("utf-8", "surrogatepass")


TABLE = [["a", "w", "y", "m"]] + [[f"{k / 7:.3f}", "pq"[k % 2], ("no", "yes")[k % 2], str(k % 2)] for k in range(40)]
SCORES = [["score", "member", "attack", "record", "target", "group", "randomised"]] + [
    [repr(k / 3), str(k % 2), "loss", str(k), "0", "ab"[k % 2], "0"] for k in range(40)
]
CELLS = [*(item for item in NASTY if isinstance(item, str)), "1" * 5000, "a\nb", 'a"b', ",", "-inf", "1_000", "０", "²"]


def _csv(table: list[list[str]], rng: random.Random) -> bytes:
    rows = [list(row) for row in table]
    for _ in range(rng.choice((1, 1, 2, 4))):
        row, how = rng.choice([rows[0], *rows]), rng.random()
        if how < 0.6 and row:
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        elif how < 0.7 and row:
            row.pop()
        elif how < 0.8:
            row.append(rng.choice(CELLS))
        elif how < 0.9:
            rows.insert(rng.randrange(len(rows)), [] if rng.random() < 0.5 else list(rng.choice(rows)))
        elif len(rows) > 1:
            del rows[rng.randrange(len(rows))]
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass") + b"\n"


def _table_parquet(table: list[list[str]], rng: random.Random | None) -> bytes:
    import pyarrow
    import pyarrow.parquet

    header, *rows = table
    columns = [list(column) for column in zip(*rows, strict=True)]
    if rng is not None:
        place, how = rng.randrange(len(columns)), rng.random()
        odd: list[Any] = [[None] * len(rows), [1.5] * len(rows), [[1]] * len(rows), [b"\xff"] * len(rows),
                          [{"a": 1}] * len(rows), [2**62] * len(rows), [float("nan")] * len(rows)]  # fmt: skip
        columns[place] = rng.choice(odd) if how < 0.5 else [rng.choice(CELLS) for _ in rows]
        if how > 0.8:
            header = [*header[:-1], rng.choice(CELLS)]
    out = io.BytesIO()
    arrays = [pyarrow.array(column) for column in columns]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=header), out)
    return out.getvalue()


def _parquet(table: list[list[str]], rng: random.Random) -> bytes:
    made = _table_parquet(table, rng)
    return made if rng.random() < 0.5 else damaged(made, rng)


def _npz(rng: random.Random | None) -> bytes:
    arrays: dict[str, Any] = {"x": np.arange(12.0).reshape(6, 2), "y": np.arange(6) % 2, "m": np.arange(6) % 2}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array)
            body = data.getvalue()
            if rng is not None and rng.random() < 0.5:
                body = _npy(array, body, rng)
            archive.writestr(f"{name}.npy", body)
    return out.getvalue()


def _npy(array: Any, body: bytes, rng: random.Random) -> bytes:
    """The same array under another header."""
    kinds = ["<f8", "|O", "<U9", "<c16", "<M8[s]", "|V8", "<f2", ">i8", "|b1", "<U0", "|S0", "[('a', '<f8')]", "junk"]
    shapes = [(6, 2), (), (0,), (10**12,), (10**12, 10**12), (-1,), (6, 2, 1, 1), (3,) * 40, "x", (True,), (2**70,)]
    told = {"descr": rng.choice(kinds), "fortran_order": rng.choice([False, True, 3]), "shape": rng.choice(shapes)}
    if rng.random() < 0.3:
        told.pop(rng.choice(list(told)))
    text = repr(told).encode() + b"\n"
    if rng.random() < 0.2:
        text = b"(" * 4000 + text
    return b"\x93NUMPY\x01\x00" + (len(text) % 65536).to_bytes(2, "little") + text + body[-96:]


@functools.cache
def _state() -> Any:
    from fuzz_readers import step
    from tacit.train.packing import packed

    return b"".join(bytes(part) for part in packed(step().state_dict()))  # type: ignore[attr-defined]


def _checkpoint(rng: random.Random) -> bytes:
    """Another tree under a right checksum."""
    line, _, rest = _state().partition(b"\n")
    head = json.loads(line)
    tree, body = json.loads(rest[: head["tree"]]), rest[head["tree"] : -32]
    text = json.dumps(mutated(tree, rng)).encode()
    head = mutated({**head, "tree": len(text)}, rng) if rng.random() < 0.1 else {**head, "tree": len(text)}
    made = json.dumps(head).encode() + b"\n" + text + body
    return made + hashlib.sha256(made).digest()


@functools.cache
def _head() -> Any:
    from fuzz_readers import ABOUT, DATA
    from tacit.audits.runs.journal import SCHEMA
    from tacit.core.journal_head import head, seeded_key

    return head(SCHEMA, dict(ABOUT), DATA, [3], seeded_key(SCHEMA, [3]))


LINES = [{"run": k, "score": k / 3, "problem": "", "seconds": 0.1} for k in range(6)]


def _journal(rng: random.Random | None) -> bytes:
    head = _head() if rng is None or rng.random() < 0.6 else mutated(_head(), rng)
    lines = LINES if rng is None else [mutated(line, rng) if rng.random() < 0.4 else line for line in LINES]
    texts = [stamped(head) if isinstance(head, dict) else json.dumps(head)]
    texts += [stamped(line, _head()) if isinstance(line, dict) else json.dumps(line) for line in lines]
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "surrogatepass")


@functools.cache
def _tensors() -> bytes:
    from safetensors.torch import save

    from fuzz_readers import small

    return save(small().state_dict())


def _weights(rng: random.Random) -> bytes:
    size = int.from_bytes(_tensors()[:8], "little")
    head, body = json.loads(_tensors()[8 : 8 + size]), _tensors()[8 + size :]
    text = _json(head, rng)
    length = rng.choice([len(text)] * 8 + [0, 2**63, len(text) + 5])
    return length.to_bytes(8, "little") + text + body


def _rows(table: list[list[str]]) -> bytes:
    return "\n".join(",".join(row) for row in table).encode() + b"\n"


MAKERS: dict[str, Maker] = {
    "evidence": maker("evidence.json", lambda: json.dumps(_evidence()).encode(), lambda rng: _json(_evidence(), rng)),
    "event": maker("event.json", lambda: json.dumps(EVENT).encode(), lambda rng: _json(EVENT, rng)),
    "run file": maker("run.toml", lambda: toml(RUN).encode(), lambda rng: _toml(RUN, rng)),
    "schema": maker("schema.toml", lambda: toml(SCHEMA).encode(), lambda rng: _toml(SCHEMA, rng)),
    "table csv": maker("t.csv", lambda: _rows(TABLE), lambda rng: _csv(TABLE, rng)),
    "table npz": maker("t.npz", lambda: _npz(None), _npz),
    "table parquet": maker("t.parquet", lambda: _table_parquet(TABLE, None), lambda rng: _parquet(TABLE, rng)),
    "scores csv": maker("s.csv", lambda: _rows(SCORES), lambda rng: _csv(SCORES, rng)),
    "scores parquet": maker("s.parquet", lambda: _table_parquet(SCORES, None), lambda rng: _parquet(SCORES, rng)),
    "checkpoint": maker("c.secret", _state, _checkpoint),
    "journal": maker("j.jsonl", lambda: _journal(None), _journal),
    "weights": maker("w.safetensors", _tensors, _weights),
    "data key": maker("data.key", lambda: bytes(32), lambda rng: bytes(rng.choice([0, 1, 31, 32, 33, 5000]))),
}
