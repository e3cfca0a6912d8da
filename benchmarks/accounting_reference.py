"""Slow references for the accountant: epsilon to 15 digits in ball arithmetic, checked on two different contours.

Run `python benchmarks/accounting_reference.py` to write tests/golden/accounting.json again (some minutes).
Needs python-flint. Nothing here imports tacit: moments, sums and roots are computed afresh with 80 digits.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
from flint import acb, arb, ctx

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "accounting.json"
WORK = 3_000_000
HARD = 482, 386, 817, 296, 175, 183
"""More cases of the sweep: heavy tails, where moments explode near the best tilt."""


def sweep(count: int, seed: int = 20260101) -> list[tuple[float, float, int, float]]:
    """The published sweep: (noise_multiplier, rate, steps, delta), all uniform in logarithm."""
    rng = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        steps = round(10 ** rng.uniform(0, 6))
        rate, noise, delta = 10 ** rng.uniform(-4, 0), 0.4 * 50 ** rng.uniform(), 10 ** rng.uniform(-20, -3)
        cases.append((noise, rate, steps, delta))
    return cases


def rough(noise: float, rate: float, steps: int, delta: float, add: bool) -> tuple[float, float, float]:
    """Tilt, spread and epsilon by a plain Chernoff bound in doubles."""
    cap = 2 * noise * 12 + 4 * noise**2 * math.log(1 / rate) + 5
    x = np.arange(-12 * noise, cap + 12 * noise, min(noise, noise**2) / 8)
    loss = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * noise**2))
    base = -(x**2) / (2 * noise**2)
    best = (math.inf, 1.0, 1.0)
    for tilt in np.geomspace(1e-2, cap, 400):
        logs = base + (-tilt if add else 1 + tilt) * loss
        top = logs.max()
        weights = np.exp(logs - top)
        log_m = top + math.log(weights.sum() * (x[1] - x[0]) / (noise * math.sqrt(2 * math.pi)))
        mean = (weights @ loss) / weights.sum()
        spread = math.sqrt(steps * (weights @ (loss - mean) ** 2) / weights.sum())
        value = (steps * log_m - math.log(delta) + tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)) / tilt
        best = min(best, (value, tilt, spread))
    return best[1], best[2], best[0]


class Line:
    """M(t + iu)^T on equispaced u, as balls."""

    def __init__(self, case: tuple[float, float, int], tilt: float, period: float, add: bool, fine: float) -> None:
        noise, rate, steps = case
        s, q = arb(noise), arb(rate)
        h = min(noise, noise**2) / fine
        high = 14 * noise + (0 if add else 1 + tilt)
        places = [arb(-14 * noise + h * j) for j in range(int((high + 14 * noise) / h) + 1)]
        self.tilt, self.period, step = tilt, period, 2 * math.pi / period
        losses = [(1 - q + q * ((2 * x - 1) / (2 * s * s)).exp()).log() for x in places]
        power = arb(-tilt) if add else arb(1 + tilt)
        weights = [(-(x * x) / (2 * s * s) + power * loss).exp() for x, loss in zip(places, losses, strict=True)]
        turn = [acb(0, (-step if add else step) * loss).exp() for loss in losses]
        scale = arb(h) / (s * (2 * arb.pi()).sqrt())
        terms = [acb(w) for w in weights]
        self.values: list[acb] = []
        quiet = 0
        for k in range(WORK // len(places)):
            z = acb(arb(tilt), arb(step) * k)
            value = (sum(terms, acb(0)) * scale) ** steps / (z * (1 + z))
            self.values.append(value)
            first = self.values[0].real
            quiet = quiet + 1 if abs(value) < first * arb(10) ** -40 else 0
            if quiet > 20:
                break
            terms = [term * factor for term, factor in zip(terms, turn, strict=True)]
        else:
            raise OverflowError
        self.step = step

    def delta(self, epsilon: arb) -> arb:
        turn = acb(0, -arb(self.step) * epsilon).exp()
        total, wave = self.values[0].real, acb(1)
        for value in self.values[1:]:
            wave *= turn
            total += 2 * (value * wave).real
        return (total * (-arb(self.tilt) * epsilon).exp()) / arb(self.period)


def root(line: Line, delta: float, low: float, high: float) -> float | None:
    """Bisection; 0 when delta(0) is below; None when the bracket does not hold."""
    a, b = arb(low), arb(high)
    if line.delta(a) <= delta:
        return 0.0 if low == 0 else None
    if not line.delta(b) <= delta:
        return None
    for _ in range(60):
        middle = ((a + b) / 2).mid()
        if line.delta(middle) > delta:
            a = middle
        else:
            b = middle
    return float(b.mid())


def epsilon(case: tuple[float, float, int, float]) -> float | None:
    """The larger of both directions, or None where two contours do not agree to 1e-13.

    Where moments explode near the best tilt, smaller ones do, at the price of digits, of which there are enough.
    """
    found = 0.0
    for add in (False, True):
        if add and -case[2] * math.log1p(-case[1]) <= found:
            continue
        answers = (agreed(case, add, factors) for factors in ((0.97, 0.85), (0.6, 0.5), (0.3, 0.25), (0.13, 0.1)))
        answer = next((value for value in answers if value is not None), None)
        if answer is None:
            return None
        found = max(found, answer)
    return found


def agreed(case: tuple[float, float, int, float], add: bool, factors: tuple[float, float]) -> float | None:
    """Epsilon of one direction on two contours, at these shares of the best tilt."""
    noise, rate, steps, delta = case
    tilt, spread, bound = rough(noise, rate, steps, delta, add)
    if bound <= 0:
        return 0.0
    answers = []
    for factor, wide, fine in zip(factors, (1.0, 1.7), (8.0, 11.0), strict=True):
        period = wide * (26 * spread + 100 / (factor * tilt))
        try:
            line = Line((noise, rate, steps), factor * tilt, period, add, fine)
        except OverflowError:
            return None
        answers.append(root(line, delta, 0.0, 1.05 * bound + 1e-9))
    if None in answers or abs(answers[0] - answers[1]) > 1e-13 * (1 + answers[0]):
        return None
    return float(answers[0])


def main(count: int) -> None:
    ctx.dps = 60
    kept: list[dict[str, float]] = []
    cases = sweep(1000)
    for case in cases + [cases[index] for index in HARD]:
        if case[2] == 1 or (len(kept) >= count and case not in [cases[index] for index in HARD]):
            continue
        names = "noise_multiplier", "rate", "steps", "delta"
        entry = dict(zip(names, case, strict=True))
        value = None if any(entry.items() <= item.items() for item in kept) else epsilon(case)
        if value is not None:
            kept.append({**entry, "epsilon": value})
            print(len(kept), case, value, flush=True)
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
