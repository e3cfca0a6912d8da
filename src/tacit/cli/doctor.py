"""The verb doctor: what is installed, and which rule clips each parameter of a model."""

from __future__ import annotations

import platform
from importlib import metadata, util
from typing import Annotated, Any

import typer

from ..core.errors import BadInput, MissingExtra
from .app import Result, verb
from .entry import Guarded

NEEDED = {
    "numpy": ("everything", "pip install tacit"),
    "scipy": ("everything", "pip install tacit"),
    "torch": ("training, fleets, quickstart", "pip install 'tacit[torch]'"),
    "transformers": ("private steps in the loops of Hugging Face", "pip install 'tacit[hf]'"),
    "lightning": ("private steps in the loops of Lightning", "pip install 'tacit[lightning]'"),
    "scikit-learn": ("embedded data, cloning estimators", "pip install 'tacit[erm]'"),
    "altair": ("the report's charts", "pip install 'tacit[report]'"),
    "vl-convert-python": ("the report's charts", "pip install 'tacit[report]'"),
}


@verb("doctor")
def doctor(
    model: Annotated[str | None, typer.Argument(metavar="[PKG:make_model]", help="A function that makes it.")] = None,
) -> Result:
    """Say what is installed and, for a model, the clipping rule of every parameter."""
    packages = [_package(name, *why) for name, why in NEEDED.items()]
    device = _device()
    rules = [] if model is None else _rules(model)
    where = f"{platform.system()} {platform.machine()}"
    data = {
        "python": platform.python_version(),
        "platform": where,
        "device": device,
        "packages": packages,
        "model": [{"parameter": name, "rule": rule} for name, rule in rules],
    }
    rows = [("python", platform.python_version()), ("platform", where), ("device", device)]
    rows += [
        (row["name"], row["version"] or f"absent; {row['needed_by']} need it: {row['install']}") for row in packages
    ]
    return Result(data, rows + rules)


def _package(name: str, needed_by: str, install: str) -> dict[str, Any]:
    try:
        version: str | None = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = None
    return {"name": name, "version": version, "needed_by": needed_by, "install": install}


def _device() -> str:
    if util.find_spec("torch") is None:
        return "cpu"
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _rules(entry: str) -> list[tuple[str, str]]:
    if util.find_spec("torch") is None:
        raise MissingExtra("torch")
    from torch import nn

    from ..train import rules

    made = Guarded(entry)()
    if not isinstance(made, nn.Module):
        raise BadInput(f"{entry} must return a torch module.")
    return [(str(name), str(rule)) for name, rule in rules(made)]
