"""Campaigns in pieces: they resume, parts meet in one file, and several processes give what one gives."""

import functools
import operator
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def pieces(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import pieces

    yield pieces
    for name in ("pieces", "membership_honesty", "membership_coverage"):
        sys.modules.pop(name, None)


def counted(made, number):
    made.append(number)
    return [number, number**2]


def test_pieces_are_measured_once_and_parts_meet(pieces, tmp_path):
    made, work = [], tmp_path / "work"
    tasks = {f"piece {k}": functools.partial(counted, made, k) for k in range(6)}
    assert pieces.Pieces(work, seconds=-1.0).run(tasks) == {}
    assert pieces.Pieces(work, seconds=-1.0).late()
    assert list(pieces.Pieces(work, (1, 2)).run(tasks)) == ["piece 1", "piece 3", "piece 5"]
    assert pieces.Pieces(work).run(tasks) == {f"piece {k}": [k, k**2] for k in range(6)}
    assert made == [1, 3, 5, 0, 2, 4]
    text = work.read_text(encoding="utf-8")
    work.write_text(text[:-9], encoding="utf-8")  # the last line was cut off
    assert len(pieces.Pieces(work).run(tasks)) == 6
    assert made == [1, 3, 5, 0, 2, 4, 4]
    assert len(pieces.Pieces(work).done()) == 6
    assert pieces.Pieces().run(tasks)["piece 2"] == [2, 4]
    assert len(made) == 13


def test_several_processes_give_what_one_gives(pieces, tmp_path):
    tasks = {str(k): functools.partial(operator.pow, 2, k) for k in range(5)}
    assert pieces.Pieces(tmp_path / "work", workers=2).run(tasks) == {str(k): 2**k for k in range(5)}
    assert pieces.Pieces(tmp_path / "none", workers=2, seconds=-1.0).run(tasks) == {}


def test_coverage_in_pieces_is_that_of_all_draws(pieces):
    import membership_coverage as coverage

    whole, parts = coverage.known(4, 0, 4, n=60), [coverage.known(4, first, 2, n=60) for first in (0, 2)]
    assert whole == {name: parts[0][name] + parts[1][name] for name in whole}
    assert coverage.ridge(1, 0, 2, n=60) == coverage.ridge(1, 0, 1, n=60) + coverage.ridge(1, 1, 1, n=60)


def test_a_game_without_members_finds_nobody(pieces):
    pytest.importorskip("sklearn")
    import membership_honesty as honesty

    assert not any(honesty._null("tree, leaves of 5", "repeated", 3, references=4))
