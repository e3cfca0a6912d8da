"""100,000 members, 1,000 classes: how long an attack takes, and how much memory.

The model is a centroid classifier on 32 features, trained in a second, so that the time is the attack's own.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit

Array = NDArray[Any]


def fit(x: Array, y: Array, rng: np.random.Generator) -> Any:
    """Shares by distance to each class's mean, in single precision, 4,096 records at a time."""
    classes = 1000 if y.max() < 1000 else int(y.max()) + 1
    total = np.zeros((classes, x.shape[1]))
    np.add.at(total, y, x)
    centre = (total / np.maximum(np.bincount(y, minlength=classes), 1)[:, None]).astype(np.float32)
    square = (centre**2).sum(axis=1)

    def predict(rows: Array) -> Array:
        found = np.empty((len(rows), classes), dtype=np.float32)
        for first in range(0, len(rows), 4096):
            part = np.asarray(rows[first : first + 4096], dtype=np.float32)
            z = 2 * part @ centre.T - square
            z = np.exp(z - z.max(axis=1, keepdims=True))
            found[first : first + 4096] = z / z.sum(axis=1, keepdims=True)
        return found

    return predict


def run(members: int = 100_000, outsiders: int = 20_000, classes: int = 1000, references: int = 4) -> dict[str, Any]:
    """One attack with references; seconds by part, and the process's largest memory."""
    rng = np.random.default_rng(0)
    n = members + outsiders
    y = rng.integers(0, classes, n)
    x = rng.normal(size=(classes, 32))[y] + 1.5 * rng.normal(size=(n, 32))
    started, busy = time.time(), time.process_time()
    model = fit(x[:members], y[:members], rng)
    trained = time.time() - started
    found = tacit.attack(
        model, (x[:members], y[:members]), (x[members:], y[members:]), fit=fit, references=references, rng=1
    )
    best = max(found.attacks, key=lambda item: item.auc.lower)
    return {
        "members": members, "outsiders": outsiders, "classes": classes, "references": references,
        "training one model, seconds": round(trained, 1), "attack, seconds": round(time.time() - started, 1),
        "processor seconds": round(time.process_time() - busy, 1),
        "largest memory, GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "best": best.attack, "area": round(float(best.auc.value or 0), 4),
        "controls passed": all(control.passed for control in found.controls),
    }  # fmt: skip
