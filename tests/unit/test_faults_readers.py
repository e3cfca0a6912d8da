"""Bad files end in one sentence: a sample of benchmarks/fuzz.py, devices, bombs, formulas, membership files."""

import gzip
import io
import os
import random
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tacit.core import BadInput, Evidence, Scores, TacitError
from tacit.core.errors import clean
from tacit.core.files import shown
from tacit.core.json_text import parsed
from tacit.core.schema_check import misfit
from tacit.core.toml_text import read_toml
from tacit.data import load
from tacit.study.run_file import RunFile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.mark.slow
@pytest.mark.needs("pyarrow")
def test_mutants_of_every_reader_are_read_or_refused(tmp_path):
    """A sample of the campaign with another seed: 40 files of each reader, fewer of those that ask an engine."""
    from fuzz import MAKERS, READERS

    outcomes, told = {"read": 0, "refused": 0}, []
    for name, reader in READERS.items():
        for number in range(6 if name.startswith("query ") else 40):
            file, data = MAKERS[name](7, number)
            for left in tmp_path.iterdir():
                left.unlink()
            (tmp_path / file).write_bytes(data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    reader(tmp_path / file)
                    outcomes["read"] += 1
                except TacitError as error:
                    outcomes["refused"] += 1
                    told.append(str(error))
    assert [text for text in told if not text.isprintable()] == []
    assert outcomes["read"] > 40
    assert outcomes["refused"] > 200


def test_the_fuzzer_changes_what_it_mutates():
    from fuzz_files import EVENT, damaged, mutated

    rng = random.Random(0)
    assert sum(mutated(EVENT, rng) != EVENT for _ in range(100)) > 80
    assert sum(damaged(bytes(range(200)), rng) != bytes(range(200)) for _ in range(50)) > 40


READS = [Evidence.load, RunFile.read, Scores.read, read_toml, lambda path: load(f"{path}.csv", label="y")]


@pytest.mark.parametrize("reader", READS)
def test_devices_and_pipes_are_never_read(reader, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    os.mkfifo(tmp_path / "pipe.csv")
    for path in ("/dev/zero", pipe):
        with pytest.raises(BadInput, match=r"not an ordinary file|is not there|cannot be read"):
            reader(path)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[1, Infinity]",
        "9" * 5000,
        '["\\ud800"]',
        "[" * 5000,
        "1e999",
        '{"a": }',
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "b": 2, "a": 3}}]',
    ],
)
def test_json_that_python_would_take_or_choke_on(text):
    with pytest.raises(BadInput, match=r"^x\.json"):
        parsed(text, "x.json")


@pytest.mark.parametrize("text", ["[0" + ",0" * 99 + "]", "[[]" + ",[]" * 60 + "]", "[" + "{}," * 60 + "{}]"])
def test_a_file_of_very_many_values_is_not_read(text, monkeypatch):
    """Each value takes 64 bytes and more: a file of 256 MiB took 12 GB."""
    assert len(parsed(text, "x.json")) > 60
    monkeypatch.setattr("tacit.core.json_text.MOST", 99)
    with pytest.raises(BadInput, match=r"more than 99 values"):
        parsed(text, "x.json")


@pytest.mark.parametrize("text", ["a = [" * 900, "a = " + "9" * 5000, "a = 9223372036854775808", "x", "a = 1\na = 2"])
def test_toml_that_python_would_choke_on(tmp_path, text):
    (tmp_path / "run.toml").write_text(text)
    with pytest.raises(BadInput, match=r"^run\.toml"):
        read_toml(tmp_path / "run.toml")


def test_evidence_is_checked_by_its_schema_and_the_place_is_named(tmp_path):
    path = Evidence(subject="x").save(tmp_path / "evidence.json")
    control = '"controls": [{"name": "a", "expected": "", "found": "", "passed": 1}]'
    for old, new, place in (
        ('"subject": "x"', '"subject": 3', "subject must be a text"),
        ('"controls": []', control, "controls[0].passed"),
        ('"not_covered": []', '"not_covered": {}', "not_covered must be a list"),
    ):
        (tmp_path / "bad.json").write_text(path.read_text().replace(old, new))
        with pytest.raises(BadInput) as caught:
            Evidence.load(tmp_path / "bad.json")
        assert place in str(caught.value)
        assert str(caught.value).startswith("bad.json: ")
    assert misfit(True, {"type": "number"}) == "the whole must be a number"
    assert misfit({"a": 1.0}, {"properties": {"a": {"type": "integer"}}}) == ""


@pytest.mark.parametrize(
    "header",
    [
        {"descr": "<f8", "fortran_order": False, "shape": (10**12,)},
        {"descr": "|O", "fortran_order": False, "shape": (2,)},
        {"descr": "<f8", "fortran_order": False, "shape": (-1,)},
        {"descr": "<M8[s]", "fortran_order": False, "shape": (0,)},
    ],
)
def test_headers_that_lie_ask_for_no_memory(tmp_path, header):
    text = repr(header).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", data)
        archive.writestr("y.npy", data)
    with pytest.raises(BadInput, match=r"^t\.npz"):
        load(str(tmp_path / "t.npz"))


def test_many_words_and_long_cells_are_refused_before_memory_is_asked_for(tmp_path):
    rows = "".join(f"w{k},{k % 2}\n" for k in range(1200))
    (tmp_path / "t.csv").write_text(f"w,y\n{rows}")
    with pytest.raises(BadInput, match=r"Column 'w' holds more than 1,000 different words\."):
        load(str(tmp_path / "t.csv"), label="y")
    for head in ("w,y", "y,w"):
        (tmp_path / "t.csv").write_text(f"{head}\n{'a' * 100_000},1\n" + "b,0\n" * 10)
        with pytest.raises(BadInput, match=r"a text of more than 1,000 characters"):
            load(str(tmp_path / "t.csv"), label="y")


def test_a_bomb_is_not_decompressed(tmp_path, monkeypatch):
    from tacit.data import csv_file

    monkeypatch.setattr(csv_file, "LARGE", 10_000)
    body = io.BytesIO()
    with gzip.GzipFile(fileobj=body, mode="wb") as file:
        file.write(b"a,y\n" + b"1,0\n" * 500_000)
    (tmp_path / "t.csv.gz").write_bytes(body.getvalue())
    with pytest.raises(BadInput, match="holds more than so small a file should"):
        load(str(tmp_path / "t.csv.gz"), label="y")


def test_scores_hold_no_formulas_and_are_their_owners(tmp_path):
    groups = ["=cmd|' /C calc'!A0", "+1+1", "@x", "-2.5", "plain", "'quoted"]
    made = Scores(np.arange(6.0), [1, 0] * 3, attack="=1+1", randomised=False, group=groups)
    path = made.save(tmp_path / "scores.csv")
    assert path.stat().st_mode & 0o777 == 0o600
    cells = [cell for line in path.read_text().splitlines()[1:] for cell in line.split(",")]
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)
    again = Scores.read(path)
    assert again.group.tolist() == groups
    assert again.attack == "=1+1"


def test_scores_in_parts_are_the_scores(tmp_path, monkeypatch):
    from tacit.core import scores_file

    monkeypatch.setattr(scores_file, "PART", 3)
    made = Scores(np.arange(10.0), [1, 0] * 5, attack="a", randomised=True, record=[*map(str, range(8)), "x", "009"])
    again = Scores.read(made.save(tmp_path / "s.csv"))
    assert again.score.tolist() == made.score.tolist()
    assert again.record.tolist() == made.record.tolist()
    assert again.fingerprints() == made.fingerprints()


def test_names_are_shown_without_control_characters():
    assert shown(Path("a/\x1b[2Jb.csv")) == "\ufffd[2Jb.csv"
    assert clean("a\u202eb\ud800") == "a\ufffdb\ufffd"
    assert "\x1b" not in str(BadInput("File \x1b]0;x\x07 is bad.\nReally.", fix="\x1bfix"))
    assert len(str(BadInput("a" * 10_000))) < 700
