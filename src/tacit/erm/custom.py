"""Private minimisation of a loss of your own."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import BadInput, Charger
from .linear import PrivateLinearClassifier
from .losses import Logistic, MarginLoss
from .tables import Schemas
from .tabulated import Tabulated


class PrivateERM(PrivateLinearClassifier):
    """Private minimisation of a convex loss of the margin m = y x . theta, with constants that you declare.

    `loss` has `lipschitz` (the largest |l'|), `smoothness` (the largest l''), and functions `value`, `slope` and
    `curvature` of an array of margins: see `tacit.erm.losses.MarginLoss`. None is the logistic loss. Only a penalty
    |theta|^2 ("l2") has a proof.

    The loss is read at public margins, before any record. What is minimised is the convex table between them: its slope
    differs by at most `smoothness`/1024 for margins up to 16. So records stay apart, and convexity and constants hold,
    by construction, whatever the functions do. A loss that contradicts what you declare is refused.
    Reference: docs/proofs/erm.md, Theorem 9.
    """

    def __init__(
        self,
        loss: MarginLoss | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        penalty: str = "l2",
        method: str = "auto",
        schema: Schemas = None,
        classes: Sequence[object] | None = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        public_size: int | None = None,
        warm_start: bool = False,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            method=method,
            schema=schema,
            classes=classes,
            adjacency=adjacency,
            norm_bound=norm_bound,
            regularization=regularization,
            fit_intercept=fit_intercept,
            public_size=public_size,
            warm_start=warm_start,
            ledger=ledger,
            random_state=random_state,
        )
        self.loss = loss
        self.penalty = penalty

    def _loss(self) -> MarginLoss:
        if self.penalty != "l2":
            raise BadInput(
                f"penalty={self.penalty!r} has no proof: without strong convexity one record can move the minimiser "
                "without bound (Xu, Caramanis and Mannor 2012, for the L1 penalty).",
                fix='Use penalty="l2".',
            )
        if self.loss is None:
            return Logistic()
        return Tabulated.of(self.loss)
