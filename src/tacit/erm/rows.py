"""Records as rows of bounded norm. Every function here is total: no value of a record raises (soundness rule 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput

Floats = NDArray[np.float64]
SLACK = 1e-9
"""Rows are scaled to norm 1 - SLACK, so that the norm of the stored numbers, evaluated exactly, is at most 1."""


def bounded(x: Any, norm_bound: float, intercept: bool) -> Any:
    """Rows divided by `norm_bound` and shortened to norm 1 where they are longer; a last feature 1 for the intercept.

    A value that is not finite counts as 0. Sparse rows stay sparse.
    """
    from scipy import sparse

    if sparse.issparse(x):
        return _sparse(x, norm_bound, intercept)
    rows = np.array(x, dtype=np.float64)
    rows[~np.isfinite(rows)] = 0.0
    rows /= norm_bound
    np.clip(rows, -1e150, 1e150, out=rows)  # so that no square overflows
    rows *= _shrink(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]
    return np.hstack((rows, np.ones((len(rows), 1)))) if intercept else rows


def checked(estimator: Any, x: Any, y: Any, *, sparse: bool) -> tuple[Any, NDArray[Any]]:
    """Rows and labels of matching length, as arrays. No value is looked at: a NaN raises nothing (soundness rule 8)."""
    from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

    if y is None:
        raise BadInput(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    rows = validate_data(
        estimator, x, accept_sparse="csr" if sparse else False, dtype=np.float64, ensure_all_finite=False
    )
    labels = column_or_1d(y, warn=True)
    check_consistent_length(rows, labels)
    return rows, np.asarray(labels)


def largest_norm(intercept: bool) -> float:
    """The norm that no row of `bounded` exceeds."""
    return float(np.sqrt(2.0)) if intercept else 1.0


def signs(y: Any, positive: Any, known: NDArray[Any]) -> Floats:
    """1 for the positive class, -1 for other known classes, 0 for an unknown label, whose record counts as nothing."""
    labels = np.asarray(y)
    found = np.where(labels == positive, 1.0, -1.0)
    return np.where(np.isin(labels, known), found, 0.0)


def _shrink(norms: Floats) -> Floats:
    return np.where(norms > 1.0 - SLACK, (1.0 - SLACK) / np.maximum(norms, 1.0 - SLACK), 1.0)


def _sparse(x: Any, norm_bound: float, intercept: bool) -> Any:
    from scipy import sparse

    rows = sparse.csr_matrix(x, dtype=np.float64, copy=True)
    rows.data[~np.isfinite(rows.data)] = 0.0
    rows.data = np.clip(rows.data / norm_bound, -1e150, 1e150)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows = sparse.csr_matrix(sparse.diags(_shrink(norms)) @ rows)
    return (
        sparse.csr_matrix(sparse.hstack((rows, sparse.csr_matrix(np.ones((rows.shape[0], 1)))))) if intercept else rows
    )
