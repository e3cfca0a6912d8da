"""Counts of one data set, released month after month, and never more than the budget: python -m examples.ledger_counts

It needs the extra `ledger`. Every release is charged before its noise is drawn; a retry under the same key returns the
stored answer and costs nothing; what does not fit is refused; a receipt shows later that nobody put back an old file.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from tacit import BudgetExceeded, Ledger, mechanism


def months(ledger: Ledger, born: np.ndarray, rng: int | None = None) -> list[str]:
    """The number of people for each month of birth, until the budget is spent."""
    account, lines = mechanism.Account(ledger, purpose="monthly report", analyst="ann"), []
    for month in range(1, 13):
        terms = {"sensitivity": 1, "epsilon": 0.1, "ledger": account, "key": f"born in month {month}", "rng": rng}
        try:
            first, again = (mechanism.laplace(int((born == month).sum()), **terms) for _ in range(2))
        except BudgetExceeded as refusal:
            return [*lines, f"month {month}: refused. {refusal}"]
        assert first.text() == again.text()  # a retry is the same answer, and is not charged
        lines.append(f"month {month}: {first.value} within {first.error:g}; epsilon {ledger.remaining():.1f} remains")
    return lines


def main(folder: Path, rng: int | None = None) -> list[str]:
    born = np.random.default_rng(0).integers(1, 13, size=5000)  # made-up people
    ledger = Ledger.create(folder / "budget.db", epsilon=1.0, delta=0.0, unit="person")
    ledger.allot(0.9, analyst="ann")  # of the budget of 1; the rest is for others
    lines = months(ledger, born, rng)
    before = shutil.copy(folder / "budget.db", folder / "old.db")
    receipt = mechanism.laplace(len(born), sensitivity=1, epsilon=0.1, ledger=ledger, rng=rng).receipt
    assert receipt is not None
    lines.append(f"{len(ledger.entries())} releases, whole: {ledger.verify(receipt).ok}")
    lines.append(f"an older copy of the file: {Ledger(before).verify(receipt).problem}")
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(main(Path(place))))
