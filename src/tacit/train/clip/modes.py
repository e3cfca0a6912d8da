"""The modes that a model runs in: plain values among the attributes of its modules, such as `training` or `use_cache`.

How a model is run (`Structure`) and what a compiled step computes hold for the code that ran when they were made. An
attribute that is set afterwards may lead to other code. So both are looked up by the values of these attributes, once
for every step. What such an attribute says is public, like the model's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_
from types import NoneType
from typing import Any

from torch import nn

SWITCHES = frozenset((bool, str, NoneType))
"""Attributes that decide which code runs. Whole numbers may do so too; other numbers belong to schedules."""
PLAIN = SWITCHES | {int, float}
HOOKS = "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"
Modes = tuple[tuple[str, Any], ...]


def modes(modules: Iterable[nn.Module]) -> Modes:
    """Plain attributes of the modules, by name, which hooks they have, and the classes whose code they run."""
    found: list[tuple[str, Any]] = []
    for module in modules:
        held = module.__dict__
        found.append(("class", f"{type(module).__qualname__} {id(type(module))}"))
        found += [pair for pair in held.items() if type(pair[1]) in PLAIN]
        found += [(name, str(list(held[name]))) for name in HOOKS if held.get(name)]
    return tuple(found)


class Listed:
    """`modes` of some modules, step after step: read anew where an attribute is another object than before."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules = modules
        self._held = [module.__dict__ for module in modules]
        self._hooks = [held[name] for held in self._held for name in HOOKS if name in held]
        self._sizes: list[int] = []
        self._values: list[Any] = []
        self._numbers: list[Any] = []
        self._found: Modes = ()

    def now(self) -> Modes:
        numbers, sizes = list(map(tuple, self._hooks)), list(map(len, self._held))
        if numbers != self._numbers or sizes != self._sizes or not all(map(is_, self._now(), self._values)):
            self._numbers, self._sizes, self._found = numbers, sizes, modes(self.modules)
            self._values = list(self._now())
        return self._found

    def _now(self) -> Iterator[Any]:
        return chain.from_iterable(map(dict.values, self._held))


def switches(found: Modes, *, whole: bool = True) -> Modes:
    """Those of them that decide which code runs; `whole`: whole numbers too."""
    kinds = SWITCHES | {int} if whole and SWITCHES else SWITCHES
    return tuple([pair for pair in found if type(pair[1]) in kinds])
