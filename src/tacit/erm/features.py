"""Rows of estimators that need no labels: an array of bounded norm, or a table with its schema."""

from __future__ import annotations

import numpy as np

from ..core import check
from .estimator import PrivateEstimator
from .losses import Floats
from .rows import bounded, fewest, read
from .tables import Schemas, encoded, read_off, row_norm, schema_of


class PrivateOfRows(PrivateEstimator):
    """Rows scaled by `norm_bound`, or by the bound that follows from `schema`, and shortened to norm 1."""

    schema: Schemas
    norm_bound: float

    def _rows(self, X: object, *, reset: bool) -> Floats:
        if self.schema is None:
            x = read(self, X, sparse=False, reset=reset)
        else:
            x, _ = encoded(schema_of(self.schema), X, None, labelled=False, fewest=fewest(self))
            self.n_features_in_ = x.shape[1]
        return np.asarray(bounded(x, self._norm_bound(), False))

    def _norm_bound(self) -> float:
        if self.schema is not None:
            return row_norm(schema_of(self.schema))
        return check.positive("norm_bound", self.norm_bound)

    def _not_covered(self) -> tuple[str, ...]:
        return () if self.schema is None else read_off(schema_of(self.schema))
