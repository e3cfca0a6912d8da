"""Records as rows of bounded norm. Every function here is total: no value of a record raises (soundness rule 8)."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.arrays import Array
from ..mechanism.columns import array_of_column, holds_times, items_of, number_of, parts_of

Floats = NDArray[np.float64]
NUMERIC = "biuf"
BLOCK = 1 << 15
"""Numbers of one block of rows: 256 KiB."""
SLACK = 1e-9
"""Rows are scaled to norm 1 - SLACK, so that the norm of the stored numbers, evaluated exactly, is at most 1."""


def bounded(x: Any, norm_bound: float, intercept: float) -> Any:
    """Rows divided by `norm_bound` and shortened to norm 1 where they are longer; a last feature `intercept`, if not 0.

    A value that is not finite counts as 0. Sparse rows stay sparse.
    """
    from scipy import sparse

    if sparse.issparse(x):
        return _sparse(x, norm_bound, intercept)
    whole = np.empty((x.shape[0], x.shape[1] + bool(intercept)))
    whole[:, x.shape[1] :] = intercept
    some = max(BLOCK // max(x.shape[1], 1), 1)
    for first in range(0, len(whole), some):
        _bound(whole[first : first + some, : x.shape[1]], x[first : first + some], norm_bound)
    return whole


def _bound(rows: Floats, x: Any, norm_bound: float) -> None:
    """Write a block of rows, small enough to stay in the cache."""
    with np.errstate(all="ignore"):
        rows[:] = x
        np.copyto(rows, 0.0, where=~np.isfinite(rows))
        rows /= norm_bound
    np.clip(rows, -1e150, 1e150, out=rows)  # so that no square overflows
    rows *= _shrink(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]


def checked(estimator: object, x: object, y: object, *, sparse: bool, guess: bool = False) -> tuple[Any, Array]:
    """Rows and labels of matching length, as arrays. No value is looked at: a NaN raises nothing (soundness rule 8)."""
    from sklearn.utils.validation import check_consistent_length

    if y is None:
        raise BadInput(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    rows = read(estimator, x, sparse=sparse, reset=True)
    labels = answers(y, guess=guess)
    check_consistent_length(rows, labels)
    return rows, labels


def read(estimator: object, x: object, *, sparse: bool, reset: bool) -> Any:
    """Rows as an array or a sparse matrix of float64; names and number of the features are kept, or compared."""
    from sklearn.utils.validation import validate_data

    _two_dimensional(x)
    kind, plain = "csr" if sparse else False, numbers(x)
    if plain is not x and hasattr(x, "columns"):
        validate_data(estimator, x, skip_check_array=True, reset=reset)
        return plain
    with np.errstate(all="ignore"):
        return validate_data(
            estimator, plain, accept_sparse=kind, dtype=np.float64, ensure_all_finite=False, reset=reset,
            ensure_min_samples=fewest(estimator),
        )  # fmt: skip


def _two_dimensional(x: object) -> None:
    """Refuse by shape and type what is no table of real numbers: scikit-learn's own errors would print its values."""
    held = x if hasattr(x, "columns") or hasattr(x, "ndim") else _array(x)
    dimensions = getattr(held, "ndim", 2)
    if dimensions < 2:
        raise BadInput(
            f"Expected a 2D array of rows, got a {dimensions}D array, or rows of different lengths.",
            fix="Reshape your data to (records, features).",
        )
    _real(held)


def _real(x: object) -> None:
    if getattr(getattr(x, "dtype", None), "kind", "?") == "c":
        raise BadInput("Complex data not supported.", fix="Give real numbers.")


def fewest(estimator: object) -> int:
    """How many records there must be: none where their number is private."""
    return 1 if getattr(estimator, "public_size", None) is None else 0


def numbers(x: object) -> Any:
    """Numbers as they are; in a list or an array of objects or texts every entry by itself, NaN where it is no number.

    One entry that is no number neither raises nor changes how the others are read. A warning goes by the type of the
    array alone.
    """
    if isinstance(x, np.ma.MaskedArray) and x.dtype.kind in NUMERIC:
        return _unmasked(x)
    if getattr(getattr(x, "dtype", None), "kind", "?") in NUMERIC or hasattr(x, "tocsr"):
        return x
    found = x if isinstance(x, np.ndarray) else _array(x)
    if isinstance(x, list | tuple) and found.ndim == 2 and found.dtype.kind in NUMERIC:
        return found
    if found.ndim != 2 or found.dtype.kind in NUMERIC or (isinstance(x, np.ndarray) and found.dtype.kind not in "OUS"):
        return x
    if not isinstance(x, list | tuple):
        warnings.warn("Some columns are not of a number type: entries that are no numbers count as 0.", stacklevel=4)
    return np.array([[number(value) for value in row] for row in found.tolist()], dtype=np.float64)


def _unmasked(x: np.ma.MaskedArray[Any, Any]) -> Floats:
    """A masked array of numbers as one with NaN: a value under a mask is missing, whatever is stored there."""
    return np.where(np.ma.getmaskarray(x), math.nan, np.ma.getdata(x).astype(np.float64))


def number(value: Any) -> float:
    """The number that a value is or spells; NaN for any other. One complex entry makes a frame complex: the others stay
    what they were."""
    if isinstance(value, complex | np.complexfloating):
        return float(value.real) if value.imag == 0 else math.nan
    return number_of(value)


def answers(y: object, *, guess: bool = False) -> Array:
    """Labels or targets as an array. Those of a list stay what they are, so that none changes how others are read; with
    `guess` numpy chooses one type for all of them.
    """
    from sklearn.utils.validation import column_or_1d

    _real(y)
    y = items_of(y) if holds_times(y) else y
    if isinstance(y, np.ma.MaskedArray):
        y = _unmasked(y) if y.dtype.kind in NUMERIC else y.ravel().tolist()
    if guess or not isinstance(y, list | tuple):
        held = y if guess or np.asarray(y).dtype.kind != "c" else np.asarray(y, dtype=object)  # one word of a category
        column = np.asarray(column_or_1d(held, warn=True))
        typed = guess or isinstance(y, np.ndarray) or column.dtype.kind not in "US"
        return column if typed else column.astype(object)  # in a series of polars one text makes texts of all
    found = np.empty(len(y), dtype=object)
    for place, value in enumerate(y):
        found[place] = value
    return found


def places(labels: Array, classes: Array) -> NDArray[np.int64]:
    """The number of each label's class; -1 for a label that is none of them, whose record counts as nothing."""
    kinds = {"texts" if kind in "US" else "numbers" for kind in (labels.dtype.kind, classes.dtype.kind) if kind != "O"}
    if len(kinds) > 1:
        raise BadInput("Labels and classes are of different types: one holds texts, the other numbers.")
    if labels.dtype.kind in NUMERIC and classes.dtype.kind in NUMERIC:
        found = np.full(len(labels), -1, dtype=np.int64)
        for place, name in enumerate(classes):
            found[labels == name] = place
        return found
    known = {name: place for place, name in enumerate(classes.tolist())}
    if classes.dtype.kind in NUMERIC:  # a series of texts does not say so by its type
        return np.array([_place(known, number(label)) for label in labels.tolist()], dtype=np.int64)
    return np.array([_place(known, label) for label in labels.tolist()], dtype=np.int64)


def _place(known: dict[object, int], label: object) -> int:
    try:
        return known.get(label, -1)
    except Exception:  # whatever one person's value does
        return -1


def _array(x: object) -> NDArray[np.generic]:
    """What a list or a frame is as an array; of objects where its entries are not all numbers."""
    if hasattr(x, "columns") and any(map(holds_times, parts_of(x))):
        return array_of_column(x, filled=False).astype(object)
    for kind in (None, object):
        try:
            with warnings.catch_warnings():  # numpy warns of an entry that is masked
                warnings.simplefilter("ignore")
                found = np.asarray(x, dtype=kind)
        except Exception:  # entries that make no array; rows of different lengths are refused by scikit-learn's check
            continue
        if found.dtype.kind in NUMERIC or kind is object:
            return found
    return _entries(x) if isinstance(x, list | tuple) else np.zeros(0)


def _entries(x: Any) -> NDArray[np.generic]:
    """A list of rows of one length as an array of objects, entry by entry: no entry is asked to become an array."""
    if not all(isinstance(row, list | tuple) and len(row) == len(x[0]) for row in x):
        return np.zeros(0)
    found = np.empty((len(x), len(x[0])), dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = x[place[0]][place[1]]
    return found


def products_by_row(rows: Any, columns: Floats) -> Floats:
    """rows @ columns, shape (n, k), such that each row's numbers are the same whoever else is there.

    A product of dense matrices is blocked by its size: one record more changes the last digits of others' numbers, and
    a choice between two that are nearly equal. Products of sparse rows are summed row by row.
    """
    from scipy import sparse

    if not isinstance(rows, np.ndarray):
        return np.asarray(rows @ columns)
    some = max(BLOCK // max(rows.shape[1], 1), 1)
    parts = [sparse.csr_matrix(rows[first : first + some]) @ columns for first in range(0, len(rows), some)]
    return np.concatenate(parts) if parts else np.zeros((0, columns.shape[1]))


def largest_norm(intercept: float) -> float:
    """The norm that no row of `bounded` exceeds."""
    return math.hypot(1.0, intercept)


def signs(place: NDArray[np.int64], positive: int) -> Floats:
    """1 for the positive class, -1 for the others, 0 for no class, whose record counts as nothing."""
    return np.where(place == positive, 1.0, np.where(place < 0, 0.0, -1.0))


def _shrink(norms: Floats) -> Floats:
    return np.where(norms > 1.0 - SLACK, (1.0 - SLACK) / np.maximum(norms, 1.0 - SLACK), 1.0)


def _sparse(x: Any, norm_bound: float, intercept: float) -> Any:
    from scipy import sparse

    rows = sparse.csr_matrix(x, dtype=np.float64, copy=True)
    rows.sum_duplicates()  # entries of one place are one value, and their squares one square
    rows.data[~np.isfinite(rows.data)] = 0.0
    with np.errstate(all="ignore"):
        rows.data = np.clip(rows.data / norm_bound, -1e150, 1e150)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = sparse.csr_matrix(sparse.diags(_shrink(norms)) @ rows)
    if not intercept:
        return rows
    return sparse.csr_matrix(sparse.hstack((rows, sparse.csr_matrix(np.full((rows.shape[0], 1), intercept)))))
