"""Numbers that textbooks and lectures give for private releases, and what tacit states: python -m examples.textbook"""

from __future__ import annotations

import math

import numpy as np

from tacit import mechanism


def hair_colour(rng: int | None = None) -> float:
    """How often 500 heads of dark hair beat 399 of brown at epsilon 0.1, in 2,000 draws: at least 0.973."""
    chance = np.random.default_rng(rng)
    wins = [mechanism.exponential([500, 399, 10, 2], sensitivity=1, epsilon=0.1, rng=chance).value for _ in range(2000)]
    return wins.count(0) / len(wins)


def first_names(adjacency: str) -> float:
    """All 10,000 counts at epsilon 0.1 are within this, with failure at most e^-10: 192, and 384 under replace."""
    names, sure = np.zeros(10_000, int), 1 - math.exp(-10)
    return float(mechanism.laplace(names, sensitivity=1, epsilon=0.1, adjacency=adjacency, confidence=sure).error)


def main(rng: int | None = None) -> list[str]:
    n, d, answers = 10_000, 1024, np.arange(10_000) < 3000
    local = mechanism.randomized_response(answers, epsilon=1.0, categories=[False, True], rng=rng)
    central = mechanism.laplace(float(answers.mean()), sensitivity=1 / n, epsilon=1.0, adjacency="replace", rng=rng)
    counts = [mechanism.laplace(np.zeros(k, int), sensitivity=k, epsilon=1.0, rng=rng).error for k in (1, 10, 100)]
    winner = mechanism.noisy_max(np.zeros(1000), sensitivity=1, epsilon=1.0, noise="laplace", monotone=True, rng=rng)
    every = mechanism.laplace(np.zeros(1000, int), sensitivity=1000, epsilon=1.0, rng=rng)
    laplace = mechanism.laplace(np.zeros(d), sensitivity=math.sqrt(d) / n, epsilon=1.0, rng=rng)
    gaussian = mechanism.gaussian(np.zeros(d), sensitivity=1 / n, epsilon=1.0, delta=1e-6, rng=rng)
    return [
        f"hair colour: dark wins in {hair_colour(rng):.3f} of the draws (at least 0.973)",
        f"10,000 first names: within {first_names('add-remove'):.0f}; under replace {first_names('replace'):.0f}",
        f"share of 10,000 people: {local.trust} trust within {local.error:.4f}, {central.trust} {central.error:.5f}",
        f"1, 10 and 100 counts of the same people: each within {counts[0]:.0f}, {counts[1]:.0f}, {counts[2]:.0f}",
        f"best of 1,000 counts: noisy max {winner.error:.0f} below the best, all counts within {every.error:.0f}",
        f"mean of {d} numbers: Laplace within {laplace.error:.4f}, Gaussian within {gaussian.error:.4f}",
    ]


if __name__ == "__main__":
    print("\n".join(main()))
