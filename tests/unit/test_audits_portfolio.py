"""Canaries that show preprocessing, the pilot that chooses among them, and what a run is judged by."""

import numpy as np
import pytest

from preprocessing_fits import CLAIM, average, descent, largest, prepared, public, table, vocabulary
from tacit.audits import CANARIES, audit
from tacit.audits.canary import UNUSUAL, fitting, pair
from tacit.audits.makers import UNSEEN, categorical, twins
from tacit.audits.run_statistics import OWN, TWIN, quality, statistics
from tacit.audits.runs.tasks import Watched
from tacit.core import Adjacency, NotFinished, Verdict


@pytest.mark.parametrize(
    ("prepare", "canary"), [(vocabulary, {"rare"}), (largest, {"outlier", "contrary"}), (average, {"outlier"})]
)
def test_preprocessing_read_off_the_data_is_found_and_named(prepare, canary):
    evidence = audit(prepared(prepare), table(), claim=CLAIM, runs=600, rng=1, isolation="none")
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.lower.canary in canary
    assert set(evidence.provenance["canaries_tried"].split(", ")) == set(fitting(table()[0]))
    assert evidence.provenance["seen_by"] != OWN or evidence.lower.canary == "contrary"


def test_the_same_with_public_facts_stands_and_the_pilot_is_paid_from_the_runs():
    evidence = audit(prepared(public), table(), claim=CLAIM, runs=600, rng=1, isolation="none")
    assert evidence.verdict is Verdict.CONSISTENT
    told = evidence.provenance
    assert told["pilot_runs"] + told["runs_planned"] == 600
    assert 100 < told["pilot_runs"] <= 120


def test_the_canaries_of_before_do_not_see_it():
    for canary in ("blank", "mislabelled"):
        evidence = audit(prepared(vocabulary), table(), claim=CLAIM, canary=canary, runs=300, rng=1, isolation="none")
        assert evidence.verdict is not Verdict.REFUTED


def test_a_canary_that_no_training_ends_with_is_left_out_and_named():
    def strict(x, y, rng):
        if np.isnan(x).any():
            raise ValueError("missing")
        return prepared(public)(x, y, rng)

    evidence = audit(strict, table(), claim=CLAIM, runs=200, rng=2, isolation="none")
    assert evidence.provenance["canaries_left_out"] == "missing"
    assert evidence.provenance["runs_failed"] == 0


def test_nothing_ends():
    def never(x, y, rng):
        raise ValueError

    with pytest.raises(NotFinished, match="raised ValueError"):
        audit(never, table(), claim=CLAIM, runs=200, rng=2, isolation="none")


def test_a_model_that_raises_on_strange_records_is_asked_for_each_alone():
    """A strict vocabulary raises on the canary when it was not learned: an answer like any other, and no failed run."""

    def strict(x, y, rng):
        known = {value: place for place, value in enumerate(np.unique(x[:, 3]))}
        model = descent(np.clip(x[:, :3], -1, 1), y, rng)

        def predict(q):
            [known[value] for value in q[:, 3]]
            return model(np.clip(q[:, :3], -1, 1))

        return predict

    evidence = audit(strict, table(), claim=CLAIM, runs=300, rng=1, isolation="none")
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.provenance["runs_failed"] == 0


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, bool])
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_canaries_keep_the_kind_of_the_data(name, kind):
    x = (np.random.default_rng(0).integers(0, 3, (30, 4))).astype(kind)
    if name not in fitting(x):
        assert (name, kind) in {("missing", k) for k in (np.int64, np.uint8, bool)} | {
            ("contrary", bool),
            ("outlier", bool),
            ("rare", bool),
        }
        return
    made = pair(x, np.arange(30) % 2, CANARIES[name], np.random.default_rng(1), Adjacency.ADD_REMOVE)
    assert made.canary_x.dtype == x.dtype
    if name == "rare":
        assert (made.canary_x > x.max(axis=0)).all()
    if name == "outlier" and kind == np.float32:
        assert (np.abs(made.canary_x) == 1000 * x.max()).all()
    if name == "outlier" and kind == np.uint8:
        assert (made.canary_x == 255).all()


@pytest.mark.parametrize("name", ["contrary", "outlier"])
def test_contrary_values_lie_where_records_of_the_label_do_not(name):
    rng = np.random.default_rng(0)
    y = (np.arange(90) % 3 == 0).astype(np.int64)  # label 1 is the rarest
    x = rng.normal(size=(90, 3)) + y[:, None] * np.array([2.0, -2.0, 3.0])
    x[::7, 2] = np.nan
    record, label = CANARIES[name](x, y, rng)
    assert label == 1
    assert np.sign(record).tolist() == [-1.0, 1.0, -1.0]
    low, high = np.nanmin(x, axis=0), np.nanmax(x, axis=0)
    assert ((record < low) | (record > high)).all()


def test_contrary_values_of_columns_that_say_nothing_are_numbers():
    x = np.column_stack([np.full(20, np.nan), np.full(20, 3.0), np.linspace(0, 1, 20), np.full(20, np.inf)])
    record, _ = CANARIES["contrary"](x, np.arange(20) % 2, np.random.default_rng(0))
    assert np.isfinite(record).all()


def test_words_can_be_rare():
    x = np.array([["red", "a"], ["blue", "b"], ["red", "b"]], dtype=object)
    assert fitting(x) == ("mislabelled", "rare", "missing", "duplicate")
    record, label = CANARIES["rare"](x, np.array([0, 1, 0]), np.random.default_rng(0))
    assert (record == UNSEEN).all()
    assert label == 1
    assert [(other != record).sum() for other in twins(x, record)] == [1, 1]


def test_what_looks_like_a_category():
    x = np.column_stack(
        [np.arange(40) % 4, np.linspace(0, 1, 40), np.full(40, 2.0), np.arange(40), -(np.arange(40) % 2)]
    )
    assert categorical(x).tolist() == [True, False, False, False, False]
    top = np.full((20, 1), 255, dtype=np.uint8)
    top[::2] = 0
    record, _ = CANARIES["rare"](top, np.arange(20) % 2, np.random.default_rng(0))
    assert record[0] == 1  # nothing lies above 255


def test_one_seen_record_is_the_same_alone_and_among_others():
    x, y = table(20)
    pairs = tuple(
        pair(x, y, CANARIES[name], np.random.default_rng(0), Adjacency.REPLACE) for name in ("outlier", "missing")
    )
    task = Watched(lambda x, y, rng: lambda q: np.stack([q[:, 0], np.full(len(q), len(x))], axis=1), pairs)
    found, problem = task(1, (1, 2, 3, 4))
    assert problem == ""
    assert found.shape == (len(task.seen_x),) == (len(task.seen_y),)
    assert np.isnan(found[task.column(1)])  # its first feature is missing, so is the answer
    assert len(task.pairs[0].data(True)[0]) == 20
    x_all, _, member = task._pool(np.array([-1, 0, 1]))
    assert member[-3:].T.tolist() == [[True, False, False], [False, True, False], [False, False, True]]
    for column, which in enumerate((-1, 0, 1)):
        mine = pairs[which].data(True)[0] if which >= 0 else pairs[0].data(False)[0]
        np.testing.assert_array_equal(x_all[member[:, column]], mine)


def test_statistics_see_what_they_are_for():
    rng = np.random.default_rng(0)
    outside = rng.normal(size=(40, 8))
    names = {}
    for kind, change in {
        "own": lambda m: m + 4 * (np.arange(8) == 5),
        "far": lambda m: m + 6 * rng.choice([-1, 1], (40, 1)) * (np.arange(8) == 5),
        "flat": lambda m: np.where(np.arange(8) < 5, 0.05 * m, m),
        "silent": lambda m: np.where(np.arange(8) == 6, np.nan, m),
        "twin": lambda m: m + 0.1 * (np.arange(8) == 7),
    }.items():
        base = outside.copy()
        base[:, 7] = base[:, 5]
        inside = rng.normal(size=(40, 8))
        inside[:, 7] = inside[:, 5]
        inside = change(inside)
        coins = np.repeat([True, False], 40)
        both = np.concatenate((inside, base))
        twin = [7] * (kind == "twin")
        found = {name: quality(use(both), coins) for name, use in statistics(inside, base, 5, 5, twin)}
        names[kind] = sorted(found, key=found.get)[-3:]
    assert OWN in names["own"]
    assert any("far" in name for name in names["far"])
    assert "how much the model tells records apart" in names["flat"]
    assert "how many records have no answer" in names["silent"]
    assert TWIN in names["twin"]
