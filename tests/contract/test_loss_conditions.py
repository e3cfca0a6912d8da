"""Every upper bound carries all that its theorems assume, wherever it is shown (soundness rule 28)."""

import html
import json
from pathlib import Path

import numpy as np
import pytest

from command import Command
from event_examples import ADJACENCY, EXAMPLES
from tacit import report
from tacit.audits import stated
from tacit.cli.auditing import audited
from tacit.core import Bound, Evidence
from tacit.core.errors import TacitError, Unsupported
from tacit.core.event import walk
from tacit.core.events import (
    Allocation,
    BandedFactorisation,
    Compose,
    CyclicPoisson,
    Event,
    Gaussian,
    LastIterate,
    MatrixFactorisation,
    Poisson,
    Repeat,
    Shuffled,
)
from tacit.loss import Plan, calibrate
from tacit.loss.conditions import CONDITIONS, FRESH, MIXED, conditions, listed
from tacit.loss.dynamics import NoisyDescent

DELTA = 1e-6
STORED = Path(__file__).parents[2] / "benchmarks" / "results"
SILENT = {"NoOp", "NonPrivate"}
"""Nothing is assumed about a release of nothing, and nothing helps one of everything."""


@pytest.fixture
def tacit(capsys, monkeypatch):
    return Command(capsys, monkeypatch)


def test_every_event_states_its_conditions():
    built_in = {cls for cls in Event.registry.values() if cls.__module__.startswith("tacit.core.events.")}
    assert built_in == set(CONDITIONS)
    for name, event in EXAMPLES.items():
        assert bool(conditions(event)) == (name not in SILENT)


def test_an_event_of_somebody_else_says_whom_it_relies_on():
    class Foreign(Event):
        pass

    try:
        assert "Foreign" in conditions(Compose((Foreign(), Gaussian(1.0))))[1]
    finally:
        del Event.registry["Foreign"]


def test_conditions_of_what_is_inside_are_conditions_of_the_whole():
    for inner in EXAMPLES.values():
        for outer in (Repeat(inner, 2), Compose((Gaussian(9.0), inner))):
            assert set(conditions(inner)) <= set(conditions(outer))
            assert inner in walk(outer)


@pytest.mark.parametrize("name", EXAMPLES)
def test_claims_carry_them(name):
    """Defect D9: a claimed last iterate listed none, and its card said that there were none."""
    event = EXAMPLES[name]
    bound = stated(event, delta=DELTA, adjacency=ADJACENCY.get(name, "add-remove")).bound
    assert set(conditions(event)) == set(bound.assumptions)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size", "shuffled", "allocation", "cyclic", "full"])
@pytest.mark.parametrize("clipping", ["flat", "adaptive"])
def test_plans_carry_them(sampling, clipping):
    """Defect D9: cyclic plans dropped one."""
    rate, adjacency = (
        (1.0 if sampling == "full" else 0.25),
        ("add-remove" if sampling in ("poisson", "full", "allocation") else "replace"),
    )
    for bands in (1, 3) if sampling == "cyclic" else (1,):
        try:
            plan = Plan(1000, rate, 8, 2.0, adjacency=adjacency, sampling=sampling, clipping=clipping, bands=bands)
        except (Unsupported, TacitError):
            assert (sampling, clipping) == ("cyclic", "adaptive")
            continue
        for bound in (plan.bound(DELTA), plan.spent(3, DELTA), plan.spent(0, DELTA)):
            assert set(conditions(plan.event)) < set(bound.assumptions)


def test_settings_carry_them():
    setting = calibrate(epsilon=2.0, delta=DELTA, rate=0.1, steps=10)
    assert isinstance(setting.bound, Bound)
    assert set(conditions(setting.event)) == set(setting.bound.assumptions)


@pytest.mark.parametrize("name", ["LastIterate", "Poisson", "MatrixFactorisation", "Compose", "Allocation"])
def test_the_command_prints_them(tacit, tmp_path, name):
    path = tmp_path / "event.json"
    path.write_text(json.dumps(EXAMPLES[name].to_json()))
    given = ("epsilon", "--event", str(path), "--delta", "1e-6")
    _, out, _ = tacit(*given, "--json")
    assert json.loads(out)["assumptions"] == conditions(EXAMPLES[name])
    _, out, _ = tacit(*given)
    assert all(f"Assumes that {text}." in out for text in conditions(EXAMPLES[name]))


def test_calibrate_and_plan_print_them(tacit):
    event = Repeat(Poisson(0.1, Gaussian(1.0)), 10)
    for given in (
        ("calibrate", "--epsilon", "2", "--delta", "1e-6", "--rate", "0.1", "--steps", "10"),
        ("plan", "--records", "1000", "--epsilon", "2", "--delta", "1e-6"),
    ):
        _, out, _ = tacit(*given, "--json")
        assert set(conditions(event)) <= set(json.loads(out)["assumptions"])


@pytest.mark.parametrize("name", ["LastIterate", "Poisson", "ObjectivePerturbation", "FixedSize"])
def test_the_report_shows_them(name, tmp_path):
    event = EXAMPLES[name]
    claim = stated(event, delta=DELTA, adjacency=ADJACENCY.get(name, "add-remove"))
    page = report(Evidence("a model", claim), tmp_path / "page.html").path.read_text()
    assert all(text in html.unescape(page) for text in conditions(event))
    assert len(conditions(EXAMPLES["LastIterate"])) == 6 or not isinstance(event, LastIterate)


@pytest.mark.parametrize(
    "kind", [LastIterate, Allocation, Shuffled, MatrixFactorisation, BandedFactorisation, CyclicPoisson]
)
def test_events_of_several_releases_need_fresh_noise(kind):
    """One event stands for many releases, as `Repeat` does. With one draw of noise for all of them the difference of
    two releases would hold none, and no theorem."""
    assert {FRESH, MIXED} & set(CONDITIONS[kind].texts)


def stored_evidence():
    return [path for path in sorted(STORED.glob("*.json")) if '"schema": "tacit.evidence/1"' in path.read_text()[:60]]


def test_evidence_in_this_repository_lists_them():
    """The stored evidence of our own training had been written before three of its conditions were."""
    assert stored_evidence()
    for path in stored_evidence():
        claim = Evidence.load(path).claim
        if claim is not None and claim.event is not None:
            assert all(listed(text, claim.bound.assumptions) for text in conditions(claim.event)), path.name


def test_descents_list_them():
    bound = NoisyDescent(0.1, 1.0, 1.0, 100, 0.5, 1.0, 10).bound(DELTA)
    assert FRESH in bound.assumptions
    assert any("`size`" in text for text in bound.assumptions)


def fitted():
    """Every kind of private training that needs no torch, fitted to a few records."""
    pytest.importorskip("sklearn")
    from tacit import search
    from tacit.erm import PrivateLinearRegression, PrivateLogisticRegression

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(60, 2)) / 4, rng.integers(0, 2, 60)
    usual = {"norm_bound": 1.0, "public_size": 60, "random_state": 3}
    yield PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], **usual).fit(x, y).evidence()
    yield PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1, 2], **usual).fit(x, y).evidence()
    yield PrivateLinearRegression(1.0, 1e-5, target_range=(0.0, 1.0), **usual).fit(x, y.astype(float)).evidence()
    yield search(lambda given, chance: (given, 0.5), [1, 2], event=Gaussian(5.0), delta=1e-5, rng=3).evidence


def test_trained_models_list_them():
    for evidence in fitted():
        claim = evidence.claim
        assert set(conditions(claim.event)) <= set(claim.bound.assumptions), evidence.subject


def lines_of(texts):
    return [f"Assumes that {text}." for text in texts]


def test_audits_print_them():
    claim = stated(Repeat(Poisson(0.1, Gaussian(1.0)), 10), delta=DELTA)
    found = audited(Evidence("a training", claim), "evidence.json")
    assert found.lines[1:] == lines_of(claim.bound.assumptions)
    assert set(conditions(claim.event)) <= set(found.data["claim"]["assumptions"])
    assert audited(Evidence("a training", stated((1.0, 1e-5), delta=1e-5)), "evidence.json").lines[1:] == []


def test_private_tables_and_ledgers_print_them(tacit, tmp_path):
    """Answers about tables named their cost and none of what it rests on; ledgers had it in JSON alone."""
    pytest.importorskip("ibis")
    table, out = tmp_path / "visits.csv", tmp_path / "answer.json"
    table.write_text("person,city\n" + "\n".join(f"{k},{'AB'[k % 2]}" for k in range(40)) + "\n")
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    tacit("ledger", "init", url, "--epsilon", "5", "--delta", "1e-6", "--unit", "person")
    given = ("query", str(table), "--unit", "person", "--count", "--epsilon", "1", "--seed", "1")
    for more in ((), ("--preview",), ("--ledger", url, "--key", "a", "--out", str(out))):
        status, text, _ = tacit(*given, *more, "--json")
        assert status == 0
        data = json.loads(text)
        needed = conditions(Event.from_json(data["event"]))
        assert needed
        assert set(needed) < set(data["assumptions"])
        _, text, _ = tacit(*given, *more, *(("--key", "b") if "--ledger" in more else ()))
        assert all(line in text for line in lines_of(data["assumptions"]))
    assert json.loads(out.read_text())["assumptions"] == data["assumptions"]
    _, text, _ = tacit("ledger", "show", url, "--json")
    spent = json.loads(text)["spent"]
    assert set(needed) < set(spent["assumptions"])
    _, text, _ = tacit("ledger", "show", url)
    assert all(line in text for line in lines_of(spent["assumptions"]))
