"""One person's id, label, feature or error touches that person's teacher, and nothing else of a PATE run."""

import contextlib
import functools
import pickle
import random
import warnings

import numpy as np
import pytest

import tacit
from tacit.core import source
from tacit.core.global_randomness import lent
from tacit.mechanism.charging import Account
from tacit.pate import PATE, ConfidentGNMax, GNMax, LNMax, Network, private_predictions
from tacit.pate.augmentations import Exchange
from tacit.pate.design import PLANNED
from tacit.pate.names import features, numbers
from tacit.pate.records import distinct, places
from tacit.pate.shards import column, hashed, shards
from tacit.pate.teachers import train
from tacit.pate.trying import KEEPS_NOTHING

KEY = b"k" * 32
LARGE = 2**60
"""Whole numbers that a float cannot tell from their neighbours."""


def data(n=300):
    x = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    return x, (x @ [2.0, -1.0, 0.5] > 0).astype(int)


def line(x, y, rng):
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


def settings(**more):
    return {"teachers": 10, "aggregator": GNMax(8.0), "delta": 1e-5, "classes": [0, 1], "random_state": 0, **more}


def series(kind, values):
    if kind == "polars":
        return pytest.importorskip("polars").Series(values)
    if kind == "arrow":
        return pytest.importorskip("pyarrow").array(values)
    return pytest.importorskip("pandas").Series(values, dtype=kind)


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "polars", "arrow"])
def test_one_missing_id_merges_nobody_in_a_series(kind):
    """NumPy makes fractions of such a series, in which neighbouring ids of 64 bits are one."""
    ids = [LARGE + k for k in range(6)]
    alone = hashed(column(np.array(ids)), 1000, KEY)
    assert len(set(alone.tolist())) == 6
    assert hashed(column(series(kind, [*ids, None])), 1000, KEY).tolist() == [*alone.tolist(), -1]
    assert hashed(column(series(kind, ids)), 1000, KEY).tolist() == alone.tolist()


@pytest.mark.parametrize("odd", [None, float("nan"), 2.5, "ann", b"\xff", np.datetime64("NaT"), True, object()])
def test_an_odd_id_leaves_all_others_where_they_are(odd):
    """NumPy would turn whole numbers into floats, or into text, because of one person's id."""
    ids = [LARGE, LARGE + 1, 5, 6, 7]
    alone = hashed(column(ids), 10**6, KEY)
    assert len(set(alone)) == 5
    assert hashed(column([*ids, odd]), 10**6, KEY)[:5].tolist() == alone.tolist()


def test_one_spelling_for_one_person_whatever_the_column_is():
    """A column of whole numbers becomes one of floats where an id is missing."""
    whole = hashed(np.array([5, 6, 7, 5]), 10**6, KEY)
    for same in (np.array([5.0, 6.0, 7.0, 5.0]), ["5", "6", 7, 5.0], np.array(["5", "6", "7", "5"])):
        assert hashed(column(same), 10**6, KEY).tolist() == whole.tolist()


@pytest.mark.parametrize("users", [[1, None, 2, ""], np.array([1, np.nan, 2, np.nan]), ["a", "", "b", float("nan")]])
def test_records_without_an_id_are_nobodys(users):
    """Their owner may have other records, which another teacher holds."""
    found = shards(4, 3, users=users, rng=source(0))
    assert found[[1, 3]].tolist() == [-1, -1]
    assert (found[[0, 2]] >= 0).all()
    each = train(line, np.ones((4, 3)), np.zeros(4, int), found, teachers=3, classes=2, rng=source(0)).each(
        np.ones((1, 3))
    )
    assert (each[0] == -1).sum() == 3 - len(set(found[[0, 2]]))


@pytest.mark.parametrize("odd", [None, "x", float("nan"), 7, [1], np.nan])
def test_an_odd_label_leaves_all_others_what_they_are(odd):
    names = distinct([0, 1])
    for labels in ([0.0, 1.0, 1.0], [0, 1, 1], [False, True, True], ["0", "1", "1.0"]):
        assert places([*labels, odd], names).tolist() == [0, 1, 1, -1]
    assert places(["no", "yes", odd], distinct(["no", "yes"])).tolist() == [0, 1, -1]


def test_labels_that_are_spelled_alike_are_one_class():
    for classes in ([1, "1"], [1, 1.0], ["a", "a"], [None, 1], [[0], [0]]):
        with pytest.raises(tacit.BadInput, match="at least two different labels"):
            distinct(classes)


def test_an_odd_feature_is_no_number_and_nothing_else_changes():
    assert features([[1, 2], [3, "x"]]).tolist()[0] == [1.0, 2.0]
    assert np.isnan(features([[1, 2], [3, None]])[1, 1])
    assert features([[1, 2], [3, 4]]).dtype == np.float64
    assert np.isnan(numbers(np.array([["1", "x"]]))[0]).tolist() == [False, True]
    with pytest.raises(tacit.BadInput, match="same shape"):
        features([[1, 2], [3]])


@pytest.mark.parametrize("teacher", ["linear", line])
def test_one_text_among_the_features_touches_one_teacher(teacher):
    x, y = data()
    rows = x[:200].astype(float).tolist()
    votes = []
    for value in (0.5, "not a number"):
        rows[3][0] = value
        run = PATE(teacher, student=line, **settings()).fit(rows, y[:200], x[200:])
        votes.append(run.teacher_votes().each(x[200:]))
    assert (votes[0] != votes[1]).any(axis=0).sum() <= 1


@functools.cache
def words_class():
    from torch import nn

    class Words(nn.Module):
        """Looks its features up in a table of five rows: a sixth raises."""

        def __init__(self):
            super().__init__()
            self.table, self.last = nn.Embedding(5, 4), nn.Linear(12, 2)

        def forward(self, x):
            return self.last(self.table(x.long()).flatten(1))

    return Words


def looked_up():
    return words_class()()


@pytest.mark.parametrize("place", [0, 7])
def test_a_network_that_raises_on_one_record_loses_one_teacher(place):
    """Where all tables are one, an index beyond a table is a row of the next teacher's: it would learn from the record.

    Record 0 as well: an empty shard must not take it for a filler.
    """
    x, y = data()
    x = np.abs(np.round(x)).clip(0, 4)
    votes, weights, owner = [], [], 0
    for value in (1, 9):
        x[place, 0] = value
        shard = np.arange(200) % 10
        shard[shard == 4] = 5  # nobody is left in shard 4
        owner = shard[place]
        made = train(Network(looked_up, steps=4), x[:200], y[:200], shard, teachers=10, classes=2, rng=source(1))
        votes.append(made.each(x[200:]))
        weights.append([item.parameters["table.weight"].detach().numpy() for item in made.models.stacks])
    others = np.arange(10) != owner
    assert (votes[0][:, others] == votes[1][:, others]).all()
    changed = (np.concatenate(weights[0]) != np.concatenate(weights[1])).any(axis=(1, 2))
    assert not changed[others].any()
    assert (votes[0][:, owner] >= 0).all()
    assert (votes[1][:, owner] == -1).all()
    assert (votes[1][:, 4] == -1).all()


@functools.cache
def dropping_class():
    from torch import nn

    class Dropping(nn.Module):
        """Looks up, and drops half of what it found."""

        def __init__(self):
            super().__init__()
            self.table, self.drop, self.last = nn.Embedding(5, 4), nn.Dropout(0.5), nn.Linear(12, 2)

        def forward(self, x):
            return self.last(self.drop(self.table(x.long()).flatten(1)))

    return Dropping


def moved_by_an_odd_record():
    """Which teachers change when the record of one makes its training raise; dropout and an augmentation draw."""
    import torch

    x, y = data()
    x = np.abs(np.round(x)).clip(0, 4)
    weights = []
    for value in (1, 9):
        torch.manual_seed(0)
        x[7, 0] = value
        how = Network(dropping_class(), steps=3, augment=lambda x, _: x[torch.randint(len(x), (len(x),))])
        made = train(how, x[:200], y[:200], np.arange(200) % 10, teachers=10, classes=2, rng=source(1))
        weights.append(np.stack([item.parameters["last.weight"].detach().numpy() for item in made.models.stacks]))
    return np.flatnonzero((weights[0] != weights[1]).reshape(10, -1).any(axis=1)).tolist()


def test_what_others_drop_does_not_depend_on_who_failed(monkeypatch):
    """A training that is tried again draws from torch's generator: once, all later teachers drew other numbers."""
    assert moved_by_an_odd_record() == [7]
    monkeypatch.setattr("tacit.fleet.disjoint._own_chance", lambda *_: contextlib.nullcontext())
    assert moved_by_an_odd_record() == [7, 8, 9]


def test_a_shard_without_records_raises_nothing_whatever_the_network():
    """Zeros stand in its place, which this network cannot look up; once, the run ended there."""
    from torch import nn

    class FromOne(words_class()):
        def forward(self, x):
            return super().forward(x - 1)

    x, y = data(100)
    x = np.abs(np.round(x)).clip(1, 5)
    shard = np.arange(100) % 4
    shard[shard == 2] = 3
    made = train(Network(FromOne, steps=2), x, y, shard, teachers=4, classes=2, rng=source(0))
    assert isinstance(made.models.stacks[0]._model, nn.Module)
    assert (made.each(x[:3]) < 0).tolist() == [[False, False, True, False]] * 3


def test_a_record_that_asks_for_all_memory_loses_one_teacher(monkeypatch):
    from torch import nn

    from tacit.fleet import disjoint

    whole, full = disjoint._Training.trained, []

    def trained(self, rows, rngs):
        if any((self.data.x[mine] > 50).any() for mine in rows) or full:
            raise MemoryError
        return whole(self, rows, rngs)

    monkeypatch.setattr(disjoint._Training, "trained", trained)
    x, y = data(40)
    x[3] = 99.0
    how = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=2)
    made = train(how, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))
    assert (made.each(x[:1])[0] < 0).tolist() == [False, False, False, True]
    full.append("of other things")
    with pytest.raises(MemoryError):
        train(how, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))


def test_weights_that_make_a_teacher_raise_cost_its_own_vote():
    """No inverse exists of what this teacher has learnt; once, the whole run ended when it was asked."""
    import torch
    from torch import nn

    class Inverse(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix, self.last = nn.Parameter(torch.eye(3) + 0.1 * torch.randn(3, 3)), nn.Linear(3, 2)

        def forward(self, x):
            return self.last(x @ torch.linalg.inv(self.matrix))

    x, y = data(60)
    made = train(Network(Inverse, steps=3), x, y, np.arange(60) % 5, teachers=5, classes=2, rng=source(0))
    before = made.each(x)
    made.models.stacks[0].parameters["matrix"].data[3] = 0.0
    with pytest.raises(RuntimeError, match="singular"):
        made.models.logits(x)
    after = made.each(x)
    assert (after[:, 3] == -1).all()
    others = np.arange(5) != 3
    assert np.array_equal(before[:, others], after[:, others])
    made.models.stacks[0].parameters["matrix"].data[:] = 0.0
    assert (made.each(x) == -1).all()


def test_a_public_input_that_no_network_takes_is_told_before_anything_is_paid():
    x, y = data(700)
    x = np.abs(np.round(x)).clip(0, 4)
    x[-1] = 9  # beyond the first inputs that are tried
    with pytest.raises(tacit.BadInput, match="IndexError when tried on public records"):
        PATE(Network(looked_up, steps=2), **settings()).fit(x[:100], y[:100], x[100:])


def test_a_fault_that_is_no_records_is_told():
    """Not one person's doing: every model of the fleet fails, and the run ends with that error."""
    from torch import nn

    class Tired(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.last = nn.Linear(3, 2)

        def forward(self, x):
            Tired.calls += 1
            if Tired.calls == 3:
                raise OSError("a disk")
            return self.last(x)

    x, y = data(40)
    with pytest.raises(OSError, match="a disk"):
        train(Network(Tired, steps=4), x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))


@pytest.mark.parametrize("augment", [Exchange(0.5), "mean"])
def test_an_augmentation_that_mixes_a_batch_does_not_mix_teachers(augment):
    """A batch's own records may meet; those of two teachers may not."""
    from torch import nn

    how = Network(
        lambda: nn.Sequential(nn.Linear(3, 2)), steps=6, batch_size=4, lr=0.5,
        augment=augment if augment != "mean" else lambda x, generator: x - x.mean(dim=0, keepdim=True),
    )  # fmt: skip
    x, y = data(40)
    weights = []
    for value in (0.0, 100.0):
        x[3] = value
        made = train(how, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))
        weights.append(next(iter(made.models.stacks[0].parameters.values())).detach().numpy())
    changed = (weights[0] != weights[1]).reshape(4, -1).any(axis=1)
    assert changed.tolist() == [False, False, False, True]


def moved_by_a_longer_shard(library):
    """Which teachers change with one more record, where the training draws from a global generator."""

    def fit(x, y, rng):
        if library == "random":
            drawn = [random.random() for _ in y]
        elif library == "numpy":
            drawn = np.random.uniform(size=len(y))
        else:
            drawn = torch.rand(len(y)).numpy()
        return lambda asked: (asked[:, 0] > drawn[0]).astype(int)

    import torch

    x, y = np.linspace(0, 1, 101)[:, None], np.arange(101) % 2
    votes = []
    for size in (100, 101):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        shard = np.minimum(np.arange(size) // 20, 4)
        shard[100:] = 1
        made = train(fit, x[:size], y[:size], shard, teachers=5, classes=2, rng=source(2))
        votes.append(made.each(x))
    return np.flatnonzero((votes[0] != votes[1]).any(axis=0)).tolist()


@pytest.mark.parametrize("library", ["random", "numpy", "torch"])
def test_a_teacher_that_draws_from_a_global_generator_leaves_the_next_ones_alone(monkeypatch, library):
    assert set(moved_by_a_longer_shard(library)) <= {1}
    monkeypatch.setattr("tacit.pate.teachers.lent", lambda generator: contextlib.nullcontext())
    assert {2, 3, 4} & set(moved_by_a_longer_shard(library))


def test_global_generators_are_given_back_as_they_were():
    random.seed(1)
    np.random.seed(1)
    wanted = random.random(), np.random.uniform()
    random.seed(1)
    np.random.seed(1)
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state

    def fails():
        with lent(generator):
            random.random()
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fails()
    assert (random.random(), np.random.uniform()) == wanted
    assert generator.bit_generator.state == before


class Panic(BaseException):
    """What libraries in Rust raise: no `Exception`."""


@pytest.mark.parametrize("stop", [SystemExit, ValueError, Panic, GeneratorExit])
def test_a_teacher_that_leaves_votes_for_the_most_frequent_class(stop):
    def leaves(x, y, rng):
        if (x > 50).any():
            raise stop
        return lambda asked: np.zeros(len(asked), dtype=int)

    x = np.zeros((6, 1))
    x[0] = 99
    each = train(leaves, x, np.array([1, 1, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1]), teachers=2, classes=2,
                 rng=source(0)).each(np.zeros((1, 1)))  # fmt: skip
    assert each[0].tolist() == [1, 0]


@pytest.mark.parametrize("stop", [Panic, SystemExit])
def test_a_model_of_a_fleet_that_panics_loses_its_own_vote(stop, monkeypatch):
    """While it is trained, and when it is asked."""
    from torch import nn

    from tacit.fleet import disjoint, predictions

    plain, told = disjoint._Training.trained, predictions._logits

    def trained(self, rows, rngs):
        if any(3 in mine for mine in rows):
            raise stop
        return plain(self, rows, rngs)

    def logits(models, batch):
        if (models.parameters["0.bias"] > 50).any():
            raise stop
        return told(models, batch)

    monkeypatch.setattr(disjoint._Training, "trained", trained)
    monkeypatch.setattr(predictions, "_logits", logits)
    x, y = data(40)
    how = Network(lambda: nn.Sequential(nn.Linear(3, 2)), steps=2)
    made = train(how, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))
    assert (made.each(x[:1])[0] < 0).tolist() == [False, False, False, True]
    made.models.stacks[0].parameters["0.bias"].data[1] = 99.0
    assert (made.each(x[:1])[0] < 0).tolist() == [False, True, False, True]


def test_ctrl_c_is_nobodys_error(monkeypatch):
    def interrupted(x, y, rng):
        raise KeyboardInterrupt

    x, y = data(40)
    with pytest.raises(KeyboardInterrupt):
        train(interrupted, x, y, np.arange(40) % 4, teachers=4, classes=2, rng=source(0))
    with pytest.raises(KeyboardInterrupt):
        PATE(interrupted, **settings()).fit(x[:30], y[:30], x[30:])


def test_a_warning_about_one_record_is_none_even_as_an_error():
    """NumPy warns where a number has no float32: with warnings as errors, one record would end the run."""
    x, y = data(60)
    wide = x.astype(np.float64)
    wide[3] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = PATE("linear", **settings()).fit(wide[:40], y[:40], wide[40:])
    assert run.answered_ > 0


def test_what_lies_under_a_mask_is_nobodys_id():
    """Records 1 and 3 have no id, whatever the array holds there."""
    ids = np.ma.MaskedArray([7, 8, 9, 7], mask=[False, True, False, True])
    assert hashed(column(ids), 1000, KEY)[[1, 3]].tolist() == [-1, -1]
    assert hashed(column(ids), 1000, KEY)[[0, 2]].tolist() == hashed(np.array([7, 9]), 1000, KEY).tolist()
    assert places(np.ma.MaskedArray([0, 1, 1], mask=[False, False, True]), np.array([0, 1])).tolist() == [0, 1, -1]


def test_what_is_kept_holds_no_record_and_no_seed():
    from sklearn.linear_model import LogisticRegression

    x, y = data()
    chance = np.random.default_rng(5)
    run = PATE(LogisticRegression(), **settings(random_state=chance)).fit(x[:200], y[:200], x[200:])
    assert run._given.x.base is None
    assert run._given.y.base is None
    other = pickle.loads(pickle.dumps(run))
    assert (other.predict(x) == run.predict(x)).all()
    assert other.random_state is None
    assert not [line for line in other.evidence().not_covered if "no ledger" in line] or run.receipt_ is None


def test_a_run_that_was_refused_holds_no_record(tmp_path):
    x, y = data()
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=0.1, delta=1e-4, unit="record")
    run = PATE(line, **settings(ledger=ledger))
    with pytest.raises(tacit.BudgetExceeded):
        run.fit(x[:200], y[:200], x[200:])
    held = [value for value in vars(run._given).values() if isinstance(value, np.ndarray)]
    assert not [value for value in held if len(value) == 200 or (value.base is not None and len(value.base) == 200)]


BAD = {
    "choose": ({"choose": "best"}, "first, random, spread or typical"),
    "rounds": ({"rounds": "3"}, "rounds must be"),
    "student": ({"student": "best"}, "best"),
    "broken student": ({"student": lambda x, y, rng: 1 / 0}, "student raised ZeroDivisionError"),
    "progress": ({"progress": 3}, "progress must be a function"),
    "teacher that leaves": ({"teacher": lambda x, y, rng: exit(3)}, "teacher raised SystemExit"),
}


@pytest.mark.parametrize("case", BAD)
def test_nothing_is_paid_for_a_run_that_cannot_work(case, tmp_path):
    changes, sentence = BAD[case]
    x, y = data()
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=50.0, delta=1e-4, unit="record")
    with pytest.raises(tacit.BadInput, match=sentence):
        PATE(**{"teacher": line, **settings(ledger=ledger), **changes}).fit(x[:200], y[:200], x[200:])
    assert not ledger.entries()


@pytest.mark.parametrize("account", [False, True])
@pytest.mark.parametrize("counted", ["add-remove", "replace"])
def test_a_ledger_is_charged_in_its_own_adjacency(account, counted, tmp_path):
    """An event of replace has doubled multipliers: charged as add-remove it would cost half."""
    x, y = data()
    budget = str(tmp_path / "budget.db")
    ledger = tacit.Ledger.create(budget, epsilon=50.0, delta=1e-5, unit="record", adjacency=counted)
    payer = Account(ledger, purpose="a test") if account else ledger
    for adjacency in ("add-remove", "replace"):
        before = len(ledger.entries())
        run = PATE(line, **settings(ledger=payer, adjacency=adjacency)).fit(x[:200], y[:200], x[200:])
        (entry,) = ledger.entries()[before:]
        paid = tacit.epsilon(entry.event, delta=1e-5, adjacency=counted).upper
        assert paid == pytest.approx(run.bound_.epsilon, rel=1e-6)
        run.release_bound(epsilon=0.5, propose=60.0)
        again = tacit.epsilon(ledger.entries()[-1].event, delta=1e-5, adjacency=counted).upper
        assert again == pytest.approx(tacit.epsilon(run.event_.events[-1], delta=1e-5, adjacency=adjacency).upper)


@pytest.mark.parametrize("account", [False, True])
def test_a_ledger_of_users_is_not_charged_for_records(account, tmp_path):
    x, y = data()
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=50.0, delta=1e-4, unit="user")
    payer = Account(ledger) if account else ledger
    with pytest.raises(tacit.Mismatch, match="one record, and the ledger for one user"):
        PATE(line, **settings(ledger=payer)).fit(x[:200], y[:200], x[200:])
    few = {"classes": [0, 1], "epsilon": 1.0, "teachers": 10, "rng": 0, "ledger": payer}
    with pytest.raises(tacit.Mismatch, match="one record, and the ledger for one user"):
        private_predictions(line, x, y, x[:2], **few)
    assert not ledger.entries()
    private_predictions(line, x, y, x[:2], users=np.arange(300), **few)
    assert PATE(line, **settings(ledger=payer)).fit(x[:200], y[:200], x[200:], np.arange(200)).receipt_ is not None


def test_a_released_bound_is_part_of_the_claim():
    """It is one more release from the same records: a claim that leaves it out would be too low."""
    x, y = data()
    run = PATE(line, **settings()).fit(x[:200], y[:200], x[200:])
    before, event = run.bound_.epsilon, run.event_
    assert PLANNED not in run.bound_.assumptions
    found = run.release_bound(epsilon=0.5, propose=60.0)
    after = run.evidence()
    assert run.event_.events == (event, run.event_.events[-1])
    assert after.upper.epsilon == run.bound_.epsilon > before
    assert PLANNED in after.upper.assumptions  # an epsilon chosen by looking at the labels would not compose so
    assert tacit.verify(after).ok
    assert after.provenance["data-dependent epsilon"] == found.epsilon
    assert "says nothing of other data sets" in after.provenance["data-dependent epsilon, meaning"]
    assert run.release_bound(epsilon=0.5, propose=1.5, order=100.0) is None
    assert run.evidence().provenance["data-dependent epsilon 2"].startswith("a proposed bound was tested")
    run.release_bound(epsilon=0.5, order=3.0)
    assert len(run.released_) == len(run.event_.events) - 1 == 3
    assert tacit.verify(run.evidence()).ok


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int])
def test_noise_may_be_any_kind_of_number(kind):
    """A kind that cannot be drawn with would be told only after the charge."""
    counts = np.array([[9, 1], [2, 8]])
    for rule in (GNMax(kind(2)), LNMax(kind(2)), ConfidentGNMax(kind(1), kind(2), kind(2))):
        assert rule.told(counts, source(0), 2).labels.shape == (2,)
        assert type(rule.noise_answer) is float


def test_one_input_is_enough_for_an_estimator():
    from sklearn.linear_model import LogisticRegression

    x, y = data()
    found = private_predictions(LogisticRegression(), x, y, x[:1], classes=[0, 1], epsilon=8.0, teachers=20, rng=0)
    assert found.value.shape == (1,)


class Hoarder:
    """Learns from its own records and all that any copy of it has seen."""

    seen = ()

    def fit(self, x, y):
        Hoarder.seen = (*Hoarder.seen, x.T @ (2.0 * y - 1))
        self.weight = sum(Hoarder.seen)
        return self

    def predict(self, x):
        return (x @ self.weight > 0).astype(int)


def hoarding():
    """A function that goes on training one model."""
    kept = []

    def fit(x, y, rng):
        kept.append(x.T @ (2.0 * y - 1))
        return lambda asked: (asked @ sum(kept) > 0).astype(int)

    return fit


def careless():
    """A function that draws from elsewhere."""
    chance = np.random.default_rng(0)
    return lambda x, y, rng: lambda asked: chance.integers(0, 2, len(asked))


def counting():
    """A function that counts its calls, which no model learns from."""
    calls = []

    def fit(x, y, rng):
        calls.append(len(y))
        return line(x, y, rng)

    return fit


@pytest.mark.parametrize("made", [Hoarder, hoarding, careless])
def test_a_training_that_keeps_something_for_the_next_shard_is_refused(made, tmp_path):
    """Once it was trained, shard after shard: one record moved the votes of many teachers."""
    x, y = data()
    ledger = tacit.Ledger.create(str(tmp_path / "budget.db"), epsilon=99.0, delta=1e-4, unit="record")
    with pytest.raises(tacit.BadInput, match="keeps something between calls"):
        PATE(made(), **settings(ledger=ledger)).fit(x[:200], y[:200], x[200:])
    with pytest.raises(tacit.BadInput, match="keeps something between calls"):
        private_predictions(made(), x, y, x[:9], classes=[0, 1], epsilon=1.0, teachers=20, ledger=ledger)
    assert not ledger.entries()


def test_a_claim_says_what_it_assumes_of_somebodys_training():
    import torch
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    x, y = data()
    for made in (counting(), LogisticRegression(warm_start=True), SGDClassifier()):
        run = PATE(made, **settings()).fit(x[:200], y[:200], x[200:])
        assert KEEPS_NOTHING in run.evidence().upper.assumptions
    fleet = PATE(Network(functools.partial(torch.nn.Linear, 3, 2), steps=2), **settings()).fit(
        x[:200], y[:200], x[200:]
    )
    assert KEEPS_NOTHING not in fleet.bound_.assumptions
