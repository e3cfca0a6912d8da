"""Small models around torch's operators and modules, made from the sample inputs that torch tests them with.

A sample is a tree of arguments. Its tensors are *leaves*, and each leaf has a role in a model: it is data (a record has
one of its own), a parameter, or a constant. The arguments of a record come from the same sample with other random
numbers, so that they are in the operator's domain.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
import types
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

RECORDS = 6
MOST_NUMBERS = 3000
Batch = tuple[Tensor, ...]


def of_torch(module: str) -> Any:
    """A module of torch's tests, which imports a package that only they need, and locks settings of torch."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    with patch.object(torch.backends, "disable_global_flags", lambda: None):
        return importlib.import_module(f"torch.testing._internal.{module}")


def operators() -> dict[str, Any]:
    """Torch's operators by name."""
    return {one.formatted_name: one for one in of_torch("common_methods_invocations").op_db}


def modules() -> dict[str, Any]:
    """Torch's modules by name."""
    return {one.formatted_name: one for one in of_torch("common_modules").module_db}


@dataclass(frozen=True)
class Place:
    """Stands for a leaf among arguments."""

    number: int


def taken_apart(item: Any, leaves: list[Tensor]) -> Any:
    """The arguments with a `Place` for every tensor, which are added to `leaves`."""
    if isinstance(item, Tensor):
        leaves.append(item.detach())
        return Place(len(leaves) - 1)
    if isinstance(item, dict):
        return {key: taken_apart(value, leaves) for key, value in item.items()}
    if type(item) in (tuple, list):
        return type(item)(taken_apart(value, leaves) for value in item)
    return item


def put_together(item: Any, leaves: list[Any]) -> Any:
    """The arguments with tensors in their places."""
    if isinstance(item, Place):
        return leaves[item.number]
    if isinstance(item, dict):
        return {key: put_together(value, leaves) for key, value in item.items()}
    if type(item) in (tuple, list):
        return type(item)(put_together(value, leaves) for value in item)
    return item


@dataclass
class Sample:
    """Arguments of an operator: a tree, and for each record the tensors in it."""

    tree: Any
    rows: list[list[Tensor]]
    finish: Callable[[Any], Any]

    @property
    def leaves(self) -> list[Tensor]:
        return self.rows[0]


def _drawn(info: Any, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return list(info.sample_inputs("cpu", torch.float32, requires_grad=False))


def samples(info: Any, most: int) -> list[Sample]:
    """Up to `most` samples of an operator that differ in kind, with the arguments of several records."""
    drawn = [_drawn(info, seed) for seed in range(RECORDS)]
    trees = [[(one.input, one.args, one.kwargs) for one in every] for every in drawn]
    return chosen(trees, [one.output_process_fn_grad for one in drawn[0]], most)


@dataclass(frozen=True)
class Made:
    """A module in the place of an operator."""

    op: nn.Module


def cases(name: str, most: int) -> list[tuple[Sample, Any]]:
    """Samples of an operator or of a module (`nn_...`), each with what is called."""
    if (info := operators().get(name)) is not None:
        return [(sample, info) for sample in samples(info, most)]
    info, found = modules()[name], []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        drawn = []
        for seed in range(RECORDS):
            torch.manual_seed(seed)
            drawn.append(info.module_inputs_func(info, "cpu", torch.float32, requires_grad=False, training=training))
        for place, first in list(enumerate(drawn[0]))[:most]:
            if first.forward_input is None:
                continue
            trees = [[_called(every[place].forward_input)] if place < len(every) else [] for every in drawn]
            torch.manual_seed(0)
            module = info.module_cls(*first.constructor_input.args, **first.constructor_input.kwargs)
            made = Made(module.train(training))
            found += [(sample, made) for sample in chosen(trees, [lambda out: out], 1)]
    return found


def _called(given: Any) -> Any:
    """A call as a sample has it: the first argument, the others, and those by name."""
    names, args = dict(given.kwargs), tuple(given.args)
    return (args[0], args[1:], names) if args else (names.pop(next(iter(names))), (), names)


def chosen(trees: list[list[Any]], finishes: list[Callable[[Any], Any]], most: int) -> list[Sample]:
    """The samples (one for each seed) that are small, evenly spread among those of different kinds."""
    found: dict[str, Sample] = {}
    for place, finish in enumerate(finishes):
        first: list[Tensor] = []
        tree = taken_apart(trees[0][place], first)
        if not all(_plain(leaf) for leaf in first) or sum(leaf.numel() for leaf in first) > MOST_NUMBERS:
            continue
        rows = [first, *(_alike(first, every, place, seed) for seed, every in enumerate(trees[1:], 1))]
        found.setdefault(f"{tree}{[tuple(leaf.shape) for leaf in first]}", Sample(tree, rows, finish))
    every = sorted(found.values(), key=lambda one: not any(leaf.numel() > 1 for leaf in one.leaves))
    return every[:: max(1, len(every) // most)][:most]


def _plain(leaf: Tensor) -> bool:
    return leaf.layout == torch.strided and not leaf.is_quantized and not leaf.is_nested


def _alike(first: list[Tensor], trees: list[Any], place: int, seed: int) -> list[Tensor]:
    """The leaves of the same sample with other random numbers."""
    leaves: list[Tensor] = []
    if place < len(trees):
        taken_apart(trees[place], leaves)
    shapes = [(leaf.shape, leaf.dtype) for leaf in leaves]
    if shapes != [(leaf.shape, leaf.dtype) for leaf in first]:
        leaves = first
    return [
        old * (1 - 0.03 * seed) if new.is_floating_point() and torch.equal(old, new) else new
        for old, new in zip(first, leaves, strict=True)
    ]


@dataclass(frozen=True)
class Spelling:
    """How an operator stands in a model.

    `roles`: of the first floating leaf, of the other floating leaves, of all others. `rows`: the records of a batch are
    rows of the first leaf; otherwise each leaf of a record is a whole leaf. `loop`: the code takes one record after
    another; otherwise it is given the whole batch.
    """

    roles: tuple[str, str, str] = ("data", "data", "data")
    rows: bool = False
    loop: bool = True
    calls: tuple[str, ...] = ("function",)


CALLS = "function", "method", "in place", "operator", "names", "names of an operator"
SPELLINGS = {
    "calls": Spelling(calls=CALLS),
    "batch": Spelling(loop=False),
    "rows": Spelling(("data", "parameter", "constant"), rows=True, loop=False),
    "parameter": Spelling(("parameter", "data", "data")),
    "parameters": Spelling(("parameter", "parameter", "constant")),
    "weights": Spelling(("data", "parameter", "constant")),
}
ALWAYS = SPELLINGS["calls"], SPELLINGS["rows"], SPELLINGS["parameter"]
"""Those that say something of operators with a single floating leaf, or with none."""


def flat(item: Any) -> Iterator[Tensor]:
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, tuple | list):
        yield from chain.from_iterable(map(flat, item))


def numbers(tensor: Tensor) -> Tensor:
    """Real numbers that say the same."""
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        return torch.cat((tensor.real.flatten(), tensor.imag.flatten()))
    return tensor.flatten()


class Around(nn.Module):
    """An operator between a scale of the data and a sum of its results; one loss for each record."""

    def __init__(self, sample: Sample, calls: list[Callable[..., Any]], spelling: Spelling) -> None:
        super().__init__()
        self.calls = nn.ModuleList(calls) if isinstance(calls[0], nn.Module) else calls
        self.tree, self.finish, self.spelling = sample.tree, sample.finish, spelling
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(3))
        self.after = nn.Parameter(torch.linspace(0.7, 1.3, 8))
        roles = list(roles_of(sample.leaves, spelling))
        self.data = [place for place, role in enumerate(roles) if role == "data"]
        self.fixed: dict[int, str] = {}
        for place, role in enumerate(roles):
            leaf = sample.leaves[place].clone()
            if role == "parameter":
                self.fixed[place] = f"leaf{place}"
                setattr(self, f"leaf{place}", nn.Parameter(leaf))
            elif role == "constant":
                self.fixed[place] = f"leaf{place}"
                self.register_buffer(f"leaf{place}", leaf)

    def forward(self, *given: Tensor) -> Tensor:
        if self.spelling.loop:
            return torch.stack([self.one(*row) for row in zip(*given, strict=True)])
        count = len(given[0])
        out = self.ran(given[:-1])
        return sum(self.weighed(part.reshape(count, -1)) for part in out) * self.dummy(given[-1])

    def one(self, *given: Tensor) -> Tensor:
        parts = [self.weighed(part.reshape(1, -1)).sum() for part in self.ran(given[:-1])]
        return sum(parts, self.after.sum() * 0.0) * self.dummy(given[-1][None])[0]

    def dummy(self, x: Tensor) -> Tensor:
        return 1 + 0.1 * (x * (1 + self.shift)).sum(-1)

    def ran(self, given: Iterable[Tensor]) -> list[Tensor]:
        leaves: dict[int, Any] = {place: getattr(self, name) for place, name in self.fixed.items()}
        scaled = False
        for place, leaf in zip(self.data, given, strict=True):
            floats = leaf.is_floating_point() or leaf.is_complex()
            leaves[place] = leaf * self.scale if floats and not scaled else leaf
            scaled = scaled or floats
        found, args, kwargs = put_together(self.tree, [leaves[place] for place in sorted(leaves)])
        out = [part for call in self.calls for part in flat(self.finish(call(found, *args, **kwargs)))]
        return [part if self.spelling.rows or not self.spelling.loop else numbers(part) for part in out]

    def weighed(self, part: Tensor) -> Tensor:
        """(rows, n) to (rows,): every number counts otherwise, and none is lost where it is large."""
        part = numbers(part).reshape(len(part), -1).to(self.after.dtype) if not part.is_floating_point() else part
        weights = self.after.repeat(part.shape[-1] // 8 + 1)[: part.shape[-1]]
        return (torch.asinh(part + 1) * weights).sum(-1)


def roles_of(leaves: list[Tensor], spelling: Spelling) -> Iterator[str]:
    first = True
    for leaf in leaves:
        floats = leaf.is_floating_point() or leaf.is_complex()
        yield spelling.roles[0 if floats and first else 1 if floats else 2]
        first = first and not floats


def call_of(info: Any, kind: str) -> Callable[..., Any] | None:
    """The operator as a function, a method, an operator of `torch.ops.aten`, in place, or by names of arguments."""
    if isinstance(info, Made):
        return copy.deepcopy(info.op) if kind == "function" else None
    if kind == "function":
        return info.op  # type: ignore[no-any-return]
    if kind == "method":
        return info.method_variant  # type: ignore[no-any-return]
    if kind == "in place":
        return in_place(info.inplace_variant) if info.inplace_variant is not None else None
    packet = getattr(torch.ops.aten, (info.aten_name or info.name).rpartition(".")[2], None)
    if kind == "names" and isinstance(info.op, types.FunctionType):
        names = [name for name, one in inspect.signature(info.op).parameters.items() if one.kind != one.VAR_POSITIONAL]
        return by_names({info.op: names})
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    if kind == "operator":
        return packet
    named = {one: [arg.name for arg in one._schema.arguments] for one in map(packet.__getattr__, packet.overloads())}
    if kind == "names":
        every = (["input" if name == "self" else name for name in names] for names in named.values())
        return by_names({info.op: max(every, key=len)})
    return by_names(named)


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(first.clone(), *args, **kwargs)

    return run


def by_names(functions: dict[Callable[..., Any], list[str]]) -> Callable[..., Any]:
    """Calls the first of some functions that takes these arguments by its names."""

    def run(*args: Any, **kwargs: Any) -> Any:
        for function, names in functions.items():
            if len(names) >= len(args):
                try:
                    return function(**dict(zip(names, args, strict=False)), **kwargs)
                except TypeError:
                    continue
        raise TypeError("no function takes these")

    return run


def around(sample: Sample, info: Any, spelling: Spelling) -> Around | None:
    """The model of an operator in a spelling, or None where it has none, or another spelling says the same."""
    if not set(spelling.roles[:2]) <= set(roles_of(sample.leaves, spelling)) and spelling not in ALWAYS:
        return None
    calls = [call for kind in spelling.calls if (call := call_of(info, kind)) is not None and runs(call, sample)]
    return Around(sample, calls, spelling) if calls else None


def runs(call: Callable[..., Any], sample: Sample) -> bool:
    """Whether a call takes these arguments."""
    found, args, kwargs = put_together(sample.tree, [leaf.clone() for leaf in sample.leaves])
    try:
        call(found, *args, **kwargs)
    except Exception:  # whatever torch says
        return False
    return True


def batch_of(sample: Sample, model: Around, count: int) -> Batch | None:
    """`count` records, and three numbers more for each."""
    generator = torch.Generator().manual_seed(count)
    extra = torch.randn(count, 3, generator=generator)
    if not model.spelling.rows:
        every = [sample.rows[place % RECORDS] for place in range(count)]
        return (*(torch.stack([row[place] for row in every]) for place in model.data), extra)
    if len(model.data) != 1 or not sample.leaves[model.data[0]].ndim:
        return None
    rows = torch.cat([row[model.data[0]] for row in sample.rows])
    return (rows[:count], extra) if len(rows) >= count else None


def wider(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).double()
