"""Runs of foreign code in processes of their own: one that raises, hangs or dies is a failed run and nothing more."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import os
import pickle
import random
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from ...core import BadInput
from ..foreign import Border
from .generators import generators, given_back, started_afresh

Task = Callable[[Any, tuple[int, ...]], tuple[Any, str]]
"""(coins, seed words) -> (score or scores, problem)."""
Ended = Callable[[int, "Result"], None]
"""Told of every run that has ended, by its place among the jobs."""
OUT_OF_TIME = "was out of time"
NO_GPU = "perhaps as a process that is forked after torch has asked for a GPU has none; isolation='none' has it"
NOT_SENT = AttributeError, TypeError, pickle.PicklingError
"""What is raised for things that no other process can be told of."""
ISOLATIONS = ("auto", "process", "fleet", "ray", "none")
"""Where runs may be made; "auto" and "fleet" are an audit's own affair (audits/training.py, batched.py)."""


@dataclass(frozen=True)
class Job:
    """One run: which canaries it sees, and the words its randomness starts from."""

    coin: Any
    words: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """A run's score (or scores), NaN with a `problem` when it failed, and how long it took."""

    score: Any
    problem: str
    seconds: float
    place: str = ""
    """Where somebody's code raised, in brackets."""


def nobody(place: int, result: Result) -> None:
    """Stand in for a callback where nobody asked to be told of finished runs."""


def run_all(
    task: Task,
    jobs: Sequence[Job],
    *,
    isolation: str,
    limit: float,
    deadline: float,
    ended: Ended = nobody,
) -> list[Result]:
    """All jobs, in order: "process" in subprocesses, each run at most `limit` seconds; "none" in this process; "ray" on
    Ray's workers.

    `deadline` is a time of `time.monotonic()`; a run that has not ended by then has failed.
    """
    if isolation == "none":
        with given_back(task):
            return [_here(task, job, deadline, place, ended) for place, job in enumerate(jobs)]
    if isolation == "ray":
        from . import cluster

        return cluster.run_all(task, jobs, limit=limit, deadline=deadline, ended=ended)
    generators(task)  # once, for all workers
    pool = _Pool(task, min(cores(), len(jobs)), ended)
    try:
        return pool.run(jobs, limit, deadline)
    finally:
        pool.close()


def perform(task: Task, job: Job) -> Result:
    """One run, with every ambient generator started afresh so that runs are independent of each other."""
    began = time.monotonic()
    reseed(job.words, task)
    score: Any = math.nan
    problem = ""
    with Border() as border:
        score, problem = task(job.coin, job.words)
    if border.problem == "raised RuntimeError" and _without_gpu():
        border.problem = f"{border.problem} ({NO_GPU})"
    return Result(score, border.problem or problem, time.monotonic() - began, border.place)


def _here(task: Task, job: Job, deadline: float, place: int, ended: Ended) -> Result:
    if time.monotonic() > deadline:
        return Result(math.nan, OUT_OF_TIME, 0.0)
    result = perform(task, job)
    ended(place, result)
    return result


def reseed(words: tuple[int, ...], task: object = None) -> None:
    """A fit that draws from global generators must not repeat another run's draws (forked workers share states).

    Those that a `task` keeps itself are started afresh, too.
    """
    started_afresh(task, words)
    random.seed(words[0])
    np.random.seed([word & 0xFFFFFFFF for word in words])  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(words[0] & 0x7FFFFFFFFFFFFFFF)


def _serve(task: Task, pipe: Connection) -> None:
    """A worker's life: perform jobs until the pipe closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which ends its workers
    _one_thread()
    parent = os.getppid()
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:
                return
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send(perform(task, job))


def _one_thread() -> None:
    """Linear algebra in one thread: a forked thread pool hangs, and the workers share the cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    with suppress(ImportError):
        importlib.import_module("threadpoolctl").threadpool_limits(1)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: int | None = None
    began: float = 0.0


class _Pool:
    """A few processes that each perform one job at a time; a lost one is replaced."""

    def __init__(self, task: Task, size: int, ended: Ended) -> None:
        self._task, self._context, self._ended = task, _context(), ended
        if "torch" in sys.modules:
            importlib.import_module("torch._dynamo")  # what an optimizer imports: here once, not in every worker
        self._workers = [self._start() for _ in range(size)]

    def run(self, jobs: Sequence[Job], limit: float, deadline: float) -> list[Result]:
        results: list[Result | None] = [None] * len(jobs)
        waiting = list(range(len(jobs)))[::-1]
        while any(result is None for result in results):
            now = time.monotonic()
            if now >= deadline:
                break
            for slot, worker in enumerate(self._workers):
                if worker.job is not None and now - worker.began > limit:
                    self._note(results, worker.job, Result(math.nan, "took too long", now - worker.began))
                    worker = self._replace(slot)
                if worker.job is None and waiting:
                    worker = worker if worker.process.is_alive() else self._replace(slot)
                    worker.job, worker.began = waiting.pop(), now
                    worker.pipe.send(jobs[worker.job])
            self._collect(results, min(deadline - now, limit, 1.0))
        return [result or Result(math.nan, OUT_OF_TIME, 0.0) for result in results]

    def close(self) -> None:
        for worker in self._workers:
            _end(worker)

    def _collect(self, results: list[Result | None], patience: float) -> None:
        busy = {worker.pipe: slot for slot, worker in enumerate(self._workers) if worker.job is not None}
        for pipe in wait(list(busy), timeout=max(patience, 0.0)):
            slot = busy[pipe]  # type: ignore[index]
            worker = self._workers[slot]
            job, worker.job = worker.job, None
            try:
                result = worker.pipe.recv()
            except (EOFError, OSError):
                result = Result(math.nan, "ended its process", time.monotonic() - worker.began)
                self._replace(slot)
            if job is not None:
                self._note(results, job, result)

    def _note(self, results: list[Result | None], job: int, result: Result) -> None:
        results[job] = result
        self._ended(job, result)

    def _replace(self, slot: int) -> _Worker:
        _end(self._workers[slot])
        self._workers[slot] = self._start()
        return self._workers[slot]

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._task, theirs))  # type: ignore[attr-defined]
        try:
            process.start()
        except NOT_SENT:
            raise BadInput(
                "fit cannot be sent to a process of its own here, where none is forked (CUDA is in use, or no Linux).",
                fix='Define it, and all it holds, at the top of a module, or use isolation="none".',
            ) from None
        theirs.close()
        return _Worker(process, ours)


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()
    worker.process.close()


def _context() -> BaseContext:
    """fork where it is safe (any callable will do), spawn elsewhere (the fit must be importable)."""
    return multiprocessing.get_context("fork" if forkable() else "spawn")


def forkable() -> bool:
    """Whether a process can be forked that works like this one; not once torch has begun to use a GPU here."""
    torch: Any = sys.modules.get("torch")
    if sys.platform != "linux" or torch is None:
        return sys.platform == "linux"
    return not torch.cuda.is_initialized() and (torch.version.cuda is None or _differentiates_forked(torch))


def _differentiates_forked(torch: Any) -> bool:
    """Whether a fork of this process can run a backward pass, tried in one.

    Where a GPU is visible, the first backward pass of a process, on a CPU too, starts a thread for each GPU. A fork has
    none of them, and torch refuses every backward pass in it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        child = os.fork()
    if child == 0:
        with suppress(BaseException):
            torch.ones((), requires_grad=True).mul(2).backward()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def sendable(fit: object) -> bool:
    """Whether `fit` can be run in another process: by forking, or by pickling it under an importable name."""
    if forkable():
        return True
    try:
        sent = pickle.dumps(fit)
    except (*NOT_SENT, RuntimeError):
        return False
    return b"__main__" not in sent or _found_again(sys.modules["__main__"])


def _found_again(main: Any) -> bool:
    """Whether another process can run what this one began with: not a notebook, nor what was typed."""
    return main.__spec__ is not None or Path(getattr(main, "__file__", None) or "<none>").is_file()


def _without_gpu() -> bool:
    """Whether this process was forked from one that had asked for a GPU, so that it cannot use any."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda._is_in_bad_fork())


def cores() -> int:
    """How many runs go side by side."""
    return max(1, len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1)
