"""Attacks that learn from records of known membership what the target's answers, layers and gradients give away.

The three differ in what they may look at and in nothing else (Nasr et al. 2019): the same network, the same known
records. References are the target's own observations on other records, whose membership the attacker knows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, MissingExtra, Observations
from .registry import References, attack

Floats = NDArray[np.float64]
FEWEST = 10
"""Known members, and known non-members, below which nothing can be learned."""


@attack("gradient-norm", needs=("gradient_norm",), references=References.NONE)
def gradient_norm(target: Observations) -> Floats:
    """s = -|gradient of the loss|: at a fitted record nothing is left to learn (the baseline of Nasr et al. 2019)."""
    return -target.need("gradient_norm")


@attack("learned-black-box", needs=("logits", "label"), references=References.KNOWN)
def learned_black_box(target: Observations, known: Observations) -> Floats:
    """A network from the model's answer, its loss and the label to membership."""
    return _judged(target, known, {"output", "loss"})


@attack("white-box-outputs", needs=("internals", "logits", "label"), references=References.KNOWN)
def white_box_outputs(target: Observations, known: Observations) -> Floats:
    """The same with the outputs of layers inside."""
    return _judged(target, known, {"output", "loss", "layer"})


@attack("white-box-gradients", needs=("internals", "logits", "label"), references=References.KNOWN)
def white_box_gradients(target: Observations, known: Observations) -> Floats:
    """The same with the outputs of layers inside and per-example gradients of the loss."""
    return _judged(target, known, {"output", "loss", "layer", "gradient", "error", "input"})


def _judged(target: Observations, known: Observations, kinds: Collection[str]) -> Floats:
    """Each target model by a network of its own."""
    try:
        from .network import learned
    except ImportError:
        raise MissingExtra("torch") from None
    known = known.select(records=np.argsort(known.need("record")))  # their order must not matter
    member = known.need("member").astype(bool)
    if min(member.sum(axis=0).min(), (~member).sum(axis=0).min()) < FEWEST:
        raise BadInput(f"A learned attack needs at least {FEWEST} known members and {FEWEST} known non-members.")
    columns = []
    for k in range(target.models):
        rows = [_parts(seen.select(models=[k]), kinds) for seen in (known, target)]
        if rows[0].keys() != rows[1].keys():
            raise BadInput("The target and its known records must have internals of the same names.")
        columns.append(learned(rows[0], member[:, k], rows[1]))
    return np.stack(columns, axis=1)


def _parts(seen: Observations, kinds: Collection[str]) -> dict[str, tuple[NDArray[np.floating], ...]]:
    """What may be looked at, one model's, by name; the two factors of a gradient as a pair."""
    logits, loss = seen.need("logits")[:, 0], seen.need("loss")
    label = seen.need("label").astype(np.int64)
    found: dict[str, tuple[NDArray[np.floating], ...]] = {
        "output": (logits,),
        "loss": (np.concatenate((loss, np.log(loss + 1e-12), seen.need("margin")), axis=1),),
        "label": (np.eye(logits.shape[1])[label],),
    }
    for name in seen.internals or {}:
        kind = name.split(":")[-1].split("/")[0]
        if kind not in kinds or kind == "input":
            continue
        names = (name, name.replace("error/", "input/")) if kind == "error" else (name,)
        found[name] = tuple((seen.internals or {})[each][:, 0] for each in names)
    return found
