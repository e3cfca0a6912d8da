"""A ledger that an earlier version wrote is still whole, and its sums still mean the same."""

import json
from pathlib import Path

import pytest

from tacit.core.charger import Receipt
from tacit.ledger import chain
from tacit.ledger.state import State, Terms
from tacit.ledger.store import Head, Row
from tacit.ledger.verification import verified

STORED = json.loads((Path(__file__).parent / "ledger.json").read_text(encoding="utf-8"))


def rows():
    for item in STORED["rows"]:
        body = json.loads(item["body"])
        yield Row(body["seq"], chain.slot(body), body["kind"], chain.name(body), item["body"], item["hash"])


def test_the_chain_is_whole_and_costs_are_not_below_todays():
    receipt = Receipt.from_json(STORED["receipt"])
    found = verified(list(rows()), Head(**STORED["head"]), receipt)
    assert (found.ok, found.problem, found.entries) == (True, "", 8)


def test_what_remains_is_what_remained():
    terms = Terms.from_json(json.loads(STORED["rows"][0]["body"]))
    state = State.from_text(STORED["head"]["state"])
    assert state.remaining(terms) == pytest.approx(STORED["remaining"], rel=1e-9)
    assert state.within(terms)


def test_a_receipt_of_another_ledger_is_not_accepted():
    other = {**STORED["receipt"], "head": "0" * 64}
    assert not verified(list(rows()), Head(**STORED["head"]), Receipt.from_json(other)).ok
