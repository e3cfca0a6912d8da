"""Forged entries, copies of objects that were paid for, tiny losses, and refusals that say why."""

import copy
import json
import math
import os
import pickle

import mpmath
import pytest

from tacit import Ledger, mechanism
from tacit.core import Adjacency, BudgetExceeded, Mismatch
from tacit.events import ApproximateDP, Gaussian, Laplace, NonPrivate, PartitionSelection, RandomizedResponse
from tacit.ledger import chain
from tacit.ledger.costs import costs
from tacit.ledger.criteria import criteria, pure_renyi
from tacit.ledger.state import State
from tacit.ledger.store import Head
from tacit.ledger.verification import verified


def forged(ledger, **change):
    """The ledger's chain with its last charge changed, all sums and hashes made to fit."""
    bodies = [json.loads(row["body"]) for row in ledger.rows()]
    bodies[-1] |= change
    state, before, rows = State.start(ledger.terms), chain.START, []
    for body in bodies:
        state = state.after(body)
        rows.append(chain.row(before, body))
        before = rows[-1].hash
    return verified(rows, Head(rows[-1].seq, before, state.to_text()), None)


def test_a_forged_only_charge_is_found(tmp_path):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    ledger.charge(Laplace(2.0), key="a")
    assert forged(ledger)
    endless = dict.fromkeys(json.loads(ledger.rows()[-1]["body"])["cost"])
    assert not forged(ledger, event=NonPrivate().to_json(), sole=True, cost=endless, total=endless)
    assert not forged(ledger, sole=True, event=Gaussian(0.1).to_json(), cost=endless, total=endless)


def test_a_charge_that_closed_the_ledger_is_whole(tmp_path):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    ledger.charge(ApproximateDP(1.0, 9e-7), key="a")
    assert ledger.verify()
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.01 and 0 remains"):
        ledger.charge(Laplace(100.0), key="b")


def test_a_charge_that_was_not_planned_is_found(tmp_path):
    planned = [Laplace(2.0), Laplace(4.0)]
    ledger = Ledger.create(
        tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record", composition="planned", events=planned
    )
    ledger.charge(Laplace(4.0), key="a")
    assert forged(ledger)
    assert not forged(ledger, place=0)
    assert not forged(ledger, place=7)
    assert not forged(ledger, group=2)


@pytest.mark.parametrize("tilt", [1e-3, 0.05, 1.0, 30.0])
def test_tiny_losses_are_not_rounded_away(tilt):
    with mpmath.workdps(60):
        for place in range(-12, 3):
            t, e = mpmath.mpf(tilt), mpmath.mpf(10.0**place)
            right = mpmath.log((mpmath.exp((1 + t) * e) + mpmath.exp(-t * e)) / (1 + mpmath.exp(e))) / t
            assert abs(pure_renyi(10.0**place, tilt) / right - 1) < 1e-11


def test_a_refusal_says_when_delta_is_the_reason(tmp_path):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    ledger.charge(PartitionSelection(0.4, 1e-7), key="a")
    with pytest.raises(BudgetExceeded, match="states delta 1e-07 and 5e-08 remains") as refusal:
        ledger.charge(PartitionSelection(0.4, 1e-7), key="b")
    assert refusal.value.asked == 0.4
    with pytest.raises(BudgetExceeded, match="asks for epsilon 2"):
        ledger.charge(ApproximateDP(2.0, 1e-9), key="c")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_copied_ledger_is_the_same_budget(tmp_path, again):
    ledger = Ledger.create(tmp_path / "a.db", epsilon=1.0, delta=1e-6, unit="record")
    again(ledger).charge(Laplace(1.0), key="a")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace(1.0), key="b")


def board():
    return mechanism.Thresholdout(size=4, threshold=0.1, epsilon=1.0, budget=1, rng=1)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_thresholdout_is_paid_for_once(again):
    with pytest.raises(Mismatch, match="cannot be copied"):
        again(board())


def test_a_forked_process_does_not_go_on_with_a_thresholdout(monkeypatch):
    made, here = board(), os.getpid()
    monkeypatch.setattr("tacit.mechanism.leaderboard.os.getpid", lambda: here + 1)
    with pytest.raises(Mismatch, match="cannot be copied"):
        made.query([1.0], [0.0] * 4)


def test_the_smooth_median_is_no_less_smooth_at_a_large_delta(monkeypatch):
    """Theorem 11 needs e^beta <= e^{epsilon/2}; above delta = 2/e the other condition alone would allow more."""
    betas = []
    monkeypatch.setattr(
        "tacit.mechanism.robust.smooth_sensitivity", lambda values, top, beta: betas.append(beta) or 1.0
    )
    mechanism.smooth_median([0.1, 0.2], bounds=(0, 1), epsilon=0.5, delta=0.9, rng=1)
    assert betas[0] <= 0.25
    assert math.log1p(0.5 / (2 * math.log(2 / 0.9))) > 0.25


def test_small_pure_charges_cost_no_less_gaussian_privacy_than_they_have():
    """Near epsilon 0.001 the quantile of a number next to 1/2 keeps 12 digits: the charge has room for that."""
    found = criteria(1.0, 1e-6)
    with mpmath.workdps(40):
        for step in range(60):
            epsilon = 1e-3 * 1.05**step
            right = -2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(mpmath.mpf(epsilon))) - 1)
            charged = costs(RandomizedResponse(epsilon), Adjacency.ADD_REMOVE, 1, found)["gdp"]
            assert mpmath.mpf(charged) / 10**40 >= right**2 * (1 + mpmath.mpf(10) ** -11)
