"""Whether two values say the same, and what cells and slots hold."""

from __future__ import annotations

from collections import deque
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import CellType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor

from .kinds import slots_of

ABSENT = object()
VALUES = (
    int, float, complex, str, bytes, bytearray, frozenset, set, range, slice, Decimal, Fraction, date, time, timedelta,
    np.generic, torch.device, torch.dtype,
)  # fmt: skip
"""Types whose objects are told apart by comparing them."""


def alike(one: Any, other: Any) -> bool:
    """Whether two values are equal; per-record tensors count as equal, since a later pass cannot read them."""
    if one is other:
        return True
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if is_batchedtensor(one) or is_batchedtensor(other):
            return True
        return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one.detach(), other.detach())
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(key in other and alike(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, VALUES):
        return bool(one == other or (one != one and other != other))
    if isinstance(one, FunctionType):
        return one.__code__ is other.__code__ and alike(_held(one), _held(other))
    if isinstance(one, MethodType):
        return one.__func__ is other.__func__ and one.__self__ is other.__self__
    if isinstance(one, partial):
        return alike((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    slots = slots_of(type(one))
    if not slots and not hasattr(one, "__dict__"):
        return False  # nothing tells what it holds
    pairs = [(slot_of(slots[name], one), slot_of(slots[name], other)) for name in slots]
    pairs.append((getattr(one, "__dict__", None), getattr(other, "__dict__", None)))
    return all(alike(*pair) for pair in pairs)


def _held(function: FunctionType) -> tuple[Any, ...]:
    """What a function holds beside its code."""
    cells = tuple(content(cell) for cell in function.__closure__ or ())
    return cells, function.__defaults__, function.__kwdefaults__, function.__dict__


def content(cell: CellType) -> object:
    """The value of a closure cell; a marker if it is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def slot_of(slot: MemberDescriptorType, value: object) -> object:
    """What an object holds in a slot; nothing where it was not set."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return ABSENT
