"""A schema and a run file for somebody's table, such that `tacit train` works at once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ..core import BadInput
from ..core.files import unwritten, written
from ..data import Column, Schema, Table, columns_of, infer
from ..data.decimal_marks import MARKS
from ..data.frames import named
from ..data.inference import identifiers
from ..data.schema import Limit
from ..data.values import days, parsed

RATE, STEPS, EPSILON = 0.1, 200, 3.0
"""A tenth of the records at every step, twenty passes: found on five public tables (benchmarks/tables.py)."""
ASKED = {
    "title": "what the page is about",
    "owner": "who is responsible for the model",
    "purpose": "what it is for",
    "data": "which data it was trained on",
    "people": "whose data they are",
    "tuning": "how settings were chosen: on other data, on these data (not covered), not at all",
    "access": "who can reach the model",
    "earlier_releases": "what else was published from these data",
}
HOW = {
    True: "everybody takes part in a step with this probability",
    False: "with rate and steps: by noisy gradients (DP-SGD); without them: by the best method for a linear model",
}
T = TypeVar("T")
Ask = Callable[[str, str], str]
"""ask(question, answer if none is given) -> answer"""


@dataclass(frozen=True)
class Facts:
    """What is known of a table: by options, or by answers on a terminal."""

    label: str | None = None
    unit: str | None = None
    groups: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[Limit, Limit]] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    decimal: str | None = None


def described(path: Path, facts: Facts, ask: Ask | None = None) -> tuple[Schema, Table, Facts]:
    """The schema of a table; columns that name records are left out. `ask` is there on a terminal only."""
    table = columns_of(path)
    if ask is not None:
        facts = _asked(table, facts, ask)
    if facts.label is None:
        raise BadInput(
            "The column to be predicted is not named.",
            fix=f"Give --label COLUMN, one of: {named(table.columns)}.",
        )
    schema = _inferred(table, facts)
    names = tuple(name for name in identifiers(table, schema) if name not in (*facts.ranges, *facts.words))
    if names:
        facts = replace(facts, drop=(*facts.drop, *names))
        schema = _inferred(table, facts)
    return schema, table, facts


def run_text(table: str, schema: str, rows: int, told: Mapping[str, str] | None = None, *, descent: bool = True) -> str:
    """The run file: everything that `train` and `bracket` need, with what each line means.

    Without `descent` the way of training is left open: see `study.minimiser`.
    """
    line = "" if descent else "# "
    delta = min(1e-5, 10.0 ** math.floor(-math.log10(10 * max(rows, 1))))
    return f"""\
[data]
source = {_quoted(table)}
schema = {_quoted(schema)}        # kinds, ranges and words of the columns: check that they are public

[model]
kind = "linear"                   # or "mlp"; or make = "your_module:make_model"

[plan]
epsilon = {EPSILON:g}                       # the promise: at most this much privacy loss for anybody in the table
delta = {delta:.0e}                     # but for this chance that the promise fails: far below 1 / number of records
{line}rate = {RATE:g}                        # {HOW[descent]}
{line}steps = {STEPS}

[describe]                        # for the page; what is not said there is shown as "not stated"
{_description(told or {})}
"""


def write(
    path: Path, schema: Schema, rows: int, folder: Path, told: Mapping[str, str] | None = None
) -> tuple[Path, Path]:
    """Write both files into a folder; nothing that is there is overwritten."""
    stem = path.name.split(".")[0]
    files = folder / f"{stem}.schema.toml", folder / f"{stem}.run.toml"
    if there := next((file for file in files if file.exists()), None):
        raise BadInput(f"{there} is there already.", fix="Remove it, or give another --out DIR.")
    schema.save(files[0])
    with unwritten(files[1], files[0]):
        descent = schema.unit is not None or len(schema.classes) != 2
        written(files[1], run_text(str(path), str(files[0]), rows, told, descent=descent))
    return files


def asked_for(told: Mapping[str, str], ask: Ask) -> dict[str, str]:
    """What only the owner can say, asked on a terminal; an empty answer stays "not stated"."""
    answers = {
        key: told.get(key) or ask(f"For the page: {words} (empty: not stated)", "") for key, words in ASKED.items()
    }
    return {**told, **{key: text for key, text in answers.items() if text}}


def _description(told: Mapping[str, str]) -> str:
    lines = []
    for key, words in ASKED.items():
        line = f"{key} = {_quoted(told[key])}" if key in told else f'# {key} = ""'
        lines.append(f"{line:<33} # {words}")
    return "\n".join([*lines, *(f"{key} = {_quoted(text)}" for key, text in told.items() if key not in ASKED)])


def facts_of(
    label: str | None, unit: str | None, groups: Sequence[str], ranges: Sequence[str], words: Sequence[str],
    drop: Sequence[str], decimal: str | None = None,
) -> Facts:  # fmt: skip
    """From options: --range age=0,120 and --words sex=female,male."""
    return Facts(
        label,
        unit,
        tuple(groups),
        {name: _range(name, text) for name, text in _each("range", ranges, "age=0,120").items()},
        {name: _list(text) for name, text in _each("words", words, "sex=female,male").items()},
        tuple(drop),
        _mark(decimal),
    )


def _inferred(table: Table, facts: Facts) -> Schema:
    return infer(
        table,
        label=facts.label,
        unit=facts.unit,
        groups=facts.groups,
        ranges=facts.ranges,
        words=facts.words,
        drop=facts.drop,
        decimal=facts.decimal,
    )


def option(name: str, column: str, value: str) -> str:
    """An option as one types it in a shell, where a column's name may hold spaces and brackets."""
    return f"--{name} {shlex.quote(f'{column}={value}')}"


def _each(option: str, items: Sequence[str], example: str) -> dict[str, str]:
    """What an option says of each column; a column is named once."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not name or not equals or not value:
            raise BadInput(f"--{option} takes COLUMN=VALUES.", fix=f"For example --{option} {example}.")
        if name in found:
            raise BadInput(f"--{option} is given twice for column {name!r}.")
        found[name] = value
    return found


def _range(name: str, text: str) -> tuple[Limit, Limit]:
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != 2:
        raise BadInput(
            f"The range of {name!r} must be two values.", fix=f"For example {option('range', name, '0,120')}."
        )
    numbers = [parsed(end) for end in ends]
    if not any(map(math.isnan, numbers)):
        return numbers[0], numbers[1]
    if any(math.isnan(days(end)) for end in ends):
        raise BadInput(
            f"The range of {name!r} must be two numbers or two dates.",
            fix=f"For example {option('range', name, '0,120')} or {option('range', name, '1990-01-01,2030-12-31')}.",
        )
    return ends[0], ends[1]


def _ends(name: str, text: str) -> tuple[Limit, Limit]:
    """A range that a column of numbers or dates can have, the lower end first."""
    low, high = _range(name, text)
    Column(name, "date" if isinstance(low, str) else "number", range=(low, high))
    return low, high


def _mark(decimal: str | None) -> str | None:
    if decimal not in (None, *MARKS):
        raise BadInput("--decimal is a point or a comma.", fix="For example --decimal ,")
    return decimal


def _list(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _asked(table: Table, facts: Facts, ask: Ask) -> Facts:
    """What was not given as an option; an empty answer leaves it to the data, and a wrong one is asked for again."""
    names = list(table.columns)

    def column(answer: str) -> str:
        if answer not in names:
            raise BadInput(f"There is no column {answer!r}. Columns: {named(names)}.")
        return answer

    if facts.label is None:
        facts = replace(facts, label=_answer(ask, "Which column is to be predicted?", column, names[-1]))
    if facts.unit is None:
        question = "Which column says whose record a row is? (empty: every row is another person)"
        facts = replace(facts, unit=_answer(ask, question, column))
    schema, ranges, words = _inferred(table, facts), dict(facts.ranges), dict(facts.words)
    for found in schema.columns:
        if found.public or found.name in (*ranges, *words, *identifiers(table, schema)):
            continue
        if found.range is not None:
            question = f"Public range of {found.name}, LOW,HIGH (empty: read off the data)"
            ends = _answer(ask, question, partial(_ends, found.name))
            ranges |= {found.name: ends} if ends is not None else {}
        else:
            told = _answer(ask, f"Public words of {found.name}, A,B,... (empty: read off the data)", _list)
            words |= {found.name: told} if told is not None else {}
    return replace(facts, ranges=ranges, words=words)


def _answer(ask: Ask, question: str, read: Callable[[str], T], usual: str = "") -> T | None:
    """What an answer means, asked again until it means something; None if it is empty."""
    asked = question
    while answer := ask(asked, usual):
        try:
            return read(answer)
        except BadInput as problem:
            asked = f"{problem.message}\n{question}"
    return None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
