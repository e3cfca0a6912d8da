"""The verbs epsilon, calibrate and plan: what they print and how they refuse."""

import io
import json
import sys

import pytest

from command import Command


@pytest.fixture
def tacit(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


TRAINING = ("--noise-multiplier", "1.1", "--rate", "0.01", "--steps", "1000", "--delta", "1e-5")


def test_epsilon_as_json(tacit):
    status, out, _ = tacit("epsilon", *TRAINING, "--json")
    data = json.loads(out)
    assert status == 0
    assert data["schema"] == "tacit.epsilon/1"
    assert data["epsilon"]["lower"] - 1e-8 <= 1.515361917 <= data["epsilon"]["upper"] + 1e-8
    assert data["event"]["type"] == "Repeat"
    assert data["sampling"] == "poisson"
    assert "Poisson sample" in data["assumptions"][0]


def test_epsilon_for_a_person_names_the_assumption_and_the_theorems(tacit):
    status, out, _ = tacit("epsilon", *TRAINING, "--explain")
    assert status == 0
    assert out.startswith("epsilon")
    assert "1.515362" in out
    assert "fresh Poisson sample" in out
    assert "approximation, not a bound" in out


def test_an_event_from_standard_input(tacit, monkeypatch):
    event = {"type": "Laplace", "noise_multiplier": 2.0}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(event)))
    status, out, _ = tacit("epsilon", "--event", "-", "--delta", "0", "--json")
    assert status == 0
    assert json.loads(out)["epsilon"]["upper"] == pytest.approx(0.5)


def test_an_infinite_epsilon_is_null(tacit):
    status, out, _ = tacit("epsilon", "--noise-multiplier", "1", "--delta", "0", "--json")
    assert status == 0
    assert json.loads(out)["epsilon"] == {"lower": None, "upper": None}


def test_sampling_is_part_of_the_event(tacit):
    _, out, _ = tacit("epsilon", *TRAINING, "--sampling", "shuffled", "--adjacency", "replace", "--json")
    data = json.loads(out)
    assert data["event"]["event"]["type"] == "Shuffled"
    assert data["epsilon"]["upper"] > 10
    status, _, err = tacit("epsilon", *TRAINING, "--sampling", "shuffled")
    assert status == 2
    assert "replace or zero-out" in err


def test_groups_cost_more(tacit):
    one, three = (json.loads(tacit("epsilon", *TRAINING, "--group", k, "--json")[1])["epsilon"] for k in (1, 3))
    assert three["upper"] > 2 * one["upper"]


def test_groups_are_explained(tacit):
    _, out, _ = tacit("epsilon", *TRAINING, "--group", 3, "--explain")
    assert "group privacy, approximate" in out


def test_beliefs_are_part_of_the_answer(tacit):
    words = ("epsilon", "--event", "-", "--delta", "0", "--prior", "0.2")
    event = {"type": "RandomizedResponse", "epsilon": 1.0986122886681098}
    data, (_, out, _) = (run_event(tacit, event, *words, *more) for more in (("--json",), ()))
    data = json.loads(data[1])
    assert data["prior"] == 0.2
    assert data["posterior"]["upper"] == pytest.approx(3 / 7)
    assert data["accuracy"]["upper"] == pytest.approx(0.8)
    assert "from 0.2 to at most 0.4286" in out


def run_event(tacit, event, *words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(json.dumps(event)))
        return tacit(*words)


def test_conditions_of_a_theorem_are_printed(tacit):
    _, out, _ = tacit("epsilon", "--event", "examples/projected_sgd.json", "--delta", "1e-5")
    for word in ("Poisson sample", "projection", "convex", "no iterate but the last", "from above"):
        assert word in out
    event = {"type": "ObjectivePerturbation", "noise_multiplier": 3.0, "smoothness": 0.25, "regularization": 1.0}
    _, out, _ = run_event(tacit, event, "epsilon", "--event", "-", "--delta", "1e-5")
    assert "the minimiser is exact" in out


@pytest.mark.needs("altair")
@pytest.mark.needs("vl_convert")
@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_the_picture(tacit, tmp_path, suffix, start):
    path = tmp_path / f"picture.{suffix}"
    words = ("epsilon", "--event", "examples/last_iterate.json", "--delta", "1e-5", "--adjacency", "replace")
    assert tacit(*words, "--plot", path)[0] == 0
    written = path.read_bytes()
    assert written.startswith(start)
    if suffix == "svg":
        for word in ("trade-off curve", "privacy profile", "by steps", "composition", "at least, for some losses"):
            assert word in written.decode()


def test_calibrate_shows_the_numbers_that_were_given_or_assumed(tacit):
    _, out, _ = tacit("calibrate", "--epsilon", "3", "--delta", "1e-5")
    assert [line.split()[:2] for line in out.splitlines()[1:3]] == [["rate", "1"], ["steps", "1"]]


def test_a_batch_size_given_as_a_rate_is_told_what_a_rate_is(tacit):
    status, _, err = tacit("epsilon", "--noise-multiplier", "1.1", "--rate", "256", "--delta", "1e-5")
    assert status == 2
    assert "--rate must be in [0, 1]" in err
    assert "the batch size over the number of records" in err


def test_calibrate(tacit):
    status, out, _ = tacit(
        "calibrate", "--epsilon", "3", "--delta", "1e-5", "--rate", "0.01", "--steps", "1000", "--json"
    )
    data = json.loads(out)
    assert status == 0
    assert data["parameter"] == "noise_multiplier"
    assert data["value"] == data["noise_multiplier"]
    assert 3 * (1 - 1e-8) <= data["epsilon"]["upper"] <= 3


@pytest.mark.parametrize(
    ("sampling", "adjacency", "kind"),
    [
        ("poisson", "add-remove", "Poisson"),
        ("fixed-size", "replace", "FixedSize"),
        ("shuffled", "replace", "Shuffled"),
        ("allocation", "add-remove", "Allocation"),
        ("full", "add-remove", "Gaussian"),
    ],
)
def test_a_plan_of_every_sampling_meets_its_target(tacit, sampling, adjacency, kind):
    words = ("--records", "6000", "--epsilon", "3", "--delta", "1e-5", "--batch-size", "300", "--epochs", "2")
    status, out, _ = tacit("plan", *words, "--sampling", sampling, "--adjacency", adjacency, "--json")
    data = json.loads(out)
    assert status == 0
    assert (data["sampling"], data["clipping"], data["bands"]) == (sampling, "flat", 1)
    assert data["event"]["event"]["type"] == kind
    assert 2.9 < data["epsilon"]["upper"] <= 3
    assert sampling == "full" or data["assumptions"]


def test_a_plan_with_correlated_noise_and_what_does_not_go_together(tacit):
    words = ("plan", "--records", "6000", "--epsilon", "3", "--delta", "1e-5", "--batch-size", "300", "--epochs", "2")
    cyclic = ("--sampling", "cyclic", "--adjacency", "zero-out", "--bands", "4")
    status, out, _ = tacit(*words, *cyclic, "--json")
    assert status == 0
    assert json.loads(out)["bands"] == 4
    for wrong in (("--sampling", "shuffled"), ("--sampling", "wild"), ("--bands", "2"), ("--clipping", "odd")):
        status, out, err = tacit(*words, *wrong)
        assert (status, out) == (2, "")
        assert "Use" in err or "Give" in err


def test_plan(tacit):
    words = ("plan", "--records", "10000", "--epsilon", "2", "--delta", "1e-6", "--epochs", "5", "--batch-size", "200")
    status, out, _ = tacit(*words, "--json")
    data = json.loads(out)
    assert status == 0
    assert (data["public_size"], data["rate"], data["steps"]) == (10_000, 0.02, 250)
    assert data["epsilon"]["upper"] <= 2


@pytest.mark.parametrize(
    "words",
    [
        ("epsilon", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "-1", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "nan", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "1", "--rate", "1.5", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "1", "--steps", "0", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "1", "--steps", "2.5", "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--adjacency", "odd"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--sampling", "odd"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--group", "0"),
        ("epsilon", "--event", "nowhere.json", "--delta", "1e-5"),
        ("epsilon", "--event", '{"type": "Laplace", "scale": 2.0}', "--delta", "1e-5"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--plot", "picture.bmp"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--plot", "nowhere/picture.png"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--prior", "1.5"),
        ("epsilon", "--noise-multiplier", "1", "--delta", "1e-5", "--prior", "nan"),
        ("calibrate", "--delta", "1e-5"),
        ("calibrate", "--epsilon", "-1", "--delta", "1e-5"),
        ("calibrate", "--epsilon", "1", "--delta", "1e-5", "--solve", "weather"),
        ("plan", "--records", "0", "--epsilon", "1", "--delta", "1e-5"),
        ("plan", "--records", "100", "--epsilon", "1", "--delta", "1e-5", "--batch-size", "101"),
    ],
)
def test_bad_input_gets_one_sentence_and_status_2(tacit, words):
    status, out, err = tacit(*words)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
