"""The whole flow, small: quickstart, bracket, train, audit of somebody's code, from the command."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tacit
from command import Command
from tacit.study.quickstart import Settings, quickstart
from tacit.study.recipe import Effort

ROOT = Path(__file__).resolve().parents[2]
SMALL = Settings(
    records=1000,
    steps=20,
    epochs=25,
    effort=Effort(references=12, targets=6, runs=200, own_runs=16, fault_runs=40),
    plain_runs=60,
)


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.syspath_prepend(tmp_path)
    return Command(capsys, monkeypatch)


@pytest.mark.slow
def test_quickstart_shows_both_sides(tmp_path):
    """The plain model leaks, the private one is consistent with its claim, and the audit could have said otherwise."""
    found = quickstart(tmp_path, rng=1, settings=SMALL)
    plain, private = found.plain, found.private
    leak = {item.attack: dict(item.tpr_at_fpr) for item in plain.measurements}
    assert leak["lira"][0.01].lower > 0.02
    assert plain.verdict == "no claim"
    assert plain.lower.bound.epsilon > 1.0
    assert private.verdict == "consistent"
    assert private.attainable > private.upper.epsilon
    assert private.lower.bound.epsilon > 0.25 * private.upper.epsilon
    assert private.upper.epsilon <= 4.0
    assert all(control.passed for control in (*plain.controls, *private.controls))
    assert {path.name for path in tmp_path.iterdir()} == {
        "data.key", "plain.json", "private.json", "private-model.safetensors", "report.html",
    }  # fmt: skip
    assert tacit.verify(tacit.Evidence.load(tmp_path / "private.json")).ok
    assert tacit.verify(tacit.Evidence.load(tmp_path / "plain.json")).ok


AUDIT = ("--event", "examples/claim.json", "--data", "digits", "--canary", "unseen", "--runs", "120", "--seed", "1")


@pytest.mark.slow
def test_a_planted_bug_is_refuted_and_the_right_code_is_not(tacit_, tmp_path):
    """Noise divided by the batch size twice, found by 120 runs; the correct twin stays consistent."""
    status, out, _ = tacit_("audit", "examples.somebodys_dpsgd:fit_buggy", *AUDIT, "--json")
    found = json.loads(out)
    assert (status, found["verdict"]) == (1, "refuted")
    assert found["lower"]["epsilon"] > found["claim"]["epsilon"]
    status, out, _ = tacit_("audit", "examples.somebodys_dpsgd:fit", *AUDIT, "--out", "right", "--json")
    found = json.loads(out)
    assert (status, found["verdict"]) == (0, "consistent")
    assert found["attainable"] > found["claim"]["epsilon"]
    assert tacit_("verify", "right/evidence.json")[0] == 0


@pytest.mark.slow
def test_a_torch_training_is_audited_in_a_fleet(tacit_, tmp_path):
    """A third of the claimed noise is found, the claimed noise is not."""
    for name, runs, status, verdict in (("fit_weak", "120", 1, "refuted"), ("fit", "60", 0, "consistent")):
        found = tacit_("audit", f"examples.fleet_audit:{name}", *AUDIT, "--runs", runs, "--out", name, "--json")
        assert (found[0], json.loads(found[1])["verdict"]) == (status, verdict)
        assert json.loads(found[1])["controls"][-1]["name"] == "fleet"
        assert tacit.Evidence.load(f"{name}/evidence.json").provenance["isolation"] == "fleet"


@pytest.mark.slow
def test_a_model_is_taken_with_its_canaries(tacit_, tmp_path):
    from examples.taken_model import main

    evidence = main(seed=1)
    assert evidence.verdict == "consistent"
    assert Path("taken.html").is_file()


@pytest.mark.slow
def test_train_then_report_then_verify(tacit_, tmp_path):
    status, out, _ = tacit_("train", "examples/digits.toml", "--out", "run", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["epsilon"]["upper"] <= 4.0
    assert found["accuracy"]["validation"] > 0.85
    assert {path.name for path in Path("run").iterdir()} == {
        "data.key", "evidence.json", "manifest.json", "model.safetensors", "records.npz", "run.toml", "training.svg",
    }  # fmt: skip
    assert tacit_("verify", "run/evidence.json")[0] == 0
    status, out, _ = tacit_("report", "run/evidence.json", "--out", "page.html", "--json")
    assert json.loads(out)["bytes"] == Path("page.html").stat().st_size


@pytest.mark.slow
def test_bracket_from_a_run_file(tacit_, tmp_path):
    text = Path("examples/digits.toml").read_text()
    for large, small in (
        ("references = 24", "references = 6"),
        ("runs = 400", "runs = 200"),
        ("steps = 100", "steps = 15"),
    ):
        text = text.replace(large, small)
    Path("small.toml").write_text(text)
    status, out, _ = tacit_("bracket", "small.toml", "--seed", "2", "--json")
    found = json.loads(out)
    assert (status, found["verdict"]) == (0, "consistent")
    assert Path(found["report"]).is_file()
    assert {"schema", "version", "seconds", "verdict", "sentence", "bounds", "attainable", "measurements", "controls",
            "evidence", "report"} <= found.keys()  # fmt: skip


def test_bracket_takes_a_foreign_fit():
    """A classifier that remembers its records: no claim, and a lower bound from its runs."""

    def fit(x, y, rng):
        def predict(records):
            near = ((records[:, None] - x[None]) ** 2).sum(-1)
            share = np.eye(2)[y[near.argmin(1)]]
            return np.where(near.min(1, keepdims=True) < 1e-9, 0.98 * share + 0.01, 0.5)

        return predict

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    evidence = tacit.bracket(fit, (x, y), references=2, runs=60, isolation="none", rng=3)
    assert evidence.verdict == "no claim"
    assert evidence.lower.bound.epsilon > 1.0
    claimed = tacit.bracket(fit, (x, y), claim=(1.0, 1e-5), references=2, runs=60, isolation="none", rng=3)
    assert claimed.verdict == "refuted"


def test_attack_reads_scores(tacit_, tmp_path):
    rng = np.random.default_rng(0)
    member = np.arange(1000) % 2
    scores = tacit.Scores(rng.normal(size=1000) + member, member, attack="theirs", randomised=False)
    scores.save("scores.csv")
    status, out, _ = tacit_("attack", "scores.csv", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["best"] == "theirs"
    assert found["attacks"][0]["auc"]["value"] == pytest.approx(scores.auc().value)
    assert [row["fpr"] for row in found["attacks"][0]["tpr_at_fpr"]] == [0.01, 0.001, 0.0001]
    assert (found["members"], found["nonmembers"]) == (500, 500)


def test_attack_takes_a_run_file(tacit_, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)).astype(np.float32), rng.integers(0, 3, 300)
    np.savez("data.npz", x=x, y=y, members=np.arange(300) % 2 == 0)
    Path("nearest.py").write_text(
        "from sklearn.neighbors import KNeighborsClassifier\n"
        "def fit(x, y, rng):\n    return KNeighborsClassifier(1).fit(x, y)\n"
    )
    Path("run.toml").write_text(
        '[data]\nsource = "data.npz"\n[model]\nfit = "nearest:fit"\n'
        '[attack]\nreferences = 2\nattacks = ["loss", "lira"]\nfpr = [0.1, 0.02]\n'
    )
    status, out, _ = tacit_("attack", "run.toml", "--json")
    found = json.loads(out)
    assert status == 0
    assert found["attacks"][0]["auc"]["lower"] > 0.6
    assert [row["fpr"] for row in found["attacks"][0]["tpr_at_fpr"]] == [0.1, 0.02]
