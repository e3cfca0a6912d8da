r"""Per-example gradients of one parameter, kept in the form that makes their norm and weighted sum cheap.

A parameter W used by an operation has, for example i, a gradient G_i. A few forms cover every operation:

    Outer   G_i = \sum_t l_it r_it^T       linear layers and convolutions (t runs over positions)
    Gather  G_i = \sum_t e_{k_it} r_it^T   embeddings (k_it is the row that was looked up)
    Dense   G_i itself                     biases, norms, bare parameters and everything else

A parameter used several times (tied weights) has several terms, and G_i is their sum: like terms are joined along t,
an Outer and a Gather meet in an exact cross term, and any other mixture is written out.

In reduced precision on a GPU the weighted sum of an Outer rounds c_i l_it, so example i contributes c_i G_i + E_i. With
u the unit of rounding, |e_it| <= u c_i |l_it| and

    |E_i|^2 = \sum_{ts} (e_it . e_is)(r_it . r_is) <= u^2 c_i^2 \sum_{ts} |l_it| |l_is| |r_it . r_is|

`slack2` is that bound for c_i = 1, and the weights make room for it: c_i (|G_i| + slack_i) <= C (soundness rule 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..arrays import REDUCED, Room, aligned, flat, kept_only, narrow, product, square, wide
from ..compile.inner import inner_sums, pays
from ..cost import inner_is_cheaper

PIECE = 2**24
UNIT = 1.01 * 2.0**-8
Memo = dict[tuple[int, torch.Size, torch.dtype], Tensor]


@dataclass(eq=False)
class Dense:
    """Written out: `values` is (B, *shape). `key` names them where another term is made of the same numbers."""

    values: Tensor
    key: int | None = None

    def norm2(self, memo: Memo) -> Tensor:
        return once(memo, self.key, self.values)

    def slack2(self, memo: Memo) -> Tensor | float:
        return 0.0

    def weighted(self, weight: Tensor) -> Tensor:
        r"""\sum_i c_i G_i."""
        return (weight @ flat(self.values)).view(self.values.shape[1:])

    def dense(self) -> Tensor:
        return self.values

    def only(self, kept: Tensor) -> Dense:
        """Zero, whatever they were, for the examples that are not kept."""
        return Dense(kept_only(self.values, kept))


@dataclass(eq=False)
class Outer:
    """Sums of outer products, one per group: `left` (B, groups, T, p), `right` (B, groups, T, d), `shape` of W.

    W is read as (groups, p, d), row by row. `keys` name the two sides among all terms of a step: layers that share an
    input (queries, keys and values) or an output's gradient (both weights of an LSTM) share its inner products, but for
    those that a compiled step adds up in a kernel: made again, half or so of each is about what all of them cost kept.
    """

    left: Tensor
    right: Tensor
    shape: torch.Size
    keys: tuple[int, int] | None = None
    room: Room | None = None
    _written: list[Tensor] | None = field(default=None, repr=False)
    _sizes: tuple[int, int] = field(default=(0, 0), repr=False)
    _added: tuple[Tensor, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Under autocast one side is kept in reduced precision, and the product was made of both in it."""
        self._sizes = self.left.shape[-1], self.right.shape[-1]
        if self.left.dtype != self.right.dtype:
            least = min(self.left.dtype, self.right.dtype, key=lambda kind: kind.itemsize)
            self.left, self.right = self.left.to(least), self.right.to(least)
        if narrow(self.left):
            self.left, self.right = aligned(self.left), aligned(self.right)

    def norm2(self, memo: Memo) -> Tensor:
        r"""|G|^2 by the cheaper of two forms: \sum_{ts} (l_t.l_s)(r_t.r_s), or G written out and kept."""
        if self.left.shape[1:3] == (1, 1):
            left, right = self.keys or (None, None)
            return once(memo, left, self.left) * once(memo, right, self.right)
        if self.left.shape[2] == 1:
            return (_squares(self.left) * _squares(self.right)).sum((1, 2))
        if self._by_inner():
            if pays(self.left, self.right):
                return self._sums()[0].clamp(min=0)
            inner, other = (self._inner(side, memo) for side in (0, 1))
            return (inner * other).view(len(self.left), -1).sum(1).clamp(min=0)
        return torch.cat([square(piece) for piece in self._pieces()])

    def slack2(self, memo: Memo) -> Tensor | float:
        r"""u^2 \sum_{ts} |l_t| |l_s| |r_t.r_s| where l is the side that is rounded; 0 where nothing is."""
        if not narrow(self.left):
            return 0.0
        if self.left.shape[2] == 1:
            return UNIT**2 * self.norm2(memo)
        if not self._by_inner():
            return 0.0
        if pays(self.left, self.right):
            return UNIT**2 * self._sums()[1]
        side = self._rounded()
        lengths = self._inner(side, memo).diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
        other = self._inner(1 - side, memo).abs()
        bound = (lengths[:, :, None] * lengths[:, None, :] * other).view(len(self.left), -1).sum(1)
        return UNIT**2 * bound

    def weighted(self, weight: Tensor) -> Tensor:
        if self._written is not None:
            weights = weight.split([len(piece) for piece in self._written])
            found, *rest = (part @ piece for part, piece in zip(weights, self._written, strict=True))
            for one in rest:
                found.add_(one)
            return found.view(self.shape)
        sides, side = [self.left, self.right], self._rounded()
        scaled = wide(sides[side]) * weight.view(-1, 1, 1, 1)
        sides[side] = scaled.to(sides[side].dtype) if narrow(self.left) else scaled
        if self.left.shape[1] == 1 and not narrow(self.left):
            left, right = (wide(values).flatten(0, 2) for values in sides)
            return torch.mm(left.mT, right).view(self.shape)
        left, right = (values.transpose(0, 1).flatten(1, 2) for values in sides)
        return self._cut(product(left.mT, right)).reshape(self.shape)

    def _by_inner(self) -> bool:
        batch, groups, positions, rows = self.left.shape
        return inner_is_cheaper(positions, rows, self.right.shape[-1], batch * groups, self.left.device.type)

    def _rounded(self) -> int:
        """The side that carries the weights: the one with fewer numbers."""
        return 0 if self.left.numel() <= self.right.numel() else 1

    def _cut(self, found: Tensor) -> Tensor:
        """Without what was added to the two sides to align them."""
        return found[..., : self._sizes[0], : self._sizes[1]]

    def dense(self) -> Tensor:
        return torch.cat(self._pieces()).view(-1, *self.shape)

    def _pieces(self) -> list[Tensor]:
        """G written out and kept, some examples at a time: memory in moderate pieces is reused, not mapped anew."""
        if self._written is None:
            rows = len(self.left)
            if self.left.device.type == "cpu":
                rows = max(1, PIECE // (4 * self.shape.numel()))
            sides = zip(self.left.split(rows), self.right.split(rows), strict=True)
            self._written = [self._product(left.flatten(0, 1).mT, right.flatten(0, 1)) for left, right in sides]
        return self._written

    def _product(self, left: Tensor, right: Tensor) -> Tensor:
        """Some examples' G, one row each, in kept memory where there is any."""
        groups = self.left.shape[1]
        if self.room is None or narrow(left):
            return self._cut(product(left, right)).reshape(len(left) // groups, -1)
        left, right = wide(left), wide(right)
        place = self.room.take((len(left), left.shape[1], right.shape[2]), left)
        return torch.bmm(left, right, out=place).view(len(left) // groups, -1)

    def _inner(self, side: int, memo: Memo) -> Tensor:
        """Inner products of one side's rows, made once for all terms that share it."""
        values = (self.left, self.right)[side]
        key = None if self.keys is None else (self.keys[side], values.shape, values.dtype)
        if key is None or key not in memo:
            rows = values.flatten(0, 1)
            found = product(rows, rows.mT)
            if key is None:
                return found
            memo[key] = found
        return memo[key]

    def _sums(self) -> tuple[Tensor, ...]:
        """What `norm2` and `slack2` add up over pairs of positions, from one kernel.

        A compiler may make the lengths before the numbers are rounded, 2^-8 shorter at most: `UNIT` has that to spare.
        """
        if self._added is None:
            side = self._rounded()
            sides = [values.flatten(0, 2) for values in (self.left, self.right)]
            lengths = torch.linalg.vector_norm(wide(sides[side]), dim=-1)
            parts = inner_sums(sides[side], sides[1 - side], lengths, self.left.shape[2])
            self._added = parts.view(2, len(self.left), -1).sum(2).unbind()
        return self._added

    def only(self, kept: Tensor) -> Outer:
        rows, columns = self._sizes
        return Outer(kept_only(self.left[..., :rows], kept), kept_only(self.right[..., :columns], kept), self.shape)


@dataclass(eq=False)
class Gather:
    """Rows of a table: `index` (B, T), `rows` (B, T, d), `shape` of the table."""

    index: Tensor
    rows: Tensor
    shape: torch.Size

    def norm2(self, memo: Memo) -> Tensor:
        """Rows looked up more than once are added up first, in a slot of their own per example."""
        if self.index.shape[1] == 1:
            return square(self.rows)
        ordered, order = self.index.sort(dim=1)
        fresh = torch.ones_like(ordered)
        fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        slot = torch.empty_like(order).scatter_(1, order, fresh.cumsum(1) - 1)
        rows = wide(self.rows)
        return square(torch.zeros_like(rows).scatter_add(1, slot[..., None].expand_as(rows), rows))

    def slack2(self, memo: Memo) -> Tensor | float:
        return 0.0

    def weighted(self, weight: Tensor) -> Tensor:
        rows = (wide(self.rows) * weight[:, None, None]).flatten(0, 1)
        return rows.new_zeros(self.shape).index_add_(0, self.index.flatten(), rows)

    def dense(self) -> Tensor:
        rows = wide(self.rows)
        table = rows.new_zeros(len(self.index), *self.shape)
        return table.scatter_add_(1, self.index[..., None].expand_as(rows), rows)

    def only(self, kept: Tensor) -> Gather:
        return Gather(self.index, kept_only(self.rows, kept), self.shape)


@dataclass(eq=False)
class Viewed:
    """Terms of a `tensor` that holds each element of `parameter` at most once: a transpose, a slice, a cast."""

    terms: list[Term]
    tensor: Tensor
    parameter: Tensor

    def norm2(self, memo: Memo) -> Tensor:
        return norm2(self.terms, memo)

    def slack2(self, memo: Memo) -> Tensor | float:
        return slack2(self.terms, memo)

    def weighted(self, weight: Tensor) -> Tensor:
        total = weighted(self.terms, weight).to(self.tensor.dtype)
        return torch.autograd.grad(self.tensor, self.parameter, total, retain_graph=True)[0]

    def dense(self) -> Tensor:
        return pulled(self.tensor, self.parameter, self.terms)

    def only(self, kept: Tensor) -> Viewed:
        return Viewed([term.only(kept) for term in self.terms], self.tensor, self.parameter)


class Term(Protocol):
    """Per-example gradients of one parameter in some form."""

    def norm2(self, memo: Memo) -> Tensor: ...

    def slack2(self, memo: Memo) -> Tensor | float: ...

    def weighted(self, weight: Tensor) -> Tensor: ...

    def dense(self) -> Tensor: ...

    def only(self, kept: Tensor) -> Term: ...


def housed(terms: Iterable[Term], room: Room) -> None:
    """Let what these terms write out lie in kept memory."""
    for term in terms:
        if isinstance(term, Outer):
            term.room = room
            room.hold(term.left)
        elif isinstance(term, Viewed):
            housed(term.terms, room)


def pulled(tensor: Tensor, parameter: Tensor, terms: Sequence[Term]) -> Tensor:
    """Per-example gradients of a derived tensor, carried back to one of its parameters."""
    values = total(terms).to(tensor.dtype)
    return torch.autograd.grad(tensor, parameter, values, retain_graph=True, is_grads_batched=True)[0]


def total(terms: Sequence[Term]) -> Tensor:
    """The sum of all terms, written out: (B, *shape)."""
    found = terms[0].dense()
    for term in terms[1:]:
        found = found + term.dense()
    return found


def join(terms: Sequence[Term]) -> list[Term]:
    """Fewer terms with the same sum: like forms are joined."""
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


def norm2(terms: Sequence[Term], memo: Memo | None = None) -> Tensor:
    """Per-example squared norm of the sum of joined terms, exactly."""
    memo = {} if memo is None else memo
    if len(terms) == 1:
        return terms[0].norm2(memo)
    if len(terms) == 2 and isinstance(terms[0], Outer) and isinstance(terms[1], Gather):
        outer, gather = terms
        if outer.left.shape[1] == 1:
            return (outer.norm2(memo) + gather.norm2(memo) + 2 * cross(outer, gather)).clamp(min=0)
    return square(total(terms))


def slack2(terms: Sequence[Term], memo: Memo) -> Tensor | float:
    r"""Squared bound on what rounding adds to the sum of the terms: (\sum_j s_j)^2 <= m \sum_j s_j^2."""
    return len(terms) * sum((term.slack2(memo) for term in terms), start=0.0)


def weighted(terms: Sequence[Term], weight: Tensor) -> Tensor:
    r"""\sum_i c_i G_i over all terms."""
    found = terms[0].weighted(weight)
    for term in terms[1:]:
        found = found + term.weighted(weight)
    return found


def cross(outer: Outer, gather: Gather) -> Tensor:
    r"""<\sum_t l_t r_t^T, \sum_s e_{k_s} q_s^T> = \sum_{ts} l_t[k_s] (r_t . q_s), per example."""
    rows, columns = outer._sizes
    left, right = wide(outer.left[:, 0, :, :rows]), wide(outer.right[:, 0, :, :columns])
    index = gather.index[:, None, :].expand(-1, left.shape[1], -1)
    picked = left.gather(2, index)
    return (picked * (right @ wide(gather.rows).mT)).sum((1, 2))


def once(memo: Memo, key: int | None, values: Tensor) -> Tensor:
    """`square`, made once for all terms that share the values; not where one of them may have rounded them."""
    if key is None or values.dtype in REDUCED:
        return square(values)
    place = key, torch.Size((len(values), values.shape[1:].numel())), values.dtype
    if place not in memo:
        memo[place] = square(values)
    return memo[place]


def _squares(values: Tensor) -> Tensor:
    """Squared norm along the last axis."""
    return torch.linalg.vector_norm(wide(values), dim=-1).square()


def _join_outer(terms: Sequence[Outer]) -> Outer:
    """Joined along t; what aligned the sides was zeros, and is cut off again."""
    rows, columns = terms[0]._sizes
    left = torch.cat([term.left[..., :rows] for term in terms], dim=2)
    right = torch.cat([term.right[..., :columns] for term in terms], dim=2)
    return Outer(left, right, terms[0].shape)


def _join_gather(terms: Sequence[Gather]) -> Gather:
    index = torch.cat([term.index for term in terms], dim=1)
    rows = torch.cat([term.rows for term in terms], dim=1)
    return Gather(index, rows, terms[0].shape)
