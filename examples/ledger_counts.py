"""Release counts from one data set again and again, and never more than the budget allows.

Run it: python examples/ledger_counts.py. It needs the extra `ledger`. The noise here is drawn by numpy for the sake of
the example; releases of real data draw theirs from an exact sampler.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tacit import BudgetExceeded, Ledger
from tacit.events import Laplace


def count(ledger: Ledger, people: np.ndarray, month: int, epsilon: float) -> str:
    """Charge, draw, store, return: a retry with the same key returns the stored answer and costs nothing."""
    key = f"people of month {month}"
    ledger.charge(Laplace(1 / epsilon), key=key, purpose="monthly report")
    if (known := ledger.stored(key)) is not None:
        return known
    noisy = float(np.sum(people == month)) + np.random.default_rng().laplace(scale=1 / epsilon)
    return ledger.store(key, f"{noisy:.0f}")


def main(folder: Path) -> None:
    people = np.random.default_rng(0).integers(1, 13, size=5000)
    ledger = Ledger.create(folder / "budget.db", epsilon=1.0, delta=0.0, unit="record")
    for month in range(1, 13):
        try:
            first, again = (count(ledger, people, month, 0.1) for _ in range(2))
        except BudgetExceeded as refusal:
            print(f"month {month}: refused. {refusal}")
            break
        assert first == again
        print(f"month {month}: about {first} people; epsilon {ledger.remaining():.1f} remains")
    print(ledger.verify())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
