"""Architectures that nobody here wrote: is the clipped sum what a float64 loop over single records gives?

For every model of transformers, timm and torchvision below, at tiny sizes: *exact* with all records at once, *one by
one* where a model does not go so, or *refused*, each with its reason. A model is exact when every parameter's clipped
sum is within 1e-4 C of a loop over single records in float64, at several batch sizes, some of them equal to other sizes
of the model, and at weights that have moved since the model was looked at.

    python benchmarks/models.py                 all of them, some minutes; keeps results/models.json and docs/models.md
    python benchmarks/models.py --quick         six of them
    python benchmarks/models.py --only Mixtral Bloom   those with one of these in their name, kept in place of old rows

timm and torchvision are not needed by tacit. What is not installed is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from architectures import HEADS, LENGTH, WIDTH, Architecture, installed
from architectures_text import TEXT
from architectures_vision import VISION, stand_ins
from machine import RESULTS, describe, keep
from tacit.core import TacitError
from tacit.train.clip import Clipper
from tacit.train.clip.tree import mapped

CLIP_NORM, ALLOWED = 1.0, 1e-4
SIZES = (3, HEADS, LENGTH, WIDTH)
QUICK = (
    "GPT2LMHeadModel", "LlamaForCausalLM", "MixtralForCausalLM", "BertForSequenceClassification",
    "T5ForConditionalGeneration", "SwinForImageClassification",
)  # fmt: skip
FLOAT32_ONLY = ("AutoformerForPrediction",)
"""Their code makes float32 numbers whatever the parameters are: the loop over records is in float32 too."""
LIBRARIES = ("transformers", "timm", "torchvision")
DOCS = Path(__file__).parents[1] / "docs" / "models.md"


def measured(architecture: Architecture, sizes: Iterable[int] = SIZES) -> dict[str, Any]:
    """How one architecture is run, and how far its clipped sums are from the loop's, in units of the clip norm."""
    begun = time.perf_counter()
    row: dict[str, Any] = {"library": architecture.library, "name": architecture.name}
    torch.manual_seed(0)
    try:
        model = no_dropout(architecture.make())
    except Exception as error:  # their code, and another version of it than the one this was written with
        return {**row, "result": "not built", "reason": first_line(error)}
    row["parameters"] = sum(tensor.numel() for tensor in model.parameters())
    try:
        row.update(compared(architecture, model, sizes))
    except TacitError as error:
        row.update(result="refused", reason=error.message)
    except Exception as error:
        row.update(result="crashed", reason=first_line(error))
    return {**row, "seconds": round(time.perf_counter() - begun, 1)}


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def compared(architecture: Architecture, model: nn.Module, sizes: Iterable[int]) -> dict[str, Any]:
    """The worst over batch sizes; the weights move between them."""
    clipper = made(architecture, model)
    off, routed = 0.0, False
    for seed, size in enumerate(sizes):
        batch = architecture.batch(size, seed)
        structure = clipper.structure(batch)
        move(model, seed)
        here = furthest(architecture, model, clipper, batch)
        if here > ALLOWED:  # a choice such as a route may fall otherwise in float32: float64 on both sides
            wide = in_float64(model)
            here, routed = furthest(architecture, wide, made(architecture, wide), doubled(batch)), True
        off = max(off, here)
    how = "exact" if structure.together else "one by one"
    return {
        "result": how if off <= ALLOWED else "wrong", "reason": structure.reason, "off": off, "in_float64": routed,
        "batch_sizes": list(sizes),
    }  # fmt: skip


def made(architecture: Architecture, model: nn.Module) -> Clipper:
    parameters = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
    return Clipper(model, architecture.loss, parameters, CLIP_NORM)


def furthest(architecture: Architecture, model: nn.Module, clipper: Clipper, batch: dict[str, Tensor]) -> float:
    """Largest distance of a parameter's clipped sum from the loop's."""
    rows = len(next(iter(batch.values())))
    found = clipper(batch, torch.ones(rows, dtype=torch.bool)).sums
    expected = loop(architecture, model, batch)
    off = torch.stack([(found[name].double() - sums).norm() for name, sums in expected.items()]).max() / CLIP_NORM
    if not off.isfinite():
        raise ArithmeticError("the loop gives numbers that are not finite, so there is nothing to compare")
    return float(off)


def loop(architecture: Architecture, model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each record by itself through ordinary autograd in float64, clipped, added up."""
    model = in_float64(model)
    parameters = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
    sums = {name: torch.zeros_like(tensor) for name, tensor in parameters.items()}
    for row in range(len(next(iter(batch.values())))):
        one = mapped(lambda tensor, row=row: tensor[row : row + 1], batch)
        wide = next(iter(parameters.values())).dtype == torch.float64
        with float64_by_default() if wide else nullcontext():
            losses = architecture.loss(model, doubled(one) if wide else one)
        found = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
        norm = torch.stack([part.norm() for part in found if part is not None]).norm()
        for name, part in zip(parameters, found, strict=True):
            if part is not None:
                sums[name] += part.to(sums[name].dtype) * min(1.0, CLIP_NORM / float(norm))
    return sums


def in_float64(model: nn.Module) -> nn.Module:
    """A copy in float64; experts are run one after another, since the grouped product takes no float64."""
    for module in model.modules():  # states that a model keeps from its last call cannot be copied with their history
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor) and not value.is_leaf:
                setattr(module, name, value.detach())
    if type(model).__name__ in FLOAT32_ONLY:
        return copy.deepcopy(model)
    model = copy.deepcopy(model).double()
    if installed("transformers"):
        from transformers import PreTrainedModel

        if isinstance(model, PreTrainedModel):
            model.set_experts_implementation("eager")
    return model


@contextmanager
def float64_by_default() -> Iterator[None]:
    """Constants that a model makes are float64 too."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def doubled(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return mapped(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, batch)


def move(model: nn.Module, seed: int) -> None:
    """Move every weight by about a fifth of its size: branches that start at zero are seen."""
    generator = torch.Generator().manual_seed(100 + seed)
    with torch.no_grad():
        for tensor in model.parameters():
            scale = tensor.square().mean().sqrt().clamp(min=0.02)
            tensor.add_(0.2 * scale * torch.randn(tensor.shape, generator=generator))


def no_dropout(model: nn.Module) -> nn.Module:
    """A loop can be compared only where no numbers are drawn."""
    for module in model.modules():
        for name in ("p", "drop_prob", "drop_path"):
            if isinstance(getattr(module, name, None), float) and "rop" in type(module).__name__:
                setattr(module, name, 0.0)
    return model


def table(rows: list[dict[str, Any]], missing: list[str]) -> str:
    """The page of the docs."""
    counts = {how: sum(row["result"] == how for row in rows) for how in ("exact", "one by one", "refused", "wrong")}
    lines = [
        "# Which models can be trained?",
        "",
        f"We tried {len(rows)} architectures that we did not write, at tiny sizes with random weights. Of these, "
        f"{counts['exact']} run exactly with all records at once, {counts['one by one']} exactly with one record at a "
        f"time (slower). Refused: {counts['refused']}. Wrong: {counts['wrong']}.",
        "",
        "Exact means that every parameter's clipped sum is within 1e-4 of the [clip norm](glossary.md) of a float64 "
        f"loop over single records. This was tried at batch sizes {', '.join(map(str, SIZES))}, some of which equal "
        "the model's heads, length or width, and at changed weights. *float64* marks models whose routing or rounding "
        "differs in float32; they are compared in float64 on both sides. Made by `benchmarks/models.py`.",
        "",
        *(f"{library} was not installed, so none of its models is here." for library in missing),
        "| library | architecture | result | distance / C | reason |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        off = f"{row['off']:.0e}{' (float64)' if row.get('in_float64') else ''}" if "off" in row else ""
        lines.append(f"| {row['library']} | {row['name']} | {row['result']} | {off} | {row.get('reason', '')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="six models")
    parser.add_argument("--only", nargs="+", default=[], help="models with one of these in their name")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    stand_ins()
    missing = [library for library in LIBRARIES if not installed(library)]
    for library in missing:
        print(f"{library} is not installed: its models are left out.")
    rows = []
    for architecture in TEXT + VISION:
        named = not given.only or any(part in architecture.name for part in given.only)
        wanted = architecture.name in QUICK if given.quick else named
        if architecture.library in missing or not wanted:
            continue
        rows.append(row := measured(architecture))
        print(f"{row['name']:50} {row['result']:12} {row.get('off', 0):.1e} {row.get('reason', '')}", flush=True)
    if not given.quick and rows:
        kept = merged(rows) if given.only else rows
        keep("models", describe("torch", *(library for library in LIBRARIES if library not in missing)), kept)
        absent = [library for library in missing if library not in {row["library"] for row in kept}]
        DOCS.write_text(table(kept, absent), encoding="utf-8")


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept rows with these in their places."""
    path = RESULTS / "models.json"
    before = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    new = {(row["library"], row["name"]): row for row in rows}
    found = [new.pop((row["library"], row["name"]), row) for row in before]
    return found + list(new.values())


if __name__ == "__main__":
    main()
