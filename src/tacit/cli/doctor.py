"""The verb doctor: what is installed, and which rule clips each parameter of a model."""

from __future__ import annotations

import platform
from importlib import metadata, util
from typing import Annotated, Any

import typer

from ..core.errors import BadInput, MissingExtra
from ..core.json_text import Json
from ..core.shown import aligned
from .app import Result, verb
from .entry import Guarded, resolve, resolve_callable

NEEDED = {
    "numpy": ("everything", "pip install tacit"),
    "scipy": ("everything", "pip install tacit"),
    "torch": ("training, fleets, quickstart", "pip install 'tacit[torch]'"),
    "transformers": ("private steps in the loops of Hugging Face", "pip install 'tacit[hf]'"),
    "lightning": ("private steps in the loops of Lightning", "pip install 'tacit[lightning]'"),
    "scikit-learn": ("embedded data, cloning estimators", "pip install 'tacit[erm]'"),
    "sqlalchemy": ("ledgers", "pip install 'tacit[ledger]'"),
    "ibis-framework": ("private tables", "pip install 'tacit[query]'"),
    "psycopg": ("ledgers in PostgreSQL", "pip install 'tacit[postgres]'"),
    "altair": ("the report's charts", "pip install 'tacit[report]'"),
    "vl-convert-python": ("the report's charts", "pip install 'tacit[report]'"),
}


@verb("doctor")
def doctor(
    model: Annotated[str | None, typer.Argument(metavar="PKG:make_model", help="A function that makes it.")] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="PKG:NAME", help="A batch, or a function that makes one.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(metavar="PKG:NAME", help="loss(model, batch); else cross-entropy.")
    ] = None,
) -> Result:
    """Say what is installed and, for a model, the clipping rule of every parameter.

    With a batch, of which only shapes are looked at: how its records are run, why, and what that costs.
    """
    packages = [_package(name, *why) for name, why in NEEDED.items()]
    device = _device()
    if model is None and (batch is not None or loss is not None):
        raise BadInput(
            "--batch and --loss are about a model.", fix="Name it: tacit doctor PKG:make_model --batch PKG:NAME."
        )
    shown = {"model": []} if model is None else _rules(model) if batch is None else _proof(model, batch, loss)
    where = f"{platform.system()} {platform.machine()}"
    data = {
        "python": platform.python_version(),
        "platform": where,
        "device": device,
        "packages": packages,
        **shown,
    }
    rows = [("python", platform.python_version()), ("platform", where), ("device", device)]
    rows += [
        (row["name"], row["version"] or f"absent; {row['needed_by']} need it: {row['install']}") for row in packages
    ]
    return Result(data, rows, table=[*_table(shown), *_refused(shown)])


def _package(name: str, needed_by: str, install: str) -> Json:
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


def _made(entry: str) -> Any:
    """The model that the user's function returns."""
    if util.find_spec("torch") is None:
        raise MissingExtra("torch")
    from torch import nn

    made = Guarded(entry)()
    if not isinstance(made, nn.Module):
        raise BadInput(f"{entry} must return a torch module.")
    return made


def _rules(entry: str) -> Json:
    """The rule of each parameter, as far as the kinds of layers tell without a batch."""
    from ..train import rules

    return {"model": [{"parameter": str(name), "rule": str(rule)} for name, rule in rules(_made(entry))]}


def _proof(entry: str, batch: str, loss: str | None) -> Json:
    """What a private step would do, tried on made-up records that are shaped like those of the batch."""
    model = _made(entry)
    from ..train.proof import proof

    given = resolve(batch)
    found = proof(
        model, Guarded(batch)() if callable(given) else given, None if loss is None else resolve_callable(loss)
    )
    slow = found.slowness
    return {
        "model": [
            {"parameter": part.parameter, "rule": part.rule, "operations": list(part.operations)}
            for part in found.parameters
        ],
        "records": found.records,
        "why": found.why,
        "one_at_a_time": None if slow is None else {"factor": slow.factor, "against": slow.against},
    }


def _refused(shown: Json) -> list[str]:
    """How many parameters stand in the way of private training."""
    model = shown["model"]
    count = sum(row["rule"].startswith("refused") for row in model)
    return [f"{count} of {len(model)} parameters are refused: this model cannot be trained as it is."] if count else []


def _table(shown: Json) -> list[str]:
    """A line for every parameter of the model, and how its records are run where that was asked."""
    rows = [(row["parameter"], _line(row)) for row in shown["model"]]
    if "records" not in shown:
        return aligned(("parameter", "rule"), rows) if rows else []
    slow = shown["one_at_a_time"]
    rows.append(("records", f"{shown['records']}: {shown['why']}" if shown["why"] else shown["records"]))
    if slow is not None:
        rows.append(("one at a time", f"{slow['factor']:.2g} times the time of {slow['against']}"))
    return aligned(("parameter", "rule"), rows)


def _line(row: Json) -> str:
    return f"{row['rule']} ({', '.join(row['operations'])})" if row.get("operations") else row["rule"]
