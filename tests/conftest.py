"""What the tests need and may not find, and how long a test may take.

`@pytest.mark.needs("chromium")` deselects a test where that is absent and says so in a closing table. In CI the
environment variable TACIT_REQUIRE lists what must be there (`chromium,data`): absence is then a failure.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit.core import randomness

CPU_SECONDS = 5.0
QUICK = 0.07
"""CPU seconds of a million additions on a quick processor: a slower one may take longer for tests, too."""
_absent: Counter[str] = Counter()


def _data_folder() -> bool:
    folder = os.environ.get("TACIT_DATA")
    return folder is not None and (Path(folder) / "mnist.npz").is_file()


def _gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


CHECKS = {
    "chromium": lambda: shutil.which("chromium") is not None,
    "data": _data_folder,
    "gpu": _gpu,
    "postgres": lambda: __import__("postgres_server").present(),
    "strace": lambda: shutil.which("strace") is not None,
}


def _present(what: str) -> bool:
    return CHECKS[what]() if what in CHECKS else importlib.util.find_spec(what) is not None


def pytest_configure(config: pytest.Config) -> None:
    required = set(filter(None, os.environ.get("TACIT_REQUIRE", "").split(",")))
    missing = sorted(what for what in required if not _present(what))
    if missing:
        raise pytest.UsageError(f"TACIT_REQUIRE names what is not here: {', '.join(missing)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needs = {item: [mark.args[0] for mark in item.iter_markers("needs")] for item in items}
    found = {what: _present(what) for what in {what for each in needs.values() for what in each}}
    dropped = [item for item in items if not all(found[what] for what in needs[item])]
    for item in dropped:
        _absent.update(what for what in needs[item] if not found[what])
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """While a test runs, the modules of the other tests are not there: training one record at a time looks at all of
    the user's modules, and no user has hundreds of tests in theirs."""
    for module in {item.module for item in session.items if isinstance(item, pytest.Function)}:
        sys.modules.pop(module.__name__, None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells the one process that prints what was dropped; all workers drop the same."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["absent"] = dict(_absent)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    _absent.update(Counter(getattr(node, "workeroutput", {}).get("absent", {})) - _absent)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _absent:
        terminalreporter.section("deselected: needs something that is not here")
        for what, count in sorted(_absent.items()):
            terminalreporter.line(f"{what:<12} {count} tests")


class Repeatable:
    """Stands for `os` where tacit takes entropy: the same numbers in every test, the system's in a process it forks."""

    def __init__(self) -> None:
        self._here, self._stream = os.getpid(), random.Random(0)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def urandom(self, count: int) -> bytes:
        return self._stream.randbytes(count) if os.getpid() == self._here else os.urandom(count)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every test begins with the same random numbers, so that none fails by chance; `entropy` marks those that may not.

    Processes that a test starts or forks draw their own.
    """
    if isinstance(item, pytest.Function):
        sys.modules[item.module.__name__] = item.module
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    real = item.get_closest_marker("entropy") is not None
    for module in (randomness, sys.modules.get("tacit.train.course")):
        if module is not None:
            vars(module)["os"] = os if real else Repeatable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    module = getattr(item, "module", None)
    if module is not None and module is not getattr(nextitem, "module", None):
        sys.modules.pop(module.__name__, None)


def _slowness() -> float:
    """How many times as long as a quick processor this one takes now, at least 1: other programs may share its core."""
    started = time.process_time()
    for _ in range(5):
        sum(number * number for number in range(10**6))
    return max(1.0, (time.process_time() - started) / 5 / QUICK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item):
    """A test over 5 CPU seconds says so with the mark `slow`; on a busy machine everything may take thrice as long."""
    started = time.process_time()
    result = yield
    spent = time.process_time() - started
    unmarked = item.get_closest_marker("slow") is None
    if unmarked and spent > 3 * CPU_SECONDS and spent > 3 * CPU_SECONDS * _slowness():
        pytest.fail(f"took {spent:.1f} CPU seconds; mark it slow or make it faster")
    return result


@pytest.fixture(scope="session")
def postgres():
    """A running PostgreSQL server, one for each worker."""
    from postgres_server import server

    with server() as running:
        yield running


@pytest.fixture(scope="session")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Run a script in two processes of torch.distributed; returns the folder it was given, with `status` and `errors`.

    The workers of pytest-xdist share one run: the first one makes it, the others wait for it.
    """
    root = tmp_path_factory.getbasetemp()
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    return lambda script: _run_once(script, shared / script.stem)


def _run_once(script: Path, folder: Path) -> Path:
    import fcntl

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            folder.mkdir()
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [*command, str(folder)], capture_output=True, text=True, timeout=600, check=False, env=environment
            )
            (folder / "errors").write_text(done.stderr)
            (folder / "status").write_text(str(done.returncode))
    return folder
