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
from tacit.mechanism import aggregation, numeric, quantiles, ranges, robust, selection, thresholds
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
    for room in (selection, ranges, auction):
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
    moves = {True: [(0, 0), (0, 1), (1, 0), (1, 1)], False: [(0, 0), (0, 1), (-1, 1), (1, -1)]}
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
    spacing = aggregation.power_of_two((Fraction(1.7) - Fraction(-0.1)) / 2**20)
    loss = (Fraction(ends[1].value) - Fraction(ends[0].value)) / spacing / scales[0]
    assert float(loss) <= 0.8 * (1 + 1e-5)
    assert float(loss) >= 0.8 * (1 - 1e-5)  # and no more noise than that


def laplace_law(scale, place=0, reach=400):
    """P(k) of discrete Laplace noise around `place`, for k from -reach to reach."""
    return np.exp(-np.abs(np.arange(-reach, reach + 1) - place) / scale) * math.tanh(1 / (2 * scale))


def hockey(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def replaced(top, size):
    """All pairs of sorted whole numbers up to `top` that differ in one."""
    for data in itertools.combinations_with_replacement(range(top + 1), size):
        for place, value in itertools.product(range(size), range(top + 1)):
            yield data, tuple(sorted((*data[:place], value, *data[place + 1 :])))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.1), (1.0, 0.01), (2.0, 0.9)])
def test_medians_with_fitted_noise_keep_epsilon_and_delta(epsilon, delta):
    beta, half = min(math.log1p(epsilon / (2 * math.log(2 / delta))), epsilon / 2) - 2 * robust.SLACK, epsilon / 2
    limit = math.ceil(-math.log(delta) / half)
    smooth, tested, test = {}, {}, laplace_law(1 / half)
    for data in itertools.combinations_with_replacement(range(6), 3):
        values = np.array(data)
        middle = robust._median(values)
        smooth[data] = laplace_law(robust.smooth_sensitivity(values, 5, beta) / half, middle)
        passed = test[np.arange(-400, 401) + robust.distance(values, 5, 1) > limit].sum()
        tested[data] = np.append(passed * laplace_law(1 / half, middle), 1 - passed)
    for one, other in replaced(5, 3):
        assert hockey(smooth[one], smooth[other], epsilon) <= delta
        assert hockey(tested[one], tested[other], epsilon) <= delta


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_first_query_above_costs_what_is_charged(adjacency, monotone, monkeypatch):
    scales = []
    monkeypatch.setattr(thresholds, "FINE", 1)
    monkeypatch.setattr(
        thresholds, "discrete_laplace", lambda scale, size, source: (scales.append(scale), np.zeros(size, np.int64))[1]
    )
    mechanism.above_threshold([0.0], 1.0, sensitivity=1, epsilon=1.5, monotone=monotone, adjacency=adjacency, rng=1)
    level, noise = (laplace_law(float(scale)) for scale in scales)
    below = np.concatenate([np.zeros(20), np.cumsum(noise), np.full(20, noise.sum())])  # P(noise <= k)
    one = [(0, 0, 0), (0, 1, 0), (1, 1, 1), (1, 0, 1)] if monotone else list(itertools.product((-1, 0, 1), repeat=3))
    moves = {tuple(np.subtract(a, b)) for a, b in itertools.product(one, one)} if adjacency == "replace" else set(one)

    def first_above(queries):
        left, found = level.copy(), []
        for query in queries:
            under = below[20 - 1 - query + np.arange(801)]  # P(query + noise < 0 + level noise)
            found.append((left * (1 - under)).sum())
            left = left * under
        return np.array([*found, left.sum()])

    for start, move in itertools.product([(0, 0, 0), (-2, 2, 1)], sorted(moves)):
        p, q = first_above(start), first_above(np.add(start, move))
        assert max(np.abs(np.log(p / q))) <= 1.5 + 1e-9


def first_of(queries, level, noise):
    """P that each query is the first found at or above a noisy 0, and last that none is; noises as P on -r .. r."""
    reach = level.size // 2
    below = np.concatenate([[0.0], np.cumsum(noise)])  # P(noise < k)
    left, found = level.copy(), []
    for query in queries:
        under = below[np.clip(np.arange(-reach, reach + 1) - query + reach, 0, below.size - 1)]
        found.append((left * (1 - under)).sum())
        left = left * under
    return np.array([*found, left.sum()])


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
@pytest.mark.parametrize("share", [0.25, 0.9])
def test_clipping_bounds_cost_what_is_charged(adjacency, share, monkeypatch):
    """The number of values within each power, less its share of all: every pair of neighbours, on a grid of 1/8."""
    monkeypatch.setattr(quantiles, "FINE", 8)
    caught = []

    def seen(scale, count, source):
        caught.append((scale, count))
        return np.zeros(count, np.int64)

    monkeypatch.setattr(quantiles, "discrete_laplace", seen)
    mechanism.clipping_bound([1.0], epsilon=0.8, share=share, adjacency=adjacency, rng=1)
    (first, one), (second, candidates) = caught
    assert (one, candidates) == (1, quantiles.HIGHEST - quantiles.LOWEST + 1)
    level, noise = laplace_law(float(first), 0, 800), laplace_law(float(second), 0, 800)
    wanted = round(share * 8)

    def queries(values):
        sizes = np.sort(np.abs(np.nan_to_num(np.array(values, dtype=float))))
        return 8 * np.searchsorted(sizes, [0.25, 0.5, 1.0, 8.0], side="right") - wanted * sizes.size

    moved = against = 0
    for one, other in neighbours(adjacency, 4, (0.0, 0.3, 0.7, 7.0)):
        change = queries(one) - queries(other)
        moved, against = max(moved, np.abs(change).max()), max(against, np.ptp(change))
        p, q = (first_of(queries(data), level, noise) for data in (one, other))
        assert max(np.abs(np.log(p / q))) <= 0.8 + 1e-6, (one, other)
    assert moved / first + int(against) / second == Fraction(0.8)  # what the proof of sparse vector adds up


@pytest.mark.parametrize("adjacency", ["replace", "zero-out"])
def test_a_thresholdout_pays_for_what_one_holdout_record_moves(adjacency):
    """A mean of 7 values moves by a seventh: by as many steps as its noises are made for, and hardly fewer."""
    board = mechanism.Thresholdout(size=7, threshold=0.1, epsilon=1.0, budget=1, adjacency=adjacency, rng=1)
    moved = max(
        abs(board._mean([*rest, one], 7) - board._mean([*rest, other], 7))
        for rest in ([0.0] * 6, [1 / 3] * 6, [0.1, 0.2, 0.9, 1.0, math.nan, 0.7])
        for one, other in ((0.0, 1.0), (math.nan, 1.0), (0.5, 2.0))
    )
    level, queries, answer = board._noises[0], board._noises[1], board._answer
    losses = [moved / level, 2 * moved / queries, moved / answer]
    assert max(losses[0] + losses[1], losses[2]) <= 0.5
    assert min(losses[0] + losses[1], losses[2]) >= 0.49


@pytest.mark.parametrize(("adjacency", "share"), [("add-remove", 1), ("replace", 2)])
def test_keys_of_one_person_keep_epsilon_and_delta(adjacency, share, monkeypatch):
    """Two keys at most for each person: every pair of tables in which one person has others, or is not there."""
    scales, epsilon, delta = [], 1.0, 0.05
    monkeypatch.setattr(
        "tacit.mechanism.keys.discrete_laplace",
        lambda scale, count, source: (scales.append(scale), np.zeros(count, np.int64))[1],
    )
    found = mechanism.unknown_keys(
        {"a": 1}, epsilon=epsilon, delta=delta, keys_per_person=2, adjacency=adjacency, rng=1
    )
    limit, held = int(found.notes[0].split("number of ")[1].split()[0]), [(), ("a",), ("b",), ("a", "b")]

    def shown(count):
        """P of each number that is shown, and last that nothing is."""
        law = laplace_law(float(scales[0]), count, 120)[120 + limit :] if count else np.zeros(121 - limit)
        return np.append(law, 1 - law.sum())

    def both(base, *people):
        counts = [base + sum(key in person for person in people) for key in "ab"]
        return np.multiply.outer(shown(counts[0]), shown(counts[1]))

    for base, rest, one, other in itertools.product([0, 30], held, held, held if share == 2 else [()]):
        assert hockey(both(base, rest, one), both(base, rest, other), epsilon) <= delta
        assert hockey(both(base, rest, other), both(base, rest, one), epsilon) <= delta
