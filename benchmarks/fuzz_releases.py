"""What releases read and write, for benchmarks/fuzz.py: PATE's run files and evidence, query tables, keys and answers,
disclosure logs and tables, evidence of private estimators.

Each kind has a valid file, mutants of it that know its structure, and the reader that a command would use.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz_files import CELLS, RUN, TABLE, Maker, _csv, _json, _parquet, _rows, _table_parquet, _toml, maker, toml
from tacit.core import Answer, Evidence
from tacit.data.loaders import Records
from tacit.study.run_file import RunFile

RECORDS = Records(np.arange(120.0).reshape(60, 2).astype(np.float32), np.arange(60) % 2, name="made up")
PATE_RUN = {
    "data": RUN["data"], "model": {"kind": "linear"}, "plan": {"epsilon": 4.0, "delta": 1e-5, "adjacency": "replace"},
    "pate": {
        "teachers": 5, "aggregator": "interactive-gnmax", "threshold": 4.0, "noise_select": 3.0, "noise_answer": 2.0,
        "reinforce": 0.9, "queries": 3, "answers": 2, "student": "linear", "classes": 2, "choose": "spread",
        "rounds": 2, "steps": 2, "batch_size": 4, "release_epsilon": 0.5, "propose": 9.0,
    },
    "audit": {"runs": 100, "isolation": "none"}, "output": {"folder": "out", "seed": 3},
}  # fmt: skip
ASKED: list[tuple[list[Any], float]] = [([1, 2, 3], 6.5), (["ann", 2], 4), ([1], 1)]
LOG = {"queries": [{"people": people, "answer": answer} for people, answer in ASKED]}
PEOPLE = [[*row, f"p{number}"] for number, row in enumerate(TABLE)]
PEOPLE[0][-1] = "who"


def _line(x: Any, y: Any, rng: Any) -> Any:
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


@functools.cache
def _student() -> Any:
    """Evidence of a PATE run and of two releases of its data-dependent epsilon."""
    from tacit.pate import PATE, GNMax

    x = np.random.default_rng(0).normal(size=(60, 2))
    run = PATE(_line, teachers=5, aggregator=GNMax(4.0), delta=1e-5, classes=[0, 1], random_state=0)
    run.fit(x[:50], (x[:50, 0] > 0).astype(int), x[50:])
    run.release_bound(epsilon=0.5, propose=30.0)
    run.release_bound(epsilon=0.5, propose=2.0, order=30.0)
    return run.evidence().to_json()


@functools.cache
def _estimator() -> Any:
    """Evidence of a private estimator."""
    from tacit.erm import PrivateLogisticRegression

    x = np.random.default_rng(0).normal(size=(60, 2))
    made = PrivateLogisticRegression(1.0, 1e-5, norm_bound=1.0, classes=[0, 1], random_state=0)
    return made.fit(x, (x[:, 0] > 0).astype(int)).evidence().to_json()


@functools.cache
def _answer() -> Any:
    import tacit

    return tacit.mechanism.laplace(np.array([3.0, 4.0]), sensitivity=1.0, epsilon=1.0, rng=0).to_json()


def _pate(path: Path) -> None:
    from tacit.study.pate_run import PateRun

    file = RunFile.read(path)
    how = file.one_of("model", ("kind", "make", "fit"))
    PateRun.of(file, RECORDS, None if how == "kind" else _line)


def _evidence(path: Path) -> None:
    """Read, and put into the tables of the page and of its public version."""
    from tacit.reports.page import _model
    from tacit.reports.public import left_out, public_version
    from tacit.reports.subject import subjects_of

    found = Evidence.load(path)
    left_out(found)
    for item in (found, public_version(found)):
        for subject in subjects_of([item]):
            _model(subject, public=item is not found)


def _query(path: Path) -> None:
    from tacit.query import Table

    table = Table(str(path), unit="who")
    list(table.count().release(epsilon=1.0, rng=0).rows())
    list(table.group_by("w", keys=["p", "q"]).sum("a", (0, 6)).release(epsilon=1.0, rng=0).rows())


def _keys(path: Path) -> None:
    from tacit.cli.querying import _keys as read

    for columns in (1, 2):
        read(str(path), columns)


def _log(path: Path) -> None:
    from tacit.core.files import text
    from tacit.core.json_text import parsed
    from tacit.disclosure.differencing import read_log
    from tacit.disclosure.findings import of_log

    json.dumps([item.to_json() for item in of_log(read_log(parsed(text(path), path.name)))], allow_nan=False)


def _disclosed(path: Path) -> None:
    from tacit.cli.disclosing import _table
    from tacit.disclosure import evidence

    for secret in (None, "y"):
        found, known = _table(path, "a,w", secret, None, 3)
        json.dumps([item.to_json() for item in found], allow_nan=False)
        evidence(found, release=path.name, known=known).to_json()


def _key_lines(rng: random.Random) -> bytes:
    lines = [rng.choice([*CELLS, "p", "q", "p,q", "a,b,c"]) for _ in range(rng.randrange(1, 9))]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


MAKERS: dict[str, Maker] = {
    "pate run": maker("run.toml", lambda: toml(PATE_RUN).encode(), lambda rng: _toml(PATE_RUN, rng)),
    "pate evidence": maker("pate.json", lambda: json.dumps(_student()).encode(), lambda rng: _json(_student(), rng)),
    "erm evidence": maker("erm.json", lambda: json.dumps(_estimator()).encode(), lambda rng: _json(_estimator(), rng)),
    "query csv": maker("q.csv", lambda: _rows(PEOPLE), lambda rng: _csv(PEOPLE, rng)),
    "query parquet": maker("q.parquet", lambda: _table_parquet(PEOPLE, None), lambda rng: _parquet(PEOPLE, rng)),
    "query keys": maker("keys.txt", lambda: b"p\nq\n", _key_lines),
    "answer": maker("answer.json", lambda: json.dumps(_answer()).encode(), lambda rng: _json(_answer(), rng)),
    "disclosure log": maker("log.json", lambda: json.dumps(LOG).encode(), lambda rng: _json(LOG, rng)),
    "disclosure csv": maker("d.csv", lambda: _rows(TABLE), lambda rng: _csv(TABLE, rng)),
}
READERS: dict[str, Callable[[Path], object]] = {
    "pate run": _pate,
    "pate evidence": _evidence,
    "erm evidence": _evidence,
    "query csv": _query,
    "query parquet": _query,
    "query keys": _keys,
    "answer": lambda path: Answer.from_json(path.read_text(encoding="utf-8", errors="replace")).to_json(),
    "disclosure log": _log,
    "disclosure csv": _disclosed,
}
