r"""The clipped sum of per-example gradients: the one thing of the private data that noise is added to.

    S = \sum_i m_i min(1, C / |G_i|) G_i,     G_i = gradient of loss_i by all trainable parameters together

with m_i = 0 for padding and for examples whose gradient is not finite (soundness rule 8), or with other weights of the
same bound (`Weigh`). One forward and one backward pass; no per-example gradient is written out unless that is the
cheaper way to its norm.

Guarantee: one example changes S by at most `clip_norm` under add-remove and zero-out, 2 `clip_norm` under replace.
Caller ensures: loss_i depends on example i alone; `probe` tests that before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from ...core import BadInput
from .arrays import REDUCED, Room
from .capture.capture import Capture, Entry, no_rule
from .recompute.hooks import checkpointed
from .rules.rules import RULES, fallback
from .rules.terms import Dense, Memo, Term, Viewed, housed, join, norm2, pulled, slack2, weighted
from .weigh import FLAT, Weigh

Terms = dict[str, list[Term]]
Add = Callable[[Mapping[str, Tensor], Terms, Tensor, Weigh], dict[str, Tensor]]


@dataclass(frozen=True, eq=False)
class Clipped:
    """`sums` by parameter name, and per example its gradient `norms` and `losses` (for the operator only).

    `shortened`: whose gradient was scaled down, in whole or in part.
    """

    sums: dict[str, Tensor]
    norms: Tensor
    losses: Tensor
    shortened: Tensor


@dataclass(frozen=True, eq=False)
class Forward:
    """A model as the clipper sees it: `losses()` runs it on a batch, `parameters` are trainable, the rest public."""

    losses: Callable[[], Tensor]
    parameters: Mapping[str, Tensor]
    constants: Sequence[Tensor] = ()


def clipped_sum(
    forward: Forward,
    mask: Tensor,
    clip_norm: float | Tensor,
    structure: tuple[Entry, ...],
    weigh: Weigh = FLAT,
    add: Add | None = None,
    room: Room | None = None,
    *,
    copies: bool = False,
) -> Clipped:
    """Clip every example's gradient to `clip_norm` and add up those the mask keeps, by `add` or as they are."""
    terms, losses = per_example(forward, len(mask), structure, copies=copies)
    if room is not None:
        room.clear()
        housed(chain.from_iterable(terms.values()), room)
    with torch.no_grad():
        return clipped_terms(forward.parameters, terms, losses, mask, clip_norm, weigh, add)


def clipped_terms(
    parameters: Mapping[str, Tensor],
    terms: Terms,
    losses: Tensor,
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh,
    add: Add | None = None,
    *,
    finite: bool = False,
) -> Clipped:
    """The clipped sum from its terms; `finite`: the caller looks at the norms itself, and no branch is taken here."""
    memo: Memo = {}
    squares = group_squares(terms, losses, weigh, memo)
    norms = squares.sum(0).sqrt()
    kept = norms.isfinite()
    if not finite and not bool(kept.all()):
        terms = {name: [term.only(kept) for term in parts] for name, parts in terms.items()}
    lengths = squares.sqrt() + group_slack(terms, squares, weigh, memo)
    weight = weigh(lengths, mask & kept, clip_norm)
    sums = (add or weighted_sums)(parameters, terms, weight, weigh)
    return Clipped(sums, norms, losses, mask & (weight < 1).any(0))


def weighted_sums(parameters: Mapping[str, Tensor], terms: Terms, weight: Tensor, weigh: Weigh) -> dict[str, Tensor]:
    """The clipped sum of every parameter; one that no operation used is a declared zero."""
    return {
        name: weighted(terms[name], weight[weigh.group(name)])
        if name in terms
        else torch.zeros_like(parameter, dtype=weight.dtype)
        for name, parameter in parameters.items()
    }


def group_squares(terms: Terms, losses: Tensor, weigh: Weigh = FLAT, memo: Memo | None = None) -> Tensor:
    """Squared norms of every group of parameters, (groups, B), in float32 at least."""
    kind = torch.promote_types(losses.dtype, torch.float32)
    found = [torch.zeros_like(losses, dtype=kind) for _ in weigh.shares]
    memo = {} if memo is None else memo
    for name, parts in terms.items():
        found[weigh.group(name)] = found[weigh.group(name)] + norm2(parts, memo)
    return torch.stack(found)


def group_slack(terms: Terms, squares: Tensor, weigh: Weigh, memo: Memo) -> Tensor:
    """How far rounding may carry each group's contribution beyond its norm, per unit of weight: (groups, B)."""
    slacks = {name: slack for name, parts in terms.items() if isinstance(slack := slack2(parts, memo), Tensor)}
    if not slacks:
        return torch.zeros_like(squares)
    found = list(torch.zeros_like(squares))
    for name, slack in slacks.items():
        found[weigh.group(name)] = found[weigh.group(name)] + slack
    return torch.stack(found).sqrt()


def per_example(
    forward: Forward, batch: int, structure: tuple[Entry, ...], *, copies: bool = False
) -> tuple[Terms, Tensor]:
    """Run forward and backward once and turn every record into terms of per-example gradients."""
    capture = Capture(forward.parameters, forward.constants, structure, copies=copies)
    with torch.enable_grad(), checkpointed(capture), capture:
        losses = forward.losses()
    check_losses(losses, batch)
    gradients = capture.gradients(losses, torch.ones_like(losses))
    with torch.no_grad():
        return by_parameter(capture, gradients, batch), losses.detach()


def by_parameter(capture: Capture, gradients: Iterable[Tensor | None], batch: int) -> Terms:
    """Terms of the parameters that a capture's records consumed, from the gradients of the records' outputs."""
    return _by_parameter(capture, _by_source(capture, gradients, batch))


def check_losses(losses: Tensor, batch: int) -> None:
    if not isinstance(losses, Tensor) or losses.shape != (batch,):
        raise BadInput(
            "The loss must return one number per example, a tensor of shape (batch,).",
            fix="Use reduction='none' and average within each example only.",
        )


def _by_source(capture: Capture, gradients: Iterable[Tensor | None], batch: int) -> dict[int, list[Term]]:
    found: dict[int, list[Term]] = {}
    for record, gradient in zip(capture.records, gradients, strict=True):
        if gradient is None:
            continue
        rule = RULES.get(record.function, fallback)
        try:
            for tensor, term in rule(record, gradient, batch):
                found.setdefault(id(tensor), []).append(term)
        except (BadInput, RuntimeError, ValueError) as error:
            raise no_rule(record.function, capture.names(record.used), _reason(error)) from error
    return {source: join(terms) for source, terms in found.items()}


def _by_parameter(capture: Capture, by_source: dict[int, list[Term]]) -> Terms:
    """Carry the terms of derived tensors back to the parameters they came from.

    A sum is never rounded to reduced precision on that way: one example may move a rounded sum by more than its share.
    """
    names = {id(tensor): name for name, tensor in capture.parameters.items()}
    found: Terms = {name: list(by_source[key]) for key, name in names.items() if key in by_source}
    for key, terms in by_source.items():
        if key in names:
            continue
        source = capture.sources[key]
        for name in sorted(source.parents):
            parameter = capture.parameters[name]
            if source.one_to_one and len(source.parents) == 1 and source.tensor.dtype not in REDUCED:
                term: Term = Viewed(terms, source.tensor, parameter)
            else:
                term = Dense(pulled(source.tensor, parameter, terms))
            found.setdefault(name, []).append(term)
    return {name: join(terms) for name, terms in found.items()}


def _reason(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".") or "its parts cannot be told apart"
