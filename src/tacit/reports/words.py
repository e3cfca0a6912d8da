"""What a verdict, an adjacency and an event mean, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from markupsafe import Markup

from ..core import Adjacency, Event, Evidence, Verdict
from ..core.events import Compose, Gaussian, Laplace, NonPrivate, NoOp, Poisson, RandomizedResponse, Repeat
from ..core.fault import LIKELY
from ..core.shown import significant
from .node import Node, count, percent

VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.REFUTED: (
        "Refuted",
        "The audit shows more leakage than the claim allows. The claim is false, at the stated confidence.",
    ),
    Verdict.CONSISTENT: (
        "Consistent",
        "The audit could have contradicted the claim and did not. That supports the claim against the faults that it "
        "would probably have refuted. It is no proof.",
    ),
    Verdict.UNINFORMATIVE: (
        "Uninformative",
        "Nothing here can be relied on as a test of the claim.",
    ),
    Verdict.UNTESTED: (
        "Untested",
        "No audit has tested the claim.",
    ),
    Verdict.NO_CLAIM: (
        "No claim",
        "Nothing is promised about this model. What follows was measured, and an attacker may do better.",
    ),
}

UNKNOWN_POWER = (
    "The audit could have contradicted the claim and did not. How likely it was to see a fault is not known, so this "
    "says little for the claim."
)
"""Of a consistent claim where no chance of seeing a usual fault is known (soundness rule 30)."""

LITTLE_POWER = (
    "The audit could have contradicted the claim and did not. But there is no usual fault that it would probably have "
    "refuted, so this says little for the claim."
)
"""Of a consistent claim where chances are known, and none of them is certainly high (soundness rule 30)."""

ADJACENCIES: Mapping[Adjacency, str] = {
    Adjacency.ADD_REMOVE: "data sets that differ by one {unit} more or less are hard to tell apart",
    Adjacency.REPLACE: "data sets in which one {unit} was exchanged for another are hard to tell apart",
    Adjacency.ZERO_OUT: "data sets in which one {unit} was blanked out are hard to tell apart",
}

NOTHING_LEFT = "No claim is made about this model, and what was measured on its members is left out here."


def finding(evidence: Evidence, *, public: bool) -> str:
    """The evidence's sentence; where a public page has nothing left to say, it says that instead."""
    if public and evidence.claim is None and not evidence.demonstrations and all(c.passed for c in evidence.controls):
        return NOTHING_LEFT
    return evidence.sentence


def why(evidence: Evidence) -> str:
    """One sentence on what the verdict means for this evidence."""
    if evidence.verdict is Verdict.UNTESTED:
        return _untested(evidence)
    if evidence.verdict is Verdict.CONSISTENT:
        return _consistent(evidence)
    if evidence.verdict is not Verdict.UNINFORMATIVE:
        return VERDICTS[evidence.verdict][1]
    if not all(control.passed for control in evidence.controls):
        return "A control did not behave, so the experiment itself is in doubt and every other number with it."
    if evidence.lower is None:
        return "The audit assumes another kind of noise than the claim, so it says nothing about the claim."
    return "Even a perfect attacker could not have contradicted the claim with so few runs. More runs are needed."


def _consistent(evidence: Evidence) -> str:
    """A claim is supported only against faults that the audit would probably have refuted."""
    chances = [fault.chance for fault in evidence.caught if fault.chance is not None]
    if not chances:
        return UNKNOWN_POWER
    likely = any(chance.lower >= LIKELY for chance in chances)
    return VERDICTS[Verdict.CONSISTENT][1] if likely else LITTLE_POWER


def _untested(evidence: Evidence) -> str:
    """A proof and a mere statement are both untested, and are not alike."""
    if evidence.claim is not None and evidence.claim.event is not None:
        return "The bound is proven from what the training is said to do. No audit has tested the claim."
    return "Somebody states this bound, without a proof. No audit has tested the claim."


def verdict_title(evidence: Evidence) -> str:
    """The verdict in one or two words."""
    if evidence.verdict is Verdict.UNTESTED and evidence.claim is not None:
        return "Claimed, untested" if evidence.claim.event is None else "Proven, untested"
    return VERDICTS[evidence.verdict][0]


def titled(name: str) -> str:
    """A key as a title; what is in capitals stays so."""
    return name[:1].upper() + name[1:].replace("_", " ")


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict that a reader of several must not miss."""
    order = (Verdict.REFUTED, Verdict.UNINFORMATIVE, Verdict.UNTESTED, Verdict.CONSISTENT, Verdict.NO_CLAIM)
    return min(verdicts, key=order.index)


@singledispatch
def event_words(event: Event, node: Node) -> Markup:
    """An event in words; one that has no words of its own is named with its parameters."""
    parts = [
        Markup("{} {}").format(key.replace("_", " "), value.show())
        for key, value in node.items()
        if key not in ("schema", "type") and not isinstance(value.value, dict | list)
    ]
    inner = [event_words(Event.from_json(value.value), value) for _, value in node.items() if _is_event(value)]
    named = Markup("{}{}").format(node["type"].text(), Markup(" with ") + Markup(", ").join(parts) if parts else "")
    return Markup(" of ").join([named, *inner])


@event_words.register
def _(event: Gaussian, node: Node) -> Markup:
    return Markup("Gaussian noise of {} times the largest contribution (Euclidean norm)").format(_noise(node))


@event_words.register
def _(event: Laplace, node: Node) -> Markup:
    return Markup("Laplace noise of {} times the largest contribution (sum of absolute values)").format(_noise(node))


@event_words.register
def _(event: RandomizedResponse, node: Node) -> Markup:
    return Markup("randomized response over {} categories with epsilon {}").format(
        node["categories"].number(count), node["epsilon"].number(significant)
    )


@event_words.register
def _(event: NonPrivate, node: Node) -> Markup:
    return Markup("a release without protection")


@event_words.register
def _(event: NoOp, node: Node) -> Markup:
    return Markup("nothing is released")


@event_words.register
def _(event: Poisson, node: Node) -> Markup:
    inner = event_words(event.event, node["event"])
    words = "{}, on a sample that takes each unit of privacy independently with probability {} (Poisson sampling)"
    return Markup(words).format(inner, node["rate"].number(percent))


@event_words.register
def _(event: Repeat, node: Node) -> Markup:
    return Markup("{} steps, each with fresh randomness: {}").format(
        node["steps"].number(count), event_words(event.event, node["event"])
    )


@event_words.register
def _(event: Compose, node: Node) -> Markup:
    parts = [event_words(part, place) for part, place in zip(event.events, node["events"], strict=True)]
    return Markup("; then ").join(parts)


def _noise(node: Node) -> Markup:
    return node["noise_multiplier"].number(significant)


def _is_event(node: Node) -> bool:
    return isinstance(node.value, dict) and "type" in node.value
