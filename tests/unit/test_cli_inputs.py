"""Odd but plausible input: one sentence, exit status 2, never a traceback and never a value of the data."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from command import Command
from tacit import Evidence
from tacit.attacks import models_needed

CODE = """
import numpy as np
from sklearn.linear_model import LogisticRegression
from torch import nn

def predict(x):
    return np.where(x[:, :1] > 0, [[0.6, 0.4]], [[0.4, 0.6]])

def chatty(x):
    print("half way")
    return predict(x)

def fails(*arguments):
    raise KeyError("a value of the data")

def make():
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2))

def narrow():
    return nn.Linear(5, 2)

def listed():
    return [1]

def nothing():
    return nn.Tanh()

def lazy():
    return nn.LazyLinear(2)

def ragged(x):
    return [[1.0], [1.0, 2.0]]

def fit(x, y, rng):
    return LogisticRegression().fit(x, y)

def leaves(*arguments):
    raise SystemExit(7)

model = LogisticRegression().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
wide = LogisticRegression().fit([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]], [0, 1])
"""


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("data.npz", x=rng.normal(size=(60, 2)), y=np.arange(60) % 2, members=np.arange(60) // 2 % 2)
    Path("their_code.py").write_text(CODE)
    return Command(capsys, monkeypatch)


def run_file(model='predict = "their_code:predict"', data='source = "data.npz"', **sections):
    parts = {"data": data, "model": model, **sections}
    Path("run.toml").write_text("".join(f"[{name}]\n{text}\n" for name, text in parts.items()))
    return "run.toml"


PLAN = "noise_multiplier = 1.0\nrate = 0.5\nsteps = 2"
MAKE = 'make = "their_code:make"'


@pytest.mark.parametrize(
    ("verb", "sections", "said"),
    [
        ("attack", {"attack": 'references = "many"'}, "references in [attack] must be a whole number"),
        ("attack", {"attack": "references = 1.5"}, "must be a whole number"),
        ("attack", {"attack": "fpr = 0.5"}, "fpr in [attack] must be a list of numbers"),
        ("attack", {"attack": "attacks = 3"}, "must be a text or a list of texts"),
        ("attack", {"output": 'seed = "x"'}, "seed in [output] must be a whole number"),
        ("attack", {"model": "predict = 3"}, "predict in [model] must be a text"),
        ("attack", {"model": 'predict = "their_code:fails"'}, "their_code:fails raised KeyError"),
        ("attack", {"model": 'fit = "their_code:fails"'}, "their_code:fails raised KeyError"),
        (
            "attack",
            {"model": 'make = "their_code:make"\nfile = "bad.safetensors"'},
            "no safetensors file, or it is damaged",
        ),
        ("train", {"model": MAKE, "plan": 'epsilon = "x"'}, "epsilon in [plan] must be a number"),
        ("train", {"model": MAKE, "plan": PLAN + "\nepochs = 3"}, "so epochs must go"),
        ("train", {"model": MAKE, "plan": PLAN, "train": "lr = -1.0"}, "lr must be a finite number above 0"),
        ("train", {"model": MAKE, "plan": PLAN, "train": "lr = nan"}, "lr in [train] must be a number"),
        ("train", {"model": MAKE, "plan": PLAN, "output": "folder = 3"}, "folder in [output] must be a text"),
        ("train", {"model": 'make = "their_code:fails"', "plan": PLAN}, "make raised KeyError"),
        ("train", {"model": 'make = "their_code:listed"', "plan": PLAN}, "must return a torch module"),
        ("train", {"model": 'make = "their_code:narrow"', "plan": PLAN}, "cannot take records of shape (2,)"),
        ("bracket", {"model": MAKE, "plan": PLAN, "attack": "references = -1"}, "references must be a whole number"),
        ("bracket", {"model": MAKE, "plan": PLAN, "attack": 'attacks = ["lyra"]'}, "'lyra' is not known"),
        ("bracket", {"model": MAKE, "plan": PLAN, "audit": "runs = -5"}, "runs in [audit] must be a whole number"),
        ("bracket", {"model": MAKE, "plan": PLAN, "audit": 'game = "one-run"'}, "audited by the game runs"),
        (
            "bracket",
            {"model": MAKE, "plan": PLAN, "audit": "confidence = 2.0"},
            "[audit] must be in (0, 1)",
        ),
        ("bracket", {"model": MAKE, "plan": PLAN + '\nadjacency = "replace"'}, "under add-remove adjacency"),
        ("bracket", {"model": 'fit = "their_code:fails"', "plan": "epsilon = 1.0"}, "raised KeyError"),
        (
            "bracket",
            {"model": 'fit = "their_code:fit"', "data": 'source = "who.npz"\nunit = "who"'},
            "kind or make",
        ),
        (
            "bracket",
            {"model": 'fit = "their_code:fit"', "audit": 'start = "crafted"'},
            "`start` in [audit] does not go",
        ),
        ("bracket", {"model": 'fit = "their_code:fit"', "audit": 'game = "one-run"'}, "audited by the game runs"),
        ("train", {"model": MAKE, "plan": PLAN, "audit": "seconds = 9"}, "`seconds` in [audit] does not go"),
        ("bracket", {"model": 'fit = "their_code:fit"', "audit": 'canary = "bird"'}, "'bird'"),
        ("attack", {"model": 'make = "their_code:narrow"\nfile = "narrow.safetensors"'}, "given records of shape (2,)"),
        ("attack", {"model": 'predict = "their_code:ragged"'}, "one row per record and one column per class"),
        ("attack", {"model": 'predict = "their_code:leaves"'}, "their_code:leaves raised SystemExit"),
        ("attack", {"data": 'source = "\\u0000.npz"'}, "source in [data] must be a text"),
        ("bracket", {"model": MAKE, "plan": PLAN, "attack": "attacks = []"}, "at least one attack"),
        ("bracket", {"model": 'make = "their_code:lazy"', "plan": PLAN}, "lazy layers"),
        ("train", {"model": 'make = "their_code:nothing"', "plan": PLAN}, "no parameter that could be trained"),
        ("attack", {"model": 'predict = "their_code:wide"'}, "The model raised ValueError when it was given records"),
        ("train", {"model": MAKE, "plan": PLAN, "train": 'schedule = "lunar"'}, "Schedule 'lunar' is not known"),
        ("train", {"model": MAKE, "plan": PLAN, "train": 'average = "median"'}, "average must be one of"),
        ("train", {"model": MAKE, "plan": PLAN, "train": "learning_rate = 1.0"}, "is not a key of [train]"),
        ("train", {"model": MAKE, "plan": PLAN + "\nrecords_per_user = 2"}, "goes with `unit`"),
        ("train", {"model": MAKE, "plan": PLAN, "data": 'source = "data.npz"\nunit = "who"'}, "has no who"),
        ("train", {"model": MAKE, "plan": PLAN, "data": 'source = "their_code:make"\nunit = "who"'}, "unit must go"),
        ("train", {"model": MAKE, "plan": PLAN, "data": 'source = "digits"\nlabel = "y"'}, "no columns to name"),
        ("train", {"model": MAKE, "plan": PLAN, "data": 'source = "data.npz"\ncategories = 3'}, "lists of texts"),
    ],
)
def test_a_run_file_that_cannot_be_run(tacit_, verb, sections, said):
    Path("bad.safetensors").write_text("garbage")
    save_file({"weight": torch.zeros(2, 5), "bias": torch.zeros(2)}, "narrow.safetensors")
    np.savez("who.npz", **np.load("data.npz"), who=np.arange(60) // 3)
    status, out, err = tacit_(verb, run_file(**sections), "--json")
    message = json.loads(err.splitlines()[-1])["error"]
    assert status == 2
    assert not out
    assert said in message["message"]
    assert "a value of the data" not in err


def test_a_run_file_knows_the_kinds_of_models_that_there_are():
    from tacit.study.run_file import NETWORKS
    from tacit.train.recipe.networks import KINDS

    assert set(NETWORKS) == set(KINDS)


def test_a_run_file_decides_folder_and_groups(tacit_):
    data = np.load("data.npz")
    np.savez("grouped.npz", **data, groups=np.where(np.arange(60) < 30, "young", "old"))
    file = run_file(data='source = "grouped.npz"', output='folder = "there"')
    assert tacit_("attack", file, "--json")[0] in (0, 3)
    assert "young" in Path("there/scores.csv").read_text()


@pytest.mark.parametrize("model", ['make = "their_code:make"', 'fit = "their_code:fit"'])
def test_bracket_compares_groups(tacit_, model):
    np.savez("grouped.npz", **np.load("data.npz"), groups=np.where(np.arange(60) < 40, "many", "few"))
    sections = {"data": 'source = "grouped.npz"', "model": model, "plan": PLAN, "audit": "runs = 16"}
    references = models_needed(10) if "fit" in model else 8
    status, _, err = tacit_(
        "bracket", run_file(**sections, attack=f"references = {references}"), "--seed", 1, "--out", "there"
    )
    assert status in (0, 1, 3), err  # the fit of this test keeps no claim
    found = Evidence.load("there/evidence.json")
    assert {item.group for item in found.groups} == {"few", "many"}
    assert found.claim.event is not None
    assert [item.step for item in found.budget] == [1, 2]
    assert found.risk
    pool = np.load("grouped.npz")["members"].astype(bool)
    if "fit" in model:  # which trains on halves of the members; else references also learn what was held out
        assert {bool(pool[item.record]) for item in found.exposures} <= {True}
    page = Path("there/report.html").read_text()
    assert "Risk of groups" in page
    assert 'data-path="/0/groups/0/group">few' in page


def test_the_command_trains_in_one_process_alone(tacit_, monkeypatch):
    for count, status in (("2", 2), ("1", 0), ("", 0), ("odd", 0)):
        monkeypatch.setenv("WORLD_SIZE", count)
        found, _, err = tacit_("train", run_file(MAKE, plan=PLAN), "--again")
        assert found == status, err
        assert ("torchrun has started several" in err) == (status == 2)


def test_a_trained_estimator_is_a_model(tacit_):
    half = np.arange(60) // 2 % 2 == 0
    data = np.load("data.npz")
    for name, rows in (("in.npz", half), ("out.npz", ~half)):
        np.savez(name, x=data["x"][rows], y=data["y"][rows])
    words = ("attack", "--model", "their_code:model", "--members", "in.npz", "--nonmembers", "out.npz")
    assert tacit_(*words, "--references", "0", "--json")[0] in (0, 3)


FRAMED = """
import pandas
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

table = pandas.read_csv("in.csv")
words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
model = make_pipeline(
    make_column_transformer((words, ["city"]), remainder="passthrough"),
    HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2, random_state=0),
).fit(table[["age", "city"]], table["ill"])
"""


def test_a_pipeline_that_was_fitted_to_a_frame_is_asked_about_frames(tacit_):
    """Words, missing numbers, words for labels and columns in another order go to it as they are in the files."""
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for name, columns in (("in.csv", ("age", "city", "ill")), ("out.csv", ("ill", "city", "age"))):
        cells = {
            "age": [*rng.integers(20, 80, 38).astype(str), "", ""],
            "city": rng.choice(["a", "b", "only here " + name[:2]], 40),
            "ill": rng.choice(["yes", "no"], 40),
        }
        lines = [",".join(columns), *(",".join(cells[key][k] for key in columns) for k in range(40))]
        Path(name).write_text("\n".join(lines) + "\n")
    Path("framed_code.py").write_text(FRAMED)
    words = ("attack", "--model", "framed_code:model", "--members", "in.csv", "--nonmembers", "out.csv")
    status, out, err = tacit_(*words, "--label", "ill", "--references", "2", "--seed", "1", "--json")
    assert status in (0, 3), err
    assert {item["name"] for item in json.loads(out)["attacks"]} >= {"loss", "lira"}
    assert "training reference model 2 of 2" in err
    assert any("16 reference models" in text for text in json.loads(out)["not_covered"])
    status, _, err = tacit_(*words, "--label", "sick", "--out", "other")
    assert (status, "has no column 'sick'" in err) == (2, True)


TEXTS = """
import pandas
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

table = pandas.read_csv("in.csv")
model = make_pipeline(CountVectorizer(), MultinomialNB()).fit(table["text"], table["kind"])
"""


def test_a_classifier_of_texts_is_asked_about_texts(tacit_):
    """A column of texts beside the label goes to the model as it is: its words could not be numbered."""
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    for name in ("in.csv", "out.csv"):
        lines = [f"{kind},{kind} {' '.join(rng.choice(list('abcdefgh'), 6))}" for kind in ("ham", "spam") * 20]
        Path(name).write_text("\n".join(["kind,text", *lines]) + "\n")
    Path("text_code.py").write_text(TEXTS)
    words = ("attack", "--model", "text_code:model", "--members", "in.csv", "--nonmembers", "out.csv")
    status, out, err = tacit_(*words, "--label", "kind", "--references", "2", "--seed", "1", "--json")
    assert status in (0, 3), err
    assert {item["name"] for item in json.loads(out)["attacks"]} >= {"loss", "lira"}


def test_values_of_a_regression_are_no_classes(tacit_):
    rng = np.random.default_rng(0)
    for name in ("in.npz", "out.npz"):
        x = rng.normal(size=(40, 2))
        np.savez(name, x=x, y=np.exp(2 * x[:, 0] + rng.normal(size=40)))
    Path("value_code.py").write_text("import numpy as np\n\ndef predict(x):\n    return np.exp(2 * x[:, 0])\n")
    words = ("attack", "--model", "value_code:predict", "--members", "in.npz", "--nonmembers", "out.npz")
    status, out, err = tacit_(*words, "--seed", "1", "--json")
    assert status in (0, 3), err
    assert [item["name"] for item in json.loads(out)["attacks"]] == ["loss"]


def test_two_files_must_use_the_same_words(tacit_):
    """Numbered file by file, the second file's cats would be the first one's dogs."""
    Path("in.csv").write_text("a,b,y\n1,2,cat\n2,1,dog\n")
    Path("out.csv").write_text("a,b,y\n3,2,cow\n4,1,dog\n")
    words = ("--model", "their_code:predict", "--members", "in.csv", "--nonmembers", "out.csv", "--label", "y")
    status, _, err = tacit_("attack", *words)
    assert status == 2
    assert "different words" in err


def test_everybody_a_member_leaves_nobody_to_measure_on(tacit_):
    data = np.load("data.npz")
    np.savez("all.npz", x=data["x"], y=data["y"], members=np.ones(60))
    status, out, _ = tacit_("train", run_file(MAKE, 'source = "all.npz"', plan=PLAN), "--json")
    assert status == 0
    assert json.loads(out)["accuracy"]["validation"] is None
    status, _, err = tacit_("attack", run_file(data='source = "all.npz"'))
    assert (status, "both 0 and 1" in err) == (2, True)


def test_a_place_that_cannot_be_written_is_bad_input(tacit_):
    Path("scores.csv").write_text("score,member\n1,1\n0,0\n")
    Path("full/evidence.json").mkdir(parents=True)
    status, _, err = tacit_("attack", "scores.csv", "--out", "full")
    assert status == 2
    assert err.startswith("tacit: full is not an empty folder; a folder belongs to one run.")
    assert [path.name for path in Path("full").iterdir()] == ["evidence.json"]
    assert not Path("full.unfinished").exists()


def test_what_foreign_code_prints_is_no_result(tacit_):
    _, out, err = tacit_("attack", run_file('predict = "their_code:chatty"'), "--json")
    assert json.loads(out)["schema"] == "tacit.attack/1"
    assert "half way" not in err
    _, out, err = tacit_("attack", run_file('predict = "their_code:chatty"'), "--json", "--again", "--debug")
    assert json.loads(out)["evidence"] == "tacit-attack-2/evidence.json"
    assert "half way" in err


@pytest.mark.parametrize("size", ["", "\npublic_size = 30"])
def test_a_size_taken_from_the_data_is_not_covered(tacit_, size):
    assert tacit_("train", run_file(MAKE, plan=PLAN + size), "--json")[0] == 0
    assert ("public_size" in Path("tacit-train/evidence.json").read_text().split('"not_covered"')[1].split("]")[0]) == (
        not size
    )


@pytest.mark.parametrize(
    ("section", "key", "near"),
    [
        ("train", "learning_rate", "'lr'"),
        ("plan", "sigma", "'noise_multiplier'"),
        ("plan", "max_grad_norm", "'clip_norm'"),
        ("plan", "epocs", "'epochs'"),
        ("plan", "seed", "[output]"),
        ("data", "lables", "'label'"),
    ],
)
def test_a_wrong_key_names_the_right_one(tacit_, section, key, near):
    status, _, err = tacit_("train", run_file(MAKE, **{section: f"{key} = 1"}))
    assert (status, near in err) == (2, True), err


def test_an_option_that_would_be_ignored_is_refused(tacit_):
    Path("scores.csv").write_text("score,member\n1,1\n0,0\n")
    for words in (
        ("scores.csv", "--references", "4"),
        ("scores.csv", "--label", "y"),
        (run_file(), "--members", "x.npz"),
    ):
        assert tacit_("attack", *words)[0] == 2
    file = run_file('fit = "their_code:listed"\nfile = "x.safetensors"')
    assert "Leave it out beside fit" in tacit_("attack", file)[2]


def test_users_a_schedule_an_average_and_public_words(tacit_):
    """All of [data] and [train] in one run; what comes from the data itself is named as not covered."""
    rng = np.random.default_rng(1)
    rows = [f"{a:.3f},{'pq'[k % 2]},{('no', 'yes')[k % 2]},{k // 4}" for k, a in enumerate(rng.normal(size=80))]
    Path("t.csv").write_text("a,w,y,who\n" + "\n".join(rows) + "\n")
    data = 'source = "t.csv"\nlabel = "y"\nunit = "who"\n'
    train = 'lr = 0.5\nmomentum = 0.5\nschedule = "cosine"\naverage = "tail"'
    Path("three.py").write_text("from torch import nn\ndef make():\n    return nn.Linear(3, 2)\n")
    lists = 'categories.w = ["p", "q"]\ncategories.y = ["no", "yes"]'
    for public in (False, True):
        file = run_file('make = "three:make"', data + lists * public, plan=PLAN + "\nrecords_per_user = 2", train=train)
        status, out, err = tacit_("train", file, "--seed", "3", "--json", "--again")
        assert status == 0, err
        evidence = Evidence.load(json.loads(out)["evidence"])
        assert evidence.claim.bound.unit == "user"
        with np.load(Path(json.loads(out)["out"]) / "records.npz") as kept:
            users = {k // 4 for k in np.flatnonzero(kept["trained_on"])}
        assert evidence.provenance["public_size"] == len(users)
        assert 14 <= len(users) < 20
        assert any(text.startswith("the words of w, y") for text in evidence.not_covered) != public


@pytest.mark.parametrize("junk", [b"", b"junk", b"\x80\x02junk", b"PK\x03\x04" + bytes(40), b"\x80\x02}q\x00."])
def test_a_checkpoint_that_is_none(tacit_, junk):
    Path("tacit-train.unfinished").mkdir()
    Path("tacit-train.unfinished/checkpoint.secret").write_bytes(junk)
    status, _, err = tacit_("train", run_file(MAKE, plan=PLAN), "--resume")
    assert status == 2
    assert "checkpoint" in err.splitlines()[-1]
    assert Path("tacit-train.unfinished/checkpoint.secret").read_bytes() == junk


def test_a_bracket_is_about_the_model_that_is_kept(tacit_):
    """Trained on the members, attacked as it is, and beside the page in the same folder."""
    small = {"attack": "references = 4", "audit": "runs = 16"}
    status, _, err = tacit_("bracket", run_file(model=MAKE, plan=PLAN, **small), "--out", "there", "--seed", "1")
    assert status in (0, 3), err
    found = Evidence.load("there/evidence.json")
    members = np.load("data.npz")["members"].astype(bool)
    kept = np.load("there/records.npz")
    assert kept["trained_on"].tolist() == members.tolist()
    assert f"{members.sum()} records" in found.provenance["released_model_trained_on"]
    assert found.measurements[0].members == members.sum()
    assert Path("there/model.safetensors").is_file()
    assert Path("there/records.npz").stat().st_mode & 0o777 == 0o600
    assert "tuning" not in found.threat


def test_training_then_a_bracket_of_its_folder(tacit_):
    small = {"attack": "references = 4", "audit": "runs = 16", "describe": 'owner = "Ward 4"\ntuning = "none"'}
    path = run_file(model=MAKE, plan=PLAN, **small)
    assert tacit_("train", path, "--out", "there", "--seed", "1")[0] == 0
    first = Evidence.load("there/evidence.json")
    assert (first.described["owner"], first.threat["tuning"]) == ("Ward 4", "none")
    status, _, err = tacit_("bracket", "there", "--out", "page", "--seed", "2")
    assert status in (0, 3), err
    found = Evidence.load("page/evidence.json")
    assert found.provenance["parameters_sha256"] == first.provenance["parameters_sha256"]
    assert found.claim.bound == first.claim.bound
    assert found.described["owner"] == "Ward 4"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: np.savez("data.npz", **{**np.load("data.npz"), "x": np.ones((60, 2))}), "data have changed"),
        (lambda: Path("there/records.npz").write_bytes(b"junk"), "records.npz is damaged"),
        (lambda: Path("there/run.toml").unlink(), "no run.toml"),
        (lambda: Path("there/data.key").write_bytes(bytes(32)), "data have changed"),
    ],
)
def test_a_folder_that_no_longer_fits_is_refused(tacit_, change, said):
    tacit_("train", run_file(model=MAKE, plan=PLAN), "--out", "there", "--seed", "1")
    change()
    status, _, err = tacit_("bracket", "there")
    assert status == 2
    assert said in err


def test_users_are_the_unit_of_a_bracket_too(tacit_):
    """The canary is a user of its own; fleets know no users, so train.fit makes all runs of the audit."""
    np.savez("who.npz", **np.load("data.npz"), unit=np.arange(60) // 2)
    run = run_file(model=MAKE, plan=PLAN, data='source = "who.npz"', audit="runs = 16")
    status, _, err = tacit_("bracket", run, "--out", "there", "--seed", "1")
    assert status in (0, 3), err
    found = Evidence.load("there/evidence.json")
    assert {bound.unit for bound in found.bounds} == {"user"}
    assert "by train.fit" in found.provenance["audit_runs"]
    assert "fleet" not in found.provenance["audit_runs"]


def test_a_warning_is_a_sentence(tacit_):
    """Not a line of our code with its path."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = tacit_("plan", "--records", "100", "--epsilon", "1", "--delta", "0.5")
    assert status == 0
    assert err.startswith("tacit: delta 0.5 is not below")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("verb", "how"), [("attack", "predict"), ("attack", "fit"), ("bracket", "fit"), ("train", "make")]
)
def test_an_exception_of_users_code_is_told_by_kind_and_place(tacit_, verb, how):
    """Where it was raised, never what it said."""
    line = next(k for k, text in enumerate(CODE.splitlines(), start=1) if "raise KeyError" in text)
    data = 'source = "data.npz"' + '\nmembers = "members"' * (verb == "attack")
    sections = {"plan": PLAN} if verb == "train" else {}
    status, _, err = tacit_(verb, run_file(f'{how} = "their_code:fails"', data, **sections))
    assert status == 2
    assert f"(their_code.py, line {line}, in fails)" in err
    assert "a value of the data" not in err


@pytest.mark.parametrize("how", ["attack", "bracket a model", "bracket a training"])
def test_records_are_named_by_their_rows_in_the_file(tacit_, monkeypatch, how):
    """Rows without a known label are left out: everybody behind them was named for somebody else."""
    from tacit.cli import attacking, bracketing, inputs
    from tacit.core import Estimate, Exposure, Scores
    from tacit.data import Records
    from tacit.study.audit_section import AuditSection
    from tacit.study.run_file import RunFile

    kept = np.flatnonzero(np.arange(40) % 10 != 3)
    inside = np.arange(len(kept)) % 2 == 0
    records = Records(np.zeros((len(kept), 2), np.float32), np.arange(len(kept)) % 2, members=inside, rows=kept)
    sure = Estimate(0.9, 0.5, 1.0, 0.95, 16)
    score = Scores([0.5, 0.1], [1, 0], attack="loss", randomised=False, record=[2, 5])
    made = Evidence(subject="", exposures=(Exposure(2, 0.9, sure), Exposure(5, 0.9, sure)), scores=(score,))
    for module in (attacking, bracketing, inputs):
        monkeypatch.setattr(module, "read_records", lambda file: records, raising=False)
    monkeypatch.setattr(attacking, "_attacked", lambda *_, **__: made)
    monkeypatch.setattr("tacit.study.bracketing.bracket", lambda *_, **__: made)
    if how == "attack":
        found = attacking._attack_run(RunFile.read(run_file()), None, 0, None, 1, None)
    elif how == "bracket a model":
        found = bracketing._bracket_taken(RunFile.read(run_file()), AuditSection(), records, None, None)
    else:
        found = bracketing._bracket_fit(
            RunFile.read(run_file(model='fit = "their_code:fit"')), AuditSection(), records, None, None
        )
    assert [item.record for item in found.exposures] == [kept[inside][2], kept[inside][5]] == [5, 11]
    assert found.scores[0].record.tolist() == [5, 11]
