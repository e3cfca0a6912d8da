"""Fits are audited as mechanisms on neighbours: those of this package stand, and three faults are refuted.

The neighbours differ in one record of the largest norm whose loss is as steep as it may be, a worst case.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("sklearn")
import tacit
from tacit.core import Adjacency, source
from tacit.erm.budget import Budget
from tacit.erm.losses import Logistic, SmoothHinge
from tacit.erm.methods import METHODS, Shape, run
from tacit.erm.problem import Problem
from tacit.erm.rows import bounded

FEW, RUNS, MANY = 240, 600, 1200
"""Runs: of a method that takes long, usually, and of a subtle fault. 60 + 60 without an error show epsilon 1.5."""
DELTA = 1e-3
CONFIDENCE = 1 - 1e-5
SIZE = 40
ROWS = np.zeros((SIZE, 2))
ROWS[0, 0] = 1.0
BOTH = [Adjacency.ADD_REMOVE, Adjacency.REPLACE]
OTHER = {Adjacency.ADD_REMOVE: 0.0, Adjacency.REPLACE: -1.0}


def signs(first):
    """The labels of a data set whose first record has this one; 0 is nobody's record."""
    return np.append(first, np.ones(SIZE - 1))


@cache
def planned(method, adjacency, regularization=None):
    loss = SmoothHinge()
    return METHODS[method](
        Shape(SIZE, 2, loss.lipschitz, loss.smoothness, regularization), Budget(1.0, DELTA, adjacency)
    )


def fits(plan, adjacency, prepare=None):
    def release(y, rng):
        rows = ROWS if prepare is None else prepare(y)
        budget, noise = Budget(1.0, DELTA, adjacency), source(int(rng.integers(2**62)))
        return run(Problem(rows, y, SmoothHinge(), 1.0), plan, budget, noise)

    return release


def verdict(release, adjacency=Adjacency.ADD_REMOVE, runs=RUNS):
    pair = signs(1.0), signs(OTHER[adjacency])
    return tacit.audit_mechanism(
        release, pair, claim=(1.0, DELTA), runs=runs, confidence=CONFIDENCE, rng=5, delta=DELTA, adjacency=adjacency
    ).verdict


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("method", ["output", "objective", "gradient", "dynamics"])
def test_a_fit_keeps_its_claim_and_one_with_a_tenth_of_the_noise_does_not(method, adjacency):
    plan = planned(method, adjacency)
    quiet = replace(plan, noise_multiplier=plan.noise_multiplier / 10)
    runs = FEW if method == "gradient" else RUNS
    assert verdict(fits(plan, adjacency), adjacency, runs) is tacit.Verdict.CONSISTENT
    assert verdict(fits(quiet, adjacency), adjacency, runs) is tacit.Verdict.REFUTED


def test_lambda_forgotten_in_the_noise_is_refuted():
    """For means one record moves the minimiser by s/(n lambda); here the noise is scaled to s/n, and lambda is 0.1."""
    plan = planned("output", Adjacency.ADD_REMOVE, 0.1)
    forgetful = replace(plan, noise_multiplier=0.1 * plan.noise_multiplier)
    assert verdict(fits(plan, Adjacency.ADD_REMOVE)) is tacit.Verdict.CONSISTENT
    assert verdict(fits(forgetful, Adjacency.ADD_REMOVE)) is tacit.Verdict.REFUTED


def test_rows_standardised_by_private_means_are_refuted():
    """One far record moves the mean and the spread, and with them every other row."""
    far = np.where(np.arange(SIZE) == 0, 1e6, 1.0)[:, None] * np.array([[1.0, 0.0]])

    def standardised(y):
        present = far[y != 0]
        spread = np.maximum(present.std(axis=0), 1e-9)
        return bounded((far - present.mean(axis=0)) / spread + (present.std(axis=0) < 1e-9), 1.0, False)

    plan = planned("objective", Adjacency.ADD_REMOVE)
    public, private = (
        fits(plan, Adjacency.ADD_REMOVE, rows) for rows in (lambda _: bounded(far, 1.0, False), standardised)
    )
    assert verdict(public, runs=MANY) is tacit.Verdict.CONSISTENT
    assert verdict(private, runs=MANY) is tacit.Verdict.REFUTED


def density(problem, strength, scale, theta):
    """Of the minimiser of a problem with one feature: that of the tilt, times the curvature of the objective."""
    margin = problem.y[:, None] * problem.x * theta
    slope = (problem.y[:, None] * problem.x * problem.loss.slope(margin)).sum(axis=0) + strength * theta
    curvature = (problem.x**2 * problem.loss.curvature(margin)).sum(axis=0) + strength
    return stats.norm.pdf(slope, scale=scale) * curvature


def largest_delta(loss, adjacency, factor):
    """The exact delta at epsilon 1 over neighbours among records of norm sqrt(2), with this much of the noise."""
    norm, worst = 2**0.5, 0.0
    for others in ((), (1.0,) * 3, (1.0, -1.0), (0.2,) * 6):
        x = norm * np.array([*others, 1.0])[:, None]
        ends = [Problem(x, np.append(np.ones(len(others)), last), loss, norm) for last in (1.0, OTHER[adjacency])]
        shape = Shape(len(x), 1, ends[0].steepness, ends[0].bend)
        plan = METHODS["objective"](shape, Budget(1.0, DELTA, adjacency))
        scale = factor * plan.noise_multiplier * ends[0].steepness
        far = (norm * len(x) + 12 * scale) / plan.regularization
        theta, step = np.linspace(-far, far, 50_001, retstep=True)
        p, q = (density(end, plan.regularization, scale, theta) for end in ends)
        assert abs(p.sum() * step - 1) < 1e-4
        worst = max(worst, *(float(np.maximum(a - np.e * b, 0).sum() * step) for a, b in ((p, q), (q, p))))
    return worst


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge()])
def test_exact_densities_of_one_weight_stay_within_the_claim(loss, adjacency):
    """A quarter of the noise does not."""
    assert largest_delta(loss, adjacency, 1.0) <= DELTA
    assert largest_delta(loss, adjacency, 0.25) > DELTA
