"""Recomputing what is stored; every changed number is noticed."""

from dataclasses import replace

import pytest

from tacit import audits
from tacit.audits import ClopperPearson, Curve, stated, verify
from tacit.audits.choice import bound
from tacit.core import Adjacency, Bound, Claim, Counts, Demonstration, Evidence
from tacit.core.events import Gaussian

ADD = Adjacency.ADD_REMOVE
COUNTS = Counts(80, 5, 100, 100)


EVENT = Gaussian(1.0)


def evidence(event=EVENT):
    claim = stated(event if event else (1.0, 1e-5), delta=1e-5)
    uses = [ClopperPearson(1e-5)] + ([Curve(event, ADD, 1e-5)] if event else [])
    shown = tuple(
        Demonstration(bound(use, COUNTS, 0.95, ADD), COUNTS, use.attainable(COUNTS, 0.95), 0.5, "runs", "blank", 200)
        for use in uses
    )
    return Evidence("a model", claim, shown)


def test_every_number_is_recomputed():
    found = verify(evidence())
    assert found.ok
    assert [row.method for row in found.bounds] == [
        "privacy accounting",
        "clopper-pearson",
        "clopper-pearson, attainable",
        "trade-off curve",
        "trade-off curve, attainable",
    ]
    assert all(row.equal and row.stored == pytest.approx(row.recomputed) for row in found.bounds)


def test_a_bare_statement_has_nothing_to_recompute():
    found = verify(evidence(None))
    assert found.ok
    assert (found.bounds[0].method, found.bounds[0].recomputed) == ("stated", None)


def test_changed_numbers_are_noticed():
    made = evidence()
    claim, first, second = made.claim, *made.demonstrations
    cheaper = replace(claim, bound=replace(claim.bound, epsilon=claim.bound.epsilon * 0.999))
    assert not verify(made.with_(claim=cheaper)).ok
    higher = replace(first, bound=replace(first.bound, epsilon=first.bound.epsilon + 0.01))
    assert not verify(made.with_(demonstrations=(higher, second))).ok
    assert not verify(made.with_(demonstrations=(replace(first, attainable=99.0), second))).ok
    counts = replace(first, counts=Counts(81, 5, 100, 100))
    assert not verify(made.with_(demonstrations=(counts, second))).ok


def test_a_bound_by_an_unknown_method_or_without_its_event_is_not_ok():
    made = evidence()
    dream = replace(made.demonstrations[0], bound=replace(made.demonstrations[0].bound, method="a dream"))
    assert not verify(made.with_(demonstrations=(dream,))).ok
    bare = Claim(Bound(1.0, 1e-5, "upper", 1.0, "stated", ADD))
    assert not verify(made.with_(claim=bare)).ok


def test_nothing_to_verify_is_ok():
    assert verify(Evidence("a model")).bounds == ()


def test_exported_names_are_exact_and_sorted():
    assert audits.__all__ == sorted(audits.__all__)
    assert all(getattr(audits, name) is not None for name in audits.__all__)
