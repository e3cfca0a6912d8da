"""Attacks that learn from records of known membership what the target's answers, layers and gradients give away.

The three differ in what they may look at and in nothing else (Nasr et al. 2019): each learns in stages, and its first
stages are those of the one before. References are the target's own observations on other records, whose membership the
attacker knows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, MissingExtra, Observations
from .registry import References, attack

Floats = NDArray[np.float64]
FEWEST = 10
"""Known members, and known non-members, below which nothing can be learned."""
GRADIENTS = {"gradient", "error", "input"}
STAGES = ({"loss"}, {"output", "label"}, {"layer"}, {"length"}, GRADIENTS, {"step"})
"""What each stage sees beside the loss, few numbers first: answers, layers, gradients, steps."""
WIDEST, TINY = 512, 1e-30


@attack("gradient-norm", needs=("gradient_norm",), references=References.NONE)
def gradient_norm(target: Observations) -> Floats:
    """s = -|gradient of the loss|: at a fitted record nothing is left to learn (the baseline of Nasr et al. 2019)."""
    return -target.need("gradient_norm")


@attack("learned-black-box", needs=("logits", "label"), references=References.KNOWN)
def learned_black_box(target: Observations, known: Observations) -> Floats:
    """A network from the model's answer, its loss and the label to membership."""
    return np.asarray(in_stages(target, known, 2)[-1])


@attack("white-box-outputs", needs=("internals", "logits", "label"), references=References.KNOWN)
def white_box_outputs(target: Observations, known: Observations) -> Floats:
    """A network from answers, losses, labels and the outputs of inner layers to membership."""
    return np.asarray(in_stages(target, known, 3)[-1])


@attack("white-box-gradients", needs=("internals", "logits", "label"), references=References.KNOWN)
def white_box_gradients(target: Observations, known: Observations) -> Floats:
    """The attack on inner layers with per-example gradients of the loss, and with what `with_steps` observed."""
    return np.asarray(in_stages(target, known)[-1])


def in_stages(target: Observations, known: Observations, count: int = len(STAGES)) -> Floats:
    """Log-odds after each stage (stages x records x models), each model by networks of its own.

    After two stages they are those of `learned_black_box`, after three those of `white_box_outputs`.
    """
    try:
        from .network import learned
    except ImportError:
        raise MissingExtra("torch") from None
    known = known.select(records=np.argsort(known.need("record")))  # their order must not matter
    member = known.need("member").astype(bool)
    if min(member.sum(axis=0).min(), (~member).sum(axis=0).min()) < FEWEST:
        raise BadInput(f"A learned attack needs at least {FEWEST} known members and {FEWEST} known non-members.")
    if set(known.internals or {}) != set(target.internals or {}):
        raise BadInput("The target and its known records must have internals of the same names.")
    columns = []
    for k in range(target.models):
        views, (told, *_) = (_views(seen.select(models=[k])) for seen in (target, known))
        named = [[name for name in told if _kind(name) in kinds] for kinds in STAGES[:count]]
        used = {name for names in named for name in names}
        told, *views = ({name: part for name, part in view.items() if name in used} for view in (told, *views))
        for name in sorted(used):
            if not all(np.isfinite(view[name]).all() for view in (told, *views)):
                raise BadInput(f"A learned attack needs finite numbers, and some of `{name}` are not.")
        columns.append(learned(named, told, member[:, k], views))
    return np.stack(columns, axis=2)


def _views(seen: Observations) -> list[dict[str, NDArray[np.floating]]]:
    """All that may be looked at, one model's, by name; twice where steps were taken from both halves."""
    logits, loss, margin = seen.need("logits")[:, 0], seen.need("loss"), seen.need("margin")
    found = {
        "output": logits,
        "loss": np.concatenate((loss, np.log(loss + 1e-12), margin), axis=1),
        "label": np.eye(logits.shape[1])[seen.need("label").astype(np.int64)],
    }
    for name, array in (seen.internals or {}).items():
        if _kind(name) in GRADIENTS:
            found[name], found[f"{name} length"] = _direction(array[:, 0])
        elif _kind(name) == "length":
            found[name] = np.log(np.maximum(array[:, 0], TINY))
        elif _kind(name) != "step":
            found[name] = array[:, 0].reshape(seen.records, -1)
    steps: dict[str, list[NDArray[np.floating]]] = {}  # of each half: the last snapshot's and earlier ones'
    for name, array in (seen.internals or {}).items():
        if _kind(name) == "step":
            steps.setdefault(name.split("/")[-1], []).extend((array[:, 0], margin - array[:, 0]))
    return [{**found, "step": np.concatenate(after, axis=1)} for after in steps.values()] or [found]


def _kind(name: str) -> str:
    """The kind of signal in an array's name: `error` of `0:error/last`."""
    return name.split(":")[-1].split("/")[0].removesuffix(" length")


def _direction(array: NDArray[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """A vector, or a matrix folded into one by fixed random signs, of length 1; and the log of what its length was."""
    flat = array.reshape(len(array), -1)
    largest = np.maximum(np.abs(flat).max(axis=1, keepdims=True), TINY)  # squares of single ones may vanish
    flat = flat / largest
    length = np.maximum(np.sqrt((flat**2).sum(axis=1, keepdims=True)), TINY)
    flat, length = flat / length, np.maximum(largest * length, TINY)
    if flat.shape[1] > WIDEST:
        signs = np.where(np.random.default_rng(0).random(flat.shape[1]) < 0.5, -1, 1).astype(flat.dtype)
        flat = np.pad(flat * signs, ((0, 0), (0, -flat.shape[1] % WIDEST))).reshape(len(flat), -1, WIDEST).sum(axis=1)
    return flat, np.log(length)
