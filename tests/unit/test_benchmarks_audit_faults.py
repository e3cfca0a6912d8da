"""A sample of the zoo of faults: one of preprocessing and one of training are refuted, the correct twins stand."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def zoo(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import audit_faults
    import audit_faults_zoo

    return audit_faults, audit_faults_zoo


@pytest.mark.parametrize("name", ["fills in the data's means", "one seed for all runs"])
def test_faults_are_refuted(zoo, name):
    benchmark, animals = zoo
    assert benchmark.played(animals.FAULTS[name], 500, seed=11)["verdict"] == "refuted"


def test_the_correct_training_stands(zoo):
    benchmark, animals = zoo
    assert benchmark.played(animals.RIGHT["right, public ranges"], 300, seed=11)["verdict"] != "refuted"
    assert len(animals.FAULTS) == 16
    assert len(animals.PREPROCESSING) == 6


def test_the_table_counts_refutations(zoo):
    benchmark, _ = zoo
    rows = {"no noise": [{"verdict": "refuted", "canary": "blank"}, {"verdict": "consistent", "canary": "unseen"}]}
    assert "| no noise | 1 of 2 | blank |" in benchmark.table(rows)
