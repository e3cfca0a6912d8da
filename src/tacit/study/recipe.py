"""What an experiment trains, and how much: a recipe for one model, and the effort of attacking and auditing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import nn

from ..attacks import named
from ..audits.canary import maker
from ..core import BadInput, check
from ..core.arrays import Array
from ..fleet import Epochs, MakeOptimizer
from ..loss import Plan
from .membership import FPRS
from .minimiser import Minimiser
from .models import Predict

FLEET, OWN = "runs, fleet code", "runs, train.fit"
"""The two games of a private training's audit, by the code that trained."""
Again = Callable[[nn.Module, Array, Array, np.random.Generator], Predict]


@dataclass(frozen=True)
class Effort:
    """How much is trained to find something out; none of it changes the claim.

    `runs` are trained in a fleet, and `own_runs` by `train.fit`, the code that trains what is released. Each usual
    fault is planted into `fault_runs` more.
    `start` is where the audit's runs begin: "fresh" as the released model, or "crafted", from parameters that know the
    held-out records. `confidence` is that of the attacks' intervals, `audit_confidence` that of both games of the audit
    together.
    """

    references: int = 48
    targets: int = 16
    runs: int = 1000
    own_runs: int = 40
    fault_runs: int = 100
    canary: str = "unseen"
    start: str = "fresh"
    attacks: tuple[str, ...] = ("loss", "calibrated", "rmia", "lira")
    fpr: tuple[float, ...] = FPRS
    confidence: float = 0.95
    audit_confidence: float = 0.95

    def __post_init__(self) -> None:
        check.whole("references", self.references, least=0)
        check.whole("targets", self.targets)
        check.whole("runs", self.runs, least=16)
        check.whole("own_runs", self.own_runs, least=16)
        check.whole("fault_runs", self.fault_runs, least=40)
        for value in (self.confidence, self.audit_confidence):
            check.probability("confidence", value, zero=False, one=False)
        for rate in self.fpr:
            check.probability("fpr", rate, zero=False)
        for name in self.attacks:
            named(name)
        maker(self.canary)
        if self.start not in ("fresh", "crafted"):
            raise BadInput(f"start must be 'fresh' or 'crafted', got {self.start!r}.")


@dataclass(frozen=True)
class Recipe:
    """What is trained: a network, an optimizer, and a plain or a private schedule.

    `again(start, x, y, rng) -> predict` is one more private run by the code that trains what is released, `train.fit`
    with this optimizer where nothing else is said. Without `in_fleets` no fleet takes the same steps as that code, and
    it alone makes the audit's runs.
    """

    name: str
    make: Callable[[], nn.Module]
    optimizer: MakeOptimizer
    schedule: Epochs | Plan | Minimiser
    again: Again | None = None
    in_fleets: bool = True
    code: str = OWN
    planted: Callable[[str], Again | None] | None = None
    """One more run with a usual fault of this name, where `again` can have it."""
