"""Audits that choose their canary and statistic in a pilot, or a feature of a release: nulls, exact claims, mutants.

Runs are simulated here: a model's answers are a public function of one noisy number. Pilot, choice and judgement are
the library's own. Checks allow binom(REPLAYS, 0.05) up to its 1 - 1e-6 quantile; benchmarks/portfolio_nulls.py plays
thousands of replays of each case. What a judgement by fixed numbers of runs does at worst is summed up exactly.
"""

import contextlib
import functools
import math

import numpy as np
import pytest
from scipy import stats

from tacit.audits import games, mechanism, portfolio, stated
from tacit.audits.bounds import exact
from tacit.audits.bounds.one_run import OneRun, guessed
from tacit.audits.choice import counts
from tacit.audits.claims import limits
from tacit.audits.power import Power
from tacit.audits.runs.tasks import Watched
from tacit.audits.runs.workers import Result
from tacit.audits.scoring import scored
from tacit.audits.stage import Stage
from tacit.core import Adjacency, BadInput, Evaluation, Mismatch, NotFinished, source
from tacit.core.events import Gaussian, Poisson, Repeat

REPLAYS, ERROR = 24, 0.05
MOST = stats.binom.ppf(1 - 1e-6, REPLAYS, ERROR)
RNG = np.random.default_rng(0)
X, Y = np.hstack([RNG.normal(size=(24, 3)), (np.arange(24) % 3)[:, None]]), np.arange(24) % 2


def worst(present, rng, epsilon=1.0, delta=0.02):
    """The worst (epsilon, delta) mechanism: 0 and 3 tell all, 1 and 2 are a biased coin (Kairouz et al. 2015)."""
    right = rng.random(present.size) < 1 / (1 + math.exp(-epsilon))
    return np.where(rng.random(present.size) < delta, 3.0 * present, 1.0 + (present == right))


class Simulated:
    """Runs without any training: answers are wave * number + constants, the number being noise + shift with a canary.

    With `levels` the number is rounded to a grid, so that scores tie; a share of the runs fails; `rough` adds noise to
    every answer, so that statistics differ. With `pair` the number is that of `worst`: where it is `failed` the run
    fails, and where it is `mute` the model has no answer to any canary, so that either says as much as a number.
    """

    fleet = None
    over = False

    def __init__(self, seed, shift=0.0, levels=None, failing=0.0, rough=0.0, pair=False, failed=None, mute=None):
        self.chance, self.shift, self.levels, self.failing = source(seed), shift, levels, failing
        self.rng, self.rough, self.pair, self.failed, self.mute = np.random.default_rng(seed), rough, pair, failed, mute

    def run(self, task, which):
        present = np.array(which) >= 0 if isinstance(task, Watched) else np.array(which)
        width = len(task.seen_x) if isinstance(task, Watched) else 1
        told = worst(present, self.rng) if self.pair else self.rng.normal(size=present.size) + self.shift * present
        told = told if self.levels is None else np.round(told * self.levels) / self.levels
        wave = np.sin(np.arange(width) + 1.0)
        failed = (self.rng.random(present.size) < self.failing) | (told == self.failed)
        said = told[:, None] * wave + wave[::-1] + self.rough * self.rng.normal(size=(present.size, width))
        if self.mute is not None:
            said[told == self.mute] = np.where(np.arange(width) < task.data, wave[::-1], np.nan)
        said = said if isinstance(task, Watched) else said[:, 0]
        return [
            Result(math.nan if bad else row, "failed" if bad else "", 0.1)
            for row, bad in zip(said, failed, strict=True)
        ]

    def release(self, present, rng):
        return self.run(None, [present])[0].score

    def rehearsed(self, runs):
        return 2

    def patient(self, times):
        return self

    def affordable(self, runs, times, least=4):
        return runs

    def batch(self, usual):
        return usual


class Judged(Exception):
    """Ends an audit of a release where it is judged; its argument says whether that refutes."""


@functools.cache
def power(told, n_in, n_out):
    """Which counts refute; kept, as the same come again and again."""
    return Power(told, 1 - ERROR, n_in, n_out)


@functools.cache
def claimed(claim):
    return stated(claim, delta=1e-5)


def refuted(monkeypatch, budget, claim, game="runs", runs=120):
    """Whether the audit refutes; only the judgement is left of what it shows, as readings take time."""
    told = claimed(claim)

    def judge(scores, *, choice, **_):
        found = counts(Evaluation(scores), choice)
        return found.true_positives >= power(told, found.n_in, found.n_out).fewest(found.false_positives)

    monkeypatch.setattr(games, "_controls", lambda *_: ())
    if game == "mechanism":

        def ending(scores, **more):
            raise Judged(judge(scores, **more))

        monkeypatch.setattr(mechanism, "demonstrate", ending)
        with pytest.raises(Judged) as ended:
            mechanism.audit_mechanism(budget.release, (True, False), claim=told, runs=runs, rng=budget.chance)
        return ended.value.args[0]
    if game == "runs":
        monkeypatch.setattr(games, "demonstrate", judge)
        return games.many_runs(Stage(None, X, Y, Adjacency.ADD_REMOVE, budget), told, "auto", runs, 1 - ERROR).shown
    outcome = games.sequential(Stage(None, X, Y, Adjacency.ADD_REMOVE, budget), told, "auto", runs, 1 - ERROR)
    return any(item.bound.contradicts(told.bound) for item in outcome.shown)


PAIR = (1.0, 0.02)
RELEASED = {"runs": 400, "game": "mechanism"}
CASES = {
    "nothing is told": ({"rough": 1.0}, (0.01, 1e-5), {}),
    "ties": ({"levels": 1}, (0.01, 1e-5), {}),
    "few runs": ({}, (0.01, 1e-5), {"runs": 100}),
    "an odd number of runs, and some fail": ({"failing": 0.2}, (0.01, 1e-5), {"runs": 131}),
    "exactly what is claimed": ({"shift": 1.0}, Gaussian(1.0), {"runs": 200}),
    "exactly what is claimed, with ties": ({"shift": 1.0, "levels": 2}, Gaussian(1.0), {"runs": 200}),
    "exactly what is claimed, and some fail": ({"shift": 1.0, "failing": 0.3}, Gaussian(1.0), {"runs": 131}),
    "exactly what is claimed, no pilot": ({"shift": 1.0}, Gaussian(1.0), {"runs": 99}),
    "exactly what is claimed, very few runs": ({"shift": 1.0}, Gaussian(1.0), {"runs": 10}),
    "exactly the pair": ({"pair": True}, PAIR, {}),
    "exactly the pair, told by failing": ({"pair": True, "failed": 2.0}, PAIR, {}),
    "exactly the pair, told by having no answer": ({"pair": True, "mute": 2.0}, PAIR, {}),
    "exactly what is claimed, sequential": ({"shift": 1.0}, Gaussian(1.0), {"runs": 200, "game": "sequential"}),
    "exactly the pair, sequential": ({"pair": True}, PAIR, {"runs": 200, "game": "sequential"}),
    "exactly the pair, released": ({"pair": True}, PAIR, RELEASED),
    "exactly the pair, released or failed": ({"pair": True, "failed": 2.0}, PAIR, RELEASED),
    "exactly what is claimed, released": ({"shift": 1.0, "levels": 2**20}, Gaussian(1.0), RELEASED),
    "exactly what is claimed, released with ties": ({"shift": 1.0, "levels": 2}, Gaussian(1.0), RELEASED),
}


def alarms(monkeypatch, name, replays=REPLAYS, first=0):
    """How many of these replays, numbered from `first`, refute."""
    how, claim, more = CASES[name]
    ended, found = 0, 0
    for seed in range(first, first + replays):
        with contextlib.suppress(NotFinished, BadInput):  # of so many failures nothing can be learned
            found += bool(refuted(monkeypatch, Simulated(seed, **how), claim, **more))
            ended += 1
    assert ended == replays or (("failed" in how or "failing" in how) and ended > replays / 2)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_true_claim_is_seldom_refuted(name, monkeypatch):
    assert alarms(monkeypatch, name) <= MOST


def test_a_false_claim_is_refuted(monkeypatch):
    assert sum(refuted(monkeypatch, Simulated(seed, 3.0), Gaussian(1.0), runs=200) for seed in range(10)) >= 9


@pytest.mark.slow
def test_mutant_judging_the_runs_that_chose(monkeypatch):
    """The best of several statistics and thresholds on the judged runs themselves finds what is not there."""
    monkeypatch.setattr(games, "_parts", lambda coins, chance: (np.arange(coins.size), np.arange(coins.size)))
    choosing = games.chosen

    def forgetful(*arguments):
        found = choosing(*arguments)
        return type(found)(found.attack, found.threshold)

    with pytest.raises(Mismatch, match="disjoint"):  # a choice that keeps account of what it saw is refused
        refuted(monkeypatch, Simulated(1), (0.01, 1e-5))
    monkeypatch.setattr(games, "chosen", forgetful)
    monkeypatch.setattr(portfolio, "LUCK", -9.0)  # all statistics are on offer
    monkeypatch.setattr(portfolio, "OFFERS", 20)
    replays = 60
    assert alarms(monkeypatch, "nothing is told", replays) > stats.binom.ppf(1 - 1e-3, replays, ERROR)


def test_mutant_a_release_judged_by_the_runs_that_chose(monkeypatch):
    monkeypatch.setattr(mechanism, "_parts", lambda coins, chance: [np.arange(coins.size)] * 3)
    with pytest.raises(Mismatch, match="disjoint"):
        refuted(monkeypatch, Simulated(1, 1.0), Gaussian(1.0), **RELEASED)


def once(seed, m, failing=0.0):
    """Whether one run with m canaries, each told by `worst`, refutes the pair; almost all scores are tied."""
    rng, chance = np.random.default_rng(seed), source(seed)
    coins = chance.coins(m)
    told = np.where(rng.random(m) < failing, np.nan, worst(coins, rng, 1.0, 1e-5))
    return OneRun(1e-5).chance(guessed(scored(told, coins), ties=chance), 1.0) <= ERROR


@pytest.mark.parametrize(("m", "failing"), [(500, 0.0), (201, 0.2), (10, 0.0)])
def test_one_run_with_ties_seldom_refutes_the_worst_pair(m, failing):
    assert sum(once(seed, m, failing) for seed in range(1000)) <= stats.binom.ppf(1 - 1e-6, 1000, ERROR)


def test_mutant_ties_that_know_the_coins(monkeypatch):
    """Equal scores in an order that knows the coins."""
    monkeypatch.setattr(
        "tacit.audits.bounds.one_run.fewest_right", lambda score, told, half: int(np.sort(told)[-half:].sum())
    )
    assert sum(once(seed, 500) for seed in range(50)) == 50


def size(claim, n_in, n_out):
    """The largest probability that counts refute, on the claim's own curve: all outcomes, 160 rates of alarms."""
    test = Power(claim, 1 - ERROR, n_in, n_out)
    count = np.arange(n_out + 1)
    fewest = np.array([test.fewest(int(number)) for number in count])
    q = np.concatenate((np.geomspace(1e-5, 0.02, 40), np.linspace(0.02, 0.999, 120)))[:, None]
    p = np.minimum(limits(claim, q[:, 0]), 1.0)[:, None]
    return float((stats.binom.pmf(count, n_out, q) * stats.binom.sf(fewest - 1, n_in, p)).sum(axis=1).max())


@pytest.mark.parametrize("runs", [(1, 1), (4, 4), (20, 5), (5, 20)])
@pytest.mark.parametrize("claim", [PAIR, Gaussian(1.0), Repeat(Gaussian(4.0), 10)])
def test_no_rates_that_a_claim_allows_are_refuted_too_often(claim, runs):
    assert size(claimed(claim), *runs) <= ERROR


def test_no_rates_of_a_sampled_training_are_refuted_too_often():
    """A setting of benchmarks/panel_chances.py, whose correct training was refuted once in four by chance."""
    assert 0.02 <= size(claimed(Repeat(Poisson(0.1, Gaussian(2.0)), 20)), 20, 20) <= ERROR


def test_mutant_a_test_at_the_rate_that_was_seen(monkeypatch):
    """Not the worst rates that the claim allows, but the likeliest: the test is then too eager."""

    def most(self, left, right):
        seen = np.full(left.shape, (self.counts.false_positives + 0.5) / (self.counts.n_out + 1))
        return honest(self, seen, seen)

    honest = exact._Test.most
    monkeypatch.setattr(exact._Test, "most", most)
    assert size(claimed(Gaussian(1.0)), 20, 20) > ERROR


def test_a_sequential_game_is_not_lost_by_a_last_run_that_is_alone(monkeypatch):
    monkeypatch.setattr(games, "_controls", lambda *_: ())
    stage = Stage(None, X, Y, Adjacency.ADD_REMOVE, Simulated(1))
    played = games.sequential(stage, claimed((3.0, 1e-5)), "unseen", games.FIRST + 4 * games.BATCH + 1, 1 - ERROR)
    found = played.shown[0].counts
    assert (found.n_in, found.n_out) == (2 * games.BATCH, 2 * games.BATCH)
