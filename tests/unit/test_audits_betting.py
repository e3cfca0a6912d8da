"""Bets on the levels of a score: by hand, against every claim, in counts, in a game, and when verified."""

import math

import numpy as np
import pytest

from tacit.audits import Anytime, AnytimeCurve, Choice, Played, stated, watch
from tacit.audits.bounds import betting
from tacit.audits.choice import count
from tacit.audits.claims import limits
from tacit.audits.scoring import balanced, scored
from tacit.core import Adjacency, BadInput, Counts
from tacit.core.events import Allocation, Compose, Gaussian, Laplace, Poisson, Repeat
from tacit.loss import privacy_loss
from tacit.loss.lattice import Lattice
from tacit.loss.saddle import Saddle

ADD = Adjacency.ADD_REMOVE
CLAIMS = [(1.0, 0.02), (3.0, 1e-5), Gaussian(1.0), Laplace(2.0), Repeat(Poisson(0.5, Gaussian(3.0)), 20)]


def room(claim):
    return betting.of_pair(*claim) if isinstance(claim, tuple) else betting.of_event(claim, 1.0, ADD, 1e-5)


def at_levels(inside, outside):
    """Counts of runs that reach each level, from the share of each side that does."""
    return tuple((int(a), int(b)) for a, b in zip(inside, outside, strict=True))


@pytest.mark.parametrize("claim", CLAIMS)
def test_delta_of_a_claim_bounds_its_frontier_from_above_and_touches_it(claim):
    q = np.concatenate(([0.0], np.geomspace(1e-7, 0.5, 150), 1 - np.geomspace(1e-7, 0.5, 150)))
    most = np.minimum(limits(stated(claim, delta=1e-5), q), 1.0)
    gap = (most[:, None] - np.exp(betting.GRID) * q[:, None]).max(axis=0)
    assert (gap <= room(claim) + 2e-4).all()  # the frontier is itself rounded up, by more where it is composed
    np.testing.assert_allclose(gap, room(claim), atol=0.02)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_expected_wealth_of_one_pair_is_at_most_one(claim, seed):
    """Summed over all outcomes of one run of each side, at rates on the claim's own frontier."""
    rng, k = np.random.default_rng(seed), betting.PLACES.size
    alarms = np.sort(rng.random(k) ** rng.choice([0.3, 1.0, 3.0]))[::-1]
    hits = np.minimum.accumulate(np.minimum(limits(stated(claim, delta=1e-5), alarms), 1.0))
    inside, outside = (-np.diff(np.concatenate(([1.0], side, [0.0]))) for side in (hits, alarms))
    total = 0.0
    for i in range(k + 1):
        for j in range(k + 1):
            reached = at_levels(np.arange(1, k + 1) <= i, np.arange(1, k + 1) <= j)
            total += inside[i] * outside[j] * math.exp(betting.log_wealth(room(claim), Counts(0, 0, 1, 1, reached)))
    assert 0.5 < total <= 1 + 1e-9


def test_mutant_a_claim_read_by_its_lower_end_wins_where_nothing_is_to_be_won():
    """With half of the room that the claim has, one pair is worth more than 1."""
    claim, k = Gaussian(1.0), betting.PLACES.size
    hits = limits(stated(claim, delta=1e-5), betting.SHARES)
    inside, outside = (-np.diff(np.concatenate(([1.0], side, [0.0]))) for side in (hits, betting.SHARES))
    total = sum(
        inside[i]
        * outside[j]
        * math.exp(
            betting.log_wealth(
                0.5 * room(claim),
                Counts(0, 0, 1, 1, at_levels(np.arange(1, k + 1) <= i, np.arange(1, k + 1) <= j)),
            )
        )
        for i in range(k + 1)
        for j in range(k + 1)
    )
    assert total > 1.01


def test_wealth_is_a_product_over_runs_and_nothing_is_bet_without_levels_or_pairs():
    claim, one = room(Gaussian(1.0)), at_levels([1] * 8, [1, 1, 1, 0, 0, 0, 0, 0])
    assert -0.2 < betting.log_wealth(claim, Counts(0, 0, 0, 0, ((0, 0),) * 8)) <= 0.0  # some bets cannot be paid
    many = tuple((60 * a, 60 * b) for a, b in one)
    assert betting.log_wealth(claim, Counts(0, 0, 60, 60, many)) > 20
    assert betting.log_wealth(claim, Counts(0, 0, 60, 60)) == -math.inf
    assert betting.log_wealth(claim, Counts(0, 0, 60, 61, many)) == -math.inf


def test_a_claim_that_allows_more_is_never_ruled_out_sooner():
    rng = np.random.default_rng(0)
    for _ in range(20):
        score = np.sort(rng.normal(size=(2, 40)) + np.array([[2.0], [0.0]]))
        reached = [np.sum(score[:, :, None] >= np.linspace(-1.7, 1.7, 8), axis=1)[side] for side in (0, 1)]
        counts = Counts(0, 0, 40, 40, at_levels(*reached))
        wealth = [betting.log_wealth(betting.of_pair(epsilon, 1e-5), counts) for epsilon in np.linspace(0, 6, 25)]
        assert (np.diff(wealth) <= 1e-9).all()
        event = [betting.log_wealth(betting.of_event(Gaussian(1.0), s, ADD, 1e-5), counts) for s in (0.25, 0.5, 1, 2)]
        assert (np.diff(event) >= -1e-9).all()


def batches(mu, seed, most=100):
    rng = np.random.default_rng(seed)
    for k in range(most):
        coins = balanced(16, rng)
        yield scored(rng.normal(size=16) + mu * coins, coins, first=16 * k)


def test_scores_refute_in_far_fewer_runs_than_counts_at_one_threshold():
    claim, played = stated(Gaussian(1.3), delta=1e-5), Played("sequential", "c", 1600)
    by_scores, by_counts = [], []
    for seed in range(6):
        by_scores.append(watch(batches(1.5, seed), claim=claim, confidence=0.95, played=played)[-1].counts.n_in)
        fixed = Choice("canary", 0.75)
        by_counts.append(
            watch(batches(1.5, seed), claim=claim, confidence=0.95, played=played, choice=fixed)[-1].counts.n_in
        )
    assert np.median(by_scores) < 0.75 * np.median(by_counts)


def test_readings_of_levels_are_verified_by_their_counts():
    claim, played = stated(Gaussian(1.3), delta=1e-5), Played("sequential", "c", 1600)
    shown = watch(batches(2.0, 1), claim=claim, confidence=0.95, played=played)
    for item, use in zip(shown, (Anytime(1e-5), AnytimeCurve(Gaussian(1.3), ADD, 1e-5)), strict=True):
        stored = Counts.from_json(item.counts.to_json())
        assert stored == item.counts
        assert len(stored.levels) == 8
        assert use.read(stored, 0.95) == item.bound.epsilon
        assert use.attainable(stored, 0.95) == item.attainable >= item.bound.epsilon
    assert shown[-1].bound.contradicts(claim.bound)


def test_counts_at_levels_are_checked():
    scores = scored(np.array([1.0, 2.0, 3.0, 0.0]), np.array([True, True, False, False]))
    assert count(scores, 2.0, (1.0, 2.0, 3.0)) == Counts(1, 1, 2, 2, ((2, 1), (1, 1), (0, 1)))
    with pytest.raises(BadInput, match="higher levels"):
        Counts(1, 1, 2, 2, ((0, 1), (1, 1)))
    with pytest.raises(BadInput, match="0 <= tp"):
        Counts(1, 1, 2, 2, ((3, 1),))
    with pytest.raises(BadInput, match="do not fall"):
        Choice("canary", 0.0, levels=(1.0, 0.0))
    assert betting.levels(np.array([np.inf, np.nan])) == ()


ONE_PASS = [
    Repeat(Poisson(0.05, Gaussian(1.0)), 100),
    Compose((Repeat(Poisson(0.05, Gaussian(1.0)), 100), Laplace(3.0))),
    Repeat(Laplace(10.0), 30),
    Allocation(1, 2, Gaussian(2.0)),
    Poisson(0.1, Gaussian(1.0)),
    Repeat(Gaussian(3.0), 4),
]


def one_by_one(event, places):
    found = [privacy_loss(event, ADD).delta(float(a)) for a in places]
    return np.array([item.lower for item in found]), np.array([item.upper for item in found])


@pytest.mark.parametrize("event", ONE_PASS, ids=lambda event: type(event).__name__)
def test_one_pass_says_what_one_question_after_another_would(event):
    """An audit of a composition asked 625 times for delta: 18 s. One pass is above every certified lower end."""
    places = betting.GRID[betting.GRID >= 0][::6]
    lower, upper = one_by_one(event, places)
    found = privacy_loss(event, ADD).deltas(places)
    assert (found >= lower).all()
    assert (found <= 1.002 * upper + 1e-9).all()


def test_mutant_that_reads_one_place_ahead_is_caught(monkeypatch):
    event, places = ONE_PASS[1], betting.GRID[betting.GRID >= 0][::6]
    read = Lattice.deltas
    monkeypatch.setattr(Lattice, "deltas", lambda self, epsilons: read(self, epsilons + 0.25))
    assert (privacy_loss(event, ADD).deltas(places) < one_by_one(event, places)[0]).any()


def test_deltas_of_a_contour_are_those_of_its_own_lines(monkeypatch):
    """A line that serves several places is used only where its ends are as close as those of its own would be."""
    event, places, drawn = ONE_PASS[0], betting.GRID[betting.GRID >= 0], []
    read = Saddle._line
    monkeypatch.setattr(Saddle, "_line", lambda self, epsilon: drawn.append(epsilon) or read(self, epsilon))
    found = privacy_loss(event, ADD).deltas(places)
    assert 2 <= len(drawn) <= 2 * 16
    _, upper = one_by_one(event, places[::6])
    assert (np.abs(found[::6] - upper) <= 2e-6 * upper + 1e-15).all()
