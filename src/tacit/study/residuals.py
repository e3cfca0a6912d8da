"""Signals of a regression: how far a model's values lie from the records' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..core import BadInput, Observations
from ..core.arrays import Array
from ..core.resolution import printed_decimals

Floats = NDArray[np.float64]
EXACT = 1e-6
"""A residual below this share of the labels' spread is none."""
FREEDOM = 4.0
"""Degrees of freedom of Student's law, which residuals are likely under. Under a normal law the largest of a heavy tail
(incomes, prices) would have no likelihood at all, whoever was a member."""
NORMAL = 1.4826
"""The standard deviation of a normal law over its median distance from the middle."""
BINS, FEWEST, FOLLOWED, UNLIKE = 20, 40, 0.5, 5.0
"""Bins of a model's values, members that are needed, of the labels' spread the residual that is left where labels
follow the model's values in other units, and how many times wider, narrower or farther away such values are."""
PART = 0.25
"""Of the smallest step that the target's numbers can show: a smaller residual is read as this one."""


@dataclass(frozen=True)
class Residuals:
    """How the residuals of a target and of its references are measured: in the same units, at the target's resolution.

    `size` is the target's typical residual, `spread` that of the labels; both are medians, which one huge value does
    not move. `kind` and `decimals` are the target's number type and printed decimals, which other models' values are
    rounded to; residuals below `least` are read as `least`.
    """

    size: float
    spread: float
    least: float
    decimals: int | None
    kind: str

    @classmethod
    def of(cls, answer: Array, y: Floats) -> Residuals:
        """Read off the target's own values."""
        told = _values(answer, y)
        kind = answer.dtype.name if answer.dtype.kind == "f" else "float64"
        unit = max(float(np.abs(y).max(initial=0.0)), float(np.abs(told).max(initial=0.0)), np.finfo(float).tiny)
        gap = np.abs(told / unit - y / unit)
        spread = _typical(np.abs(y / unit - np.median(y / unit))) or _typical(gap) or 1.0
        decimals = printed_decimals(answer.ravel())
        step = float(np.finfo(kind).eps) * float(np.median(np.abs(told / unit)))
        step = step if decimals is None else max(step, 10.0**-decimals / unit)
        least = max(EXACT * spread, PART * step)
        size = max(_typical(gap[gap > least]), least)
        return cls(size * unit, spread * unit, least * unit, decimals, kind)

    def observe(self, answers: Sequence[Array], y: Floats, member: NDArray[np.bool_]) -> Observations:
        """-log of a residual's size is its margin; its likelihood under Student's law gives the rest."""
        told = np.stack([self._shown(_values(answer, y)) for answer in answers], axis=1)
        gap = np.maximum(np.abs(told - y[:, None]), self.least)
        loss = 0.5 * (FREEDOM + 1) * np.log1p((gap / self.size) ** 2 / FREEDOM)
        side = member[:, None] if member.ndim == 1 else member
        return Observations(member=side, loss=loss, margin=-np.log(gap / self.spread), probability=np.exp(-loss))

    def _shown(self, told: Floats) -> Floats:
        cast = told.astype(self.kind).astype(np.float64)
        return cast if self.decimals is None else np.round(cast, self.decimals)


def check_units(answer: Array, y: Floats) -> None:
    """Refuse values of members that are farther from their labels than one number for all, and yet foretell them.

    Such a model was trained on labels in other units (a logarithm, a standardised column). Its residuals then say
    nothing of who was a member. What the values foretell is read off one half of the members and judged on the other.
    Values of a poor model (shrunk, or a high quantile) lie in the labels' range, are spread as they are, and rise.
    """
    told = _values(answer, y)
    spread, width = (float(np.median(np.abs(part - np.median(part)))) for part in (y, told))
    if y.size < FEWEST or not spread or not width or float(np.median(np.abs(told - y))) <= spread:
        return
    order = float(np.corrcoef(rankdata(told), rankdata(y))[0, 1])
    away, (low, high) = abs(float(np.median(told) - np.median(y))), np.quantile(y, (0.25, 0.75))
    alike = 1 / UNLIKE <= width / spread <= UNLIKE and away <= UNLIKE * spread
    shrunk = width < spread and low <= np.median(told) <= high
    if order > 0 and (alike or shrunk):
        return
    half = np.random.default_rng(0).permutation(y.size) % 2 == 0
    parts = np.array_split(np.flatnonzero(half)[np.argsort(told[half], kind="stable")], min(BINS, y.size // 8))
    across, upward = (np.array([np.median(values[rows]) for rows in parts]) for values in (told, y))
    if float(np.median(np.abs(np.interp(told[~half], across, upward) - y[~half]))) <= FOLLOWED * spread:
        raise BadInput(
            "The model's values are far from its members' labels, and rise or fall with them: it was trained on labels "
            "in other units, such as logarithms.",
            fix="Give the labels that it was trained on, or turn its values back. "
            'If both are right, say output="values".',
        )


def _typical(distance: Floats) -> float:
    """A standard deviation from the median of distances that are not 0; 0 where all are."""
    some = distance[distance > 0]
    return NORMAL * float(np.median(some)) if some.size else 0.0


def _values(answer: Array, y: Floats) -> Floats:
    if answer.size != y.size or answer.dtype.kind not in "fiu":
        raise BadInput("A regression must answer with one number per record.")
    told = np.asarray(answer.reshape(-1), dtype=np.float64)
    if not np.isfinite(told).all():
        raise BadInput("A model answered with numbers that are not finite.")
    return told
