r"""How many independent rows some scores are worth: one record attacked in 16 models is not 16 records.

Rows share a record or a target model. With psi_i the influence of row i on an estimate (its derivative), the variance
is that of sums over records plus that of sums over targets minus that of rows (two-way clusters: Cameron, Gelbach and
Miller 2011, section 2.1). Divided by what independent rows would have it is the design effect, and an exact interval
for independent rows is used with so many times fewer of them (Korn and Graubard 1998).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


def design_effect(influence: Floats, record: NDArray[np.generic], target: NDArray[np.generic]) -> float:
    """Variance of the sum of `influence` over its variance had all rows been independent; at least 1.

    One target: 1, where no record is there twice. Few records or targets say little about their own spread, so each
    part is raised by the ratio of Student's and the normal quantile, squared (Korn and Graubard 1998, section 2), of
    three degrees of freedom at least: how much two targets differ says next to nothing about how much targets do.
    """
    rows = float(influence @ influence)
    if rows <= 0.0 or influence.size < 2:
        return 1.0
    records, record_count = _grouped(influence, record)
    targets, target_count = _grouped(influence, target)
    if record_count == influence.size:
        return 1.0
    by_record = records * _few(record_count) / rows
    by_target = targets * _few(target_count) / rows if target_count > 1 else 1.0
    return max(1.0, by_record, by_record + by_target - 1.0)


def _grouped(influence: Floats, name: NDArray[np.generic]) -> tuple[float, int]:
    """Sum of squared sums over equal names, and how many names there are."""
    names, place = np.unique(name, return_inverse=True)
    sums = np.bincount(place.ravel(), weights=influence, minlength=names.size)
    return float(sums @ sums), int(names.size)


def _few(count: int) -> float:
    """n / (n - 1) (t_{n-1} / z)^2 at 97.5 %."""
    if count < 2:
        return 1.0
    student = float(special.stdtrit(max(count - 1, 3), 0.975)) / float(special.ndtri(0.975))
    return count / (count - 1) * student**2
