"""Synthetic rows, ours beside MST with the library `mbi`:

    python benchmarks/synthetic.py [--table adult|credit|census ...] [--peer PYTHON] [--quick]

Both get the same discretised table, epsilon 1 and delta 1e-9. `--peer` is an interpreter in whose environment `mbi` is
installed; the algorithm is the published one (McKenna, Miklau and Sheldon 2021, with its compression of rare values),
the fit and the rows are mbi's. Ours is told the label, and once more not. Reported: mean total variation of 1-, 2- and
3-way tables, and the AUC of a boosted classifier of the label, trained on the synthetic rows and tested on real ones
that were not used. Every seed is kept when it is done, and a second call goes on after it.

The settings were chosen on Adult with the seeds 0 to 2. What is reported has fresh seeds, and two tables more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

import machine
from synthetic_tables import TABLES, Data
from tacit.query import Table

RESULT = machine.RESULTS / "synthetic.json"
EPSILON, DELTA = 1.0, 1e-9
METHODS = ("tacit", "tacit, no label", "mbi MST")
TUNED, FRESH = range(3), range(100, 103)
"""Seeds: those on which the settings were chosen, on Adult, and those that are reported."""
PEER = """
import sys, itertools, json
import numpy as np
from mbi import Dataset, Domain, LinearMeasurement, estimation
held = np.load(sys.argv[1]); codes, sizes = held["codes"], held["sizes"].tolist()
rng = np.random.default_rng(int(sys.argv[3])); epsilon, delta = 1.0, 1e-9
low, high = 0.0, 10.0
for _ in range(100):  # zCDP: epsilon = rho + 2 sqrt(rho log(1/delta))
    rho = (low + high) / 2
    low, high = (rho, high) if rho + 2 * np.sqrt(rho * np.log(1 / delta)) <= epsilon else (low, rho)
names = [f"c{k}" for k in range(len(sizes))]
def table(codes, columns, sizes):
    shape = [sizes[k] for k in columns]
    return np.bincount(np.ravel_multi_index([codes[:, k] for k in columns], shape), minlength=int(np.prod(shape)))
def measured(codes, subsets, sizes, sigma):
    scale = sigma * np.sqrt(len(subsets))
    exact = [(columns, table(codes, columns, sizes)) for columns in subsets]
    return [(columns, counts + rng.normal(0, scale, counts.size), scale) for columns, counts in exact]
def fit(measurements, sizes):
    given = [LinearMeasurement(y, tuple(names[k] for k in columns), scale) for columns, y, scale in measurements]
    return estimation.MirrorDescent().estimate(Domain(names, sizes), given, iters=2000)
sigma = np.sqrt(3 / (2 * rho))
singles = measured(codes, [(k,) for k in range(len(sizes))], sizes, sigma)
kept, new, log = [], [], []
for (columns, y, scale), size in zip(singles, sizes):  # rare values share one place
    support = np.flatnonzero(y >= 3 * scale); rest = np.setdiff1d(np.arange(size), support)
    place = np.zeros(size, int); place[support] = np.arange(len(support)); place[rest] = len(support)
    kept.append((support, rest, place)); new.append(len(support) + (len(rest) > 0))
    z = y[support] if not len(rest) else np.append(y[support], y[rest].sum())
    log.append((columns, z, scale))
small = np.stack([kept[k][2][codes[:, k]] for k in range(len(sizes))], axis=1)
start = fit(log, new)
scores = {}
for i, j in itertools.combinations(range(len(sizes)), 2):
    expected = np.asarray(start.project((names[i], names[j])).datavector())
    scores[i, j] = np.abs(table(small, (i, j), new) - expected).sum()
part, tree, each = list(range(len(sizes))), [], np.sqrt(8 * (rho / 3) / (len(sizes) - 1))
while len(tree) < len(sizes) - 1:
    left = [e for e in scores if part[e[0]] != part[e[1]]]
    q = np.array([scores[e] for e in left]) * each / 2
    chance = np.exp(q - q.max()); e = left[rng.choice(len(left), p=chance / chance.sum())]
    tree.append(e); part = [part[e[0]] if p == part[e[1]] else p for p in part]
model = fit(log + measured(small, tree, new, sigma), new)
rows = model.synthetic_data()
found = []
for k, name in enumerate(names):
    support, rest, _ = kept[k]
    column = np.asarray(rows.to_dict()[name] if hasattr(rows, "to_dict") else rows.df[name])
    back = np.append(support, -1)[column]; back[back < 0] = rng.choice(rest, int((back < 0).sum())) if len(rest) else 0
    found.append(back)
np.save(sys.argv[2], np.stack(found, axis=1))
"""


def ours(codes: NDArray[np.int64], sizes: list[int], seed: int, label: bool) -> NDArray[np.int64]:
    names = [f"c{k}" for k in range(len(sizes))]
    table = Table(pyarrow.table(dict(zip(names, codes.T, strict=True))), unit="row")
    keys = {name: range(size) for name, size in zip(names, sizes, strict=True)}
    query = table.synthesize(names, keys=keys, label=names[-1] if label else None)
    answer = query.release(epsilon=EPSILON, delta=DELTA, rng=seed)
    return np.stack([np.asarray(answer.value[name]) for name in names], axis=1)


def variation(real: NDArray[np.int64], made: NDArray[np.int64], sizes: list[int], ways: int) -> float:
    """The mean total variation of all tables of `ways` columns (at most 200 of them)."""
    subsets = list(itertools.combinations(range(len(sizes)), ways))[:: max(1, len(sizes) ** ways // 6 // 200)]
    off = []
    for columns in subsets:
        shape = [sizes[k] for k in columns]
        a, b = (
            np.bincount(np.ravel_multi_index([x[:, k] for k in columns], shape), minlength=int(np.prod(shape))) / len(x)
            for x in (real, made)
        )
        off.append(np.abs(a - b).sum() / 2)
    return float(np.mean(off))


def auc(data: Data, train: NDArray[np.int64]) -> float:
    """Of a classifier of the label, trained on these rows, on the table's rows for testing."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    test = data.codes[data.test]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=data.words)
    model.fit(train[:, :-1], train[:, -1])
    return float(roc_auc_score(test[:, -1], model.predict_proba(test[:, :-1])[:, 1]))


def measured(data: Data, made: NDArray[np.int64]) -> dict[str, float]:
    found = {f"{ways}-way": variation(data.train, made, data.sizes, ways) for ways in (1, 2, 3)}
    return {**found, "auc": auc(data, made)}


def peer(codes: NDArray[np.int64], sizes: list[int], seed: int, python: str) -> NDArray[np.int64]:
    with tempfile.TemporaryDirectory() as folder:
        given, made = f"{folder}/real.npz", f"{folder}/made.npy"
        np.savez(given, codes=codes, sizes=np.array(sizes))
        subprocess.run(
            [python, "-c", PEER, given, made, str(seed)],
            check=True,
            capture_output=True,
            env=os.environ | ({"JAX_ENABLE_X64": "1"} if len(codes) > 100_000 else {}),  # as mbi advises
        )
        found: NDArray[np.int64] = np.load(made)
        return found


def _mean(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of fresh seeds alone."""
    fresh = [row for seed, row in rows.items() if int(seed) not in TUNED]
    return {name: round(float(np.mean([row[name] for row in fresh])), 4) for name in fresh[0]} if fresh else {}


def keep(found: dict[str, Any], quick: bool) -> None:
    if not quick:
        found["machine"] = machine.describe("numpy", "scikit-learn")
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def run(data: Data, found: dict[str, Any], options: argparse.Namespace, done: Callable[[], None]) -> None:
    """All seeds of all methods that are not there yet."""
    train, sizes = data.train, data.sizes
    methods: dict[str, Callable[[int], NDArray[np.int64]]] = {
        "tacit": lambda seed: ours(train, sizes, seed, True),
        "tacit, no label": lambda seed: ours(train, sizes, seed, False),
    }
    if options.peer:
        methods["mbi MST"] = lambda seed: peer(train, sizes, seed, options.peer)
    found |= {"rows": len(train), "sizes": sizes}
    found.setdefault("real rows", {"auc": auc(data, train)})
    for name, method in methods.items():
        rows = found.setdefault(name, {})
        for seed in (seed for seed in FRESH[: 1 if options.quick else None] if str(seed) not in rows):
            began = time.perf_counter()
            made = method(seed)
            rows[str(seed)] = {**measured(data, made), "seconds": time.perf_counter() - began}
            found["mean of fresh seeds"] = {which: _mean(found[which]) for which in METHODS if found.get(which)}
            done()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one seed; nothing is written")
    parser.add_argument("--peer", help="an interpreter with mbi")
    parser.add_argument("--table", nargs="+", choices=list(TABLES), default=list(TABLES))
    options = parser.parse_args()
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() and not options.quick else {}
    for name in options.table:
        data = TABLES[name](Path(os.environ["TACIT_DATA"]))
        run(data, kept.setdefault(name, {}), options, lambda: keep(kept, options.quick))
        print(name, json.dumps({key: kept[name][key] for key in ("real rows", "mean of fresh seeds")}, indent=1))


if __name__ == "__main__":
    main()
