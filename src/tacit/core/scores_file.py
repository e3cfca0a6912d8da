"""`scores.csv` in and out, Parquet in: score, member, optionally attack, record, target, group, randomised.

Rows are read and written a part at a time, so that ten million of them fit into memory. The file tells who was a
member: only its owner may read it. Text that a spreadsheet would take for a formula is written with an apostrophe
before it, which reading takes away.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from . import scores_arrow
from .errors import BadInput
from .files import opened, shown, unwritten
from .scores import Scores

COLUMNS = ("score", "member", "attack", "record", "target", "group", "randomised")
PART, WRITTEN = 2_000, 2**16
"""Rows that are read and that are written at a time."""
MOST = 2**36
"""Bytes of a file of scores."""
HEADER = 2**16
LONGEST = 10_000
"""Characters of one value."""
NARROW, WIDEST = 4 * 64, 2**29
"""Bytes of a text that any column may hold, and of a whole column that holds longer ones: all take as much room."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
WORDS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
Column = NDArray[np.generic]


def write(scores: Sequence[Scores], path: str | Path) -> Path:
    """Write all attacks into one file, whole or not at all, for its owner alone to read."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with unwritten(path, partial):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(f"{','.join(COLUMNS)}\r\n".encode())
            for item in scores:
                for start in range(0, len(item), WRITTEN):
                    file.write(_lines(item, slice(start, start + WRITTEN)))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    return path


def _lines(item: Scores, part: slice) -> bytes:
    """Some rows as the csv module would write them; Arrow is several times as fast where it is installed."""
    attack, last = _quoted(_harmless(item.attack)), f"{int(item.randomised)}\r\n"
    score, member = item.score[part], item.member[part].astype(np.int8)
    group = [""] * len(score) if item.group is None else _names(item.group[part])
    names = [_names(item.record[part]), _names(item.target[part]), group]
    with contextlib.suppress(scores_arrow.Unread):
        return scores_arrow.lines([score, member, attack, *names, last])
    columns = [score, member, *names]
    rows = zip(*(part.tolist() if isinstance(part, np.ndarray) else part for part in columns), strict=True)
    return "".join([f"{a!r},{b},{attack},{c},{d},{e},{last}" for a, b, c, d, e in rows]).encode()


def _names(values: Column) -> Column | list[str]:
    """Whole numbers as they are; anything else as texts that can stand in a file."""
    if values.dtype.kind in "iu":
        return values
    texts = [str(value) for value in values.tolist()]
    known = {text: text if values.dtype.kind in "fb" else _quoted(_harmless(text)) for text in set(texts)}
    return [known[text] for text in texts]


def _quoted(text: str) -> str:
    """A cell quoted as Python's csv module quotes it."""
    return '"{}"'.format(text.replace('"', '""')) if any(mark in text for mark in ',"\r\n') else text


def _harmless(text: str) -> str:
    """Text that no spreadsheet takes for a formula; a number stays one."""
    if not text.startswith((*FORMULA, "'")) or _is_number(text):
        return text
    return f"'{text}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read(path: str | Path) -> list[Scores]:
    """Read a file, one `Scores` per attack, in order of first appearance."""
    path = Path(path)
    name = shown(path)
    if path.suffix == ".json":
        raise BadInput(f"{name} is no file of scores.", fix="tacit report and tacit verify read evidence.")
    columns = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    if not {"score", "member"} <= columns.keys():
        fix = "To attack a model, give a run.toml, or --model with --members and --nonmembers."
        raise BadInput(f"{name} is read as an attack's scores, and lacks the columns score and member.", fix=fix)
    if not len(columns["score"]):
        raise BadInput(f"{name} holds no rows.")
    if (attacks := columns.get("attack")) is None:
        return [_scores(columns, "scores", name)]
    texts, first, place = np.unique(attacks, return_index=True, return_inverse=True)
    if texts.size == 1:
        return [_scores(columns, str(texts[0]) or "scores", name)]
    return [
        _scores({key: column[place == k] for key, column in columns.items()}, str(texts[k]) or "scores", name)
        for k in np.argsort(first)
    ]


def _scores(columns: dict[str, Column], attack: str, name: str) -> Scores:
    randomised = columns.get("randomised", np.zeros(1, dtype=bool))
    if randomised.any() != randomised.all():
        raise BadInput(f"{name}: column randomised must be the same in all rows of one attack.")
    return Scores(
        columns["score"],
        columns["member"],
        attack=attack,
        randomised=bool(randomised[0]),
        record=columns.get("record"),
        target=columns.get("target"),
        group=columns.get("group"),
    )


def _csv(path: Path) -> dict[str, Column]:
    """By Arrow where that can read the file, else by Python, which names the row of a fault."""
    with contextlib.suppress(scores_arrow.Unread, OSError, UnicodeDecodeError, csv.Error), opened(path, MOST) as file:
        header = next(csv.reader([file.readline(HEADER).decode("utf-8-sig")]), [])
        known = [key for key in header if key in COLUMNS]
        if known and len(set(header)) == len(header):
            file.seek(0)
            empty: dict[str, Column] = {key: np.zeros(0, dtype=_kind(key)) for key in known}
            return _joined(itertools.chain([empty], scores_arrow.parts(file, known, WORDS)), shown(path))
    try:
        with opened(path, MOST) as file, io.TextIOWrapper(file, newline="", encoding="utf-8-sig") as text:
            return _joined(_read_parts(text, shown(path)), shown(path))
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{shown(path)} cannot be read as a CSV file.") from None
    except csv.Error as error:
        raise BadInput(f"{shown(path)} cannot be read as a CSV file: {str(error)[:80]}.") from None


def _read_parts(text: IO[str], name: str) -> Iterator[dict[str, Column]]:
    table = csv.reader(text)
    header = next(table, [])
    known = {key: place for place, key in enumerate(header) if key in COLUMNS}
    yield {key: np.zeros(0, dtype=_kind(key)) for key in known}
    number, width = 2, len(header)
    while rows := list(itertools.islice(table, PART)):
        if any(len(row) != width for row in rows):
            rows = _even(rows, width, name, number)
        if rows:
            part = list(zip(*rows, strict=True))
            yield {key: _column(key, part[place], name) for key, place in known.items()}
        number += PART


def _even(rows: list[list[str]], width: int, name: str, number: int) -> list[list[str]]:
    """Without blank lines; a row with fewer or more values is named."""
    for place, row in enumerate(rows):
        if row and len(row) != width:
            raise BadInput(f"{name}: row {number + place} has {len(row)} values where the header names {width}.")
    return [row for row in rows if row]


def _kind(key: str) -> type:
    return {"score": np.float64, "member": np.bool_, "randomised": np.bool_}.get(key, np.str_)


def _column(key: str, values: Sequence[str], name: str) -> Column:
    if key == "score":
        try:
            return np.array(values, dtype=np.float64)
        except ValueError:
            raise BadInput(f"{name}: column score must hold a number in every row.") from None
    return _flags(key, values, name) if key in ("member", "randomised") else _named(values, name, key)


def _flags(key: str, values: Sequence[str], name: str) -> Column:
    words = {text: WORDS.get(text.strip().lower()) for text in set(values)}
    if key == "randomised" and set(words) == {""}:
        return np.zeros(len(values), dtype=bool)
    if None in words.values():
        raise BadInput(f"{name}: column {key} must hold 0 or 1 in every row.")
    return np.array([words[text] for text in values], dtype=bool)


def _named(values: Sequence[str], name: str, key: str) -> Column:
    """Names of records, targets, groups and attacks: whole numbers where all are, else texts."""
    if key in ("record", "target") and _plain(values):
        return np.array(values, dtype=np.int64)
    if max(map(len, values)) > LONGEST:
        raise BadInput(f"{name}: column {key} holds a text of more than {LONGEST:,} characters.")
    return np.array([text[1:] if text.startswith("'") else text for text in values], dtype=np.str_)


def _plain(values: Sequence[str]) -> bool:
    """Whether all are whole numbers of at most 18 digits, none spelt with zeros before it."""
    every = "".join(values)
    if not every.isascii() or not every.isdecimal() or not 0 < min(map(len, values)) <= max(map(len, values)) < 19:
        return False
    return all(text[0] != "0" or text == "0" for text in values)


def _joined(parts: Iterator[dict[str, Column]], name: str) -> dict[str, Column]:
    """Concatenate the columns of all parts. A column that is empty in every row is dropped."""
    every = list(parts)
    found: dict[str, Column] = {}
    for key in list(every[0]):
        pieces = [part.pop(key) for part in every]
        pieces = pieces[1:] or pieces
        mixed = len({piece.dtype.kind for piece in pieces}) > 1
        _check_width(pieces, name, key)
        whole = np.concatenate([piece.astype(np.str_) if mixed else piece for piece in pieces])
        if whole.dtype.kind != "U" or whole.size == 0 or (whole != "").any():
            found[key] = whole
    return found


def _check_width(pieces: list[Column], name: str, key: str) -> None:
    """Refuse a text column whose longest text would make the whole array too large for memory."""
    width = max((piece.dtype.itemsize for piece in pieces if piece.dtype.kind == "U" and len(piece)), default=0)
    if width > NARROW and width * sum(map(len, pieces)) > WIDEST:
        raise BadInput(
            f"{name}: column {key} holds a text of {width // 4:,} characters, too many for so many rows.",
            fix="Give shorter names.",
        )


def _parquet(path: Path) -> dict[str, Column]:
    """By Arrow's columns where these are numbers and texts, else row by row, as any text."""
    from .parquet import table

    found = table(path)
    header = list(found.column_names)
    if twice := next((key for key in header if header.count(key) > 1), None):
        raise BadInput(f"{shown(path)} has two columns named {shown(twice)!r}.")
    known = [key for key in header if key in COLUMNS]
    empty: dict[str, Column] = {key: np.zeros(0, dtype=_kind(key)) for key in known}
    with contextlib.suppress(scores_arrow.Unread):
        return _joined(itertools.chain([empty], scores_arrow.table_parts(found, known, WORDS)), shown(path))
    return _joined(itertools.chain([empty], _text_parts(found, known, shown(path))), shown(path))


def _text_parts(table: Any, known: list[str], name: str) -> Iterator[dict[str, Column]]:
    """Parts of a table whose values are taken for text, whatever they are."""
    from .parquet import texts

    for start in range(0, table.num_rows, PART):
        part = table.slice(start, PART)
        yield {key: _column(key, texts(part.column(key), name), name) for key in known}
