"""Do a model's columns stand in the order of the labels? A function cannot say which column is which class, and an
estimator may have been trained on other numbers for the same classes than its members are given with.

Where they do not, every attack looks at what the model says of another class, and a large leak looks small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from ..core import BadInput
from ..core.arrays import Array

Flags = NDArray[np.bool_]
SURE = 5.0
"""Standard deviations by which another order must be right more often."""
SEEN = 5
"""Records of a class that must have been called by another class's name for it to count as exchanged."""
LEARNED = 0.5
"""Of the members without the commonest label, the share that another order must be right about beyond that label's."""
MOST = 1000
"""Classes up to which an order is looked for."""
BACKWARDS, NEARLY = 4.0, 2.0
"""Standard deviations by which one of two columns must rank its own class lower than the other class; and where the
model is wrong about nearly everybody besides."""


def check_columns(answer: Array, label: NDArray[np.int64]) -> None:
    """Refuse answers about members (records x classes) that fit their labels much better in another order of columns.

    The other order is chosen on a random half of the records and judged on the others. It must exchange at least two
    classes: a model that calls everybody by its commonest class is not in the wrong order. It must be right about most
    members too: a network that has learned nothing answers in some order better than in another. Two columns are
    exchanged, too, where each ranks its own class lower: a rare class is seldom the likeliest.
    """
    order, likely = _order(answer, label), answer.argmax(axis=1)
    if order is not None:
        right, other = float(np.mean(likely == label)), float(np.mean(order[likely] == label))
        raise BadInput(
            f"The model is right about {right:.0%} of its members, and about {other:.0%} if its columns stand in "
            "another order than the labels."
            if other > right
            else "The model gives members with the second label a smaller share of it than it gives the others: its "
            "columns may be exchanged.",
            fix="Give columns in the sorted order of the labels, and one column as the share of the second label. If "
            "the order is right and the model is poor, say so: set classes_ of the function or module to its labels.",
        )


def check_labels(table: Callable[[Array], Array], label: NDArray[np.int64], games: Sequence[tuple[Any, Flags]]) -> None:
    """Refuse members whose labels the target was not trained on, where the reference models were trained on them.

    `games` are answers of the target and of its references, each with the records that it was trained on; `table` reads
    an answer. Where a reference has exchanged labels too, all of them are poor models: nothing was given wrongly.
    """
    if not all(isinstance(answer, np.ndarray) for answer, _ in games):  # of large answers a digest is kept
        return
    own = [
        (table(answer)[rows], label[rows]) for answer, rows in ((told, np.flatnonzero(side)) for told, side in games)
    ]
    if _order(*own[0]) is None or any(_order(*each) is not None for each in own[1:]):
        return
    right = [float(np.mean(answer.argmax(axis=1) == labels)) for answer, labels in own]
    raise BadInput(
        f"The model is right about {right[0]:.0%} of its members, and reference models, trained on such labels, "
        f"about {np.mean(right[1:]):.0%} of theirs: the model was trained on other labels.",
        fix="Give members with the labels that the model was trained on, in the same numbers.",
    )


def _order(answer: Array, label: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """Another order of columns that fits the labels without doubt, or None."""
    classes, likely = answer.shape[1], answer.argmax(axis=1)
    if classes > MOST:
        return None
    if classes == 2 and _backwards(answer, label):
        return np.array([1, 0])
    order = _sure_order(likely, label, classes)
    usual = np.bincount(label, minlength=classes).max() / max(label.size, 1)
    learned = order is not None and np.mean(order[likely] == label) >= usual + LEARNED * (1 - usual)
    return order if learned else None


def _sure_order(likely: NDArray[np.intp], label: NDArray[np.int64], classes: int) -> NDArray[np.intp] | None:
    """Another order of columns that is right more often without doubt, or None.

    Which half a record is in must not follow from its place: tables may have their classes in turns.
    """
    half = np.random.default_rng(0).permutation(label.size) % 2 == 0
    order = _best_order(likely[half], label[half], classes)
    named, truth = likely[~half], label[~half]
    gained, lost = (order[named] == truth) & (named != truth), (named == truth) & (order[named] != truth)
    moved = np.bincount(named, weights=gained, minlength=classes)
    others = named != moved.argmax()  # many small classes: none is seen often, all together are
    several = np.count_nonzero(moved >= SEEN) >= 2 or _sure(gained & others, lost & others)
    return order if several and _sure(gained, lost) else None


def _sure(gained: Flags, lost: Flags) -> bool:
    more, fewer = np.count_nonzero(gained), np.count_nonzero(lost)
    return bool(more - fewer > SURE * np.sqrt(more + fewer))


def _backwards(answer: Array, label: NDArray[np.int64]) -> bool:
    """Whether records of the second class get less of the second column than others do (Mann and Whitney 1947)."""
    second = label == 1
    both = int(second.sum()) * int((~second).sum())
    if not both:
        return False
    rank = rankdata(answer[:, 1].astype(np.float64) - answer[:, 0])
    above = float(rank[second].sum()) - second.sum() * (second.sum() + 1) / 2
    apart = (both / 2 - above) / float(np.sqrt(both * (label.size + 1) / 12))
    right = answer.argmax(axis=1) == label
    return bool(apart > (NEARLY if _sure(~right, right) else BACKWARDS))


def _best_order(named: NDArray[np.intp], truth: NDArray[np.int64], classes: int) -> NDArray[np.intp]:
    """Give each column a label such that most records are predicted rightly; its own label where no record tells."""
    together = np.zeros((classes, classes))
    np.add.at(together, (named, truth), 1.0)
    rows, columns = linear_sum_assignment(together + 1e-3 * np.eye(classes), maximize=True)
    found = np.empty(classes, dtype=np.intp)
    found[rows] = columns
    return found
