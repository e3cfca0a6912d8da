"""Four releases from one survey, paid for from one budget: python -m examples.releases"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import tacit
from tacit import mechanism


def main(folder: Path, rng: int | None = None) -> list[str]:
    """Count, winner, median and unknown words, each charged before it is drawn."""
    survey = np.random.default_rng(1)  # made-up people
    ages = survey.normal(41, 12, 5000).round()
    hair = survey.choice(4, 5000, p=[0.5, 0.3, 0.15, 0.05])
    words = survey.choice(["tea", "coffee", "water", "my own secret"], 5000, p=[0.5, 0.3, 0.1998, 0.0002])

    ledger = tacit.Ledger.create(str(folder / "budget.db"), epsilon=2.0, delta=1e-6, unit="person")
    names, counts = np.unique(words, return_counts=True)
    answers = {
        "over 65": mechanism.laplace(
            int((ages > 65).sum()), sensitivity=1, epsilon=0.5, ledger=ledger, key="over 65", rng=rng
        ),
        "hair": mechanism.noisy_max(
            np.bincount(hair, minlength=4), sensitivity=1, monotone=True,
            epsilon=0.5, ledger=ledger, key="hair", rng=rng,
        ),
        "median age": mechanism.median(ages, bounds=(0, 120), epsilon=0.5, ledger=ledger, key="median", rng=rng),
        "drinks": mechanism.unknown_keys(
            dict(zip(names.tolist(), counts.tolist(), strict=True)),
            epsilon=0.4, delta=1e-9, ledger=ledger, key="drinks", rng=rng,
        ),
    }  # fmt: skip
    lines = [f"{name}: {answer}" for name, answer in answers.items()]
    again = mechanism.laplace(0, sensitivity=1, epsilon=0.5, ledger=ledger, key="over 65", rng=rng)
    lines.append(f"asked again under the same key: {again.value}, and nothing more was charged")
    lines.append(f"remaining: {ledger.remaining():.4g}")
    try:
        mechanism.laplace(1, sensitivity=1, epsilon=1.0, ledger=ledger, rng=rng)
    except tacit.BudgetExceeded as refusal:
        lines.append(str(refusal))
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print("\n".join(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(place))))
