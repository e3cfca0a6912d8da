"""Evidence and training progress in MLflow and TensorBoard, read back from what the real packages wrote."""

import sys
from types import SimpleNamespace

import pytest

import report_samples as samples
from tacit import Evidence, MissingExtra, Plan
from tacit.reports import MLflow, TensorBoard, metrics

PLAN = Plan(1000, 0.1, 60, 1.0)


def train(tracker, steps=PLAN.steps):
    for done in range(1, steps + 1):
        tracker(
            SimpleNamespace(done=done, plan=PLAN, delta=1e-5), SimpleNamespace(loss=1.0 / done, clipped=0.5, examples=9)
        )


@pytest.fixture
def run(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as active:
        yield active
    mlflow.set_tracking_uri(None)


@pytest.mark.needs("mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_numbers_page_and_file(run, tmp_path):
    import mlflow

    tracker = MLflow()
    train(tracker)
    tracker.log(samples.private())
    client = mlflow.MlflowClient()
    kept = client.get_run(run.info.run_id).data.metrics
    trained = {"train/epsilon_so_far": PLAN.bound(1e-5).epsilon, "train/delta": 1e-5}
    assert kept == pytest.approx({**metrics(samples.private()), **trained}, rel=1e-6)
    history = client.get_metric_history(run.info.run_id, "train/epsilon_so_far")
    assert [item.step for item in history] == list(range(3, 61, 3))
    assert {item.path for item in client.list_artifacts(run.info.run_id, "tacit")} == {
        "tacit/report.html", "tacit/evidence.json",
    }  # fmt: skip
    found = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="tacit/evidence.json")
    assert Evidence.load(found).to_json() == samples.private().to_json()


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    told = {}
    for name in read.Tags()["tensors"]:
        told[name] = [(item.step, float(item.tensor_proto.float_val[0])) for item in read.Tensors(name)]
    return told


@pytest.mark.needs("tensorboard")
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_keeps_numbers_and_files(tmp_path):
    tracker = TensorBoard(folder=tmp_path / "board", losses=True)
    train(tracker)
    tracker.log(samples.private(), public=True)
    found = scalars(tmp_path / "board")
    assert found["train/loss"][-1] == (60, pytest.approx(1 / 60))
    assert len(found["train/epsilon_so_far"]) == 20
    assert found["claim/epsilon"] == [(0, pytest.approx(samples.private().upper.epsilon))]
    assert not any(name.startswith(("attack/", "utility/")) for name in found)
    kept = Evidence.load(tmp_path / "board" / "evidence.json")
    assert not kept.measurements
    assert "Public version" in (tmp_path / "board" / "report.html").read_text()


@pytest.mark.needs("tensorboard")
@pytest.mark.filterwarnings("ignore")
def test_losses_are_kept_only_when_asked_for(tmp_path):
    train(TensorBoard(folder=tmp_path))
    assert set(scalars(tmp_path)) == {"train/epsilon_so_far", "train/delta"}


@pytest.mark.needs("tensorboard")
@pytest.mark.filterwarnings("ignore")
def test_a_real_training_takes_it_as_progress(tmp_path):
    torch = pytest.importorskip("torch")
    from tacit import fit

    data = (torch.randn(100, 3), torch.arange(100) % 2)
    plan, board = Plan(100, 0.2, 5, 1.0), TensorBoard(folder=tmp_path)
    done = fit(torch.nn.Linear(3, 2), data, plan, rng=1, delta=1e-4, progress=board)
    told = scalars(tmp_path)
    assert [step for step, _ in told["train/epsilon_so_far"]] == [1, 2, 3, 4, 5]
    assert told["train/delta"][-1] == (5, pytest.approx(1e-4))  # that of the evidence
    assert told["train/epsilon_so_far"][-1] == (5, pytest.approx(done.evidence.upper.epsilon))


@pytest.mark.parametrize(("kind", "module"), [(MLflow, "mlflow"), (TensorBoard, "tensorboard.summary")])
def test_without_the_package_one_sentence_says_what_to_install(kind, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"tacit\[{module.partition('.')[0]}\]"):
        kind()
