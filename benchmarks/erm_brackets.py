"""Every private classifier at epsilon 1, audited with the canary portfolio, and two broken ones.

    python benchmarks/erm_brackets.py [--quick] [--runs 1000] [--only "logistic;svc"]
    python benchmarks/erm_brackets.py --real [--quick] [--runs 20000] [--only "logistic;svc"]

200 made-up records, delta 1e-5, a record more or less. Broken: noise that forgets lambda (output perturbation with
regularisation 0.05, scaled to s/n), and rows standardised by the data's own means and spreads before a fit that is
correct by itself. Rows are kept one by one, and a second call goes on. Estimators that are no classifiers are audited
as mechanisms in tests/statistical/test_erm_family_audits.py.

`--real` demonstrates lower bounds above 0 on the 455 training records of breast cancer, with and without the record
that stands out most: for linear models and naive Bayes a row of the largest norm in the direction in which the other
records differ least from 0, so that their curvature does not hide it; for trees a record whose every value is missing.
The attacker sees all weights. 20,000 runs take one to three minutes of one core for each estimator.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace

import numpy as np

import tacit
from erm_tables import TABLES
from machine import RESULTS, describe
from tacit.core import Adjacency, source
from tacit.erm import PrivateAdditiveTrees, PrivateERM, PrivateGaussianNB, PrivateLogisticRegression, PrivateSVC
from tacit.erm.budget import Budget
from tacit.erm.losses import Logistic
from tacit.erm.methods import METHODS, run
from tacit.erm.problem import Problem
from tacit.erm.rows import bounded

RESULT = RESULTS / "erm_brackets.json"
DELTA, SIZE = 1e-5, 200
SETTINGS = {"epsilon": 1.0, "delta": DELTA, "classes": [0, 1], "public_size": SIZE}
MADE = {
    "logistic": PrivateLogisticRegression(norm_bound=3.0, **SETTINGS),
    "logistic, output": PrivateLogisticRegression(norm_bound=3.0, method="output", **SETTINGS),
    "logistic, gradient": PrivateLogisticRegression(norm_bound=3.0, method="gradient", **SETTINGS),
    "naive Bayes": PrivateGaussianNB(norm_bound=3.0, **SETTINGS),
    "trees": PrivateAdditiveTrees(bounds=(-4, 4), **SETTINGS),
}


def forgetful(x, y, rng):
    """Output perturbation whose noise is scaled as if lambda were 1."""
    rows, sign = bounded(x, 3.0, 0.0), 2.0 * y - 1
    problem = Problem(rows, sign, Logistic(), 1.0, SIZE)
    budget = Budget(1.0, DELTA, Adjacency.ADD_REMOVE)
    design = METHODS["output"](replace(problem.shape, regularization=0.05), budget)
    quiet = replace(design, noise_multiplier=0.05 * design.noise_multiplier)
    theta = run(problem, quiet, budget, source(rng))
    return lambda asked: logits(bounded(asked, 3.0, 0.0) @ theta)


def standardised(x, y, rng):
    """A correct fit after standardising by private means and spreads, which one far record moves."""
    middle, spread = x.mean(axis=0), x.std(axis=0) + 1e-12
    model = PrivateLogisticRegression(norm_bound=0.01, **SETTINGS, random_state=rng).fit((x - middle) / spread, y)
    return lambda asked: logits(model.decision_function((asked - middle) / spread))


def logits(decision):
    return np.stack((-decision / 2, decision / 2), axis=1)


def decided(made):
    """The training of an estimator that has decisions and no probabilities."""

    def fit(x, y, rng):
        model = made(norm_bound=3.0, **SETTINGS, random_state=rng).fit(x, y)
        return lambda asked: logits(model.decision_function(asked))

    return fit


DECIDED = {"svc": decided(PrivateSVC), "own loss": decided(PrivateERM)}
BROKEN = {"broken: lambda forgotten": forgetful, "broken: private means": standardised}


REAL = {
    "logistic": lambda **more: PrivateLogisticRegression(**more),
    "logistic, output": lambda **more: PrivateLogisticRegression(method="output", **more),
    "logistic, gradient": lambda **more: PrivateLogisticRegression(method="gradient", **more),
    "svc": lambda **more: PrivateSVC(**more),
    "naive Bayes": lambda **more: PrivateGaussianNB(**more),
    "trees": lambda norm_bound, **more: PrivateAdditiveTrees(bounds=(0, 1), **more),
}


def shown(model, canary, norm):
    """What an attacker who sees the whole model computes: its decision, or the noisy sums of naive Bayes."""
    if isinstance(model, PrivateGaussianNB):
        count, mean, spread = model.class_count_[1], model.theta_[1] / norm, model.var_[1] / norm**2
        along = canary / norm
        return np.array([count, count * mean @ along, count * (spread + mean**2) @ along**2])
    return model.decision_function(canary[None])


def demonstrated(name, make, runs):
    """The lower bound of one estimator on the training records of breast cancer."""
    data = TABLES["cancer"]()
    x, y = data.x[data.train], data.y[data.train]
    canary = np.linalg.svd(x, full_matrices=False)[2][-1] * data.norm
    if name == "trees":
        canary = np.full(x.shape[1], np.nan)
    settings = {"epsilon": 1.0, "delta": DELTA, "classes": [0, 1], "public_size": len(x), "norm_bound": data.norm}

    def release(records, rng):
        return shown(make(**settings, random_state=int(rng.integers(2**62))).fit(*records), canary, data.norm)

    found = tacit.audit_mechanism(
        release, ((np.vstack((x, canary)), np.append(y, 1)), (x, y)), claim=(1.0, DELTA), runs=runs, rng=1,
        delta=DELTA, adjacency="add-remove",
    )  # fmt: skip
    lower = found.lower
    return {
        "verdict": str(found.verdict),
        "lower": lower.bound.epsilon,
        "attainable": lower.attainable,
        "records": len(x),
        "runs": runs,
    }


def real(asked):
    """Rows are kept one by one, beside those of the made-up records."""
    kept = json.loads(RESULT.read_text())
    rows = {} if asked.quick else kept.get("real", {})
    for name, make in REAL.items():
        if name in rows or (asked.only and name not in asked.only.split(";")):
            continue
        rows[name] = demonstrated(name, make, 400 if asked.quick else asked.runs or 20_000)
        print(name, rows[name], flush=True)
        if not asked.quick:
            RESULT.write_text(json.dumps({**kept, "real": rows, "real machine": describe()}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.real:
        return real(asked)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 3))
    data = (x, (x[:, 0] + 0.5 * rng.normal(size=SIZE) > 0).astype(int))
    kept = json.loads(RESULT.read_text()) if RESULT.exists() and not asked.quick else {}
    rows = kept.get("rows", {})
    for name, fit in (MADE | DECIDED | BROKEN).items():
        if name in rows or (asked.only and name not in asked.only.split(";")):
            continue
        runs = 200 if asked.quick else asked.runs or 1000
        found = tacit.audit(fit, data, claim=(1.0, DELTA), runs=runs, isolation="none", rng=1)
        rows[name] = {
            "verdict": str(found.verdict), "lower": found.lower.bound.epsilon, "attainable": found.lower.attainable,
            "canary": found.lower.canary, "runs": runs,
            "would catch": {item.name: item.chance.to_json() for item in found.caught if item.chance is not None},
        }  # fmt: skip
        print(name, rows[name], flush=True)
        if not asked.quick:
            RESULT.write_text(json.dumps({**kept, "machine": describe(), "rows": rows}, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
