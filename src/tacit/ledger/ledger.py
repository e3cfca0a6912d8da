"""A budget of privacy that outlives its process: charges that are on disk before anything is released."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound, Side
from ..core.charger import Receipt
from ..core.errors import BadInput, BudgetExceeded, Mismatch, NotFinished, TacitError
from ..core.event import Event
from ..core.json_text import Json
from ..core.shown import remains
from ..loss.conditions import conditions
from . import chain, fences
from .amounts import read, written
from .asking import asked, fits_alone, room, stated_left
from .chain import Chain
from .costs import costs, neighbours
from .criteria import STATED_SHARE, accepts
from .database import sa
from .entry import Entry, check_depth, check_label, entry_of, new_terms, read_receipt, terms_of, time_after
from .planned import place_of
from .reading import so_far
from .state import ADAPTIVE, PLANNED, State, Terms
from .store import WAIT, Row, Store, opened, paid_for
from .verification import ended, started, verified

T = TypeVar("T")
METHODS = {
    ADAPTIVE: "adaptive filter: plain sum, Renyi orders, Gaussian privacy, with delta shared",
    PLANNED: "privacy-loss distribution of the planned events",
}
ALL_CHARGED = "every release from these data was charged to this ledger before it was made"


class Ledger:
    r"""A budget (epsilon, delta) for one data set, kept in a SQLite file or a PostgreSQL database.

    Guarantee: all releases that were charged before they were made are together (epsilon, delta)-DP for one `unit`
    under `adjacency`, though every event may be chosen after seeing all earlier answers (docs/proofs/ledger.md).
    Caller ensures: every release from these data is charged here first, under its own key.
    """

    def __init__(self, url: str | os.PathLike[str], *, wait: float = WAIT) -> None:
        self._store: Store = opened(url, wait=wait)
        self._store.check()
        with self._store.reading() as connection:
            first = self._store.at(connection, seq=0)
        if first is None:
            raise BadInput(f"The ledger in {self._store.shown} lost its first entry.", fix="Restore it from a copy.")
        self.terms = terms_of(first, self._store)
        self._seen: tuple[int, str] = (-1, "")
        self._trusted = False

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float,
        unit: str,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        composition: str = ADAPTIVE,
        events: Iterable[Event] = (),
        stated: float = STATED_SHARE,
    ) -> Ledger:
        """Make a ledger; everything that decides later is fixed here.

        composition: "adaptive" (any events, chosen as one goes) or "planned" (exactly `events`, composed exactly).
        stated: the part of delta that is set aside for events that state a delta, in an adaptive ledger.
        """
        terms = new_terms(epsilon, delta, unit, Adjacency.of(adjacency), composition, tuple(events), stated)
        body = {"kind": "open", "seq": 0, "time": chain.now(), "id": os.urandom(16).hex(), **terms.to_json()}
        state = State.start(terms).after(body)
        opened(url).make(chain.row(chain.START, body), state.to_text())
        return cls(url)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that the budget counts."""
        return self.terms.adjacency

    @property
    def unit(self) -> str:
        """The unit of privacy that this budget protects, such as "record" or "user"."""
        return self.terms.unit

    @property
    def url(self) -> str:
        """The ledger's place, without a password."""
        return self._store.shown

    def charge(
        self,
        event: Event,
        *,
        key: str,
        purpose: str = "",
        analyst: str = "",
        adjacency: Adjacency | str | None = None,
        unit: str | None = None,
        group: int = 1,
    ) -> Receipt:
        """Pay for `event` before it is released; the receipt comes when the charge is on disk.

        The same key and event are charged once, however often they come; the same key with another event raises
        Mismatch. A charge that does not fit raises BudgetExceeded, and nothing is recorded. `adjacency` and `unit` say
        for whom the event counts, where that is not the ledger's own: it is converted by a theorem or refused.
        `group`: how many of the event's records one unit of the ledger has at most.
        """
        check_depth(event)
        check_label("key", key, least=1)
        check_label("purpose", purpose)
        check_label("analyst", analyst)
        self._check_unit(unit, check.whole("group", group))
        given = None if adjacency is None else Adjacency.of(adjacency)
        under, size = neighbours(event, given, self.adjacency, group)
        body: Json = {
            "kind": "charge",
            "key": key,
            "purpose": purpose,
            "analyst": analyst,
            "event": event.to_json(),
        }
        body |= {"adjacency": under.value, "group": size, "place": None, "sole": False}
        body |= {"cost": written(costs(event, under, size, self.terms.criteria)), "conditions": conditions(event)}
        alone = self.terms.composition == ADAPTIVE and fits_alone(event, under, size, self.terms)
        return self._charged(event, body, alone)

    def allot(self, epsilon: float, *, analyst: str = "", purpose: str = "") -> None:
        """Limit an analyst, a purpose, or both together, to a part of the budget, counted from now on."""
        epsilon = check.positive("epsilon", epsilon)
        check_label("analyst", analyst)
        check_label("purpose", purpose)
        if not analyst and not purpose:
            raise BadInput("An allotment is for an analyst, a purpose, or both.")
        if epsilon > self.terms.epsilon:
            raise BadInput(f"An allotment is at most the budget, {self.terms.epsilon:g}.")
        if self.terms.composition == PLANNED:
            raise BadInput("A planned ledger has no allotments: its events are fixed.")
        with self._store.writing() as connection:
            head, state = self._state(connection)
            body = {"kind": "allot", "analyst": analyst, "purpose": purpose, "epsilon": epsilon}
            self._write(connection, head, state, body)

    def stored(self, key: str) -> str | None:
        """The answer that was stored for a key; None when there is none."""
        check_label("key", key, least=1)
        with paid_for(), self._store.reading() as connection:
            row = self._kept(connection, f"answer {key}")
        return None if row is None else str(self._body(row)["answer"])

    def store(self, key: str, answer: str) -> str:
        """Keep the answer of a key that was charged, and return the one that is kept: the first stays."""
        check_label("key", key, least=1)
        if not isinstance(answer, str):
            raise BadInput("An answer is stored as text.")
        with paid_for(), self._store.writing() as connection:
            if (row := self._kept(connection, f"answer {key}")) is not None:
                return str(self._body(row)["answer"])
            if self._store.at(connection, slot=f"charge {key}") is None:
                raise Mismatch("No charge was made under this key, so no answer can be stored for it.")
            head, state = self._state(connection)
            self._write(connection, head, state, {"kind": "answer", "key": key, "answer": answer})
        return answer

    def fence(self, key: str, *, number: int | None, step: int, mark: str, last: bool = False) -> int:
        """Number the continuations of a run that was charged under `key` (see `tacit.core.charger.Fence`)."""
        check_label("key", key, least=1)
        with paid_for(), self._store.writing() as connection:
            if self._store.at(connection, slot=f"charge {key}") is None:
                raise Mismatch("No charge was made for this run.")
            before = [self._body(row) for row in self._store.named(connection, "fence", key)]
            report = self._read(lambda: fences.report(before, number, step, mark, last))
            if report is not None:
                head, state = self._state(connection)
                self._write(connection, head, state, {"kind": "fence", "key": key, **report})
            return fences.latest(before, report)

    def spent(self) -> Bound:
        """What is proven of all releases so far: nothing before the first charge, the whole limit after it.

        Events are chosen as one goes, so no smaller bound is proven (soundness rule 2); `so_far` is a plain reading.
        """
        return self._bound(self._now()[1])

    def so_far(self) -> float:
        """What the charges so far would cost at most, at the ledger's delta, if all had been fixed beforehand.

        It overstates where events of different kinds are mixed: it is the best of a few Renyi orders then. Not a claim:
        events that are chosen by looking at earlier answers may lose more, up to `spent`.
        """
        return so_far(self._now()[1], self.terms)

    def remaining(self, *, analyst: str | None = None, purpose: str | None = None) -> float:
        """The largest pure epsilon that would still be accepted, from this analyst for this purpose if given."""
        state = self._now()[1]
        return _remaining(state, self.terms, analyst or "", purpose or "")

    def allotments(self) -> list[Json]:
        """Who may use how much, and what remains of it."""
        state = self._now()[1]
        return [
            {"analyst": a.analyst, "purpose": a.purpose, "epsilon": a.epsilon, "remaining": a.remaining(self.terms)}
            for a in state.allotments
        ]

    def entries(self) -> list[Entry]:
        """All charges, in their order."""
        with self._store.reading() as connection:
            rows = self._store.rows(connection)
        return self._read(lambda: [entry_of(self._body(row)) for row in rows if row.kind == "charge"])

    def rows(self) -> list[Json]:
        """The whole chain, entry by entry: what is hashed, and its hash."""
        with self._store.reading() as connection:
            rows = self._store.rows(connection)
        return [{"hash": row.hash, "body": row.body} for row in rows]

    def head(self) -> str:
        """The hash of the last entry."""
        return str(self._now()[0].hash)

    def verify(self, receipt: Receipt | dict[str, object] | None = None) -> Chain:
        """Go through the whole chain: hashes, sums, limits; with a receipt, that its entry is still there.

        receipt: a Receipt, or the JSON of one, of an answer, of evidence of a charged run, or of an export.
        """
        proof = read_receipt(receipt)
        with self._store.reading() as connection:
            rows, head = self._store.rows(connection), self._store.head(connection)
        return verified(rows, head, proof)

    def close(self) -> None:
        """Let go of the connection; it is opened again when needed."""
        self._store.close()

    def __repr__(self) -> str:
        terms, left = self.terms, remains(self.remaining())
        return f"Ledger({self.url}: epsilon {terms.epsilon:g}, delta {terms.delta:g}, one {terms.unit}, {left} remains)"

    def _repr_html_(self) -> str:
        from .shown import page

        return page(self)

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[str, float]]:
        """A copy, and a ledger that is sent to another process, is the same place opened again; no password goes."""
        return _reopened, (self._store.place, self._store.wait)

    # inside

    def _check_unit(self, unit: str | None, group: int) -> None:
        if unit is not None and unit != self.unit and group == 1:
            raise Mismatch(
                f"The charge counts for one {unit[:60]}, and the ledger for one {self.unit}.",
                fix=f"Open a ledger for unit {unit[:60]!r}; in Python, group= says how many one {self.unit} may have.",
            )

    def _same(self, row: Row, body: dict[str, object]) -> Receipt:
        old = self._body(row)
        if self._read(lambda: any(old[name] != body[name] for name in ("event", "adjacency", "group"))):
            raise Mismatch(
                "This key was charged for another event.",
                fix="Give every release a key of its own; a retry keeps its key.",
            )
        return self._receipt(row, replace(self._now()[1], totals=self._read(lambda: read(old["total"]))))

    def _charged(self, event: Event, body: dict[str, object], alone: bool) -> Receipt:
        with self._store.writing() as connection:
            head, state = self._state(connection)
            known = self._kept(connection, f"charge {body['key']}")
            after = None if known else self._accepted(state, body, alone)
            if after is not None:
                row = self._write(connection, head, state, {**body, "total": written(after.totals)})
        if known is not None:
            return self._same(known, body)
        if after is None:
            raise self._refusal(event, body, state)
        return self._receipt(row, after)

    def _receipt(self, row: Row, state: State) -> Receipt:
        """Made when the charge is on disk, never before."""
        self._seen = max(self._seen, (row.seq, row.hash))
        return Receipt(row.seq, row.hash, self._bound(state), state.remaining(self.terms))

    def _accepted(self, state: State, body: Json, alone: bool) -> State | None:
        """The state after the charge, where it is accepted; `body` is told its place or that it closes the ledger."""
        if self.terms.composition == PLANNED:
            own = (body["adjacency"], body["group"]) == (self.adjacency.value, 1)  # what the plan was analysed for
            body["place"] = place_of(body["event"], self.terms, state) if own else None
            return None if body["place"] is None else state.after({**body, "time": ""})
        after = state.after({**body, "time": ""})
        allowed = all(
            accepts(a.criteria(self.terms), a.totals)
            for a in after.allotments
            if a.concerns(body["analyst"], body["purpose"])
        )
        if state.closed or not allowed:
            return None
        if accepts(self.terms.criteria, after.totals):
            return after
        body["sole"] = alone and state.charges == 0
        return state.after({**body, "time": ""}) if body["sole"] else None

    def _refusal(self, event: Event, body: Json, state: State) -> BudgetExceeded:
        under, size = Adjacency.of(body["adjacency"]), body["group"]
        if self.terms.composition == PLANNED:
            return BudgetExceeded(asked(event, under, size, self.terms), 0.0)
        left = _remaining(state, self.terms, body["analyst"], body["purpose"])
        limits = [(self.terms.criteria, state.totals)]
        limits += [
            (a.criteria(self.terms), a.totals) for a in state.allotments if a.concerns(body["analyst"], body["purpose"])
        ]
        return BudgetExceeded(
            asked(event, under, size, self.terms),
            0.0 if state.closed else room(event, under, size, self.terms, limits, left),
            None if state.closed else stated_left(costs(event, under, size, self.terms.criteria), limits),
        )

    def _write(self, connection: sa.Connection, head: Any, state: State, body: Json) -> Row:
        body |= {"seq": head.seq + 1, "time": time_after(state.time)}
        after = state.after(body).to_text()
        row = chain.row(head.hash, {**body, "state": chain.digest(after)})
        self._store.append(connection, row, after)
        return row

    def _state(self, connection: sa.Connection, seen: tuple[int, str] | None = None) -> tuple[object, State]:
        """The head with its sums, where they are those of the last entry and follow what this object saw before."""
        head = self._store.head(connection)
        state = self._read(lambda: State.of_head(head, self.terms))
        if not self._trusted:
            first = self._store.start(connection)
            self._whole(self._read(lambda: started(first, self.terms)))
            self._trusted = True
        last = self._store.end(connection, head)
        self._whole(self._read(lambda: ended(last, head, seen or self._seen)))
        self._seen = max(self._seen, (head.seq, head.hash))
        return head, state

    def _whole(self, wrong: str) -> None:
        if wrong:
            raise NotFinished(f"The ledger in {self.url} is damaged: {wrong}.", fix="See `tacit ledger verify`.")

    def _body(self, row: Any) -> Json:
        """What an entry says; whether the chain is whole is for `verify` to say."""
        return self._read(lambda: dict(json.loads(row.body).items()))

    def _kept(self, connection: sa.Connection, slot: str) -> Row | None:
        """The entry of this slot, after its hash was checked; None if there is none."""
        row = self._store.at(connection, slot=slot)
        if row is not None:
            before = self._store.at(connection, seq=row.seq - 1)
            self._whole(self._read(lambda: chain.problem(row, row.seq, "" if before is None else before.hash)))
        return row

    def _read(self, read: Callable[[], T]) -> T:
        """Call `read`; turn any error of damaged content into one sentence."""
        try:
            return read()
        except TacitError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError):
            raise NotFinished(f"The ledger in {self.url} is damaged.", fix="See `tacit ledger verify`.") from None

    def _now(self) -> tuple[Any, State]:
        seen = self._seen  # of before: another thread may see more while this one reads
        with self._store.reading() as connection:
            return self._state(connection, seen)

    def _bound(self, state: State) -> Bound:
        limit = self.terms.epsilon if self.terms.planned_epsilon is None else self.terms.planned_epsilon
        return Bound(
            epsilon=limit if state.charges else 0.0,
            delta=self.terms.delta,
            side=Side.UPPER,
            confidence=1.0,
            method=METHODS[self.terms.composition],
            adjacency=self.adjacency,
            unit=self.unit,
            assumptions=(ALL_CHARGED, *state.conditions),
        )


def _reopened(place: str, wait: float) -> Ledger:
    from .postgres import with_password

    return Ledger(with_password(place), wait=wait)


def _remaining(state: State, terms: Terms, analyst: str, purpose: str) -> float:
    own = [a.remaining(terms) for a in state.allotments if a.concerns(analyst, purpose)]
    return min([state.remaining(terms), *own])
