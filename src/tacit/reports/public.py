"""The version of the evidence that may be published (soundness rule 21)."""

from __future__ import annotations

from dataclasses import replace

from ..core import Evidence
from ..core.evidence import SHOWN_AT
from .teachers import DEPENDENT

VERSIONS = {"tacit", "python", "numpy", "scipy", "scikit-learn", "torch", "platform"}
PLAN = {"public_size", "rate", "steps", "planned_steps", "noise_multiplier", "clip_norm", "sampling", "precision"}
PLAN |= {"clipping", "noise"}
GAMES = {"runs_planned", "runs_done", "runs_failed", "references", "runs_of_the_fleet", "runs_of_train.fit"}
GAMES |= {"canaries", "steps_per_run", "isolation", "pilot_runs", "canaries_tried", "canaries_left_out", "seen_by"}
VOTES = {"method", "teachers", "aggregation", "queries", "answers at most", "answers given"}
"""Of PATE: settings, and a number that follows from the released labels."""
OPEN_PROVENANCE = frozenset(VERSIONS | PLAN | GAMES | VOTES | {"randomness", "cryptographic", "made", "data_hmac"})
LEFT_OUT = "left out of the public version"


def public_version(evidence: Evidence) -> Evidence:
    """Claim, event, proven bound and canary-based demonstrations; nothing computed on real members without noise.

    Measurements, accuracy and what the controls found come from private data without noise, so they are left out. Of
    the provenance only versions, the plan's public parameters, counts of runs and the source of randomness are kept,
    because the rest may identify the data.
    """
    return evidence.with_(
        measurements=(),
        utility={},
        controls=tuple(replace(control, found=LEFT_OUT) for control in evidence.controls),
        not_covered=tuple(line for line in evidence.not_covered if not line.startswith(SHOWN_AT)),
        provenance={key: value for key, value in evidence.provenance.items() if _open(key)},
        scores=(),
        exposures=(),
        risk=(),
        groups=(),
        histograms=(),
        findings=(),
    )


def left_out(evidence: Evidence) -> list[str]:
    """What `public_version` drops, in words and without a single value."""
    closed = [key for key in evidence.provenance if not _open(key)]
    parts = [
        (evidence.measurements, "attacks on real members: ROC curves and true-positive rates"),
        (evidence.utility, "accuracy on private data"),
        (evidence.controls, "what the controls found (whether they passed is kept)"),
        (closed, f"provenance that may identify the data: {', '.join(closed)}"),
        (evidence.scores, "scores of records"),
        (evidence.exposures, "the most exposed records"),
        (evidence.risk, "how many records are how exposed"),
        (evidence.groups, "the risk of groups"),
        (evidence.histograms, "how the scores of the audit's runs fall"),
        (evidence.findings, "what attacks on the release found"),
    ]
    return [words for part, words in parts if part]


def _open(key: str) -> bool:
    """Whether provenance under this key may be published; a data-dependent epsilon there was released with noise."""
    return key in OPEN_PROVENANCE or key.startswith(DEPENDENT)
