"""The whole loop in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..core import BadInput, Charger, Evidence, Source, check
from ..core.arrays import Array
from ..core.files import Lasting
from ..core.manifest import FACTS, WEIGHTS, WEIGHTS_FIELD
from ..core.run_folder import SAVE, run_folder
from ..core.shown import small
from . import checkpoint as checkpoints
from .average import Average
from .batch_norm import Frozen
from .clip.clipper import Loss
from .fit_checkpoint import Kept
from .held_out import check_held_out
from .info import StepInfo
from .models import check_kinds
from .progress import Progress
from .sample.augment import Augment
from .sample.collate import Collate
from .sample.examples import Batch
from .speed import Speed
from .step import PrivateStep, Project, private
from .tables import Made, Tabular, encoded, features, probabilities
from .validation import Validation
from .weights import Form, write_weights

if TYPE_CHECKING:
    from ..data import Schema
    from ..loss import Plan
    from ..reports.page import Page

# Clipped gradients have norm at most one and noise dominates: plain SGD with a large step and momentum.
LEARNING_RATE = 0.2
MOMENTUM = 0.9
CHECKPOINTS = 10
FINGERPRINT = "parameters_sha256"
Hook = Callable[[PrivateStep, StepInfo], object]


@dataclass(frozen=True, eq=False)
class Trained:
    """A privately trained `model` with its `evidence`; `history` (one entry per step) is for the operator only.

    `schema` is that of the data frame, if it was one; `made` says how a model by name was trained, `form` how it is
    built.
    """

    model: nn.Module
    evidence: Evidence
    history: tuple[StepInfo, ...]
    schema: Schema | None = None
    made: Made | None = None
    form: Form | None = None

    def predict_proba(self, x: object) -> NDArray[np.float64]:
        """The probability of every class for the records of a data frame, by the training's schema, or of an array."""
        found = probabilities(self.model, features(x, self.schema))
        if self.schema is not None and found.shape[1] != len(self.schema.classes):
            raise BadInput(
                f"The model gives {found.shape[1]} numbers of a record; the schema has {len(self.schema.classes)} "
                "classes.",
                fix="Call the torch module itself (model), or train one with an output for each class.",
            )
        return found

    def predict(self, x: object) -> Array:
        """The most likely class of every record: its word where there is a schema, else its number."""
        likely = self.predict_proba(x).argmax(1)
        return likely if self.schema is None else np.array(self.schema.classes)[likely]

    def save(self, folder: str | Path) -> Path:
        """Write model.safetensors, evidence.json and, where there is one, schema.toml: nothing that is secret.

        They appear together, with a manifest of their hashes, in a folder that is new or empty; another is refused, so
        that no model ever lies beside another one's evidence.
        """
        with run_folder(folder, SAVE) as held:
            marked = write_weights(self.model, held.results / WEIGHTS, self.form)
            found = self.evidence.with_(provenance={**self.evidence.provenance, WEIGHTS_FIELD: marked})
            found.save(held.results / "evidence.json")
            if self.schema is not None:
                self.schema.save(held.results / FACTS)
            held.commit()
        return held.final

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module | Callable[[], nn.Module] | None = None) -> Trained:
        """What `save` or `tacit train` has written, without its history.

        A model by name ("linear", "mlp") is built again. Give any other as `model`: a torch module of the same
        architecture, which takes over the weights, or a function that makes one. Weights that the evidence is not about
        are refused.
        """
        from .saved import read

        found, evidence, schema, form = read(Path(folder), model)
        return cls(found, evidence, (), schema, form=form)

    def report(self, path: str | Path = "report.html") -> Page:
        """Write the page of this training's evidence."""
        from ..reports import report

        return report(self.evidence, path)

    def __repr__(self) -> str:
        bound = self.evidence.upper
        told = "" if bound is None else f", epsilon {bound.shown(4)} at delta {small(bound.delta)}"
        return f"Trained({type(self.model).__name__}, {len(self.history)} steps{told})"


def fit(
    model: nn.Module | str,
    data: object,
    plan: Plan,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    loss: Loss | None = None,
    validation: object = None,
    ledger: Charger | None = None,
    rng: Source | int | np.random.Generator | None = None,
    speed: Speed = Speed(),  # noqa: B008
    checkpoint: str | Path | Lasting | None = None,
    delta: float | None = None,
    average: str = "none",
    users: ArrayLike | None = None,
    records_per_user: int | None = None,
    collate: Collate | None = None,
    augment: Augment | None = None,
    project: Project | None = None,
    noise: str = "float32",
    progress: bool | Hook = False,
    schema: Schema | str | Path | None = None,
) -> Trained:
    """Train `model` on `data` under `plan` and return it with its evidence.

    `optimizer` defaults to SGD; `validation` are records that are never trained on, in any form that `data` may have:
    the evidence holds the share of right labels, or the mean `loss` where there are none. `checkpoint` names a file
    that is written before the first step and ten times in a run, and taken up again if it exists: a run with other
    settings or data is refused then. It is a secret, destroyed at the end; `Lasting(path)` leaves that to the caller.
    `delta` of the claim defaults to the one that the plan was calibrated for; else to 1e-5, or to a power of ten at
    most 1 / (10 public_size) where that is less. `average`: "ema" or "tail" returns an average of the released
    parameters, which costs no privacy. `users` and `records_per_user` make users the unit, `collate` makes tensors of
    records: see `PrivateStep.batches`. `augment`, `project` and `noise` as in `private`. `progress`: True makes the
    first process write a line to standard error. A function is called as progress(step, info) in every process, so that
    it may set the learning rate (`step.rank` is 0 in the first).

    `data` may be a data frame (pandas, polars, Arrow) that holds its label column. Then `schema` is a Schema or its
    file. It may also be the name of the label column; kinds, ranges and words are then read off the data, which the
    evidence says. `model` may then be "linear" or "mlp", made for that schema and trained with a learning rate that
    follows from the plan. A schema with a `unit` makes users the unit of privacy.

    Guarantee and Caller ensures: see `private`.
    """
    delta = delta if delta is None else check.delta(delta)
    if progress and progress is not True and not callable(progress):
        raise BadInput(f"progress must be True, False or a function, got {type(progress).__name__}.")
    given, pair = Tabular.of(data, plan, schema, users, records_per_user), (validation, data)
    data, plan, users, records_per_user = given.data, given.plan, given.users, given.records_per_user
    validation = validation if given.schema is None else encoded(validation, given.schema)
    kind = model if isinstance(model, str) else None
    if isinstance(model, str):
        model, optimizer = given.made(model, optimizer)
    check_kinds(model=model)
    given.check_width(model)
    if optimizer is None:
        moved = [tensor for tensor in model.parameters() if tensor.requires_grad]
        if not moved:
            raise BadInput("No parameter of the model is trainable.", fix="Set requires_grad of those to be trained.")
        optimizer = torch.optim.SGD(moved, lr=LEARNING_RATE, momentum=MOMENTUM)
    kept = Kept.of(checkpoint)
    judge = None if validation is None else Validation.of(validation, model, loss, collate)
    if judge is not None:
        check_held_out(*pair)
    frozen = Frozen(model)
    model.train()
    frozen.keep()
    step = private(
        model, optimizer, plan, loss=loss, ledger=ledger, rng=rng, speed=speed, augment=augment, project=project,
        noise=noise,
    )  # fmt: skip
    step.delta = delta = step.delta if delta is None else delta
    step.course.share(step, {"delta": repr(delta), "average": average, "checkpoint": "no" if kept is None else "yes"})
    step.course.kept = kept is not None
    alone = step.rank == 0
    hook = Progress(delta) if progress is True else progress
    mean = Average(average, step.parameters, plan.steps)
    history = [] if kept is None else kept.take_up(step, mean)
    if isinstance(hook, Progress):
        hook.start(step)
    batches = step.batches(data, users=users, records_per_user=records_per_user, collate=collate)
    _run(step, mean, batches, history, kept if alone else None, hook or None)
    mean.apply()
    model.eval()
    step._workers.once(lambda: step.course.end(step))  # if it gives the first process no evidence, no process gets any
    found = step.evidence(delta)
    if (mark := fingerprint(model)) is not None:
        found = found.with_(provenance={**found.provenance, FINGERPRINT: mark})
    if judge is not None:
        found = found.with_(utility=judge.utility(model))
    if kept is not None and alone and not kept.lasting:
        checkpoints.destroy(kept.path)
    if kind is not None and given.schema is not None:
        found = found.with_(subject=f"{kind} model of {given.schema.label}")
    if given.facts:
        found = found.with_(not_covered=(*found.not_covered, given.facts))
    usual = loss is None and augment is None and project is None and noise == "float32" and collate is None
    made = Made(kind, plan, delta, average, records_per_user) if kind is not None and usual else None
    form = None if given.schema is None else Form.of_schema(kind, given.schema)
    return Trained(model, found, tuple(history), given.schema, made, form)


def fingerprint(model: nn.Module) -> str | None:
    """SHA-256 of all parameters, to say which model evidence is about. None if the parameters are sharded."""
    code = hashlib.sha256()
    for name, tensor in model.named_parameters():
        if type(tensor.data) is not Tensor:
            return None
        code.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        code.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return code.hexdigest()


def _run(
    step: PrivateStep, mean: Average, batches: Iterator[Batch], history: list[StepInfo], kept: Kept | None, hook: Any
) -> None:
    """Take all remaining steps; the state is on disk before the first of them, and again at public steps."""
    every, first = max(1, step.plan.steps // CHECKPOINTS), step.done
    fresh = kept is not None and not kept.path.exists()
    if kept is not None and first < step.plan.steps:
        kept.write(step, mean, history)
    try:
        for batch in batches:
            info = step(batch)
            mean.update(step.done)
            history.append(info)
            if hook is not None:
                hook(step, info)
            if kept is not None and (step.done % every == 0 or step.done == step.plan.steps):
                kept.write(step, mean, history)  # the end too: evidence ends the run, and may be long in coming
    except Exception:
        if kept is not None and fresh and step.done == 0 and not step.course.paid:  # nothing was drawn or paid
            checkpoints.destroy(kept.path)
        raise
