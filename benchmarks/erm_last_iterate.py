"""Noisy gradient descent for logistic regression: epsilon over steps, by composition and for the last iterate alone.

    python benchmarks/erm_last_iterate.py [--quick] [--runs 2000]

40 records of norm 1, regularisation 0.02 of the mean loss, step size 1/(smoothness + 2 regularization), delta 1e-3, one
record more or less. The lower bound is an audit of the last iterate on a pair whose record is as steep as it may be.
The plot shows where the last iterate becomes cheaper than the composition of all steps, and that the audit stays below.
"""

from __future__ import annotations

import argparse
import json

import numpy as np

import tacit
from machine import RESULTS, describe
from tacit.core import source
from tacit.erm.descent import descended
from tacit.erm.losses import Logistic
from tacit.erm.problem import Problem
from tacit.erm.shape import Design
from tacit.events import Gaussian, LastIterate, Repeat

SIZE, STRENGTH, NOISE, DELTA = 40, 0.02, 5.0, 1e-3
LOSS = Logistic()
ETA = 1 / (LOSS.smoothness + 2 * STRENGTH)
STEPS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
AUDITED = (8, 64, 256)


def last(steps):
    return LastIterate(NOISE, steps, ETA, LOSS.lipschitz, LOSS.smoothness, SIZE, regularization=STRENGTH)


def audited(steps, runs):
    """The demonstrated epsilon of the last iterate; all other records sit opposite, so that one record stays steep."""
    x = np.zeros((SIZE, 1))
    x[0] = 1.0
    design = Design("dynamics", last(steps), NOISE, STRENGTH, steps, ETA)

    def release(first, rng):
        y = np.append(first, np.ones(SIZE - 1))
        problem = Problem(x, y, LOSS, 1.0)
        return descended(problem, design, np.zeros(1), problem.shape, source(int(rng.integers(2**62))))

    claim = (tacit.epsilon(last(steps), delta=DELTA).upper, DELTA)
    found = tacit.audit_mechanism(release, (1.0, 0.0), claim=claim, runs=runs, rng=0, delta=DELTA)
    return {"steps": steps, "lower": found.lower.bound.epsilon, "verdict": str(found.verdict), "runs": runs}


def curves():
    rows = []
    for steps in STEPS:
        whole = tacit.epsilon(Repeat(Gaussian(NOISE), steps), delta=DELTA).upper
        rows.append(
            {"steps": steps, "composition": whole, "last_iterate": tacit.epsilon(last(steps), delta=DELTA).upper}
        )
    return rows


def plot(rows, audits, crossover):
    import altair as alt

    names = {"composition": "composition of all steps", "last_iterate": "last iterate alone"}
    lines = [{"steps": r["steps"], "epsilon": r[k], "bound": name} for r in rows for k, name in names.items()]
    points = [
        {"steps": a["steps"], "epsilon": a["lower"], "bound": "audit of the last iterate (lower, 95 %)"} for a in audits
    ]
    axes = {
        "x": alt.X("steps:Q", scale=alt.Scale(type="log")),
        "y": "epsilon:Q",
        "color": alt.Color("bound:N", title=None),
    }
    upper = alt.Chart(alt.Data(values=lines)).mark_line(point=True).encode(**axes)
    lower = alt.Chart(alt.Data(values=points)).mark_point(size=90, filled=True, shape="triangle-up").encode(**axes)
    rule = alt.Chart(alt.Data(values=[{"steps": crossover}])).mark_rule(strokeDash=[4, 4]).encode(x="steps:Q")
    title = f"Strongly convex logistic regression: the last iterate is cheaper from step {crossover} on"
    chart = (rule + upper + lower).properties(width=520, height=320, title=title)
    chart.save(RESULTS / "erm_last_iterate.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=2000)
    asked = parser.parse_args()
    rows = curves()
    audits = [audited(steps, 400 if asked.quick else asked.runs) for steps in AUDITED]
    crossover = next(row["steps"] for row in rows if row["last_iterate"] < row["composition"])
    print(*rows, *audits, f"crossover at {crossover}", sep="\n")
    if not asked.quick:
        whole = {"machine": describe(), "crossover": crossover, "curves": rows, "audits": audits}
        (RESULTS / "erm_last_iterate.json").write_text(json.dumps(whole, indent=1) + "\n")
        plot(rows, audits, crossover)


if __name__ == "__main__":
    main()
