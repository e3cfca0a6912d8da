"""The finding in one or two plain sentences, made from the numbers so that it cannot disagree with them."""

from __future__ import annotations

import math

import numpy as np

from .evidence import Claim, Evidence, Measurement, Verdict
from .interval import Estimate


def sentence(evidence: Evidence) -> str:
    """What a person should take away; a failed control is said first."""
    failed = [control.name for control in evidence.controls if not control.passed]
    if failed:
        return f"This experiment cannot be relied on: the control {', '.join(failed)} did not behave."
    parts = [text for text in (_found(evidence), _judged(evidence)) if text]
    return " ".join(parts) or "Nothing was measured and nothing is claimed."


def strongest(evidence: Evidence) -> tuple[Measurement, float, Estimate] | None:
    """What to quote: the lowest false-positive rate the sample supports, the largest lower limit there.

    The best of several attacks is a choice: its interval holds with the confidence that all of them share (`together`).
    """
    for fpr in sorted({fpr for item in evidence.attacks for fpr, _ in item.tpr_at_fpr}):
        rows = [
            (item, fpr, estimate)
            for item in evidence.attacks
            for rate, estimate in item.tpr_at_fpr
            if rate == fpr and estimate.value is not None
        ]
        if rows:
            return max(rows, key=lambda row: (row[2].lower, row[2].value or 0.0))
    return None


def together(evidence: Evidence) -> float:
    """The confidence with which the intervals of all attacks hold at once (Bonferroni), and so that of the best."""
    return max(0.0, 1 - sum(1 - item.auc.confidence for item in evidence.attacks))


def allowed(claim: Claim, fpr: float) -> float | None:
    """The claim's largest true-positive rate at `fpr`, read between its frontier's points (rounded up)."""
    if not claim.frontier:
        return None
    rates = np.array(claim.frontier)
    return float(rates[min(int(np.searchsorted(rates[:, 0], fpr, side="left")), len(rates) - 1), 1])


def _found(evidence: Evidence) -> str:
    best = strongest(evidence)
    if best is None:
        return _too_few(evidence)
    _, fpr, estimate = best
    scale = max(1000, round(10 / fpr)) if fpr < 0.01 else 1000
    low, found, high = (f"{rate * scale:,.0f}" for rate in (estimate.lower, estimate.value or 0.0, estimate.upper))
    text = (
        f"An attacker who wrongly accuses 1 in {round(1 / fpr):,} outsiders finds {found} of {scale:,} members "
        f"({low} to {high}, {_sure(evidence)})"
    )
    limit = None if evidence.claim is None else allowed(evidence.claim, fpr)
    if evidence.claim is None or limit is None:
        return f"{text}."
    return f"{text}; the {_word(evidence.claim)} allows at most {math.ceil(limit * scale):,}."


def _too_few(evidence: Evidence) -> str:
    """What can be said when there are too few outsiders for any of the rates."""
    if not evidence.attacks:
        return ""
    best = max(evidence.attacks, key=lambda item: item.auc.lower)
    area = f"{best.auc.value:.2f} ({best.auc.lower:.2f} to {best.auc.upper:.2f}, {_sure(evidence)})"
    return (
        f"With {best.nonmembers:,} outsiders the sample is too small for rates at so few false accusations; "
        f"the area under the curve of the attack {best.attack} is {area}, where 0.5 is guessing."
    )


def _sure(evidence: Evidence) -> str:
    count = len(evidence.attacks)
    best = f" for the best of {count} attacks" if count > 1 else ""
    return f"{100 * together(evidence):.6g} % confidence{best}"


def _judged(evidence: Evidence) -> str:
    shown, claim = evidence.lower, evidence.claim
    if claim is None:
        return "" if shown is None else f"No bound is claimed; epsilon is at least {shown.bound.epsilon:.3g}."
    if math.isinf(claim.bound.epsilon):
        return "The claim allows any epsilon: it promises nothing."
    epsilon = f"{claim.bound.epsilon:.3g}"
    if shown is None:
        return f"{_bounded(claim)}; it is untested, as no audit was made."
    at_least = f"{shown.bound.epsilon:.3g}"
    if evidence.verdict is Verdict.REFUTED:
        return f"The claim epsilon <= {epsilon} is false: the audit shows at least {at_least}."
    if evidence.verdict is Verdict.UNINFORMATIVE:
        most = f"{evidence.attainable:.3g}"
        return f"The audit could not have contradicted epsilon <= {epsilon}: it can show {most} at most."
    return f"{_bounded(claim)} and at least {at_least} by demonstration."


def _bounded(claim: Claim) -> str:
    return f"Epsilon is at most {claim.bound.epsilon:.3g} (delta {claim.bound.delta:g}) by {_word(claim)}"


def _word(claim: Claim) -> str:
    """A claim is a proof only where an event stands behind it."""
    return "claim" if claim.event is None else "proof"
