"""One charge, one run: all processes agree, every continuation belongs to the same run, and a ledger numbers them.

Before the first step all processes compare what they were given (`terms`), and ten times in a run their parameters and
the optimizer's settings. A saved state contains its terms and a keyed hash of its data, and can be continued only with
these. A ledger that offers `fence` numbers the continuations and stores a hash of the parameters at the same ten steps.
It refuses a continuation that differs from an earlier one there, or that a later one has overtaken. Without such a
ledger a copy of the state cannot be detected, and the evidence says so.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..core import BadInput, BudgetExceeded, Mismatch, Unsupported
from ..core.charger import Charger, Fence, Scoped
from .descriptions import hashed
from .sample.collate import Collate
from .terms import DATA, Terms, check_same, data_term, optimizer_terms, terms

if TYPE_CHECKING:
    from .step import PrivateStep

PLACES = 10
"""How often in a run processes compare parameters and report a hash to the ledger; a public number."""
UNFENCED = "a copy of the saved state that was taken up a second time: no ledger numbered the continuations of this run"
REPEATED = (
    "models that were published between the save of a state and its load: steps after the save were taken again, with "
    "other noise where a setting or the rounding of sums was another"
)


@dataclass(eq=False)
class Course:
    """What makes the steps of a `PrivateStep` one run. `key` is for hashes of data, which reveal nothing without it.

    `paid`: a ledger was charged for the run, or may have been when its connection was lost. `restored`: how often a
    saved state was loaded. `charged`: the run and the ledger that were entered last.
    """

    key: bytes = field(default_factory=lambda: os.urandom(32))
    terms: Terms = field(default_factory=dict)
    start: str = ""
    number: int | None = None
    kept: bool = False
    fenced: bool = False
    paid: bool = False
    restored: int = 0
    charged: tuple[str, Charger | None] | None = None
    _data: tuple[Any, Any, int | None, Collate | None] | None = None
    _lock: Lock = field(default_factory=Lock)

    def alone(self) -> AbstractContextManager[object]:
        """Refuse a second step, save or load while one is going on: both would use one sample and one charge.

        Where two threads begin at the same moment one waits, and finds its batch taken. Ctrl-C cannot leave the lock
        taken, because entering and leaving it are single calls of C code.
        """
        if self._lock.locked():
            raise BadInput(
                "This step is being taken, saved or restored in another thread, or by the code that called this.",
                fix="Let one thread use a step.",
            )
        return self._lock

    def agree(self, step: PrivateStep) -> None:
        """Compare all terms except the data's, before any exchange that could hang or silently mix runs."""
        self.terms = terms(step)
        seed = "" if step.cryptographic else hashed(step.position.secret.hex())
        ledger = "none" if step.ledger is None else type(step.ledger).__name__
        check_same(step._workers.all_of({**self.terms, "ledger": ledger, "source": step.source_name, "seed": seed}))
        self.key = step._workers.agreed(self.key)

    def share(self, step: PrivateStep, more: Terms) -> None:
        """Compare what a loop around the step was given."""
        check_same(step._workers.all_of(more))

    def seed_mark(self, secret: bytes) -> str:
        """A keyed hash of the secret that a seeded run began with."""
        return hmac.new(self.key, secret, hashlib.sha256).hexdigest()

    def take(self, step: PrivateStep, data: Any, users: Any, most: int | None, collate: Collate | None) -> None:
        """Identify the data, to the other processes and to the state that this run continues from.

        Also needed where one draw decides about several steps: if a run were resumed within a pass on records in
        another order, a record could take part twice.
        """
        step.check_unbroken()  # others would take what this process sends here for a part of their step
        self._data = (data, users, most, collate)
        if step._workers.count == 1 and DATA not in self.terms and step.plan.steps_per_draw == 1:
            return
        place = {"steps done": str(step.done), "run": hashed(f"{step.run} {step.position.secret.hex()}")}
        check_same(step._workers.all_of(place))
        found, refusal = data_term(data, users, most, self.key, collate)
        check_same(step._workers.all_of({DATA: found}))
        if refusal is not None:
            raise refusal
        if self.terms.setdefault(DATA, found) != found:
            raise BadInput(
                "This run began on other data, or on the same in another order.",
                fix="Give the data, and users, that the run began with.",
            )

    def restore(self, began: Terms, start: str) -> None:
        """Continue a run that began with these terms; batches that were asked for before compare their data again.

        Going on is charged, under the run's own key, and takes a number.
        """
        self.terms, self.start, self.kept, self.charged = began, start, True, None
        self.restored += 1

    def whole_terms(self) -> Terms:
        """All terms, including the data's if there are data; these are hashed only on demand."""
        if DATA not in self.terms and self._data is not None:
            data, users, most, collate = self._data
            self.terms[DATA] = data_term(data, users, most, self.key, collate)[0]
        return self.terms

    def owes(self, step: PrivateStep) -> bool:
        """Whether the run has not entered this ledger since it began or a state was loaded."""
        return self.charged != (step.run, step.ledger)

    def enter(self, step: PrivateStep) -> None:
        """Charge for the whole plan, under one key however often the run is resumed, and take a number."""
        if step.ledger is None:
            return
        before, self.paid = self.paid, True  # also when it is not known whether the charge was written
        try:
            step._workers.once(lambda: _pay(step))
        except (BudgetExceeded, Mismatch, BadInput, Unsupported):
            self.paid = before
            raise
        if _fence(step) is not None:
            self._report(step, None)
        self.charged = step.run, step.ledger

    def check(self, step: PrivateStep) -> None:
        """Compare processes and report to the ledger at the public steps of a run, before the step there."""
        if not step.done or step.done % max(1, step.plan.steps // PLACES):
            return
        self.compare(step)
        if self.number is not None:
            self._report(step, self.number)

    def compare(self, step: PrivateStep) -> None:
        """Refuse processes whose parameters, or settings of the optimizer, have drifted apart."""
        if step._workers.count > 1:
            now = {**optimizer_terms(step.optimizer, step.parameters), "parameters": f"#{mark(_held_by_all(step))}"}
            check_same(step._workers.all_of(now))

    def end(self, step: PrivateStep) -> None:
        """Report to the ledger when evidence is made; a continuation that was overtaken gets no evidence.

        Nor does a run whose steps were all taken before its state was loaded, until this ledger was charged for them.
        """
        fence = _fence(step)
        if step.done and self.owes(step) and step.rank == 0:
            _pay(step)
        if self.number is not None and step.rank == 0 and fence is not None:
            now, last = mark(step.parameters), step.done >= step.plan.steps
            fence.fence(f"train-{step.run}", number=self.number, step=step.done, mark=now, last=last)
            self.number = None if step.done >= step.plan.steps else self.number

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What cannot be known of a run that was saved or loaded."""
        return (*([UNFENCED] if self.kept and not self.fenced else []), *([REPEATED] if self.restored else []))

    def _report(self, step: PrivateStep, number: int | None) -> None:
        fence, key = _fence(step), f"train-{step.run}"
        assert fence is not None
        done, now = step.done, mark(step.parameters)
        self.number = step._workers.once(lambda: fence.fence(key, number=number, step=done, mark=now))
        self.fenced = True


def _pay(step: PrivateStep) -> None:
    """Charge the whole plan to the ledger, if there is one, under the key of the run."""
    ledger, plan, key = step.ledger, step.plan, f"train-{step.run}"
    if isinstance(ledger, Scoped):
        ledger.charge(plan.event, key=key, purpose="training", adjacency=plan.adjacency, unit=plan.unit)
    elif ledger is not None:
        ledger.charge(plan.event, key=key, purpose="training")


def _fence(step: PrivateStep) -> Fence | None:
    """The ledger, if it numbers continuations."""
    ledger: object = step.ledger
    return ledger if isinstance(ledger, Fence) else None


def _held_by_all(step: PrivateStep) -> dict[str, Tensor]:
    """The tensors that every process holds whole: all trained parameters, or those that are not sharded."""
    if not step.sharded:
        return step.parameters
    every = {**dict(step.model.named_parameters()), **dict(step.model.named_buffers())}
    return {name: tensor for name, tensor in every.items() if not hasattr(tensor, "to_local")}


def mark(parameters: dict[str, Tensor]) -> str:
    """A hash of parameters, which are released anyway."""
    code = hashlib.sha256()
    for name, tensor in parameters.items():
        code.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        flat = local.detach().cpu().contiguous().reshape(-1)
        code.update(flat.view(torch.uint8).numpy().data)
    return code.hexdigest()
