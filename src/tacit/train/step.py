"""One private step, in place of zero_grad, forward, backward and optimizer.step."""

from __future__ import annotations

import math
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from ..core import BadInput, Bound, Charger, Evidence, SlowWarning, Source, source
from ..core.global_randomness import turn
from ..loss import Adaptive, Plan
from .batch_norm import Frozen
from .claim import claimed_delta, evidence, warn_delta
from .clip import Clipper, Weigh
from .clip.adaptive import next_norm
from .clip.arrays import ordinary_modes
from .clip.capture.coins import Coins, drawn_from
from .clip.clipper import Loss, coarsest
from .clip.rounding import at_most
from .course import Course
from .info import StepInfo
from .models import Watched, check_kinds, check_model, compute_again, trainable
from .noise.keys import Keystream, Secret, digest
from .noise.release import Release
from .sample.augment import Augment, averaged
from .sample.collate import Buckets, Collate
from .sample.examples import Batch
from .sample.labels import cross_entropy
from .sample.units import Units, units
from .scale.execution import Executed, Keys, Parted, Recorded
from .scale.totals import Totals, adding
from .scale.workers import Workers
from .speed import Speed
from .state import Position, copied, restore
from .tables import Tabular

if TYPE_CHECKING:
    from ..data import Schema

Project = Callable[[nn.Module], object]
SETTLED = frozenset(("model", "optimizer", "plan", "loss", "speed", "augment", "noise"))
"""What a step is made of, and was charged for: another takes another step."""


def private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: Plan,
    *,
    loss: Loss | None = None,
    ledger: Charger | None = None,
    rng: Source | int | np.random.Generator | None = None,
    speed: Speed = Speed(),  # noqa: B008
    augment: Augment | None = None,
    project: Project | None = None,
    noise: str = "float32",
) -> PrivateStep:
    r"""Make an ordinary training loop private: three lines change.

        step = tacit.private(model, optimizer, plan)
        for batch in step.batches(dataset):
            step(batch)

    Each step releases (S + N(0, (z C)^2 I)) / (rate * public_size), where S is the sum of per-example gradients clipped
    to C = plan.clip_norm over a sample and z = plan.noise_multiplier. The optimizer sees that and nothing else.
    `augment` averages several random versions of every record before it is clipped. `project(model)` runs after every
    step and may move the parameters: it sees nothing but released ones, and must not hold data itself. `noise="grid"`
    rounds contributions to a grid and adds whole-number noise: slower, and safe from floating-point attacks.

    Guarantee: after all steps the model is a release of `plan.event`; `ledger` is charged for all of it beforehand.
    Caller ensures: initial parameters and hyper-parameters do not come from the private data; one record is one
    person's whole contribution; `loss` returns one number per example.
    """
    kinds = {"model": model, "optimizer": optimizer, "plan": plan, "speed": speed, "augment": augment}
    check_kinds(**kinds, loss=loss, project=project, ledger=ledger)
    loss = loss or cross_entropy
    return PrivateStep(model, optimizer, plan, loss, ledger, source(rng), speed, augment, project, noise)


class PrivateStep:
    """A private training step with its sampler, noise and account. Made by `private`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        plan: Plan,
        loss: Loss,
        ledger: Charger | None,
        rng: Source,
        speed: Speed,
        augment: Augment | None = None,
        project: Project | None = None,
        noise: str = "float32",
    ) -> None:
        check_model(model)
        if speed.checkpointing:
            compute_again(model)
        self.model, self.optimizer, self.plan, self.ledger, self.speed = model, optimizer, plan, ledger, speed
        self.augment, self.project, self.noise, self.loss = augment, project, noise, loss
        self.source_name, self.cryptographic = rng.name, rng.cryptographic
        self._frozen = Frozen(model)
        self.done, self.unbroken, self._process = 0, True, os.getpid()
        self.read = False
        self.run, self.delta = secrets.token_hex(16), claimed_delta(plan)
        self.parameters = trained = trainable(model, optimizer)
        self._workers = Workers.of(model, trained)
        self._own = self._workers.own(trained)
        self._watched = None if self.sharded else Watched(model, optimizer, trained)
        whole = self._workers.together(trained)
        self._release = Release(plan, self._own, coarsest(whole, speed.precision), noise)
        device = self._release.device
        compiled = speed.compiles(plan.steps, device)
        add, kind = adding(self._workers, self._release.grid, compiled=compiled)
        weigh = replace(Weigh.of(plan.clipping, trained), most=at_most(plan.expected_batch, plan.rate))
        self._clipper = Clipper(model, averaged(loss), whole, plan.clip_norm, speed.precision, weigh, add)
        totals = Totals(self._clipper, self._workers, augment, compiled=compiled, kind=kind)
        self.parted = Parted(totals, self._release, self._workers, self._own)
        self.recorded = Recorded(self.parted) if device.type == "cuda" else None
        self._secret = Secret.of(rng)
        self._plan = plan.identity.encode()
        self._sample_key = b""
        self.alone_because = ""
        self.read_off_data = ""
        self._given: Batch | None = None
        self.course = Course()
        self._agree()

    def _agree(self) -> None:
        """Agree on one description of the run, one secret and one start among all processes."""
        self.course.agree(self)
        names = self._workers.agreed((self._secret.value, self.run, self.source_name, self.cryptographic))
        self._secret = Secret(names[0])
        self.run, self.source_name, self.cryptographic = names[1:]
        self.course.start = "" if self.cryptographic else self.course.seed_mark(self._secret.value)
        self._workers.start([*self.model.parameters(), *self.model.buffers()])

    @property
    def rank(self) -> int:
        """Which of several processes this is; 0 for the one that writes."""
        return self._workers.rank

    @property
    def sharded(self) -> bool:
        """Whether processes hold the parameters in parts (FSDP2)."""
        return self._workers.even

    @property
    def device(self) -> torch.device:
        """Where the trained parameters lie."""
        return self._release.device

    @property
    def position(self) -> Position:
        """The state of the run that changes from step to step, besides model and optimizer."""
        source = self.source_name, self.cryptographic
        past = self._release.correlated.past
        return Position(self.run, self.done, self.clip_norm, self._secret.value, self._sample_key, past, source)

    @position.setter
    def position(self, at: Position) -> None:
        self.run, self.done, (self.source_name, self.cryptographic) = at.run, at.done, at.source
        self._clipper.clip_norm = at.clip_norm
        self._secret, self._sample_key = Secret(at.secret), at.sample
        self._release.correlated.past = [tensor.to(self.device) for tensor in at.noise]

    @property
    def rounding(self) -> float:
        """r: rounding may carry a record's contribution to (1 + r) clip norms, and the noise is scaled by that."""
        return self._release.rounding if self._release.grid is None else self._release.own_rounding

    @property
    def clip_norm(self) -> float:
        """The clip norm of the next step: the plan's, or where a private quantile has moved it; public either way."""
        return self._clipper.clip_norm

    def batches(
        self,
        data: object,
        *,
        users: ArrayLike | None = None,
        records_per_user: int | None = None,
        collate: Collate | None = None,
        schema: Schema | str | Path | None = None,
    ) -> Iterator[Batch]:
        """One sample for each step that is left; every one must be given to the step before the next is drawn.

        `data` are tensors or arrays with a row per record, a tuple or dict of them, a list of records, or a map-style
        data set, a Hugging Face one among them. `collate` makes tensors of records: it is given a list of one record at
        a time; `Buckets` pads texts to public lengths.

        With `users`, one id per record, a unit is a user: users are sampled, and each contributes the average gradient
        of at most `records_per_user` own records, clipped once. The plan's unit then is "user".

        `data` may be a data frame that holds its label column, with `schema`, as in `fit`; a model of `schema.width`
        inputs is given its records as numbers. Where the schema names a unit, the plan's unit must be "user".
        """
        given = Tabular.of(data, self.plan, schema, users, records_per_user)
        given.check_width(self.model)
        data, users, records_per_user = given.data, given.users, given.records_per_user
        self.read_off_data = given.facts
        if self.sharded and isinstance(collate, Buckets) and len(collate.public) > 1:
            raise BadInput("Processes that share parameters need parts of one length.", fix="Give Buckets one length.")
        asked = data, users, records_per_user, collate
        self.course.take(self, *asked)
        drawn = units(
            data,
            self.plan,
            users=users,
            most=records_per_user,
            augment=self.augment,
            physical=self.speed.physical_batch,
            processes=self._workers.count,
            fixed=self.parted.totals.compiled is not None,
            collate=collate,
            workers=self.speed.workers,
            device=self.device,
        )
        return self._drawn(drawn, asked, self.course.restored)

    def _drawn(self, drawn: Units, asked: tuple[Any, ...], restored: int) -> Iterator[Batch]:
        while self.done < self.plan.steps:
            if self.course.restored != restored:
                self.course.take(self, *asked)
                restored = self.course.restored
            self._charge(drawn)
            order = self.done
            number = order.to_bytes(8, "little")
            if order % self.plan.steps_per_draw == 0:
                self._sample_key = self._secret.key(b"sample", number)
            yield self._give(drawn(order, self._sample_key, self._secret.key(b"records", number)))
            if self.done != order + 1 and self.course.restored == restored:  # or a state was loaded: draw from there
                raise BadInput(
                    "A batch was drawn and not given to the step exactly once.",
                    fix="Call step(batch) for every batch; skipping by what it holds would void the claim.",
                )
        self.course.compare(self)  # after the last step, whoever took it

    def _give(self, batch: Batch) -> Batch:
        """Note the batch that the next step takes; it takes no other."""
        self._given = batch
        return batch

    def __call__(self, batch: Batch) -> StepInfo:
        """Clip, add up, add noise once, divide by the public expected batch, and let the optimizer step."""
        with self.course.alone(), turn():  # a state saved while the optimizer steps would hold half of its step
            info = self._gradients(batch)
            self.optimizer.step()
            if self.project is not None:
                with torch.no_grad():
                    self.project(self.model)
        return info

    def gradients(self, batch: Batch) -> StepInfo:
        """Set the private gradients without the optimizer's step, for loops that take that step themselves, once.

        On a GPU the next step may reuse the memory of these gradients: copy those that you keep, on the same stream.
        """
        with self.course.alone(), turn():
            return self._gradients(batch)

    def _gradients(self, batch: Batch) -> StepInfo:
        if batch is not self._given or batch.order != self.done:
            raise BadInput(
                "A step takes the batch that its own `batches` just gave, once.",
                fix="Loop: for batch in step.batches(data). Another step draws, and is charged for, its own batches.",
            )
        self.check_unbroken()
        if self._watched is not None:
            self._watched.check()
        self._frozen.keep()
        self.course.check(self)
        self._clipper.begin(list(self.model.modules()) if self._watched is None else self._watched.every)
        self.read |= (read := batch.examples.loader is not None)
        draws = drawn_from(self._chance(self.rank), self.device, read=read)
        try:
            with ordinary_modes(self.device):
                found = self._executor(batch)(batch, self.keys(batch), self._coins, draws)
                self._move_on(self._next_norm(found))
        except BaseException:  # the step may be taken again, and then with other noise: only one of them may leave
            self._release.withdraw()
            self.unbroken &= self._workers.count == 1  # nobody knows how far the other processes went
            draws.restore()
            raise
        if 10 ** round(math.log10(self.done)) == self.done:
            with ordinary_modes(self.device):
                self._look_again()
        return StepInfo.of(len(batch.index), found.parts)

    def _move_on(self, clip_norm: float) -> None:
        """Finish the step. If this is interrupted (Ctrl-C), the run cannot continue: part of its state belongs to the
        next step, and repeating the step from there would add noise of another distribution.
        """
        self.unbroken = False
        self._clipper.clip_norm = clip_norm
        self._release.correlated.advance()
        self._secret.advance()
        self.done += 1
        self.unbroken = True

    def check_unbroken(self) -> None:
        """Refuse to go on after a step that was broken off while the run moved on from it, or in a forked process."""
        if os.getpid() != self._process:
            raise BadInput(
                "This step was made in another process, which may go on with it: both would use one charge.",
                fix="Make the step in the process that trains.",
            )
        if not self.unbroken:
            raise BadInput(
                "The last step, or the loading of a state, was broken off halfway, so this run cannot go on.",
                fix="Make a new step and load the last saved state, or resume from the checkpoint.",
            )

    def _look_again(self) -> None:
        """After 1, 10, 100 ... steps: warn once if records run one at a time, and compare gradients on made-up records.

        What is decided here follows from the released weights and public numbers alone (soundness rule 26).
        """
        if self.done > 1 and not self.sharded:
            self._clipper.look_again(self.done)
        reason = self._clipper.alone_because
        if reason and reason != self.alone_because:
            slow = None if self.sharded else self._clipper.slowness()
            told = "" if slow is None else f" ({slow})"
            message = f"The model runs one record at a time, which is exact and slow{told}: {reason}."
            warnings.warn(SlowWarning(message, None if slow is None else slow.factor), stacklevel=4)
        self.alone_because = reason or self.alone_because

    def _chance(self, rank: int) -> bytes:
        """The key of the random numbers of this step's records in one process (dropout, transforms).

        Processes hold different records, so each draws different numbers; draws that all records share have rank -1.
        """
        return self._secret.key(b"draws", self.done.to_bytes(8, "little"), rank.to_bytes(8, "little", signed=True))

    def _coins(self) -> Coins:
        return Coins(int.from_bytes(self._chance(-1)[:7], "little") if self._workers.count > 1 else None)

    def _executor(self, batch: Batch) -> Parted | Recorded:
        recorded = self.recorded
        return recorded if recorded is not None and recorded.takes(batch) else self.parted

    def keys(self, batch: Batch) -> Keys:
        """The inputs of the key of this step's noise, besides what the step computes."""
        return Keys(self._secret, self.done, self._plan, batch.index)

    def _next_norm(self, found: Executed) -> float:
        """The clip norm of the next step."""
        rule, key = self.plan.clipping, found.key
        if not isinstance(rule, Adaptive) or key is None:
            return self.clip_norm
        noise = Keystream(self._secret.key(b"count", key if isinstance(key, bytes) else digest(key)))
        return next_norm(rule, self.clip_norm, found.parts, self.plan.expected_batch, noise)

    def _charge(self, drawn: Units) -> None:
        """Charge for the whole plan before the first sample; a resumed run has the same key and is charged once."""
        if self.course.owes(self) and self.ledger is not None:
            self._frozen.keep()
            self.parted.totals.look(drawn)
            self.course.enter(self)

    def spent(self, delta: float) -> Bound:
        """What the steps so far cost. The claim of a run is the whole plan's, however early it is stopped."""
        warn_delta(delta, self.plan.public_size)
        return self.plan.spent(self.done, delta)

    def evidence(self, delta: float) -> Evidence:
        """The claim with its event, where the noise came from, and what the proof does not cover."""
        self.course.end(self)
        return evidence(self, delta)

    def __setattr__(self, name: str, value: object) -> None:
        if name in SETTLED and name in vars(self):
            raise BadInput(f"The {name} of a private step is settled when it is made.", fix="Make another step.")
        super().__setattr__(name, value)

    def __reduce_ex__(self, _: object) -> NoReturn:
        """Refuse copies and pickles: each would go on by itself, for one charge (soundness rule 25)."""
        raise BadInput(
            "A private step cannot be copied or pickled: two runs would go on for one charge.",
            fix="Keep state_dict() to go on later; for another run make another step.",
        )

    def state_dict(self) -> dict[str, Any]:
        """A copy of all that a bit-exact continuation needs. A secret: it undoes the privacy of steps still to come."""
        return copied(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: same plan, same run, nothing is paid twice."""
        restore(self, state)
