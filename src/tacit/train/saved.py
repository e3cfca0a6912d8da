"""A trained model from its folder: weights that are just those its evidence is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from ..core import BadInput, Evidence
from ..core.files import shown
from ..core.manifest import FACTS, WEIGHTS
from ..data import Schema
from .loop import FINGERPRINT, fingerprint
from .weights import Form, facts_of, filled, read_weights

Made = nn.Module | Callable[[], object] | None


def read(folder: Path, given: Made) -> tuple[nn.Module, Evidence, Schema | None, Form | None]:
    """Model, evidence, and, where they are there, the schema and how the model is built."""
    check_folder(folder)
    evidence = Evidence.load(folder / "evidence.json")
    path = folder / FACTS
    schema = Schema.read(path) if path.is_file() else None
    tensors, form = read_weights(folder / WEIGHTS)
    if form is not None and facts_of(schema) != form.facts:
        what = "is not the one that the model was trained with" if path.is_file() else "is not there"
        raise BadInput(f"{FACTS} {what}: it says how records become numbers.", fix="Give the folder as it was written.")
    model = filled(_made(given, form), folder / WEIGHTS, tensors)
    told = evidence.provenance.get(FINGERPRINT)
    if told is not None and fingerprint(model) not in (None, told):
        raise BadInput(
            "The evidence is about other weights.",
            fix="Give the folder as it was written, and a model of the same architecture and precision.",
        )
    return model, evidence, schema, form


def check_folder(folder: Path) -> None:
    """Refuse what is no folder with weights."""
    if not folder.is_dir():
        raise BadInput(f"{shown(folder)} is no folder.", fix="Give one that tacit train or Trained.save has written.")
    if not (folder / WEIGHTS).is_file():
        raise BadInput(f"{shown(folder)} holds no {WEIGHTS}.", fix="Only networks are saved with weights.")


def _made(given: Made, form: Form | None) -> object:
    """The model that is given, or the one that the weights name."""
    named = None if form is None else form.build()
    if given is None and named is None:
        raise BadInput(
            f"{WEIGHTS} holds weights alone, and this model has no name of ours.",
            fix="Give model, a torch module of the same architecture or a function that makes one.",
        )
    if given is not None and named is not None:
        raise BadInput(f"{WEIGHTS} says itself how the model is built.", fix="Leave model out.")
    return named if given is None else given if isinstance(given, nn.Module) else given()
