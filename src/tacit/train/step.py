"""One private step in place of zero_grad, forward, backward and optimizer.step."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ..core import BadInput, Bound, Charger, Evidence, Source, source
from ..loss import Adaptive, Plan
from ..loss.clipping import DECISION
from .batch import mapped
from .claim import evidence, warn_delta
from .clip import Clipped, Clipper, Compiled, Weigh, on_host
from .clip.clipper import Loss
from .correlated import Correlated
from .draw import Sampler
from .gaussian import Normals
from .grid import Grid
from .models import check_model, trainable
from .noise import Keystream, Secret, digest
from .sample import Batch, Examples, check_count, physical_size
from .several import Augment, Users, averaged
from .speed import Speed
from .workers import Workers

STATE = "tacit.private-step/1"
# Rounding may let a contribution exceed clip_norm by a little; the noise is wider by as much (soundness rule 11).
ROUNDING = {"float32": 2.0**-12, "bfloat16": 2.0**-7}
COMPILE_FROM = 500
Part = tuple[Clipped, Tensor]
Project = Callable[[nn.Module], object]


@dataclass(frozen=True)
class StepInfo:
    """For the operator's eyes: mean `loss` and share `clipped` (None for an empty sample), and how many `examples`."""

    loss: float | None
    clipped: float | None
    examples: int = 0


def cross_entropy(model: nn.Module, batch: Any) -> Tensor:
    """The default loss: cross-entropy of model(x) against y, one number per example."""
    x, y = batch
    losses = F.cross_entropy(model(x), y, reduction="none")
    return losses.flatten(1).mean(1) if losses.ndim > 1 else losses


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
    to C = plan.clip_norm over a sample and z = plan.noise_multiplier; the optimizer sees that and nothing else.
    `augment` averages several random versions of every record before it is clipped. `project(model)` runs after every
    step and may move the parameters: it sees nothing but released ones, and must not hold data itself. `noise="grid"`
    rounds contributions to a grid and adds whole-number noise: slower, and safe from floating-point attacks.

    Guarantee: after all steps the model is a release of `plan.event`; `ledger` is charged for all of it beforehand.
    Caller ensures: initial parameters and hyper-parameters do not come from the private data; one record is one
    person's whole contribution; `loss` returns one number per example.
    """
    made = PrivateStep(model, optimizer, plan, loss or cross_entropy, ledger, source(rng), speed, augment, project)
    return made.on(noise)


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
    ) -> None:
        check_model(model)
        self.model, self.optimizer, self.plan, self.ledger, self.speed = model, optimizer, plan, ledger, speed
        self.augment, self.project = augment, project
        self.source_name, self.cryptographic = rng.name, rng.cryptographic
        self.done = 0
        self.run = secrets.token_hex(16)
        trained = trainable(model, optimizer)
        weigh = Weigh.of(plan.clipping, trained)
        self._clipper = Clipper(model, averaged(loss), trained, plan.clip_norm, speed.precision, weigh)
        self._device = next(iter(self.parameters.values())).device
        self._compiled = Compiled(self._clipper) if self._worth_compiling() else None
        self._secret = Secret.of(rng)
        self._sample_key = b""
        self._normals = Normals(self._device)
        self._correlated = Correlated(plan.bands)
        self._charged = False
        self._grid: Grid | None = None
        self._workers = Workers.here()
        self._agree()

    def on(self, noise: str) -> PrivateStep:
        """The step with noise in float32 or on a grid."""
        if noise not in ("float32", "grid"):
            raise BadInput(f"noise must be 'float32' or 'grid', got {noise!r}.")
        if noise == "grid":
            if isinstance(self.plan.clipping, Adaptive) or self.plan.bands > 1 or self._compiled is not None:
                raise BadInput(
                    "Noise on a grid goes with a clip norm that stays, independent noise and eager steps.",
                    fix='Use other clipping than "adaptive", bands=1 and Speed(compile=False).',
                )
            rounding = ROUNDING[self._clipper.rounding]
            self._grid = Grid(self._count, self.plan.clip_norm, self.plan.noise_multiplier, rounding)
            self._clipper.add = self._grid.sums
        return self

    @property
    def parameters(self) -> dict[str, Tensor]:
        """What is trained, by name."""
        return self._clipper.parameters

    def _agree(self) -> None:
        """One secret, one run and one start for all processes."""
        names = self._workers.agreed((self._secret.value, self.run, self.source_name, self.cryptographic))
        self._secret = Secret(names[0])
        self.run, self.source_name, self.cryptographic = names[1:]
        self._workers.start([*self.model.parameters(), *self.model.buffers()])

    @property
    def rank(self) -> int:
        """Which of several processes this is; 0 for the one that writes."""
        return self._workers.rank

    @property
    def noise(self) -> str:
        """Where the noise lives: "float32", or on a "grid"."""
        return "float32" if self._grid is None else "grid"

    @property
    def _kind(self) -> torch.dtype:
        return torch.float32 if self._grid is None else torch.float64

    @property
    def _count(self) -> int:
        return sum(tensor.numel() for tensor in self.parameters.values())

    @property
    def clip_norm(self) -> float:
        """The clip norm of the next step: the plan's, or where a private quantile has moved it; public either way."""
        return self._clipper.clip_norm

    def batches(
        self, data: Any, *, users: ArrayLike | None = None, records_per_user: int | None = None
    ) -> Iterator[Batch]:
        """One sample for each step that is left; every one must be given to the step before the next is drawn.

        With `users`, one id per record, a unit is a user: users are sampled, and each contributes the average gradient
        of at most `records_per_user` own records, clipped once. The plan's unit then is "user".
        """
        examples = Examples.of(data)
        people = self._users(users, records_per_user, examples.count)
        count = examples.count if people is None else len(people.records)
        check_count(count, self.plan.public_size)
        sampler = Sampler(self.plan, count)
        many = people.most if people is not None else 1 if self.augment is None else self.augment.times
        expected = self.plan.expected_batch * many / self._workers.count
        physical = max(1, physical_size(expected, self.speed.physical_batch) // many)
        self._charge()
        while self.done < self.plan.steps:
            order = self.done
            number = order.to_bytes(8, "little")
            if order % self.plan.steps_per_draw == 0:
                self._sample_key = self._secret.key(b"sample", number)
            index, shares = sampler(order, self._sample_key), None
            if people is not None:
                index, shares = people.table(index, Keystream(self._secret.key(b"records", number)))
            yield Batch(examples, index, order, physical, fixed=self._compiled is not None, shares=shares)
            if self.done != order + 1:
                raise BadInput(
                    "A batch was drawn and not given to the step exactly once.",
                    fix="Call step(batch) for every batch; skipping by what it holds would void the claim.",
                )

    def __call__(self, batch: Batch) -> StepInfo:
        """Clip, add up, add noise once, divide by the public expected batch, and let the optimizer step."""
        info = self.gradients(batch)
        self.optimizer.step()
        if self.project is not None:
            with torch.no_grad():
                self.project(self.model)
        return info

    def gradients(self, batch: Batch) -> StepInfo:
        """The same without the optimizer's step: for loops that take it themselves, once."""
        if not isinstance(batch, Batch) or batch.order != self.done:
            raise BadInput(
                "A step takes the batch that `batches` just gave, once.", fix="Loop: for batch in step.batches(data)."
            )
        total, parts = self._total(batch)
        key = self._noise_key(batch, parts)
        self._release(total, key)
        info = self._info(batch, parts)
        self._adapt(parts, key)
        self._secret.advance()
        self.done += 1
        return info

    def _users(self, ids: ArrayLike | None, most: int | None, rows: int) -> Users | None:
        if (ids is None) != (self.plan.unit != "user"):
            raise BadInput(
                f"The plan's unit is {self.plan.unit!r}, and users were {'not ' if ids is None else ''}given.",
                fix='Give users with Plan(unit="user"), and only then.',
            )
        if ids is None:
            return None
        if self.augment is not None:
            raise BadInput("Augmentation goes with single records; a user's records are averaged already.")
        return Users.of(ids, most, rows)

    def _clip(self, rows: Any, mask: Tensor) -> tuple[Clipped, Tensor]:
        rows = mapped(lambda tensor: tensor.to(self._device, non_blocking=True), rows)
        if self.augment is not None:
            if not self._clipper.structures:
                self.augment.check(rows)
            rows = self.augment(rows)
        return on_host((self._compiled or self._clipper)(rows, mask.to(self._device))), mask

    def _worth_compiling(self) -> bool:
        """As asked; "auto" compiles long runs on a GPU, where it pays most and costs a minute once."""
        if self.speed.compile == "auto":
            return self._device.type == "cuda" and self.plan.steps >= COMPILE_FROM
        return bool(self.speed.compile)

    def _total(self, batch: Batch) -> tuple[list[Tensor], list[Part]]:
        """The clipped sum over all physical batches in float32, by parameter, and what else each part gave."""
        total: list[Tensor] = []
        parts = []
        for part in batch.parts(self._workers.rank, self._workers.count):
            clipped, mask = self._clip(*part)
            sums = [clipped.sums[name].to(self._kind) for name in self.parameters]
            if total:
                torch._foreach_add_(total, sums)
            else:  # the next part may overwrite the memory of this one
                total = [tensor.clone() for tensor in sums] if len(batch.index) > batch.physical else sums
            parts.append((replace(clipped, sums={}), mask))
        total = self._workers.total(total, list(self.parameters.values()), self._kind)
        return total, self._workers.gathered(parts)

    def _noise_key(self, batch: Batch, parts: list[Part]) -> bytes:
        seen = [value for clipped, _ in parts for value in (clipped.norms, clipped.losses)]
        plan = self._plan().encode()
        return self._secret.key(
            b"noise", self.done.to_bytes(8, "little"), plan, digest(torch.from_numpy(batch.index), *seen)
        )

    def _release(self, total: list[Tensor], key: bytes) -> None:
        """(S + noise) / (rate * public_size), handed to the optimizer as gradients; S is empty for an empty sample."""
        parameters, expected = list(self.parameters.values()), self.plan.expected_batch
        if self._grid is not None:
            flat = (self._grid.noisy(total, self._count, key) / expected).to(self._device, torch.float32)
            total = []
        else:
            scale = self.plan.noise_multiplier * self.clip_norm * (1 + ROUNDING[self._clipper.rounding])
            flat = torch.empty(self._count, device=self._device)
            self._normals.fill(flat, key, scale / expected)
            self._correlated(flat)
        parts = flat.split([tensor.numel() for tensor in parameters])
        noisy = [part.view(tensor.shape) for part, tensor in zip(parts, parameters, strict=True)]
        if total:
            torch._foreach_add_(noisy, total, alpha=1 / expected)
        for parameter, gradient in zip(parameters, noisy, strict=True):
            parameter.grad = gradient.to(parameter.dtype)

    def _info(self, batch: Batch, parts: list[Part]) -> StepInfo:
        count = len(batch.index)
        if not count:
            return StepInfo(None, None)
        losses = sum(float(clipped.losses[mask].nansum()) for clipped, mask in parts)
        over = sum(int(clipped.shortened[mask].sum()) for clipped, mask in parts)
        return StepInfo(losses / count, over / count, count)

    def _adapt(self, parts: list[Part], key: bytes) -> None:
        """Move the clip norm by a noisy count of the norms within it, released beside the sum."""
        rule, expected = self.plan.clipping, self.plan.expected_batch
        if isinstance(rule, Adaptive):
            within = sum(int((clipped.norms[mask] <= self.clip_norm).sum()) for clipped, mask in parts)
            count = within - DECISION * sum(int(mask.sum()) for _, mask in parts)
            noise = float(Keystream(self._secret.key(b"count", key)).normal()) * DECISION
            count += noise * rule.count_multiplier(expected)
            self._clipper.clip_norm = rule.next(self.clip_norm, count, expected)

    def _plan(self) -> str:
        return repr(self.plan)

    def _charge(self) -> None:
        """Pay for the whole plan before the first sample; a resumed run has the same key and pays once."""
        if self.ledger is not None and not self._charged:
            ledger, event, key = self.ledger, self.plan.event, f"train-{self.run}"
            self._workers.once(lambda: ledger.charge(event, key=key, purpose="training"))
        self._charged = True

    def spent(self, delta: float) -> Bound:
        """What the steps so far cost. The claim of a run is the whole plan's, however early it is stopped."""
        warn_delta(delta, self.plan.public_size)
        return self.plan.spent(self.done, delta)

    def evidence(self, delta: float) -> Evidence:
        """The claim with its event, where the noise came from, and what the proof does not cover."""
        return evidence(self, delta)

    def state_dict(self) -> dict[str, Any]:
        """All that a bit-exact continuation needs. A secret: it undoes the privacy of steps still to come."""
        return {
            "schema": STATE,
            "run": self.run,
            "done": self.done,
            "plan": self._plan(),
            "clip_norm": self.clip_norm,
            "secret": self._secret.value,
            "sample": self._sample_key,
            "noise": self._correlated.past,
            "source": [self.source_name, self.cryptographic],
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "dropout": torch.get_rng_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: same plan, same run, nothing is paid twice."""
        if state.get("schema") != STATE:
            raise BadInput(f"The state has schema {state.get('schema')!r}; this version reads {STATE!r}.")
        if state["plan"] != self._plan():
            raise BadInput("The state belongs to another plan.", fix="Make the step with the plan it was saved under.")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["dropout"].cpu())
        self.run, self.done = state["run"], state["done"]
        self._clipper.clip_norm = state["clip_norm"]
        self._secret, self._sample_key = Secret(state["secret"]), state["sample"]
        self._correlated.past = [tensor.to(self._device) for tensor in state["noise"]]
        self.source_name, self.cryptographic = state["source"]
