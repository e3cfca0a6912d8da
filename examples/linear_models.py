"""One table, one budget, three private models: python -m examples.linear_models

It needs the extras `erm` and `ledger`. A schema says what is public; a linear model, additive trees and a regression
are fitted in scikit-learn's shape and charged to one ledger; the fourth is refused before anything is drawn.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tacit import BudgetExceeded, Column, Ledger, Schema
from tacit.erm import PrivateAdditiveTrees, PrivateLinearRegression, PrivateLogisticRegression

SCHEMA = Schema(
    (
        Column("age", range=(0, 100)),
        Column("hours", range=(0, 80)),
        Column("sector", kind="category", words=("private", "public", "self-employed")),
        Column("rich", kind="category", words=("no", "yes")),
    ),
    label="rich",
)


def people(count: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Made-up people, whose income peaks in middle age, and the incomes."""
    rng = np.random.default_rng(seed)
    age, hours = rng.uniform(18, 90, count), rng.uniform(0, 80, count)
    sector = rng.choice(SCHEMA.columns[2].words or (), count)
    income = 60 - (age - 50) ** 2 / 40 + hours / 2 + 8 * (sector == "self-employed") + rng.normal(0, 8, count)
    rich = np.where(income > 65, "yes", "no")
    return {"age": age, "hours": hours, "sector": sector, "rich": rich}, income


def main(folder: Path, seed: int | None = None) -> list[str]:
    import pandas as pd

    (table, income), (others, incomes) = people(8000, 1), people(2000, 2)
    train, test = pd.DataFrame(table), pd.DataFrame(others)
    ledger = Ledger.create(folder / "budget.db", epsilon=3.5, delta=1e-5, unit="record")
    shared = {"epsilon": 1.0, "delta": 1e-6, "schema": SCHEMA, "public_size": 8000, "random_state": seed}
    lines = []
    for made in (PrivateLogisticRegression, PrivateAdditiveTrees):
        model = made(**shared, ledger=ledger).fit(train)
        right = float(np.mean(model.predict(test) == test["rich"]))
        lines.append(f"{made.__name__}: {right:.1%} of new people right, epsilon {model.bound_.epsilon:.4g}")
    numbers = PrivateLinearRegression(**shared, target_range=(0, 120), ledger=ledger).fit(train, income)
    lines.append(f"PrivateLinearRegression: R2 {numbers.score(test, incomes):.2f} on new people")
    try:
        PrivateLogisticRegression(**{**shared, "epsilon": 3.0}, ledger=ledger).fit(train)
    except BudgetExceeded:
        lines.append("a fourth model: refused, the budget is spent")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(*main(Path(place)), sep="\n")
