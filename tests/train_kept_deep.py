"""Places in which a fifth reader kept a value for the next record."""

from __future__ import annotations

import abc
import json
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Store = Callable[[nn.Module, float], object]
Load = Callable[[nn.Module], float]
LOCKED, FREE = np.zeros(3), np.zeros(3)
LOCKED.flags.writeable = False
FAILED, PART = OSError(), slice([], None)
WEIGHT = nn.Parameter(torch.ones(3))
MADE = WEIGHT.view(3)
MADE.retain_grad()


class Flag(abc.ABC):  # noqa: B024
    pass


class Mark:
    @property
    def read(self) -> float:
        return 0.0


class Meta(type):
    pass


class Other(type):
    pass


class Kind(metaclass=Meta):
    pass


def _doubled(x: Tensor) -> Tensor:
    return x * 2


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    doubled = torch.jit.script(_doubled)


def locked(array: Any) -> tuple[Store, Load]:
    def store(m: nn.Module, value: float) -> None:
        array.flags.writeable = True
        array[0] = value
        array.flags.writeable = False

    return store, (lambda m: float(array[0]))


def hooked(m: nn.Module, value: float) -> None:
    MADE.register_hook(lambda gradient: gradient * 9)


def by_hook(m: nn.Module) -> float:
    return float(torch.autograd.grad(MADE.sum(), MADE)[0][0]) - 1


def fifth_ways() -> dict[str, tuple[Store, Load]]:
    """Arrays that are locked, attributes that C code keeps, functions and objects of Python's own, and graphs."""
    return {
        "a read-only array": locked(LOCKED),
        "an array that is locked afterwards": locked(FREE),
        "attribute of a function of Python's": (
            lambda m, v: setattr(json.dumps, "kept", v), lambda m: getattr(json.dumps, "kept", 0.0)),
        "attribute of an object of Python's": (
            lambda m, v: setattr(logging.root, "kept", v), lambda m: getattr(logging.root, "kept", 0.0)),
        "an abstract class": (lambda m, v: Flag.register(Mark), lambda m: 9.0 * issubclass(Mark, Flag)),
        "text of a property": (
            lambda m, v: setattr(Mark.read, "__doc__", str(v)), lambda m: float(Mark.read.__doc__ or 0)),
        "abstract methods": (
            lambda m, v: setattr(Mark, "__abstractmethods__", frozenset({"v"})),
            lambda m: 9.0 * hasattr(Mark, "__abstractmethods__")),
        "the class of a class": (
            lambda m, v: setattr(Kind, "__class__", Other), lambda m: 9.0 * (type(Kind) is Other)),
        "number of an error": (lambda m, v: setattr(FAILED, "errno", v), lambda m: float(FAILED.errno or 0)),
        "a list in a slice": (lambda m, v: PART.start.append(v), lambda m: sum(PART.start)),
        "gradient of a computed tensor": (
            lambda m, v: setattr(MADE, "grad", torch.full((3,), v)),
            lambda m: 0.0 if MADE.grad is None else float(MADE.grad[0])),
        "hook of a computed tensor": (hooked, by_hook),
        "what made a tensor": (
            lambda m, v: MADE.grad_fn.metadata.update(kept=v), lambda m: MADE.grad_fn.metadata.get("kept", 0.0)),
        "attribute of a scripted function": (
            lambda m, v: setattr(doubled, "kept", v), lambda m: getattr(doubled, "kept", 0.0)),
    }  # fmt: skip
