"""How strongly objective perturbation should regularise: the constant LENGTH, chosen without Adult.

    python benchmarks/erm_spread.py [--quick] [--spreads 3,4.5,6,9]

Mean log loss of held-out records at epsilon 0.1 and 1, four seeds, on parts of 40,000 records: credit default, census
income, readmission of diabetics, and two made-up tables of 20 and 100 normal features. The least mean of all is taken.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from erm_tables import CENSUS, Data, credit, numbered, tabular
from machine import RESULTS, describe
from tacit.data.loaders import folder
from tacit.erm import PrivateLogisticRegression, choice, shape

SIZE = 40_000
DIABETES = {
    "time_in_hospital": (1, 14), "num_lab_procedures": (0, 150), "num_procedures": (0, 6), "num_medications": (0, 100),
    "number_outpatient": (0, 50), "number_emergency": (0, 50), "number_inpatient": (0, 25), "number_diagnoses": (1, 16),
}  # fmt: skip
NAMES = ["encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"]


def census():
    frame = pd.read_csv(folder() / "census_income_kdd.csv.xz").drop(columns=["instance_weight", "split"])
    frame = frame.sample(SIZE, random_state=0)
    return tabular(frame, numbered(frame, "income_50k", CENSUS), part())


def diabetes():
    frame = pd.read_csv(folder() / "diabetes130_hospitals.csv.xz", low_memory=False).drop(columns=NAMES)
    frame = frame.sample(SIZE, random_state=0)
    frame["readmitted"] = np.where(frame["readmitted"] != "NO", "yes", "no")
    frame = frame.astype({name: str for name in frame if name not in DIABETES})
    return tabular(frame, numbered(frame, "readmitted", DIABETES), part())


def made_up(features):
    rng = np.random.default_rng(features)
    x, weights = rng.normal(size=(SIZE, features)), rng.normal(size=features)
    likely = 1 / (1 + np.exp(-3 * x @ weights / np.linalg.norm(weights)))
    return Data(x, (rng.random(SIZE) < likely).astype(int), part(), 1.2 * float(np.sqrt(features)))


def part():
    return np.random.default_rng(0).random(SIZE) < 0.75


TABLES = {
    "credit": credit,
    "census": census,
    "diabetes": diabetes,
    "20 normal features": lambda: made_up(20),
    "100 normal features": lambda: made_up(100),
}


def loss(data, epsilon, seeds):
    found = []
    for seed in range(seeds):
        model = PrivateLogisticRegression(
            epsilon, method="objective", norm_bound=data.norm, classes=[0, 1], random_state=seed
        )
        shares = model.fit(data.x[data.train], data.y[data.train]).predict_proba(data.x[~data.train])
        found.append(log_loss(data.y[~data.train], shares[:, 1]))
    return float(np.mean(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spreads", default="3,4.5,6,9")
    asked = parser.parse_args()
    rows = []
    for name, make in TABLES.items():
        data = make()
        for epsilon in (0.1, 1.0):
            for spread in map(float, asked.spreads.split(",")):
                shape.LENGTH = spread
                choice.planned.cache_clear()
                found = loss(data, epsilon, 1 if asked.quick else 4)
                rows.append({"table": name, "epsilon": epsilon, "spread": spread, "log_loss": found})
                print(rows[-1], flush=True)
    means = {
        str(k): float(np.mean([r["log_loss"] for r in rows if r["spread"] == k])) for k in {r["spread"] for r in rows}
    }
    print(means)
    if not asked.quick:
        whole = {"machine": describe(), "mean_log_loss": means, "rows": rows}
        (RESULTS / "erm_spread.json").write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
