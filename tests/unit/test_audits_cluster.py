"""Runs spread by Ray: what one process gives, and a run that fails, dies or hangs is a failed run."""

import os
import sys
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tacit import MissingExtra, audit
from tacit.audits.runs import cluster
from tacit.audits.runs.workers import Job, run_all

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2


def fit(x, y, rng):
    """Class means with a little noise of the run's own."""
    means = np.stack([x[y == k].mean(axis=0) for k in (0, 1)]) + 0.1 * rng.normal(size=(2, 3))
    return lambda records: records @ means.T


def odd(coin, words):
    """Raises, dies, hangs or works, by its coin."""
    if coin == "raises":
        raise KeyError("a value of the data")
    if coin == "dies":
        os._exit(3)
    if coin == "hangs":
        time.sleep(600)
    return float(words[0]), ""


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"tacit\[ray\]"):
        audit(fit, (X, Y), claim=(1.0, 1e-5), runs=4, isolation="ray", rng=1)


@pytest.mark.slow
@pytest.mark.needs("ray")
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_what_one_process_gives(monkeypatch):
    asked = {"claim": (1.0, 1e-5), "runs": 24, "canary": "mislabelled", "rng": 1}
    with cluster.session():
        spread = audit(fit, (X, Y), isolation="ray", **asked)
        here = audit(fit, (X, Y), isolation="none", **asked)
        assert spread.demonstrations == here.demonstrations
        assert np.array_equal(spread.scores[0].score, here.scores[0].score)
        ended = []

        def played(*coins, limit):
            jobs = [Job(coin, (k,)) for k, coin in enumerate(coins)]
            told = {"ended": lambda place, result: ended.append(place), "deadline": np.inf}
            return run_all(odd, jobs, isolation="ray", limit=limit, **told)

        found = played("works", "raises", "dies", "works", limit=600.0)  # a busy machine starts a worker slowly
        monkeypatch.setattr(cluster, "STARTING", 1.0)
        late = played("hangs", limit=1.0)
    assert [result.problem for result in found] == ["", "raised KeyError", "ended its process", ""]
    assert [result.problem for result in late] == ["took too long"]
    assert [found[0].score, found[3].score] == [0.0, 3.0]
    assert sorted(ended) == [0, 0, 1, 2, 3]


def threads(coin, words):
    """The most threads that linear algebra of numpy and scipy would use."""
    return float(max(pool["num_threads"] for pool in threadpool_info())), ""


def test_runs_side_by_side_take_one_thread_each():
    """Else every worker would ask for all cores, which the others are using."""
    with threadpool_limits(2):
        found = run_all(threads, [Job(True, (k,)) for k in range(2)], isolation="process", limit=600.0, deadline=np.inf)
    assert [result.score for result in found] == [1.0, 1.0]
