"""Runs in a fleet: what single runs give; runs that are not independent are refused."""

import copy
import math
import os
import sys
import types

import numpy as np
import pytest

from fleet_fits import CLAIM, DATA, RNG, Noisy, Odd, play
from tacit.audits import CANARIES, training
from tacit.audits.canary import pair
from tacit.audits.runs import batched, budget, workers
from tacit.audits.runs.batched import Together
from tacit.core import Adjacency, BadInput, NotFinished, Verdict
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import Plan
from tacit.study import bracket


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
    right, wrong = (play(Noisy(noise), canary="auto", runs=800, confidence=0.999, claim=CLAIM) for noise in (2.0, 0.2))
    assert right.verdict is Verdict.CONSISTENT
    assert wrong.verdict is Verdict.REFUTED
    stopped = play(Noisy(0.2), canary="auto", claim=CLAIM, runs=800, confidence=0.999, game="sequential")
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
    monkeypatch.setattr(batched, "SPREAD", math.inf)
    monkeypatch.setattr(batched, "EXACT", 1e9)
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
    monkeypatch.setattr(batched, "AGREE", math.inf)
    monkeypatch.setattr(batched, "SPREAD", math.inf)
    monkeypatch.setattr(batched, "EXACT", 1e9)
    assert play(shared, **given).verdict is Verdict.REFUTED


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


@pytest.fixture
def cuda_in_use(monkeypatch):
    """A process that has a GPU at work: nothing can be forked any more."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)


def test_nothing_is_forked_where_a_fork_cannot_differentiate(monkeypatch):
    """Beside a GPU, torch refuses backward passes in a fork once one has run here, on a processor too."""
    torch = pytest.importorskip("torch")
    here, real = os.getpid(), torch.Tensor.backward

    def refused(tensor):
        if os.getpid() != here:
            raise RuntimeError("Unable to handle autograd's threading in combination with fork-based multiprocessing")
        real(tensor)

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert workers.forkable()
    monkeypatch.setattr(torch.Tensor, "backward", refused)
    assert not workers.forkable()


@pytest.mark.slow
def test_where_processes_are_spawned(monkeypatch):
    """As on other systems, or when a GPU is in use: what is sent must be importable."""
    alone = play(Noisy(), runs=20)
    monkeypatch.setattr(workers, "forkable", lambda: False)
    spawned = play(Noisy(), runs=20)
    assert spawned.demonstrations == alone.demonstrations
    assert spawned.provenance["isolation"] == "fleet"


def test_what_no_process_can_be_given_is_made_here(cuda_in_use):
    class Hidden(Noisy):
        pass

    among, single = play(Hidden(), runs=20), play(lambda x, y, rng: Noisy()(x, y, rng), runs=20)
    assert (among.provenance["isolation"], single.provenance["isolation"]) == ("fleet, none", "none")
    assert among.demonstrations == single.demonstrations
    assert among.controls[-1].passed
    for evidence in (among, single):
        assert any("made in one process, the audit's own" in line for line in evidence.not_covered)
    insisted = play(Hidden(), runs=20, isolation="fleet")
    assert insisted.demonstrations == among.demonstrations
    with pytest.raises(BadInput, match=r"cannot be sent .* top of a module, or use isolation=.none"):
        play(Hidden(), runs=20, isolation="process")
    with pytest.raises(BadInput, match=r"scores .* apart"):  # runs that share randomness are found out here, too
        play(type("Hidden", (Noisy,), {})(shared="all"))


def test_a_time_budget_counts_on_one_run_at_a_time_here(cuda_in_use, monkeypatch):
    """By a clock that only runs move, so that a busy machine changes nothing: 10 ms each, 1.5 s for all of them."""
    clock = types.SimpleNamespace(now=0.0)
    for module in (budget, training, workers):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: clock.now))

    class Hidden(Noisy):
        def runs(self, x, y, member, rngs, order=None):
            clock.now += 0.01 * len(rngs)
            return super().runs(x, y, member, rngs, order)

    evidence = play(Hidden(), runs=2000, seconds=1.5)
    assert evidence.provenance["isolation"] == "fleet, none"
    assert evidence.provenance["runs_failed"] == 0
    assert 60 < evidence.provenance["runs_done"] < 150
    assert evidence.provenance["seconds"] <= 1.5


def test_what_was_typed_is_not_found_again(cuda_in_use, monkeypatch):
    """A notebook's functions have a name that another process does not know."""
    main = types.ModuleType("__main__")
    main.fit = types.FunctionType(play.__code__, {}, "fit")
    main.fit.__module__, main.fit.__qualname__ = "__main__", "fit"
    assert workers.sendable(play)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert not workers.sendable(main.fit)
    assert workers.sendable(play)
    main.__file__ = __file__
    assert workers.sendable(main.fit)


def test_a_fit_says_where_its_calls_are_made():
    fit = Noisy()
    fit.isolation = "none"
    evidence = play(fit)
    assert evidence.provenance["isolation"] == "fleet, none"
    assert evidence.demonstrations == play(Noisy()).demonstrations
    fit.isolation = "ray"
    with pytest.raises(BadInput, match=r"fit\.isolation must be process or none"):
        play(fit)


def test_a_forked_process_without_its_gpu_says_so(monkeypatch):
    torch = pytest.importorskip("torch")

    def fit(x, y, rng):
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(NotFinished, match=r"raised RuntimeError \(perhaps .* a GPU has none; isolation=.none. has it"):
        play(fit)


class Keeping(Noisy):
    """Right in the first two calls of a process; from then on all runs have the randomness of one."""

    at_once, calls = 8, 0

    def many(self, x, y, member, rngs):
        self.calls += 1
        return super().many(x, y, member, [copy.deepcopy(rngs[0]) for _ in rngs] if self.calls > 2 else rngs)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "game"), [("process", "runs"), ("none", "runs"), ("none", "sequential")])
def test_a_fit_that_shares_randomness_in_later_calls_is_refused(place, game, monkeypatch):
    """With a mutant: were the last call not compared, nobody would notice. (One worker: of several, a late one may make
    the last call as its first.)"""
    monkeypatch.setattr(workers, "cores", lambda: 1)

    def keeping():
        fit = Keeping()
        fit.isolation = place
        return play(fit, runs=80, game=game, claim=(4.0, 1e-5))

    with pytest.raises(BadInput, match="does not make the runs that fit makes"):
        keeping()
    monkeypatch.setattr(Together, "compare_latest", lambda *_, **__: None)
    assert keeping().controls[-1].passed


def test_the_last_call_is_compared_once_and_draws_nothing(tmp_path):
    """All of it is taken from the checkpoint by an audit that goes on: the same coins, the same scores."""
    whole = play(Noisy(), runs=100)
    found = int(whole.controls[-1].found.split()[0])
    assert found > int(play(Noisy(), runs=32).controls[-1].found.split()[0])
    compared = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Together, "compare_latest", lambda self, **_: compared.append(self) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            play(Noisy(), runs=100, checkpoint=tmp_path / "runs")
    resumed = play(Noisy(), runs=100, checkpoint=tmp_path / "runs")
    assert len(compared) == 1
    assert resumed.demonstrations == whole.demonstrations
    assert resumed.controls == whole.controls


def test_a_fleet_that_was_not_compared_is_not_relied_on():
    assert not Together().control().passed


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
