r"""Clipping with activations that are computed again (torch.utils.checkpoint): one forward pass, two backward ones.

No gradient can be weighed before all of its parts are known, so a single backward pass would have to keep what
checkpointing throws away. Here the first pass adds up squared norms, and the second weighted sums:

    pass 1   |G_i|^2 = \sum_p |G_ip|^2        pass 2   S_p = \sum_i c_i G_ip        for every parameter p

In both, a checkpointed part runs again under a capture of its own when gradients reach it; what that saw is dropped as
soon as its parameters are done. Random numbers of torch, Python and numpy are the forward pass's own each time, so both
passes see one gradient. A part that computes anything else than the first time is refused, because what was measured
must be what is added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import set_checkpoint_early_stop

from ....core import BadInput
from ..arrays import REDUCED, full_float32
from ..capture.coins import from_here
from ..capture.errors import Overwritten, unseen
from ..capture.kept import Record, Source
from ..capture.level import Level
from ..capture.nested import nested, watching
from ..capture.watch import Capture, flat
from ..sums import (
    Clipped,
    Forward,
    Terms,
    by_parameter,
    for_sums,
    group_slack,
    group_squares,
    group_sway,
    shown,
    unbroken,
    watched,
    weighted_sums,
    without,
)
from ..weigh import FLAT, Weigh
from .hooks import checkpointed

SAME = {False: 2.0**-14, True: 2.0**-9}
"""How far a second run may be off, as a share of an output's length, in float32 and in reduced precision: a quarter of
what the noise makes room for. Another order of adding up is far below it, other numbers are above."""


@dataclass(eq=False)
class Slot:
    """An operation that consumed parameters; in a checkpointed part, `record` exists only during a recomputation."""

    names: frozenset[str]
    leaf: Tensor | None
    record: Record | None
    sources: Mapping[int, Source]
    part: Part | None
    mark: Tensor | None = None
    gradient: Tensor | None = None
    arrived: bool = False

    @property
    def ready(self) -> bool:
        return self.arrived and (self.record is not None or self.gradient is None)

    def done(self) -> None:
        self.gradient, self.arrived = None, False
        if self.part is not None:
            self.record, self.sources = None, {}


@dataclass(eq=False)
class Part:
    """A checkpointed part and the `slots` that its recomputation fills."""

    capture: Again
    function: Callable[..., Any]
    slots: list[Slot] = field(default_factory=list)
    waiting: list[Slot] = field(default_factory=list)
    results: list[Tensor] = field(default_factory=list)
    handle: Any = None
    coins: Callable[[], AbstractContextManager[Any]] = nullcontext

    def begin(self) -> None:
        """Save something through autograd: asking for it triggers the recomputation, whatever else the part saves."""
        self.handle = _saved().grad_fn
        self.coins = from_here()

    def again(self, *args: Any, **kwargs: Any) -> Any:
        """Recompute the part under its own capture, and fill the slots."""
        _saved()
        parent = self.capture
        level = parent.level
        capture = Capture(parent.parameters, level, parent.copies, parent.owned, parent.lasting)
        capture.sources.update(parent.sources)
        capture.seen = parent.seen
        with self.coins(), level.entered(), parent.within(), checkpointed(capture), nested(capture), capture:
            result = self.function(*args, **kwargs)
            results = [_mark(level.under(part)[0] if level.direct(part) else part) for part in flat((result,), {})]
        capture.check_caught()
        _check_same([slot.mark for slot in self.slots], [_mark(record.output) for record in capture.records])
        _check_same(self.results or results, results)
        self.results = results
        for slot, record in zip(self.slots, capture.records, strict=True):
            slot.record = replace(record, output=record.output.new_empty(()).expand(record.output.shape))
            slot.sources = capture.sources
        return result


def _saved() -> Tensor:
    """A tensor for which autograd saves something, made outside any capture."""
    with torch._C.DisableTorchFunction():
        return torch.zeros((), requires_grad=True).exp()


@dataclass(eq=False)
class Again(Capture):
    """A capture that drops what happens in checkpointed parts, and captures it again when gradients arrive."""

    slots: list[Slot] = field(default_factory=list)
    within: Callable[[], AbstractContextManager[object]] = nullcontext
    part: Part | None = None
    again: list[Part] = field(default_factory=list)
    hooks: list[Any] = field(default_factory=list)
    others: list[Tensor] | None = None
    batch: int = 0
    fold: Callable[[Terms], None] | None = None

    def _keep(self, record: Record) -> None:
        names = frozenset().union(*(self.sources[id(tensor)].parents for tensor in record.used))
        output = record.output
        leaf = output if output.grad_fn is None else None
        if self.part is None:
            slot = Slot(names, leaf, record, self.sources, None)
        else:
            slot = Slot(names, leaf, None, {}, self.part, _mark(output))
            self.part.slots.append(slot)
        self.slots.append(slot)
        if output.grad_fn is not None:
            place = output.output_nr
            hook = output.grad_fn.register_hook(lambda _, found: self._arrive(slot, found[place]))
            self.hooks.append(hook)

    @contextmanager
    def opened(self, function: Callable[..., object] | None) -> Iterator[Part | None]:
        """Context for a checkpointed part that will be recomputed; parts nested inside it are not."""
        if self.part is not None or function is None:
            yield None
            return
        self.part = Part(self, function)
        self.again.append(self.part)
        try:
            yield self.part
        finally:
            self.part = None

    def backward(self, losses: Tensor, fold: Callable[[Terms], None], *, last: bool) -> None:
        """Call `fold` with the terms of all parameters, a few at a time."""
        self.batch, self.fold = len(losses), fold
        self.groups = _groups(self.slots)
        leaves = [slot for slot in self.slots if slot.leaf is not None]
        wanted = [slot.leaf for slot in leaves if slot.leaf is not None] + list(self.parameters.values())
        if self.others is None:
            self.others = _leaves(losses, wanted)
        found: Any = [None] * len(wanted)
        if losses.requires_grad:
            with watching(self):
                found = torch.autograd.grad(
                    losses, wanted + self.others, torch.ones_like(losses), retain_graph=not last, allow_unused=True
                )
            self.check_caught()
        for name, gradient in zip(self.parameters, found[len(leaves) :], strict=False):
            if gradient is not None:
                raise unseen(name)
        for slot, gradient in zip(leaves, found, strict=False):
            self._arrive(slot, gradient)
        for part in self.again:
            if part.waiting:
                part.handle._saved_result  # noqa: B018
        for slot in self.slots:  # what the losses do not depend on
            slot.arrived = slot.arrived or slot.names in self.groups
        for slot in self.slots:
            self._finish(slot)
        if self.groups:  # left out of one pass it would not be clipped in the other
            raise unseen(", ".join(sorted(set().union(*self.groups))))

    def _arrive(self, slot: Slot, gradient: Tensor | None) -> None:
        slot.gradient, slot.arrived = gradient, True
        if slot.part is None:
            self._finish(slot)
            return
        slot.part.waiting.append(slot)
        if slot.record is not None:
            for other in slot.part.waiting:
                self._finish(other)
            slot.part.waiting.clear()

    def _finish(self, slot: Slot) -> None:
        """Fold the terms of the slot's parameters if no other operation on them is still to come."""
        group = self.groups.get(slot.names, [])
        if not group or not all(other.ready for other in group):
            return
        for other in group:
            self.groups.pop(other.names, None)
        names = frozenset().union(*(other.names for other in group))
        seen = Capture({name: self.parameters[name] for name in sorted(names)}, self.level)
        seen.sources = {key: source for other in group for key, source in other.sources.items()}
        found = [(other.record, other.gradient) for other in group if other.record is not None]
        if any(slot.part is None and slot.record.overwritten for slot in group if slot.record):
            raise Overwritten
        seen.records = [record for record, _ in found]
        with torch.no_grad():
            assert self.fold is not None
            self.fold(by_parameter(seen, [gradient for _, gradient in found], self.batch))
        for other in group:
            other.done()

    def close(self) -> None:
        """Remove the hooks, which form reference cycles with what they hold."""
        for hook in self.hooks:
            hook.remove()
        self.hooks, self.slots, self.records, self.again, self.others = [], [], [], [], None


def _leaves(losses: Tensor, known: list[Tensor]) -> list[Tensor]:
    """Other leaves of the graph, inputs that require a gradient: without them the backward pass would stop early."""
    seen, found, todo = set(), [], [losses.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [further for further, _ in node.next_functions]
            found += [node.variable] if hasattr(node, "variable") else []
    return [leaf for leaf in found if all(leaf is not other for other in known)]


@torch.no_grad()
def _mark(output: Tensor) -> Tensor:
    """A summary of an operation's output: norm, sum, a position-weighted sum, and how far these may be off."""
    values = output.detach().flatten().float()
    length = values.norm()
    places = torch.linspace(-1, 1, len(values), device=values.device)
    return torch.stack((length, values.sum(), values @ places, SAME[output.dtype in REDUCED] * length))


@torch.no_grad()
def _check_same(first: list[Any], again: list[Tensor]) -> None:
    """Refuse a recomputation that differs from the first run by more than rounding."""
    if not first:
        return
    theirs, ours = torch.stack(first), torch.stack(again)
    off = (theirs - ours).abs() > theirs[:, -1:].clamp(min=1e-30)
    if bool((off & theirs.isfinite() & ours.isfinite()).any()):
        raise BadInput(
            "A checkpointed part computes other numbers when it runs again, so it cannot be clipped.",
            fix="Draw random numbers with torch, or run the part as it is.",
        )


def _groups(slots: list[Slot]) -> dict[frozenset[str], list[Slot]]:
    """Group the operations that share a parameter, directly or indirectly, keyed by the names that they use."""
    found: dict[str, list[Slot]] = {}
    for slot in slots:
        touched = {id(found[name]): found[name] for name in slot.names if name in found}
        group = [*chain(*touched.values()), slot]
        found.update({name: group for other in group for name in other.names})
    return {slot.names: found[next(iter(slot.names))] for slot in slots}


def clipped_again(
    forward: Forward,
    mask: Tensor,
    clip_norm: float | Tensor,
    weigh: Weigh = FLAT,
    *,
    within: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Clipped:
    """Compute what `clipped_sum` computes, with checkpointing's memory; parts are recomputed `within` a context."""
    known = forward.parameters, Level(len(mask), forward.traced), forward.copies, forward.owned, forward.lasting
    capture = Again(*known, within=within)
    try:
        with set_checkpoint_early_stop(False):
            losses = watched(forward, capture)
        kept = unbroken(capture, mask)
        return without(_twice(capture, losses, kept, clip_norm, weigh), kept)
    finally:
        capture.close()


def _twice(capture: Again, losses: Tensor, mask: Tensor, clip_norm: float | Tensor, weigh: Weigh) -> Clipped:
    squares = group_squares({}, losses.detach(), weigh)
    slack2, sway2 = torch.zeros_like(squares), torch.zeros_like(squares)

    def measure(terms: Terms) -> None:
        memo: Any = {}
        with full_float32():
            squares.add_(group_squares(terms, losses, weigh, memo))
            slack2.add_(group_slack(terms, squares, weigh, memo).square())
            sway2.add_(group_sway(terms, squares, weigh, memo).square())

    capture.backward(losses, measure, last=False)
    norms, kept = shown(squares, losses)
    weight = weigh(squares.sqrt() + slack2.sqrt(), mask & kept, clip_norm)
    weight, _ = for_sums(sway2.sqrt(), weight, mask, clip_norm, weigh.most, norms.dtype)
    sums = {name: torch.zeros_like(tensor, dtype=weight.dtype) for name, tensor in capture.parameters.items()}
    whole = bool(kept.all())

    def add(terms: Terms) -> None:
        if not whole:
            terms = {name: [term.only(kept) for term in parts] for name, parts in terms.items()}
        with full_float32():
            sums.update(weighted_sums({name: sums[name] for name in terms}, terms, weight, weigh))

    capture.backward(losses, add, last=True)
    return Clipped(sums, norms, losses.detach(), mask & kept & (weight < 1).any(0))
