"""A test set that is asked again and again tells its labels, unless its board defends it.

Run it: python -m examples.leaderboards

Labels are coin flips, so nobody can truly do better than 1/2. Two competitors try all the same: one submits random
guesses and lets the lucky ones vote (Blum and Hardt 2015); the other keeps the features that agree with the labels on
training and on holdout records (Dwork et al. 2015). What a naive board shows them is overfitted; what `Ladder` and
`Thresholdout` show is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit import mechanism

Array = NDArray[np.int64]
SIZE, ROUNDS, FEATURES = 2000, 600, 1500


def boosted(board: Callable[[Array], float], labels: Array, rng: np.random.Generator) -> Array:
    """Predictions by the vote of all random submissions that were shown as better than guessing."""
    votes = np.zeros(labels.size)
    for _ in range(ROUNDS):
        guess = rng.integers(0, 2, labels.size)
        if board(guess) < 0.5:
            votes += 2 * guess - 1
    return (votes > 0).astype(np.int64)


def losses(seed: int = 1) -> dict[str, float]:
    """The loss that each board shows for the boosted submission; 0.5 is the truth."""
    labels = np.random.default_rng(seed).integers(0, 2, SIZE)
    ladder = mechanism.Ladder(labels)
    boards = {"naive": lambda guess: float(np.mean(guess != labels)), "ladder": ladder.submit}
    return {name: board(boosted(board, labels, np.random.default_rng(seed + 1))) for name, board in boards.items()}


def accuracies(rng: int | None = None, seed: int = 3) -> dict[str, float]:
    """The accuracy that each holdout shows for a vote of the features that it helped to choose; 0.5 is the truth."""
    chance = np.random.default_rng(seed)
    agree = {part: chance.integers(0, 2, (FEATURES, SIZE)) for part in ("training", "holdout")}  # feature = label?
    private = mechanism.Thresholdout(size=SIZE, threshold=0.06, epsilon=10.0, budget=10, rng=rng)
    boards: dict[str, Callable[[Array, Array], float]] = {
        "naive": lambda training, holdout: float(holdout.mean()),
        "thresholdout": private.query,
    }
    shown = {}
    for name, ask in boards.items():
        signs = np.zeros(FEATURES)
        for i in range(FEATURES):
            ours, theirs = agree["training"][i].mean() - 0.5, ask(agree["training"][i], agree["holdout"][i]) - 0.5
            if min(abs(ours), abs(theirs)) > SIZE**-0.5 / 2 and ours * theirs > 0:
                signs[i] = np.sign(ours)
        right = [(signs @ (2 * agree[part] - 1) > 0).astype(np.int64) for part in ("training", "holdout")]
        shown[name] = ask(*right)
    return shown


def main(rng: int | None = None) -> list[str]:
    lines = [f"loss shown by the {name} board: {shown:.3f} (truth 0.5)" for name, shown in losses().items()]
    return lines + [f"accuracy shown by {name}: {shown:.3f} (truth 0.5)" for name, shown in accuracies(rng).items()]


if __name__ == "__main__":
    print("\n".join(main()))
