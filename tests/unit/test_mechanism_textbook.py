"""Numbers of textbooks and lectures, as releases; sensitivities by adjacency; what leaderboards are for."""

import math
from collections import Counter

import numpy as np
import pytest

import tacit
from mechanism_releases import NUMBERS
from tacit import mechanism
from tacit.core import source
from tacit.core.events import BoundedRange, DiscreteGaussian, DiscreteLaplace, Gaussian, Repeat
from tacit.mechanism import keys, robust, scales


def test_hair_colour():
    """500 against 399 at epsilon 0.1, counts (monotone): dark wins with probability at least 0.973."""
    counts = {"dark": 500, "brown": 399, "blond": 10, "red": 2}
    two = list(counts.values())[:2]
    gap = (two[0] - two[1]) * 0.1 / 2
    assert 1 - math.exp(-gap) - 2 * math.exp(-24) >= 0.973  # the general scale: what the deck computes
    chance = source(8)
    found = [
        mechanism.exponential(list(counts.values()), sensitivity=1, epsilon=0.1, rng=chance).value for _ in range(4000)
    ]
    assert Counter(found)[0] / 4000 >= 0.973
    sharper = mechanism.exponential(list(counts.values()), sensitivity=1, epsilon=0.1, monotone=True)
    assert sharper.error == pytest.approx(math.log(4 / 0.05) / 0.1)


@pytest.mark.parametrize(("adjacency", "within"), [("add-remove", 192), ("replace", 384)])
def test_ten_thousand_first_names(adjacency, within):
    """All within (10 + log k)/epsilon with failure at most e^-10; the double under replace."""
    counts = np.arange(10_000)
    answer = mechanism.laplace(
        counts, sensitivity=1, epsilon=0.1, adjacency=adjacency, confidence=1 - math.exp(-10), rng=2
    )
    assert answer.error == within
    assert np.abs(answer.value - counts).max() <= within
    assert answer.value.dtype == np.int64


def test_randomized_response_needs_more_people_than_laplace():
    """At equal epsilon: error about 1/(gamma sqrt n) against 2/(n epsilon), gamma = tanh(epsilon/2)/2 (deck E)."""
    n, epsilon = 10_000, 1.0
    answers = np.arange(n) < 0.3 * n
    local = mechanism.randomized_response(answers, epsilon=epsilon, categories=[False, True], rng=3)
    central = mechanism.laplace(float(answers.mean()), sensitivity=1 / n, epsilon=epsilon, rng=3)
    assert local.trust == "local"
    assert central.trust == "central"
    assert abs(local.value[1] - 0.3) <= local.error
    assert local.value.sum() == pytest.approx(1)
    gamma = math.tanh(epsilon / 2) / 2
    assert local.error == pytest.approx(math.sqrt(math.log(2 / 0.05) / 2) / (2 * gamma * math.sqrt(n)))
    assert local.error > 50 * central.error


def test_responses_are_unbiased_and_estimated_alike():
    people, chance = ["a"] * 600 + ["b"] * 300 + ["c"] * 100, source(4)
    sent = [mechanism.respond(person, epsilon=2.0, categories=["a", "b", "c"], rng=chance) for person in people]
    found = mechanism.estimate(sent, epsilon=2.0, categories=["a", "b", "c"])
    assert np.abs(found.value - [0.6, 0.3, 0.1]).max() <= found.error
    truthful = sum(a == b for a, b in zip(people, sent, strict=True)) / 1000
    assert truthful == pytest.approx(math.exp(2) / (math.exp(2) + 2), abs=0.04)


def test_k_counts_share_a_budget():
    """One person in k counts: L1 norm k, so noise k/epsilon on each (deck E)."""
    answer = mechanism.laplace(np.zeros(10, int), sensitivity=10, epsilon=1.0)
    assert answer.event == DiscreteLaplace(1.0, 10)


def test_releasing_all_counts_costs_more_than_the_winner():
    """The winner of 1,000 counts that each person may be in: noisy max has scale 1/epsilon, all counts 1000/epsilon."""
    winner = mechanism.noisy_max(np.zeros(1000), sensitivity=1, epsilon=1.0, noise="laplace", monotone=True)
    everything = mechanism.laplace(np.zeros(1000, int), sensitivity=1000, epsilon=1.0)
    assert winner.error < 25 < 8000 < everything.error


def test_laplace_against_gaussian_mean_in_many_dimensions():
    """Unit vectors: L1 norm sqrt(d), Euclidean norm 1; for large d Gaussian noise is far smaller (deck E)."""
    d, n = 1024, 1000
    laplace = mechanism.laplace(np.zeros(d), sensitivity=math.sqrt(d) / n, epsilon=1.0)
    gaussian = mechanism.gaussian(np.zeros(d), sensitivity=1 / n, epsilon=1.0, delta=1e-6)
    assert gaussian.error < laplace.error / 10
    assert isinstance(gaussian.event, Gaussian)


def test_the_classic_rule_is_for_teaching():
    """sqrt(2 log(1.25/delta))/epsilon is more noise than is needed, and refused where it is not proven."""
    classic = mechanism.classic_noise_multiplier(0.5, 1e-5)
    needed = scales.gaussian_multiplier(0.5, 1e-5, tacit.Adjacency.ADD_REMOVE)
    assert classic == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.5)
    assert needed < classic


def test_the_event_is_that_of_the_grid():
    """A real number is rounded first: steps of sensitivity, enlarged by rounding, are what is charged."""
    one = mechanism.laplace(1 / 3, sensitivity=1.0, epsilon=0.5)
    assert one.event == DiscreteLaplace(2.0, 1024)
    uneven = mechanism.laplace(1 / 3, sensitivity=0.3, epsilon=0.5)
    spacing = 2.0**-12
    assert uneven.event == DiscreteLaplace(2.0, math.ceil(0.3 / spacing))
    assert uneven.value / spacing == round(uneven.value / spacing)
    three = mechanism.laplace(np.zeros(3), sensitivity=1.0, epsilon=0.5)
    assert three.event.sensitivity == 4096 + 2
    whole = mechanism.gaussian(7, sensitivity=2, epsilon=1.0, delta=1e-6)
    assert isinstance(whole.event, DiscreteGaussian)
    assert type(whole.value) is int
    assert tacit.privacy_loss(whole.event, "add-remove").epsilon(1e-6).upper <= 1.0
    less = DiscreteGaussian(whole.event.noise_multiplier * (1 - 1e-6), 2)
    assert tacit.privacy_loss(less, "add-remove").epsilon(1e-6).upper > 1.0


def test_rounding_never_moves_neighbours_apart_by_more_than_is_charged():
    """Half-way values and their neighbours: banker's rounding would be one step too far (0.5 and 1.5 to 0 and 2)."""
    from fractions import Fraction

    from tacit.mechanism.inputs import on_grid

    rng = np.random.default_rng(1)
    halves = np.concatenate(
        (np.arange(-50, 50) + 0.5, np.nextafter(np.arange(-50, 50) + 0.5, -1e9), rng.normal(0, 9, 200))
    )
    for move in (1.0, 3.0, 2.0**-3):
        near = np.array([x for x in halves.tolist() if Fraction(x + move) - Fraction(x) <= move])
        moved = on_grid(near + move, Fraction(1)) - on_grid(near, Fraction(1))
        assert moved.max() <= math.ceil(move)
        assert moved.min() >= 0
    assert on_grid(np.array([0.49999999999999994, 0.5, -0.5, 2.5, 1e300, 5e-324]), Fraction(1)).tolist() == [
        0, 1, 0, 3, int(1e300), 0,
    ]  # fmt: skip


def test_every_error_is_kept_as_often_as_it_says():
    """300 releases at confidence 0.9, all errors at once: at least 240 keep it (a right one fails with chance 1e-8)."""
    chance = source(6)
    values = np.array([0.5, -3.25, 1e6])
    kept = {"laplace": 0, "gaussian": 0, "exponential": 0, "top": 0}
    scores = np.arange(20.0)
    for _ in range(300):
        one = mechanism.laplace(values, sensitivity=1.0, epsilon=1.0, confidence=0.9, rng=chance)
        two = mechanism.gaussian(values, sensitivity=1.0, epsilon=1.0, delta=1e-6, confidence=0.9, rng=chance)
        three = mechanism.exponential(scores, sensitivity=1, epsilon=1.0, confidence=0.9, rng=chance)
        four = mechanism.top(scores, 2, sensitivity=1, epsilon=2.0, confidence=0.9, rng=chance)
        kept["laplace"] += bool(np.abs(one.value - values).max() <= one.error)
        kept["gaussian"] += bool(np.abs(two.value - values).max() <= two.error)
        kept["exponential"] += bool(scores.max() - scores[three.value] <= three.error)
        kept["top"] += bool(scores.max() - scores[four.value[0]] <= four.error)
    assert min(kept.values()) >= 240
    assert kept["laplace"] < 300


def test_top_is_composed_and_its_rounds_grow_with_delta():
    pure = mechanism.top(NUMBERS, 4, sensitivity=1, epsilon=1.0)
    loose = mechanism.top(NUMBERS, 4, sensitivity=1, epsilon=1.0, delta=1e-3)
    assert pure.event == Repeat(BoundedRange(0.25), 4)
    assert loose.event.event.epsilon > 0.25
    assert len(set(loose.value.tolist())) == 4
    assert tacit.privacy_loss(loose.event, "add-remove").epsilon(1e-3).upper <= 1.0


def test_quantiles_are_near_and_within_bounds():
    values = np.random.default_rng(2).normal(50, 10, 5000)
    for q, true in ((0.1, 37.2), (0.5, 50.0), (0.9, 62.8)):
        found = mechanism.quantile(values, q, bounds=(0, 100), epsilon=1.0, rng=1).value
        assert found == pytest.approx(true, abs=1.5)
    assert 0 <= mechanism.quantile([1e9, -1e9], 1.0, bounds=(0, 100), epsilon=1.0, rng=1).value <= 100
    assert mechanism.clipping_bound(values, epsilon=1.0, share=0.9, rng=1).value == 64.0  # 92 % are below
    assert mechanism.clipping_bound(values, epsilon=1.0, share=0.95, rng=1).value == 128.0


def test_prices_are_public_and_well_chosen():
    """Three bids of 1 and three of 3: price 3 brings in 9, and a price above all bids nothing."""
    bids = np.array([1.0] * 30 + [3.0] * 30)
    found = [mechanism.auction(bids, [1, 2, 3, 4], epsilon=2.0, rng=seed).value for seed in range(50)]
    assert Counter(found).most_common(1)[0][0] == 3.0
    with pytest.raises(tacit.BadInput, match="bids themselves"):
        mechanism.auction(bids, bids, epsilon=1.0)
    with pytest.raises(tacit.BadInput, match="bids themselves"):
        mechanism.auction(bids, bids[::2], epsilon=1.0)


def test_keys_of_one_person_are_shown_with_at_most_delta():
    """The limit by formula, and the order of the dictionary says nothing."""
    from fractions import Fraction

    for epsilon, delta, most in ((1.0, 1e-6, 1), (0.5, 1e-3, 3), (5.0, 1e-9, 10)):
        limit, r = keys.threshold(Fraction(most) / Fraction(epsilon), delta, most), math.exp(-epsilon / most)
        shown = r ** (limit - 1) / (1 + r)
        assert 1 - (1 - shown) ** most <= delta * (1 + 1e-9)
        assert 1 - (1 - r ** (limit - 2) / (1 + r)) ** most > delta or limit == 2
    counts = {"b": 900, "a": 500, 3: 500, ("x", 1): 100}
    one = mechanism.unknown_keys(counts, epsilon=50.0, delta=1e-6, rng=1)
    two = mechanism.unknown_keys(dict(reversed(counts.items())), epsilon=50.0, delta=1e-6, rng=1)
    assert list(one.value) == list(two.value) == ["b", 3, "a", ("x", 1)]
    assert mechanism.unknown_keys({"secret": 1}, epsilon=1.0, delta=1e-9, rng=1).value == {}


def test_smooth_sensitivity_is_smooth_and_right_on_small_cases():
    """By listing all neighbours on a range of 0 .. 3: A_k is the largest local sensitivity within distance k."""
    from itertools import product

    top, n, beta = 3, 3, 0.3
    every = {data: np.sort(data) for data in product(range(top + 1), repeat=n)}
    medians = {data: int(sorted_[1]) for data, sorted_ in every.items()}

    def apart(a, b):
        return sum(x != y for x, y in zip(a, b, strict=True))

    local = {a: max(abs(medians[a] - medians[b]) for b in every if apart(a, b) <= 1) for a in every}
    for a, sorted_ in every.items():
        for k in range(n + 1):
            true = max(local[b] for b in every if apart(a, b) <= k)
            assert robust.local_sensitivity(sorted_, top, k) == true
        for b in every:
            if apart(a, b) == 1:
                ratio = robust.smooth_sensitivity(every[a], top, beta) / robust.smooth_sensitivity(every[b], top, beta)
                assert abs(math.log(ratio)) <= beta + 1e-9
                assert abs(robust.distance(every[a], top, 1) - robust.distance(every[b], top, 1)) <= 1


def test_calm_data_pass_the_test_and_wild_data_do_not():
    calm, wild = np.full(400, 5.0), np.tile([0.0, 10.0], 3)
    terms = {"bounds": (0, 10), "proposal": 0.1, "epsilon": 1.0, "delta": 1e-6}
    assert mechanism.propose_test_release(calm, **terms, rng=1).value == pytest.approx(5, abs=2)
    assert mechanism.propose_test_release(wild, **terms, rng=1).value is None
    smooth = mechanism.smooth_median(calm, bounds=(0, 10), epsilon=1.0, delta=1e-6, rng=1)
    assert smooth.value == pytest.approx(5, abs=0.2)
    assert smooth.adjacency is tacit.Adjacency.REPLACE


def test_a_function_that_fails_on_one_person_tells_nothing():
    def fragile(block):
        if 13.0 in block:
            raise RuntimeError("thirteen")
        return float(np.mean(block))

    data = np.array([5.0] * 99 + [13.0])
    answer = mechanism.subsample_and_aggregate(data, fragile, blocks=10, bounds=(0, 10), epsilon=20.0, rng=1)
    assert answer.value == pytest.approx(5, abs=answer.error)


def test_above_threshold_reads_no_farther_than_it_must():
    read = []

    def queries():
        for i, value in enumerate([0, 0, 1000, 0, 1000, 0]):
            read.append(i)
            yield value

    answer = mechanism.above_threshold(queries(), 500, sensitivity=1, epsilon=1.0, rng=1)
    assert answer.value == (2,)
    assert read == [0, 1, 2]
    assert "error depends on the data" in answer.notes
    both = mechanism.above_threshold([0, 0, 1000, 0, 1000, 0], 500, sensitivity=1, epsilon=1.0, count=2, rng=1)
    assert both.value == (2, 4)


def test_a_ladder_with_a_step_is_not_overfitted():
    """Labels are coin flips: nobody can truly do better than 1/2 (Blum and Hardt's boosting attack)."""
    from examples.leaderboards import boosted

    truth = np.random.default_rng(1).integers(0, 2, 1000)
    ladder = mechanism.Ladder(truth, step=0.05)
    assert ladder.submit(boosted(ladder.submit, truth, np.random.default_rng(2))) > 0.43


def test_thresholdout_answers_from_the_training_set_until_it_overfits():
    board = mechanism.Thresholdout(size=10_000, threshold=0.05, epsilon=10.0, budget=2, rng=1)
    assert board.query(np.full(100, 0.5), np.full(10_000, 0.51)) == pytest.approx(0.5)
    assert board.query(np.full(100, 0.9), np.full(10_000, 0.5)) == pytest.approx(0.5, abs=0.01)
    assert board.left == 1
    assert board.query([0.9, math.nan], np.full(10_000, 0.1)) == pytest.approx(0.1, abs=0.01)
    with pytest.raises(tacit.BudgetExceeded):
        board.query([0.5], np.full(10_000, 0.5))
    assert tacit.privacy_loss(board.event, board.adjacency).epsilon(0.0).upper <= 10 + 1e-9


def test_competitors_overfit_naive_boards_and_no_others():
    from examples.leaderboards import accuracies, losses

    shown = losses()
    assert shown["naive"] < 0.4
    assert shown["ladder"] > 0.46
    found = accuracies(rng=5)
    assert found["naive"] > 0.57
    assert abs(found["thresholdout"] - 0.5) < 0.02


def test_the_textbook_s_numbers_are_an_example():
    from examples.textbook import first_names, hair_colour, main

    assert hair_colour(rng=1) >= 0.973
    assert (first_names("add-remove"), first_names("replace")) == (192, 384)
    assert len(main(rng=1)) == 6


def test_the_example_pays_for_all_its_releases(tmp_path):
    pytest.importorskip("sqlalchemy")
    from examples.releases import main

    lines = main(tmp_path, rng=5)
    assert "my own secret" not in " ".join(lines)
    assert "remaining: 0.1" in lines[-2]
    assert "asks for epsilon 1" in lines[-1]
    assert "noisy_max: 0 " in lines[1]
