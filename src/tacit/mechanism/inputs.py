r"""Values of people as numbers, by total functions: nothing in them may raise, and each record is handled alone.

NaN, None and what is not a number count as a public number; infinities count as the largest number. Real numbers are
rounded to a public grid of spacing h = 2^k. Rounding half up commutes with shifts by whole steps, so two values that
are D apart are at most ceil(D/h) steps apart afterwards.
Reference: docs/proofs/sampling.md, Lemma 7.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check
from ..core.errors import Argument
from .columns import array_of_column, is_column

Floats = NDArray[np.float64]
Steps = NDArray[Any]
"""Whole numbers: 64-bit ones, or Python's own where those are too short."""
MOST = float(np.finfo(np.float64).max)
EXACT = 2**53
FARTHEST = 2**1000
DIGITS = 400
"""Decimal numbers of more digits before the point are beyond all floats, and of more zeros after it below all."""
ROOM = 2**62
"""Whole numbers below this leave room for noise in 64 bits."""
QUIET = (float, str, type(None), Decimal, Fraction, np.float64, np.float32)
"""Types that become floats without a word of warning."""


def array_of(values: object, *, filled: bool = True) -> NDArray[Any]:
    """An array, also of a column of pandas or polars; sets, generators and dictionaries' views are listed first.

    What a mask hides is no number: numpy keeps the hidden values, and computes with them. `filled`: a missing whole
    number in a column counts as 0, so that the column stays whole.
    """
    if isinstance(values, np.ma.MaskedArray):
        found: NDArray[Any] = np.array(values.data, dtype=object)
        found[np.ma.getmaskarray(values)] = None
        return found
    if isinstance(values, np.ndarray):
        return values
    if is_column(values):
        return array_of_column(values, filled=filled)
    if hasattr(values, "collect_schema"):
        raise BadInput("A lazy frame holds no rows yet.", fix="Give frame.collect().")
    if isinstance(values, Mapping):
        raise BadInput("Numbers were expected, not a dictionary.", fix="Give list(scores.values()).")
    if hasattr(values, "__array__"):  # a tensor: listed, its items would be tensors that equal nothing
        return _of_tensor(values)
    if isinstance(values, Iterable) and not isinstance(values, list | tuple | str | bytes | range):
        values = list(values)
    if isinstance(values, list | tuple):
        values = [None if item is np.ma.masked else item for item in values]
    try:
        return np.asarray(values)
    except (ValueError, OverflowError, TypeError, RuntimeError):  # the last two: of a list of tensors
        raise BadInput("A number, or an array of numbers in which all rows have one length, was expected.") from None


def _of_tensor(values: object) -> NDArray[np.generic]:
    """An array of what can be turned into one, decided by its type and place alone."""
    try:
        return np.asarray(values.detach() if hasattr(values, "detach") else values)
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(
            f"A {type(values).__name__} could not be read as an array.", fix="Give tensor.cpu().double().numpy()."
        ) from None


def alone(item: Any) -> Any:
    """One record's value: an array or tensor without dimensions is the number that it holds."""
    try:
        return item.item() if not isinstance(item, np.generic) and getattr(item, "ndim", None) == 0 else item
    except KeyboardInterrupt:
        raise
    except BaseException:  # an error that one person's value can cause is a release
        return item


def collected(values: object) -> object:
    """A generator's items as a list, since it can be read only once; anything else as it is."""
    return list(values) if isinstance(values, Iterator) else values


def records(values: object) -> NDArray[Any]:
    """A flat array with one entry for each record; a record that is itself a list counts as one that is no number.

    Items of a list keep their own types: an array of one type would turn everybody's values into text, or into complex
    numbers, because of one person's. An array of several columns is refused, since a row would count several times.
    """
    if isinstance(values, Iterable) and not isinstance(values, list | tuple | str | bytes | np.ndarray | Mapping):
        values = values if hasattr(values, "to_numpy") or hasattr(values, "__array__") else list(values)
    if isinstance(values, list | tuple):
        if all(type(item) is float for item in values):
            return np.array(values, dtype=np.float64)
        own = (None if _several(item) else item for item in map(alone, values))
        return np.fromiter(own, dtype=object, count=len(values))
    return column(values).ravel()


def _several(item: object) -> bool:
    """Whether a record is itself a list. By its type: asking the object itself may raise."""
    return issubclass(type(item), list | tuple | np.ndarray)


def column(values: object) -> NDArray[Any]:
    """An array of one column, checked by its type and shape alone."""
    array = plain(array_of(values, filled=False))
    if array.ndim > 1 and array.size != array.shape[0]:
        raise BadInput("One column of values was expected: one value for each person.", fix="Give a single column.")
    return array


def check_column(values: object) -> None:
    """Refuse what cannot be one column of numbers before it is charged; lists and iterators are not looked into."""
    if isinstance(values, np.ndarray | Mapping) or hasattr(values, "to_numpy") or hasattr(values, "__array__"):
        column(values)


def plain(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The array, unless its numbers are longer than float64."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise BadInput("Numbers of more than 64 bits are not taken here.", fix="Round them to float64 first.")
    return array


def reals(values: object, *, missing: float = 0.0) -> Floats:
    """An array of finite numbers, shape kept; whatever is no number counts as `missing`.

    Every item is rounded to the nearest float by itself, whatever its type and the others' types are.
    """
    array = plain(array_of(values))
    if array.dtype.kind not in "biuf":
        flat = [_real(item) for item in array.ravel().tolist()]
        array = np.array(flat, dtype=np.float64).reshape(array.shape)
    found = array.astype(np.float64)
    return np.maximum(np.minimum(np.where(np.isnan(found), missing, found), MOST), -MOST)


def numbers(values: object) -> NDArray[Any]:
    """An array of finite numbers, shape kept and nothing rounded: floats, or fractions where floats would round.

    Decimal numbers, fractions, text and whole numbers beyond 2^53 are read exactly: rounding each of them to a float
    first could move two of them farther apart than they are. What is no number counts as 0.
    """
    array = array_of(values)
    if isinstance(values, list | tuple) and not all(map(_floating, items := _listed(values))):
        if len(items) == array.size:
            array = np.fromiter(items, dtype=object, count=array.size).reshape(array.shape)
    elif array.dtype.kind in "iu" and array.size and (int(array.max()) > EXACT or int(array.min()) < -EXACT):
        array = array.astype(object)
    if array.dtype.kind in "biuf":
        return reals(array)
    return np.array([*map(fraction, array.ravel().tolist()), None], dtype=object)[:-1].reshape(array.shape)


def clamped(values: object, bounds: tuple[float, float], *, missing: float | None = None) -> Floats:
    """A flat array of numbers within public bounds; whatever is no number counts as `missing`, or the lower bound."""
    lower, upper = bounds
    found = reals(records(values), missing=lower if missing is None else missing)
    return np.minimum(np.maximum(found, lower), upper)


def span(bounds: object) -> tuple[float, float]:
    """Two finite numbers, the lower one first."""
    ends = bounds.ravel().tolist() if isinstance(bounds, np.ndarray) else bounds
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise BadInput("bounds must be two numbers (lower, upper), known without looking at the data.")
    lower, upper = (check.real("bounds", end) for end in ends)
    if not (lower < upper and math.isfinite(upper - lower)):
        raise BadInput((Argument("bounds"), f" must be finite, lower before upper, got ({lower:g}, {upper:g})."))
    return lower, upper


def is_whole(values: object) -> bool:
    """Whether these are whole numbers by their type, never by their size; in a list None is a whole number missing."""
    if isinstance(values, list | tuple):
        items = _listed(values)
        return all(item is None or _is_whole(item) for item in items) and any(item is not None for item in items)
    return isinstance(values, int) or array_of(values).dtype.kind in "biu"


def _is_whole(item: object) -> bool:
    """Whether an item is a whole number; numpy counts lengths of time among them."""
    return isinstance(item, int | np.integer) and not isinstance(item, np.timedelta64)


def wholes(values: object) -> Steps:
    """Whole numbers as they are; those beyond 2^1000 count as 2^1000, and in arrays those beyond 2^62 as 2^62."""
    if isinstance(values, int):
        return np.array(min(max(int(values), -FARTHEST), FARTHEST), dtype=object)
    if isinstance(values, list | tuple):
        found = [0 if item is None else min(max(int(item), -ROOM), ROOM) for item in _listed(values)]
        return np.array(found, dtype=np.int64).reshape(array_of(values).shape)
    array = array_of(values)
    if array.dtype == np.uint64:
        array = np.minimum(array, np.uint64(ROOM))
    return np.minimum(np.maximum(array.astype(np.int64), -ROOM), ROOM)


def on_grid(values: NDArray[np.generic], spacing: Fraction) -> Steps:
    """floor(x/h + 1/2) for every x, exactly: floating point where 64 bits hold it, else fractions."""
    if values.dtype == object:
        return _exactly_on_grid(values, spacing)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        scaled = np.ldexp(values, -_exponent(spacing))
        low = np.floor(scaled)
        low = low + (scaled - low >= 0.5)
    tiny = (scaled == 0) & (values != 0)  # too small for floating point: nearer to 0 than half a step
    if values.size == 0 or float(np.abs(low).max()) < ROOM:
        return np.asarray(np.where(tiny, 0.0, low).astype(np.int64))
    return _exactly_on_grid(values, spacing)


def step_of(value: object, spacing: Fraction) -> int:
    """Round one number to its step on the grid, floor(x/h + 1/2), exactly; 0 for what is not a number."""
    if (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) <= FARTHEST):
        top, bottom = value.as_integer_ratio()
        return (2 * top * spacing.denominator + bottom * spacing.numerator) // (2 * bottom * spacing.numerator)
    if issubclass(type(value), np.ndarray) and (array := cast("NDArray[Any]", value)).size == 1:
        value = array.item() if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 else array.ravel()[0]
    return math.floor(fraction(value) / spacing + Fraction(1, 2))


def float_of(step: int, spacing: Fraction) -> float:
    """The grid point h k as the nearest float; beyond the range of floats, the largest one."""
    return _float(step * spacing)


def off_grid(steps: Steps, spacing: Fraction) -> Floats:
    """h k for every k, as the nearest number of floating point, and the largest one beyond its range."""
    if steps.dtype != object:
        return np.clip(np.ldexp(steps.astype(np.float64), _exponent(spacing)), -MOST, MOST)
    return np.array([_float(int(step) * spacing) for step in steps.ravel().tolist()]).reshape(steps.shape)


def power_of_two(most: Fraction) -> Fraction:
    """The largest power of two that is at most `most`."""
    found = Fraction(2) ** (most.numerator.bit_length() - most.denominator.bit_length())
    return found if found <= most else found / 2


def _exactly_on_grid(values: NDArray[np.generic], spacing: Fraction) -> Steps:
    exact = [math.floor(Fraction(item) / spacing + Fraction(1, 2)) for item in values.ravel().tolist()]
    return np.array([*exact, None], dtype=object)[:-1].reshape(values.shape)


def _listed(values: object) -> list[Any]:
    """The items of a list of any depth, as they are; what a mask hides is missing."""
    try:
        found = np.array(values, dtype=object).ravel().tolist()
    except ValueError:
        return [values]
    return [None if item is np.ma.masked else item for item in found]


def _floating(item: object) -> bool:
    """Whether an item of a list is a number that a float holds exactly."""
    return isinstance(item, float) or (isinstance(item, int) and abs(item) <= EXACT)


def fraction(value: object) -> Fraction:
    """The number that an object is, exactly; 0 where it is none, and 2^1000 where it is beyond."""
    try:
        return _fraction(value)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an error that one person's value can cause is a release
        return Fraction(0)


def _fraction(value: object) -> Fraction:
    if isinstance(value, np.integer) and _is_whole(value):
        return Fraction(int(value))
    if isinstance(value, np.longdouble) and np.isfinite(value):
        return min(max(Fraction(*value.as_integer_ratio()), Fraction(-FARTHEST)), Fraction(FARTHEST))
    value = int.__int__(value) if isinstance(value, int) else value  # of a class of its own, which may raise
    if isinstance(value, int | Fraction):
        return min(max(Fraction(value), Fraction(-FARTHEST)), Fraction(FARTHEST))
    if not isinstance(value, Decimal | str):
        found = _real(value)
        return Fraction(0 if math.isnan(found) else min(max(found, -MOST), MOST))
    try:
        number = Decimal(value)
    except (InvalidOperation, ValueError):
        return Fraction(0)
    if number.is_nan() or (number.is_finite() and number.adjusted() < -DIGITS):
        return Fraction(0)
    if number.is_infinite() or number.adjusted() > DIGITS:
        return Fraction(-FARTHEST if number.is_signed() else FARTHEST)
    return min(max(Fraction(number), Fraction(-FARTHEST)), Fraction(FARTHEST))


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return MOST if number > 0 else -MOST


def _exponent(spacing: Fraction) -> int:
    return spacing.numerator.bit_length() - spacing.denominator.bit_length()


def _real(value: object) -> float:
    """The nearest float; NaN where the object is no real number, whatever it raises or warns of when it is asked."""
    try:
        if isinstance(value, int):
            return float(min(max(int.__int__(value), -FARTHEST), FARTHEST))
        if value is np.ma.masked or getattr(getattr(value, "dtype", None), "kind", "") == "c":
            return math.nan  # numpy would warn of it, which whoever looks would see
        if type(value) in QUIET:
            return float(value)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(value)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        raise
    except BaseException:  # an error that one person's value can cause is a release
        return math.nan
