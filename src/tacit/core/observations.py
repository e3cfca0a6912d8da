"""Observations: what an attacker sees of models on records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from .errors import BadInput
from .resolution import Resolution

Floats = NDArray[np.float64]
BLOCK = 2**22
"""Numbers (32 MiB) that are worked on at once."""


@dataclass(frozen=True, eq=False)
class Observations:
    """What was seen of models on records: named arrays (records x models), of which each attack needs some.

    `member[i, k]` says whether model k was trained on record i. `loss` is -log p_y, `margin` is
    log p_y - log sum of the others (the logit scale of Carlini et al. 2022), `probability` is p_y; where an output has
    zeros, loss and margin are of shares that something was added to (see `Resolution`). `gradient_norm` is
    the length of the loss's gradient; `internals` holds what a white-box observer sees, each array by its name
    (records x models x ...). `features` is what is known of each record itself.
    """

    member: NDArray[np.bool_] | None = None
    loss: Floats | None = None
    margin: Floats | None = None
    probability: Floats | None = None
    logits: Floats | None = None
    gradient_norm: Floats | None = None
    internals: Mapping[str, NDArray[np.floating]] | None = None
    features: Floats | None = None
    label: NDArray[np.int64] | None = None
    record: NDArray[np.int64] | None = None
    group: NDArray[np.str_] | None = None

    PER_MODEL = ("member", "loss", "margin", "probability", "logits", "gradient_norm")
    PER_RECORD = ("label", "record", "group")

    def __post_init__(self) -> None:
        for field in fields(self):
            if (array := getattr(self, field.name)) is not None and field.name != "internals":
                object.__setattr__(self, field.name, np.asarray(array))
        shapes = {name: getattr(self, name).shape[:2] for name in self.PER_MODEL if getattr(self, name) is not None}
        if not shapes:
            raise BadInput("Observations need at least one array of records x models.")
        if any(len(shape) < 2 for shape in shapes.values()) or len(set(shapes.values())) > 1:
            raise BadInput(f"Observations must all have records x models of one shape, got {shapes}.")
        for name in self.PER_RECORD:
            column = getattr(self, name)
            if column is not None and column.shape != (self.records,):
                raise BadInput(f"{name} must have one entry per record ({self.records}), got shape {column.shape}.")
        if self.features is not None and (self.features.ndim != 2 or len(self.features) != self.records):
            raise BadInput(f"features must have one row per record ({self.records}), got shape {self.features.shape}.")
        if any(array.shape[:2] != self._shape for array in (self.internals or {}).values()):
            raise BadInput(f"Every array of internals must be records x models {self._shape} in its first two axes.")

    @property
    def records(self) -> int:
        """How many records were observed."""
        return self._shape[0]

    @property
    def models(self) -> int:
        """How many models were observed."""
        return self._shape[1]

    @property
    def _shape(self) -> tuple[int, int]:
        for name in self.PER_MODEL:
            if (array := getattr(self, name)) is not None:
                return int(array.shape[0]), int(array.shape[1])
        raise BadInput("Observations need at least one array of records x models.")

    def need(self, name: str) -> NDArray[np.float64]:
        """The named array, or one sentence that says it is missing."""
        array = getattr(self, name)
        if array is None:
            raise BadInput(f"This attack needs `{name}` in its observations.")
        return np.asarray(array)

    def select(self, *, records: ArrayLike | None = None, models: ArrayLike | None = None) -> Observations:
        """A part: chosen records (rows) and models (columns)."""
        rows = slice(None) if records is None else np.asarray(records)
        columns = slice(None) if models is None else np.atleast_1d(np.asarray(models))
        part: dict[str, Any] = {}
        for field in fields(self):
            array = getattr(self, field.name)
            if array is None:
                continue
            if field.name == "internals":
                part[field.name] = {name: each[rows][:, columns] for name, each in array.items()}
            else:
                part[field.name] = array[rows][:, columns] if field.name in self.PER_MODEL else array[rows]
        return Observations(**part)

    @classmethod
    def from_logits(
        cls,
        logits: ArrayLike,
        label: ArrayLike,
        *,
        member: ArrayLike | None = None,
        record: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> Observations:
        """Signals from logits (records x models x classes, or records x classes for one model), all in float64."""
        z, y = _shaped(_floats(logits), label)
        margin = np.empty(z.shape[:2])
        for rows in blocks(z.shape):
            others = special.logsumexp(_without(z[rows], y[rows], -np.inf), axis=2)
            margin[rows] = _own(z[rows], y[rows]) - others
        return cls.from_margin(margin, logits=z, label=y, member=member, record=record, group=group)

    @classmethod
    def from_probabilities(
        cls,
        probabilities: ArrayLike,
        label: ArrayLike,
        *,
        resolution: Resolution | None = None,
        **more: ArrayLike | None,
    ) -> Observations:
        """Signals from class probabilities (records x models x classes, or records x classes).

        A 0 is read at the output's resolution (see `Resolution`), which is found from the numbers themselves unless it
        is given. Models that are to be compared must share one: put them into one call, or give it.
        """
        given = np.asarray(probabilities)
        given = given if given.dtype.kind == "f" else _floats(given)
        shares, y = _shaped(given, label)
        if (shares < 0).any() or not np.isfinite(shares).all():
            raise BadInput("Probabilities must be finite and at or above 0.")
        read = Resolution.of(shares) if resolution is None else resolution
        logits, own, margin = np.empty(shares.shape), np.empty(shares.shape[:2]), np.empty(shares.shape[:2])
        for rows in blocks(shares.shape):
            shown = read.shown(shares[rows])
            own[rows], logits[rows] = _own(shown, y[rows]), np.log(read.raised(shown))
            others = _without(shown, y[rows], 0.0).sum(axis=2)
            margin[rows] = np.subtract(*read.logarithms(own[rows], others, y[rows], shares.shape[2]))
        found = cls.from_margin(margin, logits=logits, label=y, **more)
        return replace(found, probability=read.floored(own, y))

    @classmethod
    def from_margin(cls, margin: Floats, *, member: ArrayLike | None = None, **more: ArrayLike | None) -> Observations:
        """Loss and probability of a margin (records x models): log(1 + e^-m) and 1 / (1 + e^-m)."""
        given = {name: None if value is None else np.asarray(value) for name, value in more.items()}
        return cls(
            member=None if member is None else _membership(member, margin.shape),
            loss=np.logaddexp(0.0, -margin),
            margin=margin,
            probability=special.expit(margin),
            **given,  # type: ignore[arg-type]
        )


def blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Some records at a time, so that what is computed on the way stays small beside answers of many classes."""
    step = max(1, BLOCK // max(1, math.prod(shape[1:])))
    return (slice(first, first + step) for first in range(0, shape[0], step))


def _own(values: NDArray[Any], label: NDArray[np.int64]) -> NDArray[Any]:
    """Of every model the value of each record's own label."""
    return np.asarray(np.take_along_axis(values, label[:, None, None], axis=2)[..., 0])


def _shaped(answers: NDArray[Any], label: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Bring answers into the shape (records, models, classes) and check that labels index the classes."""
    z, y = answers[:, None, :] if answers.ndim == 2 else answers, np.asarray(label)
    if z.ndim != 3 or y.shape != z.shape[:1]:
        raise BadInput("Logits must be records x models x classes with one label per record.")
    if z.shape[2] < 2 or not np.isin(y, np.arange(z.shape[2])).all():
        raise BadInput(f"Labels must be whole numbers below the number of classes ({z.shape[2]}).")
    return z, y.astype(np.int64)


def _without(values: NDArray[Any], label: NDArray[np.int64], instead: float) -> NDArray[Any]:
    """A copy with every record's own label replaced."""
    others = values.copy()
    np.put_along_axis(others, np.broadcast_to(label[:, None, None], (*values.shape[:2], 1)), instead, axis=2)
    return others


def _floats(values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("A model's answers must be numbers, records x models x classes.") from None


def _membership(member: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Records x models; one column may come without its second axis."""
    found = np.asarray(member, dtype=bool)
    found = found[:, None] if found.ndim == 1 else found
    if found.shape != shape:
        raise BadInput(f"member must be records x models {shape}, got shape {found.shape}.")
    return found
