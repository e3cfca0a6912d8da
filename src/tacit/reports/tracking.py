"""Evidence and training in the tools that keep experiments: MLflow and TensorBoard, each an optional extra.

    tracker = tacit.reports.MLflow()                                  # the active run
    done = tacit.fit(model, data, plan, progress=tracker)             # epsilon so far, step by step
    tracker.log(evidence)                                             # its numbers, its page and its file

What is kept is not private: numbers measured on real members, and losses, come from private data without noise. Losses
are left out unless asked for, and `log(..., public=True)` keeps what the public page keeps.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core import Evidence, MissingExtra
from .metrics import metrics
from .page import report
from .public import public_version

POINTS = 20
"""Times that a training's progress is noted: epsilon so far is computed anew for each."""


@dataclass(eq=False)
class Tracker(ABC):
    """`progress=` of a training, and a place for evidence. Epsilon so far is at `delta`; it is not a claim.

    `delta` defaults to that of the training's claim, so that the last epsilon so far is the one of its evidence.
    """

    delta: float | None = None
    losses: bool = False

    def __call__(self, step: Any, info: Any) -> None:
        """After a step: how far the training is, and what it has spent; the operator may ask for losses, too."""
        done, steps = step.done, step.plan.steps
        if done < steps and done * POINTS // steps == (done - 1) * POINTS // steps:
            return
        delta = step.delta if self.delta is None else self.delta
        told = {"train/epsilon_so_far": step.plan.spent(done, delta).epsilon, "train/delta": delta}
        if self.losses and info.loss is not None:
            told |= {"train/loss": info.loss, "train/clipped": info.clipped}
        self._numbers(told, done)

    def log(self, evidence: Evidence, *, public: bool = False) -> None:
        """Log the evidence's numbers, its page and its JSON file."""
        shown = public_version(evidence) if public else evidence
        self._numbers(metrics(shown), 0)
        with tempfile.TemporaryDirectory() as folder:
            page = report(evidence, Path(folder) / "report.html", public=public).path
            self._files((page, shown.save(Path(folder) / "evidence.json")))

    @abstractmethod
    def _numbers(self, told: Mapping[str, float], step: int) -> None:
        """Log the given numbers to the tracker."""

    @abstractmethod
    def _files(self, paths: tuple[Path, ...]) -> None:
        """Log the given files to the tracker."""


@dataclass(eq=False)
class MLflow(Tracker):
    """The active MLflow run, or the one that MLflow starts; files go to its artifacts under `folder`."""

    folder: str = "tacit"
    _mlflow: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            import mlflow
        except ImportError:
            raise MissingExtra("mlflow") from None
        self._mlflow = mlflow

    def _numbers(self, told: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(told), step=step)

    def _files(self, paths: tuple[Path, ...]) -> None:
        for path in paths:
            self._mlflow.log_artifact(str(path), self.folder)


@dataclass(eq=False)
class TensorBoard(Tracker):
    """Event files in `folder`; TensorBoard shows no pages, so the page and the evidence lie beside them."""

    folder: str | Path = "runs"
    _writer: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError:
            raise MissingExtra("tensorboard") from None
        self._writer = Writer(str(self.folder))

    def _numbers(self, told: Mapping[str, float], step: int) -> None:
        for name, value in told.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def _files(self, paths: tuple[Path, ...]) -> None:
        for path in paths:
            (Path(self.folder) / path.name).write_bytes(path.read_bytes())
