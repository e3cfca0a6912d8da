"""A fleet whose runs each have the randomness of their own generator: what single runs are, and the plan's own law."""

import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from tacit import BadInput, NotFinished, Plan
from tacit.audits import audit
from tacit.audits.runs import workers
from tacit.core import Verdict
from tacit.fleet import Epochs, Fleet, Runs
from tacit.fleet.runs import _sampled

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 1)
PLAN = Plan(60, 0.3, 12, 1.5)


def make():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


class Own(nn.Module):
    """No stack has rules for it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        return self.layer(x) * 2.0


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def generators(count):
    return [np.random.default_rng([3, k]) for k in range(count)]


def sides(count):
    member = np.ones((len(X), count), dtype=bool)
    member[-1, ::2] = False
    member[3, 1] = False
    return member


@pytest.mark.parametrize(
    ("fleet", "schedule"),
    [
        (Fleet(make), PLAN),
        (Fleet(make, momentum), PLAN),
        (Fleet(make(), momentum), PLAN),
        (Fleet(Own), PLAN),
        (Fleet(make), Epochs(2, 20)),
        (Fleet(make), Epochs(2, 59)),
        (Fleet(make, momentum), Epochs(2, 16)),
    ],
)
def test_a_run_among_others_is_the_run_alone(fleet, schedule):
    fit, member = Runs(fleet, schedule), sides(5)
    together = fit.many(X, Y, member, generators(5))(X)
    assert together.shape == (5, 60, 3)
    for k, side in enumerate(member.T):
        alone = fit(X[side], Y[side], generators(5)[k])(X)
        np.testing.assert_allclose(together[k], alone, rtol=0, atol=1e-4)
        assert np.abs(together[k] - together[k - 1]).max() > 1e-2
    again = fit.many(X, Y, member[:, ::-1], generators(5)[::-1])(X)
    np.testing.assert_allclose(again[::-1], together, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.needs("gpu")
@pytest.mark.parametrize("schedule", [PLAN, Epochs(2, 20)])
def test_a_run_among_others_is_the_run_alone_on_a_gpu(schedule):
    fit, member = Runs(Fleet(make, device="cuda"), schedule), sides(70)
    together = fit.many(X, Y, member, generators(70))(X)
    for k in (0, 1, 69):
        alone = fit(X[member[:, k]], Y[member[:, k]], generators(70)[k])(X)
        np.testing.assert_allclose(together[k], alone, rtol=0, atol=1e-4)
        assert np.abs(together[k] - together[k - 1]).max() > 1e-2


def test_how_many_are_trained_at_once_changes_nothing():
    member = sides(7)
    whole = Runs(Fleet(make), PLAN).many(X, Y, member, generators(7))(X)
    parts = Runs(Fleet(make, models_at_once=3), PLAN).many(X, Y, member, generators(7))(X)
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-4)


def test_the_step_is_a_plan_s_step():
    """One step from a known start: start - lr (sum of clipped gradients + noise) / expected batch, noise of the right
    scale."""
    start = make()
    plan = Plan(60, 1.0, 1, 2.0, clip_norm=0.5)
    runs = 400
    fit = Runs(Fleet(start, lambda parameters: torch.optim.SGD(parameters, lr=1.0)), plan)
    models = fit.many(X, Y, np.ones((60, runs), dtype=bool), generators(runs))
    clipped = {name: torch.zeros_like(value) for name, value in start.named_parameters()}
    for record, label in zip(torch.as_tensor(X), torch.as_tensor(Y), strict=True):
        start.zero_grad()
        nn.functional.cross_entropy(start(record[None]), label[None]).backward()
        norm = math.sqrt(sum(float(value.grad.square().sum()) for value in start.parameters()))
        for name, value in start.named_parameters():
            clipped[name] += value.grad * min(1.0, 0.5 / norm)
    stack = models.__closure__[0].cell_contents.stacks[0]
    moved = stack.parameters["2.bias"] - start.get_parameter("2.bias")
    noise = (moved * 60 + clipped["2.bias"]).detach().numpy()
    # 1,200 normal numbers of deviation 2.0 * 0.5: mean and deviation within five of theirs, error below 1e-6
    assert abs(noise.mean()) < 5 / math.sqrt(noise.size)
    assert abs(noise.std() - 1.0) < 5 / math.sqrt(2 * noise.size)


def test_samples_are_poisson():
    """Counts of 4,000 samples of 50 records at rate 0.1: every record's, and every neighbouring pair's, within five
    deviations; error below 1e-4 for all of them, and the seed is fixed."""
    rng, taken = np.random.default_rng(1), np.zeros((4000, 50), dtype=bool)
    for row in taken:
        row[_sampled(50, 0.1, rng)] = True
    assert np.abs(taken.sum(0) - 400).max() < 5 * math.sqrt(4000 * 0.09)
    assert np.abs((taken[:, 1:] & taken[:, :-1]).sum(0) - 40).max() < 5 * math.sqrt(40)
    assert _sampled(7, 1.0, rng).tolist() == list(range(7))


def test_faults_are_planted_into_the_plan_and_nothing_else_changes():
    runs = Runs(Fleet(make), PLAN)
    noise, batch = PLAN.noise_multiplier, PLAN.expected_batch
    expected = {
        "noise 2 times too small": (noise / 2, PLAN.rate),
        "noise 3 times too small": (noise / 3, PLAN.rate),
        "noise on the mean instead of the sum": (noise / batch, PLAN.rate),
        "another sampling than accounted": (noise, 1.0),
        "no noise": (noise * 1e-6, PLAN.rate),
    }
    for fault, (less, rate) in expected.items():
        wrong = runs.planted(fault)
        assert (wrong.schedule.noise_multiplier, wrong.schedule.rate) == pytest.approx((less, rate))
        assert (wrong.fleet, wrong.schedule.steps, wrong.schedule.clip_norm) == (runs.fleet, 12, PLAN.clip_norm)
    wide = runs.planted("no clipping").schedule  # the noise stays what it was, in absolute terms
    assert wide.clip_norm * wide.noise_multiplier == pytest.approx(PLAN.clip_norm * noise)
    assert wide.clip_norm > 100 * PLAN.clip_norm
    assert runs.planted("one seed for all runs") is None
    assert Runs(Fleet(make), Epochs(1, 10)).planted("no noise") is None
    assert runs.schedule is PLAN


@pytest.mark.slow
def test_an_audit_finds_a_planted_bug_and_spares_its_right_twin():
    claim = PLAN.event
    torch.manual_seed(0)
    fleet = Fleet(make(), lambda parameters: torch.optim.SGD(parameters, lr=2.0))
    bug = Plan(60, 0.3, 12, 0.05)  # trains with less noise than it claims
    right, wrong = (
        audit(Runs(fleet, plan), (X, Y), claim=claim, runs=600, rng=1, confidence=0.999) for plan in (PLAN, bug)
    )
    assert (right.verdict, wrong.verdict) == (Verdict.CONSISTENT, Verdict.REFUTED)
    assert right.provenance["isolation"] in ("fleet", "fleet, none")  # the latter where a GPU is in use already
    assert right.subject == "fleet of Sequential"


@pytest.mark.parametrize("fleet", [Fleet(make), Fleet(make, momentum), Fleet(make(), momentum)])
def test_a_fleet_made_of_things_with_names_can_be_sent(fleet, monkeypatch):
    """To processes that cannot be forked, as CUDA is in use."""
    monkeypatch.setattr(workers, "forkable", lambda: False)
    assert workers.sendable(Runs(fleet, PLAN))
    assert not workers.sendable(Runs(Fleet(lambda: make()), PLAN))
    assert pickle.loads(pickle.dumps(Runs(fleet, PLAN))).at_once == Runs(fleet, PLAN).at_once


def test_a_fleet_that_cannot_be_sent_is_audited_here(monkeypatch):
    fit = Runs(Fleet(make(), lambda parameters: torch.optim.SGD(parameters, lr=2.0)), PLAN)
    given = {"claim": PLAN.event, "runs": 20, "canary": "blank", "rng": 1}
    forked = audit(fit, (X, Y), **given)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    here = audit(fit, (X, Y), **given)
    assert here.provenance["isolation"] == "fleet, none"
    np.testing.assert_allclose(here.scores[0].score, forked.scores[0].score, rtol=0, atol=1e-4)


def test_on_a_gpu_calls_are_made_in_this_process():
    assert [Runs(Fleet(make, device=device), PLAN).isolation for device in ("cpu", "cuda")] == ["process", "none"]


def normed():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


def dropping():
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))


def test_models_that_no_fleet_trains_are_one_sentence():
    with pytest.raises(NotFinished, match=r"raised BadInput \(A fleet takes models without buffers\) in 2 runs"):
        audit(Runs(Fleet(normed), PLAN), (X, Y), claim=(1.0, 1e-5), runs=20, canary="blank", rng=1)
    with pytest.raises(BadInput, match="Run k must draw all its randomness"):
        audit(Runs(Fleet(dropping), PLAN), (X, Y), claim=(1.0, 1e-5), runs=20, canary="blank", rng=1)


def test_bad_input_is_one_sentence():
    with pytest.raises(BadInput, match="Runs takes a Fleet"):
        Runs(make, PLAN)
    with pytest.raises(BadInput, match="Runs takes a Fleet"):
        Runs(Fleet(make), 3)
    with pytest.raises(BadInput, match="Poisson sampling"):
        Runs(Fleet(make), Plan(60, 0.3, 12, 1.5, sampling="fixed-size", adjacency="replace"))
    fit = Runs(Fleet(make), PLAN)
    with pytest.raises(BadInput, match="5 runs need as many generators, got 4"):
        fit.many(X, Y, sides(5), generators(4))
    with pytest.raises(BadInput, match="step more"):
        Runs(Fleet(make, momentum), Epochs(1, 59)).many(X, Y, sides(4), generators(4))
