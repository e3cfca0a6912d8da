"""docs/audits.md says what the kept results say."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = (ROOT / "docs" / "audits.md").read_text(encoding="utf-8")


@pytest.fixture
def bugs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import bugs

    yield bugs
    for name in ("bugs", "bugs_games", "bugs_zoo"):
        sys.modules.pop(name, None)


@pytest.fixture
def zoo(bugs):
    return sys.modules["bugs_zoo"]


def kept(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def test_the_zoo_is_the_kept_one(bugs):
    shown = PAGE.split("<!-- zoo -->")[1].split("<!-- /zoo -->")[0].strip()
    assert shown == bugs.table(kept("bugs.json"))


def test_the_zoo_is_whole_and_its_right_twin_stands(bugs):
    result = kept("bugs.json")
    assert result["confidence"] == 1 - 1e-6
    assert list(result["bugs"]) == list(bugs.ZOO)
    assert {row["verdict"] for row in result["bugs"]["right"].values()} == {"consistent"}
    wrong = {name: rows for name, rows in result["bugs"].items() if name != "right"}
    assert len(wrong) >= 10
    refuted = [name for name, rows in wrong.items() if "refuted" in {row["verdict"] for row in rows.values()}]
    assert len(refuted) >= 8


def test_worst_cases_are_the_kept_ones(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import worst_cases

    shown = PAGE.split("<!-- worst -->")[1].split("<!-- /worst -->")[0].strip()
    assert shown == worst_cases.table(kept("worst-cases.json")["rows"])
    for name in ("worst_cases", "machine"):
        sys.modules.pop(name, None)


def test_fleets_are_told_as_they_were_measured(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import audit_fleet

    rows = kept("audit-fleet.json")["rows"]
    assert PAGE.split("<!-- fleet -->")[1].split("<!-- /fleet -->")[0].strip() == audit_fleet.table(rows)
    assert [row["training"] for row in rows] == list(audit_fleet.CASES)
    assert f"({1e3 * rows[2]['cpu_seconds_per_run']['numpy']:.0f} ms on the third line)" in PAGE
    for name in ("audit_fleet", "machine"):
        sys.modules.pop(name, None)


def test_our_own_training_is_told_as_it_was(bugs):
    row = kept("own-training.json")["rows"]
    assert row["verdict"] == "consistent"
    assert row["share_of_claim"] >= 0.5
    assert f"**{row['epsilon_at_least']:.2f}** of the proven {row['claim']:g}" in PAGE
    assert f"{row['right']} of {row['guesses']:,} are right" in PAGE.replace("\n", " ")


def test_deviations_of_a_bug_are_its_own(zoo):
    """Every bug overrides something of the right training, and nothing is registered twice."""
    assert len(set(zoo.ZOO.values())) == len(zoo.ZOO)
    for name, kind in zoo.ZOO.items():
        own = {"batches", "clipped_sum", "noise", "update", "fit", "__post_init__"} & set(vars(kind))
        assert own if name != "right" else kind is zoo.Training
