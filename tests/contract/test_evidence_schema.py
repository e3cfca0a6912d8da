"""The published schema of evidence is the code's, takes all evidence there is, and refuses what is damaged."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import report_samples as samples
from tacit import Evidence
from tacit.core.evidence_schema import schema

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "docs" / "schema" / "evidence-1.json"
KEPT = sorted((ROOT / "benchmarks" / "results").glob("*evidence*.json"))
VALID = Draft202012Validator(schema())


def test_the_published_file_is_what_the_code_says():
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == schema()
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_every_sample_fits_and_comes_back(name):
    evidence = samples.SAMPLES[name]()
    stored = json.loads(json.dumps(evidence.to_json()))
    assert list(VALID.iter_errors(stored)) == []
    assert Evidence.from_json(stored).to_json() == stored


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_kept_evidence_fits_and_loads(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert list(VALID.iter_errors(stored)) == []
    assert Evidence.load(path).to_json()["bounds"] == stored["bounds"]


def test_there_is_kept_evidence():
    assert KEPT


def test_evidence_of_before_the_new_lists_loads():
    stored = samples.private().to_json()
    for name in ("exposures", "risk", "groups", "budget"):
        assert stored.pop(name) == []
    assert list(VALID.iter_errors(stored)) == []
    assert Evidence.from_json(stored).budget == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "tacit.evidence/2"),
        (("verdict",), "fine"),
        (("bounds", 0, "epsilon"), -1.0),
        (("bounds", 0, "side"), "middle"),
        (("claim", "bound", "delta"), 2.0),
        (("demonstrations", 0, "counts", "tp"), 1.5),
        (("controls", 0, "passed"), "yes"),
        (("measurements", 0, "tpr_at_fpr", 0, "fpr"), None),
        (("measurements", 0, "roc", 0), [0.1, 0.2]),
        (("exposures", 0, "record"), -1),
        (("groups", 0, "p_value"), 1.5),
        (("budget", 0, "step"), "one"),
        (("provenance", "python"), ["3.11"]),
    ],
)
def test_damage_is_refused(path, value):
    stored = copy.deepcopy(samples.detailed().to_json())
    place = stored
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert list(VALID.iter_errors(stored))


@pytest.mark.parametrize("name", ["subject", "bounds", "claim", "demonstrations", "provenance"])
def test_a_missing_part_is_refused(name):
    stored = samples.private().to_json()
    del stored[name]
    assert list(VALID.iter_errors(stored))
