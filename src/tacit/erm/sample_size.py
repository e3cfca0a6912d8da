"""How many records a theorem asks for: the inverse of what it promises for a number of records."""

from __future__ import annotations

import math
from functools import partial

from ..core import BadInput, check
from .additive import PrivateAdditiveTrees
from .linear import PrivateLinearClassifier, quoted
from .tables import schema_of

MOST = 2**50
"""Where the search ends: rounding errors outgrow one record's share before."""
CLOSE = 1.01


def records_needed(model: PrivateLinearClassifier, excess: float, features: int | None = None) -> int:
    """A number of records, the least up to 1 %, for which the theorem of a fit by `model` promises this excess at most.

    The excess is that of `utility_`: of the mean objective above its minimum with probability 0.95, or for a descent
    above that of any weights of norm 1, on average. Nothing is read but the settings of `model` and the number of
    `features`, which a schema tells. With `delta` None, delta is one over the square of each number that is tried.
    """
    wanted, promise = check.positive("excess", excess), partial(_promised, model, features=_width(model, features))
    enough = next((size for size in _powers() if promise(size) <= wanted), None)
    if enough is None:
        promise(1000, strict=True)
        raise BadInput(
            f"No number of records promises an excess of {wanted:g} with these settings.",
            fix="Raise epsilon, or leave regularization at 'auto'.",
        )
    fewer = enough // 2
    while enough > CLOSE * fewer + 1:
        middle = (fewer + enough) // 2
        fewer, enough = (fewer, middle) if promise(middle) <= wanted else (middle, enough)
    return enough


def _powers() -> list[int]:
    return [2**power for power in range(1, int(math.log2(MOST)) + 1)]


def _width(model: PrivateLinearClassifier, features: int | None) -> int:
    if not isinstance(model, PrivateLinearClassifier) or isinstance(model, PrivateAdditiveTrees):
        raise BadInput("Theorems of linear classifiers alone tell how many records are needed.")
    if model.schema is not None:
        return schema_of(model.schema).width
    if model.classes is None or features is None:
        raise BadInput(
            "How many records are needed depends on classes and features.", fix="Give classes= and features=."
        )
    return check.whole("features", features)


def _promised(model: PrivateLinearClassifier, size: int, *, features: int, strict: bool = False) -> float:
    """The excess that is promised for so many records; infinite where no method keeps this epsilon for so few, or
    rounding outgrows a record among so many. `strict` raises then."""
    try:
        design, _, _ = quoted(model, size, features)
    except BadInput:
        if strict:
            raise
        return math.inf
    promised = design.expected if design.excess is None else design.excess
    if promised is None:
        raise BadInput(f"method={design.method!r} has a theorem about its cost, and none about its excess.")
    return promised
