"""Groups: the columns that rows are grouped by, and the keys that are known beforehand."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from ..core.check import told
from ..core.errors import Argument, BadInput
from .engines import Opened, ibis, worded
from .values import Column, check_sendable, exact_text, number_of, real, whole

Key = tuple[object, ...]
MOST_KEYS = 1_000_000
LISTED = 2_000
"""Keys of several columns that are written into the query one by one; of more, each column is filtered alone."""


@dataclass(frozen=True)
class ByColumn:
    """A column of texts, whole numbers, truth values or dates; dates beyond the years 1 to 9999 count as missing."""

    name: str

    def held(self, table: Opened) -> Column:
        found = table.column(self.name)
        kind = found.type()
        if kind.is_date():
            return ibis().ifelse(found.between(date.min, date.max), found, ibis().null("date"))
        if kind.is_string():
            return exact_text(table, found)
        if kind.is_integer() or kind.is_boolean():
            return found
        raise BadInput(
            f"Column {self.name!r} cannot be grouped by: it holds {worded(kind)}.",
            fix="Group by texts, whole numbers, truth values or dates; cut real numbers into bins with histogram.",
        )

    def present(self, table: Opened) -> Column:
        """Whether a row has a key at all."""
        return self.held(table).notnull()

    def typed(self, table: Opened, value: object) -> object:
        """A key as the column's type has it."""
        kind = self.held(table).type()
        check_sendable(value, f"A key of column {self.name!r}")
        try:
            if kind.is_integer():
                return _whole_number(value)
            if kind.is_boolean():
                return _truth(value)
            if kind.is_date():
                return _day(value)
            return _text(value)
        except (TypeError, ValueError, KeyError):
            fix = 'Write it as the column does, in quotes: "30" or "30.0".' if kind.is_string() else ""
            raise BadInput(f"A key of column {self.name!r} is not of its type, {kind}.", fix=fix) from None

    def shown(self, value: object) -> Any:
        return value.isoformat() if isinstance(value, date) else value


@dataclass(frozen=True)
class ByBin:
    """A column of numbers cut at public edges: bin k holds edges[k] <= x < edges[k + 1], the last one its end too."""

    name: str
    edges: tuple[float, ...]

    def held(self, table: Opened) -> Column:
        number = number_of(table, self.name)
        below = [(number < real(edge), whole(k)) for k, edge in enumerate(self.edges[1:-1])]
        bins = ibis().cases(*below, else_=whole(len(below))) if below else whole(0)
        return ibis().ifelse(self.present(table), bins, ibis().null("int64"))

    def present(self, table: Opened) -> Column:
        number = number_of(table, self.name)
        return number.notnull() & (number >= real(self.edges[0])) & (number <= real(self.edges[-1]))

    def typed(self, table: Opened, value: Any) -> int:
        return int(value)

    def shown(self, value: int) -> str:
        low, high = self.edges[value], self.edges[value + 1]
        return f"[{low:g}, {high:g}{']' if value == len(self.edges) - 2 else ')'}"

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(range(len(self.edges) - 1))


By = ByColumn | ByBin


@dataclass(frozen=True)
class Keys:
    """Keys that are released whatever the data hold. `product`: all combinations of what each column lists."""

    values: tuple[Key, ...]
    product: bool

    def among(self, by: Sequence[By], table: Opened) -> list[Column]:
        """Conditions that a row's key is among these keys. Bins need no condition: all bins are released."""
        columns = [item.held(table) for item in by]
        if len(columns) > 1 and not self.product and len(self.values) <= LISTED:
            tuples = [ibis().and_(*(c == v for c, v in zip(columns, key, strict=True))) for key in self.values]
            return [balanced(tuples, operator.or_)]
        lists = [list(dict.fromkeys(key[k] for key in self.values)) for k in range(len(columns))]
        parts = zip(by, columns, lists, strict=True)
        return [_among(column, values) for item, column, values in parts if isinstance(item, ByColumn)]


def _among(column: Column, values: Sequence[Any]) -> Column:
    """Whether a key is one of those listed; whole numbers without a gap are compared with their ends alone."""
    if column.type().is_integer() and max(values) - min(values) == len(values) - 1:  # each is listed once
        return column.between(whole(min(values)), whole(max(values)))
    return column.isin(values)


def known_keys(table: Opened, by: Sequence[By], given: object, words: Mapping[str, Sequence[str]]) -> Keys | None:
    """Keys as given, or of the schema, or of bins; None where some column's are not known beforehand."""
    if not by:
        return Keys(((),), True)
    lists: dict[str, Sequence[object]] = {item.name: item.keys for item in by if isinstance(item, ByBin)}
    columns = [item for item in by if isinstance(item, ByColumn)]
    if given is None:
        lists |= {item.name: words[item.name] for item in columns if item.name in words}
    elif isinstance(given, Mapping):
        lists |= {name: listed(values) for name, values in of_mapping("keys", given, [c.name for c in columns]).items()}
    elif len(columns) == 1:
        lists[columns[0].name] = listed(given)
    elif len(columns) == len(by):
        return _tuples(table, columns, listed(given))
    else:
        raise BadInput(
            ("Give ", Argument("keys"), ' of several columns as a dictionary, like {"city": ["Basel", "Bern"]}.')
        )
    if any(item.name not in lists for item in by):
        return None
    typed = [list(dict.fromkeys(item.typed(table, value) for value in lists[item.name])) for item in by]
    count = 1
    for values in typed:
        count *= len(values)
    if count > MOST_KEYS or count == 0:
        raise BadInput(f"There are {count:,} keys; between 1 and {MOST_KEYS:,} can be released.")
    return Keys(tuple(itertools.product(*typed)), True)


def of_mapping(argument: str, given: object, names: Sequence[str]) -> dict[str, Any]:
    """A dictionary from names of columns to lists; None is an empty one."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise BadInput((Argument(argument), " must be a dictionary from columns to lists."))
    if odd := next((name for name in given if name not in names), None):
        raise BadInput(
            (Argument(argument), f" names {told(odd)}, which is no such column."), fix=f"Columns: {', '.join(names)}."
        )
    return dict(given)


def listed(given: object) -> tuple[Any, ...]:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__") or _labelled(given):
        raise BadInput((Argument("keys"), ' must be a list of all that should be released, like ["Basel", "Bern"].'))
    return tuple(sorted(given, key=repr) if isinstance(given, Set) else given)  # a set's order hangs on the process


def _labelled(given: object) -> bool:
    """Whether this is a table, its groups, or a series with labels: `value_counts()` would release counts."""
    kind = getattr(getattr(getattr(given, "index", None), "dtype", None), "kind", "i")
    return kind not in "iu" or hasattr(given, "columns") or hasattr(given, "groups")


def _tuples(table: Opened, columns: Sequence[ByColumn], given: Sequence[object]) -> Keys:
    found = []
    for key in given:
        if isinstance(key, str) or not isinstance(key, Sequence) or len(key) != len(columns):
            raise BadInput(f"Each key must hold {len(columns)} values, one for each column.")
        found.append(tuple(item.typed(table, value) for item, value in zip(columns, key, strict=True)))
    if not found or len(found) > MOST_KEYS:
        raise BadInput(f"There are {len(found):,} keys; between 1 and {MOST_KEYS:,} can be released.")
    return Keys(tuple(dict.fromkeys(found)), False)


def balanced(parts: Sequence[Column], combine: Callable[[Column, Column], Column]) -> Column:
    """Many parts as one expression that is not deep: engines and ibis refuse one that nests a thousand times."""
    while len(parts) > 1:
        parts = [combine(*parts[k : k + 2]) if k + 1 < len(parts) else parts[k] for k in range(0, len(parts), 2)]
    return parts[0]


def _whole_number(value: Any) -> int:
    number = int(value)
    if (not isinstance(value, int | str) and number != value) or not -(2**63) <= number < 2**63:
        raise ValueError
    return number


def _day(value: Any) -> date:
    """A date; a time is one where it is midnight."""
    if isinstance(value, datetime):
        if value != datetime(value.year, value.month, value.day, tzinfo=value.tzinfo):
            raise ValueError
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _text(value: object) -> str:
    """A text as it is written. A number has several texts (30, 30.0, 030), and a wrong one is a key that nobody has."""
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _truth(value: object) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[str(value).lower()]
