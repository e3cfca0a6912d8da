"""The law of every release on all pairs of small neighbouring data sets, beside the event that was charged.

What a release would draw is caught at the sampler: locations, scales and weights as they are handed over. Their laws
are closed forms, so delta(epsilon) of neighbours is computed and compared with the loss of the event.
"""

import functools
import importlib
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tacit import mechanism
from tacit.core import Adjacency
from tacit.loss import privacy_loss
from tacit.mechanism import aggregation, numeric, quantiles, ranges, selection
from tacit.mechanism.choices import Distances

NONE = (math.nan, None)
WORTH = (-3.0, 0.3, 7.0)


@pytest.fixture
def weights(monkeypatch):
    """What `by_weight` is given, as log probabilities; it chooses the first candidate."""
    caught = []

    def seen(distances: Distances, source, counts=None):
        logs = -np.array([float(distances.exact(i)) for i in range(distances.values.size)])
        logs = logs + (0 if counts is None else np.log(counts))
        caught.append((logs - np.logaddexp.reduce(logs), counts))
        return 0

    auction = importlib.import_module("tacit.mechanism.auction")
    for room in (selection, quantiles, ranges, auction):
        monkeypatch.setattr(room, "by_weight", seen)
    return caught


def neighbours(adjacency, size=3, worth=WORTH):
    """Pairs of data sets: one record more, one exchanged, or one made null, which stays in its place."""
    for rest in itertools.combinations_with_replacement(worth, size - 1):
        for one in worth:
            if adjacency == "add-remove":
                yield [*rest, one], [*rest]
            elif adjacency == "zero-out":
                yield from (([*rest, one], [*rest, null]) for null in NONE)
            else:
                yield from (([*rest, one], [*rest, other]) for other in worth if other != one)


def law(release, caught):
    """Log probabilities of all outputs; of a range, cell by cell."""
    caught.clear()
    found = release()
    logs, counts = caught[0]
    if counts is None:
        return found.event, logs
    return found.event, np.repeat(logs - np.log(counts), counts)


@functools.cache
def allowed(event, adjacency):
    loss = privacy_loss(event, Adjacency.of(adjacency))
    return [(epsilon, loss.delta(epsilon).upper) for epsilon in (0.0, 0.3, 0.6, 0.8)]


def exceeds(first, second, event, adjacency):
    """By how much delta of two laws is above that of the event, at several epsilons, both ways round."""
    worst = -1.0
    for epsilon, most in allowed(event, adjacency):
        for p, q in ((first, second), (second, first)):
            worst = max(worst, float(np.maximum(np.exp(p) - np.exp(q + epsilon), 0).sum()) - most)
    return worst


RANKED = {
    "median": lambda values, how: mechanism.median(values, bounds=(0, 1), epsilon=0.8, grid=8, adjacency=how, rng=1),
    "quantile": lambda values, how: mechanism.quantile(
        values, 0.9, bounds=(-1, 2), epsilon=0.8, grid=8, adjacency=how, rng=1
    ),
    "clipping_bound": lambda values, how: mechanism.clipping_bound(values, epsilon=0.8, adjacency=how, rng=1),
    "auction": lambda values, how: mechanism.auction(values, [0.3, 1.0, 5.0], epsilon=0.8, adjacency=how, rng=1),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
@pytest.mark.parametrize("name", RANKED)
def test_choices_from_records_cost_what_is_charged(name, adjacency, weights):
    found = {}
    for one, other in neighbours(adjacency):
        for data in (one, other):
            if repr(data) not in found:
                found[repr(data)] = law(lambda data=data: RANKED[name](data, adjacency), weights)
        (event, first), (_, second) = found[repr(one)], found[repr(other)]
        assert np.ptp(first - second) <= 0.8 + 1e-9, (one, other)  # bounded range, not only epsilon
        assert exceeds(first, second, event, adjacency) <= 1e-9, (one, other)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
@pytest.mark.parametrize("kind", [int, float, Decimal, Fraction])
def test_choices_from_scores_cost_what_is_charged(kind, adjacency, weights):
    """Counts of records are monotone, differences of counts are not; also where floats would round."""
    far = 2**60 if kind in (int, Decimal, Fraction) else 0
    moves = {True: [(0, 0), (0, 1), (1, 1)], False: [(0, 0), (0, 1), (-1, 1), (1, 1)]}
    for monotone, pairs in moves.items():
        both = itertools.product(pairs, pairs)
        moved = pairs if adjacency != "replace" else [(a - c, b - d) for (a, b), (c, d) in both]
        for move in moved:
            laws = []
            for scores in ((far, far + 1), (far + move[0], far + 1 + move[1])):
                given = [kind(score) for score in scores]
                event, found = law(
                    lambda given=given, monotone=monotone: mechanism.exponential(
                        given, sensitivity=1, epsilon=0.8, monotone=monotone, adjacency=adjacency, rng=1
                    ),
                    weights,
                )
                laws.append(found)
            assert np.ptp(laws[0] - laws[1]) <= 0.8 + 1e-9, (move, monotone)
            assert exceeds(*laws, event, adjacency) <= 1e-9


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
@pytest.mark.parametrize("kind", [int, float, np.float32, Decimal, Fraction, str])
def test_numbers_move_by_no_more_steps_than_are_charged(kind, adjacency, monkeypatch):
    caught = []

    def silent(scale, count, source):
        caught.append(scale)
        return np.zeros(count, np.int64)

    monkeypatch.setattr(numeric.draws, "discrete_laplace", silent)
    tiny = Decimal("1e-17")
    starts = (
        [Decimal(0), Decimal(2**70)]
        if kind is int
        else [Decimal(0), Decimal(2) ** -11 - tiny, Decimal(2) ** -11 + tiny, Decimal("0.1"), Decimal(2**60)]
    )
    times = 2 if adjacency == "replace" else 1
    for start in starts[:-1] if kind in (float, np.float32) else starts:
        places = []
        for value in (start, start + times):
            caught.clear()
            given = kind(value)
            with monkeypatch.context() as patch:
                patch.setattr(numeric, "off_grid", lambda steps, spacing: np.asarray(steps, dtype=object))
                patch.setattr(numeric.Grid, "noisy", lambda grid, value, noise: (noise(1), int(grid.steps(value)))[1])
                answer = mechanism.laplace(given, sensitivity=1, epsilon=0.8, adjacency=adjacency, rng=1)
            places.append(answer.value)
        moved = abs(places[1] - places[0])
        rounded = 1 if kind in (float, np.float32) else 0  # the value as computed moves by a little more than 1
        assert (moved - rounded) / caught[0] <= 0.8 * (1 + 1e-12), (start, moved)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
def test_the_mean_of_blocks_moves_by_no_more_than_is_charged(adjacency, monkeypatch):
    scales = []
    monkeypatch.setattr(
        aggregation, "discrete_laplace", lambda scale, count, source: (scales.append(scale), np.zeros(1, np.int64))[1]
    )
    bounds = (-0.1, 1.7)
    ends = [
        mechanism.subsample_and_aggregate(
            [0], lambda _, end=end: end, blocks=1, bounds=bounds, epsilon=0.8, adjacency=adjacency, rng=1
        )
        for end in bounds
    ]
    spacing = (Fraction(1.7) - Fraction(-0.1)) / ends[0].event.sensitivity / Adjacency.of(adjacency).sensitivity
    loss = (Fraction(ends[1].value) - Fraction(ends[0].value)) / spacing / scales[0]
    assert float(loss) <= 0.8 * (1 + 1e-5)
    assert float(loss) >= 0.8 * (1 - 1e-5)  # and no more noise than that
