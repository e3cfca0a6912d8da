"""Attacks and brackets that were interrupted go on: the uninterrupted result, and nothing finished is made twice."""

import json
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest

from tacit.core import BadInput
from tacit.core.errors import FileWarning
from tacit.core.files import Lasting
from tacit.core.lines import stamped, unstamped
from tacit.core.randomness import Replayed, Seeded
from tacit.study import attack, bracket
from tacit.study.finished_parts import Finished

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.arange(80) % 2
SIDES = (X[:40], Y[:40]), (X[40:], Y[40:])


class Stop(BaseException):
    pass


def noisy(x, y, rng):
    shift = rng.normal(size=2) + x[:, :2].mean(axis=0)
    return lambda q: q[:, :2] + shift


def until(calls):
    """The same training, which ends its process after so many calls."""
    made = []

    def fit(x, y, rng):
        made.append(len(x))
        if len(made) > calls:
            raise Stop
        return noisy(x, y, rng)

    fit.__qualname__ = noisy.__qualname__
    fit.made = made
    return fit


def told(evidence):
    found = evidence.to_json()
    found["provenance"] = {key: value for key, value in found["provenance"].items() if key not in ("seconds", "made")}
    return json.dumps(found, sort_keys=True)


def attacked(fit, checkpoint, rng=3):
    return attack(noisy(X, Y, np.random.default_rng(0)), *SIDES, fit=fit, references=6, rng=rng, checkpoint=checkpoint)


def bracketed(fit, checkpoint, rng=3):
    more = {"references": 4, "runs": 16, "canary": "blank", "isolation": "none"}
    return bracket(fit, (X, Y), claim=(1.0, 1e-5), rng=rng, checkpoint=checkpoint, **more)


@pytest.mark.parametrize("call", [attacked, bracketed], ids=["attack", "bracket"])
def test_an_interrupted_one_goes_on_to_the_uninterrupted_result(tmp_path, call):
    whole = until(10_000)
    expected = told(call(whole, None))
    folder = tmp_path / "parts"
    for stop in (0, 3, len(whole.made) // 2 - 1):
        with pytest.raises(Stop):
            call(until(stop), folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    last = until(10_000)
    assert told(call(last, folder)) == expected
    assert len(last.made) < 0.6 * len(whole.made)
    assert not folder.exists()


def test_without_a_seed_the_secret_is_kept_until_the_end(tmp_path):
    folder = tmp_path / "parts"
    with pytest.raises(Stop):
        attacked(until(4), folder, None)
    first = json.loads((folder / "head.jsonl").read_text())["random"]
    assert len(first) == 4
    found = attacked(until(2), Lasting(folder), None)
    assert "secret of the operating system" in found.provenance["randomness"]
    assert json.loads((folder / "head.jsonl").read_text())["random"] == first


def test_other_data_settings_or_seed_are_named_and_nothing_is_lost(tmp_path):
    folder = tmp_path / "parts"
    with pytest.raises(Stop):
        attacked(until(4), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    target = noisy(X, Y, np.random.default_rng(0))
    with pytest.raises(BadInput, match="seed differ"):
        attacked(noisy, folder, 4)
    with pytest.raises(BadInput, match="references differ"):
        attack(target, *SIDES, fit=noisy, references=8, rng=3, checkpoint=folder)
    other = (X[:40] + 1, Y[:40]), SIDES[1]
    with pytest.raises(BadInput, match="data differ"):
        attack(target, *other, fit=noisy, references=6, rng=3, checkpoint=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other run", "pickle", "numbers"])
def test_a_damaged_part_is_made_again_and_said(tmp_path, damage):
    folder, expected = tmp_path / "parts", told(attacked(noisy, None))
    with pytest.raises(Stop):
        attacked(until(4), folder)
    path = folder / "reference-1.npy"
    data = path.read_bytes()
    if damage == "other run":
        with pytest.raises(Stop):
            attacked(until(4), tmp_path / "other", 4)
        path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    elif damage == "numbers":  # under a right checksum
        line, _, body = data.partition(b"\n")
        record = {**json.loads(line), "words": 10**30, "children": -1}
        del record["sum"]
        head = unstamped((folder / "head.jsonl").read_bytes().strip())
        path.write_bytes(stamped(record, head).encode() + b"\n" + body)
    else:
        path.write_bytes(
            {"flip": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:200], "empty": b"", "pickle": b"\x80\x04N."}[
                damage
            ]
        )
    rest = until(10_000)
    with pytest.warns(FileWarning, match="damaged: it is made again"):
        found = attacked(rest, folder)
    assert told(found) == expected
    assert len(rest.made) == 3


def test_a_damaged_head_is_refused_and_the_parts_stay(tmp_path):
    folder = tmp_path / "parts"
    with pytest.raises(Stop):
        attacked(until(4), folder, None)
    head = folder / "head.jsonl"
    head.write_bytes(head.read_bytes().replace(b"random", b"rendom", 1))
    count = len(list(folder.iterdir()))
    for _ in range(2):
        with pytest.raises(BadInput, match="line 1, which holds the randomness"):
            attacked(noisy, folder, None)
    assert len(list(folder.iterdir())) == count


def test_a_stream_that_is_gone_through_again_is_the_seed_s_own():
    one, other = Seeded(2**40 + 7), Replayed([2**40 + 7], seeded=True)
    assert one.words(5).tolist() == other.words(5).tolist()
    assert one.spawn(2)[1].words(3).tolist() == other.spawn(2)[1].words(3).tolist()
    again = Replayed([2**40 + 7], seeded=True)
    again.skip(5, 2)
    assert again.mark == other.mark
    assert again.words(4).tolist() == one.words(4).tolist()
    assert again.spawn(1)[0].words(2).tolist() == one.spawn(1)[0].words(2).tolist()


def test_what_no_file_without_pickles_can_hold_is_made_again(tmp_path):
    for _ in range(2):
        finished = Finished.of(Lasting(tmp_path / "parts"), {}, (X,), 1)
        assert finished.part("odd", lambda: np.array([{}, None], dtype=object)).dtype == object
    assert not Path(tmp_path, "parts", "odd.npy").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Finished.of(None, {}, (), 1).part("a", lambda: np.zeros(2)).size == 2
