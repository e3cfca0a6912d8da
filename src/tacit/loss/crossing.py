"""Where a rising function reaches given values: a root search for many values at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .noise import EPS, Array


def crossing(
    f: Callable[[Array], Array], goals: Array, ends: tuple[Array, Array], values: tuple[Array, Array]
) -> Array:
    """Where a rising f reaches the goals, given places before and after with f there, to the last digits.

    Reference: Chandrupatla 1997 (inverse quadratic interpolation where it is safe, else bisection).
    """
    found, open_ = np.array(ends[0], dtype=np.float64), np.arange(goals.size)
    x1, x2, f1, f2 = *ends, values[0] - goals, values[1] - goals
    share, near = np.full(goals.shape, 0.5), 1e-17 * (np.abs(ends[0]) + np.abs(ends[1])).max(initial=0.0)
    for _ in range(100):
        x = x1 + share * (x2 - x1)
        value = f(x) - goals
        same = (value > 0) == (f1 > 0)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, value
        least = (2 * EPS * np.abs(x) + near) / np.maximum(np.abs(x2 - x1), 1e-300)
        going = (least <= 0.5) & (np.abs(f1) > 2 * EPS * np.abs(goals))
        found[open_] = np.where((f1 <= 0) | (least <= 0.5), x1, x2)
        if not going.any():
            break
        open_, goals, least = open_[going], goals[going], least[going]
        x1, x2, x3, f1, f2, f3 = (item[going] for item in (x1, x2, x3, f1, f2, f3))
        with np.errstate(all="ignore"):
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            bent = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(bent)
        share = np.clip(np.where(safe, bent, 0.5), least, 1 - least)
    return found
