"""One run with many canaries: worked by hand, against the published figures, and as a game on somebody's fit."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audits import OneRun, OneRunCurve, Played, audit, demonstrate_once, stated, verify
from tacit.audits.bounds.frontier import GRID, of_event, of_pair
from tacit.audits.bounds.one_run import guessed, too_many
from tacit.core import Adjacency, BadInput, Counts, Mismatch, NotFinished, Scores, Verdict, source
from tacit.core.events import Gaussian
from tacit.loss import privacy_loss

ADD = Adjacency.ADD_REMOVE


def canaries(m=1000, mu=1.666, seed=0):
    rng = np.random.default_rng(seed)
    coins = rng.random(m) < 0.5
    return Scores(rng.normal(size=m) + mu * coins, coins, attack="canary", randomised=True)


def test_guesses_are_the_ends_of_the_ranking():
    scores = Scores([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [1, 0, 1, 0, 1, 0], attack="a", randomised=True)
    # 2 of 6: "in" for 5.0 (right), "out" for 0.0 (right); 4 of 6: 4.0 and 1.0 are both wrong
    assert guessed(scores, 0.34) == Counts(2, 0, 6, 6)
    assert guessed(scores, 0.67) == Counts(2, 2, 6, 6)


def test_failed_canaries_are_wrong_guesses():
    scores = Scores([np.inf, 1.0, 0.0, -np.inf], [0, 1, 0, 1], attack="a", randomised=True)
    assert guessed(scores, 0.5) == Counts(0, 2, 4, 4)


@pytest.mark.parametrize("backwards", [False, True])
def test_ties_count_against_refutation_in_any_order_of_the_rows(backwards):
    """400 equal scores, sorted by coin, told nothing, and once read 80 of 80 right."""
    coins = np.sort(np.arange(400) % 2 == 0)[:: -1 if backwards else 1]
    scores = Scores(np.zeros(400), coins, attack="a", randomised=True)
    assert guessed(scores, 0.2) == Counts(0, 80, 400, 400)
    (shown,) = demonstrate_once(
        scores, claim=stated((1.0, 1e-5), delta=1e-5), confidence=0.95, played=Played("one-run", "c", 400)
    )
    assert shown.bound.epsilon == 0.0


def test_only_ties_across_the_cut_matter():
    """By hand: three tied 1s, one of them wrong, on both sides of the cut when all are guessed."""
    scores = Scores([3, 2, 2, 1, 1, 1, 0.5, 0, 0, -1], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0], attack="a", randomised=True)
    assert guessed(scores, 0.6) == Counts(6, 0, 10, 10)
    assert guessed(scores, 1.0) == Counts(8, 2, 10, 10)  # of the 1s: two are guessed in, one of them wrongly; one out
    drawn = {guessed(scores, 1.0, source(seed)).true_positives for seed in range(20)}
    assert drawn == {8, 10}  # a draw is right at least as often


def test_observed_membership_is_refused():
    with pytest.raises(BadInput, match="coins"):
        guessed(Scores([1.0, 0.0], [1, 0], attack="a", randomised=False))
    with pytest.raises(BadInput, match="two canaries"):
        guessed(Scores([1.0], [1], attack="a", randomised=True))


def test_pure_epsilon_is_a_binomial_test():
    epsilon = OneRun(0.0).read(Counts(180, 20, 1000, 1000), 0.95)
    q = 1 / (1 + math.exp(-epsilon))
    assert stats.binom.sf(179, 200, q) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("m", "delta", "most"), [(100, 0.0, 3.49), (1000, 0.0, 5.81), (1000, 1e-5, 5.78), (10_000, 1e-5, 7.83)]
)
def test_attainable_when_all_are_guessed(m, delta, most):
    assert OneRun(delta).attainable(Counts(m - 5, 5, m, m), 0.95) == pytest.approx(most, abs=0.01)


def test_delta_costs_what_the_theorem_says():
    counts = Counts(180, 20, 1000, 1000)
    assert OneRun(1e-3).read(counts, 0.95) < OneRun(1e-5).read(counts, 0.95) < OneRun(0.0).read(counts, 0.95)


def test_chance_by_brute_force():
    counts, delta, epsilon = Counts(7, 1, 10, 10), 0.01, 1.0
    q = 1 / (1 + math.exp(-1))
    pmf = [math.comb(8, k) * q**k * (1 - q) ** (8 - k) for k in range(9)]
    alpha = max(sum(pmf[max(7 - i, 0) : 7]) / i for i in range(1, 8))
    assert OneRun(delta).chance(counts, epsilon) == pytest.approx(sum(pmf[7:]) + 2 * 10 * delta * alpha)


def test_nothing_right_shows_nothing():
    for use in (OneRun(1e-5), OneRunCurve(Gaussian(1.0), ADD, 1e-5)):
        assert use.read(Counts(0, 20, 100, 100), 0.95) == 0.0
        assert use.read(Counts(10, 10, 100, 100), 0.95) == 0.0


def test_the_curve_reads_more_than_any_mechanism_and_less_than_the_truth():
    played = Played("one-run", "c", 1000)
    (free,) = demonstrate_once(canaries(), claim=stated((8.0, 1e-5), delta=0.1), confidence=0.95, played=played)
    (within,) = demonstrate_once(
        canaries(), claim=stated(Gaussian(1 / 1.666), delta=1e-5), confidence=0.95, played=played
    )
    assert (free.bound.method, within.bound.method) == ("one run", "one run, trade-off curve")
    assert 2.0 < free.bound.epsilon < within.bound.epsilon < 8.0
    assert within.bound.assumes == "Gaussian"
    assert free.counts.n_in == 1000
    assert free.attainable > free.bound.epsilon


def test_a_game_of_single_records_is_add_remove():
    claim = stated(Gaussian(1.0), delta=1e-5, adjacency="replace")
    with pytest.raises(Mismatch, match="adjacency"):
        demonstrate_once(canaries(), claim=claim, confidence=0.95, played=Played("one-run", "c", 1000))


def test_frontier_is_the_curve_and_its_inverse_a_lower_end():
    frontier, loss = of_event(Gaussian(1.0), 1.0, ADD), privacy_loss(Gaussian(1.0), ADD)
    for fpr in (1e-6, 0.01, 0.3, 0.9):
        exact = loss.tradeoff(fpr)
        found = float(frontier.inverse(exact.lower))
        assert found <= fpr
        assert found >= fpr * 0.95
    assert of_pair(1.0, 0.0).tpr[-1] == 1.0
    assert (np.diff(of_pair(1.0, 0.1).tpr) >= 0).all()
    assert GRID[0] == 0.0


def test_too_many_right_guesses_by_hand():
    """One guess of one canary: right with probability at most T(q), where T(q) = 1 - q, whatever the curve."""
    frontier = of_pair(1.0, 0.0)
    best = math.e / (1 + math.e)
    assert not too_many(frontier, Counts(1, 0, 1, 1), best - 0.01)
    assert too_many(frontier, Counts(1, 0, 1, 1), best + 0.01)


def memorising_fit(strength):
    def fit(x, y, rng):
        seen = {row.tobytes(): int(label) for row, label in zip(x[100:], y[100:], strict=True)}

        def predict(q):
            logits = rng.normal(size=(len(q), 2)) + np.arange(len(q))[:, None] * 1e-9
            for k, row in enumerate(q):
                if row.tobytes() in seen:
                    logits[k, seen[row.tobytes()]] += strength
            return logits

        return predict

    return fit


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4))
    return x, (x[:, 0] > 0).astype(int)


def odd(x, y, rng):
    return rng.normal(size=4) + 9.0, int(rng.integers(2))


def test_one_run_on_somebodys_fit():
    evidence = audit(memorising_fit(8.0), data(), claim=(1.0, 1e-5), game="one-run", canary=odd, runs=300, rng=1)
    assert evidence.verdict is Verdict.REFUTED
    assert [control.passed for control in evidence.controls] == [True, True]
    assert evidence.demonstrations[0].game == "one-run"
    assert evidence.demonstrations[0].planned == 300
    assert evidence.provenance["runs_done"] == 5
    assert verify(evidence).ok


def test_one_run_of_a_model_that_keeps_nothing_shows_nothing():
    evidence = audit(memorising_fit(0.0), data(), claim=Gaussian(1.0), game="one-run", canary=odd, runs=300, rng=1)
    assert evidence.verdict is not Verdict.REFUTED
    assert evidence.lower.bound.epsilon < 0.3


def test_one_run_that_fails_is_said():
    with pytest.raises(NotFinished, match="raised ZeroDivisionError in 1 run"):
        audit(lambda x, y, rng: 1 / 0, data(), claim=(1.0, 1e-5), game="one-run", runs=20, rng=1, isolation="none")


def test_one_run_under_replace_is_refused():
    with pytest.raises(Mismatch):
        audit(memorising_fit(1.0), data(), claim=(1.0, 1e-5), game="one-run", runs=20, rng=1, adjacency="replace")


def test_evidence_counts_canaries_as_canaries_and_runs_as_runs():
    """One run with the canaries and four without any; what is believed is about coins, not about runs."""

    def fit(x, y, rng):
        shift = rng.normal()
        return lambda q: np.stack([q[:, 0] + shift, np.zeros(len(q))], axis=1)

    x = np.random.default_rng(0).normal(size=(20, 3))
    evidence = audit(fit, (x, np.arange(20) % 2), claim=(1.0, 1e-5), game="one-run", runs=50, isolation="none", rng=1)
    told = evidence.provenance
    assert (told["canaries"], told["runs_planned"], told["runs_done"], told["runs_failed"]) == (50, 5, 5, 0)
    assert "every canary was put in by a fair coin of its own" in evidence.lower.bound.assumptions
    assert not any("run" in words for words in evidence.lower.bound.assumptions)
