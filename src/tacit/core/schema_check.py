"""Check a JSON value against one of our published schemas, and say in one sentence where it does not fit.

Only what our own schemas use is known: type, const, enum, required, properties, additionalProperties, items, minItems,
maxItems, minimum, maximum, exclusiveMinimum, anyOf, allOf and $ref into $defs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .json_text import Json

KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
WORDS = {"string": "a text", "number": "a number", "integer": "a whole number", "boolean": "true or false",
         "null": "null", "array": "a list", "object": "an object"}  # fmt: skip


def misfit(value: object, schema: Json, whole: Json | None = None, place: str = "") -> str:
    """The first thing in `value` that does not fit, as "PLACE must be ...", or "" where all of it fits.

    A value that is nested more deeply than Python's stack is long does not fit.
    """
    try:
        return next(_misfits(value, schema, schema if whole is None else whole, place), "")
    except RecursionError:
        return "the whole must be nested less deeply"


def unnamed(value: object, schema: Json, whole: Json | None = None, place: str = "") -> Iterator[str]:
    """Places of keys that a schema allows without naming them; where it names none, all keys are data."""
    whole = schema if whole is None else whole
    schema = _resolved(schema, whole)
    if options := schema.get("anyOf"):
        fitting: Json = next((option for option in options if not misfit(value, option, whole)), {})
        yield from unnamed(value, fitting, whole, place)
    elif isinstance(value, dict) and (known := schema.get("properties")):
        for name, item in value.items():
            here = f"{place}.{name[:60]}".lstrip(".")
            yield from unnamed(item, known[name], whole, here) if name in known else (here,)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            yield from unnamed(item, schema["items"], whole, place)


def _resolved(schema: Json, whole: Json) -> Json:
    """Resolve a schema's `$ref`, and merge the properties of its `allOf` parts."""
    if "$ref" in schema:
        return _resolved(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    parts = [_resolved(part, whole) for part in schema.get("allOf", ())]
    if not parts:
        return schema
    named = {name: item for part in (schema, *parts) for name, item in part.get("properties", {}).items()}
    return {**schema, "properties": named}


def _misfits(value: Any, schema: Json, whole: Json, place: str) -> Iterator[str]:
    where = place or "the whole"
    if "$ref" in schema:
        yield from _misfits(value, whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, place)
        return
    if kinds := schema.get("type"):
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is(value, kind) for kind in kinds):
            yield f"{where} must be {' or '.join(WORDS[kind] for kind in kinds)}"
            return
    if "const" in schema and value != schema["const"]:
        yield f"{where} must be {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(map(str, schema['enum']))}"
    for part in schema.get("allOf", ()):
        yield from _misfits(value, part, whole, place)
    if (options := schema.get("anyOf")) and all(misfit(value, option, whole, place) for option in options):
        yield max((misfit(value, option, whole, place) for option in options), key=len)
    if isinstance(value, dict):
        yield from _of_object(value, schema, whole, place)
    elif isinstance(value, list):
        yield from _of_list(value, schema, whole, where)
    elif _is(value, "number"):
        yield from _of_number(value, schema, where)


def _of_object(value: Json, schema: Json, whole: Json, place: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{f'{place}.{name}'.lstrip('.')} is missing"
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, item in value.items():
        yield from _misfits(item, known.get(name, others), whole, f"{place}.{name[:60]}".lstrip("."))


def _of_list(value: list[object], schema: Json, whole: Json, where: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where} must have {schema['minItems']} entries"
    if "items" in schema:
        for number, item in enumerate(value):
            yield from _misfits(item, schema["items"], whole, f"{where}[{number}]")


def _of_number(value: float, schema: Json, where: str) -> Iterator[str]:
    if value < schema.get("minimum", value) or value > schema.get("maximum", value):
        yield f"{where} is out of its range"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield f"{where} is out of its range"


def _is(value: object, kind: str) -> bool:
    """JSON's kinds: true is no number; a number without fraction is whole."""
    if kind in ("number", "integer") and isinstance(value, bool):
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])
