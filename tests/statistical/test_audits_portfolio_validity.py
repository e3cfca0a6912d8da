"""Audits that choose their canary and statistic in a pilot: nulls, claims that are exactly met, and mutants.

Runs are simulated here: a model's answers are a public function of one noisy number. Pilot, choice and judgement are
the library's own. Checks allow binom(REPLAYS, 0.05) up to its 1 - 1e-6 quantile; benchmarks/portfolio_nulls.py plays
a thousand replays of each case.
"""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audits import ClopperPearson, ExactCurve, games, portfolio, stated
from tacit.audits.choice import counts
from tacit.audits.runs.workers import Result
from tacit.audits.stage import Stage
from tacit.core import Adjacency, Evaluation, Mismatch, source
from tacit.core.events import Gaussian

REPLAYS, ERROR = 60, 0.05
MOST = stats.binom.ppf(1 - 1e-6, REPLAYS, ERROR)
RNG = np.random.default_rng(0)
X, Y = np.hstack([RNG.normal(size=(24, 3)), (np.arange(24) % 3)[:, None]]), np.arange(24) % 2


class Simulated:
    """Runs without any training: answers are wave * (noise + shift with a canary) + constants, so one Gaussian release.

    With `levels` the noisy number is rounded to a grid, so that scores tie; a share of the runs fails; `rough` adds
    noise to every answer, so that statistics differ.
    """

    fleet = None
    over = False

    def __init__(self, seed, shift=0.0, levels=None, failing=0.0, rough=0.0):
        self.chance, self.shift, self.levels, self.failing = source(seed), shift, levels, failing
        self.rng, self.rough = np.random.default_rng(seed), rough

    def run(self, task, which):
        width = len(task.seen_x)
        told = self.rng.normal(size=len(which)) + self.shift * (np.array(which) >= 0)
        told = told if self.levels is None else np.round(told * self.levels) / self.levels
        wave = np.sin(np.arange(width) + 1.0)
        failed = self.rng.random(len(which)) < self.failing
        said = told[:, None] * wave + wave[::-1] + self.rough * self.rng.normal(size=(len(which), width))
        return [
            Result(math.nan if bad else row, "failed" if bad else "", 0.1)
            for row, bad in zip(said, failed, strict=True)
        ]

    def patient(self, times):
        return self

    def affordable(self, runs, times, least=4):
        return runs

    def batch(self, usual):
        return usual


def refuted(monkeypatch, budget, claim, game="runs", runs=120):
    """Whether the audit refutes; only the judgement is left of what it shows, as readings take time."""
    told = stated(claim, delta=1e-5)
    use = ClopperPearson(1e-5) if told.event is None else ExactCurve(told.event, Adjacency.ADD_REMOVE, 1e-5)

    def judge(scores, *, choice, **_):
        counted = counts(Evaluation(scores), choice)
        if told.event is not None:
            return use.ruled_out(1.0, counted, 1 - ERROR)
        return use.read(counted, 1 - ERROR) > told.bound.epsilon

    monkeypatch.setattr(games, "_controls", lambda *_: ())
    if game == "runs":
        monkeypatch.setattr(games, "demonstrate", judge)
        return games.many_runs(Stage(None, X, Y, Adjacency.ADD_REMOVE, budget), told, "auto", runs, 1 - ERROR).shown
    outcome = games.sequential(Stage(None, X, Y, Adjacency.ADD_REMOVE, budget), told, "auto", runs, 1 - ERROR)
    return any(item.bound.contradicts(told.bound) for item in outcome.shown)


CASES = {
    "nothing is told": ({"rough": 1.0}, (0.01, 1e-5), {}),
    "ties": ({"levels": 1}, (0.01, 1e-5), {}),
    "few runs": ({}, (0.01, 1e-5), {"runs": 100}),
    "an odd number of runs, and some fail": ({"failing": 0.2}, (0.01, 1e-5), {"runs": 131}),
    "exactly what is claimed": ({"shift": 1.0}, Gaussian(1.0), {"runs": 200}),
    "exactly what is claimed, with ties": ({"shift": 1.0, "levels": 2}, Gaussian(1.0), {"runs": 200}),
}


def alarms(monkeypatch, name, replays=REPLAYS):
    how, claim, more = CASES[name]
    return sum(refuted(monkeypatch, Simulated(seed, **how), claim, **more) for seed in range(replays))


@pytest.mark.parametrize("name", CASES)
def test_a_true_claim_is_seldom_refuted(name, monkeypatch):
    assert alarms(monkeypatch, name) <= MOST


def test_a_false_claim_is_refuted(monkeypatch):
    assert sum(refuted(monkeypatch, Simulated(seed, 3.0), Gaussian(1.0), runs=200) for seed in range(10)) >= 9


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
    monkeypatch.setattr(portfolio, "FINALISTS", 20)
    replays = 120
    assert alarms(monkeypatch, "nothing is told", replays) > stats.binom.ppf(1 - 1e-3, replays, ERROR)
