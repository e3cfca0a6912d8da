"""CSV files, plain or compressed, as named columns of texts. With Arrow a large file takes about a second."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..core.errors import BadInput
from ..core.files import Limited, opened
from .frames import Table, check_header, from_arrow, full_header
from .values import Values, parsed

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
"""How a compressed file is opened, by the end of its name."""
ENDINGS = (".csv", *(f".csv{ending}" for ending in OPENERS))
WORKBOOKS = frozenset({".xls", ".xlsx", ".xlsm", ".ods"})
ENCODING = 'Save it as UTF-8; Excel calls that "CSV UTF-8".'
DELIMITERS = (",", ";", "\t", "|")
SEPARATORS = dict(zip(DELIMITERS, ("a comma", "a semicolon", "a tab", "a vertical bar"), strict=True))
MOST, LARGE, DENSE = 2**40, 2**30, 250
"""Bytes: of a file; of what any compressed file may hold; how many times larger than on disk a larger one may be."""
HEADER = 2**24
_UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)


def read_csv(path: Path) -> Table:
    """Read a CSV file with a header; what separates its values is seen from the header.

    Where that is a semicolon, `1.234,5` is a number with a decimal comma.
    """
    header, delimiter = header_of(path)
    table = _by_arrow(path, header, delimiter) or _by_rows(path, header, delimiter)
    if delimiter != ";":
        return table
    return Table({name: values.with_decimal_points() for name, values in table.columns.items()}, table.rows, table.name)


def header_of(path: Path) -> tuple[list[str], str]:
    """The names of the columns of a CSV file, and what separates its values: both from its first line alone."""
    _refuse_workbook(path)
    try:
        with _opened(path, errors="surrogateescape") as file:
            header, delimiter = _header(file, path.name)
        "".join(header).encode()  # bytes of later lines are nobody's business here
    except UnicodeError:
        raise BadInput(f"{path.name} is not text in UTF-8.", fix=ENCODING) from None
    except (*_UNREADABLE, csv.Error):
        raise BadInput(f"{path.name} cannot be read as a CSV file with a header.") from None
    _refuse_numbers(header, path.name)
    check_header(header, path.name)
    return header, delimiter


def begins_with_header(path: Path) -> bool:
    """Whether no blank line stands above the header."""
    with _opened(path, errors="surrogateescape") as file:
        return bool(file.readline(HEADER + 1).strip())


def _refuse_workbook(path: Path) -> None:
    if path.suffix.lower() in WORKBOOKS:
        raise BadInput(f"{path.name} is a workbook, not a CSV file.", fix='Save its sheet as "CSV UTF-8" first.')


def _refuse_numbers(header: list[str], name: str) -> None:
    """Refuse a first line that is a record: its values must not be shown as names. Columns may be numbered."""
    numbers = [parsed(column) for column in header]
    counted = any(numbers == list(range(first, first + len(numbers))) for first in (0, 1))
    if not counted and not any(map(math.isnan, numbers)):
        raise BadInput(f"{name}: the first line holds numbers, not the names of columns.", fix="Add a header line.")


def _opened(path: Path, errors: str = "strict") -> IO[str]:
    return io.TextIOWrapper(bytes_of(path), newline="", encoding="utf-8-sig", errors=errors)


def bytes_of(path: Path) -> Any:
    """The file's bytes, decompressed; more than so small a file can sensibly hold are refused."""
    file = opened(path, MOST)
    if path.suffix not in OPENERS:
        return file
    most = max(LARGE, DENSE * path.stat().st_size)
    return io.BufferedReader(Limited(OPENERS[path.suffix](file, "rb"), most, path, file))


def _header(file: IO[str], name: str) -> tuple[list[str], str]:
    lines = iter(lambda: file.readline(HEADER + 1), "")
    line = next((line for line in lines if line.strip()), None)
    if line is None:
        raise BadInput(f"{name} is empty.")
    if len(line) > HEADER:
        raise BadInput(
            f"{name}: its first line has more than {HEADER:,} characters.", fix="It should name the columns."
        )
    delimiter = max(DELIMITERS, key=line.count)
    header = next(csv.reader(io.StringIO(line), delimiter=delimiter))
    return full_header([column.strip() for column in header]), delimiter


def _by_arrow(path: Path, header: list[str], delimiter: str) -> Table | None:
    """None where Arrow is not installed, or cannot read the file: then Python says in which row the fault is."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError:
        return None
    text = pyarrow.string()
    try:
        with bytes_of(path) as file:
            read = pyarrow.csv.read_csv(
                file,
                read_options=pyarrow.csv.ReadOptions(column_names=header, skip_rows=0, block_size=1 << 22),
                parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(header, text), strings_can_be_null=False
                ),
            )
    except (pyarrow.ArrowException, ValueError, *_UNREADABLE):
        return None
    if not read.num_rows:
        return None
    if full_header([str(read[column][0]).strip().lstrip("\ufeff") for column in header]) != header:
        return None
    read = read.slice(1)
    if not read.num_rows:
        raise BadInput(f"{path.name} holds no rows.")
    return Table({column: from_arrow(read[column]) for column in header}, read.num_rows, path.name)


def _by_rows(path: Path, header: list[str], delimiter: str) -> Table:
    columns: list[list[str | None]] = [[] for _ in header]
    try:
        with _opened(path) as file:
            reader = csv.reader(file, delimiter=delimiter)
            rows = (row for row in reader if row)
            next(rows)
            for number, row in enumerate(rows, start=1):
                if len(row) != len(header):
                    raise BadInput(
                        f"{path.name}: record {number} (line {reader.line_num}) has {len(row)} values "
                        f"where the first line, taken as the header, names {len(header)} columns.",
                        fix=f"Put a value that holds {SEPARATORS[delimiter]} into double quotes; remove lines above "
                        "the header.",
                    )
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not text in UTF-8.", fix=ENCODING) from None
    except (*_UNREADABLE, csv.Error):
        raise BadInput(f"{path.name} cannot be read as a CSV file with a header.") from None
    if not columns[0]:
        raise BadInput(f"{path.name} holds no rows.")
    found = {name: Values.of_texts(values) for name, values in zip(header, columns, strict=True)}
    return Table(found, len(columns[0]), path.name)
