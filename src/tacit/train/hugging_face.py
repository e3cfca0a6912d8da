"""Hugging Face's Trainer with private steps: its loop, callbacks, schedules and evaluation stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core import BadInput, Charger, Evidence, MissingExtra, Source
from ..loss import Plan
from . import checkpoint as checkpoints
from .sample import Batch
from .speed import Speed
from .step import PrivateStep, private

try:
    from transformers import Trainer
except ImportError:
    raise MissingExtra("hf", "pip install 'tacit[hf]'") from None

SECRET = "_private.secret"
"""What a run goes on from. Files whose name starts so are left out when the Trainer pushes its folder to the hub."""
IGNORED = -100
"""The label that Hugging Face gives to what is not to be predicted."""


class PrivateTrainer(Trainer):  # type: ignore[misc]
    """A Trainer whose every optimizer step is one private step of `plan`.

    `PrivateTrainer(model, args, train_dataset=data, plan=plan)`; then `train()`, and `evidence(delta)` for the claim.
    The plan says how batches are drawn and how many steps there are: batch size, epochs and accumulation of `args` are
    not used, and `max_grad_norm` clips what was released. Items of the data set must have equal shapes (pad them).
    With every checkpoint of the Trainer a file "_private.secret" beside them is written anew, and destroyed at the end;
    `train(resume_from_checkpoint=True)` of a new PrivateTrainer goes on from both, bit for bit.

    Guarantee and Caller ensures: see `tacit.private`.
    """

    def __init__(
        self,
        *args: Any,
        plan: Plan,
        loss: Any = None,
        ledger: Charger | None = None,
        rng: Source | int | None = None,
        speed: Speed = Speed(),  # noqa: B008
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.train_dataset is None:
            raise BadInput("PrivateTrainer needs a train_dataset.")
        if self.args.gradient_accumulation_steps != 1:
            raise BadInput("Private steps accumulate by themselves.", fix="Set gradient_accumulation_steps=1.")
        if self.args.world_size > 1:
            raise BadInput("PrivateTrainer runs in one process.", fix="Use tacit.fit under torchrun for several.")
        if self.args.bf16 or self.args.fp16:
            raise BadInput(
                "The Trainer's precision would round what is clipped without making room for it.",
                fix='Leave bf16 and fp16 off, and give speed=Speed(precision="bfloat16").',
            )
        if self.args.push_to_hub and self.args.save_strategy != "no":
            raise BadInput(
                "The folder that would be pushed holds the run's secret.", fix="Push the model after training."
            )
        self.plan, self._options = plan, {"loss": loss or per_example, "ledger": ledger, "rng": rng, "speed": speed}
        self.args.num_train_epochs, self.args.max_steps = 1, plan.steps
        self.args.ignore_data_skip = True  # a resumed run draws the samples that are left, no others
        self.private: PrivateStep | None = None
        self._secret = Path(self.args.output_dir) / SECRET
        self._resumed: dict[str, Any] | None = None

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self.private is not None:
            raise BadInput("A private run is trained once.", fix="Make a new PrivateTrainer.")
        if resume_from_checkpoint:
            if not self._secret.exists():
                raise BadInput(f"There is no {SECRET} to go on from.", fix="Train from the start, as a new run.")
            self._resumed = checkpoints.read(self._secret)
        found = super().train(resume_from_checkpoint, *args, **kwargs)
        if self.private is not None and self.private.done == self.plan.steps:
            checkpoints.destroy(self._secret)
        return found

    def start(self) -> PrivateStep:
        """The step at its beginning, or where the run's secret was written."""
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
        self.private = private(self.model, optimizer, self.plan, **self._options)
        if self._resumed is not None:
            self.private.load_state_dict(self._resumed)
            if self.private.done != self.state.global_step:
                raise BadInput(
                    f"The Trainer's checkpoint is of step {self.state.global_step}, and {SECRET} is of another.",
                    fix=f"Resume from checkpoint-{self.private.done}.",
                )
        return self.private

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Theirs, then the secret: one file, so that no older one tells what later noise was."""
        super()._save_checkpoint(*args, **kwargs)
        if self.private is not None:
            checkpoints.write(self.private.state_dict(), self._secret)

    def get_train_dataloader(self) -> Any:
        """One item for each step of the plan; who takes part is drawn when the item is asked for."""
        return _Samples(self)

    def num_examples(self, dataloader: Any) -> int:
        return int(self.plan.public_size)

    def training_step(self, model: nn.Module, inputs: Mapping[str, Batch], *args: Any) -> Tensor:
        """Noisy gradients where `backward` would leave plain ones; the Trainer's own optimizer takes the step."""
        model.train()
        assert self.private is not None
        info = self.private.gradients(inputs["batch"])
        return torch.tensor(0.0 if info.loss is None else info.loss, device=self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0

    def evidence(self, delta: float) -> Evidence:
        """The claim of the whole plan."""
        if self.private is None:
            raise BadInput("Nothing was trained yet.", fix="Call train() first.")
        return self.private.evidence(delta)


class _Samples:
    """What the Trainer takes for a data loader."""

    def __init__(self, trainer: PrivateTrainer) -> None:
        self.trainer = trainer

    def __len__(self) -> int:
        return int(self.trainer.plan.steps)

    def __iter__(self) -> Iterator[dict[str, Batch]]:
        for batch in self.trainer.start().batches(self.trainer.train_dataset):
            yield {"batch": batch}


def per_example(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """Cross-entropy per example: of a classifier, or of next words, averaged over those that are not ignored."""
    labels = batch["labels"]
    logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
    if logits.ndim == 2 and not labels.is_floating_point():
        return F.cross_entropy(logits, labels, reduction="none")
    if logits.ndim != 3 or not type(model).__name__.endswith(("CausalLM", "LMHeadModel")):
        raise BadInput("The loss of this model is not known.", fix="Give loss=, one number per example.")
    targets = labels[:, 1:]
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), targets, reduction="none", ignore_index=IGNORED)
    return losses.sum(1) / (targets != IGNORED).sum(1).clamp(min=1)
