"""The verb query: private answers about a table, from a terminal."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..core import AnswerStore, Charger
from ..core.errors import Argument, BadInput
from ..core.files import shown, written
from ..core.files import text as read_text
from ..core.json_text import Json
from ..core.shown import at_most, remains, significant, small
from .app import SEED, Result, assumed, verb
from .inputs import check_out, require, seeded
from .ledger import opened

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..query import Answer, Query, Table

ENDINGS = (".csv", ".json", ".svg")
FILES = (".txt", ".csv", ".tsv", ".parquet", ".json")
"""How a file of keys may be called: a name of this kind that is no file was mistyped, and its answer would be paid."""
MOST_KEYS = 2**26
"""Bytes of a file of keys."""


N = TypeVar("N", int, float)
WRITTEN = {"k": "K of --top", "q": "Q of --quantile"}
"""Arguments of Python that are a part of an option."""
PYTHON_ONLY = {"bins", "columns", "label", "lost", "on", "rows", "ways"}
"""Arguments of questions that the command does not ask."""
TENTH = 10
"""So many questions about groups that are not known fit into the delta that a ledger sets aside for them."""
MANY_CUT = 0.1
"""The share of people with rows beyond the limits from which on the answer says what to do."""
CUT = (
    "Many people have more rows than the limits count, so counts and sums are too low. "
    "Give --max-rows or --max-groups; the noise grows with them."
)


def option(argument: Argument) -> str:
    """An argument that an error of the room `query` names, as the option that stands for it."""
    known = inspect.signature(query).parameters  # with --json and --debug, as typer sees it
    if argument.name in known:
        return argument.after(f"--{argument.name.replace('_', '-')}")
    return WRITTEN.get(argument.name, str(argument))


@verb("query", written=option)
def query(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A .parquet or .csv file, shop.duckdb#table, postgresql://host/name#table."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="What the answer may cost.")],
    unit: Annotated[str | None, typer.Option(help="The column that says whose row it is, or row.")] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Above 0 where groups have no --keys; a tenth of what --ledger sets aside, unless given."),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="COL,..", help="Group by these columns.")] = None,
    keys: Annotated[
        str | None, typer.Option(metavar="a,b|FILE", help="The groups to release, known without the data.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COND", help='Only rows like this: "age >= 30"; repeatable.')
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="How many rows.")] = False,
    users: Annotated[bool, typer.Option("--users", help="How many different people.")] = False,
    sum_: Annotated[list[str] | None, typer.Option("--sum", metavar="C", help="The sum of a column.")] = None,
    mean: Annotated[list[str] | None, typer.Option(metavar="C", help="The mean of a column.")] = None,
    variance: Annotated[list[str] | None, typer.Option(metavar="C", help="The variance of a column.")] = None,
    histogram: Annotated[
        str | None, typer.Option(metavar="C", help="How many rows are in every bin; give --edges.")
    ] = None,
    quantile: Annotated[
        str | None, typer.Option(metavar="C:Q", help="The number below which about a share Q of people lies.")
    ] = None,
    top: Annotated[str | None, typer.Option(metavar="C:K", help="The K words that most people have.")] = None,
    edges: Annotated[
        str | None, typer.Option(metavar="A,B,..", help="Where the bins of a histogram begin and end.")
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(metavar="LO,HI|private", help="Bounds of the numbers, known without the data.")
    ] = None,
    schema: Annotated[str | None, typer.Option(metavar="F", help="A schema with bounds, words and the unit.")] = None,
    max_groups: Annotated[int, typer.Option(help="Groups that one person counts in.")] = 1,
    max_rows: Annotated[int, typer.Option(help="Rows that one person counts with in a group.")] = 1,
    ledger: Annotated[str | None, typer.Option(metavar="URL", help="The budget that pays.")] = None,
    analyst: Annotated[str, typer.Option(help="Who asks: their allotment pays too.")] = "",
    purpose: Annotated[str, typer.Option(help="What for: the allotment of this purpose pays too.")] = "",
    key: Annotated[
        str | None, typer.Option(help="A name: asked again with it, the same answer comes back and costs nothing.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Say what it would cost; read and charge nothing.")
    ] = False,
    out: Annotated[
        str | None, typer.Option(metavar="F", help="Write the answer: .csv, .json, or a chart as .svg.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Answer a question about a table privately."""
    require("ibis", "query")
    from ..data import Schema
    from ..query import Table

    if out is not None:
        check_out(Path(out), Path(source), ENDINGS)
    budget = None if ledger is None else opened(ledger)
    facts = None if schema is None else Schema.read(schema)
    payer = _payer(budget, purpose, analyst)
    table = Table(source, unit=unit, schema=facts, max_groups=max_groups, max_rows=max_rows, ledger=payer)
    table = table.where(*where) if where else table
    limits = None if bounds is None else _bounds(bounds)
    columns = {"sum": sum_ or [], "mean": mean or [], "variance": variance or []}
    _check_one(top=top, quantile=quantile, histogram=histogram, others=count or users or any(columns.values()))
    if edges is not None and histogram is None:
        raise BadInput("--edges are those of a histogram, and none is asked for.", fix="Give --histogram C.")
    if top is not None:
        if by is not None:
            raise BadInput("The most frequent words are asked of the whole table.", fix="Use --where instead of --by.")
        column, k = _pair(top, "top", int)
        found = table.top(column, k, None if keys is None else _keys(keys, 1))
        return _answered(found, Wanted(epsilon, _delta(found, delta, budget), key, preview, out, seed))
    if by is not None:
        names = [name.strip() for name in by.split(",")]
        table = table.group_by(*names, keys=None if keys is None else _keys(keys, len(names)))
    elif keys is not None:
        raise BadInput("--keys lists groups, and nothing is grouped by.", fix="Give --by.")
    if quantile is not None:
        column, q = _pair(quantile, "quantile", float)
        if not 0 <= q <= 1:
            raise BadInput("--quantile takes a share between 0 and 1.", fix=f"The median is {column}:0.5.")
        question: Query[Any] = table.quantile(column, q, limits)
    else:
        question = _question(table, count, users, columns, limits, histogram, edges)
    return _answered(question, Wanted(epsilon, _delta(question, delta, budget), key, preview, out, seed))


def _payer(budget: Ledger | None, purpose: str, analyst: str) -> Charger | None:
    """The budget, in the name of whoever asks."""
    if not purpose and not analyst:
        return budget
    if budget is None:
        raise BadInput("--analyst and --purpose say whose part of a budget pays.", fix="Give --ledger.")
    from ..mechanism import Account

    return Account(budget, purpose, analyst)


def _delta(question: Query[Any], given: float | None, budget: Ledger | None) -> float:
    """The delta of a question: as given, else 0 where it needs none, else a part of what the budget sets aside."""
    if given is not None or question.shape.keys is not None or budget is None:
        return given or 0.0
    return budget.terms.stated / TENTH


@dataclass(frozen=True)
class Wanted:
    """What a question may cost, and where its answer goes."""

    epsilon: float
    delta: float
    key: str | None
    preview: bool
    out: str | None
    seed: int | None


def _answered(question: Query[Any], wanted: Wanted) -> Result:
    if wanted.preview:
        return _priced(question, wanted.epsilon, wanted.delta)
    again = _is_kept(question.ledger, wanted.key)
    answer = question.release(epsilon=wanted.epsilon, delta=wanted.delta, key=wanted.key, rng=seeded(wanted.seed))
    if wanted.out is not None:
        _write(answer, Path(wanted.out))
    told = _told(answer, wanted.epsilon, wanted.delta, again)
    return told if again else replace(told, rows=[*told.rows, *_allotted(question.ledger)])


def _allotted(ledger: object) -> list[tuple[str, str]]:
    """What remains for whoever asked, where that is not all that remains."""
    from ..mechanism import Account
    from ..query.question import left

    found = left(ledger) if isinstance(ledger, Account) else None
    return [] if found is None else [("for who asks", f"epsilon {remains(found)}")]


def _is_kept(ledger: object, key: str | None) -> bool:
    """Whether the ledger has an answer under the key: it is given again, and nothing is charged."""
    from ..mechanism.charging import behind

    memory = behind(ledger)[0]
    return key is not None and isinstance(memory, AnswerStore) and memory.stored(key) is not None


def _check_one(*, others: bool, **alone: str | None) -> None:
    """What is asked for alone stands beside nothing else."""
    asked = [f"--{name}" for name, value in alone.items() if value is not None]
    if len(asked) + others > 1:
        raise BadInput(f"{asked[0]} is asked for alone.", fix="Ask once for each; every answer costs its own epsilon.")


def _question(
    table: Table,
    count: bool,
    users: bool,
    columns: dict[str, list[str]],
    bounds: object,
    histogram: str | None,
    edges: str | None,
) -> Query[Any]:
    """The aggregates that were asked for, all in one pass."""
    from .. import query as room

    found: Json = ({"count": room.count()} if count else {}) | ({"users": room.users()} if users else {})
    for kind, names in columns.items():
        found |= {f"{kind}({name})": getattr(room, kind)(name, bounds) for name in names}
    if histogram is not None:
        if edges is None:
            raise BadInput(
                "A histogram needs edges: numbers that are known without the data.", fix="Give --edges 0,20,40,60."
            )
        return table.histogram(histogram, _numbers(edges, "edges"))
    if not found:
        raise BadInput(
            "Nothing was asked.",
            fix="Give --count, --users, --sum C, --mean C, --variance C, --histogram C, --quantile C:Q or --top C:K.",
        )
    return table.aggregate(**found)


def _keys(given: str, columns: int) -> Any:
    """Keys in a line, or one on every line of a file; values of several columns are separated by commas."""
    if Path(given).is_file():
        lines = [line.strip() for line in read_text(given, MOST_KEYS).splitlines() if line.strip()]
        return lines if columns == 1 else [tuple(part.strip() for part in line.split(",")) for line in lines]
    if given.endswith(FILES) or "/" in given:
        raise BadInput(
            f"--keys names the file {shown(Path(given))}, and there is no such file.",
            fix="A group that is called so goes into a file of keys, one on every line.",
        )
    if columns > 1:
        raise BadInput("Keys of several columns are given in a file, one on every line: a,b.")
    return [part.strip() for part in given.split(",")]


def _bounds(given: str) -> Any:
    if given == "private":
        return given
    found = _numbers(given, "bounds")
    if len(found) != 2:
        raise BadInput("--bounds takes two numbers, LO,HI, or the word private.")
    return tuple(found)


def _pair(given: str, name: str, kind: Callable[[str], N]) -> tuple[str, N]:
    """Read an option of the form COLUMN:NUMBER."""
    column, _, text = given.rpartition(":")
    try:
        return column, kind(text)
    except ValueError:
        such = "whole number, such as city:3" if kind is int else "number, such as age:0.5"
        raise BadInput(f"--{name} takes a column and a {such}.") from None


def _numbers(given: str, name: str) -> list[float]:
    try:
        return [float(part) for part in given.split(",")]
    except ValueError:
        raise BadInput(f"--{name} takes numbers with commas between them.") from None


def _write(answer: Answer, path: Path) -> None:
    kind = path.suffix.lower()
    if kind == ".csv":
        import io

        import pyarrow.csv

        held = io.BytesIO()
        pyarrow.csv.write_csv(answer.table, held)
        written(path, held.getvalue().decode())
    else:
        written(
            path, answer.chart() if kind == ".svg" else json.dumps(answer.to_json(), allow_nan=False, indent=1) + "\n"
        )


def _priced(question: Query[object], epsilon: float, delta: float) -> Result:
    price = question.preview(epsilon=epsilon, delta=delta)
    data: Json = {"error": price.error, "event": price.event.to_json(), "remaining": price.remaining}
    data["assumptions"] = list(price.assumptions)
    own = question.name.split(" ")[1]
    errors: Mapping[str, float | None] = price.error if isinstance(price.error, Mapping) else {own: price.error}
    rows = [
        (
            f"error of {name}",
            "depends on the data" if error is None else f"+- {significant(error)}, {price.confidence:.0%}",
        )
        for name, error in errors.items()
    ]
    rows.append(("cost", f"epsilon {at_most(epsilon, 4)}, delta {small(delta)}"))
    rows += [] if price.remaining is None else [("remaining", f"epsilon {remains(price.remaining)}")]
    found = {**data, "epsilon": epsilon, "delta": delta, "confidence": price.confidence}
    return Result(found, rows, assumed(price.assumptions))


def _sure(answer: Answer) -> tuple[str, str]:
    """What the confidence is about: an error beside each number, or one in words; some answers have none."""
    sure = f"{answer.confidence:.0%}"
    if any(row["error"] is not None for row in answer.rows()):
        return "confidence", f"{sure} for each number, noise only"
    if answer.raw is not None and answer.raw.error is not None:
        return "confidence", f"{sure}: {answer.notes[0]}"
    return "error", "depends on the data"


def _told(answer: Answer, epsilon: float, delta: float, again: bool) -> Result:
    lost = answer.lost
    data = {
        "answers": list(answer.rows()),
        "epsilon": epsilon,
        "delta": delta,
        "repeated": again,
        "adjacency": answer.adjacency.value,
        "event": answer.event.to_json(),
        "receipt": None if answer.receipt is None else answer.receipt.to_json(),
        "rows_lost": None if lost is None else lost.to_json(),
        "randomness": answer.randomness,
        "notes": list(answer.notes),
        "assumptions": list(answer.assumptions),
    }
    rows = [_sure(answer)]
    if lost is not None and lost.value is not None:
        rows.append(("cut by limits", f"{lost.value:.1%} of people ({lost.lower:.1%} to {lost.upper:.1%})"))
    rows.append(("cost", f"epsilon {at_most(epsilon, 4)}, delta {small(delta)}, {answer.adjacency.value}"))
    if again:
        rows.append(("charged now", "nothing: this is the answer that was kept under the key"))
    lines: list[str] = []
    if lost is not None and lost.lower is not None and lost.lower > MANY_CUT:
        lines.append(CUT)
    left = (
        "nothing was charged: no ledger" if answer.receipt is None else f"epsilon {remains(answer.receipt.remaining)}"
    )
    rows.append(("remaining then" if again else "remaining", left))
    return Result(data, rows, [*lines, *assumed(answer.assumptions)], table=answer.lines(most=1000))
