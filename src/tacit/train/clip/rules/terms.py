r"""Per-example gradients of one parameter, kept in the form that makes their norm and weighted sum cheap.

A parameter W used by an operation has, for example i, a gradient G_i. A few forms cover every operation:

    Outer   G_i = \sum_t l_it r_it^T       linear layers and convolutions (t runs over positions)
    Gather  G_i = \sum_t e_{k_it} r_it^T   embeddings (k_it is the row that was looked up)
    Dense   G_i itself                     biases, norms, bare parameters and everything else

A parameter used several times (tied weights) has several terms, and G_i is their sum. Like terms are concatenated along
t, an Outer and a Gather give a cross term, and any other mixture is written out.

Every form has a squared norm that is never less than the square of what it adds per unit of weight, but for a share
(OWN) that the noise has room for. `norm2` counts what rounding may hide, `slack2` what rounding adds. `sway2` is how
far rounding of the sum over examples may move it.

In reduced precision on a GPU the weighted sum of an Outer rounds c_i l_it, so example i contributes c_i G_i + E_i. With
u the unit of rounding, |e_it| <= u c_i |l_it| and

    |E_i|^2 = \sum_{ts} (e_it . e_is)(r_it . r_is) <= u^2 c_i^2 \sum_{ts} |l_it| |l_is| |r_it . r_is|

`slack2` is that bound for c_i = 1, and the weights make room for it: c_i (|G_i| + slack_i) <= C (soundness rule 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..arrays import Room, coarse, flat, kept_only, square, squares, summed, wide
from ..rounding import LOST, ROUND, SHORT, inner_error, links, traced
from .outer import Memo, Outer, coarsened, once


@dataclass(eq=False)
class Dense:
    """Written-out gradients: `values` is (B, *shape). `key` identifies them if another term has the same values."""

    values: Tensor
    key: int | None = None
    _squared: Tensor | None = field(default=None, repr=False)

    def norm2(self, memo: Memo) -> Tensor:
        self._squared = once(memo, self.key, self.values) if self._squared is None else self._squared
        return self._squared

    def reach(self, memo: Memo) -> Tensor:
        return self.norm2(memo).sqrt()

    @property
    def whole(self) -> bool:
        return True

    @property
    def depth(self) -> int:
        return 0

    def slack2(self, memo: Memo) -> Tensor | float:
        least = self.values.shape[1:].numel() * LOST**2
        return coarsened(coarse(wide(self.values)), self.norm2(memo), least)

    def sway2(self, memo: Memo) -> Tensor:
        return self.links**2 * self.norm2(memo)

    @property
    def links(self) -> int:
        return links(len(self.values), SHORT)

    def weighted(self, weight: Tensor) -> Tensor:
        r"""\sum_i c_i G_i."""
        return summed(weight, flat(self.values)).view(self.values.shape[1:])

    def dense(self) -> Tensor:
        return self.values

    def only(self, kept: Tensor) -> Dense:
        """Zero for the examples that are not kept, whatever their values."""
        return Dense(kept_only(self.values, kept))


@dataclass(eq=False)
class Gather:
    """Rows of a table: `index` (B, T), `rows` (B, T, d), `shape` of the table."""

    index: Tensor
    rows: Tensor
    shape: torch.Size
    _slot: Tensor | None = field(default=None, repr=False)
    _lengths: Tensor | None = field(default=None, repr=False)

    def norm2(self, memo: Memo) -> Tensor:
        """The squared norm; rows looked up more than once are added up first, in one slot each per example."""
        if self.index.shape[1] == 1:
            return square(self.rows)
        return square(self._added(wide(self.rows)))

    def exact2(self) -> Tensor:
        """The squared norm, accumulated in float64."""
        return self._added(self.rows.double()).flatten(1).square().sum(1)

    def _added(self, rows: Tensor) -> Tensor:
        if self._slot is None:
            ordered, order = self.index.sort(dim=1)
            fresh = torch.ones_like(ordered)
            fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
            self._slot = torch.empty_like(order).scatter_(1, order, fresh.cumsum(1) - 1)
        slot = self._slot.view(*self._slot.shape, *(1,) * (rows.ndim - 2)).expand_as(rows)
        return torch.zeros_like(rows).scatter_add(1, slot, rows)

    def lengths(self) -> Tensor:
        """The norm of every row, (B, T), in float64."""
        self._lengths = squares(self.rows).sqrt() if self._lengths is None else self._lengths
        return self._lengths

    def reach(self, memo: Memo) -> Tensor:
        r"""\sum_t |r_t|, in float64."""
        return self.lengths().sum(1)

    @property
    def whole(self) -> bool:
        return self.rows.shape[1] == 1

    @property
    def depth(self) -> int:
        return self.rows.shape[1]

    def slack2(self, memo: Memo) -> Tensor | float:
        """A row looked up m times is rounded in m - 1 additions, each relative to the sum of all norms."""
        least = self.rows.shape[1:].numel() * LOST**2
        if self.index.shape[1] == 1:
            return least
        times, lengths = self._added(torch.ones_like(self.lengths())), self._added(self.lengths())
        return ((times - 1).clamp(min=0) * lengths).square().sum(1) * (2 * ROUND**2) + 2 * least

    def sway2(self, memo: Memo) -> Tensor:
        return self.links**2 * self.reach(memo).square()

    @property
    def links(self) -> int:
        return links(SHORT, SHORT)

    def weighted(self, weight: Tensor) -> Tensor:
        """The weighted sum; in float64 on a CPU where a row is looked up very often."""
        rows, index = (wide(self.rows) * weight[:, None, None]).flatten(0, 1), self.index.flatten()
        if not rows.is_cuda and (traced(rows) or _often(index)):
            rows = rows.double()
        return rows.new_zeros(self.shape).index_add_(0, index, rows).to(weight.dtype)

    def dense(self) -> Tensor:
        rows = wide(self.rows)
        table = rows.new_zeros(len(self.index), *self.shape)
        return table.scatter_add_(1, self.index[..., None].expand_as(rows), rows)

    def only(self, kept: Tensor) -> Gather:
        return Gather(self.index, kept_only(self.rows, kept), self.shape)


@dataclass(eq=False)
class Viewed:
    """Terms of a `tensor` that contains each element of `parameter` at most once: a transpose, a slice, a cast.

    `made` recomputes the tensor from a copy of the parameter. Hooks on the tensor, or writes into it by user code,
    would otherwise change the sum over all records after norms have been measured.
    """

    terms: list[Term]
    tensor: Tensor
    parameter: Tensor
    made: Callable[[Tensor], Tensor]

    def norm2(self, memo: Memo) -> Tensor:
        return norm2(self.terms, memo)

    def reach(self, memo: Memo) -> Tensor:
        return sum((term.reach(memo) for term in self.terms[1:]), start=self.terms[0].reach(memo))

    @property
    def whole(self) -> bool:
        return len(self.terms) == 1 and self.terms[0].whole

    @property
    def depth(self) -> int:
        return max(term.depth for term in self.terms) + len(self.terms)

    def slack2(self, memo: Memo) -> Tensor | float:
        return slack2(self.terms, memo)

    def sway2(self, memo: Memo) -> Tensor:
        return sway2(self.terms, memo)

    @property
    def links(self) -> int:
        return max(term.links for term in self.terms)

    def weighted(self, weight: Tensor) -> Tensor:
        total = weighted(self.terms, weight)
        found = self._pulled(total)
        if total.dtype != torch.float64 or self.tensor.dtype == torch.float64:
            return found
        return found.double() + self._pulled(total - total.to(self.tensor.dtype))  # what rounding would lose

    def _pulled(self, total: Tensor) -> Tensor:
        with torch.enable_grad():
            leaf = self.parameter.detach().requires_grad_()
            tensor = self.made(leaf)
        return torch.autograd.grad(tensor, leaf, total.to(tensor.dtype))[0]

    def dense(self) -> Tensor:
        return pulled(self.tensor, self.parameter, self.terms)

    def only(self, kept: Tensor) -> Viewed:
        return Viewed([term.only(kept) for term in self.terms], self.tensor, self.parameter, self.made)


class Term(Protocol):
    """Per-example gradients of one parameter in some form.

    `reach` is the sum of the norms of an example's parts, before any of them cancel. `depth` is how many additions an
    entry passes through when the gradient is written out, `links` when the sum over examples is computed. `whole`:
    there is only one part, so nothing can cancel.
    """

    def norm2(self, memo: Memo) -> Tensor: ...

    def reach(self, memo: Memo) -> Tensor: ...

    @property
    def whole(self) -> bool: ...

    @property
    def depth(self) -> int: ...

    def slack2(self, memo: Memo) -> Tensor | float: ...

    def sway2(self, memo: Memo) -> Tensor: ...

    @property
    def links(self) -> int: ...

    def weighted(self, weight: Tensor) -> Tensor: ...

    def dense(self) -> Tensor: ...

    def only(self, kept: Tensor) -> Term: ...


def sized(terms: Iterable[Term], most: int) -> None:
    """Tell these terms how many examples a sample may contain."""
    for term in terms:
        if isinstance(term, Outer):
            term.most = most
        elif isinstance(term, Viewed):
            sized(term.terms, most)


def _often(index: Tensor) -> bool:
    """Whether a row is looked up more often than a partial sum is long; an index out of range raises elsewhere."""
    return len(index) > SHORT and int(index.clamp(min=0).bincount().max()) > SHORT


def housed(terms: Iterable[Term], room: Room) -> None:
    """Let the given terms write into memory that is used again in later steps."""
    for term in terms:
        if isinstance(term, Outer):
            term.room = room
            room.hold(term.left)
        elif isinstance(term, Viewed):
            housed(term.terms, room)


def pulled(tensor: Tensor, parameter: Tensor, terms: Sequence[Term]) -> Tensor:
    """Per-example gradients of a derived tensor, propagated back to one of its parameters."""
    values = total(terms).to(tensor.dtype)
    options = {"retain_graph": True, "is_grads_batched": True, "allow_unused": True}
    (found,) = torch.autograd.grad(tensor, parameter, values, **options)
    return parameter.new_zeros(len(values), *parameter.shape) if found is None else found


def total(terms: Sequence[Term]) -> Tensor:
    """The sum of all terms, written out: (B, *shape)."""
    found = terms[0].dense()
    for term in terms[1:]:
        found = found + term.dense()
    return found


def join(terms: Sequence[Term]) -> list[Term]:
    """Fewer terms with the same sum: terms of the same form are concatenated."""
    if len(terms) == 1:
        return list(terms)
    joined: list[Term] = []
    outer = [term for term in terms if isinstance(term, Outer)]
    for groups in sorted({term.left.shape[1] for term in outer}):
        same = [term for term in outer if term.left.shape[1] == groups]
        joined.append(same[0] if len(same) == 1 else _join_outer(same))
    gather = [term for term in terms if isinstance(term, Gather)]
    if gather:
        joined.append(gather[0] if len(gather) == 1 else _join_gather(gather))
    dense = [term for term in terms if isinstance(term, Dense)]
    if dense:
        joined.append(dense[0] if len(dense) == 1 else Dense(total(dense)))
    return joined + [term for term in terms if not isinstance(term, Outer | Gather | Dense)]


def _tied(terms: Sequence[Term]) -> tuple[Outer, Gather] | None:
    """The one mixture that need not be written out: a table that is looked up and multiplied with (tied weights)."""
    if len(terms) == 2 and isinstance(terms[0], Outer) and isinstance(terms[1], Gather):
        return (terms[0], terms[1]) if terms[0].left.shape[1] == 1 else None
    return None


def norm2(terms: Sequence[Term], memo: Memo | None = None) -> Tensor:
    """Per-example squared norm of the sum of joined terms."""
    memo = {} if memo is None else memo
    if len(terms) == 1:
        return terms[0].norm2(memo)
    if (tied := _tied(terms)) is None:
        return square(total(terms))
    outer, gather = tied
    error = inner_error(gather.rows.shape[-1], gather.depth + outer.depth, torch.float64)
    both = cross(outer, gather) + error * outer.reach(memo) * gather.reach(memo)
    return (outer.norm2(memo) + gather.exact2() + 2 * both).clamp(min=0)


def slack2(terms: Sequence[Term], memo: Memo) -> Tensor | float:
    r"""Squared bound on what rounding adds to the sum of the terms: (\sum_j s_j)^2 <= m \sum_j s_j^2.

    Terms that are written out one by one are each rounded once more, where their sum may cancel.
    """
    if len(terms) == 1:
        return terms[0].slack2(memo)
    parts = [term.slack2(memo) + (ROUND * (term.depth + len(terms)) * term.reach(memo)).square() for term in terms]
    return 2 * len(terms) * sum(parts, start=0.0)


def sway2(terms: Sequence[Term], memo: Memo) -> Tensor:
    r"""Squared bound on how far rounding of the sum over examples may move it: (\sum_j s_j)^2 <= m \sum_j s_j^2."""
    found = terms[0].sway2(memo)
    for term in terms[1:]:
        found = found + term.sway2(memo)
    return len(terms) * found


def weighted(terms: Sequence[Term], weight: Tensor) -> Tensor:
    r"""\sum_i c_i G_i over all terms."""
    found = terms[0].weighted(weight)
    for term in terms[1:]:
        found = found + term.weighted(weight)
    return found


def cross(outer: Outer, gather: Gather) -> Tensor:
    r"""<\sum_t l_t r_t^T, \sum_s e_{k_s} q_s^T> = \sum_{ts} l_t[k_s] (r_t . q_s), per example."""
    rows, columns = outer._sizes
    left, right = outer.left[:, 0, :, :rows].double(), outer.right[:, 0, :, :columns].double()
    index = gather.index[:, None, :].expand(-1, left.shape[1], -1)
    picked = left.gather(2, index)
    return (picked * (right @ gather.rows.double().mT)).sum((1, 2))


def _join_outer(terms: Sequence[Outer]) -> Outer:
    """Concatenated along t, without the zeros that aligned the factors."""
    rows, columns = terms[0]._sizes
    left = torch.cat([term.left[..., :rows] for term in terms], dim=2)
    right = torch.cat([term.right[..., :columns] for term in terms], dim=2)
    return Outer(left, right, terms[0].shape)


def _join_gather(terms: Sequence[Gather]) -> Gather:
    index = torch.cat([term.index for term in terms], dim=1)
    rows = torch.cat([term.rows for term in terms], dim=1)
    return Gather(index, rows, terms[0].shape)
