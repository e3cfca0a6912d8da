"""The modes that a model runs in: plain values among the attributes of its modules, such as `training` or `use_cache`.

How a model is run (`Structure`) and what a compiled step computes hold for the code that ran when they were made. An
attribute that is set afterwards may lead to other code. So both are looked up by the values of these attributes, once
for every step. What such an attribute says is public, like the model's code.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any

from torch import nn

SWITCHES = frozenset((bool, str, NoneType))
"""Attributes that decide which code runs. Numbers, which schedules move from step to step, are not among them."""
PLAIN = SWITCHES | {int, float}
HOOKS = "_backward_hooks", "_backward_pre_hooks"
Modes = tuple[Any, ...]


def modes(modules: Iterable[nn.Module]) -> Modes:
    """Plain values of the modules' attributes, and whether hooks wait for the backward pass."""
    found: list[Any] = []
    for module in modules:
        held = module.__dict__
        found += [one for one in held.values() if type(one) in PLAIN]
        found += [True for name in HOOKS if held.get(name)]
    return tuple(found)


def switches(found: Modes) -> Modes:
    """Those of them that decide which code runs."""
    return tuple([one for one in found if type(one) in SWITCHES])
