r"""The clipped sum of per-example gradients: the only function of the private data that noise is added to.

    S = \sum_i m_i min(1, C / |G_i|) G_i,     G_i = gradient of loss_i by all trainable parameters together

Here m_i = 0 for padding and for examples whose gradient is not finite (soundness rule 8); other weights with the same
bound are possible (`Weigh`). It takes one forward and one backward pass, and writes a per-example gradient out only if
that is the cheaper way to its norm.

Guarantee: one example changes S by at most `clip_norm` under add-remove and zero-out, 2 `clip_norm` under replace. Each
loss is computed as if its record were alone (`Level`), so loss_i depends on example i and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from ...core import BadInput
from .arrays import REDUCED, Room, full_float32
from .capture.errors import no_rule
from .capture.level import Level
from .capture.nested import nested, watching
from .capture.watch import Capture
from .recompute.hooks import checkpointed
from .rounding import LARGE, PRODUCTS, ROUND, borne, needs_float64
from .rules.operators import by_rule
from .rules.outer import Memo
from .rules.terms import Dense, Term, Viewed, housed, join, norm2, pulled, sized, slack2, sway2, weighted
from .tree import mapped
from .weigh import FLAT, Weigh

Terms = dict[str, list[Term]]
Add = Callable[[Mapping[str, Tensor], Terms, Tensor, Weigh], dict[str, Tensor]]


@runtime_checkable
class Spread(Protocol):
    """An `Add` that sums over several processes: all of them must call it equally often."""

    def __call__(
        self, parameters: Mapping[str, Tensor], terms: Terms, weight: Tensor, weigh: Weigh
    ) -> dict[str, Tensor]: ...

    def spread(self, sums: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Sum over processes what each has summed already."""


@dataclass(frozen=True, eq=False)
class Clipped:
    """`sums` by parameter name, and per example its gradient `norms` and `losses` (for the operator only).

    A norm is infinite if the gradient is not finite or user code raised. `shortened` marks the examples whose gradient
    was scaled down, in whole or in part.
    """

    sums: dict[str, Tensor]
    norms: Tensor
    losses: Tensor
    shortened: Tensor


@dataclass(frozen=True, eq=False)
class Forward:
    """A model as the clipper sees it: `losses(batch)` runs it, `batch` holds the records, `parameters` are trainable.

    `copies`, `owned` and `lasting` are those of `Capture`, `traced` is that of `Level`.
    """

    losses: Callable[[Any], Tensor]
    batch: Any
    parameters: Mapping[str, Tensor]
    copies: bool = False
    owned: bool = False
    lasting: Sequence[Tensor] = ()
    traced: bool = False


def clipped_sum(
    forward: Forward,
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh = FLAT,
    add: Add | None = None,
    room: Room | None = None,
) -> Clipped:
    """Clip every example's gradient to `clip_norm`, and sum those that the mask keeps, by `add` if given."""
    terms, losses, kept = per_example(forward, mask)
    if room is not None:
        room.clear()
        housed(chain.from_iterable(terms.values()), room)
    with torch.no_grad(), full_float32():
        return without(clipped_terms(forward.parameters, terms, losses, kept, clip_norm, weigh, add), kept)


def without(found: Clipped, kept: Tensor) -> Clipped:
    """Report that records outside `kept` contributed nothing: their norm becomes 0, unless it is not finite."""
    return replace(found, norms=torch.where(kept | ~found.norms.isfinite(), found.norms, 0.0))


def clipped_terms(
    parameters: Mapping[str, Tensor],
    terms: Terms,
    losses: Tensor,
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh,
    add: Add | None = None,
    *,
    exact: bool | None = None,
) -> Clipped:
    """The clipped sum from its terms.

    `exact` is for graphs, which cannot branch; their caller inspects the norms. True: sums are in float64. False: in
    the dtype that the sizes of the graph ask for, and all norms are NaN if float32 turns out too rough for the records.
    """
    memo: Memo = {}
    sized(chain.from_iterable(terms.values()), weigh.most)
    squares = group_squares(terms, losses, weigh, memo)
    norms, kept = shown(squares, losses)
    if exact is None and not bool(kept.all()):
        terms = {name: [term.only(kept) for term in parts] for name, parts in terms.items()}
        memo = {}
    lengths = squares.sqrt() + group_slack(terms, squares, weigh, memo)
    weight = weigh(lengths, mask & kept, clip_norm)
    if weight.is_cuda or short(terms, weigh.most):
        weight = weight.to(norms.dtype)
    else:
        sway = group_sway(terms, squares, weigh, memo)
        static = exact if exact is not False else longest(terms) * weigh.most * ROUND > PRODUCTS
        weight, rough = for_sums(sway, weight, mask, clip_norm, weigh.most, norms.dtype, static)
        if exact is not None:  # the caller repeats the step with exact sums
            norms = torch.where(rough, torch.nan, norms)
    sums = (add or weighted_sums)(parameters, terms, weight, weigh)
    return Clipped(sums, norms, losses, mask & kept & (weight < 1).any(0))


def for_sums(
    sway: Tensor,
    weight: Tensor,
    mask: Tensor,
    clip_norm: float | Tensor,
    most: int,
    kind: torch.dtype,
    exact: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The weights, in float64 if the sum needs that and of `kind` otherwise, and whether `kind` is too rough after all.

    `exact` decides for or against float64, whatever the records need.
    """
    if weight.is_cuda:
        return weight.to(kind), torch.zeros_like(mask.any())
    weight = borne(sway, weight, clip_norm, most)
    rough = needs_float64(sway, weight, mask, clip_norm, most)
    if bool(rough) if exact is None else exact:
        return weight, torch.zeros_like(rough)
    return weight.to(kind), rough


def shown(squares: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
    """Norms of whole gradients, infinite where they count as not finite, and a mask of the finite ones."""
    norms = squares.sum(0).sqrt()
    kept = norms <= LARGE
    return torch.where(kept, norms, torch.inf).to(torch.promote_types(losses.dtype, torch.float32)), kept


def weighted_sums(parameters: Mapping[str, Tensor], terms: Terms, weight: Tensor, weigh: Weigh) -> dict[str, Tensor]:
    """The clipped sum of every parameter, in float64 if the weights are; zero for one that no operation used."""
    return {
        name: weighted(terms[name], weight[weigh.group(name)])
        if name in terms
        else torch.zeros_like(parameter, dtype=weight.dtype)
        for name, parameter in parameters.items()
    }


def group_squares(terms: Terms, losses: Tensor, weigh: Weigh = FLAT, memo: Memo | None = None) -> Tensor:
    """Squared norms of every group of parameters, (groups, B), in float64, never too small (`terms`)."""
    memo = {} if memo is None else memo
    return _grouped(terms, torch.zeros_like(losses, dtype=torch.float64), weigh, lambda parts: norm2(parts, memo))


def group_slack(terms: Terms, squares: Tensor, weigh: Weigh, memo: Memo) -> Tensor:
    """How much rounding may enlarge each group's contribution beyond its norm, per unit of weight: (groups, B)."""
    return _grouped(terms, torch.zeros_like(squares[0]), weigh, lambda parts: slack2(parts, memo)).sqrt()


def group_sway(terms: Terms, squares: Tensor, weigh: Weigh, memo: Memo) -> Tensor:
    """How far rounding may move the sums on a CPU, per unit of weight and of rounding: (groups, B)."""
    if squares.is_cuda:
        return torch.zeros_like(squares)
    return _grouped(terms, torch.zeros_like(squares[0]), weigh, lambda parts: sway2(parts, memo)).sqrt()


def _grouped(terms: Terms, zero: Tensor, weigh: Weigh, of: Callable[[list[Term]], Tensor | float]) -> Tensor:
    """Values of all parameters, summed by group."""
    found = [zero for _ in weigh.shares]
    for name, parts in terms.items():
        found[weigh.group(name)] = found[weigh.group(name)] + of(parts)
    return torch.stack(found)


def short(terms: Terms, most: int) -> bool:
    """Whether float32 is enough for sums of any `most` records: nothing cancels, and no sum is long."""
    alone = all(len(parts) == 1 and parts[0].whole for parts in terms.values())
    return alone and longest(terms) * most * ROUND <= PRODUCTS


def longest(terms: Terms) -> int:
    """The largest number of additions that an entry passes through in any sum."""
    return max((term.links for parts in terms.values() for term in parts), default=0)


def per_example(forward: Forward, mask: Tensor) -> tuple[Terms, Tensor, Tensor]:
    """Run forward and backward once and turn every captured operation into terms of per-example gradients.

    Returns the terms, the losses, and the mask without records that hold an index out of range.
    """
    level = Level(len(mask), forward.traced)
    capture = Capture(forward.parameters, level, forward.copies, forward.owned, forward.lasting)
    losses = watched(forward, capture)
    gradients = capture.gradients(losses, torch.ones_like(losses))
    with torch.no_grad():
        kept = unbroken(capture, mask)
        return by_parameter(capture, gradients, level.batch), losses.detach(), kept


def watched(forward: Forward, capture: Capture) -> Tensor:
    """Losses (B,) of all records, each computed as a batch of one, under the capture."""
    level = capture.level
    with torch.enable_grad(), level.entered(), checkpointed(capture), nested(capture):
        # a copy: code may write into its records, and the batch may have to run again without some of them
        one = mapped(lambda rows: capture.enter(rows.clone()), forward.batch)
        with capture:
            loss = forward.losses(one)
        capture.check_caught()
        check_losses(loss, 1)
        capture.check_own((loss,))
        return level.all(loss.squeeze(0))


def unbroken(capture: Capture, mask: Tensor) -> Tensor:
    """The mask without records that held an index out of range."""
    for outside in capture.broken:
        mask = mask & ~outside.to(mask.device)
    return mask


def by_parameter(capture: Capture, gradients: Iterable[Tensor | None], batch: int) -> Terms:
    """Terms of the parameters that the captured operations consumed, from the gradients of the operations' outputs."""
    found = _by_parameter(capture, _by_source(capture, gradients, batch))
    capture.check_caught()
    return found


def check_losses(losses: Tensor, batch: int) -> None:
    if not isinstance(losses, Tensor) or losses.shape != (batch,):
        raise BadInput(
            "The loss must return one number per example, a tensor of shape (batch,).",
            fix="Use reduction='none' and average within each example only.",
        )


def _by_source(capture: Capture, gradients: Iterable[Tensor | None], batch: int) -> dict[int, list[Term]]:
    found: dict[int, list[Term]] = {}
    shown: list[Tensor] = []  # terms are known by the identity of these, so none may be freed in between
    for record, gradient in zip(capture.records, gradients, strict=True):
        if gradient is None:
            continue
        shown.append(record.first(gradient))
        try:
            with watching(capture):
                for tensor, term in by_rule(record, shown[-1], batch):
                    found.setdefault(id(tensor), []).append(term)
        except (BadInput, RuntimeError, ValueError) as error:
            raise no_rule(record.function, capture.names(record.used), _reason(error)) from error
    return {source: join(terms) for source, terms in found.items()}


def _by_parameter(capture: Capture, by_source: dict[int, list[Term]]) -> Terms:
    """Propagate the terms of derived tensors back to the parameters they came from.

    A sum is never rounded to reduced precision here: one example may move a rounded sum by more than its share.
    """
    names = {id(tensor): name for name, tensor in capture.parameters.items()}
    found: Terms = {name: list(by_source[key]) for key, name in names.items() if key in by_source}
    for key, terms in by_source.items():
        if key in names:
            continue
        source = capture.sources[key]
        for name in sorted(source.parents):
            parameter = capture.parameters[name]
            if source.viewed and source.tensor.dtype not in REDUCED:
                term: Term = Viewed(terms, source.tensor, parameter, source.made)
            else:
                term = Dense(pulled(source.tensor, parameter, terms))
            found.setdefault(name, []).append(term)
    return {name: join(terms) for name, terms in found.items()}


def _reason(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".") or "its parts cannot be told apart"
