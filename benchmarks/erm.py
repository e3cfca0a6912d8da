"""Private linear classifiers on real tables: accuracy over epsilon, all methods, beside scikit-learn without privacy.

    python benchmarks/erm.py [--quick] [--tables adult,credit,cancer] [--seeds 20] [--epsilons 0.05,0.1,1,3,8]

Adult: the published split; ranges are round public numbers, words those of the table's documentation; `fnlwgt` dropped.
delta is 1/n^2, neighbours by add-remove, every setting a default. diffprivlib is run where it can be imported; else the
figures of the published comparison are printed beside ours and marked so.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from machine import describe
from tacit import Column, Schema
from tacit.data.loaders import folder
from tacit.erm import PrivateLogisticRegression, PrivateSVC

RESULT = Path(__file__).parent / "results" / "erm.json"
METHODS = ("auto", "output", "gradient", "dynamics")
ADULT = {
    "age": (0, 100), "education_num": (1, 16), "capital_gain": (0, 100_000), "capital_loss": (0, 5_000),
    "hours_per_week": (0, 100),
}  # fmt: skip
CANCER = (
    30, 40, 200, 2600, 0.2, 0.4, 0.5, 0.3, 0.4, 0.1, 3, 5, 22, 550, 0.04, 0.2, 0.4, 0.06, 0.08, 0.03,
    40, 50, 260, 4300, 0.3, 1.1, 1.3, 0.3, 0.7, 0.3,
)  # fmt: skip


def numbered(frame, label, ranges):
    """A schema: public ranges for numbers, the words of the table for the rest."""
    words = {name: tuple(sorted(map(str, frame[name].dropna().unique()))) for name in frame if name not in ranges}
    columns = [Column(name, range=ends) for name, ends in ranges.items()]
    columns += [Column(name, kind="category", words=found) for name, found in words.items()]
    return Schema(tuple(columns), label=label)


def adult():
    frame = pd.read_csv(folder() / "adult.csv.gz", na_values=["?"]).rename(columns=lambda name: name.replace("-", "_"))
    schema = numbered(frame.drop(columns=["split", "fnlwgt"]), "income", ADULT)
    train = frame["split"].eq("train").to_numpy()
    x, y = schema.encode(frame)
    return x, y, train, row(schema)


def credit():
    frame = pd.read_csv(folder() / "credit_default_taiwan.csv.gz").drop(columns="ID")
    label = "default.payment.next.month"
    money = {name: (-1_000_000, 1_000_000) for name in frame if name.startswith(("BILL", "PAY_AMT"))}
    ranges = {"LIMIT_BAL": (0, 1_000_000), "AGE": (0, 100), **money}
    schema = numbered(frame, label, ranges)
    x, y = schema.encode(frame)
    train = np.zeros(len(y), dtype=bool)
    train[train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)[0]] = True
    return x, y, train, row(schema)


def cancer():
    x, y = load_breast_cancer(return_X_y=True)
    train = np.zeros(len(y), dtype=bool)
    train[train_test_split(np.arange(len(y)), test_size=0.2, random_state=0)[0]] = True
    return x / CANCER, y, train, np.sqrt(30.0)


def row(schema):
    from tacit.erm.tables import row_norm

    return row_norm(schema)


TABLES = {"adult": adult, "credit": credit, "cancer": cancer}


def measured(name, epsilons, seeds, methods):
    x, y, train, norm = TABLES[name]()
    x = np.asarray(x, dtype=np.float64)
    began = time.perf_counter()
    plain = LogisticRegression(max_iter=2000).fit(x[train], y[train])
    plain_seconds = time.perf_counter() - began
    rows = [{"table": name, "method": "not private", "accuracy": float(plain.score(x[~train], y[~train])),
             "majority": float(max(np.mean(y[~train]), 1 - np.mean(y[~train]))), "records": int(train.sum()),
             "features": x.shape[1], "seconds": plain_seconds}]  # fmt: skip
    for epsilon in epsilons:
        for made, method in [*((PrivateLogisticRegression, each) for each in methods), (PrivateSVC, "auto")]:
            found, began = [], time.perf_counter()
            for seed in range(seeds):
                model = made(epsilon, method=method, norm_bound=norm, classes=[0, 1], random_state=seed)
                found.append(model.fit(x[train], y[train]).score(x[~train], y[~train]))
            rows.append({"table": name, "method": f"{made.__name__}, {method}", "epsilon": epsilon,
                         "accuracy": float(np.mean(found)), "error": float(np.std(found) / np.sqrt(seeds)),
                         "seeds": seeds, "seconds": (time.perf_counter() - began) / seeds,
                         "proven": model.bound_.epsilon})  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--epsilons", default="0.1,1,3")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    seeds = 2 if asked.quick else asked.seeds
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {"rows": []}
    epsilons = [float(each) for each in asked.epsilons.split(",")]
    for name in asked.tables.split(","):
        rows = measured(name, epsilons, seeds, asked.methods.split(","))
        fresh = {(each["table"], each["method"], each.get("epsilon")) for each in rows}
        others = [each for each in kept["rows"] if (each["table"], each["method"], each.get("epsilon")) not in fresh]
        kept = {"machine": describe(), "rows": others + rows}
        if not asked.quick:
            RESULT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
