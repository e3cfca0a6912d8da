"""Columns of data frames as Arrow, by total functions: no value decides a column's type or raises."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from ..core.errors import BadInput
from ..data.frames import narwhals
from ..mechanism.columns import items_of

EXACT = 2.0**53
MISSING = ("NAType", "NaTType")
MICROSECONDS = {"s": 10**6, "ms": 10**3}


def arrow_of(series: Any) -> Any:
    """One column of a frame. Python objects and categories become texts; half precision becomes single."""
    import pyarrow

    kind = series.dtype
    if kind == narwhals().Object:
        return texts(items_of(series))
    if hasattr(getattr(series.to_native(), "cat", None), "codes"):
        return _categories(series.to_native().cat)
    if kind in (narwhals().Categorical, narwhals().Enum, narwhals().String):
        try:
            found = series.to_arrow()
        except Exception:  # a text that is not Unicode, or categories of several types: libraries raise differently
            return texts(items_of(series))
    else:
        found = _read(series)
    found = found.combine_chunks() if isinstance(found, pyarrow.ChunkedArray) else found
    if isinstance(found.type, pyarrow.BaseExtensionType):  # periods, intervals and whatever libraries add
        return texts(items_of(series))
    if pyarrow.types.is_dictionary(found.type):
        found = found.dictionary_decode()
        # one missing number makes pandas write all categories with a point: they are written as numbers are
        return _unicode(found) if _is_text(found.type) else texts(items_of(found))
    if _is_text(found.type):
        return _unicode(found)
    if pyarrow.types.is_timestamp(found.type) and found.type.tz is not None and found.type.unit in MICROSECONDS:
        return _in_microseconds(found)
    return found.cast(pyarrow.float32()) if pyarrow.types.is_float16(found.type) else found


def _categories(held: Any) -> object:
    """Categories of pandas as texts, each by itself: Arrow would choose one type for all, by one person's category."""
    import pyarrow

    codes = held.codes.to_numpy()
    return pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(codes, mask=codes < 0), texts(held.categories.tolist())
    ).dictionary_decode()


def _in_microseconds(found: Any) -> object:
    """Times with a zone as the engine holds them; those that microseconds do not reach are missing."""
    import pyarrow
    from pyarrow import compute

    factor = MICROSECONDS[found.type.unit]
    far, whole = 2**63 // factor - 1, found.view(pyarrow.int64())
    within = compute.and_(compute.greater_equal(whole, -far), compute.less_equal(whole, far))
    kept = compute.if_else(within, whole, pyarrow.scalar(None, pyarrow.int64()))
    return compute.multiply(kept, factor).view(pyarrow.timestamp("us", found.type.tz))


def _is_text(kind: object) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _unicode(found: Any) -> object:
    """Texts as they are where all are UTF-8: Arrow does not look, and an engine stops at one that is not."""
    import pyarrow

    try:
        found.validate(full=True)
    except pyarrow.ArrowInvalid:
        held = found.cast(pyarrow.large_binary()).to_pylist()
        return pyarrow.array([None if one is None else one.decode("utf-8", "replace") for one in held], found.type)
    return found


def _read(series: Any) -> Any:
    try:
        return series.to_arrow()
    except Exception:  # a type that Arrow does not have
        raise BadInput(
            f"Column {series.name!r} holds {getattr(series.to_native(), 'dtype', series.dtype)}, which cannot be read.",
            fix="Change its type, or drop it.",
        ) from None


def texts(values: list[object]) -> Any:
    """Python objects as texts; equal numbers have one text, whatever their type."""
    import pyarrow

    return pyarrow.array([text(value) for value in values], pyarrow.string())


def text(value: object) -> str | None:
    """The text of one object: `1`, `1.0` and `Decimal("1")` are "1"; missing values, and what has no text, are None."""
    if value is None or type(value).__name__ in MISSING:
        return None
    try:
        found = value if isinstance(value, str) else _number(value) if _is_number(value) else str(value)
    except Exception:  # somebody's object decides what it raises: that must not be seen
        return None
    return None if found is None else found.encode("utf-8", "replace").decode()


def _is_number(value: object) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def _number(value: Any) -> str | None:
    if isinstance(value, Integral):
        return str(int(value))
    if value != value:
        return None
    return str(int(value)) if abs(value) < EXACT and value == int(value) else str(value)
