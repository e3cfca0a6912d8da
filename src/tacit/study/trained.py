"""A `Trained` of a model by name: it knows how it was trained, so its bracket can repeat that training."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..core import BadInput, Evidence, Source
from ..data import Records, Schema, is_frame, table
from ..data.codec import holds_frame
from ..data.files import by_schema
from ..data.frames import joined, named
from ..train.recipe.networks import learning_rate, network
from .audit_section import AuditSection
from .finished_parts import Checkpoint, Finished
from .released import bracket_released
from .run_training import RunTraining
from .training import effort

if TYPE_CHECKING:
    from ..train import Trained

WORD = "that the members given are all the model was trained on: the audit repeats its training on them"
FIXED = "kind, range or words of {}: they were read off the data, and held fixed in all runs of the audit"


def bracket_trained(
    target: Trained,
    data: Any,
    nonmembers: Any,
    *,
    schema: Schema | str | None,
    references: int,
    runs: int,
    confidence: float,
    canary: Any,
    groups: ArrayLike | None,
    rng: Source | int | np.random.Generator | None,
    checkpoint: Checkpoint = None,
) -> Evidence:
    """Attack the model with its members and others, and audit runs of its own training on those members."""
    if isinstance(schema, str) or (schema is not None and schema != target.schema):
        raise BadInput("The model was trained by a schema of its own.", fix="Leave schema out.")
    if not isinstance(canary, str):
        raise BadInput("A canary of your own goes with fit=.", fix="Name one of the known canaries.")
    sides = [_records(part, target.schema) for part in (data, nonmembers)]
    count = len(data if is_frame(data) else data[0])
    training = _training(target, _together(sides[0], sides[1], groups, count), len(sides[0].x))
    asked = AuditSection(runs=runs, canary=canary, confidence=confidence)
    much = effort({"references": references}, asked, in_fleets=training.in_fleets, cost=training.cost)
    about = {"references": references, "runs": runs, "canary": canary}
    finished = Finished.of(checkpoint, about, [part for side in sides for part in (side.x, side.y)], rng)
    found = bracket_released(training, target.model, target.evidence, much, "auto", finished)
    finished.end()
    derived = () if target.schema is None or not target.schema.derived else (named(target.schema.derived),)
    lines = (WORD, *(FIXED.format(names) for names in derived))
    return found.with_(not_covered=(*found.not_covered, *lines))


def _training(target: Trained, whole: Records, members: int) -> RunTraining:
    made, schema = target.made, target.schema
    assert made is not None
    assert schema is not None
    settings = {"lr": learning_rate(made.plan), "average": made.average}
    make = functools.partial(network, made.kind, schema.width, len(schema.classes))
    inside = np.arange(len(whole.x)) < members
    return RunTraining(
        target.evidence.subject, whole, inside, make, made.plan, made.delta, settings, made.records_per_user
    )


def _together(members: Records, others: Records, groups: ArrayLike | None, count: int) -> Records:
    """Concatenate members and others into one set of records; ids of others are shifted, so that no user is in both.

    `count` is how many members were given, with those that have no known label.
    """
    named = None if groups is None else np.asarray(groups)
    if named is None and members.groups is not None and others.groups is not None:
        named = np.concatenate((members.groups, others.groups))
    unit = None
    if members.unit is not None and others.unit is not None:
        unit = np.concatenate((members.unit, others.unit + members.unit.max() + 1))
    x, y = np.concatenate((members.x, others.x)), np.concatenate((members.y, others.y))
    if named is not None and named.shape != (len(y),):
        raise BadInput("groups must name one group per record with a known label, of members, then of non-members.")
    rows = np.concatenate((members.places(np.arange(len(members.x))), count + others.places(np.arange(len(others.x)))))
    return Records(x, y, groups=named, unit=unit, schema=members.schema, rows=rows)


def _records(data: Any, schema: Schema | None) -> Records:
    """A frame, a frame with its labels beside it, or arrays (x, y) that the schema has made."""
    assert schema is not None
    if is_frame(data):
        return Records(**by_schema(schema, table(data)))
    if holds_frame(data):
        return Records(**by_schema(schema, joined(data[0], data[1], str(schema.label))))
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("Give a data frame with its label column, or (x, y).")
    x, y = np.asarray(data[0], dtype=np.float32), np.asarray(data[1], dtype=np.int64)
    if x.ndim != 2 or x.shape[1] != schema.width:
        raise BadInput(f"Records must be rows of {schema.width} numbers, as schema.encode makes them.")
    if schema.unit is not None:
        raise BadInput("The unit of privacy is a column of the table.", fix="Give data frames.")
    return Records(x, y, schema=schema)
