"""The soundness rules of auditing (15 to 20), each as something that is refused or does not happen."""

import numpy as np
import pytest

from tacit.audits import Choice, choose, demonstrate, lower_bound, stated
from tacit.audits.demonstration import amplified
from tacit.audits.scoring import scored
from tacit.core import BadInput, Calibration, Evaluation, Evidence, Mismatch, Scores, Verdict
from tacit.core.events import Compose, Gaussian, Laplace, Poisson, Repeat

RULE = {"delta": 1e-5, "adjacency": "add-remove", "confidence": 0.95}
HOW = {"confidence": 0.95, "rng": 0, "game": "runs", "canary": "c", "planned": 4000, "failed": 0}


def game(noise="normal", shift=1.0, runs=4000, seed=0):
    rng = np.random.default_rng(seed)
    coins = np.arange(runs) % 2 == 0
    return scored(getattr(rng, noise)(0, 1, runs) + shift * coins, coins)


def judged(scores, claim):
    claim = stated(claim, delta=1e-5)
    return Evidence("a mechanism", claim, demonstrate(scores, claim=claim, **HOW, choice=Choice("canary", 0.5)))


def test_rule_15_a_family_reading_contradicts_only_its_family():
    """An exact Laplace mechanism (epsilon 1) reads above 3.5 as a Gaussian; no true claim about it falls."""
    laplace = game("laplace")
    reading = lower_bound(Evaluation(laplace), Choice("canary", 0.5), **RULE, event=Gaussian(1.0))
    assert reading.epsilon > 3.5
    for claim in (Laplace(1.0), (1.0, 1e-5)):
        assert not reading.contradicts(stated(claim, delta=1e-5).bound)
        assert judged(laplace, claim).verdict is not Verdict.REFUTED
    assert judged(laplace, Gaussian(3.0)).verdict is Verdict.REFUTED


def test_rule_15_only_an_assumption_free_bound_refutes_a_pair():
    evidence = judged(game(shift=4.0), (1.0, 1e-5))
    assert evidence.verdict is Verdict.REFUTED
    assert [item.bound.assumes for item in evidence.demonstrations] == [None]


@pytest.mark.parametrize(
    ("event", "counts_on_sampling"),
    [
        (Gaussian(1.0), False),
        (Repeat(Gaussian(1.0), 5), False),
        (Poisson(1.0, Gaussian(1.0)), False),
        (Repeat(Poisson(0.1, Gaussian(1.0)), 5), True),
        (Compose((Poisson(0.5, Gaussian(1.0)),)), True),
    ],
)
def test_rule_16_a_shared_order_tests_no_amplified_claim(event, counts_on_sampling):
    assert amplified(event) == counts_on_sampling
    claim = stated(event, delta=1e-5)
    if counts_on_sampling:
        with pytest.raises(Mismatch, match="batch order"):
            demonstrate(game(), claim=claim, **HOW, shared_order=True)
    else:
        assert demonstrate(game(), claim=claim, **HOW, shared_order=True)


def test_rule_17_a_game_has_the_claims_adjacency():
    claim = stated(Gaussian(1.0), delta=1e-5)
    with pytest.raises(Mismatch):
        demonstrate(game(), claim=claim, **HOW, adjacency="replace")
    bound = lower_bound(Evaluation(game()), Choice("canary", 0.5), **{**RULE, "adjacency": "replace"})
    with pytest.raises(Mismatch, match="adjacency"):
        bound.contradicts(claim.bound)


def test_rule_17_bounds_at_another_delta_do_not_compare():
    bound = lower_bound(Evaluation(game()), Choice("canary", 0.5), **{**RULE, "delta": 1e-6})
    with pytest.raises(Mismatch, match="delta"):
        bound.contradicts(stated(Gaussian(1.0), delta=1e-5).bound)


def test_rule_18_a_failed_run_counts_against_refutation():
    scores = game(shift=1.6)
    assert judged(scores, Gaussian(1.0)).verdict is Verdict.REFUTED
    lost = np.random.default_rng(1).random(len(scores)) < 0.25
    holed = scored(np.where(lost, np.nan, scores.score), scores.member)
    assert judged(holed, Gaussian(1.0)).verdict is not Verdict.REFUTED


def test_rule_20_nothing_is_judged_by_what_chose_it():
    scores = game()
    first, second = scores.split(0)
    choice = choose(first, **RULE)
    assert lower_bound(second, choice, **RULE)
    with pytest.raises(Mismatch):
        lower_bound(Evaluation(scores), choice, **RULE)
    with pytest.raises(Mismatch):
        demonstrate(scores, claim=stated(Gaussian(1.0), delta=1e-5), **HOW, choice=choice)
    with pytest.raises(BadInput):
        lower_bound(first, choice, **RULE)


def test_rule_20_rows_are_known_by_record_and_target_whatever_their_score():
    first, second = game().split(0)
    choice = choose(first, **RULE)
    moved = Scores(
        first.scores.score + 1e-3, first.scores.member, attack="canary", randomised=True,
        record=first.scores.record, target=first.scores.target,
    )  # fmt: skip
    with pytest.raises(Mismatch):
        lower_bound(Evaluation(moved), choice, **RULE)
    other = choose(Calibration(second.scores), **RULE)
    assert not other.fingerprints & choice.fingerprints


def test_observed_members_never_give_a_bound():
    seen = Scores(np.arange(10.0), np.arange(10) > 4, attack="canary", randomised=False)
    with pytest.raises(BadInput, match="never a statement"):
        lower_bound(Evaluation(seen), Choice("canary", 4.5), **RULE)
