"""Logistic regression in a page of numpy, for baselines that must not bring a library with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Floats = NDArray[np.float64]


def logistic(x: Floats, y: NDArray[np.bool_], *, ridge: float = 1.0) -> Callable[[Floats], Floats]:
    r"""Fit min_w sum_i log(1 + e^{-s_i (w x_i + b)}) + ridge |w|^2 / 2 on standardised features; return x -> log-odds.

    Edge cases: a constant feature gets weight 0.
    """
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 0, scale, np.inf)
    z = (x - centre) / scale
    sign = np.where(y, 1.0, -1.0)

    def objective(w: Floats) -> tuple[float, Floats]:
        margin = sign * (z @ w[:-1] + w[-1])
        pull = -sign * special.expit(-margin)
        gradient = np.append(z.T @ pull + ridge * w[:-1], pull.sum())
        return float(np.logaddexp(0.0, -margin).sum() + ridge * w[:-1] @ w[:-1] / 2), gradient

    found = optimize.minimize(objective, np.zeros(z.shape[1] + 1), jac=True, method="L-BFGS-B")
    weights = np.asarray(found.x)
    return lambda rows: np.asarray(((rows - centre) / scale) @ weights[:-1] + weights[-1])
