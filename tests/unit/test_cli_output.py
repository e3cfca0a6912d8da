"""Where numbers do not tell what a model answers with, the command line, a run file or an argument says it."""

import numpy as np
import pytest

import tacit as library
from command import Command
from tacit import BadInput

CODE = """
import numpy as np

def noisy(x):
    share = 1 / (1 + np.exp(-x[:, 0]))
    return np.stack((1 - share, share), axis=1) + [0.05, -0.05]   # shares with noise, or logits?

def fit(x, y, rng):
    return noisy
"""
MODELS = {"predict": 'predict = "own_answers:noisy"', "fit": 'fit = "own_answers:fit"'}
SAID = "they may be probabilities or logits"


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_answers.py").write_text(CODE)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * 3
    y = (x[:, 0] + rng.normal(size=400) > 0).astype(int)
    np.savez("people.npz", x=x, y=y, members=np.arange(400) < 200)
    for name, rows in (("in", slice(0, 200)), ("out", slice(200, 400))):
        np.savez(f"{name}.npz", x=x[rows], y=y[rows])
    return Command(capsys, monkeypatch)


def run(path, model, attack):
    audit = "[audit]\nruns = 16\nisolation = 'none'\n" if model == "fit" else ""
    path.write_text(
        f'[data]\nsource = "people.npz"\nmembers = "members"\n[model]\n{MODELS[model]}\n'
        f"[attack]\nreferences = 0\n{attack}\n{audit}"
    )


def test_of_a_model_that_is_named_on_the_command_line(command):
    words = ("attack", "--model", "own_answers:noisy", "--members", "in.npz", "--nonmembers", "out.npz")
    status, _, error = command(*words)
    assert (status, SAID in error) == (2, True)
    assert command(*words, "--output", "probabilities")[0] in (0, 3)
    status, _, error = command(*words, "--output", "shares", "--again")
    assert (status, "output must be one of" in error) == (2, True)


def test_scores_have_no_such_thing(command, tmp_path):
    (tmp_path / "scores.csv").write_text("score,member\n" + "".join(f"{k % 97},{k % 2}\n" for k in range(400)))
    status, _, error = command("attack", "scores.csv", "--output", "logits")
    assert (status, "go with a model" in error) == (2, True)


@pytest.mark.parametrize(
    ("verb", "model"),
    [("attack", "predict"), ("attack", "fit"), ("bracket", "predict"), ("bracket", "fit"), ("gap", "fit")],
)
def test_of_a_run_file(command, tmp_path, verb, model):
    path, few = tmp_path / "run.toml", ("--references", "2") if verb == "gap" else ()
    run(path, model, "")
    status, _, error = command(verb, "run.toml", *few, "--seed", "1")
    assert (status, SAID in error) == (2, True)
    run(path, model, 'output = "probabilities"')
    status, _, error = command(verb, "run.toml", *few, "--seed", "1", "--out", "said")
    assert status in (0, 3), error


def test_bracket_says_which_settings_of_an_attack_it_does_not_use(command, tmp_path):
    run(tmp_path / "run.toml", "predict", 'output = "probabilities"\nattacks = ["loss"]\nfpr = [0.1]')
    status, _, error = command("bracket", "run.toml", "--seed", "1")
    assert status in (0, 3)
    assert "attacks and fpr in [attack] go with `tacit attack`" in error


def test_a_model_by_name_is_not_asked_about():
    pytest.importorskip("torch")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": np.arange(60.0), "ill": ["no", "yes"] * 30})
    schema = library.Schema.of(frame, label="ill")
    trained = library.fit("linear", frame, library.Plan(60, 0.5, 2, 1.0), schema=schema, rng=1)
    with pytest.raises(BadInput, match="answers with logits"):
        library.bracket(trained, frame, nonmembers=frame, output="probabilities")
