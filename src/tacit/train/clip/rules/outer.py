r"""Sums of outer products, one per example: the gradient of a linear layer or a convolution.

    G_i = \sum_t l_it r_it^T                                A_i = \sum_t |l_it| |r_it| >= |G_i|

The squared norm of G_i is computed in one of two ways. Either G_i is written out, and the sum then adds c_i times these
same numbers. Or it is a sum of inner products, q_i = \sum_{ts} (l_t . l_s)(r_t . r_s). Positions may cancel: G_i may be
far shorter than A_i, and q_i smaller than its own rounding error, which is at most k A_i^2 (`inner_error`). So q_i + k
A_i^2 is used, which is never too small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..arrays import (
    REDUCED,
    Room,
    added,
    aligned,
    coarse,
    crossed,
    diagonal,
    kept_only,
    narrow,
    product,
    square,
    squares,
    summed,
    wide,
)
from ..compile.inner import inner_sums, pays
from ..compile.scale import scaled, scales
from ..cost import inner_is_cheaper
from ..rounding import LARGE, LONG, LOST, MOST, SHORT, UNIT, cut, inner_error, links

PIECE = 2**24
EVEN = 2.0**-12
Memo = dict[tuple[int, torch.Size, torch.dtype], Tensor]


@dataclass(eq=False)
class Outer:
    """Sums of outer products, one per group: `left` (B, groups, T, p), `right` (B, groups, T, d), `shape` of W.

    W is read as (groups, p, d), row by row. `keys` identify the two factors among all terms of a step. Layers that
    share an input (queries, keys and values) or an output gradient (both weights of an LSTM) share its inner products.
    The exception are inner products that a compiled step adds up in a kernel: recomputing half of them costs as much as
    keeping all.
    """

    left: Tensor
    right: Tensor
    shape: torch.Size
    keys: tuple[int, int] | None = None
    room: Room | None = None
    most: int = MOST
    _written: list[Tensor] | None = field(default=None, repr=False)
    _sizes: tuple[int, int] = field(default=(0, 0), repr=False)
    _added: tuple[Tensor, ...] | None = field(default=None, repr=False)
    _squared: Tensor | None = field(default=None, repr=False)
    _both2: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Under autocast one factor is kept in reduced precision, and the product was computed from both in it."""
        self._sizes = self.left.shape[-1], self.right.shape[-1]
        if self.left.dtype != self.right.dtype:
            least = min(self.left.dtype, self.right.dtype, key=lambda kind: kind.itemsize)
            self.left, self.right = self.left.to(least), self.right.to(least)
        if narrow(self.left):
            self.left, self.right = aligned(self.left), aligned(self.right)

    def norm2(self, memo: Memo) -> Tensor:
        """|G|^2, never too small, by the cheaper of two forms: q + k A^2, or the square of G written out and kept."""
        self._squared = self._measured(memo) if self._squared is None else self._squared
        return self._squared

    def _measured(self, memo: Memo) -> Tensor:
        if self.left.shape[2] == 1:
            left, right = (side2.view(len(self.left), -1) for side2 in self._sides2(memo))
            return _in_range((left * right).sum(1), left.sum(1) + right.sum(1))
        if not self._by_inner():
            return torch.cat([square(piece) for piece in self._pieces()])
        error = inner_error(self.left.shape[-1] + self.right.shape[-1], self.left.shape[2], self._kind())
        if pays(self.left, self.right):
            inner, _, reach, other2, length2 = self._sums()
            return _in_range(inner.clamp(min=0) + error * reach.square(), other2 + length2)
        inner, other = (self._inner(side, memo) for side in (0, 1))
        found = (inner * other).sum(-1).double().sum(-1).clamp(min=0) + error * self._reaches(memo).square()
        largest = (diagonal(inner) + diagonal(other)).double().sum(1)
        found, largest = (part.view(len(self.left), -1).sum(1) for part in (found, largest))
        return _in_range(found, largest)

    def reach(self, memo: Memo) -> Tensor:
        r"""A = \sum_t |l_t| |r_t|, in float64; over groups the root of the sum of squares."""
        if self.left.shape[2] == 1:
            return self.norm2(memo).sqrt()
        if self._by_inner() and pays(self.left, self.right):
            return self._sums()[2]
        return self._reaches(memo).view(len(self.left), -1).square().sum(1).sqrt()

    def _reaches(self, memo: Memo) -> Tensor:
        """The reach of every group, (B groups)."""
        if self._by_inner():
            inner, other = (diagonal(self._inner(side, memo)).double() for side in (0, 1))
            return (inner.clamp(min=0).sqrt() * other.clamp(min=0).sqrt()).sum(1)
        left, right = (squares(side).sqrt() + LOST * side.shape[-1] ** 0.5 for side in (self.left, self.right))
        return (left * right).sum(2).flatten()

    def slack2(self, memo: Memo) -> Tensor | float:
        r"""The squared error, per unit of weight, of what is added beyond c_i G_i and of what underflow hides.

        In reduced precision on a GPU it is u^2 \sum_{ts} |l_t| |l_s| |r_t.r_s|, where l is the factor that is rounded.
        """
        least = self.shape.numel() * LOST**2
        if self.left.shape[2] == 1:
            left, right = (side2.view(len(self.left), -1) for side2 in self._sides2(memo))
            lost = 3 * LOST**2 * (self.left.shape[-1] * right + self.right.shape[-1] * left).sum(1) + 3 * least
            return _both(unit(self.left) ** 2 * self.norm2(memo), lost) if unit(self.left) else lost
        if not self._by_inner():
            return coarsened(coarse(self._pieces()[0]), self.norm2(memo), least)
        if not unit(self.left):
            return least
        if not narrow(self.left):
            return coarsened(unit(self.left), self.reach(memo).square(), least)
        if pays(self.left, self.right):
            _, bound, _, other2, length2 = self._sums()
        else:
            side = self._rounded()
            rows2, others2 = (diagonal(self._inner(one, memo)).clamp(min=0) for one in (side, 1 - side))
            other = self._inner(1 - side, memo).abs()
            bound = (rows2.sqrt()[:, :, None] * rows2.sqrt()[:, None, :] * other).sum(-1).double().sum(-1)
            bound, other2, length2 = (
                part.double().view(len(self.left), -1).sum(1) for part in (bound, others2.sum(1), rows2.sum(1))
            )
        most = max(self.left.shape[-1], self.right.shape[-1]) * self.left.shape[2] * LOST**2
        return _both(unit(self.left) ** 2 * bound, 3 * most * (other2 + length2 + self.left.shape[1:3].numel() * most))

    def sway2(self, memo: Memo) -> Tensor:
        """How far rounding may move the sum over examples, per unit of weight and of ROUND, squared."""
        if self._by_inner() or self.left.shape[2] == 1:
            return self.links**2 * self.reach(memo).square()
        return self.links**2 * self.norm2(memo)

    @property
    def whole(self) -> bool:
        return self.left.shape[2] == 1 or not self._by_inner()

    @property
    def depth(self) -> int:
        return self.left.shape[2]

    @property
    def links(self) -> int:
        batch, _, positions, _ = self.left.shape
        if self._by_inner() or positions == 1:
            return links(batch * positions, self._length())
        pieces = self._pieces()
        return links(len(pieces[0]), SHORT) + len(pieces)

    def _length(self) -> int:
        """The length of the partial sums over examples; shorter where positions may cancel."""
        batch, _, positions, _ = self.left.shape
        return cut(batch, self.most) if positions == 1 else LONG

    def weighted(self, weight: Tensor) -> Tensor:
        r"""\sum_i c_i G_i, in float64 where the weights are."""
        if self._written is not None:
            weights = weight.split([len(piece) for piece in self._written])
            return added(summed(*both) for both in zip(weights, self._written, strict=True)).view(self.shape)
        sides, side = [self.left, self.right], self._rounded()
        if scales(sides[side]):
            sides[side] = scaled(sides[side], weight)
        elif narrow(self.left):
            sides[side] = (wide(sides[side]) * weight.view(-1, 1, 1, 1)).to(sides[side].dtype)
        else:
            sides = [wide(values) for values in sides]
            sides[side] = sides[side] * weight.view(-1, 1, 1, 1)
        if self.left.shape[1] == 1 and not narrow(self.left):
            left, right = (values.flatten(0, 2) for values in sides)
            return crossed(left, right, self._length(), self.room).view(self.shape)
        left, right = (values.transpose(0, 1).flatten(1, 2) for values in sides)
        return self._cut(crossed(left, right, self._length())).reshape(self.shape)

    def _kind(self) -> torch.dtype:
        """The dtype of inner products: bfloat16 as it is on a GPU, anything else in float64."""
        return torch.bfloat16 if narrow(self.left) else torch.float64

    def _sides2(self, memo: Memo) -> tuple[Tensor, Tensor]:
        """Squared norms of the rows of both factors; (B, groups) if there is one position."""
        if self._both2 is None:
            if self.left.shape[1] == 1:
                left, right = self.keys or (None, None)
                self._both2 = once(memo, left, self.left), once(memo, right, self.right)
            else:
                self._both2 = squares(self.left).flatten(1), squares(self.right).flatten(1)
        return self._both2

    def _by_inner(self) -> bool:
        batch, groups, positions, rows = self.left.shape
        return inner_is_cheaper(positions, rows, self.right.shape[-1], batch * groups, self.left.device.type)

    def _rounded(self) -> int:
        """The factor that is multiplied by the weights: the one with fewer entries."""
        return 0 if self.left.numel() <= self.right.numel() else 1

    def _cut(self, found: Tensor) -> Tensor:
        """Remove the zeros that were added to align the two factors."""
        return found[..., : self._sizes[0], : self._sizes[1]]

    def dense(self) -> Tensor:
        return torch.cat(self._pieces()).view(-1, *self.shape)

    def _pieces(self) -> list[Tensor]:
        """G written out and kept, some examples at a time: memory in moderate pieces is reused, not mapped again."""
        if self._written is None:
            rows = len(self.left)
            if self.left.device.type == "cpu":
                rows = max(1, PIECE // (4 * self.shape.numel()))
            sides = zip(self.left.split(rows), self.right.split(rows), strict=True)
            self._written = [self._product(left.flatten(0, 1).mT, right.flatten(0, 1)) for left, right in sides]
        return self._written

    def _product(self, left: Tensor, right: Tensor) -> Tensor:
        """G of some examples, one row each, in reused memory if there is some."""
        groups = self.left.shape[1]
        if self.room is None or narrow(left):
            return self._cut(product(left, right)).reshape(len(left) // groups, -1)
        left, right = wide(left), wide(right)
        place = self.room.take((len(left), left.shape[1], right.shape[2]), left)
        return torch.bmm(left, right, out=place).view(len(left) // groups, -1)

    def _inner(self, side: int, memo: Memo) -> Tensor:
        """Inner products of one factor's rows, computed once for all terms that share it."""
        values = (self.left, self.right)[side]
        key = None if self.keys is None else (self.keys[side], values.shape, values.dtype)
        if key is None or key not in memo:
            rows = values.flatten(0, 1)
            rows = rows if narrow(rows) else rows.double()
            found = product(rows, rows.mT)
            if key is None:
                return found
            memo[key] = found
        return memo[key]

    def _sums(self) -> tuple[Tensor, ...]:
        r"""q, what `slack2` adds up, A, \sum_t |r_t|^2 and \sum_t |l_t|^2, from one kernel; l is the rounded side.

        A compiler may make the lengths before the numbers are rounded, 2^-8 shorter at most: `UNIT` has that to spare.
        """
        if self._added is None:
            side = self._rounded()
            sides = [values.flatten(0, 2) for values in (self.left, self.right)]
            lengths = torch.linalg.vector_norm(wide(sides[side]), dim=-1)
            parts = inner_sums(sides[side], sides[1 - side], lengths, self.left.shape[2])
            inner, bound, reach, other2 = parts.double().sum(2).view(4, len(self.left), -1).unbind()
            length2 = lengths.square().view(len(self.left), -1).double()
            self._added = inner.sum(1), bound.sum(1), reach.square().sum(1).sqrt(), other2.sum(1), length2.sum(1)
        return self._added

    def only(self, kept: Tensor) -> Outer:
        rows, columns = self._sizes
        return Outer(kept_only(self.left[..., :rows], kept), kept_only(self.right[..., :columns], kept), self.shape)


def once(memo: Memo, key: int | None, values: Tensor) -> Tensor:
    """`square`, computed once for all terms that share the values, unless their number type is a rounded one."""
    if key is None or values.dtype in REDUCED:
        return square(values)
    place = key, torch.Size((len(values), values.shape[1:].numel())), values.dtype
    if place not in memo:
        memo[place] = square(values)
    return memo[place]


def unit(values: Tensor) -> float:
    """The relative rounding of one factor, or of both together, in the sum: bfloat16, TF32, or negligible."""
    return UNIT if narrow(values) else coarse(values)


def coarsened(share: float, size2: Tensor, least: float) -> Tensor | float:
    """What rounding of factors adds, as a share of a squared norm, and what underflow hides."""
    return _both(share**2 * size2, torch.full_like(size2, least)) if share else least


def _in_range(found: Tensor, largest: Tensor) -> Tensor:
    """Infinite where a factor is longer than LARGE: underflow in the other factor would matter there."""
    return torch.where(largest <= LARGE**2, found, torch.inf)


def _both(first: Tensor, second: Tensor) -> Tensor:
    """An upper bound on (a + b)^2 from a^2 and b^2, where b is usually far smaller."""
    return (1 + EVEN) * first + (1 + 1 / EVEN) * second
