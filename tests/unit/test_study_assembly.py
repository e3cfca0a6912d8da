"""Every bracket is put together in one place, from sections that are checked in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import tacit
from tacit.audits import planted_leak
from tacit.core import BadInput, Evidence, Scores, source
from tacit.core.fault import Fault
from tacit.core.histogram import Histogram
from tacit.core.interval import Estimate
from tacit.study import assembly, bracketing, experiment, recipe, released
from tacit.study.audit_section import FIT, GOES_WITH, TAKEN, TRAINED, AuditSection
from tacit.study.experiment import TimeLeft
from tacit.study.training import effort


def people(rows: int = 160) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(20, 80, rows)
    return pd.DataFrame(
        {
            "who": np.arange(rows) // 2,
            "age": age,
            "job": rng.choice(["clerk", "nurse"], rows),
            "ill": np.where(age + rng.normal(size=rows) * 9 > 50, "yes", "no"),
        }
    )


FRAME = people()
SCHEMA = tacit.Schema.of(FRAME, label="ill", ranges={"age": (0, 120)}, drop=["who"])
PLAN = tacit.Plan(120, 0.5, 6, 3.0)


@pytest.fixture(scope="module")
def held():
    trained = tacit.fit("linear", FRAME[:120], PLAN, schema=SCHEMA, rng=1)
    return trained, tacit.bracket(trained, FRAME[:120], nonmembers=FRAME[120:], references=4, runs=200, rng=1)


def test_a_model_by_name_is_audited_by_its_own_training(held):
    trained, evidence = held
    assert evidence.subject == trained.evidence.subject == "linear model of ill"
    assert {item.game for item in evidence.demonstrations} == {recipe.FLEET, recipe.OWN}
    assert evidence.claim == trained.evidence.claim or evidence.claim.bound == trained.evidence.claim.bound
    assert evidence.provenance["references"] == 4
    assert evidence.provenance["trained_at"] == trained.evidence.provenance["made"]
    assert any("read off the data, and held fixed in all runs of the audit" in text for text in evidence.not_covered)
    assert tacit.verify(evidence).ok


def test_its_evidence_says_what_the_audit_would_have_caught(held):
    chances = {fault.name: fault.chance for fault in held[1].caught}
    assert chances["no noise"] is not None
    assert chances["one seed for all runs"] is None


def test_its_histogram_counts_every_run_of_the_fleet(held):
    (drawn,) = held[1].histograms
    assert (sum(drawn.inside), sum(drawn.outside)) == (100, 100)


def test_users_are_the_unit_of_the_repeated_training():
    schema = SCHEMA.with_(unit="who")
    trained = tacit.fit("linear", FRAME[:120], tacit.Plan(60, 0.5, 4, 3.0), schema=schema, rng=1)
    evidence = tacit.bracket(trained, FRAME[:120], nonmembers=FRAME[120:], references=0, runs=16, rng=1)
    assert evidence.claim.bound.unit == "user"
    assert [item.game for item in evidence.demonstrations] == [recipe.OWN, recipe.OWN]
    assert assembly.SINGLE.format("user") in evidence.not_covered
    assert released.UNREFERENCED in evidence.not_covered
    assert not any("give fit" in text for text in evidence.not_covered)
    assert evidence.provenance["reference_models"] == "none"
    assert evidence.provenance["users"] == 60
    assert evidence.provenance["attacked_records"].startswith("one, drawn at random, of each of 60 users")
    assert all(item.members <= 60 and item.nonmembers <= 20 for item in evidence.measurements)


@pytest.fixture
def audited(monkeypatch, held):
    """The audit of another model stands for one's own, where only the attack matters."""
    monkeypatch.setattr(released, "_audited", lambda *_: held[1])


@pytest.mark.usefixtures("audited")
def test_an_attack_counts_one_record_of_every_user():
    """Forty alike records of a user are one look at that user: counted as forty, a fair split fails its control."""
    rng = np.random.default_rng(5)
    rows, users = 40, 60
    habit = np.repeat(rng.normal(size=users), rows)
    frame = pd.DataFrame(
        {
            "who": np.repeat(np.arange(users), rows),
            "pace": habit + 0.01 * rng.normal(size=rows * users),
            "ill": np.where(habit + rng.normal(size=rows * users) > 0, "yes", "no"),
        }
    )
    schema = tacit.Schema.of(frame, label="ill", unit="who", ranges={"pace": (-3, 3)})
    inside = frame.who % 2 == 0
    trained = tacit.fit("linear", frame[inside], tacit.Plan(30, 0.5, 4, 3.0), schema=schema, rng=1)
    evidence = tacit.bracket(trained, frame[inside], nonmembers=frame[~inside], references=0, runs=16, rng=1)
    assert next(test for test in evidence.controls if test.name == "blind baseline").passed
    assert all(item.members <= 30 and item.nonmembers <= 30 for item in evidence.measurements)


@pytest.mark.usefixtures("audited")
@pytest.mark.parametrize("values", [4, 400])
def test_copies_are_not_left_out_on_one_side_alone(values):
    """Common records have copies: without those of them that were held out, a fair split would look unfair."""
    rng = np.random.default_rng(7)
    rows = 1500
    code = np.where(rng.random(rows) < 0.6, rng.integers(0, 4, rows), rng.integers(0, values, rows))
    frame = pd.DataFrame({"code": code, "ill": np.where(code % 3 > 0, "yes", "no")})
    schema = tacit.Schema.of(frame, label="ill", ranges={"code": (0, values)})
    trained = tacit.fit("linear", frame[:1000], tacit.Plan(1000, 0.1, 4, 3.0), schema=schema, rng=1)
    evidence = tacit.bracket(trained, frame[:1000], nonmembers=frame[1000:], references=0, runs=16, rng=1)
    tests = {test.name: test for test in evidence.controls}
    assert tests["near-duplicates"].passed
    assert tests["blind baseline"].passed


def test_one_row_is_drawn_for_each_user():
    users, rows = np.array([4, 4, 7, 7, 7, 9, 9]), np.array([0, 1, 2, 3, 4])
    drawn = {tuple(released.one_each(users, rows, source(seed))) for seed in range(60)}
    assert drawn == {(a, b) for a in (0, 1) for b in (2, 3, 4)}


def test_what_the_attacks_saw_does_not_narrow_the_claim(held):
    trained, evidence = held
    claimed = trained.evidence.threat
    assert {key: evidence.threat[key] for key in claimed} == claimed
    assert "parameters" in evidence.threat["attacker sees"]
    assert evidence.threat[assembly.SEEN] == "outputs on chosen records (final model)"
    assert evidence.threat["composition"] == "this training run alone"


def test_a_loop_of_ones_own_takes_frames_and_says_what_was_read_off():
    model = torch.nn.Linear(SCHEMA.width, 2)
    step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=1.0), PLAN, rng=1)
    for batch in step.batches(FRAME[:120], schema=SCHEMA):
        step(batch)
    assert any(text.startswith("kind, range or words of job, ill") for text in step.evidence(1e-5).not_covered)


def test_labels_may_stand_beside_the_frame():
    data = (FRAME[:120].drop(columns="ill"), FRAME.ill[:120])
    beside = tacit.fit("linear", data, PLAN, schema=SCHEMA, rng=1)
    inside = tacit.fit("linear", FRAME[:120], PLAN, schema=SCHEMA, rng=1)
    assert (beside.predict_proba(FRAME) == inside.predict_proba(FRAME)).all()


def test_every_bracket_is_assembled_by_one_function():
    users = [module for module in (bracketing, experiment, released) if module.assembled is assembly.assembled]
    assert len(users) == 3
    source = Path(bracketing.__file__).parent
    assert [path.name for path in source.glob("*.py") if "def assembled" in path.read_text()] == ["assembly.py"]


def test_the_panel_of_any_audit_is_kept():
    chance = Estimate(0.9, 0.8, 1.0, 0.95, 100)
    measured = Evidence(subject="m", provenance={"randomness": "seeded", "made": "2026-01-02"})
    audits = [Evidence(subject="a"), Evidence(subject="b", caught=(Fault("no noise", chance),))]
    whole = assembly.assembled(measured, audits, subject="x", claim=None)
    assert whole.caught == audits[1].caught
    assert whole.provenance == {"made": "2026-01-02", "randomness": "seeded"}


def test_of_a_model_that_came_without_a_word_the_randomness_is_not_known():
    measured = Evidence(subject="m", provenance={"randomness": "seeded"})
    whole = assembly.assembled(measured, [], subject="x", claim=None, given=Evidence(subject=""))
    assert whole.provenance == {"attack_randomness": "seeded"}


VALUES = {
    "game": "runs", "confidence": 0.9, "runs": 20, "canary": "blank", "start": "crafted", "seconds": 5,
    "isolation": "none",
}  # fmt: skip


@pytest.mark.parametrize("how", [TRAINED, FIT, TAKEN])
@pytest.mark.parametrize("key", GOES_WITH)
def test_every_key_of_audit_goes_with_some_models_and_is_refused_beside_others(key, how):
    value = "one-run" if (key, how) == ("game", TAKEN) else VALUES[key]
    if how in GOES_WITH[key]:
        found = AuditSection.of({key: value}, how)
        assert key == "game" or getattr(found, key) == value
    else:
        with pytest.raises(BadInput, match=rf"`{key}` in \[audit\] does not go with this \[model\]: .+"):
            AuditSection.of({key: value}, how)


@pytest.mark.parametrize(
    "wrong", [{"runs": 3}, {"confidence": 1.0}, {"canary": "bird"}, {"start": "warm"}, {"game": "updates"}]
)
def test_a_value_of_audit_that_cannot_be_is_refused(wrong):
    with pytest.raises(BadInput):
        AuditSection.of(wrong, TRAINED)


def test_a_histogram_puts_tails_into_its_outermost_bars_and_leaves_failed_runs_out():
    scores = np.concatenate((np.linspace(0, 1, 998), [1e9, -np.inf]))
    drawn = Histogram.of(Scores(scores, np.arange(1000) % 2 == 0, attack="canary", randomised=True))
    assert drawn.edges[-1] < 1.1
    assert sum(drawn.inside) + sum(drawn.outside) == 999
    assert Histogram.from_json(drawn.to_json()) == drawn
    with pytest.raises(BadInput):
        Histogram.from_json({**drawn.to_json(), "n_in": 7})


def test_scores_of_real_records_are_in_no_histogram():
    scores = Scores(np.arange(50.0), np.arange(50) % 2 == 0, attack="loss", randomised=False)
    assert Evidence(subject="m", scores=(scores,)).histograms == ()


@pytest.mark.parametrize("text", ["a\u202eb", "line\nbreak", "x" * 2001])
def test_a_description_is_printable_text(text):
    with pytest.raises(BadInput, match="'owner'"):
        Evidence(subject="m", described={"owner": text})


def test_whoever_waits_is_told_how_long():
    told: list[str] = []
    clock = TimeLeft("people", told.append, every=0.0)
    clock.started -= 10
    clock(5, 20)
    clock(20, 20)
    assert told == ["people: 5 of 20 runs, about 30 s left"]


@pytest.mark.parametrize("cost", [1.0, 1e12])
def test_runs_by_train_fit_alone_are_enough_for_their_control(cost):
    """A table with a unit cannot be audited in a fleet: with fewer runs its page would always be uninformative."""
    runs = effort({}, AuditSection(), in_fleets=False, cost=cost).own_runs
    member = np.arange(runs) % 2 == 0
    scores = Scores(
        np.zeros(runs), member, attack="canary", randomised=True, record=np.zeros(runs, int), target=np.arange(runs)
    )
    assert all(planted_leak(scores, seed).passed for seed in range(20))


def test_a_plan_shows_what_was_chosen_and_keeps_its_identity():
    assert repr(PLAN) == "Plan(120, rate=0.5, steps=6, noise_multiplier=3.0)"
    plan = tacit.Plan(100, 0.5, 4, 2.0, adjacency="replace", sampling="fixed-size")
    assert eval(repr(plan), {"Plan": tacit.Plan}) == plan
    assert "clip_norm=1.0" in plan.identity
