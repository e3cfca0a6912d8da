"""Columns, tensors and ties: what is given decides nothing silently."""

import math

import numpy as np
import pandas
import pytest
import torch

import tacit
from tacit import mechanism
from tacit.core import BadInput
from tacit.mechanism import robust
from tacit.mechanism.ranges import Cells
from tacit.query import Table


def test_a_value_that_many_share_is_the_median():
    """All cells were equally good: the answer was uniform over the range."""
    for values in ([50] * 100, np.full(100, 50.0), torch.full((100,), 50)):
        assert abs(mechanism.median(values, bounds=(0, 100), epsilon=1.0, rng=1).value - 50) < 1e-6
    blocks = mechanism.subsample_and_aggregate(
        [3.0] * 500, lambda some: some[0], blocks=100, bounds=(0, 9), epsilon=3.0, aggregate="median", rng=1
    )
    assert abs(blocks.value - 3) < 1e-6
    assert abs(mechanism.quantile([1] * 90 + [7] * 10, 0.95, bounds=(0, 9), epsilon=20.0, rng=1).value - 7) < 1e-6


def test_whole_numbers_have_whole_quantiles():
    ages = [20] * 30 + [40] * 50 + [60] * 30
    found = mechanism.median(ages, bounds=(-0.5, 100.5), grid=101, epsilon=1.0, rng=3)
    assert abs(found.value - 40) < 1e-9
    people = pandas.DataFrame({"who": range(110), "age": ages})
    assert Table(people, unit="who").quantile("age", 0.5, (0, 100)).release(epsilon=1.0, rng=3).value == 40


def test_ranks_move_by_no_more_than_the_scale_says():
    """Theorem 13, for every cell of a small grid and every record that comes, goes or changes."""
    from fractions import Fraction

    from tacit.mechanism.ranges import by_rank

    def heights(held, share):
        edges, pieces = by_rank(np.array(held, dtype=np.int64), share)
        return np.repeat(pieces, np.diff(np.concatenate(([0], edges, [4])))) / share.denominator

    chance = np.random.default_rng(1)
    for share in (Fraction(1, 2), Fraction(1, 8), Fraction(1), Fraction(0)):
        most = float(max(share, 1 - share))
        for _ in range(40):
            held = chance.integers(0, 4, chance.integers(1, 7)).tolist()
            for new in range(4):
                assert np.abs(heights([*held, new], share) - heights(held, share)).max() <= most + 1e-12
                assert np.abs(heights([*held[1:], new], share) - heights(held, share)).max() <= 1
            assert heights(held, share).max() == 0


def test_tensors_hold_answers():
    for answers in (torch.ones(400, dtype=torch.int64), list(torch.ones(400)), torch.ones(400, requires_grad=True)):
        assert mechanism.randomized_response(answers, epsilon=9.0, rng=1).value[1] > 0.9
    assert mechanism.respond(torch.tensor(1), epsilon=50.0, rng=1) == 1


def test_blocks_keep_the_type_of_their_data():
    for data in (pandas.Series(np.ones(400)), torch.ones(400), pandas.DataFrame({"x": np.ones(400)})):
        found = mechanism.subsample_and_aggregate(
            data, lambda some: float(np.asarray(some.mean()).max()), blocks=20, bounds=(0, 4), epsilon=50.0, rng=1
        )
        assert abs(found.value - 1) < 0.2


def test_categories_may_be_numpys():
    for categories in (np.array([0, 1, 2]), np.int64(3), {0, 1, 2}):
        assert mechanism.randomized_response([2] * 400, epsilon=9.0, categories=categories, rng=1).value[2] > 0.9
    for wrong in ("ab", 3.5, [[1], [2]], [1, 1], None):
        with pytest.raises(tacit.BadInput):
            mechanism.randomized_response([2], epsilon=9.0, categories=wrong)


def test_a_mean_is_no_loss_of_a_ladder():
    """Its step was 0: every submission that was better by chance counted."""
    board = mechanism.Ladder([0, 1] * 50, loss=lambda found, truth: float(np.mean(found != truth)))
    with pytest.raises(tacit.BadInput, match="one number for each"):
        board.submit([0] * 100)


class Budget:
    """Counts how often it was charged."""

    def __init__(self):
        self.charges = 0

    def charge(self, event, *, key, purpose="", analyst=""):
        self.charges += 1


WRONG = {
    "rng": lambda wrong, budget: mechanism.laplace(3, sensitivity=1, epsilon=1, ledger=budget, rng=wrong),
    "holdout": lambda wrong, budget: mechanism.Thresholdout(
        size=5, threshold=0.1, epsilon=1, budget=2, adjacency="replace", ledger=budget, rng=wrong
    ),
    "adjacency": lambda wrong, budget: mechanism.laplace(3, sensitivity=1, epsilon=1, ledger=budget, adjacency=wrong),
    "noise": lambda wrong, budget: mechanism.noisy_max([1, 2], sensitivity=1, epsilon=1, noise=wrong, ledger=budget),
    "aggregate": lambda wrong, budget: mechanism.subsample_and_aggregate(
        [1.0], np.mean, blocks=2, bounds=(0, 1), epsilon=1, aggregate=wrong, ledger=budget
    ),
    "epsilon": lambda wrong, budget: mechanism.laplace(3, sensitivity=1, epsilon=wrong, ledger=budget),
    "grid": lambda wrong, budget: mechanism.median([1], bounds=(0, 1), epsilon=1, grid=wrong, ledger=budget),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_told_before_the_charge_without_values(name):
    """A generator of random numbers was looked at after the charge."""
    for wrong in (pandas.Series([77123.0, 2.0]), np.array([77123.0, 2.0]), {}, "nothing", -1.5, b"1"):
        budget = Budget()
        with pytest.raises(tacit.BadInput) as told:
            WRONG[name](wrong, budget)
        assert "77123" not in str(told.value)
        assert budget.charges == 0


def test_what_is_no_ledger_is_refused():
    with pytest.raises(tacit.BadInput, match="open ledger"):
        mechanism.laplace(3, sensitivity=1, epsilon=1, ledger=3.0)


def test_rows_of_an_arrow_table_are_taken_like_those_of_a_data_frame():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"age": [30.0, 40.0, 50.0] * 100})

    def mean(block):
        return float(np.mean(np.asarray(block["age"])))

    given = table, table.to_batches()[0], table.to_pandas()
    answers = [
        mechanism.subsample_and_aggregate(rows, mean, blocks=10, bounds=(0, 100), epsilon=50.0, rng=1).value
        for rows in given
    ]
    assert len(set(answers)) == 1


def test_middles_of_cells_are_the_nearest_floats():
    """A quantile of whole numbers was 57.99999999999999."""
    cells = Cells.of((-0.5, 100.5), 101)
    assert [cells.middle(i) for i in range(101)] == list(range(101))
    wide = Cells.of((-8e307, 8e307), 2**52)
    assert wide.lower < wide.middle(0) < wide.middle(2**52 - 1) < wide.upper


def test_a_smooth_sensitivity_is_the_largest_term_and_is_found_in_few_steps():
    """Every distance was looked at: 200,000 people at epsilon 0.001 took minutes, after the charge."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        size, top = int(rng.choice([1, 2, 3, 10, 40])), int(rng.choice([2, 1000, 2**30]))
        values = np.sort(np.minimum(rng.exponential(rng.choice([0.01, 0.2, 1]), size) * top, top).astype(np.int64))
        beta = float(rng.choice([0.0, 1e-3, 0.05, 2.0]))
        terms = [robust.local_sensitivity(values, top, k) * math.exp(-beta * k) for k in range(size + 1)]
        assert robust.smooth_sensitivity(values, top, beta) == max(1.0, *terms) * (1 + robust.SLACK)
    asked, many = [], np.sort(rng.lognormal(10, 1, 5000).astype(np.int64))
    real = robust.local_sensitivity
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(robust, "local_sensitivity", lambda *given: asked.append(given) or real(*given))
        robust.smooth_sensitivity(many, 2**30, 1e-3)
    assert len(asked) < 500


def test_every_row_is_in_one_block_in_its_order():
    """Many blocks of many rows took minutes: all rows were looked at for every block."""
    seen = []

    def noted(block):
        seen.append(list(block))
        return 0.0

    for size, blocks in ((1000, 40), (0, 3), (5, 1), (3, 1000)):
        seen.clear()
        mechanism.subsample_and_aggregate(list(range(size)), noted, blocks=blocks, bounds=(0, 1), epsilon=1.0, rng=1)
        assert sorted(row for block in seen for row in block) == list(range(size))
        assert all(block == sorted(block) and block for block in seen)
    with pytest.raises(BadInput, match="blocks must be at most"):
        mechanism.subsample_and_aggregate([1.0], max, blocks=10**12, bounds=(0, 1), epsilon=1.0)
