"""Hugging Face's Trainer with private steps: its loop, callbacks, schedules and evaluation stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ...core import BadInput, Charger, Evidence, MissingExtra, Source
from ...loss import Plan
from .. import checkpoint as checkpoints
from ..batch_norm import Frozen
from ..claim import claimed_delta
from ..clip.clipper import Loss
from ..descriptions import described
from ..held_out import check_held_out
from ..info import StepInfo
from ..sample.collate import Collate
from ..sample.examples import Batch, MapStyle
from ..sample.labels import IGNORED, known
from ..speed import Speed
from ..state import saved
from ..step import PrivateStep, private
from ..terms import Terms, check_continues, shortened

try:
    from transformers import Trainer
except ImportError:
    raise MissingExtra("hf", "pip install 'tacit[hf]'") from None

SECRET = "_private.secret"
"""The file from which a run resumes. Files with this prefix are left out when the Trainer pushes its folder to the
hub.
"""
NEXT = f"{SECRET}.next"
"""The file that takes its place, once the Trainer's checkpoint of the same step is on disk."""
SCHEDULE = (
    "learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps", "warmup_ratio", "weight_decay",
    "adam_beta1", "adam_beta2", "adam_epsilon", "optim_args",
)  # fmt: skip
"""Settings of the Trainer by which the optimizer moves: a run goes on under those that it began with."""
NOISELESS = ("loss", "train_loss")
"""Values without noise that the Trainer would print and write into its state, its trackers and the model card."""


class PrivateTrainer(Trainer):
    """A Trainer whose every optimizer step is one private step of `plan`.

    `PrivateTrainer(model, args, train_dataset=data, plan=plan)`; then `train()`, and `evidence(delta)` for the claim.
    The plan says how batches are drawn, how many steps there are and how gradients are clipped: batch size, epochs,
    accumulation and `max_grad_norm` of `args` are not used. Every item goes through `data_collator` by itself, and what
    comes out must have equal shapes: pad to one length, or to a few with `collate=Buckets((64, 128))`.

    The training loss has no noise, so the Trainer neither prints nor saves it: its logs hold "epsilon_so_far", at
    "delta". `history` has every step's loss and share of clipped examples, for the operator's eyes.

    With every checkpoint of the Trainer a file "_private.secret" beside them is written anew, and destroyed at the end;
    `train(resume_from_checkpoint=True)` of a new PrivateTrainer with the same settings goes on from both, bit for bit.

    Guarantee and Caller ensures: see `tacit.private`.
    """

    def __init__(
        self,
        *args: Any,
        plan: Plan,
        loss: Loss | None = None,
        ledger: Charger | None = None,
        rng: Source | int | None = None,
        speed: Speed = Speed(),  # noqa: B008
        noise: str = "float32",
        users: ArrayLike | None = None,
        records_per_user: int | None = None,
        collate: Collate | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._frozen = Frozen(_made(self.model))
        self.plan, self.delta = plan, claimed_delta(plan)
        self._check()
        self.history: list[StepInfo] = []
        self._options: dict[str, Any] = {
            "loss": loss or per_example,
            "ledger": ledger,
            "rng": rng,
            "speed": speed,
            "noise": noise,
        }
        self._data: dict[str, Any] = {"users": users, "records_per_user": records_per_user, "collate": collate}
        self.private: PrivateStep | None = None
        folder = Path(self.args.output_dir or ".")
        self._secret, self._next = folder / SECRET, folder / NEXT
        self._resumed: list[dict[str, Any]] = []

    def _check(self) -> None:
        """Refuse settings that do not fit private steps, and give those that the plan decides their values."""
        for wrong, message, fix in REFUSED:
            if wrong(self):
                raise BadInput(message, fix=fix)
        self.args.num_train_epochs, self.args.max_steps = 1, self.plan.steps
        self.args.max_grad_norm = 0.0  # the plan's clip_norm bounds each record; this would shrink sum and noise alike
        self.args.ignore_data_skip = True  # a resumed run draws the samples that are left, no others

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        if self.private is not None:
            raise BadInput("A private run is trained once.", fix="Make a new PrivateTrainer.")
        self._check()  # settings may have been changed since
        if resume_from_checkpoint:
            self._resumed = [checkpoints.read(path) for path in (self._secret, self._next) if path.exists()]
            if not self._resumed:
                raise BadInput(f"There is no {SECRET} to go on from.", fix="Train from the start, as a new run.")
        found = super().train(resume_from_checkpoint, *args, **kwargs)
        if self._is_over():
            checkpoints.destroy(self._secret)
            checkpoints.destroy(self._next)
        return found._replace(training_loss=float("nan"), metrics=_noisy(found.metrics))

    def _is_over(self) -> bool:
        return self.private is not None and self.private.done == self.plan.steps

    def start(self) -> PrivateStep:
        """The step at its beginning, or at the position stored in the run's secret file."""
        if self.private is not None:
            raise BadInput("A private run is trained once.", fix="Make a new PrivateTrainer.")
        optimizer: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        self._frozen.keep()
        self.private = private(_made(self.model), optimizer, self.plan, **self._options)
        if self._resumed:
            self._go_on(self.private)
        return self.private

    def _go_on(self, step: PrivateStep) -> None:
        """Restore the step to the secret that belongs to the Trainer's checkpoint."""
        known = {state.get("done"): state for state in self._resumed}
        if (state := known.get(self.state.global_step)) is None:
            raise BadInput(
                f"The Trainer's checkpoint is of step {self.state.global_step}, and {SECRET} is of another.",
                fix=f"Resume from {' or '.join(f'checkpoint-{done}' for done in known)}.",
            )
        check_continues(state.get("schedule", self._schedule), self._schedule, {})
        step.load_state_dict(state)
        if state is self._resumed[-1] and self._next.exists():
            self._next.replace(self._secret)

    @property
    def _schedule(self) -> Terms:
        """How the optimizer is moved, in words: a continuation under other settings would repeat steps otherwise."""
        found = {name: described(getattr(self.args, name, None)) for name in SCHEDULE}
        found["schedule"] = described(list(getattr(self.lr_scheduler, "lr_lambdas", ())))
        return {name: shortened(text) for name, text in found.items()}

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save the Trainer's checkpoint, and then put the secret of this step in the place of the last one, so that no
        older file reveals later noise. It is on disk before, since the Trainer removes earlier checkpoints.
        """
        if self.private is not None:
            checkpoints.write({**saved(self.private), "schedule": self._schedule}, self._next)
        super()._save_checkpoint(*args, **kwargs)
        if self.private is not None:
            self._next.replace(self._secret)

    def get_train_dataloader(self) -> Any:
        """One item per step of the plan; the sample is drawn when the item is requested."""
        return _Samples(self)

    def num_examples(self, dataloader: object) -> int:
        return int(self.plan.public_size)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any) -> Tensor:
        """Set noisy gradients where `backward` would leave plain ones; the Trainer's own optimizer then takes the step.

        Returns zero, because the returned loss would be logged.
        """
        model.train()
        assert self.private is not None
        self.history.append(self.private.gradients(inputs["batch"]))
        return torch.zeros((), device=self.args.device)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log epsilon so far in place of the loss."""
        if self.private is not None and any(name in logs for name in NOISELESS):
            spent = self.plan.spent(self.private.done, self.delta).epsilon
            logs = {**_noisy(logs), "epsilon_so_far": spent, "delta": self.delta}
        super().log(logs, *args, **kwargs)

    def get_eval_dataloader(self, eval_dataset: str | Dataset[Any] | None = None) -> DataLoader[Any]:
        given: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(given, str) and isinstance(self.eval_dataset, Mapping):  # one of several, by its name
            given = self.eval_dataset.get(given)
        check_held_out(given, self.train_dataset)
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Dataset[Any]) -> DataLoader[Any]:
        check_held_out(test_dataset, self.train_dataset)  # `predict` gives a loss and metrics where there are labels
        return super().get_test_dataloader(test_dataset)

    def floating_point_ops(self, inputs: object) -> int:
        return 0

    def evidence(self, delta: float) -> Evidence:
        """The claim of the whole plan."""
        if self.private is None:
            raise BadInput("Nothing was trained yet.", fix="Call train() first.")
        return self.private.evidence(delta)


REFUSED: tuple[tuple[Callable[[Any], Any], str, str], ...] = (
    (lambda trainer: trainer.train_dataset is None, "PrivateTrainer needs a train_dataset.", ""),
    (
        lambda trainer: trainer.args.gradient_accumulation_steps != 1,
        "Private steps accumulate by themselves.",
        "Set gradient_accumulation_steps=1.",
    ),
    (
        lambda trainer: trainer.args.world_size > 1,
        "PrivateTrainer runs in one process.",
        "Use tacit.fit under torchrun for several.",
    ),
    (
        lambda trainer: trainer.args.bf16 or trainer.args.fp16 or trainer.accelerator.mixed_precision != "no",
        "The Trainer's precision would round what is clipped without making room for it.",
        "Leave bf16 and fp16 off, in accelerate's settings too (ACCELERATE_MIXED_PRECISION), and give "
        'speed=Speed(precision="bfloat16").',
    ),
    (
        lambda trainer: trainer.args.push_to_hub and trainer.args.save_strategy != "no",
        "The folder that would be pushed holds the run's secret.",
        "Push the model after training.",
    ),
    (
        lambda trainer: trainer.args.label_smoothing_factor or trainer.compute_loss_func or _own_loss(trainer),
        "The Trainer's own loss is one number for a whole batch.",
        "Give loss=, one number per example.",
    ),
    (
        lambda trainer: trainer.args.auto_find_batch_size,
        "auto_find_batch_size would start the run again, on parameters that were trained already.",
        "Give speed=Speed(physical_batch=...) for less memory.",
    ),
)


def _own_loss(trainer: PrivateTrainer) -> bool:
    return type(trainer).compute_loss is not Trainer.compute_loss


class _Samples:
    """The data loader that the Trainer sees."""

    def __init__(self, trainer: PrivateTrainer) -> None:
        self.trainer = trainer

    def __len__(self) -> int:
        return int(self.trainer.plan.steps)

    def __iter__(self) -> Iterator[dict[str, Batch]]:
        trainer, data = self.trainer, self.trainer.train_dataset
        if isinstance(data, MapStyle) and not isinstance(data, Mapping | tuple | IterableDataset):
            data = _Items(trainer)
        for batch in trainer.start().batches(data, **trainer._data):
            yield {"batch": batch}


class _Items:
    """A data set whose items are the Trainer's collator applied to each item alone, as tensors."""

    def __init__(self, trainer: PrivateTrainer) -> None:
        self.data: Any = trainer.train_dataset
        collator = trainer.data_collator
        if trainer.args.remove_unused_columns:
            collator = trainer._get_collator_with_removed_columns(collator, description="training")
        self.collator: Callable[[list[Any]], Mapping[str, Tensor]] = collator

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> object:
        item = self.data[row]
        return {k: v[0] for k, v in self.collator([item]).items()} if isinstance(item, Mapping) else item


def _made(model: nn.Module | None) -> nn.Module:
    if model is None:
        raise BadInput(
            "PrivateTrainer needs a model.", fix="Give the model; model_init is for searches, which release."
        )
    return model


def _noisy(logs: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in logs.items() if name not in NOISELESS}


def per_example(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy per example: of a classifier, or of next tokens, averaged over those that are not ignored.

    A label that names no output is ignored.
    """
    if "labels" not in batch:
        raise BadInput("Items of train_dataset have no labels.", fix='Give every item "labels", or give loss=.')
    labels = batch["labels"]
    logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
    if logits.ndim == 2 and not labels.is_floating_point():
        return F.cross_entropy(*known(logits, labels), reduction="none")
    if logits.ndim != 3 or not type(model).__name__.endswith(("CausalLM", "LMHeadModel")):
        raise BadInput("The loss of this model is not known.", fix="Give loss=, one number per example.")
    following = F.pad(labels[:, 1:].long(), (0, 1), value=IGNORED)  # rows stay as they lie; the last has none
    outputs, targets = known(logits.flatten(0, 1), following.flatten())
    losses = F.cross_entropy(outputs, targets, reduction="none", ignore_index=IGNORED).view(labels.shape)
    return losses.sum(1) / (targets.view(labels.shape) != IGNORED).sum(1).clamp(min=1)
