"""Lightning's Trainer with private steps: its loop, loggers, schedules and validation stay as they are.

    private = PrivateCallback(plan)
    trainer = lightning.Trainer(callbacks=[private])
    trainer.fit(module, private.batches(data))

Lightning calls `training_step` once per step of the plan. The callback replaces it by one that returns a constant, so
Lightning's backward pass does nothing. Afterwards the callback writes the noisy gradients where Lightning expects its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ...core import BadInput, Charger, Evidence, MissingExtra, Source
from ...loss import Plan
from ..batch_norm import Frozen
from ..clip.clipper import Loss
from ..held_out import check_held_out
from ..sample.augment import Augment
from ..sample.collate import Collate
from ..sample.examples import Batch
from ..speed import Speed
from ..step import PrivateStep, private

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import SingleDeviceStrategy
except ImportError:
    raise MissingExtra("lightning", "pip install 'tacit[lightning]'") from None

LOSS, CLIPPED = "train_loss", "train_clipped"


class PrivateCallback(Callback):
    """Makes `trainer.fit(module, private.batches(data))` take the private steps of `plan`, in one epoch.

    `training_step(batch, index)` of the module returns one loss per example and logs nothing; or give `loss`, called as
    loss(module, batch). The other arguments are those of `tacit.private`. The loss and the share of clipped examples
    are on the progress bar as "train_loss" and "train_clipped", for the operator's eyes; no logger is given them, since
    they have no noise. `evidence(delta)` is the claim.

    Guarantee and Caller ensures: see `tacit.private`.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        loss: Loss | None = None,
        ledger: Charger | None = None,
        rng: Source | int | np.random.Generator | None = None,
        speed: Speed = Speed(),  # noqa: B008
        augment: Augment | None = None,
        noise: str = "float32",
    ) -> None:
        self.plan, self.loss = plan, loss
        self._options: dict[str, Any] = {
            "ledger": ledger, "rng": rng, "speed": speed, "augment": augment, "noise": noise
        }  # fmt: skip
        self.private: PrivateStep | None = None
        self._samples: _Samples | None = None
        self._sample: _Sample | None = None

    def batches(
        self,
        data: object,
        *,
        users: ArrayLike | None = None,
        records_per_user: int | None = None,
        collate: Collate | None = None,
    ) -> _Samples:
        """The data loader for `trainer.fit`: one item per step, drawn when it is requested."""
        asked = {"users": users, "records_per_user": records_per_user, "collate": collate}
        self._samples = _Samples(self, data, asked)
        return self._samples

    def evidence(self, delta: float) -> Evidence:
        """The claim of the whole plan."""
        return self._step().evidence(delta)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            if self.private is not None:
                raise BadInput("A private run is trained once, from its start.", fix="Make a new PrivateCallback.")
            _check(trainer, pl_module)
            self._own = pl_module.training_step
            self._frozen = Frozen(pl_module)
            vars(pl_module)["training_step"] = self._training_step

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.training:
            raise BadInput("A private run is trained once, from its start.", fix="Call fit without ckpt_path.")

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse validation on the training data before the first figure."""
        for loader in _loaders(trainer.val_dataloaders):
            check_held_out(loader, None if self._samples is None else self._samples.data)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse a test on the training data: loggers would save its figures."""
        for loader in _loaders(trainer.test_dataloaders):
            check_held_out(loader, None if self._samples is None else self._samples.data)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.on_validation_start(trainer, pl_module)
        if trainer.train_dataloader is not self._samples or self._samples is None:
            raise BadInput(
                "Private steps draw their own samples.", fix="Call trainer.fit(module, private.batches(data))."
            )
        if len(trainer.optimizers) != 1:
            raise BadInput("Private steps go with one optimizer.", fix="Return one from configure_optimizers.")
        callbacks = getattr(trainer, "callbacks", ())
        followed = [getattr(callback, "monitor", None) for callback in callbacks]
        followed += [getattr(callback, "filename", None) for callback in callbacks]  # "{step}-{train_loss:.2f}"
        followed += [schedule.monitor for schedule in trainer.lr_scheduler_configs if schedule.reduce_on_plateau]
        if any(told in str(name) for name in followed for told in (LOSS, CLIPPED)):
            raise BadInput(
                f"{LOSS} and {CLIPPED} have no noise: what is chosen by them, or named after them, would carry data "
                "past it.",
                fix="Let schedules, stopping and checkpoints follow a figure of public data.",
            )
        self._frozen.keep()
        loss = self.loss or (lambda _, batch: self._losses(pl_module, batch))
        self.private = private(pl_module, trainer.optimizers[0], self.plan, loss=loss, **self._options)

    def _training_step(self, sample: _Sample, *_: Any) -> Tensor:
        self._sample = sample
        return torch.zeros((), requires_grad=True)

    def _losses(self, module: LightningModule, batch: Any) -> Any:
        """The losses that the module's own `training_step` returns, alone or in a dict; it must log nothing."""
        vars(module)["log"] = _told
        try:
            found = self._own(batch, 0)
        finally:
            vars(module).pop("log", None)
        return found["loss"] if isinstance(found, dict) and "loss" in found else found

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the noisy gradients; Lightning's optimizer and schedules take the step."""
        if trainer.accumulate_grad_batches != 1 or self._sample is None:
            raise BadInput("Private steps accumulate by themselves.", fix="Leave accumulate_grad_batches at 1.")
        step, sample, self._sample = self._step(), self._sample, None
        info = step.gradients(sample.batch)
        if info.loss is not None and info.clipped is not None:
            told = {LOSS: info.loss, CLIPPED: info.clipped}  # they have no noise: on the screen, in no logger's file
            pl_module.log_dict(told, prog_bar=True, logger=False, batch_size=info.examples)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        trainer.should_stop = trainer.should_stop or self._step().done == self.plan.steps

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        vars(pl_module).pop("training_step", None)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        vars(pl_module).pop("training_step", None)

    def _step(self) -> PrivateStep:
        if self.private is None:
            raise BadInput("Nothing was trained yet.", fix="Call trainer.fit first.")
        return self.private


def _loaders(held: Any) -> list[object]:
    """The loaders in what `trainer.fit` was given for validation: one, several or none."""
    if isinstance(held, Mapping | list | tuple):
        inner = held.values() if isinstance(held, Mapping) else held
        return [loader for one in inner for loader in _loaders(one)]
    return [] if held is None else [held]


def _told(*_: Any, **__: Any) -> None:
    raise BadInput(
        "training_step logs figures of the private data, which have no noise, and loggers would save them.",
        fix=f"Log nothing there; the progress bar has {LOSS} and {CLIPPED}.",
    )


class _Sample:
    """A batch that Lightning does not look into."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class _Samples:
    """A loader for Lightning that gives as many Poisson samples as the plan has steps."""

    def __init__(self, callback: PrivateCallback, data: Any, options: dict[str, Any]) -> None:
        self.callback, self.data, self.options = callback, data, options

    def __len__(self) -> int:
        return int(self.callback.plan.steps)

    def __iter__(self) -> Iterator[_Sample]:
        if self.callback.private is None:
            raise BadInput(
                "LearningRateFinder, Tuner and loops outside trainer.fit look at the private data, and no plan pays.",
                fix="Search with public data, or with tacit.search, and start the callback's one run by trainer.fit.",
            )
        for batch in self.callback._step().batches(self.data, **self.options):
            yield _Sample(batch)


REFUSED: tuple[tuple[Callable[[Any, Any], bool], str, str], ...] = (
    (
        lambda trainer, module: not isinstance(trainer.strategy, SingleDeviceStrategy),
        "PrivateCallback runs on one device.",
        "Set devices=1, or use tacit.fit under torchrun for several.",
    ),
    (
        lambda trainer, module: trainer.precision != "32-true",
        "Lightning's precision would round what is clipped without making room for it.",
        'Leave precision alone, and give the callback Speed(precision="bfloat16").',
    ),
    (
        lambda trainer, module: trainer.gradient_clip_val is not None,
        "Private steps clip every example; gradient_clip_val would clip their noisy sum again.",
        "Leave gradient_clip_val at None, and set the plan's clip_norm.",
    ),
    (
        lambda trainer, module: trainer.accumulate_grad_batches != 1,
        "Private steps accumulate by themselves.",
        "Leave accumulate_grad_batches at 1.",
    ),
    (
        lambda trainer, module: not module.automatic_optimization,
        "With manual optimization nobody sees how often the optimizer steps.",
        "Leave automatic_optimization at True, or write the loop with tacit.private.",
    ),
)


def _check(trainer: Trainer, module: LightningModule) -> None:
    for wrong, message, fix in REFUSED:
        if wrong(trainer, module):
            raise BadInput(message, fix=fix)
