"""One record, or one user, changes at most one teacher's vote: over the whole pipeline, from data to counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.pate import PATE, GNMax, Network
from tacit.pate import shards as shards_room
from tacit.pate import teachers as teachers_room

CLASSES, TEACHERS, FEATURES = 3, 6, 2


def centroids(x, y, rng):
    """A training of somebody's: the nearest mean, which fails on values that are not finite."""
    assert np.isfinite(x).all()
    noise = rng.normal(size=(CLASSES, FEATURES)) * 1e-3
    means = np.array([x[y == k].mean(axis=0) if (y == k).any() else np.full(FEATURES, 1e9) for k in range(CLASSES)])
    return lambda asked: (((asked[:, None] - means - noise) ** 2).sum(axis=2)).argmin(axis=1)


def scaled_in_place(x, y, rng):
    """A training that scales by its own shard's values, its inputs in place, as a scaler with copy=False does."""
    middle = x.mean(axis=0)

    def predict(asked):
        asked -= middle
        return centroids(x - middle, y, rng)(asked)

    return predict


def small_network():
    from torch import nn

    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def shaken(x, generator):
    import torch

    return x + torch.randn(x.shape, generator=generator)


TRAININGS = {
    "function": centroids,
    "in place": scaled_in_place,
    "fleet": Network(small_network, steps=4, batch_size=4),
    "augmented": Network(small_network, steps=12, batch_size=4, lr=0.3, augment=shaken),
}


def voted(teacher, x, y, public, users):
    """Every teacher's vote on every public input; the answers that are released have noise, these have none."""
    run = PATE(
        teacher, student=lambda a, b, rng: lambda asked: np.zeros(len(asked)), teachers=TEACHERS, aggregator=GNMax(5.0),
        delta=1e-6, classes=range(CLASSES), random_state=7,
    )  # fmt: skip
    return run.fit(x, y, public, users).teacher_votes().each(public)


def changed(x, y, users, who, how, rng):
    """A neighbouring data set: all records of `who` are removed, or made into something else."""
    mine = users == who
    if how == "removed":
        return x[~mine], y[~mine], users[~mine]
    x, y = x.copy(), y.copy()
    if how == "strange":
        x[mine], y[mine] = np.nan, 99
    else:
        x[mine], y[mine] = rng.normal(size=(mine.sum(), FEATURES)) * 50, rng.integers(0, CLASSES, mine.sum())
    return x, y, users


def touched(before, after):
    return int((before != after).any(axis=0).sum())


@pytest.mark.parametrize("kind", TRAININGS)
@given(seed=st.integers(0, 2**20), how=st.sampled_from(["removed", "strange", "exchanged"]), each=st.integers(1, 3))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_one_unit_touches_one_teacher(kind, seed, how, each):
    rng = np.random.default_rng(seed)
    people = int(rng.integers(12, 30))
    users = np.repeat(np.arange(people), each)[rng.permutation(people * each)]
    x = rng.normal(size=(users.size, FEATURES)).astype(np.float32)
    y, public = rng.integers(0, CLASSES, users.size), rng.normal(size=(9, FEATURES)).astype(np.float32)
    before = voted(TRAININGS[kind], x, y, public, users)
    other = changed(x, y, users, int(rng.integers(people)), how, rng)
    after = voted(TRAININGS[kind], *other[:2], public, other[2])
    assert touched(before, after) <= 1
    counts = [(votes[:, :, None] == np.arange(CLASSES)).sum(axis=1) for votes in (before, after)]
    moved = np.abs(counts[0] - counts[1])
    assert moved.sum(axis=1).max() <= 2
    assert np.linalg.norm(moved, axis=1).max() <= np.sqrt(2) + 1e-12
    assert np.abs(counts[0].max(axis=1) - counts[1].max(axis=1)).max() <= 1


@pytest.mark.parametrize("kind", TRAININGS)
def test_a_record_without_an_id_touches_one_teacher(kind):
    """Exchanged in its place, or added at the end: the others keep their shards."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, FEATURES)).astype(np.float32)
    y, public = rng.integers(0, CLASSES, 40), rng.normal(size=(30, FEATURES)).astype(np.float32)
    before = voted(TRAININGS[kind], x, y, public, None)
    fewer = voted(TRAININGS[kind], x[:-1], y[:-1], public, None)
    other = x.copy()
    other[3] = 1e6
    assert touched(before, fewer) <= 1
    assert touched(before, voted(TRAININGS[kind], other, y, public, None)) <= 1


def test_shards_that_depend_on_others_are_caught(monkeypatch):
    """A mutant: records dealt out by their rank, as a split of a sorted list does."""
    monkeypatch.setattr(shards_room, "hashed", lambda ids, teachers, key: np.arange(len(ids)) % teachers)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, FEATURES)).astype(np.float32)
    y, public, users = rng.integers(0, CLASSES, 40), rng.normal(size=(30, FEATURES)).astype(np.float32), np.arange(40)
    before = voted(centroids, x, y, public, users)
    assert touched(before, voted(centroids, x[1:], y[1:], public, users[1:])) > 1


def test_a_shared_generator_is_caught():
    """A mutant: teachers that draw from one stream one after another, so one more draw moves all later ones."""

    class Shared:
        def __init__(self):
            self.rng = np.random.default_rng(0)

        def spawn(self, count):
            return [self] * count

        def generator(self):
            return self.rng

    def noisy(x, y, rng):
        label = rng.integers(0, CLASSES, 1 + len(y))[-1]
        return lambda asked: np.full(len(asked), label)

    y, public = np.arange(60) // 7 % CLASSES, np.zeros((5, FEATURES))
    x, shard = np.zeros((60, FEATURES)), np.arange(60) % TEACHERS
    own = {"teachers": TEACHERS, "classes": CLASSES}
    before = teachers_room.train(noisy, x, y, shard, rng=Shared(), **own).each(public)
    after = teachers_room.train(noisy, x[1:], y[1:], shard[1:], rng=Shared(), **own).each(public)
    assert touched(before, after) > 1
