"""The attributes of classes, of objects implemented in C, and of exceptions."""

from __future__ import annotations

import functools
from types import GetSetDescriptorType, MemberDescriptorType

from .alike import ABSENT

OWN = ("__dict__", "__weakref__", "__abstractmethods__")
HERITAGE = ("__name__", "__qualname__", "__bases__", "__class__", "__abstractmethods__")
WRITTEN = (MemberDescriptorType, GetSetDescriptorType)
"""Attributes that C code keeps, such as the number of an `OSError`."""


def attribute(kind: type, name: str) -> object:
    return vars(kind).get(name, ABSENT)


def inherited(kind: type, name: str) -> object:
    try:
        return type.__getattribute__(kind, name)
    except AttributeError:  # abstract methods of a class that has none
        return ABSENT


@functools.cache
def raised(kind: type) -> tuple[str, ...]:
    """Attributes of exceptions of a class that C code stores."""
    held = {name: one for base in kind.__mro__[:-1] for name, one in vars(base).items()}
    return tuple(name for name, one in held.items() if isinstance(one, WRITTEN) and name not in OWN)


def own_names(kind: type) -> list[str]:
    """Attributes of a class that Python code can set; slots belong to its objects."""
    return [
        name for name, value in vars(kind).items() if name not in OWN and not isinstance(value, MemberDescriptorType)
    ]
