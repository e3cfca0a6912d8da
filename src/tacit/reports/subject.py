"""One evidence as the page sees it: the object for decisions, its JSON nodes for everything that is shown."""

from __future__ import annotations

import bisect
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..core import Evidence
from .node import Node


@dataclass(frozen=True)
class Subject:
    """The evidence at `index`, with the node of its JSON."""

    index: int
    evidence: Evidence
    node: Node
    shared: bool = False
    """Whether another model on the page has the same name."""

    @property
    def anchor(self) -> str:
        return f"model-{self.index + 1}"

    @property
    def label(self) -> str:
        """The name; with the model's number on the page where another has the same."""
        return f"{self.evidence.subject} ({self.index + 1})" if self.shared else self.evidence.subject

    @property
    def name(self) -> Markup:
        """The name for reading, with its pointer."""
        text = self.node["subject"].text()
        return Markup("{} <span data-fixed>({})</span>").format(text, self.index + 1) if self.shared else text

    @property
    def title(self) -> str:
        """A name that no other model on the page has."""
        return f"{self.index + 1}: {self.evidence.subject}"

    @property
    def proven(self) -> bool:
        """Whether the claim follows from an event, or was only stated as a pair."""
        return self.evidence.claim is not None and self.evidence.claim.event is not None

    @property
    def lower(self) -> Node | None:
        """The strongest lower bound that was demonstrated."""
        best = self.evidence.lower
        return None if best is None else self.node["demonstrations"][self.evidence.demonstrations.index(best)]

    @property
    def claim(self) -> Node | None:
        return None if self.evidence.claim is None else self.node["claim"]

    def allowed(self, fpr: float) -> Node | None:
        """The largest true-positive rate the claim allows at `fpr`: the next point of its frontier, so rounded up."""
        if self.evidence.claim is None or not self.evidence.claim.frontier:
            return None
        rates = [rate for rate, _ in self.evidence.claim.frontier]
        return self.node["claim"]["frontier"][min(bisect.bisect_left(rates, fpr), len(rates) - 1)][1]

    @property
    def digest(self) -> str:
        """SHA-256 of the file that `Evidence.save` writes."""
        text = json.dumps(self.evidence.to_json(), indent=1, allow_nan=False) + "\n"
        return hashlib.sha256(text.encode()).hexdigest()


def subjects_of(evidences: Sequence[Evidence]) -> list[Subject]:
    """The nodes of several evidences, rooted in one list."""
    root = Node([evidence.to_json() for evidence in evidences], "")
    times = Counter(evidence.subject for evidence in evidences)
    return [
        Subject(index, evidence, root[index], times[evidence.subject] > 1) for index, evidence in enumerate(evidences)
    ]
