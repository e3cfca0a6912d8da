"""The variables that a function's code refers to by name: globals, attributes (of modules too), and imported
modules.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from types import CodeType

GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM", "LOAD_SUPER_ATTR")


@dataclass(frozen=True)
class Named:
    """Global names, attribute names, and modules imported inside the code, as (leading dots, name)."""

    globals: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[tuple[int, str]]


@cache
def names_of(code: CodeType) -> Named:
    """The names in a code object and in the functions nested in it."""
    globals_, attributes, modules = set(), set(), set()
    lines = list(dis.get_instructions(code))
    for place, line in enumerate(lines):
        if line.opname in GLOBAL:
            globals_.add(str(line.argval))
        elif line.opname in ATTRIBUTE:
            attributes.add(str(line.argval))
        elif line.opname == "IMPORT_NAME":
            dots = lines[place - 2].argval if place > 1 else 0
            modules.add((dots if isinstance(dots, int) else 0, str(line.argval)))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = names_of(inner)
            globals_ |= more.globals
            attributes |= more.attributes
            modules |= more.modules
    return Named(frozenset(globals_), frozenset(attributes), frozenset(modules))


def imported(named: Named, package: str) -> Iterator[str]:
    """Whole names of modules that code imports, and of the packages that they lie in."""
    for dots, name in named.modules:
        with suppress(ImportError, ValueError):
            whole = resolve_name("." * dots + name, package) if dots else name
            yield from (whole[: place + 1].rstrip(".") for place in range(len(whole)) if whole[place] == ".")
            yield whole
