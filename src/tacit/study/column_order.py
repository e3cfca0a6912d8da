"""Do a model's columns stand in the order of the labels? A function cannot say which column is which class.

Where they do not, every attack looks at what the model says of another class, and a large leak looks small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..core import BadInput

Array = NDArray[Any]
SURE = 5.0
"""Standard deviations by which another order must be right more often."""
SEEN = 5
"""Records of a class that must have been called by another class's name for it to count as exchanged."""
MOST = 1000
"""Classes up to which an order is looked for."""


def check_columns(answer: Array, label: NDArray[np.int64]) -> None:
    """Refuse answers about members (records x classes) that fit their labels much better in another order of columns.

    The other order is chosen on every second record and judged on the others. It must exchange at least two classes: a
    model that calls everybody by its commonest class is not in the wrong order.
    """
    classes, likely = answer.shape[1], answer.argmax(axis=1)
    if classes > MOST:
        return
    order = _best_order(likely[::2], label[::2], classes)
    named, truth = likely[1::2], label[1::2]
    moved = [np.count_nonzero((named == k) & (truth == order[k])) for k in range(classes) if order[k] != k]
    gained = int(np.count_nonzero((order[named] == truth) & (named != truth)))
    lost = int(np.count_nonzero((named == truth) & (order[named] != truth)))
    if sum(count >= SEEN for count in moved) >= 2 and gained - lost > SURE * np.sqrt(gained + lost):
        raise BadInput(
            f"The model is right about {np.mean(likely == label):.0%} of its members, and about "
            f"{np.mean(order[likely] == label):.0%} if its columns stand in another order than the labels.",
            fix="Give columns in the sorted order of the labels, one column as the share of the second label, or an "
            "estimator that has classes_.",
        )


def _best_order(named: NDArray[np.intp], truth: NDArray[np.int64], classes: int) -> NDArray[np.intp]:
    """For each column the label that it is to be called by so that most records are named rightly; its own where no
    record tells."""
    together = np.zeros((classes, classes))
    np.add.at(together, (named, truth), 1.0)
    rows, columns = linear_sum_assignment(together + 1e-3 * np.eye(classes), maximize=True)
    found = np.empty(classes, dtype=np.intp)
    found[rows] = columns
    return found
