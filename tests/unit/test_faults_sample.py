"""A sample of benchmarks/faults.py: kills and full disks, then the uninterrupted result; and values found nowhere."""

import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from command import Command

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))


@pytest.fixture(autouse=True)
def own_module():
    """Other tests have a module named `own`, too: neither may find the other's in this process."""
    for name in ("own", "sown"):
        sys.modules.pop(name, None)
    yield
    for name in ("own", "sown"):
        sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", "audit", "attack", "attack fit", "bracket fit", "fleet"])
def test_faults_end_in_the_uninterrupted_result(name, tmp_path, monkeypatch):
    from fault_modes import MODES
    from faults import kill_once, prepared, starve_once

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    mode = MODES[name]
    reference, seconds = prepared(mode, tmp_path)
    rng = random.Random(name)
    for kind in ("kill", "disk"):
        folder = tmp_path / kind
        mode.prepare(folder)
        if kind == "kill":
            finding, _ = kill_once(mode, reference, folder, rng, seconds)
        else:
            finding, _ = starve_once(mode, reference, folder, rng)
        assert finding == "", (name, kind)


def test_the_check_of_pairs_can_fail(tmp_path):
    from fault_modes import paired

    out = tmp_path / "out"
    out.mkdir()
    assert paired(tmp_path) == ""
    (out / "evidence.json").write_text("{}")
    assert "without a manifest" in paired(tmp_path)
    (out / "manifest.json").write_text(json.dumps({"files": {"evidence.json": {"sha256": "0"}}}))
    assert "evidence.json is missing or another" in paired(tmp_path)


NUMBER, WORD = 7319.284, "Zebulonquux"
CODE = f"""
import logging, sys, warnings
from pathlib import Path
from torch import nn
import numpy as np

def line():
    return nn.Linear(3, 2)

class Bad(nn.Linear):
    def forward(self, x):
        if (abs(x - {NUMBER}) < 1e-3).any():
            print("saw", float(x.max()))
            raise ValueError(f"bad value {{x.max()}} of {WORD}")
        return super().forward(x)

def bad():
    return Bad(3, 2)

def loud(x):
    print(x.max(), "{WORD}")
    print(x.max(), file=sys.stderr)
    warnings.warn(f"{{x.max()}} {WORD}")
    logging.getLogger("own").error("%s {WORD}", x.max())

CALLS = [0]

def stopping(x, y, rng):
    CALLS[0] += 1
    loud(x)
    if Path("stop").exists() and CALLS[0] > 2:
        raise KeyboardInterrupt(f"{{x.max()}} {WORD}")
    shift = rng.normal()
    return lambda q: np.stack([np.tanh(q[:, 0]) + shift, np.zeros(len(q))], axis=1)

def failing(x, y, rng):
    loud(x)
    raise KeyError(f"{{x.max()}} {WORD}")

class Stopped(nn.Linear):
    def forward(self, x):
        with open("calls", "a") as file:  # what is in memory is put back after every pass
            file.write(".")
        if Path("stop").exists() and Path("calls").stat().st_size > 60:
            raise KeyboardInterrupt(f"{{x.max()}} {WORD}")
        return super().forward(x)

def stopped():
    return Stopped(3, 2)

def pair():
    raise LookupError("{WORD} {NUMBER}")

def fit(x, y, rng):
    loud(x)
    if rng.random() < 0.3:
        raise RuntimeError(f"{{x.max()}} {WORD}")
    shift = rng.normal()
    return lambda q: np.stack([q[:, 0] + shift, np.zeros(len(q))], axis=1)

def predict(x):
    print(x.max(), "{WORD}")
    return np.stack((x[:, 0], x[:, 1]), axis=1) * 1e-4
"""
RUN = """
[data]
source = "{source}"
label = "y"
members = "m"
{unit}
[model]
{model}
[plan]
{plan}
"""
PLAN = "rate = 0.5\nsteps = 4\nnoise_multiplier = 1.0\npublic_size = {size}\ndelta = 1e-5"
PAIR = "epsilon = 2.0\ndelta = 1e-5"


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("sown.py").write_text(CODE)
    rng = np.random.default_rng(0)
    rows = []
    for k, (a, b, c) in enumerate(rng.normal(size=(80, 3))):
        rows.append(
            [f"{a:.3f}", f"{b:.3f}", f"{NUMBER if k == 8 else c:.3f}", str(k % 2), str(int(k % 4 < 2)), WORD + str(k)]
        )
    for name, width in (("d.csv", 6), ("e.csv", 5)):
        header = ["a", "b", "c", "y", "m", "who"][:width]
        Path(name).write_text("\n".join(",".join(row[:width]) for row in [header, *rows]) + "\n")
    return Command(capsys, monkeypatch)


GIVEN = ("sown.py", "d.csv", "e.csv", "bad.csv")


def traces():
    """Where the planted values are, as text or as bytes of numbers, in all files that the verbs wrote."""
    marks = [str(NUMBER), f"{NUMBER:.2f}", WORD, repr(float(np.float32(NUMBER)))]  # shorter ones occur by chance
    raw = [mark.encode() for mark in marks] + [struct.pack(kind, NUMBER) for kind in ("<f", "<d", ">f", ">d")]
    files = [path for path in Path().rglob("*") if path.is_file() and path.name not in GIVEN]
    return [
        (str(path), mark)
        for path in files
        if "__pycache__" not in str(path)
        for mark in raw
        if mark in path.read_bytes()
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("always")
def test_planted_values_are_found_nowhere_after_every_verb_and_error(tacit_):
    told = []

    def run(*words):
        status, out, err = tacit_(*words)
        told.append(out + err)
        return status

    def file(model, plan, source="d.csv", unit='unit = "who"'):
        Path("run.toml").write_text(RUN.format(model=model, plan=plan.format(size=40), source=source, unit=unit))
        return "run.toml"

    fit = (
        "audit",
        "sown:fit",
        "--epsilon",
        1,
        "--label",
        "y",
        "--runs",
        24,
        "--seed",
        0,
        "--isolation",
        "none",
        "--data",
    )
    assert run("train", file('make = "sown:line"', PLAN), "--out", "good") == 0
    assert run("train", file('make = "sown:bad"', PLAN), "--out", "crash") == 3
    assert run("bracket", file('predict = "sown:predict"', PLAN), "--out", "unit") == 2
    assert run(*fit, "e.csv", "--out", "audited") in (0, 3), told[-1]
    assert run("bracket", file('predict = "sown:predict"', PAIR, "e.csv", ""), "--out", "taken") in (0, 3)
    assert run("attack", file('predict = "sown:predict"', PAIR, "e.csv", ""), "--out", "attacked") in (0, 3)
    assert run("report", "good/evidence.json", "--out", "page.html") == 0
    assert run("verify", "good/evidence.json") == 0
    assert run("train", file('make = "sown:line"', PLAN + "\nclip = 3"), "--out", "typo") == 2
    few = "\n[attack]\nreferences = 3\n[audit]\nruns = 24\nisolation = 'none'"
    plain = ("e.csv", "")
    assert run("attack", file('fit = "sown:failing"', PAIR, *plain), "--out", "failed") == 2
    assert run("bracket", file('fit = "sown:failing"', PAIR + few, *plain), "--out", "failed2") == 2
    assert run("audit", "sown:fit", "--epsilon", 1, "--pair", "sown:pair", "--out", "failed3") == 2
    Path("bad.csv").write_text(Path("d.csv").read_text() + f"1,2,{WORD},1,1,x\n")
    assert run("train", file('make = "sown:line"', PLAN, "bad.csv"), "--out", "failed4") == 2
    assert run("init", "bad.csv", "--label", "nothing") == 2
    assert run("gap", file('fit = "sown:failing"', PAIR, *plain), "--out", "failed5") in (2, 3)
    long = PLAN.replace("steps = 4", "steps = 60")
    for name in ("attack", "bracket", "audit", "train"):
        Path("stop").write_text("now")
        sys.modules.pop("sown", None)
        source = file(
            *(('make = "sown:stopped"', long) if name == "train" else ('fit = "sown:stopping"', PAIR + few)), *plain
        )
        given = (name, "sown:stopping", *fit[2:], "e.csv") if name == "audit" else (name, source)
        assert run(*given, "--out", f"stopped-{name}") == 130, (name, told[-1])
        assert Path(f"stopped-{name}.unfinished").is_dir()
        assert traces() == []
        Path("stop").unlink()
        assert run(*given, "--out", f"stopped-{name}", "--resume") in (0, 1, 3), (name, told[-1])
        assert Path(f"stopped-{name}/manifest.json").is_file()
    words = "\n".join(told)
    assert not [mark for mark in ("7319.2", WORD) if mark in words], words
    assert "Traceback" not in words
    assert traces() == []
