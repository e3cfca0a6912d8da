"""The keyed hash of the data: it is in the evidence, its key is not, and who has both can tell the data."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from command import Command
from tacit import BadInput, Evidence
from tacit.reports.public import public_version
from tacit.study.sealing import FIELD, keyed_hash, same_data, sealed

X, Y = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(4)
CODE = "def fit(x, y, rng):\n    w = rng.normal(size=(x.shape[1], 2))\n    return lambda q: q @ w\n"


def test_the_hash_is_of_values_kinds_and_shapes():
    key = b"k" * 32
    same = keyed_hash(X, Y, key)
    assert same == keyed_hash(np.asfortranarray(X), Y.astype(">i8"), key)
    changed = X.copy()
    changed[2, 1] += 1e-6 * 7
    for other in ((changed, Y), (X.reshape(4, 1, 3), Y), (X.astype(np.float64), Y), (X, Y[::-1])):
        assert keyed_hash(*other, key) != same
    assert keyed_hash(X, Y, b"l" * 32) != same


def test_a_key_is_made_once_and_for_its_owner(tmp_path):
    path = tmp_path / "data.key"
    one, two = (sealed(Evidence(name), X, Y, path) for name in "ab")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert one.provenance[FIELD] == two.provenance[FIELD]
    assert path.read_bytes().hex() not in json.dumps(one.to_json())
    assert same_data(one, X, Y, path)
    assert not same_data(one, X + 1, Y, path)
    assert public_version(one).provenance[FIELD] == one.provenance[FIELD]


def test_what_cannot_be_told(tmp_path):
    (tmp_path / "short.key").write_bytes(b"abc")
    with pytest.raises(BadInput, match="holds no keyed hash"):
        same_data(Evidence("a"), X, Y, tmp_path / "short.key")
    made = sealed(Evidence("a"), X, Y, tmp_path / "data.key")
    with pytest.raises(BadInput, match="not a key of 32 bytes"):
        same_data(made, X, Y, tmp_path / "short.key")
    with pytest.raises(BadInput, match="cannot be read"):
        same_data(made, X, Y, tmp_path / "absent.key")


def test_verify_tells_these_data_from_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = Command(capsys, monkeypatch)
    rng = np.random.default_rng(0)
    for name in ("mine.npz", "other.npz"):
        np.savez(name, x=rng.normal(size=(20, 3)), y=np.arange(20) % 2)
    Path("sealed_code.py").write_text(CODE)
    asked = ("--epsilon", "9", "--data", "mine.npz", "--runs", "10", "--canary", "blank", "--isolation", "none")
    assert run("audit", "sealed_code:fit", *asked, "--out", "there")[0] in (0, 3)
    look = ("verify", "there/evidence.json", "--key", "there/data.key", "--json")
    status, out, _ = run(*look, "--data", "mine.npz")
    assert (status, json.loads(out)["same_data"]) == (0, True)
    status, out, _ = run(*look, "--data", "other.npz")
    assert (status, json.loads(out)["ok"]) == (1, False)
    status, out, _ = run("verify", "there/evidence.json", "--json")
    assert (status, json.loads(out)["same_data"]) == (0, None)
    status, _, err = run(*look)
    assert status == 2
    assert "--data and --key go together" in err
