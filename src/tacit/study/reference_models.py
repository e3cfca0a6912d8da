"""Reference models: trained as the target was, on as many records, drawn at random from members and outsiders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..audits.foreign import Border
from ..audits.runs.batched import Together
from ..audits.runs.batched import answers as answers_of_many
from ..core import BadInput, Source
from ..core.arrays import Array
from .class_names import names_of_reference
from .finished_parts import Finished
from .models import Fit, answers
from .records import take
from .repeats import TrainingSets


def trained(
    fit: Fit,
    x: object,
    y: Array,
    sets: TrainingSets,
    rng: Source,
    classes: tuple[Array | None, Array | None],
    keep: Callable[[Array], object],
    finished: Finished,
    shown: object,
) -> list[Any]:
    """What models that are trained on `sets` say of all records.

    `classes` are all classes in sorted order, and the target's own names of its columns. `shown` is what models are
    asked about: the records, or copies of them. `keep` says what is kept of each answer. A fit that offers `many`
    trains them together. Models that were `finished` before an interruption are not trained again.
    """
    if not callable(getattr(fit, "many", None)) or not isinstance(x, np.ndarray):

        def told_by(model: int) -> Array:
            made = _one(fit, x, y, sets.rows(model), rng)
            return answers(made, shown, classes[0], names_of_reference(made, y, classes[1]))

        parts = [(f"reference-{k}", functools.partial(told_by, k), k + 1) for k in range(sets.count)]
        return [
            keep(finished.part(name, make, f"training reference model {place} of {sets.count}"))
            for name, make, place in parts
        ]
    size, outputs = Together.of(fit).at_once, []
    for first in range(0, sets.count, size):
        rows, sides = sets.together(slice(first, first + size))
        make = functools.partial(_several, fit, x, y, rows, sides, rng, shown)
        words = f"training reference models {first + 1} to {min(first + size, sets.count)} of {sets.count}"
        outputs += [keep(told) for told in finished.part(f"references-{first}-{size}", make, words)]
    return outputs


def _several(
    fit: Fit, x: Array, y: Array, rows: NDArray[np.int64], sides: NDArray[np.bool_], rng: Source, shown: Any
) -> Array:
    """What models that are trained together say: models x records x classes."""
    told: Any = ""
    with Border() as border:
        told = answers_of_many(fit, x[rows], y[rows], sides, [rng.generator() for _ in sides.T], shown)
    if isinstance(told, str):
        raise BadInput(f"The training of reference models {border.problem or told}{border.place}.")
    return np.stack([np.asarray(part) for part in told])


def _one(fit: Fit, x: object, y: Array, rows: NDArray[np.int64], rng: Source) -> object:
    """Train one reference model. An exception is reported by kind and place, without its text, which may hold data."""
    found, told = None, None
    with Border() as border:
        try:
            found = fit(take(x, rows), y[rows], rng.generator())
        except BadInput as problem:  # a sentence already
            told = problem
    if told is not None:
        raise told
    if border.problem:
        raise BadInput(f"The training of a reference model on {rows.size} records {border.problem}{border.place}.")
    return found
