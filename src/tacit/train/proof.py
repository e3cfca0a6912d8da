"""How a private step would run and clip a model's records, parameter by parameter; computed before any step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core import BadInput, TacitError
from .clip import Clipper
from .clip.capture.functions import name_of
from .clip.capture.level import Level
from .clip.capture.made_up import made_up, same_random
from .clip.capture.probe import Structure
from .clip.capture.watch import Capture
from .clip.clipper import Loss
from .clip.rules.outer import Outer
from .clip.rules.terms import Gather, Term, Viewed
from .clip.slowness import Slowness, measured
from .clip.sums import Terms, by_parameter, watched
from .clip.tree import mapped, size
from .models import check_model
from .sample.augment import averaged
from .sample.examples import Examples
from .sample.labels import cross_entropy

SHOWN = 8
"""How many records of a batch are used; only their shapes are read."""
AT_ONCE, ALONE, REFUSED = "all at once, each as if alone", "one at a time", "refused"


@dataclass(frozen=True)
class ParameterProof:
    """The `rule` that clips a parameter, and the `operations` that use it."""

    parameter: str
    rule: str
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proof:
    """How `records` are run, `why` if not all at once, how much slower that is, and the rule of each parameter."""

    records: str
    why: str
    slowness: Slowness | None
    parameters: tuple[ParameterProof, ...]


def proof(model: nn.Module, batch: object, loss: Loss | None = None) -> Proof:
    """Describe what a private step does with records shaped like those of `batch`; only their shapes are read."""
    named = dict(model.named_parameters())
    trained: dict[str, Tensor] = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
    clipper = Clipper(model, averaged(loss or cross_entropy), trained, 1.0)
    given = Examples.of(batch)
    if not given.direct:
        raise BadInput("A batch to look at is a tensor, or a tuple or dict of tensors, with one row per record.")
    records = mapped(lambda tensor: tensor[:SHOWN], given.data)
    try:
        check_model(model)
        structure = clipper.structure(records)
    except TacitError as error:
        parts = tuple(ParameterProof(name, REFUSED) for name in named)
        return Proof(REFUSED, getattr(error, "message", str(error)), None, parts)
    found = _rules(clipper, records, structure) if structure.together else {}
    parts = tuple(_part(name, tensor, found, structure) for name, tensor in named.items())
    how = AT_ONCE if structure.together else ALONE
    return Proof(how, structure.reason, measured(clipper, records), parts)


def _part(name: str, tensor: Tensor, found: dict[str, ParameterProof], structure: Structure) -> ParameterProof:
    if not tensor.requires_grad:
        return ParameterProof(name, "frozen")
    if not structure.together:
        return ParameterProof(name, "one record at a time, by ordinary autograd")
    return found.get(name, ParameterProof(name, "not used by the loss: it contributes nothing"))


def _rules(clipper: Clipper, batch: object, structure: Structure) -> dict[str, ParameterProof]:
    """The rules that a pass over made-up records uses."""
    count = size(batch)
    forward = structure.forward(clipper.losses, made_up(batch, count), clipper.parameters, clipper.constants())
    capture = Capture(forward.parameters, Level(count, structure.traced), structure.copies, structure.owned)
    with same_random():
        losses = watched(forward, capture)
        gradients = capture.gradients(losses, torch.ones_like(losses))
    with torch.no_grad():
        terms = by_parameter(capture, gradients, count)
    return {name: ParameterProof(name, _words(terms[name]), _operations(capture, name)) for name in _used(terms)}


def _used(terms: Terms) -> list[str]:
    return [name for name, parts in terms.items() if parts]


def _operations(capture: Capture, name: str) -> tuple[str, ...]:
    """The operations that consumed the parameter, or a tensor derived from it, in order."""
    found = [
        name_of(record.function)
        for record in capture.records
        if any(name in capture.sources[id(tensor)].parents for tensor in record.used)
    ]
    return tuple(dict.fromkeys(found))


def _words(parts: Iterable[Term]) -> str:
    return " + ".join(dict.fromkeys(_term(part) for part in parts))


def _term(term: Term) -> str:
    """How the norm of the per-record gradient is computed, in words."""
    if isinstance(term, Outer):
        positions = term.left.shape[2]
        if positions == 1:
            return "outer product of one position"
        how = "written out" if term.whole else "length by inner products"
        return f"outer products of {positions} positions, {how}"
    if isinstance(term, Gather):
        return f"rows of a table, {term.index.shape[1:].numel()} of them"
    if isinstance(term, Viewed):
        return f"through a view: {_words(term.terms)}"
    return "written out"
