"""The certificate on page one: data, people, owner, purpose, verdict and one sentence.

Every entry is a field of the evidence. What nobody said is "not stated"; nothing is guessed on an owner's behalf.
"""

from __future__ import annotations

from markupsafe import Markup

from ..core.fault import panel_words
from .card import NOT_STATED
from .node import count
from .subject import Subject

SIGN_OFF = ("Decision", "Conditions", "Name and role", "Date and signature")
STATED = {
    "Owner": "owner",
    "Purpose": "purpose",
    "Data": "data",
    "People": "people",
    "Who can reach the model": "access",
    "Earlier releases from these data": "earlier releases",
    "How settings were chosen (tuning)": "tuning",
}
"""What only the owner can say: an entry's name, and its key in `described`."""
RECORDS = ("records", "public_size")
"""Where provenance tells how many records were trained on: the number itself, else the size that the plan states."""


def title(subject: Subject) -> Markup:
    """What the page is about: the title that its owner gave, else the name of the evidence."""
    described = subject.node["described"]
    return described["title"].text() if "title" in described.value else subject.name


def plain_title(subject: Subject) -> str:
    """The title as plain text."""
    return subject.evidence.described.get("title", subject.label)


def facts(subject: Subject) -> list[tuple[str, Markup]]:
    """Name and value of every entry, in the order in which an officer asks."""
    described = subject.node["described"]
    said = {name: described[key].text() if key in described.value else NOT_STATED for name, key in STATED.items()}
    records = {"Records": _records(subject), "Unit of privacy": _unit(subject)}
    made = {"Date of the evidence": _made(subject)}
    return list({"Model": subject.name, **said, **records, **made}.items())


def told(subject: Subject) -> tuple[str, str, str]:
    """The sentence without and with only its part on what the audit would have caught; and that part by itself where
    the sentence has none.
    """
    whole, panel = subject.evidence.sentence, panel_words(subject.evidence.caught)
    if panel and whole.endswith(panel):
        return whole.removesuffix(panel), panel, ""
    return whole, "", panel


def _records(subject: Subject) -> Markup:
    """How many records were trained on, and of how many users where these are protected."""
    provenance, claim = subject.node["provenance"], subject.claim
    key = next((key for key in RECORDS if isinstance(provenance.value.get(key), int)), None)
    if key is None:
        return NOT_STATED
    told = provenance[key].number(count)
    if key == "public_size" and claim is not None and claim["bound"]["unit"].value != "record":
        return Markup("of {} {}s").format(told, claim["bound"]["unit"].text())  # a plan counts what it protects
    users = isinstance(provenance.value.get("users"), int)
    return Markup("{} of {} users").format(told, provenance["users"].number(count)) if users else told


def _unit(subject: Subject) -> Markup:
    claim = subject.claim
    if claim is None:
        return Markup('<span class="quiet" data-unless="{}">none, as nothing is claimed</span>').format(
            subject.node["claim"].path
        )
    return Markup("one {}").format(claim["bound"]["unit"].text())


def _made(subject: Subject) -> Markup:
    """The day alone: the time of day stands in the provenance."""
    provenance = subject.node["provenance"]
    if "made" not in provenance.value:
        return NOT_STATED
    made = provenance["made"]
    day = str(made.value)[:10]
    return Markup('<time data-begins="{}" datetime="{}">{}</time>').format(made.path, day, day)
