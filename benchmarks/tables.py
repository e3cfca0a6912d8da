"""Five public tables at epsilon 3, with defaults only: how much AUC does privacy cost a linear model?

    python benchmarks/tables.py [--quick] [--splits 10] [--first 1000] [--tables adult,heart] [--most 60000]

For each split, "private" is what `tacit train` does with the run file that `tacit init` writes: private minimisation,
or a descent where the unit is not the record; "descent" is `tacit.fit("linear", frame, plan, schema=...)`. Against them
stands scikit-learn's logistic regression on a usual pipeline (standardised numbers, one-hot words, median for what is
missing) and on the schema's own encoding. Schemas are read off the table (marked not public); the label is made binary
first. The splits are seeded `--first`, `--first` + 1, ...: the defaults of the descent were chosen on seeds 0 to 9, so
the kept results are of seeds from 1000 on. Every split is kept when it is done; a second call goes on after the last.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tacit
from machine import describe
from tacit.data.loaders import folder
from tacit.erm.linear import USUAL
from tacit.erm.tables import row_norm
from tacit.study.minimiser import Minimiser
from tacit.study.table_setup import RATE, STEPS
from tacit.train.recipe.networks import Shortened

RESULT = Path(__file__).parent / "results" / "tables.json"
EPSILON = 3.0


@dataclass(frozen=True)
class Case:
    """A file, its label and what of it is no feature; `positive` makes a label of several classes binary."""

    file: str
    label: str
    within: float
    positive: str | None = None
    drop: tuple[str, ...] = ()
    unit: str | None = None
    options: dict[str, object] = field(default_factory=dict)

    def frame(self) -> pd.DataFrame:
        found = pd.read_csv(folder() / self.file, na_values=["?"], low_memory=False, **self.options)
        if self.positive is not None:
            found[self.label] = found.eval(self.positive).map({True: "yes", False: "no"})
        return found.drop(columns=list(self.drop))


CASES = {
    "adult": Case("adult.csv.gz", "income", 0.02, drop=("split",)),
    "credit default": Case("credit_default_taiwan.csv.gz", "default.payment.next.month", 0.02, drop=("ID",)),
    "heart": Case("heart_disease_4hospitals.csv.gz", "num", 0.05, positive="num > 0"),
    "diabetes": Case(
        "diabetes130_hospitals.csv.xz",
        "readmitted",
        0.02,
        positive="readmitted == '<30'",
        drop=("encounter_id",),
        unit="patient_nbr",
    ),
    "census income": Case("census_income_kdd.csv.xz", "income_50k", 0.02, drop=("split", "instance_weight")),
}


def split(frame: pd.DataFrame, case: Case, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths and the rest; all records of a unit on one side."""
    owner = np.arange(len(frame)) if case.unit is None else pd.factorize(frame[case.unit])[0]
    chosen = rng.permutation(owner.max() + 1)[owner] < 0.8 * (owner.max() + 1)
    return frame[chosen], frame[~chosen]


def usual(schema: tacit.Schema) -> object:
    """Logistic regression as most people would set it up."""
    numbers = [column.name for column in schema.features if column.kind == "number"]
    words = [column.name for column in schema.features if column.kind != "number"]
    return make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            (make_pipeline(SimpleImputer(strategy="constant", fill_value="?"),
                           OneHotEncoder(handle_unknown="ignore", min_frequency=5, sparse_output=False)), words),
        ),
        LogisticRegression(solver="newton-cholesky"),
    )  # fmt: skip


def minimised(schema: tacit.Schema, data: tuple[np.ndarray, np.ndarray], delta: float, seed: int) -> Callable:
    """What the command trains where a run file leaves the way open: scores of encoded rows."""
    norm = USUAL * row_norm(schema)
    way = Minimiser(len(data[0]), schema.width, norm, EPSILON, delta)
    model = way.trained(partial(Shortened, schema.width, 2, norm), data, seed).model

    def score(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = model(torch.as_tensor(rows, dtype=torch.float32))
        return (logits[:, 1] - logits[:, 0]).numpy()

    return score


def measured(case: Case, frame: pd.DataFrame, schema: tacit.Schema, seed: int) -> dict[str, float]:
    train, test = split(frame, case, np.random.default_rng(seed))
    truth = (test[case.label].astype(str) == schema.classes[1]).to_numpy()
    units = len(train) if case.unit is None else train[case.unit].nunique()
    delta = min(1e-5, 10.0 ** np.floor(-np.log10(10 * units)))
    plan = tacit.Plan(units, RATE, STEPS, 1.0).calibrated(epsilon=EPSILON, delta=delta)
    x, y = schema.encode(train)
    hidden = schema.encode(test)[0]
    started = time.process_time()
    trained = tacit.fit("linear", train, plan, schema=schema, delta=delta, rng=seed)
    seconds = time.process_time() - started
    descent = private = roc_auc_score(truth, trained.predict_proba(test)[:, 1])
    if case.unit is None:
        private = roc_auc_score(truth, minimised(schema, (x, y), delta, seed)(hidden))
    numbers = {column.name for column in schema.features if column.kind == "number"}

    def plainly(part: pd.DataFrame) -> pd.DataFrame:
        found = {}
        for name in (column.name for column in schema.features):
            found[name] = pd.to_numeric(part[name], errors="coerce") if name in numbers else part[name].astype(str)
        return pd.DataFrame(found)

    asked = [plainly(train), plainly(test)]
    plain = usual(schema).fit(asked[0], train[case.label].astype(str))
    pipeline = roc_auc_score(truth, plain.predict_proba(asked[1])[:, 1])
    own = LogisticRegression(solver="newton-cholesky").fit(x, y)
    encoded = roc_auc_score(truth, own.decision_function(hidden))
    return {"private": private, "descent": descent, "pipeline": pipeline, "encoded": encoded, "cpu_seconds": seconds}


def told(case: Case, frame: pd.DataFrame, width: int, rows: dict[str, dict[str, float]]) -> dict[str, object]:
    """The mean over all splits so far, beside what is allowed."""
    first = next(iter(rows.values()))
    mean = {key: round(float(np.mean([row[key] for row in rows.values()])), 4) for key in first}
    best = max(mean["pipeline"], mean["encoded"])
    return {
        "records": len(frame), "features": width, "splits": len(rows), "epsilon": EPSILON, **mean,
        "behind": round(best - mean["private"], 4), "allowed": case.within,
        "met": best - mean["private"] <= case.within,
        "worst_split": round(min(row["private"] for row in rows.values()), 4), "by_seed": rows,
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--splits", type=int, default=10)
    options.add_argument("--first", type=int, default=1000, help="seed of the first split")
    options.add_argument("--tables", default=",".join(CASES))
    options.add_argument("--most", type=int, default=None, help="records of a table, at random")
    asked = options.parse_args()
    torch.set_num_threads(1)
    splits = 1 if asked.quick else asked.splits
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {"tables": {}}
    for name in ["heart"] if asked.quick else asked.tables.split(","):
        case, frame = CASES[name], CASES[name].frame()
        if asked.most is not None and len(frame) > asked.most:
            frame = frame.sample(asked.most, random_state=0)
        schema = tacit.Schema.of(frame, label=case.label, unit=case.unit)
        before = kept["tables"].get(name, {})
        rows = before.get("by_seed", {}) if before.get("records") == len(frame) and not asked.quick else {}
        for seed in range(asked.first, asked.first + splits):
            if str(seed) in rows:
                continue
            rows[str(seed)] = {key: round(value, 5) for key, value in measured(case, frame, schema, seed).items()}
            found = told(case, frame, schema.width, rows)
            print(name, seed, json.dumps(rows[str(seed)]), found["behind"], flush=True)
            kept["tables"][name] = found
            if not asked.quick:
                machine = describe("numpy", "torch", "scikit-learn")
                RESULT.write_text(json.dumps({**kept, "machine": machine}, indent=1) + "\n")


if __name__ == "__main__":
    main()
