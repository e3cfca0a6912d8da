"""A table of people, asked in a few words: `Table("visits.parquet", unit="user_id").group_by("city").count()`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..core import BadInput, Charger, check
from ..core.errors import Argument
from ..mechanism.charging import check_ledger
from . import functions
from .aggregates import Aggregate, check_aggregates
from .answer import check_name
from .conditions import Condition, condition
from .consistency import check_cells
from .engines import COARSE, Opened, worded
from .functions import Limits
from .keys import By, ByBin, ByColumn, known_keys, of_mapping
from .marginals import Domain, Marginals, domain_of
from .quantiles import Quantiles, checked_quantile
from .release import Aggregation
from .shape import Shape
from .sources import opened
from .synthesis import MOST_ROWS, Synthesis
from .top import Top
from .values import number_of

if TYPE_CHECKING:
    from ..data import Schema

ROW = "row"


@dataclass(frozen=True)
class Table:
    """A table whose answers are private for one `unit`: the column that says whose row it is, or "row".

    source: a Parquet or CSV file, a data frame (pandas, polars, Arrow), a database URL with `#table`, an ibis table.
    unit: None takes the schema's.
    schema: public facts: bounds of numbers, words of categories, the unit. What was read off the data is not used.
    max_groups: how many groups one person counts in; max_rows: with how many rows in each.
    ledger: charged before anything is read.
    lost: the share of epsilon that tells how many people lost something to these limits; 0 does not ask.
    portable: use the hash that all engines share, so that they give the same numbers before noise.

    Guarantee: every release is private for one unit as its Event says, charged before data are read.
    Caller ensures: a row holds facts of its own person only; the bounds, keys and limits were chosen without the data.
    """

    source: Any
    unit: str | None = field(default=None, kw_only=True)
    schema: Schema | None = field(default=None, kw_only=True)
    max_groups: int = field(default=1, kw_only=True)
    max_rows: int = field(default=1, kw_only=True)
    ledger: Charger | None = field(default=None, kw_only=True)
    lost: float = field(default=0.05, kw_only=True)
    portable: bool = field(default=False, kw_only=True)
    conditions: tuple[Condition, ...] = field(default=(), init=False)
    by: tuple[By, ...] = field(default=(), init=False)
    keys: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        check.whole("max_groups", self.max_groups)
        check.whole("max_rows", self.max_rows)
        if check.nonnegative("lost", self.lost) > 0.5:
            raise BadInput((Argument("lost"), f" must be a share of epsilon of at most 0.5, got {self.lost!r}."))
        if self.max_groups > 10**6 or self.max_rows > 10**6:
            raise BadInput((Argument("max_groups"), " and ", Argument("max_rows"), " must be at most a million."))
        check_ledger(self.ledger)
        _check_schema(self.schema)
        unit = self.unit if self.unit is not None else (self.schema.unit if self.schema is not None else None)
        if unit is None:
            raise BadInput(
                "The table needs a unit: whose privacy counts.",
                fix=(
                    *("Give ", Argument("unit", "user_id"), ", the column that says whose row it is, or "),
                    *(Argument("unit", ROW), " if each row is a person."),
                ),
            )
        check.text("unit", unit)
        table = opened(self.source)
        _check_unit(table, unit)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "source", table)

    def where(self, *expressions: object) -> Table:
        """Only rows for which all conditions hold: texts such as "age >= 30", or ibis expressions of one row."""
        found = tuple(condition(item) for item in expressions)
        for item in found:
            item.check(self.source)
        return self._with(conditions=(*self.conditions, *found))

    def join(self, frame: object, on: str | Sequence[str]) -> Table:
        """Add the columns of a public table, which has at most one row for each value of `on`."""
        from .joining import joined

        return self._with(source=joined(self.source, frame, on))

    def group_by(self, *columns: str, keys: object = None) -> Table:
        """Answer for every group. `keys`: those to release, known without the data; None takes the schema's words.

        Where keys are not known, those that enough people hold are released, which needs a delta.
        """
        if not columns:
            raise BadInput("group_by needs a column.")
        found = tuple(ByColumn(name) for name in columns)
        for item in found:
            item.held(self.source)
        return self._with(by=self._grouped(*found), keys=keys if keys is not None else self.keys)

    def aggregate(self, **aggregates: Aggregate) -> Aggregation:
        """Several aggregates in one pass: `aggregate(n=count(), total=sum("amount", (0, 100)))`."""
        check_aggregates(aggregates)
        return self._query({check_name(name): item for name, item in aggregates.items()})

    def count(self) -> Aggregation:
        """Rows; of each person at most `max_rows` in a group."""
        return self._one(functions.count())

    def users(self) -> Aggregation:
        """Count different people."""
        return self._one(functions.users())

    def sum(self, column: str, bounds: Limits = None) -> Aggregation:
        """The sum of a column whose numbers lie within public bounds."""
        return self._one(functions.sum(column, bounds))

    def mean(self, column: str, bounds: Limits = None) -> Aggregation:
        """The mean of a column whose numbers lie within public bounds."""
        return self._one(functions.mean(column, bounds))

    def variance(self, column: str, bounds: Limits = None) -> Aggregation:
        """The variance of a column whose numbers lie within public bounds."""
        return self._one(functions.variance(column, bounds))

    def histogram(self, column: str, edges: Sequence[float]) -> Aggregation:
        """Rows in every bin: edges[k] <= x < edges[k + 1], and the last one with its end."""
        item = ByBin(column, check_edges(edges))
        item.held(self.source)
        return self._with(by=self._grouped(item))._one(functions.count())

    def quantile(self, column: str, q: float, bounds: Limits = None) -> Quantiles:
        """About the number that a share `q` of people are below; a person's number is the mean of theirs."""
        number_of(self.source, column)
        share, ends = checked_quantile(column, q, bounds if bounds is not None else self._limits(column))
        return Quantiles(self._shape(), column=column, q=share, bounds=ends, ledger=self.ledger)

    def top(self, column: str, k: int, keys: object = None) -> Top:
        """About the `k` words of a column that most people have. `keys`: the words that may be released."""
        if self.by:
            raise BadInput(
                "The most frequent words are asked of the whole table.", fix="Use where instead of group_by."
            )
        held = self.group_by(column, keys=keys)._shape()
        shape = held if held.keys is None else replace(held, max_groups=len(held.keys.values))
        return Top(shape, k=check.whole("k", k), ledger=self.ledger)

    def marginals(
        self,
        columns: Sequence[str],
        ways: int = 2,
        *,
        keys: Mapping[str, Sequence[object]] | None = None,
        bins: Mapping[str, Sequence[float]] | None = None,
        consistent: bool = False,
    ) -> Marginals:
        """Numbers of people in every cell of all tables of `ways` columns.

        keys: the values of each column of words; bins: edges that cut a column of numbers. Else the schema's.
        consistent: non-negative whole numbers that add up, and no error of each; else unbiased with an error.
        """
        domain = self._domain(columns, keys, bins, check.whole("ways", ways))
        if consistent:
            check_cells(domain.sizes)
        query = Marginals(self._shape(), domain=domain, ways=int(ways), ledger=self.ledger)
        return replace(query, consistent=bool(consistent))

    def synthesize(
        self,
        columns: Sequence[str],
        rows: int | None = None,
        *,
        keys: Mapping[str, Sequence[object]] | None = None,
        bins: Mapping[str, Sequence[float]] | None = None,
        label: str | None = None,
    ) -> Synthesis:
        """Ask for synthetic rows of these columns that resemble the table.

        columns: the columns to synthesize.
        rows: how many rows; None makes as many as the noisy number of people.
        keys: the public values of each column of words.
        bins: the public edges of the bins of each column of numbers.

        label: the column that the others will be used to predict; None takes the schema's, if it is among the columns.
        """
        columns = check.texts("columns", columns)
        count = None if rows is None else check.whole("rows", rows)
        if count is not None and count > MOST_ROWS:
            raise BadInput((Argument("rows"), f" must be at most {MOST_ROWS:,}, got {count:,}."))
        place = self._label(columns, label)
        domain = self._domain(columns, keys, bins, min(2 if place is None else 3, len(columns)))
        return Synthesis(self._shape(), domain=domain, count=count, label=place, ledger=self.ledger)

    # inside

    def _grouped(self, *new: By) -> tuple[By, ...]:
        """The columns that rows are grouped by, with new ones."""
        found = (*self.by, *new)
        if len({item.name for item in found}) < len(found):
            raise BadInput("A column is grouped by twice.", fix="Name each column once; a histogram groups by its own.")
        return found

    def _label(self, columns: Sequence[str], given: str | None) -> int | None:
        if given is not None and given not in columns:
            raise BadInput(f"The label {given!r} is not among the columns.", fix="Name it in columns too.")
        known = self.schema.label if self.schema is not None and self.schema.label in columns else None
        name = given if given is not None else known
        return None if name is None or len(columns) == 1 else list(columns).index(name)

    def _domain(
        self,
        columns: Sequence[str],
        keys: Mapping[str, Sequence[object]] | None,
        bins: Mapping[str, Sequence[float]] | None,
        ways: int,
    ) -> Domain:
        if self.by:
            raise BadInput("Tables of several columns are asked of the whole table.", fix="Leave group_by out.")
        columns = check.texts("columns", columns)
        words = of_mapping("keys", keys, self.source.columns)
        edges = {name: check_edges(given) for name, given in of_mapping("bins", bins, self.source.columns).items()}
        ranges = [] if self.schema is None else [c for c in self.schema.columns if c.kind == "number" and c.public]
        edges |= {c.name: _equal(*c.limits) for c in ranges if c.name not in edges and c.name not in words}
        by = [ByBin(name, edges[name]) if name in edges else ByColumn(name) for name in columns]
        for item in by:
            item.held(self.source)
        return domain_of(self.source, by, {**self._words(), **words}, ways=ways)

    def _one(self, aggregate: Aggregate) -> Aggregation:
        return self._query({aggregate.name: aggregate})

    def _query(self, aggregates: dict[str, Aggregate]) -> Aggregation:
        shape = self._shape()
        found = {name: item.checked(self.source, self._limits) for name, item in aggregates.items()}
        return Aggregation(shape, aggregates=found, ledger=self.ledger, lost=self.lost)

    def _shape(self) -> Shape:
        keys = known_keys(self.source, self.by, self.keys, self._words())
        unit = None if self.unit == ROW else self.unit
        limits = int(self.max_groups), int(self.max_rows)
        return Shape(self.source, unit, self.conditions, self.by, keys, *limits, self.portable)

    def _words(self) -> dict[str, tuple[str, ...]]:
        columns = () if self.schema is None else self.schema.columns
        return {item.name: item.words for item in columns if item.words is not None and item.public}

    def _limits(self, column: str) -> object:
        """The schema's range of a column, where it is public."""
        columns = () if self.schema is None else self.schema.columns
        for item in columns:
            if item.name == column and item.kind == "number" and item.range is not None:
                if item.public:
                    return item.limits
                raise BadInput(
                    f"The schema's range of {column!r} was read off the data.",
                    fix=(
                        *("Give ", Argument("bounds", ("lower", "upper")), " that are known without the data, or "),
                        *(Argument("bounds", "private"), "."),
                    ),
                )
        return None

    def _with(self, **changes: Any) -> Table:
        """A copy; a data frame or file is not opened again."""
        found = replace(self)
        own = {"conditions": self.conditions, "by": self.by, "keys": self.keys, **changes}
        for name, value in own.items():
            object.__setattr__(found, name, value)
        return found


def check_edges(edges: Sequence[float]) -> tuple[float, ...]:
    """Edges of bins in rising order."""
    ends = check.reals("edges", edges)
    if len(ends) < 2 or any(a >= b for a, b in itertools.pairwise(ends)) or len(ends) > 1001:
        raise BadInput((Argument("edges"), " must be 2 to 1,001 numbers in rising order."))
    return ends


def _equal(lower: float, upper: float, bins: int = 16) -> tuple[float, ...]:
    """Bins of one width."""
    return tuple(lower + (upper - lower) * k / bins for k in range(bins)) + (upper,)


def _check_schema(schema: object) -> None:
    from ..data import Schema

    if isinstance(schema, str | os.PathLike):
        raise BadInput("schema is a Schema, not the place of one.", fix="Give tacit.data.Schema.read(place).")
    if schema is not None and not isinstance(schema, Schema):
        raise BadInput(
            f"schema must be a Schema, got {check.told(schema)}.",
            fix="Make one with tacit.data.Schema, or leave it out.",
        )


def _check_unit(table: Opened, unit: str) -> None:
    if unit == ROW and ROW in table.columns:
        raise BadInput(
            ('The table has a column "row", and ', Argument("unit", ROW), " means that each row is a person."),
            fix="Rename the column.",
        )
    if unit == ROW:
        return
    kind = table.column(unit).type()
    far = kind.is_timestamp() and kind.scale in COARSE  # such a time may have no text
    if kind.is_nested() or kind.is_json() or far:
        raise BadInput(f"Column {unit!r} cannot say whose row it is: it holds {worded(kind)}.")
