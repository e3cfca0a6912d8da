"""Correlated noise on cyclic Poisson samples, against integrals over all that is released and against other events."""

import itertools
import math

import numpy as np
import pytest

from tacit.core.errors import BadInput, Unsupported
from tacit.core.events import BandedFactorisation, CyclicPoisson, Gaussian, Poisson, Repeat
from tacit.loss import privacy_loss
from tacit.loss.factorised import turns

POINTS = 101


def matrix(shares, steps):
    return np.array([[shares[k - i] if 0 <= k - i < len(shares) else 0.0 for i in range(steps)] for k in range(steps)])


def density(event, group, moves, grid):
    """The density of all three rows at every point of the grid, when the record moves step k by moves[k] if sampled."""
    encoder, turns_ = matrix(event.coefficients, event.steps), range(group, event.steps, event.cycle)
    total = np.zeros((POINTS,) * event.steps)
    for coins in itertools.product((0, 1), repeat=len(turns_)):
        mean = sum((coin * moves[k] * encoder[:, k] for coin, k in zip(coins, turns_, strict=True)), np.zeros(3))
        weight = math.prod(event.rate if coin else 1 - event.rate for coin in coins)
        bells = [np.exp(-((grid - place) ** 2) / (2 * event.noise_multiplier**2)) for place in mean]
        total += weight * np.einsum("i,j,k->ijk", *bells)
    return total * ((grid[1] - grid[0]) / (event.noise_multiplier * math.sqrt(2 * math.pi))) ** event.steps


EVENTS = (
    CyclicPoisson(1.0, 0.3, (1.0, 0.7), 3, 2),
    CyclicPoisson(0.8, 0.5, (0.6, -0.8), 3, 2),
    CyclicPoisson(1.2, 0.2, (1.0, 0.5, 0.4), 3, 3),
    CyclicPoisson(0.9, 0.4, (1.0,), 3, 1),
)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace"])
def test_the_interval_holds_the_integral_over_all_rows(event, adjacency):
    """Brute force knows nothing of blocks: it integrates over three rows, for every group and for signs of moves."""
    grid = np.linspace(-9.0, 9.0, POINTS) * event.noise_multiplier
    loss = privacy_loss(event, adjacency)
    ends = {epsilon: loss.delta(epsilon) for epsilon in (0.0, 0.4, 1.0)}
    seen = dict.fromkeys(ends, 0.0)
    for group in range(event.cycle):
        for moves in ((1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 0.3, -0.6)):
            one = density(event, group, moves, grid)
            back = [-move for move in moves] if adjacency == "replace" else [0.0] * 3
            two = density(event, group, back, grid)
            for epsilon in ends:
                both = [np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for p, q in ((one, two), (two, one))]
                seen[epsilon] = max(seen[epsilon], *both)
    for epsilon, end in ends.items():
        assert seen[epsilon] <= end.upper + 2e-4
        assert seen[epsilon] >= end.lower - 2e-4
        assert end.upper > 1e-3 or epsilon > 0


def test_a_rate_that_is_not_scaled_is_caught():
    """The mutant that counts steps but samples from all groups: its bound is below the integral."""
    event = EVENTS[0]
    wrong = privacy_loss(Repeat(Poisson(event.rate / event.cycle, Gaussian(event.noise_multiplier)), 2), "add-remove")
    grid = np.linspace(-9.0, 9.0, POINTS)
    one, two = (density(event, 0, (move,) * 3, grid) for move in (1.0, 0.0))
    assert np.maximum(one - two, 0.0).sum() > wrong.delta(0.0).upper + 0.05


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace"])
def test_it_is_what_it_should_be_at_its_ends(adjacency):
    shares = (1.0, 0.5, 0.375)
    all_sampled = privacy_loss(CyclicPoisson(4.0, 1.0, shares, 20, 4), adjacency).epsilon(1e-5)
    fixed = privacy_loss(BandedFactorisation(4.0, shares, 20, 5, 4), adjacency).epsilon(1e-5)
    assert all_sampled.upper == pytest.approx(fixed.upper, rel=1e-12)
    one_band = privacy_loss(CyclicPoisson(1.5, 0.05, (1.0,), 300, 1), adjacency).epsilon(1e-5)
    poisson = privacy_loss(Repeat(Poisson(0.05, Gaussian(1.5)), 300), adjacency).epsilon(1e-5)
    assert one_band.upper == pytest.approx(poisson.upper, rel=1e-9)
    assert privacy_loss(CyclicPoisson(1.5, 0.0, shares, 300, 3), adjacency).epsilon(1e-5).upper == 0
    assert privacy_loss(CyclicPoisson(1.5, 0.3, (0.0,), 300, 3), adjacency).epsilon(1e-5).upper == 0


def test_amplification_helps_and_the_papers_bound_is_not_beaten_from_above():
    """The paper takes the largest column norm for all ceil(T/cycle) turns; ours cuts the last column off."""
    for steps, cycle, shares in ((100, 4, (1.0, 0.5, 0.375)), (101, 8, (1.0, 0.9, 0.8, 0.7)), (7, 3, (0.1, 5.0))):
        event = CyclicPoisson(2.0, 0.1, shares, steps, cycle)
        largest = math.sqrt(sum(share**2 for share in shares))
        paper = Repeat(Poisson(0.1, Gaussian(2.0 / largest)), -(-steps // cycle))
        ours, theirs = (privacy_loss(item, "add-remove").epsilon(1e-6).upper for item in (event, paper))
        fixed = BandedFactorisation(2.0, shares, steps, -(-steps // cycle), cycle)
        assert ours <= theirs * (1 + 1e-9)
        assert ours >= theirs * 0.5
        assert ours < 0.7 * privacy_loss(fixed, "add-remove").epsilon(1e-6).upper


def test_columns_are_those_of_the_first_group_and_none_is_longer():
    rng = np.random.default_rng(7)
    for _ in range(60):
        cycle = int(rng.integers(1, 6))
        shares = tuple(rng.normal(size=int(rng.integers(1, cycle + 1))))
        steps = int(rng.integers(1, 20))
        encoder = matrix(shares, steps)
        lengths = [np.linalg.norm(encoder[:, group::cycle], axis=0) for group in range(min(cycle, steps))]
        found = [one for one, count in turns(CyclicPoisson(1.0, 0.5, shares, steps, cycle)) for _ in range(count)]
        assert np.allclose(found, lengths[0], rtol=1e-12)
        for other in lengths[1:]:
            assert np.all(other <= lengths[0][: other.size] * (1 + 1e-12))


def test_what_has_no_theorem_is_refused():
    with pytest.raises(BadInput, match="at most 2 coefficients"):
        CyclicPoisson(1.0, 0.1, (1.0, 0.5, 0.3), 10, 2)
    with pytest.raises(Unsupported, match="one record"):
        privacy_loss(EVENTS[0], "add-remove", group=2)
