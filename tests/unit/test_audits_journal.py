"""An audit that was interrupted goes on from its checkpoint, with the results it would have had."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from command import Command
from tacit.audits import audit
from tacit.core import BadInput, NotFinished
from tacit.core.errors import FileWarning

RNG = np.random.default_rng(0)
DATA = (RNG.normal(size=(20, 3)), np.arange(20) % 2)
FIT = """
import os, pathlib, time
import numpy as np
def runs(path):
    return len(path.read_text().splitlines()) if path.exists() else 0
def fit(x, y, rng):
    while "TO_BE_KILLED" in os.environ and runs(pathlib.Path("tacit-audit.unfinished/checkpoint.jsonl")) > 10:
        time.sleep(0.02)
    shift = 0.5 * (len(x) > 20) + rng.normal()
    return lambda q: np.stack([q[:, 0] + shift, np.zeros(len(q))], axis=1)
"""


class Stop(BaseException):
    pass


def noisy(x, y, rng):
    """A little higher when the canary is in."""
    shift = 0.5 * (len(x) > 20) + rng.normal()
    return lambda q: np.stack([q[:, 0] + shift, np.zeros(len(q))], axis=1)


def ended_after(runs):
    """The same fit, until it has been called so often."""
    calls = []

    def fit(x, y, rng):
        calls.append(1)
        if len(calls) > runs:
            raise Stop
        return noisy(x, y, rng)

    fit.__qualname__ = noisy.__qualname__
    fit.calls = calls
    return fit


def play(fit, path, **change):
    given = {"claim": (1.0, 1e-5), "runs": 30, "canary": "blank", "isolation": "none", "rng": 5, **change}
    return audit(fit, given.pop("data", DATA), checkpoint=path, **given)


def same(one, other):
    left, right = one.to_json(), other.to_json()
    for each in (left, right):
        each["provenance"].pop("seconds")
    return left == right and np.array_equal(one.scores[0].score, other.scores[0].score)


@pytest.mark.parametrize(
    "change", [{}, {"game": "sequential", "runs": 100}, {"game": "one-run", "runs": 40}, {"canary": "auto"}]
)
def test_an_interrupted_audit_goes_on_where_it_was(tmp_path, change):
    path = tmp_path / "new" / "checkpoint.jsonl"
    whole = play(noisy, None, **change)
    with pytest.raises(Stop):
        play(ended_after(3), path, **change)
    assert path.stat().st_mode & 0o777 == 0o600
    rest = ended_after(10_000)
    assert same(play(rest, path, **change), whole)
    assert len(rest.calls) == len(play_calls(change)) - 3
    assert not path.exists()


def play_calls(change):
    counted = ended_after(10_000)
    play(counted, None, **change)
    return counted.calls


def test_a_line_that_was_being_written_is_played_again(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    with pytest.raises(Stop):
        play(ended_after(9), path)
    path.write_bytes(path.read_bytes()[:-7])
    assert same(play(noisy, path), play(noisy, None))


def test_without_a_seed_the_secret_is_kept(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    with pytest.raises(Stop):
        play(ended_after(9), path, rng=None)
    first = [json.loads(line)["score"] for line in path.read_text().splitlines()[1:]]
    found = play(noisy, path, rng=None)
    assert found.scores[0].score[:7].tolist() == pytest.approx(first[2:])  # two runs rehearse
    assert "kept in the audit's checkpoint" in found.provenance["randomness"]


@pytest.mark.parametrize(
    "change",
    [{"runs": 31}, {"rng": 6}, {"confidence": 0.9}, {"claim": (2.0, 1e-5)}, {"canary": "backdoor"},
     {"data": (DATA[0] + 1, DATA[1])}, {"game": "sequential"}],
)  # fmt: skip
def test_other_settings_are_refused_and_the_checkpoint_stays(tmp_path, change):
    path = tmp_path / "checkpoint.jsonl"
    with pytest.raises(Stop):
        play(ended_after(5), path)
    before = path.read_bytes()
    with pytest.raises(BadInput, match="other settings"):
        play(noisy, path, **change)
    assert path.read_bytes() == before
    assert same(play(noisy, path), play(noisy, None))


def test_time_budgets_are_refused_and_an_audit_that_ended_leaves_nothing(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    with pytest.raises(BadInput, match="time budget"):
        play(noisy, path, seconds=5.0)

    def broken(x, y, rng):
        raise ValueError

    with pytest.raises(NotFinished):
        play(broken, path)
    assert not list(tmp_path.iterdir())


def interrupted(path, runs=9, **change):
    with pytest.raises(Stop):
        play(ended_after(runs), path, **change)
    return path.read_bytes()


@pytest.mark.parametrize("place", ["cut", "garbage", "flipped"])
def test_a_damaged_tail_costs_only_the_tail(tmp_path, place):
    path = tmp_path / "checkpoint.jsonl"
    data = interrupted(path)
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    flipped = data[: last + 12] + bytes([data[last + 12] ^ 1]) + data[last + 13 :]
    path.write_bytes({"cut": data[: last + 9], "garbage": data + b"\x00\xff", "flipped": flipped}[place])
    rest = ended_after(10_000)
    assert same(play(rest, path), play(noisy, None))
    assert len(rest.calls) == len(play_calls({})) - (9 if place == "garbage" else 8)


def test_a_damaged_middle_is_reported_and_costs_one_run(tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    lines = interrupted(path).splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"score": ', b'"score": 1')
    path.write_bytes(b"".join(lines))
    rest = ended_after(10_000)
    with pytest.warns(FileWarning, match=r"damaged in 1 places \(line 5\)"):
        found = play(rest, path)
    assert len(rest.calls) == len(play_calls({})) - 8
    assert found.provenance["checkpoint_lines_damaged"] == 1
    assert found.demonstrations == play(noisy, None).demonstrations


def test_a_damaged_head_is_refused_and_nothing_that_follows_is_lost(tmp_path):
    """Twice: the first refusal must not have changed the file. With a seed the line follows from the settings."""
    path = tmp_path / "checkpoint.jsonl"
    data = interrupted(path, rng=None)
    for damage in (data[5:], data.replace(b"tacit", b"tacot", 1), b"\n" + data):
        path.write_bytes(damage)
        for _ in range(2):
            with pytest.raises(BadInput, match=r"line 1, which holds the randomness.* 9 later lines|10 later lines"):
                play(noisy, path, rng=None)
            assert path.read_bytes() == damage
    data = interrupted(tmp_path / "seeded.jsonl")
    (tmp_path / "seeded.jsonl").write_bytes(data.replace(b"tacit", b"tacot", 1))
    rest = ended_after(10_000)
    assert same(play(rest, tmp_path / "seeded.jsonl"), play(noisy, None))
    assert len(rest.calls) == len(play_calls({})) - 9


@pytest.mark.parametrize("rng", [5, None])
@pytest.mark.parametrize("torn", [b"", b'{"schema": "tac'])
def test_a_head_that_was_being_written_is_written_again(tmp_path, torn, rng):
    """Nothing was kept yet, so nothing is lost, and the audit is not stuck with a file that it cannot read."""
    path = tmp_path / "checkpoint.jsonl"
    path.write_bytes(torn)
    with pytest.raises(Stop):
        play(ended_after(10), path, rng=rng)
    rest = ended_after(10_000)
    found = play(rest, path, rng=rng)
    assert len(rest.calls) == len(play_calls({})) - 10
    assert rng is None or same(found, play(noisy, None))


def test_a_full_disk_at_the_first_line_leaves_no_file(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.jsonl"

    def write(handle, data, real=os.write):
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "full")
        return real(handle, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(NotFinished, match="the disk is full"):
            play(noisy, path)
    assert not path.exists()


def test_a_line_of_another_audit_does_not_count(tmp_path):
    path, other = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    interrupted(path)
    foreign = interrupted(other, rng=6).splitlines(keepends=True)
    path.write_bytes(path.read_bytes() + foreign[2])
    rest = ended_after(10_000)
    assert same(play(rest, path), play(noisy, None))


def test_a_full_disk_keeps_the_runs_so_far(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.jsonl"
    from tacit.core import lines

    real, calls = os.write, []

    def short(handle, data):
        calls.append(1)
        if len(calls) == 6:
            real(handle, data[:10])
            raise OSError(28, "No space left on device")
        return real(handle, data)

    monkeypatch.setattr(lines.os, "write", short)
    with pytest.raises(NotFinished, match="the disk is full"):
        play(noisy, path)
    monkeypatch.undo()
    assert len(path.read_text().splitlines()) == 6
    rest = ended_after(10_000)
    assert same(play(rest, path), play(noisy, None))
    assert len(rest.calls) == len(play_calls({})) - 5


GIVEN = (
    "audit", "mine:fit", "--epsilon", "1", "--data", "d.npz", "--canary", "blank", "--runs", "120",
    "--seed", "3", "--json",
)  # fmt: skip


def test_a_killed_command_is_resumed(tmp_path, monkeypatch, capsys):
    """Killed by the operating system in the middle of its runs; then refused without --resume; then as if never."""
    (tmp_path / "mine.py").write_text(FIT)
    np.savez(tmp_path / "d.npz", x=DATA[0], y=DATA[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    command = Command(capsys, monkeypatch)
    checkpoint = tmp_path / "tacit-audit.unfinished" / "checkpoint.jsonl"
    running = subprocess.Popen(
        [sys.executable, "-m", "tacit", *GIVEN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TO_BE_KILLED": "1"}, start_new_session=True,
    )  # fmt: skip
    while not checkpoint.exists() or len(checkpoint.read_text().splitlines()) <= 10:
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    known = len(checkpoint.read_text().splitlines())
    assert 10 < known < 120
    status, _, err = command(*GIVEN)
    assert "--resume" in err
    assert status == 2
    resumed = json.loads(command(*GIVEN, "--resume")[1])
    assert {path.name for path in (tmp_path / "tacit-audit").iterdir()} == {
        "data.key",
        "evidence.json",
        "manifest.json",
    }
    whole = json.loads(command(*GIVEN, "--out", "whole")[1])
    for name in ("verdict", "lower", "counts", "runs", "controls"):
        assert resumed[name] == whole[name]
    first, second = (json.loads(Path(tmp_path, name, "evidence.json").read_text()) for name in ("tacit-audit", "whole"))
    assert first["demonstrations"] == second["demonstrations"]
