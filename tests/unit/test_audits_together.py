"""Runs in a fleet: what single runs give; runs that are not independent are refused; what fails costs itself only."""

import copy
import math
import os
import time

import numpy as np
import pytest

from tacit.audits import CANARIES, audit, together
from tacit.audits.canary import pair
from tacit.audits.together import Together
from tacit.audits.workers import Job
from tacit.core import Adjacency, BadInput, NotFinished, Verdict
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import Plan
from tacit.study import bracket

STEPS, RATE = 10, 0.5
CLAIM = Repeat(Poisson(RATE, Gaussian(2.0)), STEPS)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
DATA = X, (X[:, 0] > 0).astype(int)


class Noisy:
    """DP-SGD on a softmax with clip norm 1, sampling and noise of each run's own; `many` makes all steps at once."""

    at_once = 32

    def __init__(self, noise=2.0, shared="", rate=RATE, steps=STEPS):
        self.noise, self.shared, self.rate, self.steps = noise, shared, rate, steps

    def __call__(self, x, y, rng):
        predict = self.runs(x, y, np.ones((len(x), 1), dtype=bool), [rng])
        return lambda q: predict(q)[0]

    def many(self, x, y, member, rngs):
        if self.shared == "all":
            rngs = [np.random.default_rng(rngs[0].integers(2**32))] * len(rngs)
        if self.shared == "two" and len(rngs) > 8:
            same = [k for k in range(1, 8) if (member[:, k] == member[:, 0]).all()]
            rngs = [copy.deepcopy(rngs[same[0]]), *rngs[1:]]
        return self.runs(x, y, member, rngs, order=rngs[0] if self.shared == "order" else None)

    def runs(self, x, y, member, rngs, order=None):
        ones = np.hstack([x, np.ones((len(x), 1))])
        weights = np.zeros((len(rngs), ones.shape[1], 2))
        for _ in range(self.steps):
            common = None if order is None else order.random(len(x)) < self.rate
            taken = np.zeros(member.T.shape, dtype=bool)
            for k, rng in enumerate(rngs):
                own = rng.random(int(member[:, k].sum())) < self.rate
                taken[k, np.flatnonzero(member[:, k])] = own if common is None else common[member[:, k]]
            logits = ones @ weights
            p = np.exp(logits - logits.max(axis=2, keepdims=True))
            p /= p.sum(axis=2, keepdims=True)
            p[:, np.arange(len(y)), y] -= 1
            norm = np.sqrt((ones**2).sum(1)[None] * (p**2).sum(2))
            p *= (taken / np.maximum(norm, 1))[:, :, None]
            sums = ones.T @ p
            noise = np.stack([rng.normal(size=sums.shape[1:]) for rng in rngs])
            weights = weights - 0.3 * (sums + self.noise * noise)
        return lambda q: np.hstack([q, np.ones((len(q), 1))]) @ weights


def play(fit, **change):
    given = {"claim": (3.0, 1e-5), "canary": "blank", "runs": 60, "rng": 1, **change}
    return audit(fit, given.pop("data", DATA), **given)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"adjacency": "replace"},
        {"canary": "auto"},
        {"game": "one-run", "runs": 40},
        {"claim": Plan(40, 0.5, 10, 2.0)},
    ],
)
def test_a_fleet_gives_what_single_runs_give(change):
    alone, among = (play(Noisy(), isolation=where, **change) for where in ("process", "fleet"))
    np.testing.assert_allclose(among.scores[0].score, alone.scores[0].score, rtol=0, atol=1e-9)
    assert np.array_equal(among.scores[0].member, alone.scores[0].member)
    assert among.demonstrations == alone.demonstrations
    assert (among.provenance["isolation"], alone.provenance["isolation"]) == ("fleet", "process")
    assert among.controls[-1].name == "fleet"
    assert among.controls[:-1] == alone.controls


def test_the_pool_holds_the_data_of_every_run():
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE):
        game = pair(*DATA, CANARIES["blank"], RNG, adjacency)
        coins = np.array([True, False, True])
        x, y, member = game.pool(coins)
        for coin, side in zip(coins, member.T, strict=True):
            np.testing.assert_array_equal(x[side], game.data(bool(coin))[0])
            np.testing.assert_array_equal(y[side], game.data(bool(coin))[1])


def test_a_fleet_is_used_where_it_is_offered():
    assert play(Noisy()).provenance["isolation"] == "fleet"
    assert play(lambda x, y, rng: Noisy()(x, y, rng)).provenance["isolation"] == "process"
    assert play(Noisy(), game="sequential", runs=120).provenance["isolation"] == "fleet"


@pytest.mark.slow
def test_a_bug_is_refuted_in_a_fleet_and_its_right_twin_is_not():
    right, wrong = (
        play(Noisy(noise), canary="auto", runs=800, confidence=1 - 1e-6, claim=CLAIM) for noise in (2.0, 0.5)
    )
    assert right.verdict is Verdict.CONSISTENT
    assert wrong.verdict is Verdict.REFUTED
    stopped = play(Noisy(0.5), canary="auto", claim=CLAIM, runs=800, confidence=1 - 1e-6, game="sequential")
    assert stopped.verdict is Verdict.REFUTED
    assert stopped.provenance["runs_done"] < 800


@pytest.mark.parametrize("shared", ["all", "order", "two"])
def test_runs_that_share_randomness_are_refused(shared):
    with pytest.raises(BadInput, match=r"fit\.many does not make the runs that fit makes: scores .* apart"):
        play(Noisy(shared=shared))


class Faint(Noisy):
    """Scores that differ by little: the same network, whose outputs are small, or lie far from 0."""

    scale, offset = 1e-5, 0.0

    def many(self, x, y, member, rngs):
        return super().many(x, y, member, [copy.deepcopy(rngs[0]) for _ in rngs] if self.shared else rngs)

    def runs(self, x, y, member, rngs, order=None):
        predict = super().runs(x, y, member, rngs, order)
        return lambda q: self.scale * predict(q) + [0.0, self.offset]


class Fainter(Faint):
    scale = 1e-7


class Lofty(Faint):
    scale, offset = 1.0, 5e4


@pytest.mark.parametrize("kind", [Faint, Fainter, Lofty])
def test_scores_that_hardly_differ_hide_nothing(kind, monkeypatch):
    """A mutant: by a fixed measure alone, shared noise would look like rounding, and a right training be refuted."""
    given = {"claim": CLAIM, "confidence": 1 - 1e-6, "runs": 300}
    right, shared = kind(), kind(shared="noise")
    right.at_once = shared.at_once = 300
    assert play(right, **given).verdict is Verdict.CONSISTENT
    with pytest.raises(BadInput, match="does not make the runs"):
        play(shared, **given)
    monkeypatch.setattr(together, "SPREAD", math.inf)
    monkeypatch.setattr(together, "EXACT", 1e9)
    assert play(shared, **given).verdict is Verdict.REFUTED


def far(x, y, rng):
    """A record whose gradient nobody else's covers."""
    return np.array([0.0, 0.0, 0.0, 30.0]), 1


def test_what_a_shared_order_would_have_done(monkeypatch):
    """A mutant: with nothing compared, a right training whose runs share one batch order is refuted at 1 - 1e-6.

    The claim counts on a sample that nobody knows; the order of this seed has the canary in it.
    """
    claim = Repeat(Poisson(0.2, Gaussian(0.5)), 2)
    given = {"claim": claim, "runs": 600, "canary": far, "confidence": 1 - 1e-6, "rng": 6}
    right, shared = (Noisy(0.5, order, rate=0.2, steps=2) for order in ("", "order"))
    right.at_once = shared.at_once = 600
    assert play(right, **given).verdict is Verdict.CONSISTENT
    with pytest.raises(BadInput, match="does not make the runs"):
        play(shared, **given)
    monkeypatch.setattr(together, "AGREE", math.inf)
    monkeypatch.setattr(together, "SPREAD", math.inf)
    monkeypatch.setattr(together, "EXACT", 1e9)
    assert play(shared, **given).verdict is Verdict.REFUTED


class Odd(Noisy):
    """A fleet that goes wrong in one way, for every run or for the one in nine whose first number says so."""

    def __init__(self, how, always=False):
        super().__init__()
        self.how, self.always = how, always

    def __call__(self, x, y, rng):
        return self.spoilt(super().__call__(x, y, rng), [rng], lambda told, bad: told)

    def many(self, x, y, member, rngs):
        return self.spoilt(super().many(x, y, member, rngs), rngs, None)

    def spoilt(self, predict, rngs, alone):
        bad = np.array([self.always or rng.random() < 1 / 9 for rng in rngs])
        if self.how == "raises" and bad.any():
            raise ValueError("a secret")
        if self.how == "dies" and bad.any():
            os._exit(3)
        if self.how == "hangs" and bad.any():
            time.sleep(600)
        value = {"nan": math.nan, "constant": 0.5}.get(self.how)
        if value is None:
            return predict
        if alone:
            return lambda q: np.full((len(q), 2), value) if bad[0] else predict(q)
        return lambda q: np.where(bad[:, None, None], value, predict(q))


WORDS = {
    "raises": "raised ValueError",
    "dies": "ended its process",
    "nan": "predicted NaN",
    "constant": "predicted a constant",
}


@pytest.mark.parametrize("how", WORDS)
def test_a_run_that_fails_costs_itself_only(how):
    alone, among = (play(Odd(how), isolation=where, runs=40) for where in ("process", "fleet"))
    assert among.provenance["failures"] == alone.provenance["failures"]
    assert among.provenance["failures"].startswith(WORDS[how])
    np.testing.assert_allclose(among.scores[0].score, alone.scores[0].score, rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", WORDS)
def test_a_fleet_that_always_fails_is_one_sentence(how):
    with pytest.raises(NotFinished, match=f"No run gave a score: fit.many {WORDS[how]} in 2 runs"):
        play(Odd(how, always=True))


def test_a_hanging_call_ends_and_is_cut_in_halves():
    class Slow:
        def together(self, coins, words):
            if "hangs" in coins:
                time.sleep(600)
            return [(1.0, "")] * len(coins)

        def __call__(self, coin, words):
            return 1.0, ""

    jobs = [Job("hangs" if k == 3 else "", (k, 1, 1, 1)) for k in range(8)]
    noted = []
    found = Together(8).run_all(
        Slow(), jobs, limit=0.3, deadline=math.inf, ended=lambda place, result: noted.append(place)
    )
    assert [result.problem for result in found] == [""] * 3 + ["took too long"] + [""] * 4
    assert sorted(noted) == list(range(8))
    late = Together(8).run_all(Slow(), jobs, limit=9.0, deadline=time.monotonic() + 0.3)
    assert {result.problem for result in late} == {"was out of time"}


def test_a_call_that_is_too_large_becomes_smaller_ones(tmp_path):
    class Hungry(Noisy):
        def many(self, x, y, member, rngs):
            (tmp_path / f"{time.monotonic_ns()}-{len(rngs)}").touch()
            if len(rngs) > 8:
                raise MemoryError
            return super().many(x, y, member, rngs)

    among = play(Hungry(), runs=200)
    assert among.provenance["runs_failed"] == 0
    assert among.demonstrations == play(Noisy(), runs=200, isolation="process").demonstrations
    sizes = [int(path.name.split("-")[1]) for path in sorted(tmp_path.iterdir())]
    assert sizes[1:8] == [32, 16, 16, 8, 8, 8, 8]
    assert set(sizes[8:]) == {8}


def test_answers_of_another_shape_are_one_sentence():
    class Flat(Noisy):
        def many(self, x, y, member, rngs):
            predict = super().many(x, y, member, rngs)
            return lambda q: predict(q).swapaxes(0, 1)

    with pytest.raises(NotFinished, match=r"predicted shape \(17, 2, 2\), where \(2 runs, 17 records"):
        play(Flat())

    class Nothing(Noisy):
        def many(self, x, y, member, rngs):
            return None

    with pytest.raises(NotFinished, match=r"fit\.many returned no predict\(x\)"):
        play(Nothing())


def test_alone_and_among_others_must_both_work():
    class Lonely(Noisy):
        def __call__(self, x, y, rng):
            raise ValueError

    with pytest.raises(BadInput, match="alone a run raised ValueError, among others it gave a score"):
        play(Lonely())


def test_what_cannot_be_a_fleet_is_refused():
    def single(x, y, rng):
        return Noisy()(x, y, rng)

    with pytest.raises(BadInput, match=r"offers fit\.many"):
        play(single, isolation="fleet")
    with pytest.raises(BadInput, match="follows single runs"):
        play(Noisy(), isolation="fleet", game="updates")
    with pytest.raises(BadInput, match="isolation must be one of auto, process, fleet, ray, none"):
        play(Noisy(), isolation="thread")
    for size in (0, 2.5, True, "all"):
        fit = Noisy()
        fit.at_once = size
        with pytest.raises(BadInput, match="whole number of runs"):
            play(fit)


def test_a_deterministic_training_is_no_shared_randomness():
    """Twins that are alike alone, too."""

    class Plain(Noisy):
        def runs(self, x, y, member, rngs, order=None):
            shares = np.stack([np.bincount(y[side], minlength=2) / side.sum() for side in member.T])
            return lambda q: np.broadcast_to(shares[:, None], (len(rngs), len(q), 2)) + 0.001 * q[None, :, :1]

    evidence = play(Plain(), claim=(0.5, 1e-5))
    assert evidence.controls[-1].passed
    assert evidence.verdict is Verdict.REFUTED


@pytest.mark.slow
def test_where_processes_are_spawned(monkeypatch):
    """As on other systems, or when a GPU is in use: what is sent must be importable."""
    from tacit.audits import workers

    alone = play(Noisy(), runs=20)
    monkeypatch.setattr(workers, "_context", lambda: workers.multiprocessing.get_context("spawn"))
    assert play(Noisy(), runs=20).demonstrations == alone.demonstrations

    class Hidden(Noisy):
        pass

    with pytest.raises(BadInput, match="cannot be sent to a process of its own"):
        play(Hidden(), runs=20)


def test_a_fleet_that_was_not_compared_is_not_relied_on():
    assert not Together().control().passed


class Hungry(Noisy):
    """Has memory for eight runs."""

    def many(self, x, y, member, rngs):
        if len(rngs) > 8:
            raise MemoryError
        return super().many(x, y, member, rngs)


@pytest.mark.parametrize(
    ("fit", "change", "after"),
    [
        (Noisy(), {}, 42),
        (Noisy(), {"game": "sequential", "runs": 150}, 42),
        (Hungry(), {"game": "sequential", "runs": 150}, 2 + 32 + 32 + 8),  # calls are smaller by now
    ],
)
def test_an_interrupted_fleet_goes_on_where_it_was(tmp_path, monkeypatch, fit, change, after):
    from tacit.audits.journal import Journal

    class Stop(BaseException):
        pass

    path, whole = tmp_path / "checkpoint.jsonl", play(fit, **change)
    keep, kept = Journal.keep, []

    def interrupted(self, run, result):
        keep(self, run, result)
        kept.append(run)
        if len(kept) == after:
            raise Stop

    monkeypatch.setattr(Journal, "keep", interrupted)
    with pytest.raises(Stop):
        play(fit, checkpoint=path, **change)
    monkeypatch.setattr(Journal, "keep", keep)
    with pytest.raises(BadInput, match="other settings"):
        play(fit, checkpoint=path, isolation="process", **change)
    rest = play(fit, checkpoint=path, **change)
    np.testing.assert_array_equal(rest.scores[0].member, whole.scores[0].member)
    np.testing.assert_allclose(rest.scores[0].score, whole.scores[0].score, rtol=0, atol=1e-12)
    assert rest.demonstrations == whole.demonstrations
    assert not path.exists()


def test_a_time_budget_fixes_how_many_runs():
    evidence = play(Noisy(), runs=1_000_000, seconds=3.0)
    planned, failed = (evidence.provenance[f"runs_{name}"] for name in ("planned", "failed"))
    assert 10 < planned < 1_000_000
    assert failed < planned / 2  # on a busy machine some are out of time
    assert evidence.provenance["seconds"] < 6.0


def test_bracket_uses_a_fleet_for_references_too():
    class Counted(Noisy):
        def __init__(self):
            super().__init__()
            self.made = []

        def many(self, x, y, member, rngs):
            self.made.append(len(rngs))
            return super().many(x, y, member, rngs)

    fit, alone = Counted(), Counted()
    given = {"references": 40, "runs": 20, "canary": "blank", "rng": 1}
    among = bracket(fit, DATA, **given)
    single = bracket(alone, DATA, isolation="process", **given)
    assert (fit.made, alone.made) == ([32, 8], [])  # those of the audit are made in other processes
    assert [item.attack for item in among.attacks] == [item.attack for item in single.attacks]
    for one, other in zip(among.scores, single.scores, strict=True):
        np.testing.assert_allclose(one.score, other.score, rtol=0, atol=1e-6)
    with pytest.raises(BadInput, match="The training of reference models raised ValueError"):
        bracket(Odd("raises"), DATA, **given)
