"""What theorems promise of private linear classifiers, beside what was measured.

    python benchmarks/erm_promises.py [--quick] [--tables cancer,credit,adult] [--epsilon 1] [--seeds 20]

Logistic regression, delta 1/n^2, every setting a default. Excess: of the mean objective on the training records, for
`objective` and `output` above its minimum (95 % of fits), for descents above that of the best weights of norm 1 (mean
over fits), rows scaled to norm 1. Gap: accuracy on the training records minus that on held-out ones (mean). Records:
for how many the theorem promises an excess of 0.1 with these features. Rows are kept one by one.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from erm_tables import TABLES
from machine import RESULTS, describe
from tacit import BadInput
from tacit.erm import PrivateLogisticRegression
from tacit.erm.linear import EXCESS, EXPECTED, GAP, INTERCEPT, quoted
from tacit.erm.losses import Logistic
from tacit.erm.problem import Problem
from tacit.erm.rows import bounded, largest_norm

RESULT = RESULTS / "erm_promises.json"
METHODS = ("objective", "output", "gradient", "smooth", "sgd")
WANTED = 0.1


def objective(problem, strength, theta):
    """The mean regularised objective."""
    return float(np.mean(problem.loss.value(problem.margins(theta))) + strength / 2 * theta @ theta)


def least(problem, strength):
    """Weights at the minimum of the regularised objective."""
    whole = max(strength, 1e-9) * problem.size
    return problem.minimum(whole, np.zeros(problem.features), problem.reachable(whole, 0.0))


def least_of_norm_one(problem, strength):
    """The best weights of norm 1, by more regularisation; those of a minimum that is shorter are stretched."""
    low, high = 0.0, 10.0
    for _ in range(40):
        more = (low + high) / 2
        long = np.linalg.norm(least(problem, strength + more)) > 1
        low, high = (more, high) if long else (low, more)
    found = least(problem, strength + high)
    return found / np.linalg.norm(found)


def measured(data, method, epsilon, seeds):
    """Promises of one method on one table, and what fits did."""
    x, y = data.x[data.train], data.y[data.train]
    rest = data.x[~data.train], data.y[~data.train]
    settings = {"classes": data.classes, "norm_bound": data.norm, "method": method}
    problem = Problem(bounded(x, data.norm, INTERCEPT), 2.0 * y - 1, Logistic(), largest_norm(INTERCEPT))
    strength = quoted(PrivateLogisticRegression(epsilon, **settings), *x.shape)[0].regularization
    strength = strength / len(x) if method in ("objective", "output") else strength
    best = least(problem, strength) if method in ("objective", "output") else least_of_norm_one(problem, strength)
    floor, over, gaps = objective(problem, strength, best), [], []
    for seed in range(seeds):
        model = PrivateLogisticRegression(epsilon, **settings, random_state=seed).fit(x, y)
        theta = np.append(model.coef_[0] * data.norm, model.intercept_ / INTERCEPT)
        over.append(objective(problem, strength, theta) - floor)
        gaps.append(model.score(x, y) - model.score(*rest))
    tail = EXCESS in model.utility_
    try:
        needed = model.records_needed(WANTED, x.shape[1])
    except BadInput:
        needed = None
    return {
        "records": len(x), "features": x.shape[1], "seeds": seeds, "promise": "95 %" if tail else "mean",
        "excess promised": model.utility_[EXCESS if tail else EXPECTED],
        "excess measured": float(np.quantile(over, 0.95) if tail else np.mean(over)),
        "gap promised": model.utility_[GAP], "gap measured": float(np.mean(gaps)),
        "gap error": float(np.std(gaps, ddof=1) / seeds**0.5), f"records for {WANTED:g}": needed,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", default="cancer,credit,adult")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() and not asked.quick else {}
    for table in asked.tables.split(","):
        data = TABLES[table]()
        for method in METHODS:
            name = f"{table}, {method}, epsilon {asked.epsilon:g}"
            if name in rows:
                continue
            rows[name] = measured(data, method, asked.epsilon, 3 if asked.quick else asked.seeds)
            print(name, rows[name], flush=True)
            if not asked.quick:
                RESULT.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
