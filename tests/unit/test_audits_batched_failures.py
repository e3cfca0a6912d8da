"""Fleets of an audit that fail, hang, ask for too much or are stopped: what fails costs itself only."""

import math
import time

import numpy as np
import pytest

from fleet_fits import Noisy, Odd, play
from tacit.audits.runs.batched import Together
from tacit.audits.runs.workers import Job
from tacit.core import BadInput, NotFinished

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
    from tacit.audits.runs.journal import Journal

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
