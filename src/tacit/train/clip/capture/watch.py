"""Capture a forward pass at the level of operations: which of them consume a trainable parameter, and with what.

No module is wrapped or hooked. The pass runs inside a `Level`, where every tensor is either per-record or shared by all
records, and every torch operation passes through the mode once:

- an operation on shared tensors only (parameters, buffers, constants) makes a *derived* tensor, such as a transposed or
  standardised weight. It is computed as usual, and the parameters it came from are noted;
- an operation that combines a parameter (or a derived tensor) with a per-record tensor *consumes* the parameter. It
  runs with the parameter detached, its output is kept, and the output's gradient is later turned into per-example
  gradients.

Detached parameters receive no gradient of the unclipped loss. If one does, an operation was missed, and `gradients`
reports the parameter by name.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointError

from ..recompute.hooks import lost
from ..rules.operators import EXPANSIONS, RULES
from .coins import tossed
from .errors import (
    Failing,
    Overwritten,
    Remembered,
    caught,
    kept_data,
    looked_on,
    no_rule,
    own_rule,
    shaped,
    together,
    unseen,
    unwatched,
)
from .functions import (
    DROPOUTS,
    FACTORIES,
    as_known,
    gives_shape,
    in_place,
    name_of,
    one_to_one,
    opened,
    out_of_place,
    own_vmap_rule,
    public_coin,
    refuse,
    shaped_by_values,
    stranger,
)
from .kept import Record, Source
from .level import Level
from .nested import watching
from .onlookers import onlooker
from .questions import unanswered
from .ranges import bounded
from .rows import ROWS
from .total import by_values, failing, holds_records, with_constants
from .unwritten import called


@dataclass(eq=False)
class Capture(TorchFunctionMode):
    """One captured forward pass of `level.batch` records.

    `copies`: return outputs as copies, because the model writes into them. `owned`: tensors of zeros, ones and the like
    are made per record, because the model writes records into them. `lasting`: tensors that outlive the pass.
    """

    parameters: Mapping[str, Tensor]
    level: Level
    copies: bool = False
    owned: bool = False
    lasting: Sequence[Tensor] = ()
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.sources = {id(tensor): Source(tensor, frozenset((name,))) for name, tensor in self.parameters.items()}
        self.seen: dict[int, weakref.ref[Tensor]] = {}
        self.broken: list[Tensor] = []
        self.parts = self.raised = 0
        self.failing: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        func, args, kwargs = as_known(func, args, kwargs or {})
        tensors = list(flat(args, kwargs))
        used = [tensor for tensor in tensors if id(tensor) in self.sources]
        private = bool([tensor for tensor in tensors if self._own(tensor)])
        refuse(func, args, kwargs, private)
        if what := onlooker(func, tensors):
            raise looked_on(what)
        if private and (name := own_vmap_rule(func)):
            raise own_rule(name)
        if tensors and (name := stranger(func)):
            raise unwatched(name)
        if private and shaped_by_values(func, args, kwargs, self.level.owns):
            raise shaped(name_of(func))
        if private and in_place(func, kwargs) and not self.level.owns(tensors[0]):
            self._check_written(tensors[0])
        if private:
            args, kwargs = self._in_range(func, args, kwargs)
        try:
            result = self._carried_out(func, args, kwargs, used, private)
        except Exception as error:
            result = self._without_values(error, func, args, kwargs, used, private)
        if private and not gives_shape(func) and not all(map(self.level.owns, flat((result,), {}))):
            raise together(name_of(func))
        if private and (what := unanswered(func, result, tensors, self.level)):
            raise looked_on(what)
        if self.owned and func in FACTORIES:
            result = self._for_each(result)
        self.note(result)
        return result

    def _carried_out(self, func: Any, args: Any, kwargs: Any, used: list[Tensor], private: bool) -> object:
        if used and torch.is_grad_enabled():
            return self._watched(func, args, kwargs, used, private)
        if private and func is Tensor.requires_grad_:  # gradients flow to all records' tensors underneath
            return args[0]
        if private and func is Tensor.__iter__:  # an iterator that the capture does not see through
            self.note(rows := args[0].unbind(0))
            return iter(rows)
        if private and func in ROWS:
            return ROWS[func](self.level, *args, **kwargs)
        if not private and public_coin(func, args, kwargs):
            with self.level.left():
                return tossed(func, args, kwargs)
        return called(func, args, kwargs)

    def _without_values(
        self, error: Exception, func: Any, args: Any, kwargs: Any, used: list[Tensor], private: bool
    ) -> object:
        """A result for an operation that raised at the values of records, in a pass that will be discarded.

        Only for the first such operation are the records noted: the inputs of later ones may be meaningless.
        """
        own = [tensor for tensor in flat(args, kwargs) if holds_records(tensor, self.level)]

        def run(table: dict[int, Tensor]) -> Any:
            self.note(list(table.values()))
            return self._carried_out(func, replaced(args, table), replaced(kwargs, table), used, private)

        found = with_constants(run, own, self.level) if own and by_values(error) else None
        if found is None:
            self.raised += bool(own)
            raise error
        result, runs = found
        if self.failing is None:
            self.failing = failing(runs, self.level.batch, own[0].device)
        return args[0] if in_place(func, kwargs) else result

    def _own(self, tensor: Tensor) -> bool:
        """Whether a tensor is per-record; refuses one that an earlier pass made."""
        if not self.level.owns(tensor):
            return False
        if self.level.direct(tensor):
            known = self.seen.get(id(tensor))
            if known is None or known() is not tensor:
                raise Remembered
        return True

    def check_own(self, results: Iterable[Tensor]) -> None:
        """Check that returned tensors were made in this pass, as is checked for the inputs of operations."""
        for tensor in results:
            self._own(tensor)

    def check_caught(self) -> None:
        """Refuse code that caught an operation's exception: it would treat all records alike because of one."""
        if self.raised:
            raise caught()
        if self.failing is not None:
            raise Failing(self.failing)

    def note(self, result: object) -> None:
        """Remember that this pass has made these tensors."""
        for tensor in flat((result,), {}):
            if self.level.direct(tensor):
                self.seen[id(tensor)] = weakref.ref(tensor)

    def enter(self, tensor: Tensor) -> Tensor:
        """A tensor (B, ...) of all records, as code for one record sees it: a batch of one."""
        self.note(inside := self.level.one(tensor))
        self.note(alone := inside.unsqueeze(0))
        return alone

    def _for_each(self, result: object) -> object:
        """A per-record copy of a new tensor (zeros, say), so that a record's values may be written into it."""
        if not isinstance(result, Tensor) or self.level.owns(result):
            return result
        return self.level.one(result.expand(self.level.batch, *result.shape).clone())

    def run(self, func: Any, *args: Any) -> Any:
        """Run a function under the capture, for an expansion whose arguments were checked when it was called."""
        self.note(args)
        with self:
            return func(*args)

    def _check_written(self, written: Tensor) -> None:
        """Refuse to write records into a tensor that outlives the pass, by any alias (`.data`, a view)."""
        lasting = {_memory(tensor) for tensor in (*self.parameters.values(), *self.lasting)} - {None}
        if _memory(written) in lasting:
            raise kept_data()

    def _in_range(self, func: Any, args: Any, kwargs: Any) -> tuple[object, object]:
        """Clamp the indices of records into range; a record with one out of range will contribute nothing."""
        args, kwargs, outside = bounded(func, args, kwargs, self.level)
        if outside is not None:
            self.note((args, kwargs))
            self.broken.append(outside)
        return args, kwargs

    def _watched(self, func: Any, args: Any, kwargs: Any, used: list[Tensor], private: bool) -> object:
        """Run an operation that reads a parameter or a tensor derived from one."""
        if private and func in EXPANSIONS:
            return EXPANSIONS[func](self, *args, **kwargs)
        if private and func not in RULES and (body := opened(func)) is not None:
            with self:
                return body(*args, **kwargs)
        if private and (plain := out_of_place(func)) is not None:
            with self:  # rules want what the first argument was
                return args[0].copy_(plain(args[0].clone(), *args[1:], **kwargs))
        if private:
            return self._consume(func, args, kwargs, used)
        if func in DROPOUTS and args and id(args[0]) in self.sources:
            return self._dropped(func, args, kwargs, used)
        return self._derive(func, args, kwargs, used)

    def _dropped(self, func: Any, args: Any, kwargs: Any, used: list[Tensor]) -> object:
        """Dropout of a parameter, which falls otherwise for every record: a factor of the record's own."""
        factor = func(torch.ones_like(args[0], requires_grad=False), *args[1:], **kwargs)
        if not self.level.owns(factor):  # none falls
            return self._derive(func, args, kwargs, used)
        self.note(factor)
        return self.run(torch.mul, args[0], factor)

    def _derive(self, func: Any, args: Any, kwargs: Any, used: list[Tensor]) -> object:
        result = called(func, args, kwargs)
        if any(map(self.level.owns, flat((result,), {}))) and not any(map(self.level.owns, flat(args, kwargs))):
            raise no_rule(func, self.names(used), "it draws random numbers of every record's own")
        parents = frozenset().union(*(self.sources[id(tensor)].parents for tensor in used))
        same = len(used) == 1 and self.sources[id(used[0])].one_to_one and one_to_one(func, args)
        for place, tensor in enumerate(flat((result,), {})):
            if tensor.requires_grad and id(tensor) not in self.sources:
                first = self.sources[id(used[0])]
                made = partial(_again, first, func, args, kwargs, place, tensor) if same else Source.made
                self.sources[id(tensor)] = Source(tensor, parents, same, made)
        if in_place(func, kwargs) and args[0].requires_grad:
            self._mixed(args[0], parents)
        return result

    def _mixed(self, written: Tensor, parents: frozenset[str]) -> None:
        """A tensor that parameters were written into comes from them too, and so do tensors that share its memory."""
        memory = _memory(written)
        alike = [source for source in self.sources.values() if _memory(source.tensor) == memory]
        parents = parents.union(*(source.parents for source in alike))
        for tensor in (written, *(source.tensor for source in alike)):
            if not tensor.is_leaf:
                self.sources[id(tensor)] = Source(tensor, parents, one_to_one=False)

    def _consume(self, func: Any, args: Any, kwargs: Any, used: list[Tensor]) -> Any:
        bare = {id(tensor): tensor.detach() for tensor in used}
        function = ROWS.get(func)
        given = replaced(args, bare), replaced(kwargs, bare)
        output = func(*given[0], **given[1]) if function is None else function(self.level, *given[0], **given[1])
        found = list(flat((output,), {}))
        if output is None:
            raise no_rule(func, self.names(used), "it writes a parameter into another tensor")
        if not any(self.level.owns(tensor) for tensor in found):  # only shapes or kinds of the records' were asked for
            return self._derive(func, args, kwargs, used)
        if any(tensor.is_complex() for tensor in found):
            raise no_rule(func, self.names(used), "its numbers are complex")
        if not any(tensor.is_floating_point() for tensor in found):
            return output
        if not isinstance(output, Tensor):
            raise no_rule(func, self.names(used), "it returns several tensors")
        if not self.level.direct(output):
            raise no_rule(func, self.names(used), "it runs inside torch.func")
        values, axis = self.level.under(output)
        if not values.requires_grad:
            values = self.level.leaf(values)
            output = self.level.one(values, axis)
        self.keep(func, args, kwargs, used, values, lambda tensor: tensor.movedim(axis, 0) if axis else tensor)
        return output.clone() if self.copies else output

    def keep(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        used: Iterable[Tensor],
        values: Tensor,
        first: Callable[[Tensor], Tensor],
    ) -> None:
        """Record that `func` consumed the parameters in `args`; `values` will receive its output's gradient."""
        whole = {id(tensor): self.level.all(tensor) for tensor in flat(args, kwargs) if self.level.direct(tensor)}
        own = frozenset(id(tensor) for tensor in whole.values())
        args, kwargs = replaced(args, whole), replaced(kwargs, whole)
        self._keep(Record(func, args, kwargs, values, tuple(used), own, values._version, first, _versions(used)))

    def also(self, func: Any, args: tuple[Any, ...], values: Tensor, first: Callable[[Tensor], Tensor]) -> None:
        """Record explicitly that `func` consumed the parameters in `args`, with the gradient that `values` will
        receive.

        Tensors in `args` that are not parameters hold all records along the first axis.
        """
        used = tuple(tensor for tensor in flat(args, {}) if id(tensor) in self.sources)
        if used:
            own = frozenset(id(tensor) for tensor in flat(args, {}) if id(tensor) not in self.sources)
            self._keep(Record(func, args, {}, values, used, own, values._version, first, _versions(used)))

    def _keep(self, record: Record) -> None:
        self.records.append(record)

    @contextmanager
    def opened(self, function: Callable[..., object] | None) -> Iterator[Any]:
        """Context for a checkpointed part of the model: it runs as if it were not checkpointed."""
        self.parts += 1
        yield None

    def names(self, used: Iterable[Tensor]) -> str:
        """The names of the parameters behind some tensors, for a message."""
        found = frozenset().union(*(self.sources[id(tensor)].parents for tensor in used))
        return ", ".join(sorted(found))

    def gradients(self, losses: Tensor, cotangent: Tensor) -> list[Tensor | None]:
        """Gradient of <cotangent, losses> by every kept output; a parameter that receives one itself is an error."""
        outputs = [record.output for record in self.records]
        parameters = list(self.parameters.values())
        if any(record.overwritten for record in self.records):
            raise Overwritten
        if not losses.requires_grad:
            return [None] * len(outputs)
        try:
            with watching(self):
                found = torch.autograd.grad(losses, outputs + parameters, cotangent, allow_unused=True)
        except CheckpointError as error:
            raise lost() from error
        self.check_caught()
        for name, gradient in zip(self.parameters, found[len(outputs) :], strict=True):
            if gradient is not None:
                raise unseen(name)
        return list(found[: len(outputs)])


def _again(source: Source, func: Any, args: Any, kwargs: Any, place: int, result: Tensor, parameter: Tensor) -> Tensor:
    """Recompute a view or a cast of a parameter. Other tensors only contributed a shape or dtype (`type_as`)."""
    tensor = source.made(parameter)
    if len(list(flat(args, kwargs))) > 1:
        return tensor.to(result.dtype).view(result.shape)
    table = {id(source.tensor): tensor}
    return list(flat((func(*replaced(args, table), **replaced(kwargs, table)),), {}))[place]


def _versions(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    return tuple(tensor._version for tensor in tensors)


def _memory(tensor: Tensor) -> int | None:
    """An identifier of a tensor's memory; None for sparse tensors, which have no single storage."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def flat(args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The tensors among arguments, also inside lists, tuples and dicts."""
    for item in (*args, *kwargs.values()):
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, tuple | list):
            yield from flat(item, {})
        elif isinstance(item, dict):
            yield from flat((), item)


def replaced(item: Any, bare: Mapping[int, Tensor]) -> Any:
    """Replace some tensors among arguments, given by their identity."""
    if isinstance(item, Tensor):
        return bare.get(id(item), item)
    if isinstance(item, dict):
        return {key: replaced(value, bare) for key, value in item.items()}
    if type(item) in (tuple, list):
        return type(item)(replaced(value, bare) for value in item)
    return item
