"""What gave a refuted claim away, in words: what was seen, what usually causes it, and what would be right."""

from __future__ import annotations

from .evidence import Evidence, Verdict

RELEASED = {
    "grain": (
        "the released numbers are finer on one data set than on the other, as noise was added in floating point",
        "Round the value and its noise to one grid, as discrete noise does",
    ),
    "exact": (
        "some released values are far more frequent with one data set than with the other: noise is missing, too "
        "small, or its range ends",
        "Draw noise that makes every value possible on both data sets",
    ),
    "value": (
        "the releases on the two data sets lie too far apart: noise is missing, or too small for what one record can "
        "change",
        "Scale the noise to the largest change that one record can make",
    ),
    "histogram": (
        "the release is distributed differently on the two data sets: noise is missing, too small for what one record "
        "can change, or scaled by the data",
        "Scale the noise to the largest change that one record can make, by public numbers",
    ),
    "distance": (
        "the release varies differently on the two data sets: its noise depends on the data",
        "Take noise, ranges and sensitivity from public numbers",
    ),
}
KINDS = {"grain": "grain", "exact": "exact", "value": "value", "projection": "value", "histogram": "histogram"}
"""Which words go with a feature of a release, by how its name begins; others look at how much it varies."""
CONTRIBUTION = "Clip every record's gradient by itself, scale the noise to that norm, and sample as the claim says"
PUBLIC = "Use public ranges, means and lists, or estimate them privately and count their cost"
TRAINED = {
    "contrary": (
        "one record outside of the data's range changed {what} more than the claim allows: there is too little noise, "
        "gradients are not clipped one by one, records are sampled otherwise than accounted, or ranges, means or "
        "selected features were read off the private data",
        f"{CONTRIBUTION}; take ranges from public facts",
    ),
    "outlier": (
        "one record with extreme values changed {what}: scales, means or selected features were read off the private "
        "data, or contributions are not clipped",
        f"{PUBLIC}; clip every record's contribution",
    ),
    "missing": (
        "one record with missing values changed {what}: values to fill in, or records to leave out, were read off the "
        "private data",
        PUBLIC,
    ),
    "rare": (
        "one record with categories of its own changed {what}: a vocabulary was read off the private data",
        "Use a public list of categories, with one place for all others",
    ),
    "duplicate": (
        "a copy of a record changed {what}: duplicates are removed or counted on the private data, or one record "
        "counts for more than the claim allows",
        CONTRIBUTION,
    ),
    "near-duplicates": (
        "one record near to many others changed {what}: neighbours are counted on the private data, or one record "
        "counts for more than the claim allows",
        CONTRIBUTION,
    ),
}
PLAIN = (
    "{what} tells whether the canary was learned more clearly than the claim allows: there is too little noise, "
    "gradients are not clipped one by one, records are sampled otherwise than accounted, or ranges were read off the "
    "data",
    f"{CONTRIBUTION}; take ranges from public facts",
)
ALIKE = "answers_of_runs"
REPEATED = "the same in all runs on the same data"
"""What provenance says of runs whose models all answer alike."""
UNMOVED = (
    "all runs on the same data gave exactly the same answers: there is no noise, or every run draws the same numbers "
    "from a fixed seed",
    "Add noise, and draw it afresh in every run from the operating system's entropy",
)
OWN = "the canary's own margin"


def reason(evidence: Evidence) -> str:
    """What gave the claim away and what would be right; nothing unless the claim is refuted."""
    shown = evidence.lower
    if shown is None or evidence.verdict is not Verdict.REFUTED:
        return ""
    if shown.game == "mechanism":
        kind = next((use for start, use in KINDS.items() if shown.canary.startswith(start)), "distance")
        seen, right = RELEASED[kind]
        return f"What gave it away: {seen}. What would be right: {right[0].lower()}{right[1:]}."
    seen, right = UNMOVED if evidence.provenance.get(ALIKE) == REPEATED else TRAINED.get(shown.canary, PLAIN)
    what = _what(str(evidence.provenance.get("seen_by", OWN)), shown.canary in TRAINED)
    told = seen.format(what=what)
    return f"What gave it away: {told}. What would be right: {right[0].lower()}{right[1:]}."


def _what(seen_by: str, changed: bool) -> str:
    """What the model showed: its answer on the canary, or on other records."""
    own = seen_by.startswith(("the canary", "how far the canary", "how near the canary"))
    if "categories" in seen_by:
        return "which categories the model knows"
    if "no answer" in seen_by:
        return "which records the model answers"
    if changed:
        return "what the model says of it" if own else "what the model says of other records"
    return "the model's answer on the canary" if own else "the model's answer on other records"
