"""Make the runs on Ray's workers: a running cluster if there is one, else a local one; where a run is made changes
nothing, as its randomness comes with it."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...core import MissingExtra
from .workers import OUT_OF_TIME, Ended, Job, Result, Task, perform

STARTING = 120.0
"""Seconds that a worker may take to start, beside the time that a run may take."""


@contextlib.contextmanager
def session() -> Iterator[None]:
    """Ray for as long as an audit lasts; one that is running already is left running."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        yield
    finally:
        if started:
            ray.shutdown()


def run_all(task: Task, jobs: Sequence[Job], *, limit: float, deadline: float, ended: Ended) -> list[Result]:
    """All jobs, in order, as many at once as the cluster has processors; a run that is lost or too slow has failed."""
    ray = _ray()
    shared = ray.put(task)
    remote = ray.remote(num_cpus=1, max_retries=0)(_on_worker)
    at_once = max(1, int(ray.cluster_resources().get("CPU", 1)))
    results: list[Result | None] = [None] * len(jobs)
    waiting = list(range(len(jobs)))[::-1]
    running: dict[object, tuple[int, float]] = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            place = waiting.pop()
            running[remote.remote(shared, jobs[place])] = (place, time.monotonic())
        ready, _ = ray.wait(list(running), num_returns=1, timeout=max(0.0, min(1.0, deadline - time.monotonic())))
        now = time.monotonic()
        late = [ref for ref, (_, began) in running.items() if ref not in ready and now - began > limit + STARTING]
        for ref in [*ready, *late]:
            place, began = running.pop(ref)
            result = _fetched(ray, ref) if ref in ready else Result(math.nan, "took too long", now - began)
            results[place] = result
            ended(place, result)
        _cancel(ray, late)
        if now >= deadline:
            _cancel(ray, list(running))
            break
    return [result or Result(math.nan, OUT_OF_TIME, 0.0) for result in results]


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray") from None
    return ray


def _on_worker(task: Task, job: Job) -> Result:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # as in a process of our own
    return perform(task, job)


def _fetched(ray: Any, ref: Any) -> Result:
    try:
        found: Result = ray.get(ref)
    except ray.exceptions.RayError:
        return Result(math.nan, "ended its process", 0.0)
    return found


def _cancel(ray: Any, refs: Sequence[Any]) -> None:
    for ref in refs:
        ray.cancel(ref, force=True)
