"""The readers that benchmarks/fuzz.py tries, each as a function of a path; what they return does not matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tacit.audits.runs.journal import Journal
from tacit.audits.verification import verify
from tacit.cli.attacking import loaded
from tacit.cli.inputs import read_event
from tacit.core import Evidence, Scores, TacitError
from tacit.core.scores_file import read as read_scores
from tacit.data import load
from tacit.data.schema import Schema
from tacit.loss import Plan
from tacit.study.run_file import RunFile
from tacit.study.sealing import same_data
from tacit.train import checkpoint, private

DATA = (np.arange(12.0).reshape(6, 2), np.arange(6) % 2)
PLAN = Plan(6, 0.5, 4, 1.0)
ABOUT = {"fit": "f", "runs": 8}


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(2, 2)


def step() -> object:
    model = small()
    return private(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), PLAN, rng=1)


def evidence(path: Path) -> None:
    found = Evidence.load(path)
    found.to_json()
    assert found.sentence
    if found.claim is None or found.claim.event is None:  # an event may ask for hours of exact arithmetic
        verify(found)


def state(path: Path) -> None:
    made = step()
    made.load_state_dict(checkpoint.read(path))  # type: ignore[attr-defined]


def weights(path: Path) -> None:
    loaded(small, path)


def table(path: Path) -> None:
    load(str(path), label="y", members="m")


def scores(path: Path) -> None:
    for item in read_scores(path):
        assert isinstance(item, Scores)


def key(path: Path) -> None:
    told = Evidence(subject="x", provenance={"data_hmac": "00"})
    same_data(told, *DATA, path)


def journal(path: Path) -> None:
    for rng in (3, None):
        try:
            Journal.open(path, dict(ABOUT), DATA, rng)
        except TacitError:
            if rng is None:
                raise


READERS: dict[str, Callable[[Path], object]] = {
    "evidence": evidence,
    "event": lambda path: read_event(str(path)),
    "run file": RunFile.read,
    "schema": Schema.read,
    "table csv": table,
    "table npz": lambda path: load(str(path), members="m"),
    "table parquet": table,
    "scores csv": scores,
    "scores parquet": scores,
    "checkpoint": state,
    "journal": journal,
    "weights": weights,
    "data key": key,
}
