"""Sampled groups, either direction by itself: sums over a fine grid of outcomes, which know no places of losses."""

import math

import numpy as np
import pytest

from tacit.core.events import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Poisson, Repeat
from tacit.loss import privacy_loss
from tacit.loss.lattice import Lattice
from tacit.loss.window import moment_doubt, rounding

LOGS = {
    Gaussian: lambda x, scale: -((x / scale) ** 2) / 2,
    Laplace: lambda x, scale: -np.abs(x) / scale,
    DiscreteGaussian: lambda x, scale: -((x / scale) ** 2) / 2,
    DiscreteLaplace: lambda x, scale: -np.abs(x) / scale,
}


def masses(kind, scale, rate, group):
    """P and Q of a sampled group at many outcomes: with its records, and without."""
    whole = kind in (DiscreteGaussian, DiscreteLaplace)
    x = np.arange(-400, 401) if whole else np.linspace(-60 * scale, 60 * scale + group, 400_001)
    raw = [np.exp(LOGS[kind](x - j, scale)) for j in range(group + 1)]
    chances = [math.comb(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(group + 1)]
    p, q = sum(w * part for w, part in zip(chances, raw, strict=True)), raw[0]
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("group", [2, 4])
@pytest.mark.parametrize("kind", list(LOGS))
@pytest.mark.parametrize(("scale", "rate"), [(1.0, 0.5), (2.5, 0.1)])
def test_both_directions_of_a_sampled_group(kind, scale, rate, group):
    loss = privacy_loss(Poisson(rate, kind(scale)), "add-remove", group=group)
    with_records, without = masses(kind, scale, rate, group)
    ways = zip(loss._directions, ((with_records, without), (without, with_records)), strict=True)
    for way, (p, q) in ways:
        for epsilon in (0.0, 0.1, 0.3):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
            for found in (way.delta(epsilon), Lattice(way.pairs).delta(epsilon)):
                assert found.lower <= truth * (1 + 1e-6) + 1e-9
                assert found.upper >= truth * (1 - 1e-6) - 1e-9


@pytest.mark.parametrize("rate", [1e-9, 0.3, 0.999999999])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_a_place_has_the_loss_it_was_asked_for(kind, group, rate):
    for scale in (0.1, 2.0):
        for adjacency in ("add-remove", "replace"):
            releases = privacy_loss(Poisson(rate, kind(scale)), adjacency, group=group).releases
            for pair in (releases[0][0].remove, releases[0][0].add):
                low, high = pair.reach(-40.0)
                losses = np.linspace(low, high, 301)[1:-1]
                places = pair.position(losses)
                inside = np.isfinite(places)
                assert inside.sum() > 250
                room = 200 * 2.0**-52 * (1 + max(abs(low), abs(high)))
                assert np.abs(pair.loss(places[inside]) - losses[inside]).max() <= room


def test_adding_a_group_may_cost_more_than_removing_it():
    """Exact sums with 30 digits: 0.11025370958852 when removed, 0.17631112512408 when added."""
    found = privacy_loss(Poisson(0.5, DiscreteLaplace(1.1467368298645566)), "add-remove", group=4)
    assert found.epsilon(0.49256682517194855).lower <= 0.17631112512408 <= found.epsilon(0.49256682517194855).upper


def test_chernoff_alone_shows_nothing_within_rounding():
    """A bound just below `known` is believed only with room for the rounding of ten million steps."""
    pairs = privacy_loss(Repeat(Poisson(1e-4, Laplace(1.0)), 10**7), "add-remove").releases
    lattice = Lattice(((pairs[0][0].remove, pairs[0][1]),))
    shown = [lattice.epsilon(1e-6, 100.0), lattice.epsilon(1e-6)]
    assert shown[0].upper == 100.0
    assert shown[1].upper < 100.0
    coarse = lattice._coarse(-30.0)
    largest = float(np.abs(coarse[0][0].losses).max())
    for tilt in (0.01, 1.0, 1e4):
        assert moment_doubt(coarse, tilt) >= 10**7 * 2.0**-52 * (3000 + 4 * tilt * largest)
        assert rounding(coarse, tilt)[1] >= 10**7 * 2.0**-52
