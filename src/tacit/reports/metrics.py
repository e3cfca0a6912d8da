"""Evidence as a flat table of numbers, for whatever keeps the numbers of experiments."""

from __future__ import annotations

import math
import re

from ..core import Evidence


def metrics(evidence: Evidence) -> dict[str, float]:
    """Names and finite numbers: `mlflow.log_metrics(metrics(e))`, or `add_scalar` of TensorBoard, one by one.

    Names hold letters, digits and `_ - . /` only, which every such tool takes; verdicts are 1 for the one that holds.
    """
    found = {f"verdict/{evidence.verdict.value}": 1.0}
    if evidence.claim is not None:
        found |= {"claim/epsilon": evidence.claim.bound.epsilon, "claim/delta": evidence.claim.bound.delta}
    if evidence.lower is not None:
        shown = evidence.lower.bound
        found |= {"audit/epsilon_at_least": shown.epsilon, "audit/delta": shown.delta}
        found["audit/attainable"] = evidence.attainable
    for item in evidence.measurements:
        if item.auc.value is not None:
            found[f"attack/{item.attack}/auc"] = item.auc.value
        rates = ((fpr, estimate.value) for fpr, estimate in item.tpr_at_fpr)
        found |= {f"attack/{item.attack}/tpr_at_{fpr:g}": value for fpr, value in rates if value is not None}
    found |= {f"utility/{name}": value for name, value in evidence.utility.items()}
    found |= {f"control/{item.name}": float(item.passed) for item in evidence.controls}
    return {re.sub(r"[^\w./-]", "_", name): float(value) for name, value in found.items() if math.isfinite(value)}
