"""What a user gives as a teacher or a student, as one of two things: a `Network`, or a function fit(x, y, rng)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check
from ..core.arrays import Array
from ..core.global_randomness import lent

if TYPE_CHECKING:
    from torch import nn

    from ..fleet import MakeOptimizer
    from ..fleet.disjoint import Augment

Labels = NDArray[np.int64]
Fit = Callable[[Any, Array, np.random.Generator], object]


@dataclass(frozen=True)
class Network:
    """A torch module as a teacher or a student: `make()` makes one, and it takes `steps` steps of `batch_size` records.

    `optimizer` makes one from a list of parameters: Adam of `lr` if it is None. `augment(x, generator)` changes the
    training batch (batch, ...) of one teacher; a `tacit.fleet.RecordWise` one is called for all teachers at once.
    """

    make: Callable[[], nn.Module]
    steps: int = 500
    batch_size: int = 16
    lr: float = 1e-3
    optimizer: MakeOptimizer | None = None
    augment: Augment | None = field(default=None)
    device: str = "cpu"
    precision: str = "float32"
    compiled: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check.whole("steps", self.steps))
        object.__setattr__(self, "batch_size", check.whole("batch_size", self.batch_size))

    def descent(self) -> MakeOptimizer:
        """What makes the optimizer."""
        if self.optimizer is not None:
            return self.optimizer
        import torch

        rate = check.positive("lr", self.lr)
        return lambda parameters: torch.optim.Adam(parameters, lr=rate, fused=True)


def as_training(teacher: Any, x: Any, classes: int) -> Network | Fit:
    """A `Network`, or fit(x, y, rng) -> predict, from what a user gives.

    Accepted are a `Network`, "linear" or "mlp", a torch module or a function without arguments that makes one, and an
    estimator with fit and predict. So is a function fit(x, y, rng) that returns a predict function or an estimator.
    """
    if isinstance(teacher, Network):
        return teacher
    if isinstance(teacher, str):
        return _named(teacher, x, classes)
    if callable(getattr(teacher, "fit", None)) and _predicts(teacher):
        if inspect.isclass(teacher):
            raise BadInput(f"{teacher.__name__} is a class.", fix=f"Give an estimator: {teacher.__name__}().")
        return lambda a, b, rng: fitted(copied(teacher, rng), a, b)
    if _is_module(teacher):
        return Network(lambda: copy.deepcopy(teacher))
    if not callable(teacher):
        raise BadInput(
            f"A teacher cannot be made of {type(teacher).__name__}.",
            fix="Give an estimator, fit(x, y, rng), a torch module or a function that makes one, or a Network.",
        )
    return Network(teacher) if _needs_nothing(teacher) else teacher


def _predicts(teacher: object) -> bool:
    """Whether an estimator predicts, once it is fitted: those of scikit-learn that stack others hide it before."""
    return callable(getattr(teacher, "predict", None)) or callable(getattr(type(teacher), "predict", None))


def copied(estimator: object, rng: np.random.Generator) -> Any:
    """A fresh copy of an estimator with randomness of its own."""
    if not callable(getattr(estimator, "get_params", None)):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    model = clone(estimator)
    seeds = [name for name in model.get_params() if name.split("__")[-1] in ("random_state", "random_seed")]
    model.set_params(**{name: int(rng.integers(2**31)) for name in seeds})
    return model


def fitted(estimator: Any, x: Any, y: Labels) -> Any:
    """What `fit` returns, or the estimator where that is nothing."""
    found = estimator.fit(x, y)
    return estimator if found is None else found


def class_numbers(model: Any, x: Any) -> Labels:
    """What a model says of records as class numbers, from labels, shares or logits."""
    asked = model.predict if callable(getattr(model, "predict", None)) else model
    found = np.asarray(asked(x))
    if found.ndim == 2 and found.shape[1] > 1:
        return np.asarray(found.argmax(axis=1), dtype=np.int64)
    return np.asarray(found.reshape(len(found)), dtype=np.int64)


def _named(kind: str, x: Any, classes: int) -> Network:
    from ..train.recipe.networks import network

    features = int(np.prod(x.shape[1:]))
    with lent(np.random.default_rng(0)):
        network(kind, features, classes)  # a name that is not known is told here
    return Network(lambda: network(kind, features, classes))


def _is_module(value: object) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _needs_nothing(make: Callable[..., object]) -> bool:
    """Whether a function or class is called without arguments."""
    try:
        wanted = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(item.default is inspect.Parameter.empty and item.kind in place for item in wanted)
