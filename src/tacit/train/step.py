"""One private step in place of zero_grad, forward, backward and optimizer.step."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import BadInput, Bound, Charger, Evidence, Source, source
from .batch import mapped
from .claim import evidence, warn_delta
from .clip import Clipped, Clipper, Compiled
from .clip.clipper import Loss
from .gaussian import Normals
from .models import check_model, trainable
from .noise import Keystream, Secret, digest
from .sample import Batch, Examples, check_count, physical_size, poisson
from .speed import Speed

if TYPE_CHECKING:
    from ..loss import Plan

STATE = "tacit.private-step/1"
# Rounding may let a contribution exceed clip_norm by a little; the noise is wider by as much (soundness rule 11).
ROUNDING = {"float32": 2.0**-12, "bfloat16": 2.0**-7}
COMPILE_FROM = 500
Part = tuple[Clipped, Tensor]


@dataclass(frozen=True)
class StepInfo:
    """For the operator's eyes: mean `loss` and the share of examples that were `clipped`; None for an empty sample."""

    loss: float | None
    clipped: float | None


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
) -> PrivateStep:
    r"""Make an ordinary training loop private: three lines change.

        step = tacit.private(model, optimizer, plan)
        for batch in step.batches(dataset):
            step(batch)

    Each step releases (S + N(0, (z C)^2 I)) / (rate * public_size), where S is the sum of per-example gradients clipped
    to C = plan.clip_norm over a Poisson sample and z = plan.noise_multiplier; the optimizer sees that and nothing else.

    Guarantee: after all steps the model is a release of `plan.event`; `ledger` is charged for all of it beforehand.
    Caller ensures: initial parameters and hyper-parameters do not come from the private data; one record is one
    person's whole contribution; `loss` returns one number per example.
    """
    return PrivateStep(model, optimizer, plan, loss or cross_entropy, ledger, source(rng), speed)


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
    ) -> None:
        if plan.sampling != "poisson":
            raise BadInput(f"Training draws Poisson samples; the plan says {plan.sampling!r}.")
        check_model(model)
        self.model, self.optimizer, self.plan, self.ledger, self.speed = model, optimizer, plan, ledger, speed
        self.source_name, self.cryptographic = rng.name, rng.cryptographic
        self.done = 0
        self.run = secrets.token_hex(16)
        self._clipper = Clipper(model, loss, trainable(model, optimizer), plan.clip_norm, speed.precision)
        self._device = next(iter(self.parameters.values())).device
        self._compiled = Compiled(self._clipper) if self._worth_compiling() else None
        self._secret = Secret.of(rng)
        self._normals = Normals(self._device)
        self._charged = False

    @property
    def parameters(self) -> dict[str, Tensor]:
        """What is trained, by name."""
        return self._clipper.parameters

    def batches(self, data: Any) -> Iterator[Batch]:
        """One sample for each step that is left; every one must be given to the step before the next is drawn."""
        examples = Examples.of(data)
        check_count(examples, self.plan.public_size)
        self._charge()
        physical = physical_size(self.plan.expected_batch, self.speed.physical_batch)
        while self.done < self.plan.steps:
            order = self.done
            stream = Keystream(self._secret.key(b"sample", order.to_bytes(8, "little")))
            index = poisson(examples.count, self.plan.rate, stream)
            yield Batch(examples, index, order, physical, fixed=self._compiled is not None)
            if self.done != order + 1:
                raise BadInput(
                    "A batch was drawn and not given to the step exactly once.",
                    fix="Call step(batch) for every batch; skipping by what it holds would void the claim.",
                )

    def __call__(self, batch: Batch) -> StepInfo:
        """Clip, add up, add noise once, divide by the public expected batch, and let the optimizer step."""
        if not isinstance(batch, Batch) or batch.order != self.done:
            raise BadInput(
                "A step takes the batch that `batches` just gave, once.", fix="Loop: for batch in step.batches(data)."
            )
        total, parts = self._total(batch)
        self._release(total, self._noise_key(batch, parts))
        self.optimizer.step()
        self._secret.advance()
        self.done += 1
        return self._info(batch, parts)

    def _clip(self, rows: Any, mask: Tensor) -> tuple[Clipped, Tensor]:
        rows = mapped(lambda tensor: tensor.to(self._device, non_blocking=True), rows)
        mask = mask.to(self._device)
        return (self._compiled or self._clipper)(rows, mask), mask

    def _worth_compiling(self) -> bool:
        """As asked; "auto" compiles long runs on a GPU, where it pays most and costs a minute once."""
        if self.speed.compile == "auto":
            return self._device.type == "cuda" and self.plan.steps >= COMPILE_FROM
        return bool(self.speed.compile)

    def _total(self, batch: Batch) -> tuple[Tensor, list[Part]]:
        """The clipped sum over all physical batches as one flat float32 vector, and what else each part gave."""
        total, parts = None, []
        for part in batch.parts():
            clipped, mask = self._clip(*part)
            flat = torch.cat([clipped.sums[name].flatten() for name in self.parameters]).float()
            total = flat if total is None else total.add_(flat)
            parts.append((replace(clipped, sums={}), mask))
        if total is None:
            total = torch.zeros(sum(tensor.numel() for tensor in self.parameters.values()), device=self._device)
        return total, parts

    def _noise_key(self, batch: Batch, parts: list[Part]) -> bytes:
        seen = [value for clipped, _ in parts for value in (clipped.norms, clipped.losses)]
        plan = self._plan().encode()
        return self._secret.key(
            b"noise", self.done.to_bytes(8, "little"), plan, digest(torch.from_numpy(batch.index), *seen)
        )

    def _release(self, total: Tensor, key: bytes) -> None:
        """total <- (S + noise) / (rate * public_size), handed to the optimizer as gradients."""
        scale = self.plan.noise_multiplier * self.plan.clip_norm * (1 + ROUNDING[self._clipper.rounding])
        self._normals.add(total, key, scale)
        total.div_(self.plan.expected_batch)
        start = 0
        for parameter in self.parameters.values():
            piece = total[start : start + parameter.numel()].view(parameter.shape)
            parameter.grad = piece.to(parameter.dtype)
            start += parameter.numel()

    def _info(self, batch: Batch, parts: list[Part]) -> StepInfo:
        count = len(batch.index)
        if not count:
            return StepInfo(None, None)
        losses = sum(float(clipped.losses[mask].nansum()) for clipped, mask in parts)
        over = sum(int((clipped.norms[mask] > self.plan.clip_norm).sum()) for clipped, mask in parts)
        return StepInfo(losses / count, over / count)

    def _plan(self) -> str:
        return json.dumps(asdict(self.plan), sort_keys=True)

    def _charge(self) -> None:
        """Pay for the whole plan before the first sample; a resumed run has the same key and pays once."""
        if self.ledger is not None and not self._charged:
            self.ledger.charge(self.plan.event, key=f"train-{self.run}", purpose="training")
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
            "secret": self._secret.value,
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
        self._secret = Secret(state["secret"])
        self.source_name, self.cryptographic = state["source"]
