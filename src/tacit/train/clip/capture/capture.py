"""Watch a forward pass at the level of operations: which of them consumes a trainable parameter, and with what.

Nothing is wrapped, hooked or hung on modules. Inside the mode every torch operation passes by once:

- an operation on public tensors alone (parameters, buffers, constants) makes a *derived* tensor, such as a transposed
  or standardised weight; it is computed as usual and remembers the parameters it came from;
- an operation that mixes a parameter (or a derived tensor) with anything else *consumes* it: it runs with the
  parameter detached, its output is kept, and the output's gradient is later turned into per-example gradients.

Detached parameters receive no gradient of the unclipped loss. Should one receive any, an operation went past unseen,
and `gradients` says so by name: exact, or loud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import CheckpointError

from ....core import BadInput
from ..recompute.hooks import lost
from ..rules.rules import EXPANSIONS, RULES
from .functions import in_place, name_of, one_to_one, opened, out_of_place, refuse
from .layout import Layout


class Overwritten(Exception):
    """A later operation writes into a kept output; the pass must be repeated with copies."""


class Changed(Exception):
    """The forward pass does other operations than the one its structure was read from."""


@dataclass(eq=False)
class Source:
    """A parameter (no parents), or a tensor derived from parameters alone."""

    tensor: Tensor
    parents: frozenset[str]
    one_to_one: bool = True


@dataclass(eq=False)
class Record:
    """One operation that consumed a parameter."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Tensor
    layout: Layout | None
    used: tuple[Tensor, ...]
    public: frozenset[int]
    version: int


@dataclass(frozen=True)
class Entry:
    """How one operation on parameters is treated: it consumes them (with its examples along `layout`) or derives."""

    function: Callable[..., Any]
    consumes: bool
    names: str
    layout: Layout | None = None


@dataclass(eq=False)
class Capture(TorchFunctionMode):
    """One watched forward pass. `structure` is what an earlier probe found; None while probing."""

    parameters: Mapping[str, Tensor]
    constants: Iterable[Tensor] = ()
    structure: tuple[Entry, ...] | None = None
    copies: bool = False
    forced: frozenset[int] = frozenset()
    records: list[Record] = field(default_factory=list)
    seen: list[tuple[Entry, Tensor]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.sources = {id(tensor): Source(tensor, frozenset((name,))) for name, tensor in self.parameters.items()}
        self.public: dict[int, Tensor] = {id(tensor): tensor for tensor in self.constants}
        self.outputs: set[int] = set()
        self.count = 0
        self.parts = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = list(flat(args, kwargs))
        used = [tensor for tensor in tensors if id(tensor) in self.sources]
        private = any(id(tensor) not in self.sources and id(tensor) not in self.public for tensor in tensors)
        if private:
            refuse(func, args, kwargs)
        written = next(iter(tensors), None) if in_place(func, kwargs) else kwargs.get("out")
        if private and written is not None:
            self._check_written(flat((written,), {}))
        if not self.copies and {id(written), id(getattr(written, "_base", None))} & self.outputs:
            raise Overwritten
        if used and torch.is_grad_enabled():
            return self._watched(func, args, kwargs, used, private)
        result = func(*args, **kwargs)
        if private or used:
            self.public.pop(id(written), None)
        else:
            for tensor in flat((result,), {}):
                self.public[id(tensor)] = tensor
        return result

    def _check_written(self, written: Iterable[Tensor]) -> None:
        """Data must not be written into what outlives the pass, by whatever name (`.data`, a view)."""
        lasting = {_memory(tensor) for tensor in (*self.parameters.values(), *self.constants)}
        if any(_memory(tensor) in lasting - {None} for tensor in written):
            raise kept_data("a parameter or buffer of the model")

    def _watched(self, func: Any, args: Any, kwargs: Any, used: list[Tensor], private: bool) -> Any:
        """An operation that sees a parameter or something derived from one."""
        if private and func in EXPANSIONS:
            return EXPANSIONS[func](self, *args, **kwargs)
        if private and func not in RULES and (body := opened(func)) is not None:
            with self:
                return body(*args, **kwargs)
        if private and (plain := out_of_place(func)) is not None:
            with self:  # rules want what the first argument was
                return args[0].copy_(plain(args[0].clone(), *args[1:], **kwargs))
        if private or self.count in self.forced or self._must_consume():
            return self._consume(func, args, kwargs, used)
        return self._derive(func, args, kwargs, used)

    def _must_consume(self) -> bool:
        return self.structure is not None and self.count < len(self.structure) and self.structure[self.count].consumes

    def _derive(self, func: Any, args: Any, kwargs: Any, used: list[Tensor]) -> Any:
        result = func(*args, **kwargs)
        parents = frozenset().union(*(self.sources[id(tensor)].parents for tensor in used))
        same = one_to_one(func, args) and all(self.sources[id(tensor)].one_to_one for tensor in used)
        found = [tensor for tensor in flat((result,), {}) if tensor.requires_grad]
        for tensor in flat((result,), {}):
            if not tensor.requires_grad:
                self.public[id(tensor)] = tensor
            elif id(tensor) not in self.sources:
                self.sources[id(tensor)] = Source(tensor, parents, same and len(used) == 1)
        if found:
            self._enter(func, False, used, found[0])
        return result

    def _consume(self, func: Any, args: Any, kwargs: Any, used: list[Tensor]) -> Any:
        bare = {id(tensor): tensor.detach() for tensor in used}
        output = func(*replaced(args, bare), **replaced(kwargs, bare))
        found = list(flat((output,), {}))
        if output is None:
            raise no_rule(func, self.names(used), "it writes a parameter into another tensor")
        if any(tensor.is_complex() for tensor in found):
            raise no_rule(func, self.names(used), "its numbers are complex")
        if not any(tensor.is_floating_point() for tensor in found):
            return output
        if not isinstance(output, Tensor):
            raise no_rule(func, self.names(used), "it returns several tensors")
        if not output.requires_grad:
            output = self._leaf(func, used, output)
        layout = self._enter(func, True, used, output)
        public = frozenset(id(tensor) for tensor in flat(args, kwargs) if id(tensor) in self.public)
        self._keep(Record(func, args, kwargs, output, layout, tuple(used), public, output._version))
        return output.clone() if self.copies else output

    def _leaf(self, func: Any, used: list[Tensor], output: Tensor) -> Tensor:
        """The same numbers, with a gradient of their own."""
        try:
            return output.detach().requires_grad_()
        except RuntimeError as error:
            raise no_rule(func, self.names(used), "it runs inside torch.func") from error

    def also(self, func: Any, args: tuple[Any, ...], output: Tensor) -> None:
        """Record by hand that `func` consumed the parameters in `args`, with the gradient that `output` will have."""
        used = tuple(tensor for tensor in flat(args, {}) if id(tensor) in self.sources)
        if used:
            layout = self._enter(func, True, list(used), output)
            self._keep(Record(func, args, {}, output, layout, used, frozenset(), output._version))

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        self.outputs.add(id(record.output))

    @contextmanager
    def opened(self, function: Callable[..., Any] | None) -> Iterator[Any]:
        """A checkpointed part runs here: as though it were not checkpointed."""
        self.parts += 1
        yield None

    def _enter(self, func: Any, consumes: bool, used: list[Tensor], output: Tensor) -> Layout | None:
        """Count the operation, and look up how the probe said to treat it."""
        order = self.count
        self.count += 1
        if self.structure is None:
            self.seen.append((Entry(func, consumes, self.names(used)), output))
            return None
        if order >= len(self.structure):
            raise Changed
        planned = self.structure[order]
        if planned.function != func or planned.consumes != consumes:  # getters are made anew each time, and equal
            raise Changed
        return planned.layout

    def names(self, used: Iterable[Tensor]) -> str:
        """The parameters behind some tensors, for a message."""
        found = frozenset().union(*(self.sources[id(tensor)].parents for tensor in used))
        return ", ".join(sorted(found))

    def gradients(self, losses: Tensor, cotangent: Tensor) -> list[Tensor | None]:
        """Gradient of <cotangent, losses> by every kept output; a parameter that receives one itself is an error."""
        outputs = [record.output for record in self.records]
        parameters = list(self.parameters.values())
        if any(record.output._version != record.version for record in self.records):
            raise Overwritten
        if not losses.requires_grad:
            return [None] * len(outputs)
        try:
            found = torch.autograd.grad(losses, outputs + parameters, cotangent, allow_unused=True)
        except CheckpointError as error:
            raise lost() from error
        for name, gradient in zip(self.parameters, found[len(outputs) :], strict=True):
            if gradient is not None:
                raise unseen(name)
        return list(found[: len(outputs)])


def _memory(tensor: Tensor) -> int | None:
    """What tells a tensor's memory from others'; sparse ones have none."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def kept_data(where: str) -> BadInput:
    """The one sentence for a model that stores what it sees."""
    return BadInput(
        f"The forward pass changes {where}, which would carry data past the noise.",
        fix="Switch running statistics off (track_running_stats=False) or put that part in eval mode.",
    )


def unseen(name: str) -> BadInput:
    """The one sentence for a parameter that received a gradient itself."""
    return BadInput(
        f"Parameter {name} is used by an operation that cannot be seen, so it cannot be clipped.",
        fix="Use it in ordinary torch operations outside scripted or custom autograd code, or freeze it.",
    )


def changed() -> BadInput:
    """The one sentence for a model that does other operations than when it was looked at."""
    return BadInput(
        "The model's operations change from call to call, so they cannot be clipped.",
        fix="Choose which parameters are used by shapes alone, never by values or at random.",
    )


def no_rule(func: Any, names: str, why: str) -> BadInput:
    """The one sentence for an operation that cannot be clipped exactly."""
    return BadInput(
        f"Parameter {names} is used by {name_of(func)} and there is no exact clipping for that: {why}.",
        fix="Write it with operations that keep examples apart, or freeze the parameter.",
    )


def flat(args: Any, kwargs: Any) -> Iterator[Tensor]:
    """Tensors among arguments, also inside lists, tuples and dicts."""
    for item in (*args, *kwargs.values()):
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, tuple | list):
            yield from flat(item, {})
        elif isinstance(item, dict):
            yield from flat((), item)


def replaced(item: Any, bare: Mapping[int, Tensor]) -> Any:
    """The same arguments with some tensors exchanged."""
    if isinstance(item, Tensor):
        return bare.get(id(item), item)
    if isinstance(item, dict):
        return {key: replaced(value, bare) for key, value in item.items()}
    if type(item) in (tuple, list):
        return type(item)(replaced(value, bare) for value in item)
    return item
