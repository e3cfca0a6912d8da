"""The e-process: by hand, while watching, and as a game on somebody's fit."""

import math

import numpy as np
import pytest

from tacit.audits import Anytime, AnytimeCurve, Choice, Played, audit, stated, verify, watch
from tacit.audits.bounds.anytime import log_evidence
from tacit.audits.bounds.frontier import of_event, of_pair
from tacit.audits.demonstration import FEWEST
from tacit.audits.scoring import balanced, scored
from tacit.core import Adjacency, BadInput, Counts, Mismatch, NotFinished, Verdict
from tacit.core.events import Gaussian

ADD = Adjacency.ADD_REMOVE
PLAYED = Played("sequential", "c", 1000)


def batches(mu, seed=0, size=16, most=60, asked=None):
    rng = np.random.default_rng(seed)
    for k in range(most):
        if asked is not None:
            asked.append(k)
        coins = balanced(size, rng)
        yield scored(rng.normal(size=size) + mu * coins, coins, first=k * size)


def test_evidence_against_nothing_seen_is_nothing():
    assert log_evidence(of_pair(1.0, 0.0), Counts(0, 0, 0, 0)) == pytest.approx(0.0, abs=1e-12)


def test_evidence_by_brute_force():
    """log of the Jeffreys mixture over the largest likelihood of all (p, q) on a fine grid that the claim allows."""
    counts, frontier = Counts(18, 3, 20, 20), of_pair(1.0, 0.0)
    q = np.linspace(1e-4, 1 - 1e-4, 4000)
    p = np.minimum(np.minimum(math.e * q, 1 - (1 - q) / math.e), 1 - 1e-12)
    p = np.minimum(p, 18 / 20)
    best = (18 * np.log(p) + 2 * np.log1p(-p) + 3 * np.log(q) + 17 * np.log1p(-q)).max()
    jeffreys = sum(
        math.lgamma(a + 0.5) + math.lgamma(b + 0.5) - math.lgamma(a + b + 1) - math.log(math.pi)
        for a, b in ((18, 2), (3, 17))
    )
    found = log_evidence(frontier, counts)
    assert found <= jeffreys - best + 1e-9  # never more than the truth
    assert found == pytest.approx(jeffreys - best, abs=0.05)


def test_readings_grow_with_the_runs():
    for use in (Anytime(1e-5), AnytimeCurve(Gaussian(1.0), ADD, 1e-5)):
        few, many = (use.read(Counts(8 * n, 2 * n, 10 * n, 10 * n), 0.95) for n in (6, 60))
        assert 0 < few < many < use.attainable(Counts(0, 0, 600, 600), 0.95)
        assert use.read(Counts(2, 8, 10, 10), 0.95) == 0.0


def test_reading_exceeds_the_claim_exactly_when_it_is_ruled_out():
    for hits in range(50, 100, 3):
        counts = Counts(hits, 30, 100, 100)
        use = AnytimeCurve(Gaussian(1.0), ADD, 1e-5)
        claim = stated(Gaussian(1.0), delta=1e-5).bound.epsilon
        assert (use.read(counts, 0.95) > claim) == use.ruled_out(1.0, counts, 0.95)


def test_watching_stops_when_the_claim_falls():
    asked = []
    shown = watch(batches(4.0, asked=asked), claim=stated(Gaussian(1.0), delta=1e-5), confidence=0.95, played=PLAYED)
    assert len(asked) < 20
    assert shown[1].bound.contradicts(stated(Gaussian(1.0), delta=1e-5).bound)
    assert shown[0].counts.n_in >= FEWEST


def test_watching_goes_on_while_it_stands():
    asked = []
    shown = watch(batches(1.0, asked=asked), claim=stated(Gaussian(1.0), delta=1e-5), confidence=0.95, played=PLAYED)
    assert len(asked) == 60
    assert shown[0].counts.n_in == 59 * 8
    assert not shown[1].bound.contradicts(stated(Gaussian(1.0), delta=1e-5).bound)


def test_a_fixed_choice_judges_from_the_first_batch():
    claim = stated((1.0, 1e-5), delta=0.1)
    shown = watch(batches(1.0, most=4), claim=claim, confidence=0.95, played=PLAYED, choice=Choice("canary", 0.5))
    assert shown[0].counts.n_in == 32
    assert [item.bound.method for item in shown] == ["e-process"]


def test_a_batch_played_twice_is_refused():
    first = next(batches(1.0))
    with pytest.raises(Mismatch, match="disjoint"):
        watch([first, first], claim=stated((1.0, 1e-5), delta=0.1), confidence=0.95, played=PLAYED)


def test_one_batch_is_not_enough():
    with pytest.raises(NotFinished):
        watch(batches(1.0, most=1), claim=stated((1.0, 1e-5), delta=0.1), confidence=0.95, played=PLAYED)


def test_frontiers_of_a_family_are_nested():
    one, two = of_event(Gaussian(1.0), 1.0, ADD), of_event(Gaussian(1.0), 2.0, ADD)
    assert (two.tpr <= one.tpr + 1e-12).all()


def fit_with(noise):
    def fit(x, y, rng):
        total = (x * np.where(y, 1.0, -1.0)[:, None]).clip(-0.1, 0.1).sum(axis=0) + 0.2 * noise * rng.normal(size=4)
        return lambda q: np.stack([-(q @ total), q @ total], axis=1)

    return fit


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    return x, (x[:, 0] > 0).astype(int)


def test_sequential_audit_stops_early_and_verifies():
    claim = Gaussian(1.0)
    canary = lambda x, y, rng: (np.full(4, 5.0), 0)  # noqa: E731
    wrong = audit(fit_with(0.25), data(), claim=claim, game="sequential", canary=canary, runs=600, rng=1)
    assert wrong.verdict is Verdict.REFUTED
    assert wrong.provenance["runs_done"] < 300
    assert wrong.demonstrations[0].planned == 600
    assert verify(wrong).ok
    right = audit(fit_with(1.0), data(), claim=claim, game="sequential", canary=canary, runs=200, rng=1)
    assert right.verdict is Verdict.CONSISTENT
    assert right.provenance["runs_done"] == 200


def test_too_few_runs_are_refused():
    with pytest.raises(BadInput, match="at least 80 runs"):
        audit(fit_with(1.0), data(), claim=Gaussian(1.0), game="sequential", runs=20, rng=1, isolation="none")
