"""JSON that anybody may have written: read within limits, and whatever is wrong is one sentence with its place."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeAlias

from .errors import BadInput

Json: TypeAlias = dict[str, Any]
"""An object of JSON: names with texts, numbers, truth values, null, lists and objects."""
DEPTH = 100
MOST = 4_000_000
"""Values in one text: each may take 64 bytes and more, so that a file of a quarter of a gigabyte would take 12."""
DIGITS = 400
"""Of a whole number: far beyond any count, far below what Python refuses to read."""


def parsed(text: str, name: str, *, fix: str = "", most: float | None = None) -> Any:
    """The value of a JSON text called `name`.

    Refused: NaN, infinities, huge numbers, lone surrogates, depth, and more than `most` values (by default `MOST`). So
    is a key that stands twice in one object: a person may read the first one, while a program takes the last.
    """

    def refused(what: str) -> NoReturn:
        raise BadInput(f"{name} is not JSON that can be used: it holds {what}.", fix=fix)

    def whole(digits: str) -> int:
        return int(digits) if len(digits) <= DIGITS else refused("a whole number of too many digits")

    def real(digits: str) -> float:
        found = float(digits)
        return found if math.isfinite(found) else refused("a number beyond the range of floating point")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        return made if len(made) == len(pairs) else refused("a key twice in one object")

    most = MOST if most is None else most
    if sum(text.count(mark) for mark in ",[{") > most:
        refused(f"more than {most:,} values")
    try:
        found = json.loads(
            text, parse_int=whole, parse_float=real, parse_constant=lambda word: refused(word), object_pairs_hook=unique
        )
    except json.JSONDecodeError as error:
        raise BadInput(f"{name} is not JSON (line {error.lineno}, column {error.colno}).", fix=fix) from None
    except RecursionError:
        refused(f"values nested more than {DEPTH} deep")
    if problem := _problem(found):
        refused(problem)
    return found


def _problem(value: object) -> str:
    """What is wrong inside a value that was read; "" for nothing."""
    waiting = [([value], 0)]
    while waiting:
        items, depth = waiting.pop()
        if depth > DEPTH:
            return f"values nested more than {DEPTH} deep"
        for item in items:
            if isinstance(item, str) and not item.isascii() and any("\ud800" <= mark <= "\udfff" for mark in item):
                return "half of a character (a lone surrogate)"
            if isinstance(item, dict | list) and item:
                waiting += [(item, depth + 1)] if isinstance(item, list) else [([*item, *item.values()], depth + 1)]
    return ""
