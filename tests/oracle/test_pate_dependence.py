"""Data-dependent costs of votes against mpmath, true divergences, Monte Carlo, brute force and published figures."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from tacit.core import Adjacency, BadInput, source
from tacit.data.loaders import folder
from tacit.pate import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, analyse
from tacit.pate.dependence import (
    ORDERS,
    gaussian_curve,
    joint_curve,
    laplace_curve,
    log_shares,
    log_wrong,
    log_wrong_laplace,
)
from tacit.pate.design import designed
from tacit.pate.release import Proposal, Smoothed, releasing, smoothed, usual_order
from tacit.pate.smooth import STEPS, Cost, lead

PUBLISHED = [
    ("mnist", ConfidentGNMax(200, 150, 40), 640, 283, 1e-5, (1.999, 3.157, 2.5287, 282.7)),
    ("svhn", ConfidentGNMax(300, 200, 40), 8500, 2970, 1e-6, (4.915, 12.393, 10.8721, 2969.1)),
    ("adult", ConfidentGNMax(300, 200, 40), 1500, 539, 1e-5, (1.678, 4.402, 3.5976, 538.3)),
]
LAPLACE = [
    ("mnist", 100, 1e-5, 1.509),
    ("mnist", 1000, 1e-5, 7.371),
    ("svhn", 500, 1e-6, 4.372),
    ("svhn", 1000, 1e-6, 6.432),
]
PUBLIC = "the votes are published"


def votes(name):
    with np.load(folder() / "pate2018_votes.npz") as found:
        return found[name].astype(np.int64)


@pytest.mark.needs("data")
@pytest.mark.parametrize(("name", "rule", "queries", "answers", "delta", "expected"), PUBLISHED)
def test_published_votes(name, rule, queries, answers, delta, expected):
    """The papers' figures, which count expected answers; and our claim, with a public cap."""
    counts = votes(name)
    found = analyse(counts, rule, queries=queries, answers=answers, delta=delta)
    private = [found.data_dependent, found.papers_independent]
    assert [value.look(PUBLIC) for value in private] == pytest.approx(expected[:2], abs=6e-4)
    assert found.data_independent.epsilon == pytest.approx(expected[2], abs=2e-4)
    assert found.expected_answers.look(PUBLIC) == pytest.approx(expected[3], abs=0.1)
    assert found.joint.look(PUBLIC) < found.data_dependent.look(PUBLIC)
    assert str(expected[0]) not in repr(found)


@pytest.mark.needs("data")
@pytest.mark.parametrize(("name", "queries", "delta", "expected"), LAPLACE)
def test_published_votes_with_laplace_noise(name, queries, delta, expected):
    found = analyse(votes(name), LNMax(20.0), queries=queries, delta=delta)
    assert found.data_dependent.look(PUBLIC) == pytest.approx(expected, abs=1e-3)


def exact_gaussian(counts, noise, order):
    """Theorem 6 of Papernot et al. 2018 in 60 digits, written down again."""
    with mpmath.workdps(60):
        top = max(counts)
        others = sorted(counts)[:-1]
        s, a = mpmath.mpf(noise), mpmath.mpf(order)
        q = sum(mpmath.erfc((mpmath.mpf(top - n) - mpmath.mpf(2) ** -20) / (2 * s)) / 2 for n in others)
        q = min(q, 1 - mpmath.mpf(1) / len(counts))
        plain = a / s**2
        m2 = s * mpmath.sqrt(-mpmath.log(q))
        m1 = m2 + 1
        e1, e2 = m1 / s**2, m2 / s**2
        if not (m2 > 1 and a <= m1 and q <= mpmath.e ** ((m2 - 1) * e2) / (m1 / (m1 - 1) * m2 / (m2 - 1)) ** m2):
            return plain
        if q * mpmath.e**e2 >= 1:
            return plain
        big_a = (1 - q) / (1 - (q * mpmath.e**e2) ** ((m2 - 1) / m2))
        big_b = mpmath.e**e1 / q ** (1 / (m1 - 1))
        return min(plain, mpmath.log((1 - q) * big_a ** (a - 1) + q * big_b ** (a - 1)) / (a - 1))


@pytest.mark.parametrize("counts", [(240, 5, 5), (200, 30, 20), (150, 100, 0), (90, 80, 80), (250, 0, 0)])
@pytest.mark.parametrize("noise", [20.0, 40.0, 100.0])
def test_gaussian_against_mpmath(counts, noise):
    orders = np.array([1.5, 2.0, 5.0, 14.0, 40.0])
    ours = gaussian_curve(log_wrong(np.array([counts]), noise), noise, orders)[0]
    theirs = [float(exact_gaussian(counts, noise, order)) for order in orders]
    assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("counts", [(240, 5, 5), (150, 100, 0), (90, 80, 80)])
def test_laplace_against_mpmath(counts):
    for noise, order in itertools.product((1e-3, 0.01, 10.0, 20.0, 50.0, 1e7), (2.0, 5.0, 14.0)):
        with mpmath.workdps(60):
            g, tilt = 1 / mpmath.mpf(noise), mpmath.mpf(order) - 1
            lost = [max(counts) - n for n in sorted(counts)[:-1]]
            q = min(sum((2 + g * d) / (4 * mpmath.e ** (g * d)) for d in lost), 1 - mpmath.mpf(1) / len(counts))
            bounds = [2 * g, 2 * g**2 * (tilt + 1)]
            if q < (mpmath.e ** (2 * g) - 1) / (mpmath.e ** (4 * g) - 1):
                first = (1 - q) * ((1 - q) / (1 - mpmath.e ** (2 * g) * q)) ** tilt
                bounds.append(mpmath.log(first + q * mpmath.e ** (2 * g * tilt)) / tilt)
            expected = float(min(bounds))
        ours = laplace_curve(log_wrong_laplace(np.array([counts]), noise), noise, np.array([order]))[0, 0]
        assert ours == pytest.approx(expected, rel=1e-8, abs=1e-15)


def shares(counts, noise, laplace=False):
    """P(class k wins), by quadrature."""
    density = stats.laplace if laplace else stats.norm
    found = []
    for k, own in enumerate(counts):
        others = [own - other for j, other in enumerate(counts) if j != k]
        z = np.linspace(-13 * noise, 13 * noise, 40_001)
        inner = density.pdf(z / noise) / noise * np.prod([density.cdf((z + d) / noise) for d in others], axis=0)
        found.append(integrate.simpson(inner, x=z))
    return np.array(found)


def neighbours(counts):
    """One vote moves, appears or disappears."""
    for a, b in itertools.product(range(len(counts)), repeat=2):
        other = list(counts)
        other[a] -= 1
        if a != b:
            other[b] += 1
        if min(other) >= 0:
            yield tuple(other)


def divergence(p, q, order):
    return math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1)


SMALL = [((12, 2, 1), 2.0), ((9, 6), 2.0), ((10, 1, 1), 1.5), ((6, 5, 4), 2.5), ((20, 0), 3.0)]


@pytest.mark.parametrize(("counts", "noise"), SMALL)
@pytest.mark.parametrize("laplace", [False, True])
def test_never_below_the_true_divergence(counts, noise, laplace):
    orders = np.array([1.5, 2.0, 4.0, 8.0])
    curve, wrong = (laplace_curve, log_wrong_laplace) if laplace else (gaussian_curve, log_wrong)
    ours = curve(wrong(np.array([counts]), noise), noise, orders)[0]
    here = shares(counts, noise, laplace)
    for other in neighbours(counts):
        there = shares(other, noise, laplace)
        for order, bound in zip(orders, ours, strict=True):
            assert divergence(here, there, order) <= bound * (1 + 1e-6) + 1e-12
    assert ours.min() >= 0


@pytest.mark.parametrize(("counts", "noise"), SMALL[:3])
def test_never_below_a_monte_carlo_estimate(counts, noise):
    """Frequencies of 200,000 draws of the mechanism itself; the estimate may be off by some standard errors."""
    draws, order = 200_000, 3.0
    ours = gaussian_curve(log_wrong(np.array([counts]), noise), noise, np.array([order]))[0, 0]
    rule = GNMax(noise)
    here, *others = (
        np.bincount(rule.told(np.tile(case, (draws, 1)), source(seed), draws).labels, minlength=len(counts)) + 0.5
        for seed, case in enumerate([counts, *neighbours(counts)][:5])
    )
    for there in others:
        p, q = here / here.sum(), there / there.sum()
        spread = 6 * float(np.sqrt(((p / q) ** (order - 1)) ** 2 * p).sum() / math.sqrt(draws)) + 6 * order / math.sqrt(
            draws
        )
        assert divergence(p, q, order) <= ours + spread


def test_check_and_answer_are_one_release():
    """All outcomes of a confident query, by quadrature, against the joint curve."""
    rule, orders = ConfidentGNMax(8.0, 3.0, 2.0), np.array([1.5, 3.0, 6.0])
    for counts in [(12, 2, 1), (7, 6, 2), (4, 4, 4)]:
        answer = gaussian_curve(log_wrong(np.array([counts]), 2.0), 2.0, orders)
        ours = joint_curve(np.array([max(counts)]), 8.0, 3.0, answer, orders)[0]

        def outcomes(votes, rule=rule):
            passed = special.ndtr((max(votes) - rule.threshold) / rule.noise_select)
            return np.append(passed * shares(votes, rule.noise_answer), 1 - passed)

        for other in neighbours(counts):
            for order, bound in zip(orders, ours, strict=True):
                assert divergence(outcomes(counts), outcomes(other), order) <= bound * (1 + 1e-6) + 1e-12


def test_a_larger_lead_never_costs_more():
    leads = np.arange(0, 251, 2)
    counts = np.stack(((250 + leads) // 2, (250 - leads) // 2), axis=1)
    for noise in (10.0, 40.0, 100.0):
        for found in (
            gaussian_curve(log_wrong(counts, noise), noise, ORDERS),
            laplace_curve(log_wrong_laplace(counts, noise), noise, ORDERS),
        ):
            assert (np.diff(found, axis=0) <= 1e-15).all()
            assert found[0] == pytest.approx(found.max(axis=0))


def test_shares_of_a_check():
    passed, failed = log_shares(np.array([5.0, 8.0]), 8.0, 3.0)
    assert np.exp(passed) + np.exp(failed) == pytest.approx(1)
    assert np.exp(passed[1]) == pytest.approx(0.5, abs=1e-6)


def all_votes(teachers, classes):
    for cut in itertools.combinations(range(teachers + classes - 1), classes - 1):
        yield tuple(b - a - 1 for a, b in itertools.pairwise((-1, *cut, teachers + classes - 1)))


@pytest.mark.parametrize("rule", [GNMax(2.0), ConfidentGNMax(6.0, 3.0, 2.0)])
def test_sensitivity_and_distance_by_brute_force(rule):
    """Every data set of two queries and eight teachers: the local change is within S, S is smooth, and the distance to
    a limit moves by one; the table is never below the curve.
    """
    cost, beta, limit = Cost.of(rule, 8, 3, 3.0), 0.05, 1.2
    every = list(all_votes(8, 3))
    seen = {}
    for case in every:
        counts = np.array([case, case[::-1]])
        seen[case] = cost.total(counts), cost.sensitivity(counts, beta), cost.distance(counts, limit, 20)
        answer = gaussian_curve(log_wrong(counts, 2.0), 2.0, np.array([3.0]))
        if isinstance(rule, ConfidentGNMax):
            answer = joint_curve(counts.max(axis=1), 6.0, 3.0, answer, np.array([3.0]))
        assert seen[case][0] >= answer.sum() - 1e-12
        assert (seen[case][2] < 0) == (seen[case][0] > limit)
    moved = 0
    for case, other in itertools.product(every, every):
        if sum(abs(a - b) for a, b in zip(case, other, strict=True)) == 2:
            (f, s, d), (f2, s2, d2) = seen[case], seen[other]
            assert abs(f - f2) <= min(s, s2) * (1 + 1e-9)
            assert s <= s2 * math.exp(beta) * (1 + 1e-9)
            assert abs(d - d2) <= 1
            moved += d != d2
    assert moved


def test_the_lead_moves_by_two_votes():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(250, [0.5, 0.2, 0.2, 0.1], size=400)
    for _ in range(20):
        other = counts.copy()
        a, b = rng.integers(0, 4, (2, len(counts)))
        other[np.arange(len(counts)), a] -= 1
        other[np.arange(len(counts)), b] += 1
        assert np.abs(lead(counts, 40.0) - lead(other, 40.0)).max() <= 2 * STEPS
    alone = np.array([[250, 0, 0, 0], [130, 120, 0, 0]])
    assert lead(alone, 40.0)[0] >= 250 * STEPS - 1
    assert (lead(alone, 40.0) <= 250 * STEPS).all()


def test_cost_of_a_smooth_release_against_quadrature():
    how = smoothed(0.3, 8.0, 0.99)
    move = 1 + how.noise * how.quantile * math.expm1(how.beta)
    z = np.linspace(-40, 40, 400_001) * how.noise
    for order, ratio, shift in itertools.product(
        (2.0, 8.0), (1.0, math.exp(how.beta), math.exp(-how.beta)), (0.5, 1.0)
    ):
        p = stats.norm.logpdf(z, 0, how.noise)
        q = stats.norm.logpdf(z, shift * move * min(1.0, ratio), how.noise * ratio)
        true = math.log(integrate.simpson(np.exp(order * p + (1 - order) * q), x=z)) / (order - 1)
        assert true <= how.cost(order) * (1 + 1e-6)
    assert how.cost(8.0) == pytest.approx(0.3, rel=1e-6)
    assert math.isinf(how.cost(100.0))


def design(rule=None, **more):
    settings = {"available": 150, "queries": 150, "answers": None, "epsilon": None, "delta": 1e-5} | more
    return designed(rule or GNMax(25.0), **settings)


def test_a_false_proposal_is_seldom_passed():
    """The cost is just above the proposal: passed with a chance of at most 1 - confidence = 0.05."""
    counts = np.tile([150, 100], (150, 1))
    cost = Cost.of(GNMax(25.0), 250, 2, 12.0)
    how = Proposal(12.0, 0.15, 0.95, cost.total(counts) * 0.999)
    passed = sum(how.drawn(cost, counts, source(seed)) is not None for seed in range(2000))
    assert passed / 2000 < 0.05 + 6 * math.sqrt(0.05 * 0.95 / 2000)


def test_a_smooth_release_is_an_upper_bound():
    counts = np.tile([180, 70], (40, 1))
    cost = Cost.of(GNMax(25.0), 250, 2, 6.0)
    how = smoothed(0.4, 6.0, 0.9)
    below = sum(how.drawn(cost, counts, source(seed)) < cost.total(counts) for seed in range(400))
    assert below / 400 < 0.1 + 6 * math.sqrt(0.09 / 400)


@pytest.mark.needs("data")
def test_a_test_beats_the_claim_on_published_votes():
    """150 answers of GNMax(25): 2.88 whatever the votes are, and 1.75 for these, by a test that is part of it."""
    counts, made = votes("mnist")[:150], design()
    how = releasing(made, epsilon=0.15, propose=1.75, order=12.0, confidence=0.999)
    cost = Cost.of(GNMax(25.0), 250, 10, 12.0)
    found = [how.drawn(cost, counts, source(seed)) for seed in range(40)]
    passed = [how.bound(value, made) for value in found if value is not None]
    assert len(passed) > 30
    assert passed[0].epsilon == pytest.approx(1.75)
    assert passed[0].confidence == 0.999
    assert "0.999 confidence" in repr(passed[0])
    assert made.epsilon > 2.8
    assert how.event(1e-5, Adjacency.REPLACE).noise_multiplier == pytest.approx(2 * how.noise)


def test_what_a_release_refuses():
    for change in (
        {"epsilon": 0.0},
        {"confidence": 0.4},
        {"order": 1.0},
        {"propose": 0.1},
        {"epsilon": 1e-9, "order": 40.0},
    ):
        given = {"epsilon": 0.2, "propose": None, "order": None, "confidence": 0.999} | change
        with pytest.raises(BadInput):
            releasing(design(), **given)
    for rule in (LNMax(20.0), InteractiveGNMax()):
        with pytest.raises(BadInput, match="No smooth sensitivity"):
            Cost.of(rule, 10, 2, 3.0)
    assert usual_order(design()) > 2
    assert isinstance(releasing(design(), epsilon=0.5, propose=None, order=None, confidence=0.999), Smoothed)


@pytest.mark.parametrize(
    "bad", [np.zeros((3, 1)), np.zeros(3), np.full((2, 2), 0.5), np.full((2, 2), -1), np.zeros((0, 2))]
)
def test_votes_must_be_counts(bad):
    with pytest.raises(BadInput, match="votes must be whole numbers"):
        analyse(bad, GNMax(), delta=1e-5)
