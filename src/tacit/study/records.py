"""Records in whatever their owner keeps them: arrays, DataFrames, Arrow tables, sparse matrices, dictionaries, texts.

They are handed to models untouched. Only the tests that look at records without the model turn them into numbers.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.arrays import Array

Floats = NDArray[np.float64]
WORDS, CATEGORIES, OWN, LONG = 256, 24, 6, 3.0
"""Hashed words of a text, hashed values of a column, numbers that each value has of its own where there are more, and
how many words a value has on average to be a text."""


def kept(x: Any) -> Any:
    """The records as they are, where rows can be taken from them; anything else as an array."""
    if isinstance(x, np.ndarray) or _frame(x) or _sparse(x):
        return x
    if isinstance(x, Mapping):
        return {name: np.asarray(part) for name, part in x.items()}
    made = np.asarray(x)
    if made.ndim == 0:
        raise BadInput(
            "Records must be a table with one row per record.",
            fix="Give an array, a DataFrame or a list of texts: collect a lazy frame, stack the batches of a loader.",
        )
    if made.dtype == object and made.ndim == 1 and len(made) and not isinstance(made[0], str):
        raise BadInput("Records must be rows of one length.", fix="Give an array, a DataFrame, or a list of texts.")
    return made


def size(x: Any) -> int:
    """How many records there are."""
    if isinstance(x, Mapping):
        return min((len(part) for part in x.values()), default=0)
    return int(x.shape[0])


def take(x: Any, rows: Array) -> Any:
    """The chosen rows (numbers, or true and false), in the same kind of table."""
    places = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
    if isinstance(x, Mapping):
        return {name: part[places] for name, part in x.items()}
    library = _frame(x)
    if library == "pandas":
        return x.iloc[places]
    if library == "pyarrow":
        return x.take(places)
    return x[places]


def only(x: Any, names: Collection[str]) -> Any:
    """Those columns of a data frame that are among `names`, in the same kind of frame; other records as they are."""
    library = _frame(x)
    if not library:
        return x
    kept = [name for name in _columns(x) if name in names]
    return x[kept] if library == "pandas" else x.select(kept)


def joined(one: Any, other: Any) -> Any:
    """Concatenate two sets of records of one kind, with the same columns."""
    library = _frame(one)
    if type(one) is not type(other) or _columns(one) != _columns(other):
        raise BadInput("members and nonmembers must be of one kind, with the same columns or features.")
    if isinstance(one, Mapping):
        return {name: np.concatenate((one[name], other[name])) for name in one}
    if library:
        return _joined_frames(library, one, other)
    if _sparse(one):
        from scipy import sparse

        return sparse.vstack([one, other]).tocsr()
    return np.concatenate((one, other))


def lent(x: Any) -> Any:
    """The records for a model to read; what the model writes into them is not seen by anybody else."""
    if isinstance(x, Mapping):
        return {name: part.copy() for name, part in x.items()}
    return x.copy() if isinstance(x, np.ndarray) or _frame(x) == "pandas" or _sparse(x) else x


def features(x: Any) -> Floats:
    """What is known of each record itself, as finite numbers: records x features.

    A number that is missing becomes the column's mean, with a column that says so; a column of words becomes counts of
    hashed values, a text counts of hashed words.
    """
    if isinstance(x, Mapping):
        return np.concatenate([features(part) for part in x.values()], axis=1)
    if _frame(x):
        columns = [_column(values) for values in _frame_columns(x)]
        if not columns:
            raise BadInput("The records have no columns.")
        return np.concatenate(columns, axis=1)
    if _sparse(x):
        return _few_columns(x)
    flat = x.reshape(len(x), -1)
    if flat.dtype.kind in "biufM" or all(not isinstance(value, str) for value in flat.ravel()[:1]):
        return _numbers(flat)
    if flat.shape[1] == 1:
        return _texts(flat[:, 0])
    return np.concatenate([_column(column) for column in flat.T], axis=1)


def identities(x: object, y: Array) -> list[tuple[bytes, str]]:
    """Each record with its label, in a form that is equal where they are: 16 bytes of a hash of its own values."""
    rows = [hashlib.blake2b(values, digest_size=16).digest() for values in _values(x)]
    return [(row, str(label)) for row, label in zip(rows, y, strict=True)]


def _values(x: Any) -> Iterator[bytes]:
    """All values of each record as bytes, equal where they are; words are not hashed into few columns here."""
    if isinstance(x, Mapping):
        parts = zip(*(_values(part) for part in x.values()), strict=True)
        return (b"".join(len(part).to_bytes(8, "big") + part for part in row) for row in parts)
    if _frame(x):
        return (repr(row).encode() for row in zip(*(column.tolist() for column in _frame_columns(x)), strict=True))
    if _sparse(x):
        table = x.tocsr().sorted_indices()
        cuts = zip(table.indptr[:-1], table.indptr[1:], strict=True)
        return (table.indices[a:b].tobytes() + (table.data[a:b] + 0).tobytes() for a, b in cuts)
    flat = x.reshape(len(x), -1)
    if flat.dtype == object:
        return (repr(row.tolist()).encode() for row in flat)
    return ((row + 0.0 if row.dtype.kind == "f" else row).tobytes() for row in flat)  # -0.0 equals 0.0


def described(x: Any) -> str:
    """The shape of one record, or how many columns or tables it has, for error messages; never a value."""
    if isinstance(x, Mapping):
        return f"{len(x)} named tables"
    return f"{len(_columns(x))} columns" if _frame(x) else f"shape {tuple(np.shape(x)[1:])}"


def _frame(x: object) -> str:
    """The library that a table is of; empty for anything else."""
    for name, kind in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")):
        module = sys.modules.get(name)
        if module is not None and isinstance(x, getattr(module, kind)):
            return name
    return ""


def _joined_frames(library: str, one: object, other: object) -> Any:
    """One frame after the other. Columns of numbers may differ in their type, categories in the list of their words."""
    module = sys.modules[library]
    if library == "pandas":
        return module.concat(_same_categories(one, other))
    try:
        if library == "pyarrow":
            return module.concat_tables([one, other], promote_options="permissive")
        return module.concat([one, other], how="vertical_relaxed")
    except Exception as problem:  # each library has its own kinds
        raise BadInput("Columns of members and nonmembers must be of the same types.") from problem


def _same_categories(one: Any, other: Any) -> list[Any]:
    """Two pandas frames whose columns of categories list the same words: concat would turn others into objects."""
    kind = sys.modules["pandas"].CategoricalDtype
    one, other = one.copy(deep=False), other.copy(deep=False)
    for name in one.columns if one.columns.is_unique else ():
        both = [frame[name].dtype for frame in (one, other)]
        if both[0] != both[1] and all(isinstance(each, kind) for each in both):
            words = both[0].categories.union(both[1].categories, sort=False)
            one[name], other[name] = (frame[name].cat.set_categories(words) for frame in (one, other))
    return [one, other]


def _frame_columns(x: Any) -> list[Array]:
    """The columns of a frame as arrays; numbers with gaps as numbers, dates without their time zone."""
    library = _frame(x)
    if library != "pandas":
        return [np.asarray(x[name]) for name in (x.column_names if library == "pyarrow" else x.columns)]
    types = sys.modules["pandas"].api.types
    found = []
    for place in range(x.shape[1]):
        column = x.iloc[:, place]
        if types.is_datetime64_any_dtype(column.dtype):
            found.append(column.to_numpy(dtype="datetime64[ns]"))
        elif types.is_numeric_dtype(column.dtype) and not isinstance(column.dtype, np.dtype):
            found.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            found.append(np.asarray(column))
    return found


def _sparse(x: object) -> bool:
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(x))


def _columns(x: Any) -> list[Any]:
    if isinstance(x, Mapping):
        return [(name, part.shape[1:]) for name, part in x.items()]
    if library := _frame(x):
        return list(x.column_names if library == "pyarrow" else x.columns)
    return list(x.shape[1:])


def _column(values: Array) -> Floats:
    """One column of a table as numbers."""
    if values.dtype.kind in "biufmM":
        return _numbers(values[:, None])
    try:
        return _numbers(values.astype(np.float64)[:, None])
    except (TypeError, ValueError):
        words = np.array([str(value) for value in values])
    if np.mean([len(value.split()) for value in words[:1000]]) >= LONG:
        return _texts(words)
    names, place, count = np.unique(words, return_inverse=True, return_counts=True)
    bucket = np.array([zlib.crc32(name.encode()) % CATEGORIES for name in names])
    bucket = np.arange(len(names)) if len(names) <= CATEGORIES else bucket
    rare = np.log1p(count)[place][:, None]
    table = np.concatenate((np.eye(int(bucket.max()) + 1)[bucket[place]], rare), axis=1)
    if len(names) <= CATEGORIES:
        return table
    own = np.array([list(hashlib.blake2b(name.encode(), digest_size=OWN).digest()) for name in names]) / 256
    return np.concatenate((table, own[place]), axis=1)  # two words of one bucket are far apart


def _numbers(values: Array) -> Floats:
    """Finite numbers; what is missing or infinite becomes the mean, and says so in a column of its own."""
    if values.dtype.kind in "mM":
        values = np.where(np.isnat(values), np.nan, values.astype("int64").astype(np.float64))
    try:
        found = values.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput("Records must be numbers, words or texts.") from None
    known = np.isfinite(found)
    if known.all():
        return found
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, found, 0.0).sum(axis=0) / count
    lost = ~known[:, ~known.all(axis=0)]
    return np.concatenate((np.where(known, found, mean), lost.astype(np.float64)), axis=1)


def _texts(texts: Array) -> Floats:
    counts = np.zeros((len(texts), WORDS))
    for row, text in enumerate(texts):
        for word in str(text).lower().split():
            counts[row, zlib.crc32(word.encode()) % WORDS] += 1
    return np.asarray(np.log1p(counts))


def _few_columns(x: Any) -> Floats:
    """Fold a sparse matrix with many columns into WORDS columns by random signs."""
    if x.shape[1] <= 4 * WORDS:
        return np.asarray(x.toarray(), dtype=np.float64)
    from scipy import sparse

    signs = np.random.default_rng(0).choice([-1.0, 1.0], x.shape[1])
    place = np.arange(x.shape[1]) % WORDS
    folding = sparse.csr_matrix((signs, (np.arange(x.shape[1]), place)), shape=(x.shape[1], WORDS))
    return np.asarray((x @ folding).toarray(), dtype=np.float64)
