"""How large the intercept's feature should be, and to which part of its bound a row is shortened: chosen without Adult.

    python benchmarks/erm_rows.py [--quick]

Mean log loss, AUC and accuracy of held-out records at epsilon 0.3 and 2, delta 1e-5, on 6,000 records of credit
default, and four fifths of heart disease and of breast cancer. The constants INTERCEPT and USUAL of `tacit.erm.linear`
have the least mean log loss over tables and epsilons. Takes about twenty seconds of one core.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from erm_tables import cancer
from machine import RESULTS, describe
from tacit import Schema
from tacit.data.loaders import folder
from tacit.erm import PrivateLogisticRegression, choice, linear
from tacit.erm.tables import row_norm

INTERCEPTS, PARTS, EPSILONS = (1.0, 0.5, 0.25), (1.0, 0.75), (0.3, 2.0)


def table(file, label, positive=None, drop=(), most=None):
    frame = pd.read_csv(folder() / file, na_values=["?"], low_memory=False).drop(columns=list(drop))
    if positive is not None:
        frame[label] = np.where(frame.eval(positive), "yes", "no")
    frame = frame if most is None else frame.sample(most, random_state=1)
    schema = Schema.of(frame.reset_index(drop=True), label=label)
    x, y = schema.encode(frame)
    return x.astype(float), y, row_norm(schema)


def tumours():
    data = cancer()
    return data.x, data.y, data.norm


TABLES = {
    "credit": lambda: table("credit_default_taiwan.csv.gz", "default.payment.next.month", drop=("ID",), most=10_000),
    "heart": lambda: table("heart_disease_4hospitals.csv.gz", "num", positive="num > 0"),
    "cancer": tumours,
}


def judged(x, y, norm, epsilon, seeds):
    found = []
    for seed in range(seeds):
        train = np.random.default_rng(seed).permutation(len(y)) < min(0.8 * len(y), 6000)
        model = PrivateLogisticRegression(epsilon, 1e-5, norm_bound=norm, classes=[0, 1], random_state=seed)
        likely = model.fit(x[train], y[train]).predict_proba(x[~train])[:, 1]
        truth = y[~train]
        found.append((log_loss(truth, likely), roc_auc_score(truth, likely), float(np.mean((likely > 0.5) == truth))))
    return dict(zip(("log_loss", "auc", "accuracy"), np.mean(found, axis=0).tolist(), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick, rows = parser.parse_args().quick, []
    for name, make in TABLES.items():
        x, y, norm = make()
        for epsilon in EPSILONS:
            for intercept in INTERCEPTS:
                linear.INTERCEPT = intercept
                choice.planned.cache_clear()
                for part in PARTS:
                    found = judged(x, y, part * norm, epsilon, 1 if quick else 8 if len(y) < 2000 else 4)
                    rows.append({"table": name, "epsilon": epsilon, "intercept": intercept, "part": part, **found})
                    print(rows[-1], flush=True)
    means = {
        f"intercept {i:g}, part {p:g}": float(
            np.mean([r["log_loss"] for r in rows if (r["intercept"], r["part"]) == (i, p)])
        )
        for i in INTERCEPTS for p in PARTS
    }  # fmt: skip
    print(means)
    if not quick:
        whole = {"machine": describe(), "mean_log_loss": means, "rows": rows}
        (RESULTS / "erm_rows.json").write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
