"""The finding in one or two plain sentences, made from the numbers so that it cannot disagree with them."""

from __future__ import annotations

import math

import numpy as np

from .bound import Bound
from .evidence import Claim, Demonstration, Evidence, Measurement, Verdict
from .fault import panel_words
from .finding import worst
from .interval import Estimate
from .reasons import reason
from .shown import at_most, proportion, significant, small

CEILING = 0.98
"""From this part of its attainable maximum on, a lower bound says how many runs there were, not how much leaks."""
COUNTED = "runs", "sequential", "mechanism"
"""Games whose limit grows with the logarithm of their runs."""
SPARE = 1.2
"""More runs than all right guesses would need, as a share: some choose, and the sides are not quite equal."""
MOST_DIGITS = 7
WAYS = "give fit(x, y, rng), the training of another model like this one", "give a number of references above 0"
"""How to have reference models: of a model that cannot be trained again as it is, and of one that can."""


def sentence(evidence: Evidence) -> str:
    """What a person should take away; a failed control is said first, then that a claim is false."""
    failed = [control for control in evidence.controls if not control.passed]
    if failed:
        names = ", ".join(control.name for control in failed)
        return f"This experiment cannot be relied on: the control {names} did not behave ({failed[0].found})."
    found, judged = (_found(evidence), _understated(evidence), _disclosed(evidence)), _judged(evidence)
    order = (judged, *found) if evidence.verdict is Verdict.REFUTED else (*found, judged)
    return " ".join(text for text in order if text) or "Nothing was measured and nothing is claimed."


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


def better(fpr: float, estimate: Estimate) -> bool:
    """Whether an attack beats guessing for certain: guessing finds as many members as it accuses outsiders."""
    return estimate.lower > fpr


def better_elsewhere(evidence: Evidence) -> bool:
    """Whether some attack beats guessing over all thresholds, whatever a small sample can say at one low rate."""
    return any(item.auc.lower > 0.5 for item in evidence.attacks)


def scale_of(item: Measurement, fpr: float) -> int:
    """Of how many members to speak: 1,000, more for lower rates, and never more than were counted."""
    return max(1, min(1000 if fpr >= 0.01 else max(1000, round(10 / fpr)), item.members))


def _found(evidence: Evidence) -> str:
    best = strongest(evidence)
    if best is None:
        return _too_few(evidence)
    item, fpr, estimate = best
    scale = scale_of(item, fpr)
    low, found, high = _whole(estimate.lower * scale), round((estimate.value or 0.0) * scale), estimate.upper * scale
    text = (
        f"An attacker who wrongly accuses {proportion(fpr)} outsiders finds {found:,} of {scale:,} members "
        f"({low:,} to {_whole(high, up=True):,}, {_sure(evidence)})"
    )
    return f"{text}{_guessing(evidence, fpr, estimate, scale)}{_limit(evidence.claim, fpr, estimate, scale)}."


def _disclosed(evidence: Evidence) -> str:
    """What attacks on a release found: the worst of it."""
    found = worst(evidence.findings)
    if found is None:
        return ""
    rest = len(evidence.findings) - 1
    return f"{found.sentence}{f' (The worst of {rest + 1} findings.)' if rest else ''}"


def _whole(value: float, *, up: bool = False) -> int:
    """A whole number on the safe side, but for the last digits of the arithmetic."""
    return math.ceil(value - 1e-9) if up else math.floor(value + 1e-9)


def _guessing(evidence: Evidence, fpr: float, estimate: Estimate, scale: int) -> str:
    """Nothing where the attack beats guessing for certain; else that it does not, or that the sample cannot tell.

    Few outsiders cannot show that a rate is low: an attack that finds everybody may be uncertain at 1 in 100.
    """
    if better(fpr, estimate):
        return ""
    elsewhere, alike = better_elsewhere(evidence), f"(guessing finds {significant(fpr * scale)})"
    here = " at this rate" if elsewhere else ""
    if (estimate.value or 0.0) <= fpr:
        return f", no better than guessing{here} {alike}" + (f", though better at others {_area(evidence)}" * elsewhere)
    text = f", which this sample cannot tell from guessing{here} {alike}"
    return text + (f"; over all rates an attack does better than guessing {_area(evidence)}" * elsewhere)


def _area(evidence: Evidence) -> str:
    """How much better than guessing over all thresholds: few outsiders show little at one low rate, and much here."""
    found = max(item.auc.lower for item in evidence.attacks)
    digits = next((k for k in range(3, 9) if _whole(10**k * found) > 5 * 10 ** (k - 1)), 3)
    return f"(area under the curve at least {_whole(10**digits * found) / 10**digits:.{digits}f}, guessing has 0.5)"


def _limit(claim: Claim | None, fpr: float, estimate: Estimate, scale: int) -> str:
    """What the claim allows, and why an interval may reach beyond it."""
    limit = None if claim is None else allowed(claim, fpr)
    if claim is None or limit is None:
        return ""
    most, word = f"{_whole(limit * scale, up=True):,}", _word(claim)
    if estimate.lower > limit:
        return (
            f"; that is more than the {most} that the {word} allows, so the {word} does not hold for this model, or "
            "members and outsiders differ in more than membership"
        )
    wide = "" if estimate.upper <= limit else " (the interval reaches higher because the sample is small)"
    return f"; the {word} allows at most {most}{wide}"


def _understated(evidence: Evidence) -> str:
    """Attacks without references find far less than there is; where some can be trained, the sentence offers it."""
    if not evidence.attacks or evidence.provenance.get("references") != 0:
        return ""
    offer = next((f"; to train some, {way}" for way in WAYS if any(way in line for line in evidence.not_covered)), "")
    return f"No reference models were trained, so this understates what an attacker can find{offer}."


def _too_few(evidence: Evidence) -> str:
    """What can be said when there are too few outsiders for any of the rates."""
    if not evidence.attacks:
        return ""
    best = max(evidence.attacks, key=lambda item: item.auc.lower)
    area = f"{best.auc.value:.2f} ({best.auc.lower:.2f} to {best.auc.upper:.2f}, {_sure(evidence)})"
    return (
        f"With {best.nonmembers:,} outsiders the sample is too small for the rates of false accusations asked for; "
        f"the area under the curve of the attack {best.attack} is {area}, where 0.5 is guessing."
    )


def _sure(evidence: Evidence) -> str:
    count = len(evidence.attacks)
    best = f" for the best of {count} attacks" if count > 1 else ""
    return f"{100 * together(evidence):.6g} % confidence{best}"


def _judged(evidence: Evidence) -> str:
    shown, claim = evidence.lower, evidence.claim
    if claim is None:
        return "" if shown is None else f"No bound is claimed; epsilon is at least {_shown(evidence)}."
    if math.isinf(claim.bound.epsilon):
        return "The claim allows any epsilon: it promises nothing."
    epsilon = claim.bound.shown()
    if not evidence.demonstrations:
        return f"{_bounded(claim)}; it is untested, as no audit was made."
    if shown is None:
        return f"{_bounded(claim)}; the audit says nothing about it, as it assumes another kind of noise."
    if evidence.verdict is Verdict.REFUTED:
        digits = _apart(claim.bound, shown.bound)
        return (
            f"The claim epsilon <= {claim.bound.shown(digits)} is false: the audit shows at least "
            f"{_shown(evidence, digits)}. {reason(evidence)}"
        )
    if evidence.verdict is Verdict.UNINFORMATIVE:
        most = at_most(evidence.attainable)
        more = f"{' It showed that much, so the truth may be far above.' * at_ceiling(shown)}{_enough(evidence)}"
        return f"The audit could not have contradicted epsilon <= {epsilon}: it can show {most} at most.{more}"
    told = panel_words(evidence.caught)
    return f"{_bounded(claim)} and at least {_shown(evidence)} by demonstration.{told and ' ' + told}"


def _enough(evidence: Evidence) -> str:
    """How many runs could have contradicted a claim; nothing where that does not follow from those that were made.

    All guesses right among n runs show epsilon = log n less a constant, whatever the mechanism.
    """
    best, claim = max(evidence.demonstrations, key=lambda item: item.attainable), evidence.claim
    free = claim is not None and claim.event is None and best.bound.assumes is None
    if claim is None or not free or best.game not in COUNTED or not best.attainable > 0:
        return ""
    paid = evidence.provenance.get("pilot_runs", 0)
    runs = (best.planned + (paid if isinstance(paid, int) else 0)) * SPARE
    needed = math.log10(max(runs, 1)) + (claim.bound.epsilon - best.attainable) / math.log(10)
    if needed > MOST_DIGITS:
        return " No number of runs that anybody makes could: an audit of the event that was run needs far fewer."
    unit = 10 ** max(math.floor(needed) - 1, 0)
    return f" About {math.ceil(10**needed / unit) * unit:,} runs could."


def at_ceiling(shown: Demonstration) -> bool:
    """Whether a lower bound is the most that its audit could have shown: it then counts runs, not leakage."""
    return shown.bound.epsilon >= CEILING * shown.attainable > 0


def _shown(evidence: Evidence, digits: int = 3) -> str:
    """The lower bound, with what it assumes and whether it is the most that could have been shown.

    Two bounds beside each other are alike only if both hold for any mechanism, or both for the claim's family.
    """
    best = evidence.lower
    if best is None:
        return "0"
    words = []
    if best.bound.assumes is not None:
        free = max((item for item in evidence.demonstrations if item.bound.assumes is None), default=None, key=_epsilon)
        most = "" if free is None or at_ceiling(best) or not at_ceiling(free) else ", the limit of that reading"
        rest = "" if free is None else f"; {free.bound.shown(digits)} without that{most}"
        if free is None or free.bound.shown(digits) != best.bound.shown(digits):
            words.append(f"if the noise is of the claimed kind{rest}")
    if at_ceiling(best):
        words.append("the limit of this audit, so the truth may be far above")
    return best.bound.shown(digits) + (f" ({'; '.join(words)})" if words else "")


def _apart(claimed: Bound, shown: Bound) -> int:
    """So many digits that a refuted claim and what refutes it are written as different numbers."""
    alike = (digits for digits in range(3, 17) if float(shown.shown(digits)) > float(claimed.shown(digits)))
    return next(alike, 17)


def _epsilon(shown: Demonstration) -> float:
    return shown.bound.epsilon


def _bounded(claim: Claim) -> str:
    return f"Epsilon is at most {claim.bound.shown()} (delta {small(claim.bound.delta)}) by {_word(claim)}"


def _word(claim: Claim) -> str:
    """A claim is a proof only where an event stands behind it."""
    return "claim" if claim.event is None else "proof"
