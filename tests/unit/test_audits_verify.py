"""Recomputing what is stored; every changed number is noticed."""

from dataclasses import replace

import pytest

from tacit import audits
from tacit.audits import ClopperPearson, Curve, stated, verify
from tacit.audits.choice import bound
from tacit.core import Adjacency, BadInput, Bound, Claim, Counts, Demonstration, Evidence
from tacit.core.events import Gaussian
from tacit.core.shown import at_least

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
        "privacy accounting, rates allowed",
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


@pytest.mark.parametrize("event", [EVENT, None], ids=["event", "pair"])
def test_mutant_a_forged_frontier_is_noticed(event):
    """The report quotes what the claim allows from these points."""
    made = evidence(event)
    fpr, tpr = made.claim.frontier[20]
    for forged in (tpr * 0.99, min(1.0, tpr * 1.01)):
        points = (*made.claim.frontier[:20], (fpr, forged), *made.claim.frontier[21:])
        found = verify(made.with_(claim=replace(made.claim, frontier=points)))
        assert not found.ok
        assert [row.method for row in found.bounds if not row.equal] == [f"{made.claim.bound.method}, rates allowed"]


def test_a_forged_point_does_not_hide_behind_a_larger_one():
    """The largest rate moved within tolerance, and a tiny one by half: by absolute distance the first is the worst."""
    made = evidence()
    points = list(made.claim.frontier)
    last = max(range(len(points)), key=lambda i: points[i][1])
    tiny = min((i for i in range(len(points)) if points[i][1] > 0), key=lambda i: points[i][1])
    points[last] = (points[last][0], points[last][1] * (1 - 9e-7))
    points[tiny] = (points[tiny][0], points[tiny][1] - min(points[tiny][1] / 2, 5e-7))
    assert not verify(made.with_(claim=replace(made.claim, frontier=tuple(points)))).ok


def test_a_path_will_do_and_other_things_are_refused(tmp_path):
    path = evidence().save(tmp_path / "evidence.json")
    assert verify(path).ok
    assert verify(str(path)).ok
    with pytest.raises(BadInput, match="cannot be read"):
        verify("nowhere.json")
    with pytest.raises(BadInput, match="not dict"):
        verify({})


def test_a_sentence_with_bounds_rounded_to_the_nearest_number_is_other_words(tmp_path):
    """Earlier versions wrote at least 1.84 for 1.837."""
    path = evidence(None).save(tmp_path / "evidence.json")
    made = verify(path)
    lower = evidence(None).lower.bound.epsilon
    near, true = f"{lower:.3g}", at_least(lower)
    assert float(near) > lower > float(true)
    path.write_text(path.read_text().replace(f"at least {true}", f"at least {near}"))
    found = verify(path)
    assert made.ok
    assert found.ok
    assert [row.about for row in found.statements if not row.equal] == ["sentence"]


def test_what_cannot_be_recomputed_is_named():
    found = verify(evidence()).unchecked
    assert {"the counts of the games", "that the claimed event is what was run"} <= set(found)
    assert "utility" not in found


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


def test_a_file_with_a_byte_order_mark_is_verified(tmp_path):
    path = evidence().save(tmp_path / "evidence.json")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert verify(path).ok == verify(evidence()).ok
