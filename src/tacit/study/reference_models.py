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
from .finished import Finished
from .models import Fit, answers
from .records import take
from .repeats import together

Array = NDArray[Any]


def halves(records: int, models: int, rng: Source) -> NDArray[np.bool_]:
    """Random halves in pairs, so that every record is in exactly half of an even number of models."""
    member = np.zeros((records, models), dtype=bool)
    for k in range(models):
        member[:, k] = ~member[:, k - 1] if k % 2 else rng.permutation(records) < records // 2
    return member


def subsets(records: int, models: int, share: int, rng: Source) -> NDArray[np.bool_]:
    """Random training sets of `share` records each, as alike in how often they use each record as they can be.

    Several are cut from one permutation, without overlap; where they are more than half of the records, the parts left
    out do not overlap. With half of an even number of records these are complementary pairs.
    """
    few = min(share, records - share)
    member = np.zeros((records, models), dtype=bool)
    for first in range(0, models, max(records // max(few, 1), 1)):
        order = rng.permutation(records)
        for k in range(first, min(first + records // max(few, 1), models)):
            member[order[(k - first) * few : (k - first + 1) * few], k] = True
    return member if few == share else ~member


def trained(
    fit: Fit,
    x: Any,
    y: Array,
    share: int,
    count: int,
    rng: Source,
    classes: Array | None,
    keep: Callable[[Array], Any],
    finished: Finished,
    shown: Any,
    record: NDArray[np.int64],
) -> tuple[list[Any], NDArray[np.bool_]]:
    """What `count` models, each trained on `share` records, say of all records, and who was in which.

    `record` names every row's record: rows of one record are trained on together. `shown` is what models are asked
    about: the records, or copies of them. `keep` says what is kept of each answer. A fit
    that offers `many` trains them together. Models that were `finished` before an interruption are not trained again.
    """
    different, place = together(record)
    member = subsets(different, count, max(1, round(share * different / len(y))), rng)[place]
    if not callable(getattr(fit, "many", None)) or not isinstance(x, np.ndarray):

        def told_by(rows: NDArray[np.bool_]) -> Array:
            return answers(_one(fit, x, y, rows, rng), shown, classes)

        parts = [(f"reference-{k}", functools.partial(told_by, rows)) for k, rows in enumerate(member.T)]
        return [keep(finished.part(name, make)) for name, make in parts], member
    size, outputs = Together.of(fit).at_once, []
    for first in range(0, count, size):
        make = functools.partial(_several, fit, x, y, member[:, first : first + size], rng, shown)
        outputs += [keep(told) for told in finished.part(f"references-{first}-{size}", make)]
    return outputs, member


def _several(fit: Fit, x: Array, y: Array, sides: NDArray[np.bool_], rng: Source, shown: Any) -> Array:
    """What models that are trained together say: models x records x classes."""
    told: Any = ""
    with Border() as border:
        told = answers_of_many(fit, x.copy(), y.copy(), sides, [rng.generator() for _ in sides.T], shown)
    if isinstance(told, str):
        raise BadInput(f"The training of reference models {border.problem or told}{border.place}.")
    return np.stack([np.asarray(part) for part in told])


def _one(fit: Fit, x: Any, y: Array, rows: NDArray[np.bool_], rng: Source) -> Any:
    """One model, or one sentence about what its training raised, without the text, which may hold data."""
    found, told = None, None
    with Border() as border:
        try:
            found = fit(take(x, rows), y[rows], rng.generator())
        except BadInput as problem:  # a sentence already
            told = problem
    if told is not None:
        raise told
    if border.problem:
        raise BadInput(
            f"The training of a reference model on {int(rows.sum())} records {border.problem}{border.place}."
        )
    return found
