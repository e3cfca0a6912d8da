"""The claim card: the fields without which an epsilon means nothing (NIST SP 800-226)."""

from __future__ import annotations

from markupsafe import Markup, escape

from ..core import Adjacency
from ..core.shown import at_most, small
from .node import Node
from .subject import Subject
from .words import ADJACENCIES, event_words, titled

# what a threat model must say, and the keys it may say it under; further keys are shown under their own name
THREAT = {
    "What is released": ("released",),
    "What the attacker sees": ("attacker", "attacker sees"),
    "Who is trusted": ("trust",),
    "Composition scope": ("composition",),
    "Tuning": ("tuning",),
}
RANDOMNESS = "randomness"
PROVEN, STATED = "proven from the event below", "stated; no event was given from which to prove it"
BARE = "the claim itself, as nothing here proves it"
NOT_STATED = Markup('<span class="quiet">not stated</span>')


def claim_rows(subject: Subject) -> list[tuple[str, Markup]]:
    """Term and description, in the order a reader needs them."""
    claim = subject.claim
    rows = [] if claim is None else [*_promise(subject, claim), *_mechanism(subject, claim)]
    return [
        *rows,
        *_threat(subject.node["threat"], subject.node["described"]),
        ("Source of randomness", _randomness(subject)),
    ]


def _promise(subject: Subject, claim: Node) -> list[tuple[str, Markup]]:
    bound = claim["bound"]
    epsilon, delta = bound["epsilon"].number(at_most), bound["delta"].number(small)
    mark, words = ("if", PROVEN) if subject.proven else ("unless", STATED)
    kind = Markup('<span data-{}="{}">{}</span>').format(mark, claim["event"].path, words)
    adjacency = Markup(ADJACENCIES[Adjacency.of(bound["adjacency"].value)]).format(unit=bound["unit"].text())
    return [
        ("Promise", Markup("epsilon at most <strong>{}</strong> at delta {}: {}").format(epsilon, delta, kind)),
        ("Unit of privacy", Markup("one {}").format(bound["unit"].text())),
        ("Adjacency", Markup("{}: {}").format(bound["adjacency"].text(), adjacency)),
        ("How it was computed", bound["method"].text()),
        ("What must be believed", _believed(claim, proven=subject.proven)),
    ]


def _mechanism(subject: Subject, claim: Node) -> list[tuple[str, Markup]]:
    event = subject.evidence.claim.event if subject.evidence.claim else None
    if event is None:
        return [("Mechanism and sampling", NOT_STATED)]
    words, source = event_words(event, claim["event"]), claim["event"].source()
    shown = Markup("{}<details><summary>The event as JSON</summary>{}</details>").format(words, source)
    return [("Mechanism and sampling", shown)]


def _threat(threat: Node, described: Node) -> list[tuple[str, Markup]]:
    """Rows of the threat model. What the evidence leaves open is taken from the owner's description."""
    stated = {title: [threat[key].text() for key in keys if key in threat.value] for title, keys in THREAT.items()}
    for title, keys in THREAT.items():
        stated[title] = stated[title] or [described[key].text() for key in keys if key in described.value]
    known = [(title, Markup("; ").join(texts) if texts else NOT_STATED) for title, texts in stated.items()]
    taken = {key for keys in THREAT.values() for key in keys}
    others = [(titled(key), value.text()) for key, value in threat.items() if key not in taken]
    return known + others


def _randomness(subject: Subject) -> Markup:
    provenance = subject.node["provenance"]
    return provenance[RANDOMNESS].show() if RANDOMNESS in provenance.value else NOT_STATED


def _believed(claim: Node, *, proven: bool) -> Markup:
    """What a bound assumes; a claim without an event is itself to be believed."""
    lines = [item.text() for item in claim["bound"]["assumptions"]]
    if not proven:
        lines.insert(0, Markup('<span data-unless="{}">{}</span>').format(claim["event"].path, BARE))
    if not lines:
        return escape("nothing beyond the event and this card")
    return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(line) for line in lines))
