"""The private training that a run file describes, as one value: `train` runs it, `bracket` attacks and audits it."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..audits import stated
from ..audits.claims import with_frontier
from ..core import BadInput, Claim
from ..data import Records
from ..fleet import Fleet, MakeOptimizer
from ..loss import Plan
from ..loss.clipping import FLAT
from ..loss.sampling import POISSON
from ..train import Trained
from ..train.recipe.networks import Shortened, learning_rate, network
from ..train.weights import Form
from .holdout import training_rows
from .minimiser import Minimiser, left_open
from .models import Fit, Predict, predictor
from .planning import planned
from .run_file import RunFile
from .training import optimizer, trained

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Make = Callable[..., nn.Module]
Again = Callable[[nn.Module, Array, Array, np.random.Generator], Predict]
RECORDS_PER_USER = 8


@dataclass(frozen=True, eq=False)
class RunTraining:
    """A maker of models, a plan, settings, the records, and which of them are trained on (`inside`).

    A minimiser takes the place of the plan where a file leaves the way of training open.
    """

    name: str
    records: Records
    inside: Mask
    make: Callable[[], nn.Module]
    plan: Plan | Minimiser
    delta: float
    settings: dict[str, Any] = field(default_factory=dict)
    records_per_user: int | None = None

    @classmethod
    def of(cls, file: RunFile, records: Records, make: Make | None, inside: Mask | None = None) -> RunTraining:
        """From [model], [plan] and [train]. `make` is what [model] make names, if it does; `inside` says who was
        trained on earlier, else `members` does."""
        table, unit = file.get("plan"), records.unit
        inside = training_rows(records, table.get("adjacency", "add-remove")) if inside is None else inside
        if left_open(file, records):
            return cls._minimised(file, records, inside)
        units = int(inside.sum()) if unit is None else len(np.unique(unit[inside]))
        plan, delta = planned(table, units)
        each: int | None = None
        if unit is not None:
            plan, each = replace(plan, unit="user"), int(table.get("records_per_user", RECORDS_PER_USER))
        elif "records_per_user" in table:
            raise BadInput("records_per_user goes with `unit` in [data]: whose record each one is.")
        settings = file.get("train")
        if "kind" in file.get("model") and settings.get("optimizer", "sgd") == "sgd":
            settings.setdefault("lr", learning_rate(plan))
        return cls(file.name, records, inside, maker(file, records, make), plan, delta, settings, each)

    @classmethod
    def _minimised(cls, file: RunFile, records: Records, inside: Mask) -> RunTraining:
        found = Minimiser.of(file, records, int(inside.sum()))
        make = functools.partial(Shortened, found.features, records.classes, found.norm_bound)
        return cls(file.name, records, inside, make, found, found.delta)

    @property
    def claim(self) -> Claim:
        """What the training proves."""
        if isinstance(self.plan, Plan):
            return stated(self.plan, delta=self.delta)
        return with_frontier(Claim(self.plan.bound(self.delta), self.plan.event))

    def form(self, file: RunFile) -> Form:
        """How the model is built, for the header of its weights."""
        norm = self.plan.norm_bound if isinstance(self.plan, Minimiser) else None
        return Form.of_records(file.get("model").get("kind"), self.records, self.records.classes, norm)

    @property
    def data(self) -> tuple[Array, Array]:
        """The records that are trained on."""
        return self.records.x[self.inside], self.records.y[self.inside]

    @property
    def users(self) -> Array | None:
        """The user of each of the given records, where a person has several."""
        return None if self.records.unit is None else self.records.unit[self.inside]

    @property
    def held_out(self) -> Mask:
        """Records that are not trained on; canaries, which are made to be misjudged, are left out."""
        return ~self.inside if self.records.canaries is None else ~self.inside & ~self.records.canaries

    @property
    def in_fleets(self) -> bool:
        """Whether a fleet can take the same steps as `train.fit`: many models at once."""
        if not isinstance(self.plan, Plan):
            return False
        plain = (
            self.settings.get("schedule", "constant") == "constant" and self.settings.get("average", "none") == "none"
        )
        return plain and self.users is None and (self.plan.sampling, self.plan.clipping) == (POISSON, FLAT)

    @property
    def resumes_exactly(self) -> bool:
        """Whether a checkpoint compares the plan that it is resumed under; else the run folder must."""
        return isinstance(self.plan, Plan)

    @property
    def code(self) -> str:
        """What trains the released model."""
        return "train.fit" if isinstance(self.plan, Plan) else "tacit.erm"

    @property
    def own_runs(self) -> int:
        """Runs of an audit where no fleet makes them: as many as take a minute or less."""
        return 64 if isinstance(self.plan, Plan) else 160

    @property
    def cost(self) -> float:
        """What one run takes, in numbers that pass through a model."""
        return self.plan.expected_batch * self.plan.steps * float(np.prod(self.records.x.shape[1:]))

    @property
    def optimizer(self) -> MakeOptimizer:
        return optimizer(self.settings)

    def train(self, rng: object, **more: object) -> Trained:
        """The training itself."""
        return self._trained(self.make, self.data, self.users, rng, **more)

    def again(self, start: nn.Module, x: Array, y: Array, rng: np.random.Generator) -> Predict:
        """One more run by the same code from a public start, on these records and perhaps a canary, a new user's."""
        users = self.users
        if users is not None and len(x) > len(users):
            users = np.concatenate((users, np.full(len(x) - len(users), users.max() + 1)))
        return predictor(self._trained(lambda: copy.deepcopy(start), (x, y), users, rng).model)

    @property
    def planted(self) -> Callable[[str], Again | None] | None:
        """Runs of the same code with a usual fault, where one can be planted exactly: noise of a minimisation."""
        plan = self.plan
        if not isinstance(plan, Minimiser):
            return None

        def offered(fault: str) -> Again | None:
            if not plan.takes(fault):
                return None
            return lambda start, x, y, rng: predictor(plan.faulty(fault, copy.deepcopy(start), (x, y), rng))

        return offered

    def reference(self) -> References | Fit | None:
        """How reference models are trained: in a fleet, or one by one where that is fast. None if neither can be."""
        if isinstance(self.plan, Minimiser):
            return lambda x, y, rng: self.again(self.make(), x, y, rng)
        return References(self.make, self.optimizer, self.plan) if self.in_fleets else None

    def _trained(self, make: Any, data: Any, users: Array | None, rng: Any, **more: Any) -> Trained:
        if isinstance(self.plan, Minimiser):
            return self.plan.trained(make, data, rng, **more)
        if users is not None:
            more |= {"users": users, "records_per_user": self.records_per_user}
        return trained(make, data, self.plan, self.settings, rng, delta=self.delta, **more)


@dataclass(frozen=True, eq=False)
class References:
    """Reference models of an attack, many at once: the same plan on other records, which share one batch order.

    No claim is made about them. An audit of a claim that counts on secret samples may not use it (soundness rule 16).
    """

    make: Callable[[], nn.Module]
    optimizer: MakeOptimizer
    plan: Plan
    at_once: int = 64
    isolation: str = "none"

    def __call__(self, x: Array, y: Array, rng: np.random.Generator) -> Predict:
        predict = self.many(x, y, np.ones((len(y), 1), dtype=bool), [rng])
        return lambda records: predict(records)[0]

    def many(self, x: Array, y: Array, member: Mask, rngs: list[np.random.Generator]) -> Predict:
        """predict(x) -> logits of shape (models, records, classes)."""
        plan = replace(self.plan, public_size=max(1, round(float(member.sum(0).mean()))))
        models = Fleet(self.make, self.optimizer).train(x, y, member, plan, rng=rngs[0])
        return lambda records: models.logits(records).transpose(1, 0, 2)


def maker(file: RunFile, records: Records, make: Make | None, classes: int | None = None) -> Callable[[], nn.Module]:
    """What makes a fresh model: [model] kind, or make() or make(features, classes) of the user's.

    `classes` is their public number, where the records may not say it.
    """
    table, classes = file.get("model"), records.classes if classes is None else classes
    if "kind" in table:
        if records.x.ndim != 2:
            raise BadInput("[model] kind is for tables: records that are rows of numbers.", fix="Give make.")
        return functools.partial(network, str(table["kind"]), records.x.shape[1], classes)
    assert make is not None
    return functools.partial(make, records.x.shape[1], classes) if takes_two(make) else make


def takes_two(make: Callable[..., object]) -> bool:
    """Whether a maker must be told the numbers of features and classes."""
    try:
        wanted = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(item.default is inspect.Parameter.empty and item.kind in place for item in wanted) == 2


def baseline(y: Array) -> float:
    """The share of the most frequent class: what a model that learnt nothing would get right."""
    return float(np.bincount(y).max() / len(y)) if len(y) else float("nan")
