"""What a private run may claim, and what its proof does not cover."""

from __future__ import annotations

import math
import platform
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from ..core import Claim, Evidence, PrivacyWarning, check
from ..core.shown import small
from .clip.isolation import UNCOVERED

if TYPE_CHECKING:
    from ..loss import Plan
    from .step import PrivateStep

NOT_COVERED = (
    "training loss and share of clipped examples shown to the operator",
    "choices made by looking at this data: architecture, learning rate, clip norm, number of steps",
    "what these records made before the training: weights that it starts from, means that features are scaled by",
    "accuracy measured on private data",
    "the true batch sizes, the run time and checkpoints, which stay with the operator",
)
CHARGED = "this training run and all that was charged to the same ledger"
FLOATING = "rounding of floating-point noise (granularity attacks)"
GPU_SUMS = "rounding of sums over records on a GPU beyond 1/128 of the clip norm: assumed, not proven"


READ = (
    "what the code that reads records keeps from one read to the next, such as a generator of the data set's own with "
    "a known seed: records would be read differently if one were missing"
)


def warn_delta(delta: float, public_size: int) -> None:
    """Warn about a large delta: 1/n allows a mechanism that publishes one whole record."""
    if check.delta(delta) * public_size >= 1:
        warnings.warn(
            f"delta {small(delta)} is not below 1/n = {small(1 / public_size)}: it allows one record to be published "
            "outright.",
            PrivacyWarning,
            stacklevel=4,
        )


def small_delta(public_size: int) -> float:
    """The default delta: 1e-5, or a power of ten at most 1/(10 n) if that is less."""
    return min(1e-5, 10.0 ** math.floor(-math.log10(10 * public_size)))


def claimed_delta(plan: Plan) -> float:
    """The delta that a plan was calibrated for, or `small_delta`."""
    return small_delta(plan.public_size) if plan.delta is None else plan.delta


def evidence(step: PrivateStep, delta: float) -> Evidence:
    """Evidence for the whole plan: a run stopped early, by looking at its output, claims no less (soundness rule 3)."""
    plan = step.plan
    not_covered = (*NOT_COVERED, FLOATING) if step.noise == "float32" else NOT_COVERED
    if step.noise == "float32" and next(iter(step.parameters.values())).is_cuda:
        not_covered = (*not_covered, GPU_SUMS)
    if step.ledger is None:
        not_covered = (*not_covered, "other releases: no ledger was given")
    if step.read:
        not_covered = (*not_covered, READ)
    if _alone(step):
        not_covered = (*not_covered, UNCOVERED)
    not_covered = (*not_covered, *step.course.not_covered)
    if step.read_off_data:
        not_covered = (*not_covered, step.read_off_data)
    return Evidence(
        subject="DP-SGD training run",
        claim=Claim(plan.bound(delta), plan.event),
        not_covered=not_covered,
        threat={
            "released": "the final model; the proof also covers the models after all earlier steps",
            "attacker sees": "all released parameters, and knows the plan",
            "trust": "whoever trains holds the records and is trusted with them",
            "composition": "this training run alone" if step.ledger is None else CHARGED,
            "tuning": "not counted",
        },
        provenance={
            "randomness": step.source_name,
            "cryptographic": step.cryptographic,
            "steps": step.done,
            "planned_steps": plan.steps,
            "rate": plan.rate,
            "noise_multiplier": plan.noise_multiplier,
            "clip_norm": plan.clip_norm,
            "clipping": plan.clipping.name,
            "public_size": plan.public_size,
            "sampling": plan.sampling.name,
            "precision": step.speed.precision,
            "noise": step.noise,
            "rounding": step.rounding,
            "records": _records(step),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def _records(step: PrivateStep) -> str:
    """How records were run, in words for the evidence."""
    reason = _alone(step)
    return f"one at a time: {reason}" if reason else "all at once, each as if alone"


def _alone(step: PrivateStep) -> str:
    """Why records ran one at a time; it may have been found since the step last told its operator."""
    return step.alone_because or step._clipper.alone_because
