"""A model that is taken as it is: what its claim, its attack and its canaries' coins say, and what was not tested."""

import copy
import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tacit
from command import Command
from tacit.core import BadInput, Mismatch
from tacit.erm import PrivateLogisticRegression
from tacit.study import assembly, taken_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 8)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
INSIDE, OUTSIDE = (X[:150], Y[:150]), (X[150:], Y[150:])
CANARIES = RNG.normal(size=(400, 8)).astype(np.float32), RNG.integers(0, 2, 400), RNG.random(400) < 0.5
PLAN = tacit.Plan(350, 0.2, 20, 1.5)


def memory(x, y, certainty=0.98):
    """Remembers its records."""

    def predict(records):
        near = ((records[:, None] - x[None]) ** 2).sum(-1)
        share = np.eye(2)[y[near.argmin(1)]]
        return np.where(near.min(1, keepdims=True) < 1e-9, certainty * share + (1 - certainty) / 2, 0.5)

    return predict


def leaking():
    """A model that remembers its members and the canaries that were put in."""
    x, y, coins = CANARIES
    return memory(np.concatenate((INSIDE[0], x[coins])), np.concatenate((INSIDE[1], y[coins])))


@functools.cache
def trained():
    torch.manual_seed(0)
    x, y, coins = CANARIES
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    data = (
        torch.as_tensor(np.concatenate((INSIDE[0], x[coins]))),
        torch.as_tensor(np.concatenate((INSIDE[1], y[coins]))),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return tacit.fit(model, data, PLAN, optimizer=optimizer, rng=1)


def take(target, **more):
    return tacit.bracket(target, INSIDE, nonmembers=OUTSIDE, rng=1, **more)


def test_a_trained_model_brings_its_claim_and_what_was_not_tested_is_said(tmp_path):
    done = trained()
    evidence = take(done)
    assert evidence.claim.bound == done.evidence.claim.bound
    assert evidence.claim.frontier
    assert (evidence.verdict, evidence.demonstrations) == ("untested", ())
    assert "untested, as no audit was made" in evidence.sentence
    assert assembly.UNTESTED in evidence.not_covered
    assert set(done.evidence.not_covered) < set(evidence.not_covered)
    assert taken_model.WORD not in evidence.not_covered
    assert evidence.provenance["randomness"] == done.evidence.provenance["randomness"]
    assert evidence.provenance["attack_randomness"] == "seeded, for an experiment"
    assert len(evidence.attacks) == 2
    assert evidence.budget[-1].epsilon == pytest.approx(evidence.upper.epsilon)
    assert 0.5 < evidence.utility["test accuracy"] <= 1
    assert tacit.verify(evidence).ok
    assert tacit.Evidence.from_json(evidence.to_json()).sentence == evidence.sentence
    page = tacit.report(evidence, tmp_path / "report.html").path.read_text()
    assert "No audit has tested the claim." in page
    assert "it was not made again" in page


def test_a_private_estimator_brings_its_claim():
    """Its bracket said that nothing is claimed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = (x[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, norm_bound=3.0, classes=[0, 1])
    model.fit(x[:60], y[:60])
    data, others = (x[:60], y[:60]), (x[60:], y[60:])
    found = tacit.bracket(model, data, nonmembers=others, references=0, rng=1)
    assert found.verdict.value == "untested"
    assert found.claim.bound == model.evidence().claim.bound
    other = tacit.bracket(model, data, nonmembers=others, claim=(9.0, 1e-5), references=0, rng=1)
    assert other.claim.bound.epsilon == 9.0


def test_a_private_estimator_that_is_trained_brings_the_claim_of_that_fit():
    """Its bracket said that no bound is claimed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = (x[:, 0] > 0).astype(int)
    model = PrivateLogisticRegression(epsilon=1.0, norm_bound=3.0, classes=[0, 1], adjacency="replace", method="output")
    asked = {"references": 0, "runs": 40, "isolation": "none", "rng": 1}
    found = tacit.bracket(model, (x, y), **asked)
    bound = found.claim.bound
    assert (bound.epsilon, bound.delta, str(bound.adjacency)) == (pytest.approx(1.0), 1 / 60**2, "replace")
    assert any("number of records" in line for line in bound.assumptions)
    assert any("seed that the noise" in line for line in found.not_covered)
    assert found.verdict.value in ("consistent", "uninformative")
    assert tacit.bracket(model, (x, y), claim=(9.0, 1e-5), **asked).claim.bound.epsilon == 9.0


def test_evidence_from_a_file_is_the_same_claim(tmp_path):
    done = trained()
    path = done.evidence.save(tmp_path / "evidence.json")
    predict = lambda x: done.model(torch.as_tensor(x)).detach().numpy()  # noqa: E731
    for claim in (path, str(path), tacit.Evidence.load(path)):
        evidence = take(predict, claim=claim)
        assert evidence.claim == take(done).claim
        assert taken_model.WORD in evidence.not_covered
    np.testing.assert_allclose(evidence.scores[0].score, take(done).scores[0].score, atol=1e-6)


def test_parameters_that_changed_after_their_evidence_are_noticed():
    """All others are as they were: a claim about another model would be shown beside this one's attack."""
    done = trained()
    model = copy.deepcopy(done.model)
    assert taken_model.WORD not in take(model, claim=done.evidence).not_covered
    with torch.no_grad():
        model[2].bias[1] += 1e-6
    for given in (lambda: take(replace(done, model=model)), lambda: take(model, claim=done.evidence)):
        with pytest.raises(BadInput, match="not those that the evidence is about"):
            given()
    assert take(model, claim=done.evidence.claim).upper == done.evidence.upper


def test_a_stated_claim_and_none_at_all():
    stated = take(leaking(), claim=(1.0, 1e-5))
    assert (stated.verdict, stated.upper.epsilon, stated.upper.method) == ("untested", 1.0, "stated")
    assert "randomness" not in stated.provenance
    silent = take(leaking())
    assert (silent.verdict, silent.claim) == ("no claim", None)
    assert assembly.UNTESTED not in silent.not_covered
    assert silent.attacks[0].auc.value > 0.95


def test_canaries_of_the_training_refute_a_false_claim_and_spare_a_true_one():
    false = take(leaking(), claim=(1.0, 1e-5), canaries=CANARIES)
    assert false.verdict == "refuted"
    (shown,) = false.demonstrations
    assert (shown.game, shown.planned, shown.counts.n_in) == ("one-run", 400, 400)
    assert taken_model.THROWN in shown.bound.assumptions
    assert assembly.UNTESTED not in false.not_covered
    assert taken_model.ONE_RUN in false.not_covered
    true = take(trained(), canaries=CANARIES)
    assert true.verdict == "consistent"
    assert true.lower.bound.epsilon < true.upper.epsilon < true.attainable
    assert tacit.verify(true).ok
    assert take(leaking(), canaries=CANARIES).lower.bound.epsilon > 1.0


def test_the_order_of_canaries_tells_nothing():
    """A model that says the same of all canaries but one, and they are sorted by their coins: ties must not find them.

    With mixed rows the share of right guesses is half, give or take; sorted ones would all be guessed right.
    """
    coins = np.sort(CANARIES[2])
    same = np.zeros_like(CANARIES[0]), np.zeros(400, dtype=int), coins
    with pytest.raises(BadInput, match="says the same of all canaries"):
        take(leaking(), canaries=same)
    same[0][200] = INSIDE[0][0]
    for order in (slice(None), slice(None, None, -1)):
        evidence = take(leaking(), claim=(0.5, 1e-5), canaries=tuple(part[order] for part in same))
        assert evidence.lower.bound.epsilon < 0.5  # by the order of the rows: 3.2


def test_a_training_that_is_said_to_be_its_own_is_audited():
    def fit(x, y, rng):
        return memory(x, y)

    evidence = take(fit(*INSIDE, None), claim=(1.0, 1e-5), fit=fit, runs=60, references=8, isolation="none")
    assert evidence.verdict == "refuted"
    assert evidence.demonstrations[0].game == "runs"
    assert taken_model.MADE_AGAIN in evidence.not_covered
    both = take(leaking(), claim=(1.0, 1e-5), fit=fit, runs=60, references=0, isolation="none", canaries=CANARIES)
    assert [item.game for item in both.demonstrations] == ["one-run", "runs"]
    assert {item.bound.confidence for item in both.demonstrations} == {0.975}
    assert all("hold together with confidence 0.95" in item.bound.assumptions[-1] for item in both.demonstrations)
    assert {"lira", "rmia"} <= {item.attack for item in evidence.attacks}
    assert evidence.exposures == ()
    assert any("16 reference models" in words for words in evidence.not_covered)
    assert "audit: null" in {control.name for control in evidence.controls}


def test_earlier_audits_stay_in_the_evidence(tmp_path):
    def fit(x, y, rng):
        return memory(x, y)

    audited = tacit.audit(fit, INSIDE, claim=(1.0, 1e-5), runs=60, isolation="none", rng=1)
    assert audited.verdict == "refuted"
    evidence = take(leaking(), claim=audited)
    assert evidence.verdict == "refuted"
    assert evidence.demonstrations == audited.demonstrations
    assert "earlier: null" in {control.name for control in evidence.controls}
    more = take(leaking(), claim=audited, canaries=CANARIES)
    assert len(more.demonstrations) == 2
    assert assembly.EARLIER in more.not_covered
    broken = audited.with_(controls=(replace(audited.controls[0], passed=False),))
    assert take(leaking(), claim=broken).verdict == "uninformative"


def test_groups_are_compared():
    groups = np.where(np.arange(300) % 2, "odd", "even")
    evidence = take(leaking(), groups=groups)
    assert {item.group for item in evidence.groups} == {"even", "odd"}


def test_a_claim_about_users_allows_no_rate_of_records():
    done = trained()
    claim = done.evidence.claim
    users = done.evidence.with_(claim=replace(claim, bound=replace(claim.bound, unit="user")))
    evidence = take(done.model, claim=users)
    assert evidence.claim.frontier == ()
    assert assembly.SINGLE.format("user") in evidence.not_covered
    assert "allows at most" not in evidence.sentence
    with pytest.raises(Mismatch, match="one user; canaries are single records"):
        take(done.model, claim=users, canaries=CANARIES)


def public(x):
    """A model that never saw any record."""
    return np.stack((np.zeros(len(x)), 2 * x[:, 0]), axis=1)


def following(how):
    """Canaries that were not put in by coins: those put in are other records, other labels, or are labelled right."""
    x, y, inside = CANARIES[0].copy(), CANARIES[1], np.arange(400) < 200
    if how == "records":
        x[inside, 0] += 1.5
        return x, np.ones(400, dtype=int), inside
    if how == "labels":
        return np.abs(x), y, y == 1
    return x, (x[:, 0] > 0).astype(int) ^ ~inside, inside


@pytest.mark.parametrize(("how", "test"), [("records", "records"), ("labels", "labels"), ("right labels", "labels")])
def test_coins_that_follow_the_records_refute_nothing(how, test):
    """Unnoticed, a model that saw no record at all would be refuted."""
    evidence = take(public, claim=(0.5, 1e-5), canaries=following(how))
    assert evidence.lower.bound.epsilon > 2
    assert evidence.verdict == "uninformative"
    failed = {test.name for test in evidence.controls if not test.passed}
    assert f"audit: coins and {test}" in failed
    assert failed <= {"audit: coins and records", "audit: coins and labels"}


def test_fair_coins_pass():
    """Each of the two tests fails with probability at most 1/2000; more than 4 of 400 below 1e-6."""
    rng, failed = np.random.default_rng(3), 0
    for _ in range(200):
        x, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
        offered = taken_model.Canaries(x, y, rng.random(60) < 0.5, (X[:50, :3], Y[:50]))
        failed += sum(not test.passed for test in offered.blind(tacit.core.source(rng)))
    assert failed <= 4


def test_coins_that_contradict_members_are_refused():
    x, y, coins = CANARIES
    for inside, outside in ((~coins, slice(0)), (slice(0), coins), (slice(None), slice(0))):
        members = np.concatenate((INSIDE[0], x[inside])), np.concatenate((INSIDE[1], y[inside]))
        others = np.concatenate((OUTSIDE[0], x[outside])), np.concatenate((OUTSIDE[1], y[outside]))
        with pytest.raises(BadInput, match="though their coin said no"):
            tacit.bracket(public, members, nonmembers=others, canaries=(x.astype(float), y, coins), rng=1)
    members = np.concatenate((INSIDE[0], x[coins])), np.concatenate((INSIDE[1], y[coins]))
    assert tacit.bracket(public, members, nonmembers=OUTSIDE, canaries=CANARIES, rng=1).demonstrations


def few(**change):
    x, y, coins = CANARIES
    return {"x": x, "y": y, "coins": coins, **change}.values()


@pytest.mark.parametrize(
    ("canaries", "said"),
    [
        (CANARIES[:2], "canaries must be"),
        (tuple(few(coins=CANARIES[2][:-1])), "of one length"),
        (tuple(few(coins=CANARIES[2] + 1)), "coins of canaries must hold 0 or 1"),
        (tuple(part[:49] for part in CANARIES), "at least 50 canaries, got 49"),
        (tuple(few(coins=np.ones(400, dtype=bool))), "400 of 400 canaries were put in"),
        (tuple(few(x=CANARIES[0][:, :5])), r"shape \(5,\) are no records of shape \(8,\)"),
    ],
)
def test_bad_canaries_are_refused(canaries, said):
    with pytest.raises(BadInput, match=said):
        take(leaking(), claim=(1.0, 1e-5), canaries=canaries)


def test_clumsy_use_is_one_sentence():
    done = trained()
    with pytest.raises(BadInput, match="Trained is trained already"):
        tacit.bracket(done, (X, Y))
    with pytest.raises(BadInput, match="Sequential is trained already"):
        tacit.bracket(done.model, (X, Y))
    with pytest.raises(BadInput, match=r"needs nonmembers=\(x, y\)"):
        tacit.bracket(leaking(), (X, Y))
    assert take(lambda x: (x[:, 0] > 0).astype(int)).utility["test accuracy"] == 1.0
    with pytest.raises(BadInput, match="brings its own claim"):
        take(done, claim=(1.0, 1e-5))
    with pytest.raises(BadInput, match="go with a model that is taken"):
        tacit.bracket(leaking(), (X, Y), canaries=CANARIES)
    with pytest.raises(BadInput, match="both members and non-members"):
        tacit.bracket(done, INSIDE, nonmembers=INSIDE)
    with pytest.raises(BadInput, match="both members and non-members"):
        tacit.bracket(done, INSIDE, nonmembers=(INSIDE[0].astype(float), INSIDE[1].astype(float)))
    assert take(lambda x: x[:, 0] > 0).utility["test accuracy"] == 1.0
    with pytest.raises(BadInput, match="raised ZeroDivisionError when it was given records"):
        take(lambda x: 1 / 0)
    with pytest.raises(BadInput, match="one row per record"):
        take(lambda x: np.zeros((3, 2)))
    with pytest.raises(BadInput, match="A model was expected, got dict"):
        take({})
    lie = done.evidence.with_(claim=replace(done.evidence.claim, bound=replace(done.evidence.upper, epsilon=0.1)))
    with pytest.raises(BadInput, match="do not follow"):
        take(done.model, claim=lie)
    with pytest.raises(BadInput, match="cannot be read"):
        take(done.model, claim="nowhere.json")


@pytest.fixture
def tacit_(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    x = np.concatenate((X, CANARIES[0]))
    members = np.concatenate((np.arange(300) < 150, CANARIES[2]))
    np.savez("d.npz", x=x, y=np.concatenate((Y, CANARIES[1])), members=members, canaries=np.arange(700) >= 300)
    Path("taken_net.py").write_text(
        "from torch import nn\n\n"
        "def make():\n    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))\n\n"
        "def predict(x):\n    return x[:, [1, 0]] * 3.0\n"
    )
    return Command(capsys, monkeypatch)


TRAIN = """
[data]
source = "d.npz"
[model]
make = "taken_net:make"
{model}
[plan]
rate = 0.2
steps = 20
noise_multiplier = 1.5
"""
TAKEN = """
[data]
source = "d.npz"
[model]
{model}
{more}
"""


def test_the_command_takes_what_train_has_written(tacit_):
    Path("run.toml").write_text(TRAIN.format(model=""))
    assert tacit_("train", "run.toml", "--out", "run", "--seed", "1")[0] == 0
    model = 'make = "taken_net:make"\nfile = "run/model.safetensors"\nevidence = "run/evidence.json"'
    Path("take.toml").write_text(TAKEN.format(model=model, more=""))
    status, out, _ = tacit_("bracket", "take.toml", "--out", "taken", "--seed", "1", "--json")
    found = json.loads(out)
    assert (status, found["verdict"]) == (0, "consistent")
    assert Path(found["report"]).is_file()
    evidence = tacit.Evidence.load("taken/evidence.json")
    assert evidence.subject == "take"
    assert len(evidence.provenance["weights_sha256"]) == 64
    assert evidence.attacks[0].members == 150
    assert evidence.demonstrations[0].planned == 400
    assert tacit_("verify", "taken/evidence.json", "--data", "d.npz", "--key", "taken/data.key")[0] == 0


@pytest.mark.parametrize(
    ("model", "more", "status", "said"),
    [
        ('predict = "taken_net:predict"', "[plan]\nepsilon = 1.0", 0, "by claim and at least 0 by demonstration"),
        ('predict = "taken_net:predict"', "", 0, "No bound is claimed"),
        (
            'predict = "taken_net:predict"',
            '[plan]\nepsilon = 1.0\nadjacency = "replace"',
            2,
            "the claim is under replace",
        ),
        ('predict = "taken_net:predict"\nevidence = "no.json"', "", 2, "no.json cannot be read"),
        ('predict = "taken_net:predict"\nevidence = "no.json"', "[plan]\nepsilon = 1.0", 2, "one of them must go"),
        ('predict = "taken_net:predict"', "[audit]\nruns = 9", 2, "`runs` in [audit] does not go"),
        ('predict = "taken_net:predict"', '[audit]\ngame = "runs"', 2, "audited by the game one-run"),
        ('predict = "taken_net:absent"', "", 2, "has no 'absent'"),
        ('make = "taken_net:make"\nfile = "no.safetensors"', "", 2, "no.safetensors is not there"),
        ('fit = "taken_net:make"\nfile = "no.safetensors"', "", 2, "Leave it out beside fit"),
        ('fit = "taken_net:make"\nevidence = "no.json"', "", 2, "go with a model that is taken"),
        ('fit = "taken_net:make"\npredict = "taken_net:predict"', "", 2, "exactly one of"),
    ],
)
def test_the_command_says_what_is_wrong(tacit_, model, more, status, said):
    Path("take.toml").write_text(TAKEN.format(model=model, more=more))
    found, out, err = tacit_("bracket", "take.toml", "--out", "taken", "--seed", "1")
    assert (found, said in out + err) == (status, True), out + err
    assert Path("taken").exists() == (status != 2)


def test_a_stated_pair_keeps_its_adjacency():
    """Else a game of add-remove would be played against a claim about replaced records."""
    from tacit.cli.bracketing import _claimed

    assert _claimed({"epsilon": 1.0, "adjacency": "replace"}, 10).bound.adjacency == "replace"
    assert _claimed({"epsilon": 1.0, "delta": 1e-6}, 10).bound.delta == 1e-6
