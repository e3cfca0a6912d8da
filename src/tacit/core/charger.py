"""What a mechanism sees of a budget: a place to pay before it draws, which may also keep the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .adjacency import Adjacency
from .bound import Bound
from .events import Event
from .json_text import Json


@dataclass(frozen=True)
class Receipt:
    """Proof of a charge: the number of the ledger's entry, the head of its hash chain, and the budget after it.

    `spent` is the ledger's proven bound after this charge; `remaining` is the largest pure epsilon still accepted.
    """

    seq: int
    head: str
    spent: Bound
    remaining: float

    def to_json(self) -> Json:
        return {"seq": self.seq, "head": self.head, "spent": self.spent.to_json(), "remaining": self.remaining}

    @classmethod
    def from_json(cls, data: Json) -> Receipt:
        spent = Bound.from_json(data["spent"])
        return cls(int(data["seq"]), str(data["head"]), spent, float(data["remaining"]))


class Charger(Protocol):
    """Charge, then draw. The same key never pays twice; a charge that does not fit raises BudgetExceeded.

    A key that was charged for another event raises Mismatch.
    """

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> Receipt: ...


@runtime_checkable
class Scoped(Protocol):
    """A Charger that says for which neighbours its budget counts: a release for other neighbours is refused.

    It may be told for which the event counts, and then converts the charge by a theorem or refuses it.
    """

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def unit(self) -> str: ...

    def charge(
        self,
        event: Event,
        *,
        key: str,
        purpose: str = "",
        analyst: str = "",
        adjacency: Adjacency | str | None = None,
        unit: str | None = None,
    ) -> Receipt: ...


@runtime_checkable
class AnswerStore(Protocol):
    """A Charger that also keeps answers, so that a retry returns the first one bit for bit (soundness rule 9).

    The order is charge, draw, `store`, return. An answer is a JSON text (`Answer.to_json`), and is opaque to the store.
    """

    def stored(self, key: str) -> str | None:
        """The answer that was stored for this key; None when the key was charged and nothing stored, or not charged."""
        ...

    def store(self, key: str, answer: str) -> str:
        """Keep the answer of a key that was charged, and return the answer that is kept.

        The first answer stays: of two callers that race, both get the text of the one that came first.
        """
        ...


@runtime_checkable
class Fence(Protocol):
    """A Charger that also numbers the continuations of a run, so that one charge pays for one run (soundness rule 25).

    A saved state can be copied and taken up twice. Steps that are done again exactly as before release nothing new;
    steps done otherwise do. So the ledger keeps three things for every key that was charged: the latest number it gave
    out, the `mark` of every reported step, and whether the run has ended. A mark is a hash of the released parameters.
    """

    def fence(self, key: str, *, number: int | None, step: int, mark: str, last: bool = False) -> int:
        """Report that the run `key` is at `step` with parameters of this `mark`; returns the caller's number.

        `number` None asks for a new number, larger than all before: a run begins or goes on. Raises Mismatch when the
        run has ended, when a larger number was given out since, or when another mark was reported for this step.
        `last` ends the run.
        """
        ...
