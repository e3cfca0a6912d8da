"""Data frames in training, encoded by a schema that is public, or marked as read off the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import BadInput
from ..data import Records, Schema, Table, is_frame, table
from ..data.codec import holds_frame
from ..data.files import by_schema
from ..data.frames import joined, named
from .recipe.networks import learning_rate, network

if TYPE_CHECKING:
    from ..loss import Plan

OWN_FACTS = "kind, range or words of {}: they were read off the data; the schema marks them public = false"
RECORDS_PER_USER = 8
ROWS = 4096


@dataclass(frozen=True)
class Made:
    """How a model given by name was trained, so that the training can be repeated."""

    kind: str
    plan: Plan
    delta: float
    average: str = "none"
    records_per_user: int | None = None


@dataclass(frozen=True, eq=False)
class Tabular:
    """What a training uses in place of a data frame; without a frame, `data` and the rest stay as they were."""

    data: Any
    plan: Plan
    schema: Schema | None = None
    users: Any = None
    records_per_user: int | None = None

    @classmethod
    def of(
        cls, data: Any, plan: Plan, schema: Schema | str | Path | None, users: Any, records_per_user: int | None
    ) -> Tabular:
        """Encode a frame. Records without a known label, or without a unit where the schema names one, are left out."""
        data = _whole(data, schema)
        known = schema_of(schema, data)
        if known is None:
            return cls(data, plan, None, users, records_per_user)
        if not is_frame(data) and not isinstance(data, Table):
            raise BadInput(
                f"schema goes with a data frame, got {type(data).__name__}.",
                fix="Give the frame itself, with its label column; or schema.encode(frame) without schema.",
            )
        if known.label is None:
            raise BadInput("The schema names no label.", fix='Give Schema(..., label="COLUMN").')
        records = Records(**by_schema(known, table(data)))
        pair = (records.x, records.y)
        if known.unit is None:
            return cls(pair, plan, known, users, records_per_user)
        if users is not None:
            raise BadInput("The schema names the unit already.", fix="Leave users out.")
        return cls(pair, replace(plan, unit="user"), known, records.unit, records_per_user or RECORDS_PER_USER)

    @property
    def facts(self) -> str:
        """What was read off the data, in words; empty if everything is public."""
        derived = () if self.schema is None else self.schema.derived
        return OWN_FACTS.format(named(derived)) if derived else ""

    def made(self, kind: str, optimizer: object) -> tuple[nn.Module, torch.optim.Optimizer]:
        """A model by name for the schema, and its optimizer."""
        if self.schema is None:
            raise BadInput(
                "A model by name goes with a data frame and a schema.",
                fix='Give the frame with its label column and schema="LABEL"; or a torch module with arrays.',
            )
        if optimizer is not None:
            raise BadInput("A model that is made here has an optimizer of its own.", fix="Leave optimizer out.")
        model = network(kind, self.schema.width, len(self.schema.classes))
        return model, torch.optim.SGD(model.parameters(), lr=learning_rate(self.plan))

    def check_width(self, model: nn.Module) -> None:
        """Refuse a model whose first layer takes another number of features than the schema makes."""
        first = next((part for part in model.modules() if not list(part.children())), None)
        if self.schema is None or not isinstance(first, nn.Linear) or first.in_features == self.schema.width:
            return
        raise BadInput(
            f"The model's first layer takes {first.in_features} numbers; the schema makes {self.schema.width} of a "
            "record.",
            fix="Build it with schema.width inputs and len(schema.classes) outputs.",
        )


def _whole(data: Any, schema: Schema | str | Path | None) -> object:
    """A frame joined with its labels, if they were given as a pair with a schema; anything else unchanged.

    A pair without a schema is a pair of arrays, whose columns must be numbers.
    """
    if not holds_frame(data) or is_frame(data) or (schema is None and isinstance(data, tuple)):
        return data
    label = schema.label if isinstance(schema, Schema) else schema
    if label is None or str(label).endswith(".toml"):
        label = Schema.read(label).label if label is not None else None
    if label is None:
        raise BadInput(
            "A data frame needs a schema, or the name of its label column.",
            fix='Give the frame with its label column, and schema="LABEL".',
        )
    return joined(data[0], data[1], str(label))


def schema_of(schema: Schema | str | Path | None, data: object) -> Schema | None:
    """A schema: as given, read from a file, or inferred from the data and the name of the label column."""
    if isinstance(schema, Path) or (isinstance(schema, str) and schema.endswith(".toml")):
        return Schema.read(schema)
    if isinstance(schema, str):
        return Schema.of(data, label=schema)
    if schema is None and is_frame(data):
        raise BadInput(
            "A data frame needs a schema: the kinds, public ranges and words of its columns, and its label.",
            fix='Give schema=tacit.Schema.of(frame, label="COLUMN"), or the name of the label column alone.',
        )
    if schema is not None and not isinstance(schema, Schema):
        raise BadInput(f"schema must be a Schema or the name of the label column, got {type(schema).__name__}.")
    return schema


def encoded(data: object, schema: Schema | None) -> Any:
    """Data for validation or prediction: a frame encoded by the schema, anything else unchanged."""
    if not is_frame(data) and not isinstance(data, Table):
        return data
    if schema is None:
        raise BadInput("A data frame needs a schema.", fix="The model was trained on arrays: give arrays.")
    return schema.encode(data)


def features(data: object, schema: Schema | None) -> Any:
    """The features of a frame, whose label column may be missing, or of an array."""
    if is_frame(data) or isinstance(data, Table):
        return encoded(data, None if schema is None else schema.with_(columns=schema.features, label=None))[0]
    try:
        found = data.float() if isinstance(data, torch.Tensor) else np.asarray(data, dtype=np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"Records must be a data frame or an array of numbers, got {type(data).__name__}.") from None
    if schema is not None and found.shape[1:] != (schema.width,):
        raise BadInput(
            f"Records must be rows of {schema.width} numbers, as Schema.encode makes them.",
            fix="Give the data frame itself.",
        )
    return found


def probabilities(model: nn.Module, x: object) -> NDArray[np.float64]:
    """The softmax of a model's outputs, computed for some rows at a time."""
    place = next(model.parameters())
    records = torch.as_tensor(x if isinstance(x, Tensor) else np.array(x))  # its own: torch warns of read-only memory
    with torch.no_grad():
        parts = [_outputs(model, part.to(place.device)).softmax(1).double().cpu() for part in records.split(ROWS)]
    found = np.asarray(torch.cat(parts).numpy())
    if not np.isfinite(found).all():
        raise BadInput("The model answers some records with what is no finite number.")
    return found


def _outputs(model: nn.Module, x: Tensor) -> Tensor:
    found = model(x)
    found = getattr(found, "logits", found)  # as models of Hugging Face answer
    if not isinstance(found, Tensor) or found.ndim != 2 or found.shape[1] < 2:
        raise BadInput("The model does not give one number per class.", fix="Call the torch module itself (model).")
    return found
