"""Choosing and judging: what can be written, and what is refused."""

import math

import numpy as np
import pytest

from tacit.audits import Choice, choose, demonstrate, lower_bound, play, stated
from tacit.audits.scoring import balanced, failures, scored
from tacit.core import Adjacency, BadInput, Bound, Calibration, Claim, Evaluation, Mismatch, Scores, Side
from tacit.core.events import Gaussian

RULE = {"delta": 1e-5, "adjacency": "add-remove", "confidence": 0.95}


def game(n=200, shift=3.0, seed=0, first=0, attack="canary"):
    rng = np.random.default_rng(seed)
    coins = np.arange(2 * n) % 2 == 0
    return scored(rng.normal(0, 1, 2 * n) + shift * coins, coins, first=first, attack=attack)


def test_chosen_on_one_part_judged_by_the_other():
    calibration, evaluation = game().split(0)
    choice = choose(calibration, **RULE)
    bound = lower_bound(evaluation, choice, **RULE)
    assert 0 < choice.threshold < 3
    assert (bound.side, bound.method, bound.assumes, bound.confidence) == (Side.LOWER, "clopper-pearson", None, 0.95)
    assert 1.5 < bound.epsilon < 4


def test_with_an_event_the_bound_names_its_family():
    calibration, evaluation = game().split(0)
    choice = choose(calibration, **RULE, event=Gaussian(1.0))
    bound = lower_bound(evaluation, choice, **RULE, event=Gaussian(1.0))
    assert (bound.method, bound.assumes) == ("trade-off curve", "Gaussian")
    assert bound.epsilon > lower_bound(evaluation, choice, **RULE).epsilon


def test_shared_rows_are_refused():
    calibration, evaluation = game().split(0)
    choice = choose(calibration, **RULE)
    with pytest.raises(Mismatch, match="disjoint"):
        lower_bound(Evaluation(calibration.scores), choice, **RULE)
    rows = np.append(np.arange(50), 0)
    mixed = Scores(
        np.append(evaluation.scores.score[:50], 0.0),
        np.append(evaluation.scores.member[:50], True),
        attack="canary",
        randomised=True,
        record=np.zeros(51, int),
        target=np.append(evaluation.scores.target[:50], calibration.scores.target[rows[-1]]),
    )
    with pytest.raises(Mismatch, match="disjoint"):
        lower_bound(Evaluation(mixed), choice, **RULE)


def test_the_best_of_several_attacks_is_a_choice_too():
    weak, strong = game(shift=0.0, attack="weak"), game(shift=3.0, attack="strong")
    parts = {scores.attack: scores.split(1) for scores in (weak, strong)}
    choice = choose([parts["weak"][0], parts["strong"][0]], **RULE)
    assert choice.attack == "strong"
    assert choice.fingerprints >= parts["weak"][0].scores.fingerprints()
    assert lower_bound(parts["strong"][1], choice, **RULE).epsilon > 1
    with pytest.raises(Mismatch, match="attack"):
        lower_bound(parts["weak"][1], choice, **RULE)


def test_observed_membership_gives_no_bound():
    seen = Scores([1.0, 0.0], [1, 0], attack="canary", randomised=False)
    with pytest.raises(BadInput, match="coins"):
        lower_bound(Evaluation(seen), Choice("canary", 0.5), **RULE)


def test_the_invalid_forms_cannot_be_written():
    scores = game()
    with pytest.raises(BadInput, match="Calibration"):
        choose(scores, **RULE)
    with pytest.raises(BadInput, match="Calibration"):
        choose(Evaluation(scores), **RULE)
    with pytest.raises(BadInput, match="Evaluation"):
        lower_bound(scores, Choice("canary", 0.5), **RULE)
    with pytest.raises(BadInput, match="Evaluation"):
        lower_bound(Calibration(scores), Choice("canary", 0.5), **RULE)
    with pytest.raises(BadInput, match="finite"):
        Choice("canary", math.inf)


def test_a_threshold_fixed_beforehand_uses_every_run():
    scores = game()
    claim = stated(Gaussian(1 / 3), delta=1e-5)
    how = {"claim": claim, "confidence": 0.95, "rng": 0, "game": "runs", "canary": "c", "planned": 400, "failed": 0}
    fixed, chosen = demonstrate(scores, **how, choice=Choice("canary", 1.5)), demonstrate(scores, **how)
    assert fixed[0].counts.n_in == 200
    assert chosen[0].counts.n_in == 160
    assert [item.bound.method for item in fixed] == ["exact test", "exact test, trade-off curve"]
    assert fixed[0].counts == fixed[1].counts
    assert fixed[0].threshold == fixed[1].threshold == 1.5


def test_a_pair_claim_gets_no_curve_bound():
    how = {"confidence": 0.95, "rng": 0, "game": "runs", "canary": "c", "planned": 400, "failed": 0}
    shown = demonstrate(game(), claim=stated((1.0, 1e-5), delta=0.1), **how)
    assert [item.bound.method for item in shown] == ["clopper-pearson"]
    assert shown[0].bound.delta == 1e-5


def test_the_games_adjacency_must_be_the_claims():
    how = {"confidence": 0.95, "rng": 0, "game": "runs", "canary": "c", "planned": 400, "failed": 0}
    with pytest.raises(Mismatch, match="replace"):
        demonstrate(game(), claim=stated((1.0, 1e-5), delta=0.1), **how, adjacency="replace")


def test_play_flips_balanced_coins_and_numbers_its_runs():
    asked = []

    def runner(coins):
        asked.append(coins)
        return np.where(coins, 2.0, 1.0)

    scores = play(runner, 11, 0)
    assert asked[0].sum() == 5
    assert scores.randomised
    assert scores.target.tolist() == list(range(11))
    np.testing.assert_array_equal(scores.member, asked[0])
    assert (balanced(1000, 1) != balanced(1000, 2)).any()


def test_a_failed_run_can_only_hurt():
    found, coins = np.array([1.0, np.nan, np.inf, -np.inf, 0.0, np.nan]), np.array([1, 1, 1, 0, 0, 0], bool)
    scores = scored(found, coins)
    assert scores.score.tolist() == [1.0, -np.inf, -np.inf, np.inf, 0.0, np.inf]
    assert failures(scores) == 4


def test_failed_runs_lower_the_bound_and_are_never_a_threshold():
    scores = game()
    lost = np.random.default_rng(5).random(len(scores)) < 0.2
    holed = scored(np.where(lost, np.nan, scores.score), scores.member)
    whole, part = (lower_bound(Evaluation(made), Choice("canary", 1.5), **RULE).epsilon for made in (scores, holed))
    assert part < whole
    assert math.isfinite(choose(holed.split(0)[0], **RULE).threshold)


def test_a_runner_must_answer_for_every_run():
    with pytest.raises(BadInput, match="one score per run"):
        play(lambda coins: np.zeros(3), 10, 0)


def test_choosing_needs_both_sides():
    one = Scores([1.0, 2.0], [1, 1], attack="canary", randomised=True)
    with pytest.raises(BadInput):
        choose(Calibration(one), **RULE)


def test_claims_in_every_form():
    event = stated(Gaussian(1.0), delta=1e-5, adjacency="replace")
    assert (event.bound.adjacency, event.bound.assumes, event.event) == (Adjacency.REPLACE, "Gaussian", Gaussian(1.0))
    fpr, tpr = np.array(event.frontier).T
    assert (tpr >= fpr).all()
    assert (np.diff(tpr) >= 0).all()
    pair = stated((1.0, 0.0), delta=0.5)
    assert (pair.bound.epsilon, pair.bound.delta, pair.event) == (1.0, 0.0, None)
    assert dict(pair.frontier)[1.0] == 1.0
    own = Claim(Bound(1.0, 0.0, "upper", 1.0, "stated", "replace"))
    assert stated(own, delta=0.5) is own
    with pytest.raises(Mismatch):
        stated(own, delta=0.5, adjacency="add-remove")
    for wrong in (1.0, (1.0,), "1"):
        with pytest.raises(BadInput):
            stated(wrong, delta=1e-5)


def test_choosing_and_judging_need_no_more_than_their_scores():
    """As the contract writes them; delta 1e-5, add-remove and 95 % are then meant."""
    rng = np.random.default_rng(0)
    member = np.arange(400) % 2 == 0
    scores = Scores(rng.normal(size=400) + 2 * member, member, attack="a", randomised=True)
    first, second = scores.split(1)
    choice = choose(first)
    found = lower_bound(second, choice)
    assert found == lower_bound(second, choice, delta=1e-5, adjacency="add-remove", confidence=0.95)
    assert found.epsilon > 0.5


def test_a_gap_is_cut_in_its_middle():
    """Four runs that tell perfectly: a threshold at the lowest hit would lose a fifth of the hits to come."""
    scores = Scores([0.0, 1.0, 9.0, 10.0], [0, 0, 1, 1], attack="a", randomised=True)
    assert choose(Calibration(scores)).threshold == 5.0
