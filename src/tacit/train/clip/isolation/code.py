"""Which variables the code of a function names: its own globals, and attributes, of a module among them."""

from __future__ import annotations

import dis
from functools import cache
from types import CodeType

GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "STORE_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "DELETE_ATTR", "IMPORT_FROM", "LOAD_SUPER_ATTR")


@cache
def names_of(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Global names and attribute names, those of functions inside too."""
    globals_, attributes = set(), set()
    for line in dis.get_instructions(code):
        if line.opname in GLOBAL:
            globals_.add(str(line.argval))
        elif line.opname in ATTRIBUTE:
            attributes.add(str(line.argval))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = names_of(inner)
            globals_ |= more[0]
            attributes |= more[1]
    return frozenset(globals_), frozenset(attributes)
