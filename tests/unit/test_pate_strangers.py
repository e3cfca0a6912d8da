"""Models and inputs of PATE that nobody here wrote: what a fleet cannot train, what keeps something, and bad input."""

import copy
import functools

import numpy as np
import polars
import pyarrow
import pytest
import torch
from scipy import sparse
from torch import nn

import tacit
from tacit.core import source
from tacit.pate import (
    PATE,
    Aggregator,
    ConfidentGNMax,
    FixMatch,
    GNMax,
    InteractiveGNMax,
    LNMax,
    Network,
    analyse,
    search,
)
from tacit.pate.design import designed
from tacit.pate.records import Given, distinct, places
from tacit.pate.release import releasing
from tacit.pate.shards import shards
from tacit.pate.smooth import Cost
from tacit.pate.teachers import train
from tacit.pate.trying import KEEPS_NOTHING, assumed, tried

WHY = "a test"


def data(n=200):
    x = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    return x, (x @ [2.0, -1.0, 0.5] > 0).astype(int)


def line(x, y, rng):
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


def settings(**more):
    return {"teachers": 6, "aggregator": GNMax(1.0), "delta": 1e-5, "classes": [0, 1], "random_state": 0, **more}


def normed():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class Tied(nn.Module):
    """Two layers with one weight, and a branch on a value."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(self.second(self.first(x)) if x.sum() > 0 else x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.last = nn.LSTM(1, 3, batch_first=True), nn.LazyLinear(2)

    def forward(self, x):
        return self.last(self.read(x[:, :, None])[0][:, -1])


class Keeps(nn.Module):
    """Subtracts a mean that all modules of the class share."""

    mean = None

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        if self.training:
            Keeps.mean = x.mean(0) if Keeps.mean is None else 0.9 * Keeps.mean + 0.1 * x.mean(0)
        return self.last(x if Keeps.mean is None else x - Keeps.mean)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("make", [normed, Tied, Recurrent])
def test_what_no_fleet_trains_is_trained_one_at_a_time(make):
    """Once such networks were refused, as teachers and, though no fleet trains a student, as students.

    Another record in one shard still touches one teacher.
    """
    x, y = data(160)
    votes = []
    for value in (0.0, 40.0):
        x[3] = value
        run = PATE(Network(make, steps=3, lr=0.05), **settings())
        with pytest.warns(UserWarning, match="one at a time"):
            run.fit(x[:120], y[:120], x[120:])
        assert KEEPS_NOTHING in run.bound_.assumptions
        votes.append(run.teacher_votes().each(x[120:]))
    assert (votes[0] != votes[1]).any(axis=0).sum() <= 1
    assert run.predict_proba(x[:5]).shape == (5, 2)
    student = FixMatch(Network(make, steps=2)) if make is normed else Network(make, steps=2)
    assert PATE(line, student=student, **settings()).fit(x[:120], y[:120], x[120:]).predict(x).shape == (160,)


def moving():
    """An augmentation that mixes the batch before into this one, whichever teacher's it was."""
    kept = []

    def augment(x, generator):
        kept.append(x)
        return x + 0.5 * kept[-2] if len(kept) > 1 else x

    return augment


def test_a_fleet_that_keeps_something_is_refused():
    """Once it was trained, and the claim said that its teachers are apart by construction."""
    public = data(40)[0]
    for how in (Network(Keeps, steps=3), Network(functools.partial(nn.Linear, 3, 2), steps=3, augment=moving())):
        with pytest.raises(tacit.BadInput, match=r"tried on public records|keeps something"):
            tried(how, public, 2)
    Keeps.mean = None


def test_a_claim_about_a_fleet_says_whether_its_code_is_known():
    class Own(nn.Linear):
        pass

    def hooked():
        made = nn.Linear(3, 2)
        made.register_forward_hook(lambda *_: None)
        return made

    known = functools.partial(nn.Linear, 3, 2)
    assert assumed(Network(known)) == ()
    assert assumed(Network(normed)) == ()
    for how in (Network(lambda: Own(3, 2)), Network(hooked), Network(known, augment=lambda x, generator: x)):
        assert assumed(how) == (KEEPS_NOTHING,)


class Fussy:
    """A student that learns from equally many records of each class alone."""

    def fit(self, x, y):
        if np.ptp(np.bincount(y)) > 0:
            raise ValueError("a fold is missing")
        self.answer = int(y[0])
        return self

    def predict(self, x):
        return np.full(len(x), self.answer)


@pytest.mark.parametrize("rule", [GNMax(0.5), InteractiveGNMax(3, 0.5, 0.5)])
def test_labels_that_were_paid_for_outlive_a_student_that_raises(rule):
    x, y = data()
    run = PATE(line, student=Fussy(), **settings(aggregator=rule, queries=9, rounds=3))
    with pytest.warns(UserWarning, match="student raised ValueError when it was taught; the released labels are kept"):
        run.fit(x[:150], y[:150], x[150:])
    assert run.answered_ == (run.labels_ >= 0).sum() > 0
    assert tacit.verify(run.evidence()).ok
    with pytest.raises(tacit.BadInput, match="Teach another one"):
        run.predict(x)


class Panic(BaseException):
    """What libraries in Rust raise: no `Exception`."""


class Mute:
    """A student that is taught, and raises when it is asked about few answers."""

    def __init__(self, stop):
        self.stop, self.taught = stop, 0

    def fit(self, x, y):
        self.taught = len(y)
        return self

    def predict(self, x):
        if self.taught < 9:
            raise self.stop
        return np.zeros(len(x), dtype=int)


@pytest.mark.parametrize("stop", [ValueError, Panic])
@pytest.mark.parametrize("rule", [GNMax(0.5), InteractiveGNMax(3, 0.5, 0.5)])
def test_labels_that_were_paid_for_outlive_a_student_that_cannot_be_asked(rule, stop):
    """A later round would ask the student of the rounds before; then it asks as if there was none."""
    x, y = data()
    run = PATE(line, student=Mute(stop), **settings(aggregator=rule, queries=9, rounds=3)).fit(
        x[:150], y[:150], x[150:]
    )
    assert run.queries_.tolist() == list(range(9))
    assert run.answered_ > 0


def test_a_panic_in_a_trial_is_one_sentence():
    def panics(x, y, rng):
        raise Panic

    x, y = data()
    for how in (panics, Network(lambda: Stops(), steps=2)):
        with pytest.raises(tacit.BadInput, match="raised Panic when tried"):
            PATE(how, **settings()).fit(x[:150], y[:150], x[150:])
    with pytest.raises(tacit.BadInput, match="The student raised Panic when tried"):
        FixMatch(Network(lambda: nn.Linear(3, 2), steps=2), strong=lambda x, generator: panics(x, None, None)).tried(
            x, 2
        )


class Stops(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)

    def forward(self, x):
        raise Panic


def test_a_public_input_that_no_estimator_takes_is_told_before_anything_is_paid():
    def fit(x, y, rng):
        def predict(asked):
            if (asked > 90).any():
                raise ValueError("too large")
            return np.zeros(len(asked), dtype=int)

        return predict

    x, y = data(300)
    x[-1] = 99
    with pytest.raises(tacit.BadInput, match="ValueError when tried on public records"):
        PATE(fit, **settings()).fit(x[:100], y[:100], x[100:])


@pytest.mark.parametrize("rule", [GNMax(0.5), GNMax(2.0), ConfidentGNMax(10, 1.0, 0.5)])
def test_no_votes_make_a_smooth_release_fail(rule):
    """Where the noise did not fit on a fixed grid, an error told the smooth sensitivity, which is private."""
    made = designed(rule, available=200, queries=200, answers=None, epsilon=None, delta=1e-5)
    for order in (None, 4.0):
        how = releasing(made, epsilon=0.5, propose=None, order=order, confidence=0.99)
        cost = Cost.of(rule, 20, 2, how.order)
        for counts in (np.tile([20, 0], (200, 1)), np.tile([10, 10], (200, 1))):
            assert cost.sensitivity(counts, how.beta) <= cost.largest_sensitivity(200)
            assert how.drawn(cost, counts, source(0)) > 0


def test_a_threshold_out_of_all_reach_costs_a_check():
    """The table held NaN, with which every proposal passed its test."""
    rule, counts = ConfidentGNMax(1e200, 0.5, 1.0), np.array([[5, 0], [3, 2]])
    cost = Cost.of(rule, 5, 2, 3.0)
    assert np.isfinite(cost.table).all()
    assert cost.distance(counts, 1.0, 9) == -1
    assert np.isfinite(analyse(counts, rule, delta=1e-5).joint.look(WHY))
    assert not rule.told(counts, source(0), 2).answered.any()


BALLOTS = [[[np.inf, 1.0]], [[1e300, 1.0]], np.array([[2**63, 1]], dtype=np.uint64), [[3, 4], [1]]]


@pytest.mark.parametrize("bad", BALLOTS)
def test_votes_that_no_one_can_have_cast(bad):
    """Infinite ones became negative numbers."""
    with pytest.raises(tacit.BadInput, match="votes must be whole numbers"):
        analyse(bad, GNMax(2.0), delta=1e-5)


def test_a_rule_whose_cost_is_not_known():
    class Own(Aggregator):
        def event(self, queries, answers, adjacency):
            return LNMax(2.0).event(queries, answers, adjacency)

        def told(self, *arguments):
            return LNMax(2.0).told(*arguments)

    with pytest.raises(tacit.BadInput, match="cost of Own is not known"):
        analyse([[3, 4]], Own(), delta=1e-5)


VOTES = np.random.default_rng(0).multinomial(100, [0.8, 0.1, 0.1], size=20)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": ["a"] * 20}, "columns of the votes"),
        ({"labels": np.full(20, 3)}, "columns of the votes"),
        ({"labels": np.full(20, np.nan)}, "columns of the votes"),
        ({"accuracy": np.nan}, "accuracy must be"),
        ({"delta": 0}, "delta above 0"),
        ({"votes": np.zeros((20, 3), int)}, "Nobody voted"),
        ({"noise_answer": []}, "noise_answer must be numbers"),
        ({"threshold": ["high"]}, "threshold must be numbers"),
    ],
)
def test_a_search_that_cannot_be_made(change, said):
    """Labels that no vote can match made every rule look useless, and a list in an array raised numpy's error."""
    with pytest.raises(tacit.BadInput, match=said):
        search(**{"votes": VOTES, "labels": np.zeros(20, int), "delta": 1e-5, "epsilon": 3.0, **change})


def test_a_search_takes_arrays():
    found = search(VOTES, np.zeros(20), delta=1e-5, epsilon=3.0, noise_answer=np.array([9.0, 18]), threshold=60.0)
    assert {item.aggregator.noise_answer for item in found} <= {9.0, 18.0}


class Silent:
    """An estimator whose fit returns nothing."""

    def fit(self, x, y):
        self.answer = int(y.mean() > 0.5)

    def predict(self, x):
        return np.full(len(x), self.answer)


def test_an_estimator_whose_fit_returns_nothing_and_a_class_in_place_of_one():
    x, y = data()
    assert PATE(Silent(), **settings()).fit(x[:150], y[:150], x[150:]).answered_ == 50
    with pytest.raises(tacit.BadInput, match=r"Silent is a class. Give an estimator: Silent\(\)"):
        PATE(Silent, **settings()).fit(x[:150], y[:150], x[150:])


def test_a_student_is_asked_after_fit_and_about_such_records():
    x, y = data()
    run = PATE(line, **settings())
    with pytest.raises(tacit.BadInput, match="has not been fitted"):
        run.predict(x)
    run.fit(x[:150], y[:150], x[150:])
    for wrong in (x[0], x[:, :2]):
        with pytest.raises(tacit.BadInput, match=r"learnt from records of shape \(n, 3\)"):
            run.predict(wrong)
    PATE(line, **settings(classes=np.array([0, 1]))).check_release(50, epsilon=0.5)


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([3, 1, 9, 2], [1, 3], [1, 0, -1, -1]),
        ([3.0, np.nan, 0.5, np.inf], [3, 0], [0, -1, -1, -1]),
        ([True, False], [1, 0], [0, 1]),
        (np.array([2**63, 1], dtype=np.uint64), [2**63 - 1, 1], [-1, 1]),
        ([5, 6], ["5", "n"], [0, -1]),
    ],
)
def test_labels_are_matched_one_by_one(labels, classes, expected):
    assert places(np.asarray(labels), distinct(classes)).tolist() == expected


def test_numbers_are_no_words():
    """By their types alone, so this tells nothing of any record."""
    with pytest.raises(tacit.BadInput, match="no class is one, so nobody has a label"):
        places(np.array([0, 1]), distinct(["no", "yes"]))
    assert places(np.array([0, 1], dtype=object), distinct(["no", "yes"])).tolist() == [-1, -1]


def test_many_classes_fit_into_memory():
    """Votes of 40 teachers on 600 inputs and 2,000 classes would be 48 million logits at once."""
    wide = Network(lambda: nn.Sequential(nn.Linear(3, 2000)), steps=1, batch_size=2)
    x, y = data(600)
    made = train(wide, x, y, np.arange(600) % 40, teachers=40, classes=2000, rng=source(0))
    counts = made.counts(x)
    assert counts.shape == (600, 2000)
    assert (counts.sum(axis=1) == 40).all()


def test_records_of_other_kinds():
    x, y = data()
    tensor = torch.tensor(x)
    for given in (tensor.clone().requires_grad_(), tensor.bfloat16()):
        PATE(line, **settings()).fit(given[:150], torch.tensor(y[:150]), tensor[150:])
    with pytest.raises(tacit.BadInput, match="sparse matrix"):
        PATE(line, **settings()).fit(sparse.csr_matrix(x), y, x)
    for classes in (2, "01"):
        with pytest.raises(tacit.BadInput, match="classes must be a list of labels"):
            PATE(line, **settings(classes=classes)).fit(x, y, x)


@pytest.mark.parametrize("more", [{"steps": 0}, {"batch_size": 2.5}])
def test_settings_of_a_network_are_checked_at_once(more):
    """Steps were checked when the teachers were trained: the run was paid for by then."""
    with pytest.raises(tacit.BadInput, match="must be a whole number"):
        Network(normed, **more)
    with pytest.raises(tacit.BadInput):
        FixMatch(normed, ratio=0)


@pytest.mark.parametrize("column", [lambda days: days, lambda days: pyarrow.array(days.to_list())])
def test_a_label_or_an_id_that_python_does_not_have_is_nobodys(column):
    known = polars.Series([1, 2], dtype=polars.Int32).cast(polars.Date)
    far = polars.Series([1, 2, -(10**6)], dtype=polars.Int32).cast(polars.Date)
    assert places(far, distinct(known.to_list())).tolist() == [0, 1, -1]
    assert shards(3, 2, users=far, rng=source(1))[2] == -1
    assert places(column(known), distinct(known.to_list())).tolist() == [0, 1]


ENTRIES = [
    [1],
    (),
    np.array([1]),
    np.array([]),
    np.ma.masked,
    np.complex64(1),
    1j,
    bytearray(b"1"),
    torch.ones(2),
    10**400,
]


@pytest.mark.parametrize("entry", ENTRIES, ids=range(len(ENTRIES)))
@pytest.mark.parametrize("form", [lambda x: x, lambda x: [[row] for row in x]], ids=["rows", "pictures"])
@pytest.mark.filterwarnings("error")
def test_an_odd_entry_of_a_list_is_no_number_and_changes_no_other_record(form, entry):
    """NumPy refuses a list of which one entry is a list, or warns of it: both tell of one person."""
    x, _ = data(6)
    usual = form(x.tolist())
    odd = copy.deepcopy(usual)
    row = odd[-1][0] if isinstance(odd[-1][0], list) else odd[-1]
    row[1] = entry
    public = np.asarray(usual)
    plain, found = (Given.of(rows, [0, 1] * 3, public, None, [0, 1], None).x for rows in (usual, odd))
    assert found.shape == plain.shape
    assert np.array_equal(found[:-1], plain[:-1])
    assert np.isnan(found[-1].ravel()[1]) or found[-1].ravel()[1] == 1
    assert np.array_equal(found[-1].ravel()[::2], plain[-1].ravel()[::2])
