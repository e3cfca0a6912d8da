"""Is the noise of the private estimators the noise that is charged? Mutants of scale 0.9 and 1.1 must fail."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("sklearn")
from tacit.core import Adjacency, source
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.erm import bins
from tacit.erm.bins import CELLS, cells_of_array
from tacit.erm.budget import Budget
from tacit.erm.losses import Logistic, SmoothHinge
from tacit.erm.methods import METHODS, Shape, run
from tacit.erm.problem import Problem
from tacit.erm.shape import Design
from tacit.erm.softmax import Softmax, descend

BUDGET = Budget(1.0, 1e-6, Adjacency.ADD_REMOVE)
PURE = Budget(1.0, 0.0, Adjacency.ADD_REMOVE)
RUNS = 4000
LEVEL = 1e-9
ROWS = np.random.default_rng(0).normal(size=(30, 2))
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True) * 1.01
PROBLEM = Problem(ROWS, np.where(ROWS[:, 0] > 0, 1.0, -1.0), Logistic(), 1.0)
NOBODY = Problem(np.zeros((30, 2)), np.zeros(30), Logistic(), 1.0)
SHAPE = Shape(30, 2, PROBLEM.steepness, PROBLEM.bend)


def is_normal(values, scale):
    """Kolmogorov and Smirnov's test of the shape, and a chi-square test of the variance, which is sharper."""
    unit = np.ravel(values) / scale
    tail = stats.chi2.sf(np.sum(unit**2), unit.size)
    return bool(stats.kstest(unit, "norm").pvalue > LEVEL and LEVEL < tail < 1 - LEVEL)


@functools.cache
def drawn(problem, design, budget=BUDGET):
    """What so many fits release; the same for every factor that it is compared with."""
    rng = source(1)
    return np.stack([run(problem, design, budget, rng) for _ in range(RUNS)])


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_output_noise(factor):
    design = METHODS["output"](SHAPE, BUDGET)
    strength = design.regularization
    middle = PROBLEM.minimum(strength, np.zeros(2), PROBLEM.reachable(strength, 0.0))
    contribution = PROBLEM.steepness / strength
    found = drawn(PROBLEM, design) - middle
    assert is_normal(found, factor * design.noise_multiplier * contribution) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_pure_noise_has_a_gamma_length(factor):
    design = METHODS["output"](SHAPE, PURE)
    found = np.linalg.norm(drawn(NOBODY, design, PURE), axis=1)
    scale = factor * PROBLEM.steepness / design.regularization / PURE.epsilon
    shape = stats.kstest(found, "gamma", args=(2, 0, scale)).pvalue > LEVEL
    off = abs(found.mean() - 2 * scale) / (scale * math.sqrt(2 / RUNS))
    assert bool(shape and off < 6.5) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_the_tilt_of_the_objective(factor):
    """The gradient of the objective without its tilt, at the released point, is minus the tilt."""
    design = METHODS["objective"](SHAPE, BUDGET)
    found = np.stack(
        [PROBLEM.gradient(theta) + design.regularization * theta for theta in drawn(PROBLEM, design)[:RUNS]]
    )
    assert is_normal(found, factor * design.noise_multiplier * PROBLEM.steepness) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_gradient_noise(factor):
    """Without records the last iterate of `dynamics` is a sum of its steps' noises."""
    design = METHODS["dynamics"](Shape(30, 2, 1.0, 0.25), BUDGET)
    keep = 1 - design.step_size * design.regularization
    spread = math.sqrt(sum(keep ** (2 * k) for k in range(design.steps)))
    scale = factor * spread * design.step_size * design.noise_multiplier / 30
    assert is_normal(drawn(NOBODY, design), scale) is (factor == 1.0)


WIDE, FEW = 20, 500
NO_ROWS = Problem(np.zeros((30, WIDE)), np.zeros(30), Logistic(), 1.0)


def averaged(design):
    """The deviation of the mean of the later half of a descent's iterates, over that of one noisy step."""
    keep, steps = 1 - design.step_size * design.regularization, design.steps
    later = [step for step in range(steps) if 2 * step >= steps]
    weight = [sum(keep ** (step - made) for step in later if step >= made) / len(later) for made in range(steps)]
    return math.sqrt(sum(each**2 for each in weight))


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_noise_of_descents_on_all_records_and_on_samples(rate, factor):
    """A noisy sum is divided by the expected number of records in it, not by how many there were."""
    event = Repeat(Gaussian(2.0) if rate == 1 else Poisson(rate, Gaussian(2.0)), 7)
    design = Design("gradient" if rate == 1 else "sgd", event, 2.0, 0.3, 7, 0.4, rate=rate)
    rng = source(2)
    found = [run(NO_ROWS, design, BUDGET, rng) for _ in range(FEW)]
    scale = design.step_size * design.noise_multiplier / (rate * 30) * averaged(design)
    assert is_normal(found, factor * scale) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_noise_of_softmax_regression(factor):
    """A record's gradient is up to sqrt(2) long there: (p - e_y) x^T."""
    problem = Softmax(np.zeros((30, WIDE // 4)), np.full(30, -1), 4, 1.0)
    design = Design("softmax", Repeat(Gaussian(2.0), 7), 2.0, 0.3, 7, 0.4)
    rng = source(3)
    found = [descend(problem, design, rng) for _ in range(FEW)]
    scale = design.step_size * 2.0 * math.sqrt(2.0) / 30 * averaged(design)
    assert is_normal(found, factor * scale) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_noise_on_the_end_of_a_descent_without_noise(factor):
    """N(0, (z T eta s/n)^2 I): docs/proofs/erm.md, Theorem 8."""
    design = Design("smooth", Gaussian(2.0), 2.0, 0.3, 7, 0.4)
    rng = source(4)
    found = [run(NO_ROWS, design, BUDGET, rng) for _ in range(FEW)]
    assert is_normal(found, factor * 2.0 * 7 * 0.4 / 30) is (factor == 1.0)


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_noise_of_the_counts_that_place_bins(monkeypatch, factor):
    """A record is in one cell of each of five numbers, so it moves the counts by sqrt(5)."""
    seen = []
    monkeypatch.setattr(bins, "joined", lambda counts, *_: seen.append(counts) or np.zeros(CELLS, dtype=np.int64))
    cells = cells_of_array(np.zeros((0, 5)), (-np.ones(5), np.ones(5)))
    rng = source(5)
    for _ in range(8):
        bins.counted_bins(cells, 30, 4, 2.0, rng)
    assert np.shape(seen) == (40, CELLS)
    assert is_normal(seen, factor * 2.0 * math.sqrt(5)) is (factor == 1.0)


@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge(), SmoothHinge(0.1)])
def test_no_loss_is_steeper_or_more_curved_than_it_says(loss):
    margin = np.linspace(-4, 4, 200_001)
    step = margin[1] - margin[0]
    slope, curvature = loss.slope(margin), loss.curvature(margin)
    assert np.abs(slope).max() <= loss.lipschitz
    assert 0 <= curvature.min() <= curvature.max() <= loss.smoothness
    assert np.abs(np.gradient(loss.value(margin), step)[1:-1] - slope[1:-1]).max() < 1e-3
    assert np.abs(np.gradient(slope, step)[1:-1] - curvature[1:-1]).max() < 1e-2


@pytest.mark.parametrize("strength", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("loss", [Logistic(), SmoothHinge()])
def test_one_record_moves_the_minimiser_by_at_most_its_share(loss, strength):
    """Records of full norm, alone and against thousands of others; the worst comes within a factor 2 of the bound."""
    rng, worst = np.random.default_rng(1), 0.0
    for size in (0, 1, 5, 40):
        for _ in range(20):
            rows = rng.normal(size=(size + 1, 2))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            rows[:-1] *= rng.choice([0.01, 1.0])
            y = np.ones(size + 1)
            all_, fewer = (Problem(rows[:k], y[:k], loss, 1.0) for k in (size + 1, size))
            points = [each.minimum(strength, np.zeros(2), 1e-7) for each in (all_, fewer)]
            worst = max(worst, float(np.linalg.norm(points[0] - points[1])))
    rows, y = np.tile([[1.0, 0.0]], (4001, 1)), np.append(np.ones(4000), -1.0)
    rows[-1] = 0.5, math.sqrt(0.75)  # steep because the others are sure, and free to move beside them
    all_, fewer = (Problem(rows[:k], y[:k], loss, 1.0) for k in (4001, 4000))
    points = [each.minimum(strength, np.zeros(2), 1e-6) for each in (all_, fewer)]
    worst = max(worst, float(np.linalg.norm(points[0] - points[1])))
    share = loss.lipschitz / strength
    assert worst <= share * (1 + 1e-5)
    assert worst >= share / 2 or strength < 3
