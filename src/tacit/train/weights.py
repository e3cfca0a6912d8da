"""Weights in a safetensors file: tensors by name and, in its header, how to build a model that is known by name."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..audits.foreign import Border
from ..core import BadInput, MissingExtra, NotFinished
from ..core.files import shown
from ..core.manifest import sha256
from ..data import Records, Schema
from .recipe.networks import KINDS, Shortened, network

HEADER, SCHEMA = "tacit", "tacit.model/1"
WIDEST = 2**24
"""The most features, or classes, that a header may name."""


@dataclass(frozen=True)
class Form:
    """A model by its `kind`, or None for one of the user's own; and how many numbers it takes and gives.

    `norm_bound` is the norm that rows are shortened to, where they are. `facts` is a hash of what the schema says of
    features and classes, where there is one.
    """

    kind: str | None
    features: int
    classes: int
    norm_bound: float | None = None
    facts: str | None = None

    @classmethod
    def of_records(cls, kind: str | None, records: Records, classes: int, norm_bound: float | None = None) -> Form:
        """For these records: a model by name takes all their numbers, one's own is told their first length."""
        shape = records.x.shape
        whole = math.prod(shape[1:])
        return cls(kind, whole if kind is not None else (*shape, 1)[1], classes, norm_bound, facts_of(records.schema))

    @classmethod
    def of_schema(cls, kind: str | None, schema: Schema) -> Form:
        """For the records that a schema makes."""
        return cls(kind, schema.width, len(schema.classes), facts=facts_of(schema))

    def build(self) -> nn.Module | None:
        """A model of this form, or None where only its owner knows how to make it.

        Its weights have shapes and no memory (torch's device "meta"), since a header may name any size.
        """
        with torch.device("meta"):
            if self.norm_bound is not None:
                return Shortened(self.features, self.classes, self.norm_bound)
            return None if self.kind is None else network(self.kind, self.features, self.classes)

    def header(self) -> dict[str, str]:
        """What stands in the file."""
        return {HEADER: json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False)}

    @classmethod
    def read(cls, header: dict[str, str] | None) -> Form | None:
        """The form that a header names; None if it names none, or one that no version of this library wrote."""
        try:
            told = json.loads((header or {}).get(HEADER, "{}"))
            if told.pop("schema", None) != SCHEMA:
                return None
            found = cls(**told)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return None
        numbers = (found.features, found.classes)
        norm = 1.0 if found.norm_bound is None else found.norm_bound
        kind = found.kind is None or found.kind in tuple(KINDS)
        fits = all(type(number) is int and 0 < number <= WIDEST for number in numbers)
        fits &= found.facts is None or isinstance(found.facts, str)
        return found if fits and kind and isinstance(norm, float) and 0 < norm < math.inf else None


def facts_of(schema: Schema | None) -> str | None:
    """A hash of all in a schema that decides which numbers a record becomes, and which words a model answers with."""
    if schema is None:
        return None
    columns = [(one.name, one.kind, one.range and one.limits, one.words, one.decimal) for one in schema.features]
    return hashlib.sha256(json.dumps([columns, schema.classes]).encode()).hexdigest()


def write_weights(model: nn.Module, path: Path, form: Form | None = None) -> str:
    """Write the file and return its SHA-256, by which evidence refers to the weights."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError:
        raise MissingExtra("torch") from None
    # tied parameters are written once for each of their names
    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in model.state_dict().items()}
    try:
        save_file(tensors, path, metadata=None if form is None else form.header())
    except (SafetensorError, OSError):
        raise NotFinished(
            f"{path.name} cannot be written.", fix="Make room on the disk; a run with a checkpoint goes on from it."
        ) from None
    return sha256(path)


def read_weights(path: Path) -> tuple[dict[str, Tensor], Form | None]:
    """The tensors of a file by their names, and the form of the model if the file names one."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtra("torch") from None
    if not path.is_file():
        raise BadInput(f"{shown(path)} is not there.")
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, Form.read(file.metadata())  # noqa: SIM118
    except (SafetensorError, OSError):
        raise BadInput(f"{shown(path)} is no safetensors file, or it is damaged.") from None


def filled(model: Any, path: Path, tensors: dict[str, Tensor]) -> nn.Module:
    """The model with these weights, in evaluation mode; refused if names or shapes are not just its own."""
    if not isinstance(model, nn.Module):
        raise BadInput(f"The model must be a torch module, got {type(model).__name__}.")
    bare = any(part.is_meta for part in model.parameters())
    with Border() as border:
        model.load_state_dict(tensors, assign=bare)
    if border.problem:
        raise BadInput(
            f"{shown(path)} does not hold the weights of this model.", fix="Give the model that they were saved from."
        )
    return model.eval()
