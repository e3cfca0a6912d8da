"""Every upper bound carries all that its theorems assume, wherever it is shown (soundness rule 28)."""

import html
import json

import pytest

from command import Command
from event_examples import ADJACENCY, EXAMPLES
from tacit import report
from tacit.audits import stated
from tacit.core import Bound, Evidence
from tacit.core.errors import TacitError, Unsupported
from tacit.core.event import walk
from tacit.core.events import Compose, Event, Gaussian, LastIterate, Poisson, Repeat
from tacit.loss import Plan, calibrate
from tacit.loss.conditions import CONDITIONS, conditions

DELTA = 1e-6
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
    assert len(conditions(EXAMPLES["LastIterate"])) == 5 or not isinstance(event, LastIterate)
