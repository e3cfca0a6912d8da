"""A folder of `tacit pate`: what is in it, its page, and its bracket from both sides."""

import json
from pathlib import Path

import numpy as np
import pytest

import tacit
from command import Command
from report_traces import untraced
from tacit.data.loaders import Records
from tacit.pate import PATE, GNMax
from tacit.reports.public import left_out, public_version
from tacit.study.pate_run import PateRun
from tacit.study.run_file import RunFile

RUN = """
[data]
source = "d.npz"
members = "m"
[model]
kind = "linear"
[plan]
delta = 1e-3
[pate]
teachers = 5
aggregator = "gnmax"
noise_answer = 3
queries = 20
classes = 3
steps = 8
release_epsilon = 0.5
propose = 60.0
[attack]
references = 0
[audit]
runs = 16
isolation = "none"
"""


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 3)).astype(np.float32)
    np.savez("d.npz", x=x, y=(x[:, 0] > 0).astype(int), m=np.arange(160) % 4 < 2)
    Path("run.toml").write_text(RUN)
    return Command(capsys, monkeypatch)


@pytest.mark.slow
def test_a_student_is_bracketed_from_its_folder(command):
    status, out, err = command("pate", "run.toml", "--out", "made", "--seed", "1", "--json")
    assert status == 0, err
    found = json.loads(out)
    made = tacit.Evidence.load(found["evidence"])
    assert made.upper.epsilon == found["bound"]["epsilon"]
    assert len(made.claim.event.events) == 2  # the labels, and the release of the data-dependent epsilon
    assert made.provenance["data-dependent epsilon"] == found["released_bound"]["epsilon"]
    assert any("number of private records" in line for line in made.not_covered)
    files = {path.name for path in Path("made").iterdir()}
    assert files == {"data.key", "evidence.json", "labels.npz", "manifest.json", "model.safetensors", "records.npz",
                     "run.toml"}  # fmt: skip
    status, out, err = command("bracket", "made", "--seed", "2", "--json")
    assert status in (0, 3), err
    both = tacit.Evidence.load("made-bracket/evidence.json")
    assert both.claim.bound == made.claim.bound
    assert both.demonstrations
    assert both.measurements
    assert both.verdict is not tacit.Verdict.REFUTED
    assert any("released labels" in line for line in both.not_covered)
    assert not any("taken as it was given" in line for line in both.not_covered)
    assert both.provenance["method"] == "PATE"
    page = Path("made-bracket/report.html").read_text(encoding="utf-8")
    for words in ("Teachers, noisy votes and a student (PATE)", "Answers at most", "16 whole runs"):
        assert words in page, words


def test_what_was_exchanged_is_refused(command):
    assert command("pate", "run.toml", "--out", "made", "--seed", "1")[0] == 0
    whole = Path("d.npz").read_bytes()
    with np.load("d.npz") as arrays:
        np.savez("d.npz", **{**arrays, "x": arrays["x"] + 1})
    status, _, err = command("bracket", "made", "--seed", "2")
    assert (status, "data have changed" in err) == (2, True), err
    Path("d.npz").write_bytes(whole)
    command("pate", "run.toml", "--out", "other", "--seed", "3")
    Path("other/model.safetensors").replace("made/model.safetensors")
    status, _, err = command("bracket", "made", "--seed", "2")
    assert (status, "was exchanged" in err) == (2, True), err


def test_asking_about_all_public_records_leaves_nobody_to_attack_with(command):
    Path("run.toml").write_text(RUN.replace("queries = 20", "queries = 80"))
    assert command("pate", "run.toml", "--out", "made", "--seed", "1")[0] == 0
    status, _, err = command("bracket", "made", "--seed", "2")
    assert (status, "All public records were asked about" in err) == (2, True), err


@pytest.mark.parametrize("labels", [(0, 1), (0, 1, 2)])
def test_the_network_has_the_public_number_of_classes(labels, tmp_path):
    """Nobody's label decides about the model: whether somebody has the last class changes nothing."""
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    y = np.array([labels[k % len(labels)] for k in range(60)])
    records = Records(np.ones((60, 3), dtype=np.float32), y, members=np.arange(60) % 2 == 0, name="d.npz")
    assert PateRun.of(RunFile.read(path), records, None).estimator.teacher.make()[0].out_features == 3
    words = RUN.replace("classes = 3", "").replace(
        'members = "m"', 'label = "y"\ncategories = {y = ["a", "b", "c", "d"]}'
    )
    path.write_text(words)
    assert PateRun.of(RunFile.read(path), records, None).estimator.teacher.make()[0].out_features == 4


def test_the_public_page_keeps_what_was_released(tmp_path):
    def line(x, y, rng):
        weight = x.T @ (2.0 * y - 1)
        return lambda asked: (asked @ weight > 0).astype(int)

    x = np.random.default_rng(0).normal(size=(60, 2))
    run = PATE(line, teachers=5, aggregator=GNMax(4.0), delta=1e-3, classes=[0, 1], random_state=0)
    run.fit(x[:50], (x[:50, 0] > 0).astype(int), x[50:])
    run.release_bound(epsilon=0.5, propose=30.0)
    found = run.evidence(utility={"test accuracy": 0.9})
    kept = public_version(found)
    assert {"teachers", "aggregation", "answers given", "data-dependent epsilon"} <= kept.provenance.keys()
    assert left_out(found) == ["accuracy on private data"]
    for public in (False, True):
        page = tacit.report(found, str(tmp_path / "page.html"), public=public).path.read_text(encoding="utf-8")
        page = page.split('<script type="application/json"')[0]
        assert "Teachers, noisy votes and a student" in page
        assert untraced(page, [found], public=public) == []


def test_a_canary_is_a_new_user_of_its_own():
    """An audit appends its canary to the records of the run, whose users stay as they are."""
    seen = []

    class Watched(PATE):
        def fit(self, x, y, public_x, users=None):
            seen.append(users)
            return self

    run = Watched(None, delta=1e-3)
    again = run.training(None, np.array([3, 3, 7]))
    for records in (3, 4, 2):
        again(np.zeros((records, 1)), np.zeros(records), np.random.default_rng(0))
    assert seen == [[3, 3, 7], [3, 3, 7, "appended 0"], ["record 0", "record 1"]]
    run.training(None)(np.zeros((2, 1)), np.zeros(2), np.random.default_rng(0))
    assert seen[-1] is None
