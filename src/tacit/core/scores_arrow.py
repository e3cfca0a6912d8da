"""Columns of a `scores.csv` by Arrow, where it is installed: about ten times as fast as Python's csv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.generic]
BLOCK = 2**23
"""Bytes that are read at a time."""
WIDE = 2**26
"""Characters of an array of texts."""


class Unread(Exception):
    """Arrow cannot read the file as it is; Python can, or says in which row the fault is."""


def parts(file: IO[bytes], header: list[str], flags: Mapping[str, bool]) -> Iterator[dict[str, Column]]:
    """Parts of the columns `header` of a file of comma-separated values; `flags` are the words of yes and no."""
    try:
        import pyarrow
        import pyarrow.csv
    except ImportError:
        raise Unread from None
    kinds = {key: pyarrow.float64() if key == "score" else pyarrow.string() for key in header}
    try:
        reader = pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(block_size=BLOCK, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds, include_columns=header, strings_can_be_null=False
            ),
        )
        for batch in reader:
            yield {key: _column(key, batch.column(place), flags) for place, key in enumerate(header)}
    except (pyarrow.ArrowException, ValueError, KeyError, OverflowError):
        raise Unread from None


def table_parts(table: Any, header: list[str], flags: Mapping[str, bool]) -> Iterator[dict[str, Column]]:
    """Parts of the columns `header` of an Arrow table, as they would be read from text."""
    import pyarrow

    try:
        for batch in table.select(header).to_batches(max_chunksize=2**18):
            yield {key: _typed(key, batch.column(place), flags) for place, key in enumerate(header)}
    except (pyarrow.ArrowException, ValueError, KeyError, OverflowError):
        raise Unread from None


def _typed(key: str, values: Any, flags: Mapping[str, bool]) -> Column:
    """A column that already has a type. Columns of neither numbers nor text are read in the slow way."""
    from pyarrow import float64, string, types

    kind = values.type
    if types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind)
    if values.null_count or not (text or types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise Unread
    if key == "score" and not types.is_boolean(kind):
        return _column(key, values.cast(float64()), flags)
    if text or types.is_integer(kind) or (types.is_boolean(kind) and key in ("member", "randomised")):
        return _column(key, values.cast(string()), flags)
    raise Unread


def lines(columns: Sequence[Column | list[str] | str]) -> bytes:
    """Rows of comma-separated values: arrays of numbers, lists of texts, and texts that are the same in all rows.

    The last column ends each line. Texts must be quoted already where that is needed.
    """
    try:
        import pyarrow
        import pyarrow.compute as pc
    except ImportError:
        raise Unread from None
    try:
        texts = [
            column if isinstance(column, str) else pyarrow.array(column).cast(pyarrow.large_string())
            for column in columns
        ]
        joined = pc.binary_join_element_wise(
            *(pyarrow.scalar(text, pyarrow.large_string()) if isinstance(text, str) else text for text in texts),
            pyarrow.scalar(",", pyarrow.large_string()),
        )
        _, _, data = joined.buffers()
        return bytes(memoryview(data)[: sum(pc.binary_length(joined).to_numpy())])
    except (pyarrow.ArrowException, ValueError):
        raise Unread from None


def _column(key: str, values: Any, flags: Mapping[str, bool]) -> Column:
    if values.null_count:
        raise Unread
    if key == "score":
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    if key in ("record", "target") and _plain(values):
        import pyarrow

        return np.asarray(values.cast(pyarrow.int64()).to_numpy(zero_copy_only=False))
    coded = values.dictionary_encode()
    words, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
    if key in ("member", "randomised"):
        return np.asarray(np.array([flags[word.strip().lower()] for word in words], dtype=bool)[codes])
    if max(map(len, words), default=0) * len(codes) > WIDE:  # an array of texts is as wide as its longest
        raise Unread
    return np.asarray(np.array([word[1:] if word.startswith("'") else word for word in words], dtype=np.str_)[codes])


def _plain(values: object) -> bool:
    """Whether all are whole numbers of at most 18 digits, none spelt with zeros before it."""
    import pyarrow.compute as pc

    length = pc.utf8_length(values)
    digits = pc.and_(pc.ascii_is_decimal(values), pc.less(length, 19))
    zeros = pc.and_(pc.starts_with(values, "0"), pc.greater(length, 1))
    return bool(pc.all(digits).as_py()) and not pc.any(zeros).as_py()
