"""What an output can express: its number type, its printed decimals, and the smallest share it gives other than 0.

A forest of 50 trees cannot say 0.001, half precision ends at 6e-8, a printed table at its last decimal. A 0 of such an
output means "below what I can say", not "impossible": read as a tiny number it would decide every logarithm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array

Floats = NDArray[np.float64]

DECIMALS = 7
"""Printed outputs have at most this many decimals; with more, rounding is below what matters."""
LEAST = 1e-30
"""A share below this is read as this: no model is calibrated so far out."""
PART, CLASSES = 0.25, 8
"""What is added to a share, as a part of the smallest share that was seen, and to how many of the other classes."""
NOTHING = 0.01
"""Of what is added to a share: a share of 0 in a ratio or a mean. The mean of ten models cannot show it."""
BARE = 1e-3
"""What is added where an output holds only 0 and 1 (labels, a single tree)."""
NOISE = 1e-6
"""Shares as small as a rounding error are read as 0 where no other share lies below this."""
FEW = 20
"""Positive shares of one of two columns below which the column cannot tell its own smallest step."""


@dataclass(frozen=True)
class Resolution:
    """Number type and decimals of an output, and what is added to its shares, per class, so that none is 0.

    Adding (a quarter of a vote to every class of a forest) keeps the steps above 0 in their order and shrinks those
    that one vote decides; replacing zeros alone leaves a cliff. `added` has one entry for all classes, or two where
    there are two classes: then one column often is 1 minus the other, and its smallest step is that of numbers near 1.
    An output without zeros is left as it is.
    """

    added: tuple[float, ...] = (LEAST,)
    decimals: int | None = None
    kind: str = "float64"

    @classmethod
    def of(cls, shares: Array) -> Resolution:
        """The resolution of class shares (... x classes), read from the numbers themselves."""
        kind = shares.dtype.name if shares.dtype.kind == "f" else "float64"
        decimals = printed_decimals(shares)
        return cls(added(smallest(shares)), decimals, kind)

    def joined(self, other: Resolution) -> Resolution:
        """The coarser of two outputs, in this one's number type and decimals."""
        mine, theirs = (np.broadcast_to(item.added, max(len(self.added), len(other.added))) for item in (self, other))
        return Resolution(tuple(float(value) for value in np.maximum(mine, theirs)), self.decimals, self.kind)

    def shown(self, shares: Array) -> Floats:
        """Shares as an output of this resolution would show them: cast and rounded, zeros still 0."""
        cast = shares.astype(self.kind, copy=False).astype(np.float64)
        return cast if self.decimals is None else np.round(cast, self.decimals)

    def raised(self, shares: Floats) -> Floats:
        """Add the resolution's smallest step to the shares (..., classes), so that none is 0."""
        return np.asarray(shares + np.asarray(self.added))

    def floored(self, own: Floats, label: NDArray[np.int64]) -> Floats:
        """The label's share, records x models, next to nothing where it is 0: for ratios and means, not for logarithms.

        What `raised` adds would draw the ratios of a coarse output together: of three votes, 1/3 against a mean of 1/6
        is 2, and 1.7 with a quarter of a vote on both.
        """
        step = NOTHING * np.asarray(self.added)
        return np.maximum(own, step[0] if step.size == 1 else step[label][:, None])

    def logarithms(self, own: Floats, others: Floats, label: NDArray[np.int64], classes: int) -> tuple[Floats, Floats]:
        """log of the label's share and of all others together, records x models.

        Printed to some decimals, many small shares are all 0 where 1 minus the label's own is not: that is taken then.
        """
        step = np.asarray(self.added)
        mine, rest = (step[[0]], step[[0]]) if step.size == 1 else (step[label], step[1 - label])
        others = others if self.decimals is None else np.maximum(1.0 - own, others)
        return np.log(own + mine[:, None]), np.log(others + min(classes - 1, CLASSES) * rest[:, None])


def printed_decimals(shares: Array) -> int | None:
    """How many decimals all shares have, or None where they have more than are printed."""
    values = np.unique(shares.ravel()[:: max(1, shares.size // 200_000)]).astype(np.float64)
    slack = 2 * float(np.finfo(shares.dtype).eps) if shares.dtype.kind == "f" else 0.0
    for decimals in range(DECIMALS + 1):
        step = 10.0**-decimals
        if step <= 8 * slack:
            return None
        printed = np.round(values, decimals)
        near = np.abs(values - printed) <= np.maximum(slack * np.abs(values), 1e-12)
        if (near & ((printed != 0) | (values == 0))).all():
            return decimals
    return None


def smallest(shares: Array) -> Floats:
    """Per class, (the smallest share above 0, how many are above 0, whether some are 0)."""
    flat = shares.reshape(-1, shares.shape[-1])
    positive = (flat > 0) & ~_rounding(flat)
    least = flat.min(axis=0, initial=np.inf, where=positive).astype(np.float64)
    return np.stack((least, positive.sum(axis=0).astype(np.float64), (~positive).any(axis=0).astype(np.float64)))


def _rounding(flat: Array) -> NDArray[np.bool_]:
    """Which shares are rounding errors of sums or of 1 - p that should be 0.

    Such errors lie within a few powers of two of the number type's epsilon. A softmax also gives shares between them
    and `NOISE`, or far below them: then none is an error. Half precision has errors as large as shares that a model
    means, so there every share counts.
    """
    eps = float(np.finfo(flat.dtype).eps) if flat.dtype.kind == "f" else 0.0
    small = (flat > 0) & (flat < NOISE)
    alike = small & (flat >= eps / 1024) & (flat <= 4 * eps)
    return alike if 4 * eps < NOISE and (alike == small).all() else np.zeros_like(alike)


def added(seen: Floats) -> tuple[float, ...]:
    """What is added to shares, from `smallest`; next to nothing where none is 0."""
    least, count, zeros = seen
    if not zeros.any():
        return (LEAST,)
    overall = _part(float(least.min()))
    if least.size != 2:
        return (overall,)
    return tuple(_part(float(one)) if many >= FEW else overall for one, many in zip(least, count, strict=True))


def _part(least: float) -> float:
    return BARE if not np.isfinite(least) or least >= 1.0 else max(PART * least, LEAST)


def are_shares(answers: Array) -> bool | None:
    """Whether answers (... x classes) are shares of 1; None where they might be, and are not for certain.

    Shares lie in [0, 1] and sum to 1 up to what their number type and printed decimals lose; logits of any use leave
    [0, 1] somewhere. Answers within [0, 1] that do not sum to 1 (one-against-rest scores, the first few classes of a
    longer list) are neither.
    """
    if answers.size == 0 or (answers < 0).any() or (answers > 1 + 1e-3).any():
        return False
    classes, decimals = answers.shape[-1], printed_decimals(answers)
    lost = _precision(answers)
    slack = 1e-3 + classes * lost + (0.0 if decimals is None else 0.5 * classes * 10.0**-decimals)
    sums = answers.sum(axis=-1, dtype=np.float64)
    return True if (np.abs(sums - 1.0) <= slack).all() and sums.max() > 0 else None


def _precision(answers: Array) -> float:
    """The relative step of the numbers: that of their type, or of bfloat16 where all float32 numbers have its form."""
    if answers.dtype.kind != "f":
        return 0.0
    if answers.dtype == np.float32 and not (np.ascontiguousarray(answers).view(np.uint32) & 0xFFFF).any():
        return 2.0**-7
    return float(np.finfo(answers.dtype).eps)
