"""PATE by hand: events and bounds, rules, shards, teachers, the charge, bad input and the command."""

import dataclasses
import json
import math
import pickle
import warnings

import numpy as np
import pytest
import torch

import tacit
from command import Command
from tacit.core import Adjacency, Receipt, source
from tacit.core.events import Compose, Gaussian, NoisyMax, Repeat
from tacit.pate import (
    PATE,
    ConfidentGNMax,
    FixMatch,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Network,
    PrivateValue,
    private_predictions,
    search,
)
from tacit.pate.advice import advice
from tacit.pate.aggregators import Belief
from tacit.pate.asking import check_choice, next_queries
from tacit.pate.design import designed
from tacit.pate.semi_supervised import _Shares
from tacit.pate.shards import shards
from tacit.pate.student import student_of
from tacit.pate.teachers import train

PUBLISHED = [
    (ConfidentGNMax(200, 150, 40), 640, 283, 1e-5, 2.5287),
    (ConfidentGNMax(300, 200, 40), 8500, 2970, 1e-6, 10.8721),
    (ConfidentGNMax(300, 200, 40), 1500, 539, 1e-5, 3.5976),
    (GNMax(28), 100, 100, 1e-5, 2.0157),
]


@pytest.mark.parametrize(("rule", "queries", "answers", "delta", "epsilon"), PUBLISHED)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_bounds_of_published_settings(rule, queries, answers, delta, epsilon, adjacency):
    """One teacher's vote changes under every adjacency, so epsilon is the same; about 2.53, 10.87, 3.60 and 2.02."""
    made = designed(
        rule, available=queries, queries=queries, answers=answers, epsilon=None, delta=delta, adjacency=adjacency
    )
    assert made.bound.epsilon == pytest.approx(epsilon, abs=2e-4)
    assert made.bound.assumptions[-1].startswith("only the answers")


def test_events_by_hand():
    checks, told = ConfidentGNMax(200, 150, 40).event(10, 4, Adjacency.ADD_REMOVE).events
    assert (checks.steps, told.steps) == (10, 4)
    assert checks.event.noise_multiplier <= 150
    assert told.event.noise_multiplier <= 40 / math.sqrt(2)
    assert told.event.noise_multiplier == pytest.approx(28.284271, rel=1e-6)
    assert GNMax(40).event(10, 4, Adjacency.REPLACE).event.noise_multiplier == pytest.approx(56.568542, rel=1e-6)
    pure = LNMax(20).event(10, 10, Adjacency.ADD_REMOVE)
    assert (pure.steps, pure.event.noise) == (10, "laplace")
    assert 0.1 <= pure.event.epsilon == pytest.approx(0.1)


def test_more_answers_cost_more_and_epsilon_is_kept():
    made = designed(ConfidentGNMax(), available=700, queries=640, answers=None, epsilon=2.5, delta=1e-5)
    more = dataclasses.replace(made, answers=made.answers + 1)
    assert made.epsilon <= 2.5 < more.epsilon
    fewer = designed(GNMax(28), available=500, queries=None, answers=None, epsilon=2.04, delta=1e-5)
    assert fewer.queries == fewer.answers >= 100


QUIET = 1e-3
COUNTS = np.array([[5, 1, 0], [2, 2, 2], [0, 3, 3], [0, 0, 6]])


@pytest.mark.parametrize("rule", [GNMax(QUIET), ConfidentGNMax(0, QUIET, QUIET)])
def test_without_noise_the_most_votes_win(rule):
    told = rule.told(COUNTS, source(0), 4)
    assert told.labels[[0, 3]].tolist() == [0, 2]
    assert told.answered.all()
    assert told.labels[2] in (1, 2)


def test_laplace_without_noise():
    assert LNMax(QUIET).told(COUNTS, source(0), 4).labels[[0, 3]].tolist() == [0, 2]


@pytest.mark.parametrize(
    "rule", [GNMax(QUIET), LNMax(QUIET), ConfidentGNMax(2, QUIET, QUIET), InteractiveGNMax(2, QUIET, QUIET)]
)
def test_short_whole_numbers_do_not_overflow(rule):
    assert rule.told(np.array([[120, 3]], dtype=np.int8), source(0), 1).labels.tolist() == [0]


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, 1e9, "40"])
def test_noise_that_cannot_be_drawn_is_refused_at_once(bad):
    for make in (GNMax, LNMax, lambda noise: ConfidentGNMax(1, noise, 1), lambda noise: ConfidentGNMax(1, 1, noise)):
        with pytest.raises(tacit.BadInput):
            make(bad)


def test_threshold_and_cap():
    told = ConfidentGNMax(4.5, QUIET, QUIET).told(COUNTS, source(0), 4)
    assert told.labels.tolist() == [0, -1, -1, 2]
    assert ConfidentGNMax(4.5, QUIET, QUIET).told(COUNTS, source(0), 1).labels.tolist() == [0, -1, -1, -1]
    assert GNMax(QUIET).told(COUNTS, source(0), 0).labels.tolist() == [-1] * 4


def test_the_student_is_asked_first():
    """Where student and teachers agree nothing is paid, and a sure student is taught its own answer."""
    shares = np.array([[1.0, 0, 0], [0.4, 0.3, 0.3], [0, 0.95, 0.05], [1.0, 0, 0]])
    told = InteractiveGNMax(4.5, QUIET, QUIET).told(COUNTS, source(0), 4, Belief(shares, 6))
    assert told.labels.tolist() == [0, -1, 1, 2]
    assert told.answered.tolist() == [False, False, False, True]


def test_what_is_compared_with_the_threshold_moves_by_one_vote():
    rng = np.random.default_rng(0)
    rule = InteractiveGNMax()
    for _ in range(50):
        counts = rng.multinomial(20, np.ones(4) / 4, size=1)
        other = counts.copy()
        other[0, rng.integers(4)] += 1
        other[0, counts[0].argmax()] -= 1
        belief = Belief(rng.dirichlet(np.ones(4), 1), 20)
        for student in (None, belief):
            a, b = rule.agreement(counts, student)[0], rule.agreement(other, student)[0]
            assert abs(int(a) - int(b)) <= 2**20


def test_users_stay_together_and_ids_alone_decide():
    users = np.array(["ann", "bob", "ann", "cy", "bob", "ann"])
    found = shards(6, 3, users=users, rng=source(5))
    assert len(set(found[users == "ann"])) == len(set(found[users == "bob"])) == 1
    fewer = shards(5, 3, users=users[[0, 2, 3, 4, 5]], rng=source(5))
    assert fewer.tolist() == found[[0, 2, 3, 4, 5]].tolist()
    even = np.bincount(shards(40_000, 4, users=np.arange(40_000), rng=source(5)))
    assert abs(even - 10_000).max() < 600  # 7 standard deviations


def test_odd_shards_are_handled():
    """Empty: abstains. One class: that class. A training that fails: the most frequent class. No value raises."""

    def fit(x, y, rng):
        if np.isnan(x).any():
            raise ValueError("a person's value")
        return lambda asked: np.full(len(asked), 1)

    x = np.zeros((9, 1))
    x[6] = np.nan
    y, shard = np.array([0, 0, 0, 0, 1, 1, 2, 2, 1]), np.array([0, 0, 0, 2, 2, 2, 3, 3, 3])
    each = train(fit, x, y, shard, teachers=4, classes=3, rng=source(0)).each(np.zeros((2, 1)))
    assert each[0].tolist() == [0, -1, 1, 2]


def test_a_fleet_with_a_strange_record_abstains_in_one_shard_only():
    from torch import nn

    rng = np.random.default_rng(0)
    x, y, shard = rng.normal(size=(40, 3)), np.arange(40) % 2, np.arange(40) % 4
    x[0] = np.inf
    net = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=3, batch_size=10)
    found = train(net, x, np.where(shard == 1, -1, y), shard, teachers=5, classes=2, rng=source(0))
    each = found.each(rng.normal(size=(7, 3)))
    assert (each[:, [0, 1, 4]] == -1).all()
    assert (each[:, [2, 3]] >= 0).all()
    counts = found.counts(x[:7])
    assert (counts == (found.each(x[:7])[:, :, None] == np.arange(2)).sum(axis=1)).all()


def test_a_compiled_step_is_checked_on_made_up_records(monkeypatch):
    """The check of a compiled step may stop the run, so it must not see anybody: one strange record would be told."""
    from torch import nn

    from tacit.fleet import disjoint

    seen = []

    class Spy:
        def __init__(self, gradients, name, size):
            self.gradients = gradients

        def __call__(self, models, batch):
            seen.append(batch.x.isfinite().all().item() and 0 <= batch.x.min().item() <= batch.x.max().item() <= 1)
            return self.gradients(models, batch)

    monkeypatch.setattr(disjoint, "Compiled", Spy)
    net = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=3, batch_size=4, compiled=True)
    x = np.full((8, 3), np.nan)
    train(net, x, np.arange(8) % 2, np.arange(8) % 2, teachers=2, classes=2, rng=source(0))
    assert seen == [True, False, False, False]


@pytest.mark.parametrize("strict", [False, True])
def test_a_step_that_cannot_be_compiled_is_run_as_it_is(monkeypatch, strict):
    """Each model alone would fail, too, as if by its own records: all teachers abstained after the run was paid for."""
    from torch import nn

    from tacit.fleet import disjoint

    def broken(self, models, batch):
        raise RuntimeError("no compiler")

    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    votes = []
    for compiled in (False, True):
        net = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=3, batch_size=4, compiled=compiled)
        if compiled:
            monkeypatch.setattr(disjoint.Compiled, "__call__", broken)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("error" if strict else "always")
            votes.append(train(net, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0)).each(x))
        if compiled and not strict:
            assert [str(one.message) for one in told] == [
                "The steps are not compiled, which takes longer: RuntimeError."
            ]
    assert (votes[0] >= 0).all()
    assert np.array_equal(*votes)


def test_a_module_that_is_given_stays_as_it_is():
    from torch import nn

    x, y = data()
    module = nn.Sequential(nn.Linear(3, 2))
    before = [value.clone() for value in module.parameters()]
    PATE(module, teachers=4, aggregator=GNMax(2.0), delta=1e-5, classes=[0, 1], random_state=0).fit(x, y, x[:20])
    assert all((a == b).all() for a, b in zip(before, module.parameters(), strict=True))


def test_an_optimizer_that_mixes_models_is_refused():
    import torch
    from torch import nn

    class Mixing(torch.optim.SGD):
        """Divides by the length of all gradients together."""

    for kind in (torch.optim.LBFGS, Mixing):
        net = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=1, optimizer=lambda p, kind=kind: kind(p, lr=0.1))
        with pytest.raises(tacit.BadInput, match="may mix the models"):
            train(net, *data(n=8), np.zeros(8, int), teachers=1, classes=2, rng=source(0))


class Paying:
    """A ledger that says when it was charged."""

    def __init__(self, log):
        self.log = log

    def charge(self, event, *, key, purpose="", analyst=""):
        self.log.append(event)
        bound = tacit.Bound(1.0, 1e-5, "upper", 1.0, "stated", "add-remove")
        return Receipt(1, "head", bound, 1.0)


def data(seed=0, n=300):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    return x, (x @ [2.0, -1.0, 0.5] > 0).astype(int)


def line(x, y, rng):
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


def test_charged_before_any_draw():
    log = []

    @dataclasses.dataclass(frozen=True)
    class Watched(GNMax):
        def told(self, *arguments):
            log.append("drawn")
            return super().told(*arguments)

    x, y = data()
    run = PATE(
        line, teachers=10, aggregator=Watched(2.0), delta=1e-5, classes=[0, 1], ledger=Paying(log), random_state=0
    )
    run.fit(x[:200], y[:200], x[200:])
    assert log == [run.event_, "drawn"]


def test_a_refused_charge_leaves_nothing(tmp_path):
    x, y = data()
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=1.0, delta=1e-5, unit="record")
    run = PATE(line, teachers=10, aggregator=GNMax(2.0), delta=1e-6, classes=[0, 1], ledger=ledger, random_state=0)
    with pytest.raises(tacit.BudgetExceeded):
        run.fit(x[:200], y[:200], x[200:])
    assert not hasattr(run, "labels_")
    with pytest.raises(tacit.BadInput, match="not been fitted"):
        run.predict(x)


@pytest.mark.parametrize("teacher", ["linear", line, "estimator"])
def test_a_student_learns(teacher):
    from sklearn.linear_model import LogisticRegression

    x, y = data(n=900)
    teacher = LogisticRegression() if teacher == "estimator" else teacher
    words = np.array(["no", "yes"])
    run = PATE(
        teacher, teachers=20, aggregator=GNMax(2.0), delta=1e-5, classes=["no", "yes"], queries=100, random_state=0
    )
    run.fit(x[:600], words[y[:600]], x[600:])
    assert np.mean(run.predict(x[600:]) == words[y[600:]]) > 0.9
    assert (run.labels_ >= 0).sum() == run.answered_ == 100
    assert run.predict_proba(x).shape == (900, 2)
    evidence = run.evidence()
    assert tacit.verify(evidence).ok
    assert evidence.threat["who sees the votes"].startswith("the operator")
    assert evidence.provenance["answers given"] == 100


def test_a_copy_holds_the_student_and_nothing_private():
    x, y = data()
    run = PATE(line, student="linear", teachers=10, aggregator=GNMax(2.0), delta=1e-5, classes=[0, 1], random_state=0)
    run.fit(x[:200], y[:200], x[200:], users=np.arange(200))
    assert not any(isinstance(value, np.ndarray) and len(value) == 200 for value in vars(run._given).values())
    other = pickle.loads(pickle.dumps(run))
    assert (other.predict(x) == run.predict(x)).all()
    assert not {"_teachers", "_votes", "_noise"} & vars(other).keys()
    for ask in (other.teacher_votes, lambda: other.release_bound(epsilon=0.2)):
        with pytest.raises(tacit.BadInput, match="holds neither the teachers"):
            ask()
    assert run.teacher_votes().counts(x[:1]).sum() == 10


def test_no_confident_answer_is_an_ordinary_case():
    x, y = data()
    run = PATE(line, teachers=10, aggregator=ConfidentGNMax(1e6, 1.0, 1.0), delta=1e-5, classes=[0, 1], random_state=0)
    with pytest.warns(UserWarning, match="more than 10 teachers can give"):
        run.fit(x[:200], y[:200], x[200:])
    assert run.answered_ == 0
    assert (run.labels_ == -1).all()
    assert (run.predict_proba(x) == 0.5).all()


def test_few_answers_come_with_advice():
    """It says what to change, from public and released numbers alone; where answers are not few, it says nothing."""
    made = designed(ConfidentGNMax(), available=400, queries=None, answers=None, epsilon=None, delta=1e-5)
    assert advice(made, 250, 300, asked=400, capped=False) is None
    few = advice(made, 50, 12, asked=400, capped=False)
    assert "12 of 400" in few
    assert "more than 50 teachers" in few
    assert "ConfidentGNMax(40, 30, 8)" in few
    assert "disagree" in advice(made, 250, 12, asked=400, capped=False)
    limited = designed(ConfidentGNMax(), available=400, queries=None, answers=None, epsilon=1.0, delta=1e-5)
    assert limited.answers < 100
    assert "epsilon pays for no more" in advice(limited, 250, limited.answers, asked=400, capped=False)
    assert advice(limited, 250, limited.answers, asked=400, capped=True) is None
    fewer = designed(GNMax(20.0), available=400, queries=None, answers=None, epsilon=2.0, delta=1e-5)
    assert f"{fewer.answers} of 400 queries" in advice(fewer, 100, fewer.answers, asked=400, capped=False)


@pytest.mark.parametrize(
    ("more", "asked", "said"),
    [
        ({}, {"epsilon": 0.2, "propose": 0.1}, "leaves nothing"),
        ({"rounds": 2}, {"epsilon": 0.2}, "rounds=1"),
        ({"aggregator": LNMax(10.0)}, {"epsilon": 0.2}, "No smooth sensitivity"),
    ],
)
def test_a_release_that_cannot_be_made_is_refused_before_the_run(more, asked, said):
    run = PATE(line, **{"teachers": 10, "aggregator": GNMax(8.0), "delta": 1e-5, "classes": [0, 1], **more})
    with pytest.raises(tacit.BadInput, match=said):
        run.check_release(30, **asked)
    PATE(line, teachers=10, aggregator=GNMax(8.0), delta=1e-5, classes=[0, 1]).check_release(
        30, epsilon=0.5, propose=60
    )


@pytest.mark.parametrize("how", ["spread", "typical"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e308, "text"])
def test_no_public_input_stops_a_run_that_was_paid_for(how, odd):
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(object)
    x[:, 1] = odd
    rows = next_queries(x if odd == "text" else x.astype(float), 5, np.zeros(0, dtype=int), how, None, source(0))
    assert len(set(rows.tolist())) == 5


def test_same_seed_same_labels_and_users_are_the_unit():
    x, y = data()
    run = PATE(line, teachers=10, aggregator=GNMax(2.0), delta=1e-5, classes=[0, 1], random_state=3)
    first = run.fit(x[:200], y[:200], x[200:], users=np.arange(200) // 4).labels_
    assert (run.fit(x[:200], y[:200], x[200:], users=np.arange(200) // 4).labels_ == first).all()
    assert run.bound_.unit == "user"
    assert "seed" in " ".join(run.evidence().not_covered)


def _one_output():
    from torch import nn

    return nn.Sequential(nn.Linear(3, 1))


BAD = {
    "more teachers than records": ({"teachers": 300}, "There are 300 teachers and only 200 records"),
    "no classes": ({"classes": None}, "list of classes must be given"),
    "one class": ({"classes": [1]}, "at least two different labels"),
    "too many queries": ({"queries": 101}, "101 queries are wanted and there are 100"),
    "no delta": ({"delta": 0.0}, "needs a delta above 0"),
    "rule": ({"aggregator": "gnmax"}, "must be an aggregation rule"),
    "epsilon": ({"epsilon": 1e-3}, "Not one answer fits"),
    "answers": ({"epsilon": 1.0, "answers": 90}, "above 1"),
    "teacher": ({"teacher": 3}, "A teacher cannot be made of int"),
    "broken teacher": ({"teacher": lambda x, y, rng: 1 / 0}, "raised ZeroDivisionError"),
    "outputs": ({"teacher": _one_output}, "has 1 outputs for 2 classes"),
    "choice": ({"choose": "best"}, "first, random, spread or typical"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case):
    changes, sentence = BAD[case]
    x, y = data()
    settings = {"teacher": line, "teachers": 10, "aggregator": GNMax(2.0), "delta": 1e-5, "classes": [0, 1]} | changes
    with pytest.raises(tacit.BadInput, match=sentence):
        PATE(**settings, random_state=0).fit(x[:200], y[:200], x[200:])


def test_shapes_are_checked():
    x, y = data()
    run = PATE(line, teachers=10, delta=1e-5, classes=[0, 1])
    for given in ((x[:, :2], y, x), (x, y[:-1], x), (x, y, x[:0]), (x, None, x), (x, y[:, None], x)):
        with pytest.raises(tacit.BadInput):
            run.fit(*given)


def test_a_private_value_does_not_get_out():
    value = PrivateValue(1.25, "the data-dependent epsilon")
    assert "1.25" not in f"{value!r} {value} {value:.3f}"
    for use in (float, int, bool, hash, json.dumps, lambda v: v + 1, lambda v: v < 2, lambda v: v == 1.25):
        with pytest.raises((tacit.BadInput, TypeError)):
            use(value)
    with pytest.raises(tacit.BadInput):
        value.look("")
    assert value.look("a test") == 1.25


def test_typical_queries_are_the_middles_of_groups():
    """Not what lies at the edge, which far-apart ones are; every row once, also where rows are alike."""
    rng = np.random.default_rng(0)
    middles = np.array([[0.0, 0.0], [40.0, 0.0], [0.0, 40.0]])
    x = np.concatenate([middles, (middles[:, None] + rng.normal(size=(3, 50, 2))).reshape(-1, 2)])
    none = np.zeros(0, dtype=np.int64)
    rows = next_queries(x, 3, none, "typical", None, source(1))
    near = ((x[rows][:, None] - middles) ** 2).sum(axis=2)
    assert sorted(near.argmin(axis=1)) == [0, 1, 2]
    assert (near.min(axis=1) < 0.5).all()
    far = next_queries(x, 3, none, "spread", None, source(1))
    assert ((x[far][:, None] - middles) ** 2).sum(axis=2).min(axis=1).max() > 1.0
    alike = next_queries(np.ones((6, 2000)), 4, np.array([0]), "typical", None, source(0))
    assert len(set(alike.tolist())) == 4
    assert 0 not in alike


def test_guesses_are_drawn_towards_the_shares_among_answers():
    """Over many records they are those of the answers and one more of each class; without `align` they stay."""
    target = torch.tensor([0, 0, 0, 1, -1, -1])
    shares = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    assert torch.equal(_Shares.of(target, False)(shares), shares)
    found = _Shares.of(target, True)(shares)
    weights = torch.tensor([4.0, 2.0, 1.0]) / shares.mean(0)
    torch.testing.assert_close(found, shares * weights / (shares * weights).sum(1, keepdim=True))
    assert found[1].argmax() == 0
    assert shares[1].argmax() == 2


def test_queries_are_chosen_from_public_facts():
    x = np.array([[0.0], [0.1], [10.0], [0.2], [-10.0]])
    none = np.zeros(0, dtype=np.int64)
    assert next_queries(x, 2, none, "first", None, source(0)).tolist() == [0, 1]
    assert set(next_queries(x, 3, none, "spread", None, source(0)).tolist()) >= {2, 4}
    assert set(next_queries(x, 2, np.array([0]), "spread", None, source(0)).tolist()) == {2, 4}
    with pytest.raises(tacit.BadInput, match="typical"):
        check_choice("best")
    said = np.where(np.abs(x) < 0.15, 0.5, [[1.0, 0.0]])
    assert next_queries(x, 1, np.array([0]), "first", said, source(0)).tolist() == [1]
    assert sorted(next_queries(x, 4, np.array([2]), "random", None, source(0)).tolist()) == [0, 1, 3, 4]


RUN = """
[data]
source = "digits"
[model]
kind = "linear"
[train]
optimizer = "adam"
lr = 0.02
[plan]
delta = 1e-5
epsilon = 9.0
[pate]
teachers = 20
aggregator = "gnmax"
noise_answer = 4
queries = 100
steps = 40
"""


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RUN)
    status, out, err = Command(capsys, monkeypatch)("pate", "run.toml", "--seed", "1", "--json")
    found = json.loads(out)
    assert status == 0, err
    assert found["answered"] == found["queries"] <= 100
    assert found["bound"]["epsilon"] <= 9.0
    assert found["released_bound"] is None
    assert 0 < found["teacher_accuracy"] < 1
    evidence = tacit.Evidence.load(found["evidence"])
    assert evidence.utility["most frequent class"] == found["baseline"]
    assert 0.1 <= found["baseline"] < 0.3
    assert evidence.upper.epsilon == found["bound"]["epsilon"]
    assert any("count as public" in line for line in evidence.not_covered)  # no `members` said who is private
    with np.load(found["labels"]) as labels:
        assert labels["label"].max() <= 9


def test_a_student_that_learns_nothing_is_told_so(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RUN.replace("noise_answer = 4", "noise_answer = 4000").replace("epsilon", "# "))
    status, out, err = Command(capsys, monkeypatch)("pate", "run.toml", "--seed", "1")
    assert status == 0, err
    assert "right; the most frequent class has" in out
    assert "no better than answering with the most frequent class" in err


def test_the_command_releases_a_bound_and_takes_other_spellings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = RUN.replace('"gnmax"', '"GNMax"').replace("epsilon = 9.0", "").replace("steps = 40", "steps = 100")
    (tmp_path / "run.toml").write_text(text + 'student = "mlp"\nrelease_epsilon = 0.5\npropose = 200.0\n')
    ledger = tacit.Ledger.create("budget.db", epsilon=100.0, delta=1e-4, unit="record")
    status, out, err = Command(capsys, monkeypatch)(
        "pate", "run.toml", "--seed", "1", "--json", "--ledger", "budget.db", "--out", "here"
    )
    assert status == 0, err
    found = json.loads(out)
    assert found["released_bound"]["epsilon"] == pytest.approx(200.0)
    assert found["released_bound"]["confidence"] == 0.999
    assert found["receipt"]["seq"] == len(ledger.entries()) == 2


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("gnmax", "best", "aggregator 'best' is not known"),
        ("noise_answer", "threshold", "gnmax has no threshold"),
        ("queries = 100", "queries = 1000", "records are public"),
        ("delta = 1e-5", "", "needs `delta` in [plan]"),
        ("steps = 40", 'student = "good"', "student in [pate] must be"),
        ("epsilon = 9.0", "epochs = 3", "epochs must go"),
    ],
)
def test_a_bad_run_file(tmp_path, capsys, monkeypatch, old, new, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(RUN.replace(old, new))
    status, _, err = Command(capsys, monkeypatch)("pate", "run.toml")
    assert (status, sentence in err) == (2, True), err
    assert not (tmp_path / "tacit-pate").exists()


def test_classes_of_a_file_must_be_public(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = data()
    np.savez(tmp_path / "d.npz", x=x, y=y)
    (tmp_path / "run.toml").write_text(RUN.replace('"digits"', '"d.npz"').replace("queries = 100", "queries = 20"))
    status, _, err = Command(capsys, monkeypatch)("pate", "run.toml")
    assert (status, "must be public" in err) == (2, True), err


def test_a_data_dependent_bound_is_released_with_a_charge(tmp_path):
    """Teachers that agree: the tested bound is below the claim, and the ledger has paid for run and test."""
    x, y = data(n=2400)
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=20.0, delta=1e-4, unit="record")
    rule = GNMax(6.0)
    run = PATE(line, teachers=200, aggregator=rule, delta=1e-5, classes=[0, 1], ledger=ledger, random_state=0)
    far = np.abs(x @ [2.0, -1.0, 0.5]) > 2
    run.fit(x[:2000], y[:2000], x[2000:][far[2000:]][:60])
    found = run.release_bound(epsilon=0.2, propose=2.5, order=10.0)
    assert found.epsilon == pytest.approx(2.5)
    assert found.epsilon < run.bound_.epsilon
    assert [type(entry.event).__name__ for entry in ledger.entries()] == ["Repeat", "Gaussian"]
    smooth = run.release_bound(epsilon=0.5, order=6.0)
    assert smooth.epsilon > 0
    assert type(ledger.entries()[-1].event).__name__ == "ApproximateDP"
    run = PATE(line, teachers=200, aggregator=rule, delta=1e-5, classes=[0, 1], random_state=0)
    run.fit(x[:2000], y[:2000], x[2000:][~far[2000:]][:60])
    assert run.release_bound(epsilon=0.2, propose=2.5, order=10.0) is None
    run = PATE(line, teachers=20, aggregator=rule, delta=1e-5, classes=[0, 1], rounds=2, random_state=0)
    with pytest.raises(tacit.BadInput, match="no data-dependent bound"):
        run.fit(x[:200], y[:200], x[200:300]).release_bound(epsilon=0.2)


def test_search_stays_within_epsilon_and_finds_the_confident():
    rng = np.random.default_rng(0)
    counts = np.array([rng.multinomial(100, [0.9, 0.05, 0.05]) for _ in range(60)])
    unsure = np.array([rng.multinomial(100, [0.35, 0.4, 0.25]) for _ in range(60)])
    found = search(np.concatenate((counts, unsure)), np.zeros(120, int), delta=1e-5, epsilon=3.0, accuracy=0.9)
    assert found
    assert all(item.epsilon <= 3.0 and item.accuracy >= 0.9 for item in found)
    best = found[0]
    made = designed(
        best.aggregator, available=120, queries=best.queries, answers=best.answers, epsilon=None, delta=1e-5
    )
    assert made.epsilon == pytest.approx(best.epsilon)
    assert isinstance(best.aggregator, ConfidentGNMax)
    plain = search(np.concatenate((counts, unsure)), np.zeros(120, int), delta=1e-5, epsilon=3.0)
    assert any(isinstance(item.aggregator, GNMax) and item.accuracy < 0.9 for item in plain)
    assert search(counts, np.zeros(60, int), delta=1e-5, epsilon=1e-6) == []
    with pytest.raises(tacit.BadInput):
        search(counts, [0], delta=1e-5, epsilon=1.0)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_few_private_predictions(delta, tmp_path):
    x, y = data(n=1200)
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=5.0, delta=1e-5, unit="record")
    asked = np.array([[3.0, -3.0, 1.0], [-3.0, 3.0, -1.0]], dtype=np.float32)
    given = {"classes": ["no", "yes"], "epsilon": 1.0, "delta": delta, "teachers": 100, "ledger": ledger, "key": "two"}
    words = np.array(["no", "yes"])[y]
    found = private_predictions(line, x, words, asked, **given, rng=0)
    assert found.value.tolist() == ["yes", "no"]
    again = private_predictions(line, x, words, asked, **given, rng=1)
    assert again.value.tolist() == found.value.tolist()
    with pytest.raises(tacit.Mismatch, match="other inputs"):  # it was answered as if it were the first question
        private_predictions(line, x, words, asked[::-1], **given)
    assert len(ledger.entries()) == 1
    assert tacit.epsilon(found.event, delta=delta, adjacency="add-remove").upper <= 1.0 + 1e-9
    with pytest.raises(tacit.BadInput, match="only 1200 records"):
        private_predictions(line, x, y, asked, classes=[0, 1], epsilon=1.0, teachers=2000)


def test_many_predictions_are_cheaper_with_gaussian_noise():
    x, y = data(n=400)
    given = {"classes": [0, 1], "epsilon": 1.0, "teachers": 40, "rng": 0}
    assert private_predictions(line, x, y, x[:30], **given, delta=1e-6).event.event.__class__ is Gaussian
    assert private_predictions(line, x, y, x[:2], **given, delta=1e-6).event.event.__class__ is NoisyMax


@pytest.mark.parametrize("how", ["fixmatch", "estimator", "default"])
def test_unanswered_queries_teach_too(how):
    """Few answers and two clouds: what is unlabelled shows where the border is."""
    from sklearn.linear_model import LogisticRegression
    from torch import nn

    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = (rng.normal(size=(400, 2)) * 0.4 + np.where(y, 1.5, -1.5)[:, None]).astype(np.float32)
    labels = np.full(400, -1)
    labels[:4] = y[:4]
    net = Network(lambda: nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)), steps=60, batch_size=8, lr=0.02)
    student = FixMatch(LogisticRegression() if how == "estimator" else net, certainty=0.8)
    if how == "default":
        student = student_of("semi-supervised", net)
    shares = student.taught(x, labels, 2, np.random.default_rng(1))(x)
    assert (shares.argmax(axis=1) == y).mean() > 0.95
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    nobody = student.taught(x, np.full(400, -1), 2, np.random.default_rng(1))(x)
    assert (nobody == 0.5).all()


def test_pictures_are_changed_each_by_itself():
    import torch

    from tacit.pate.augmentations import Affine

    x = torch.rand(3, 5, 1, 8, 8)
    draw = lambda pictures: Affine(0.1, 10, 0.1, 0.3, 0.2)(pictures, torch.Generator().manual_seed(0))  # noqa: E731
    before, other = draw(x), x.clone()
    other[1, 2] = 0
    after = draw(other)
    changed = (before != after).flatten(2).any(2)
    assert changed.sum() == 1
    assert bool(changed[1, 2])
    assert before.shape == x.shape
    assert Affine(0.0)(x, torch.Generator()).allclose(x, atol=1e-5)


def people(n=600):
    """A table with a label of words, a unit, and a value that is missing or absurd here and there."""
    import pandas

    rng = np.random.default_rng(0)
    age, town = rng.uniform(20, 80, n), rng.choice(["north", "south"], n)
    ill = np.where(age + 20 * (town == "south") > 60, "yes", "no")
    age[::50] = np.nan
    age[1] = 1e30
    return pandas.DataFrame({"age": age, "town": town, "ill": ill, "person": [f"p{k // 2}" for k in range(n)]})


@pytest.mark.parametrize("unit", [None, "person"])
def test_tables_with_a_schema(unit, tmp_path):
    columns = [tacit.Column("age", range=(0, 100)), tacit.Column("town", kind="category", words=("north", "south"))]
    columns += [tacit.Column("ill", kind="category", words=("no", "yes"))]
    columns += [tacit.Column("person", kind="text")] if unit else []
    schema = tacit.Schema(tuple(columns), label="ill", unit=unit)
    frame = people() if unit else people().drop(columns="person")
    frame.loc[3, "ill"] = "unheard of"
    run = tacit.PATE(
        "linear", teachers=15, aggregator=GNMax(0.5), delta=1e-4, schema=schema, queries=80, random_state=0
    )
    run.teacher = Network(lambda: _linear(schema.width), steps=200, lr=0.05)
    run.fit(frame[:450], None, frame[450:])
    assert run.bound_.unit == ("user" if unit else "record")
    assert np.mean(run.predict(frame[450:]) == frame["ill"][450:]) > 0.85
    page = tmp_path / "page.html"
    run.report(page)
    text = page.read_text(encoding="utf-8")
    for said in ("who sees the votes", "GNMax(noise_answer=0.5)", "answers at most", "student taught by PATE"):
        assert said.lower() in text.lower(), said
    with pytest.raises(tacit.BadInput, match="A table needs a schema"):
        PATE("linear", delta=1e-5, classes=["no", "yes"]).fit(frame, frame["ill"], frame)


def _linear(features):
    from torch import nn

    return nn.Sequential(nn.Linear(features, 2))


def test_a_student_can_be_attacked():
    x, y = data(n=600)
    run = PATE(line, teachers=10, aggregator=GNMax(2.0), delta=1e-5, classes=[0, 1], random_state=0)
    run.fit(x[:200], y[:200], x[400:])
    found = tacit.attack(run.predict_proba, (x[:200], y[:200]), (x[200:400], y[200:400]), references=0, rng=0)
    assert found.attacks


def test_types():
    assert isinstance(GNMax(2.0).event(3, 3, Adjacency.ADD_REMOVE), Repeat)
    assert isinstance(ConfidentGNMax().event(3, 3, Adjacency.ADD_REMOVE), Compose)
    assert {Gaussian, NoisyMax} == {type(rule.event(1, 1, Adjacency.ADD_REMOVE).event) for rule in (GNMax(), LNMax())}


def test_the_command_checks_a_release_before_it_pays(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = tacit.Ledger.create("budget.db", epsilon=100.0, delta=1e-4, unit="record")
    for more, said in (("release_epsilon = 0.2\npropose = 0.1\n", "leaves nothing"), ("propose = 9\n", "needs")):
        (tmp_path / "run.toml").write_text(RUN + more)
        status, _, err = Command(capsys, monkeypatch)("pate", "run.toml", "--ledger", "budget.db")
        assert status != 0
        assert said in err
    assert ledger.verify().entries == 0


def test_the_command_says_why_there_is_no_model(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rule = 'aggregator = "confident-gnmax"\nthreshold = 1e6\nnoise_select = 9'
    (tmp_path / "run.toml").write_text(RUN.replace('aggregator = "gnmax"', rule).replace("epsilon = 9.0", ""))
    status, out, err = Command(capsys, monkeypatch)("pate", "run.toml")
    assert status == 0, err
    assert "no model is written" in out + err
    assert "tacit bracket" not in out + err
