"""A private answer about a table: noisy numbers with their errors, as numbers, rows and data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import Answer as Released
from ..core import Estimate
from ..core.errors import BadInput
from ..core.json_text import Json
from ..core.shown import aligned, label, significant, table
from .aggregates import Figure

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

PLAIN = ("value", "error")
"""Names of the columns of an only aggregate."""


@dataclass(frozen=True, repr=False)
class Answer(Released):
    """What `Query.release` gives back.

    `value` is a number, or an array with one number for each group, or a dictionary of them where several aggregates
    were asked for. `error` has the same form: each number is off by at most that, each with probability `confidence`.
    The error covers noise, never what bounding took away: `lost` estimates the share of people from whom it took
    something (None where that was not asked).
    """

    keys: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    lost: Estimate | None = None
    raw: Released | None = None

    @classmethod
    def of(cls, raw: Released) -> Answer:
        """Read what was released and stored."""
        body = raw.value
        figures = {name: _figure(part) for name, part in body["figures"].items()}
        scalar = not body["keys"]
        values = {name: _number(part.value) if scalar else part.value for name, part in figures.items()}
        errors = {name: _number(part.error) if scalar else part.error for name, part in figures.items()}
        single = next(iter(figures)) if len(figures) == 1 else None
        if not figures:
            values = {name: np.asarray(values) for name, values in body["keys"].items()}
        return cls(
            value=values if single is None else values[single],
            error=errors if single is None else errors[single],  # type: ignore[arg-type]
            event=raw.event,
            release=raw.release,
            confidence=raw.confidence,
            adjacency=raw.adjacency,
            receipt=raw.receipt,
            trust=raw.trust,
            randomness=raw.randomness,
            notes=raw.notes,
            keys={name: tuple(values) for name, values in body["keys"].items()},
            figures=figures,
            lost=None if body["lost"] is None else Estimate(**dict(body["lost"])),
            raw=raw,
        )

    def rows(self) -> Iterator[Json]:
        """One dictionary per group and aggregate: by, aggregate, value, error, confidence."""
        for place in range(self._size):
            by = {name: values[place] for name, values in self.keys.items()}
            for name, figure in self.figures.items():
                value, error = _number(figure.value[place]), _finite(_number(figure.error[place]))
                yield {"by": by, "aggregate": name, "value": value, "error": error, "confidence": self.confidence}

    @property
    def columns(self) -> dict[str, Any]:
        """The keys, then for every aggregate its values and errors: `value` and `error` where there is one only.

        Where a key has one of these two names, an only aggregate has its own name, as it has among several.
        """
        found: dict[str, Any] = {name: list(values) for name, values in self.keys.items()}
        for (value, error), figure in zip(titles(self.keys, self.figures), self.figures.values(), strict=True):
            found |= {value: figure.value, error: figure.error}
        return found

    @property
    def table(self) -> pyarrow.Table:
        """An Arrow table, one row for each group."""
        import pyarrow

        return pyarrow.table({name: pyarrow.array(values) for name, values in self.columns.items()})

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame, one row for each group."""
        import pandas

        return pandas.DataFrame(self.columns)

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame, one row for each group."""
        import polars

        return polars.DataFrame(self.columns)

    def chart(self) -> str:
        """A chart of the answer with its errors, as SVG."""
        from .chart import chart

        return chart(self)

    def text(self) -> str:
        assert self.raw is not None
        return self.raw.text()

    def to_json(self) -> Json:
        """The answer as values for JSON."""
        assert self.raw is not None
        return {**self.raw.to_json(), "assumptions": list(self.assumptions)}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must be believed for the answer to have cost no more than it says."""
        from .question import assumed

        return assumed(self.event)

    def lines(self, most: int = 20) -> list[str]:
        """The numbers as a table of texts: a line for every group, a column for every aggregate.

        Without groups there is a line for every aggregate. Of more than `most` lines the others are counted.
        """
        names, texts = list(map(label, self.figures)), [_column(figure) for figure in self.figures.values()]
        if not self.keys:
            return aligned((), [(name, own[0]) for name, own in zip(names, texts, strict=True)])
        keys = [list(map(label, values)) for values in self.keys.values()]
        rows = list(zip(*keys, *texts, strict=True))
        places = range(len(self.keys), len(self.keys) + len(names))
        lines = aligned([*map(label, self.keys), *names], rows[:most], right=places)
        return lines if len(rows) <= most else [*lines, f"and {len(rows) - most:,} more"]

    def __repr__(self) -> str:
        if not self.figures:
            return f"Answer({label(self.release)}: {self._size:,} synthetic rows)"
        told = "\n  ".join(self.lines())
        return f"Answer({label(self.release)}, each within its error at confidence {self.confidence:g}):\n  {told}"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = []
        for row in self.rows():
            name = ", ".join([*(str(value) for value in row["by"].values()), row["aggregate"]])
            rows.append((name, shown(row["value"], row["error"])))
        rows.append(("confidence", f"{self.confidence:.0%} each, noise only"))
        rows += [("note", note) for note in self.notes]
        return table(self.release, rows)

    @property
    def _size(self) -> int:
        held: Any = [figure.value for figure in self.figures.values()] or list(self.keys.values())
        return len(held[0]) if held else 0


def shown(value: float, error: float | None) -> str:
    """`412 +- 23`: an error has two significant digits, and the value no more digits than that."""
    if error is None or not np.isfinite(error):
        return significant(value, 4)
    if error <= 0:
        return f"{value:,g} +- 0"
    digits = max(1 - int(np.floor(np.log10(error))), 0)
    if isinstance(value, int) and float(error).is_integer():
        digits = 0
    return f"{value:,.{digits}f} +- {error:,.{digits}f}"


def _column(figure: Figure) -> list[str]:
    """Every number of an aggregate with its error; the errors end at the same place, and so do the numbers."""
    pairs = zip(np.ravel(figure.value), np.ravel(figure.error), strict=True)
    texts = [shown(value.item(), error.item()).split(" +- ") for value, error in pairs]
    width = max((len(text[-1]) for text in texts if len(text) == 2), default=0)
    return [f"{text[0]} +- {text[1]:>{width}}" if len(text) == 2 else text[0] for text in texts]


def body_of(
    keys: Mapping[str, tuple[object, ...]], figures: Mapping[str, Figure], lost: Estimate | None
) -> dict[str, object]:
    """What is stored of an answer."""
    parts = {
        name: {"value": figure.value, "error": figure.error if np.isfinite(figure.error).all() else None}
        for name, figure in figures.items()
    }
    share = None
    if lost is not None:
        names = ("value", "lower", "upper", "confidence", "n", "note")
        share = {name: getattr(lost, name) for name in names}
    return {"keys": dict(keys), "figures": parts, "lost": share}


def titles(keys: Iterable[str], aggregates: Iterable[str]) -> list[tuple[str, str]]:
    """The names of the columns that hold the values and the errors of every aggregate."""
    names, own = list(aggregates), set(keys)
    return [PLAIN] if len(names) == 1 and not own & set(PLAIN) else [(name, f"{name}_error") for name in names]


def check_titles(keys: Sequence[str], aggregates: Sequence[str]) -> None:
    """Refuse an answer with two columns of one name: the second would overwrite the first."""
    names = [*keys, *(name for pair in titles(keys, aggregates) for name in pair)]
    if twice := next((name for k, name in enumerate(names) if name in names[:k]), None):
        raise BadInput(
            f"The answer would have two columns named {twice!r}.",
            fix="Give the aggregates other names: aggregate(rows=count(), people=users()).",
        )


def check_name(name: str) -> str:
    """The name of an aggregate becomes the name of a column."""
    if not isinstance(name, str) or not name:
        raise BadInput("The name of an aggregate is a text that is not empty.")
    return name


def _figure(part: Mapping[str, Any]) -> Figure:
    """JSON has no NaN: an error that is not known is stored as nothing."""
    value = part["value"]
    return Figure(value, np.full(len(value), np.nan) if part["error"] is None else part["error"])


def _number(value: object) -> Any:
    array = np.asarray(value)
    return array.ravel()[0].item() if array.size == 1 else value


def _finite(error: float) -> float | None:
    return error if np.isfinite(error) else None
