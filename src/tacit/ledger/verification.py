"""Whether a ledger is whole: every hash, every sum and every limit, entry by entry."""

from __future__ import annotations

import json

from ..core.adjacency import Adjacency
from ..core.charger import Receipt
from ..core.errors import TacitError
from ..core.event import Event
from ..core.json_text import Json
from ..loss.dispatch import privacy_loss
from . import chain
from .amounts import Amount, read
from .asking import fits_alone
from .chain import START, Chain, problem
from .costs import costs
from .criteria import sound
from .entry import Kept
from .state import PLANNED, State, Terms
from .store import Head, Row

Found = tuple[int, str]
CUT = "entries are missing at the end, or the sums were changed"
OLDER = "the ledger is older than the receipt: it was rolled back"
OLDER_HERE = "it is older than it was a moment ago: it was rolled back"


def verified(rows: list[Row], head: Head, receipt: Receipt | Kept | None) -> Chain:
    """Replay all entries from the first; stop at the first that is not what it should be."""
    walk = Walk()
    for row in rows:
        if (wrong := walk.take(row)) is not None:
            return Chain(False, walk.seq, walk.head, *wrong)
        if receipt is not None and row.seq == receipt.seq and row.hash != receipt.head:
            return Chain(False, walk.seq, walk.head, row.seq, "the receipt names another entry at its place")
    if walk.state is None or (head.seq, head.hash, head.state) != (walk.seq, walk.head, walk.state.to_text()):
        return Chain(False, walk.seq, walk.head, walk.seq + 1, CUT)
    if receipt is not None and receipt.seq > walk.seq:
        return Chain(False, walk.seq, walk.head, walk.seq + 1, OLDER)
    return Chain(True, walk.seq, walk.head)


def kept(terms: Terms) -> bool:
    """Whether the terms of a ledger keep the budget that they name."""
    if not sound(terms.criteria, terms.epsilon, terms.delta):
        return False
    if terms.composition != PLANNED:
        return True
    found = privacy_loss(terms.whole, terms.adjacency).epsilon(terms.delta).upper
    stated = terms.planned_epsilon
    return stated is not None and found <= stated * (1 + 1e-6) and stated <= terms.epsilon


def started(rows: list[Row], terms: Terms) -> str:
    """What is wrong with the first two entries, which hold the terms and their hash; empty when nothing is."""
    before, wrong = START, ""
    for seq, row in enumerate(rows):
        wrong, before = wrong or problem(row, seq, before), row.hash
    if not wrong and not sound(terms.criteria, terms.epsilon, terms.delta):
        return "the first entry allows more than the budget that it names"
    return wrong


def ended(rows: list[Row], head: Head, seen: tuple[int, str]) -> str:
    """What is wrong with the last entry or the sums after it, beside what was seen before; empty when nothing is."""
    if head.seq < seen[0]:
        return OLDER_HERE
    if head.seq == seen[0] and head.hash != seen[1]:
        return f"entry {head.seq} was changed"
    if not rows or (rows[-1].seq, rows[-1].hash) != (head.seq, head.hash):
        return CUT
    before = rows[-2].hash if len(rows) > 1 else START
    if wrong := problem(rows[-1], head.seq, before):
        return wrong
    stated = json.loads(rows[-1].body).get("state")
    return CUT if stated is not None and stated != chain.digest(head.state) else ""


class Walk:
    """A walk along the chain: the number and hash of the last good entry, and the state after it."""

    def __init__(self) -> None:
        self.seq, self.head = -1, START
        self.terms: Terms | None = None
        self.state: State | None = None

    def take(self, row: Row) -> Found | None:
        """Go on by one entry; what is wrong with it, if anything is."""
        seq = self.seq + 1
        if wrong := problem(row, seq, self.head):
            return seq, wrong
        try:
            wrong = self._follow(json.loads(row.body))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, TacitError):
            wrong = f"entry {seq} cannot be read"
        if wrong:
            return seq, wrong
        self.seq, self.head = seq, row.hash
        return None

    def _follow(self, body: Json) -> str:
        if self.terms is None:
            if body["kind"] != "open":
                return "the first entry is not that of a ledger"
            self.terms = Terms.from_json(body)
            if not kept(self.terms):
                return "the first entry allows more than the budget that it names"
            self.state = State.start(self.terms).after(body)
            return ""
        assert self.state is not None
        before, self.state = self.state, self.state.after(body)
        if body["kind"] == "charge":
            if before.closed or not self.state.within(self.terms) or not self._earned(body):
                return f"entry {body['seq']} spends more than the budget"
            if any(amount is not None and amount < 0 for amount in read(body["cost"]).values()):
                return f"entry {body['seq']} has a negative cost"
            if read(body["total"]) != self.state.totals:
                return f"entry {body['seq']} states other sums than those of all charges"
            if wrong := self._cost(body):
                return wrong
        if body.get("state", digest := chain.digest(self.state.to_text())) != digest:
            return f"entry {body['seq']} states other sums than those of all entries"
        return ""

    def _earned(self, body: Json) -> bool:
        """Whether an entry that stands for the whole budget, or for a planned event, may do so."""
        assert self.terms is not None
        event, under = Event.from_json(body["event"]), Adjacency.of(body["adjacency"])
        if self.terms.composition == PLANNED:
            own = under is self.terms.adjacency and body["group"] == 1
            return own and self.terms.events[body["place"]] == event
        return not body["sole"] or fits_alone(event, under, int(body["group"]), self.terms)

    def _cost(self, body: Json) -> str:
        """Whether the event was charged what it costs by today's theorems: a smaller charge is a false one."""
        assert self.terms is not None
        try:
            event = Event.from_json(body["event"])
            today = costs(event, Adjacency.of(body["adjacency"]), int(body["group"]), self.terms.criteria)
        except TacitError:
            return f"entry {body['seq']} names an event whose cost is not known"
        stored = read(body["cost"])
        low = [name for name, amount in today.items() if _less(stored[name], amount)]
        return f"entry {body['seq']} was charged less than its event costs" if low else ""


def _less(stored: Amount, today: Amount) -> bool:
    """Whether a stored cost is below today's by more than rounding; None is infinite."""
    if stored is None:
        return False
    return today is None or stored * (10**6 + 1) < today * 10**6
