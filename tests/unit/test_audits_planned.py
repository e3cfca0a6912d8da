"""A claim replaced consistently in the evidence of a training: everything is recomputed, and the plan disagrees."""

from dataclasses import replace

import pytest

from tacit import verify
from tacit.audits import stated, verification
from tacit.core import Claim, Evidence
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import Plan

DELTA = 1e-5
PLANS = {
    "poisson": Plan(1000, 0.1, 40, 1.0),
    "per-layer": Plan(1000, 0.1, 40, 1.0, clipping="per-layer"),
    "replace": Plan(1000, 0.1, 40, 2.0, adjacency="replace"),
    "fixed-size": Plan(1000, 0.1, 40, 2.0, adjacency="replace", sampling="fixed-size"),
    "shuffled": Plan(1000, 0.1, 40, 2.0, adjacency="replace", sampling="shuffled"),
    "full": Plan(1000, 1.0, 3, 2.0, sampling="full"),
}
OTHERS = {
    "adaptive": Plan(1000, 0.1, 40, 1.0, clipping="adaptive"),
    "cyclic": Plan(1000, 0.25, 8, 2.0, adjacency="replace", sampling="cyclic", bands=3),
}


def named(plan):
    """What `train` writes of a plan."""
    return {
        "planned_steps": plan.steps,
        "rate": plan.rate,
        "noise_multiplier": plan.noise_multiplier,
        "clipping": plan.clipping.name,
        "public_size": plan.public_size,
        "sampling": plan.sampling.name,
    }


def trained(plan, claimed=None):
    """Evidence of one plan that claims the event of another, with every number recomputed."""
    claimed = claimed or plan
    return Evidence("DP-SGD training run", Claim(claimed.bound(DELTA), claimed.event), provenance=named(plan))


@pytest.mark.parametrize("name", PLANS)
def test_a_claim_of_another_plan_is_noticed(name):
    plan = PLANS[name]
    assert verify(trained(plan)).ok
    assert any(row.about == "claim, plan" for row in verify(trained(plan)).statements)
    for more in ({"noise_multiplier": 4.0}, {"steps": 10 if plan.rate < 1 else 1}):
        found = verify(trained(plan, replace(plan, **more)))
        assert not found.ok
        assert [row.about for row in found.statements if not row.equal] == ["claim, plan"]


def test_mutant_that_does_not_ask_is_caught(monkeypatch):
    """Without this row the cheaper claim is confirmed: all else follows from it."""
    monkeypatch.setattr(verification, "planned", lambda evidence: ())
    plan = PLANS["poisson"]
    assert verify(trained(plan, replace(plan, noise_multiplier=4.0))).ok


@pytest.mark.parametrize("name", OTHERS)
def test_plans_that_are_not_named_whole_are_not_judged(name):
    found = verify(trained(OTHERS[name]))
    assert found.ok
    assert all(row.about != "claim, plan" for row in found.statements)


def test_evidence_without_a_plan_is_not_judged():
    event = Repeat(Poisson(0.1, Gaussian(1.0)), 40)
    assert verify(Evidence("somebody's", stated(event, delta=DELTA))).ok
    assert verify(Evidence("somebody's", stated((1.0, DELTA), delta=DELTA), provenance=named(PLANS["poisson"]))).ok


@pytest.mark.parametrize("bad", [{"rate": "often"}, {"planned_steps": -3}, {"rate": 7.0}, {"noise_multiplier": None}])
def test_a_plan_that_cannot_be_is_not_confirmed(bad):
    whole = trained(PLANS["poisson"])
    assert not verify(whole.with_(provenance={**whole.provenance, **bad})).ok
