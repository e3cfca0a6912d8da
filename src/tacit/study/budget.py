"""A run's part in a ledger: who pays for what, and what the page says about other releases of the same data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..core.adjacency import Adjacency
from ..core.charger import Receipt
from ..core.errors import BadInput
from ..core.event import Event
from ..core.evidence import Evidence
from ..core.json_text import Json
from ..core.shown import remains, small
from .run_file import RunFile

if TYPE_CHECKING:
    from ..ledger import Ledger


@dataclass
class Spender:
    """A ledger as one run sees it: it pays in the name of this `analyst`, for this `purpose`."""

    ledger: Ledger
    purpose: str = ""
    analyst: str = ""
    receipt: Receipt | None = field(default=None)

    @classmethod
    def of(cls, file: RunFile, url: str | None = None) -> Spender | None:
        """From [ledger] of a run file, or a URL that was given instead; None where there is neither.

        A URL that is empty, or a [ledger] without one, is refused: whoever wrote it wants the run to be charged.
        """
        table = file.get("ledger")
        place = table.get("url") if url is None else url
        if place is None:
            if "ledger" in file.sections:
                raise BadInput(f"{file.path.name} needs `url` in [ledger].")
            return None
        from ..ledger import Ledger

        return cls(Ledger(str(place)), str(table.get("purpose", "")), str(table.get("analyst", "")))

    @property
    def adjacency(self) -> Adjacency:
        return self.ledger.adjacency

    @property
    def unit(self) -> str:
        return self.ledger.unit

    def charge(
        self,
        event: Event,
        *,
        key: str,
        purpose: str = "",
        analyst: str = "",
        adjacency: Adjacency | str | None = None,
        unit: str | None = None,
    ) -> Receipt:
        self.receipt = self.ledger.charge(
            event,
            key=key,
            purpose=self.purpose or purpose,
            analyst=self.analyst or analyst,
            adjacency=adjacency,
            unit=unit,
        )
        return self.receipt

    def fence(self, key: str, *, number: int | None, step: int, mark: str, last: bool = False) -> int:
        return self.ledger.fence(key, number=number, step=step, mark=mark, last=last)

    def told(self, evidence: Evidence) -> Evidence:
        """Evidence that names the charge, the earlier releases and what remains."""
        if self.receipt is None:
            return evidence
        bound, before = self.receipt.spent, [e for e in self.ledger.entries() if e.seq < self.receipt.seq]
        together = f"all charges of one ledger together: epsilon at most {bound.shown(4)}"
        threat = {
            **evidence.threat,
            "composition": f"{together} at delta {small(bound.delta)}, one {bound.unit}",
            "earlier releases": _earlier([(e.purpose, e.event) for e in before]),
            "what remains": f"epsilon {remains(self.receipt.remaining)} for later releases, after this one",
        }
        named = {"ledger_entry": self.receipt.seq, "ledger_head": self.receipt.head}
        return evidence.with_(threat=threat, provenance={**evidence.provenance, **named})

    def to_json(self) -> Json | None:
        return None if self.receipt is None else self.receipt.to_json()


def _earlier(releases: list[tuple[str, Event]]) -> str:
    """A phrase that says how many releases were charged before, and of which kinds."""
    if not releases:
        return "none was charged to the ledger before this one"
    kinds: dict[str, int] = {}
    for purpose, event in releases:
        name = f"{type(event).__name__}{f' for {purpose}' if purpose else ''}"
        kinds[name] = kinds.get(name, 0) + 1
    shown = ", ".join(f"{count} x {name}" for name, count in list(kinds.items())[:8])
    return f"{len(releases)} charged to the ledger before: {shown}{' and others' if len(kinds) > 8 else ''}"
