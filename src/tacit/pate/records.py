"""Private records, public inputs and the list of classes, in one form. No value of a record raises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import BadInput
from ..core.arrays import Array
from ..data import Schema, is_frame, table
from ..data.encoding import encoded, labelled
from ..mechanism.columns import number_of
from .names import NUMBERS, column, features, name


@dataclass(frozen=True, eq=False)
class Given:
    """x (n, ...) with class numbers y, -1 where a label is none of `classes`; `public_x` (m, ...)."""

    x: Array
    y: NDArray[np.int64]
    public_x: Array
    users: Array | None
    classes: Array
    schema: Schema | None = None

    @classmethod
    def of(
        cls,
        x: Any,
        y: ArrayLike | None,
        public_x: Any,
        users: ArrayLike | None,
        classes: Sequence[Any] | None,
        schema: Any,
    ) -> Given:
        """Arrays, or tables with a schema."""
        if schema is not None:
            return _by_schema(x, y, public_x, users, _schema(schema))
        if classes is None:
            raise BadInput(
                "The list of classes must be given: reading it off the private labels would be a release.",
                fix="Give classes=, or a schema that names the label's words.",
            )
        if is_frame(x) or is_frame(public_x):
            raise BadInput("A table needs a schema: ranges and words must be public.", fix="Give schema=.")
        if y is None:
            raise BadInput("PATE needs the labels of the private records.")
        names = distinct(classes)
        public = features(public_x)
        return _checked(cls(features(x, public.shape[1:]), places(y, names), public, _users(users), names))

    @property
    def unit(self) -> str:
        return "record" if self.users is None else "user"

    def forgotten(self) -> Given:
        """A copy without records, labels and users, which keeps no view of them alive."""
        return replace(self, x=self.x[:0].copy(), y=self.y[:0].copy(), users=None)

    def asked(self, x: Any) -> Array:
        """Records that a student is asked about."""
        found = features(x) if self.schema is None else encoded(self.schema, table(x))
        if found.shape[1:] != self.public_x.shape[1:]:
            raise BadInput(
                f"Records of shape {found.shape} are asked about; the student learnt from records of shape "
                f"(n, {', '.join(str(size) for size in self.public_x.shape[1:])})."
            )
        return found


def distinct(classes: Sequence[object]) -> Array:
    """A public list of at least two different labels."""
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise BadInput(f"classes must be a list of labels, got {type(classes).__name__}.", fix="Give classes=[0, 1].")
    named = [item.item() if isinstance(item, np.generic) else item for item in classes]
    spelled = {name(item) for item in named}
    if len(named) < 2 or len(spelled) < len(named) or None in spelled:
        raise BadInput("classes must be at least two different labels.")
    return np.asarray(named) if len({isinstance(item, str) for item in named}) == 1 else np.array(named, dtype=object)


def places(labels: ArrayLike, classes: Array) -> NDArray[np.int64]:
    """The number of each label's class, -1 for a label that is none of them; each label is read by itself."""
    found = column(labels)
    if found.ndim != 1:
        raise BadInput("Labels must be one per record.")
    numeric = classes.dtype.kind in NUMBERS
    if found.dtype.kind in NUMBERS and numeric and _exact(found, classes):
        return _equal(found, classes)
    known = {name(item): place for place, item in enumerate(classes.tolist())}
    if found.dtype.kind in NUMBERS and not any(math.isfinite(number_of(item)) for item in classes.tolist()):
        raise BadInput(
            f"Labels are numbers ({found.dtype}), and no class is one, so nobody has a label.",
            fix="Give the classes as they are written in the labels.",
        )
    return np.array([known.get(name(label, numeric=numeric), -1) for label in found.tolist()], dtype=np.int64)


def _exact(labels: Array, classes: Array) -> bool:
    """Whether NumPy compares them as they are: signed and unsigned numbers of 64 bits become fractions."""
    return np.result_type(labels, classes).kind in (labels.dtype.kind, classes.dtype.kind)


def _equal(labels: Array, classes: Array) -> NDArray[np.int64]:
    """The number of the class that equals each label, by bisection: a table of all pairs may not fit into memory."""
    order = np.argsort(classes, kind="stable")
    place = order[np.searchsorted(classes[order], labels).clip(max=len(classes) - 1)]
    return np.where(classes[place] == labels, place, -1)


def _schema(given: object) -> Schema:
    if isinstance(given, Schema):
        return given
    if isinstance(given, str | Path):
        return Schema.read(given)
    raise BadInput(f"schema must be a Schema or the path of a schema file, got {type(given).__name__}.")


def _by_schema(x: object, y: ArrayLike | None, public_x: object, users: ArrayLike | None, schema: Schema) -> Given:
    if schema.label is None and y is None:
        raise BadInput("The schema names no label column and no labels are given.")
    private, public = table(x), table(public_x)
    names = distinct(schema.classes)
    labels = labelled(schema, private) if y is None else places(y, names)
    if users is None and schema.unit is not None:
        codes, texts = private[schema.unit].as_ids()  # the text itself: its number depends on who else is there
        users = np.array([*texts, ""])[codes]  # no text: missing
    return _checked(Given(encoded(schema, private), labels, encoded(schema, public), _users(users), names, schema))


def _users(users: ArrayLike | None) -> Array | None:
    return None if users is None else column(users)


def _checked(given: Given) -> Given:
    """Shapes alone: nothing here looks at a value."""
    if given.x.ndim < 2 or given.x.shape[1:] != given.public_x.shape[1:]:
        raise BadInput(
            f"Private records of shape {given.x.shape[1:]} and public ones of shape {given.public_x.shape[1:]} differ, "
            "or are not (records, features)."
        )
    if len(given.x) != len(given.y):
        raise BadInput(f"There are {len(given.y)} labels for {len(given.x)} records.")
    if not len(given.public_x):
        raise BadInput("There must be at least one public input to ask about.")
    return given
