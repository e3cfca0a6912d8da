"""Where every word of a page comes from: a field of the evidence, a function of it, or the list of fixed words."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tacit.core import Adjacency, Evidence
from tacit.core.fault import panel_words
from tacit.core.sentence import strongest
from tacit.core.shown import at_least, at_most
from tacit.reports.assessment import questions
from tacit.reports.public import left_out, public_version
from tacit.reports.subject import subjects_of
from tacit.reports.words import ADJACENCIES, finding, verdict_title, why

FIXED = Path(__file__).parent / "golden" / "page_words.txt"
"""What any page may say of any model. A sentence that holds for some models only does not belong there."""
MARKS = ("data-path", "data-said", "data-verdict", "data-begins", "data-guessing", "data-if", "data-unless")
VOID = frozenset({"meta", "br", "hr", "input", "link", "img"})
SILENT = frozenset({"head", "svg", "script", "style"})


def at(root: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        root = root[int(step)] if isinstance(root, list) else root[step]
    return root


def right(item: dict[str, str | None], root: Any) -> bool:
    """Whether a shown value is the stored one, and reads as what it is."""
    stored, text = at(root, str(item["path"])), str(item["text"])
    if item["value"] is None:
        return text == stored if isinstance(stored, str) else json.loads(text) == stored
    return json.loads(item["value"]) == stored and reads(text, stored)


FRACTION = re.compile(r"\d+\.\d+")


def reads(text: str, stored: float | bool | str | None) -> bool:
    """The text, read back, is the stored number to three significant digits, or a bound that was rounded to its safe
    side; in words, every fraction to four."""
    if isinstance(stored, str):
        pairs = zip(FRACTION.findall(text), FRACTION.findall(stored), strict=False)
        near = all(math.isclose(float(mine), float(other), rel_tol=0.00051) for mine, other in pairs)
        return near and FRACTION.sub("#", text) == FRACTION.sub("#", stored)
    if stored is None:
        return text == "no finite value"
    if isinstance(stored, bool):
        return text in (("yes", "passed") if stored else ("no", "failed"))
    scale, written = 100 if text.endswith(" %") else 1, text.removesuffix(" %").replace(",", "")
    bound = written in (at_most(scale * stored), at_least(scale * stored))
    return bound or math.isclose(float(written) / scale, stored, rel_tol=0.0051, abs_tol=1e-12)


@dataclass
class Element:
    """An open element: its attributes and all text inside of it."""

    tag: str
    attributes: dict[str, str | None]
    text: list[str] = field(default_factory=list)


class Traces(HTMLParser):
    """Collects marked elements with their text, and text that no mark explains."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[Element] = []
        self.marked: list[Element] = []
        self.loose: list[str] = []
        self.dots: list[dict[str, str | None]] = []
        self.bars: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if "data-found" in attributes:
            self.dots.append(attributes)
        if "data-bars" in attributes:
            self.bars.append(attributes)
        if tag not in VOID:
            self.open.append(Element(tag, attributes))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        while self.open:
            done = self.open.pop()
            if any(mark in done.attributes for mark in MARKS):
                self.marked.append(done)
            if done.tag == tag:
                return

    def handle_data(self, data: str) -> None:
        if any(element.tag in SILENT for element in self.open):
            return
        for element in self.open:
            element.text.append(data)
        words = " ".join(data.split())
        if any(letter.isalpha() for letter in words) and not self._explained():
            self.loose.append(words)

    def _explained(self) -> bool:
        return any(mark in element.attributes for element in self.open for mark in MARKS)


@lru_cache(maxsize=32)
def _traces(html: str) -> Traces:
    return Traces(html)


def untraced(html: str, evidences: list[Evidence], *, public: bool = False) -> list[str]:
    """Everything on the page that this evidence does not say."""
    shown = [public_version(item) for item in evidences] if public else evidences
    root = [item.to_json() for item in shown]
    page = _traces(html)
    wrong = [_name(item) for item in page.marked if not _true(item, root, shown, public)]
    known = _known(evidences, shown, root, public)
    return wrong + [text for text in page.loose if text not in known] + _dots(page.dots, shown) + _bars(page.bars, root)


def _name(item: Element) -> str:
    return f"{next(item.attributes[mark] for mark in MARKS if mark in item.attributes)}: {''.join(item.text)}"


def _true(item: Element, root: Any, shown: list[Evidence], public: bool) -> bool:
    text, attributes = "".join(item.text), item.attributes
    try:
        if "data-path" in attributes:
            value = attributes.get("data-value")
            return right({"path": attributes["data-path"], "value": value, "text": text}, root)
        mark = next(mark for mark in MARKS if mark in attributes)
        place = str(attributes[mark])
        evidence, stored = shown[int(place.split("/")[1])], at(root, place)
    except (KeyError, IndexError, ValueError, TypeError):
        return False
    if mark == "data-said":
        return text in (why(evidence), finding(evidence, public=public), panel_words(evidence.caught))
    if mark == "data-verdict":
        return text == verdict_title(evidence) and stored in text.lower()
    if mark == "data-begins":
        return bool(text) and stored.startswith(text)
    if mark == "data-guessing":
        return bool(stored["lower"] <= stored["fpr"])
    return bool(stored) is (mark == "data-if")


def _known(evidences: list[Evidence], shown: list[Evidence], root: Any, public: bool) -> set[str]:
    subjects = subjects_of(shown)
    asked = [vars(row).values() for row in questions(subjects, public=public)]
    derived = [text for row in asked for text in row] + [subject.digest for subject in subjects]
    derived += [text for item in evidences for text in left_out(item)] + [verdict_title(item) for item in shown]
    derived += [text for item in shown if item.claim for text in _adjacency(item.claim.bound.adjacency)]
    return set(FIXED.read_text(encoding="utf-8").splitlines()) | set(derived) | _keys(root)


def _adjacency(adjacency: Adjacency) -> list[str]:
    """What two neighbours are, around the unit: the claim's own adjacency and no other."""
    before, after = ADJACENCIES[adjacency].split("{unit}")
    return [f": {before.strip()}", after.strip()]


def _keys(value: Any) -> set[str]:
    """Names of fields, as they are and as titles."""
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    if not isinstance(value, dict):
        return set()
    words = {key.replace("_", " ") for key in value}
    return words | {word[:1].upper() + word[1:] for word in words} | set().union(*map(_keys, value.values()))


def _dots(drawn: list[dict[str, str | None]], shown: list[Evidence]) -> list[str]:
    """Filled dots are a thousand times the strongest attack's rate."""
    counts = [best and str(round(1000 * (best[2].value or 0.0))) for best in map(strongest, shown)]
    true = {*filter(None, counts), "None"}
    return [f"dots: {item['data-found']}" for item in drawn if item["data-found"] not in true]


def _bars(drawn: list[dict[str, str | None]], root: Any) -> list[str]:
    """The bars of a histogram are its counts."""
    wrong = []
    for item in drawn:
        try:
            stored = at(root, str(item["data-at"]))
            told = "|".join(",".join(map(str, stored[side])) for side in ("inside", "outside"))
        except (KeyError, IndexError, TypeError):
            told = ""
        wrong += [] if told == item["data-bars"] else [f"bars: {item['data-bars']}"]
    return wrong
