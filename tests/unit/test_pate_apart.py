"""What one teacher's records, hooks, errors and warnings must not reach: the other teachers, and whoever looks on."""

import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import optimizer as everywhere

import tacit
from tacit.core import source
from tacit.fleet import Fleet, Steps, train_disjoint
from tacit.fleet.disjoint import _Training
from tacit.pate import PATE, GNMax, InteractiveGNMax, Network
from tacit.pate.release import ONCE
from tacit.pate.teachers import train
from tacit.pate.trying import KEEPS_NOTHING

TEACHERS, RECORDS = 5, 60


def data(n=RECORDS, width=4):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, width)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


def linear():
    return nn.Sequential(nn.Linear(4, 2))


def clipping(parameters):
    """Gradients of all parameters together are clipped, as an ordinary training loop does it."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)

    def before(*_):
        nn.utils.clip_grad_norm_(parameters, 0.1)

    optimizer.register_step_pre_hook(before)
    return optimizer


def scheduled(parameters):
    """A step that somebody has replaced."""
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    plain = optimizer.step

    def step(closure=None):
        nn.utils.clip_grad_norm_(parameters, 0.1)
        return plain(closure)

    optimizer.step = step
    return optimizer


def descending(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def trained(make, x, y, *, seed=0, steps=2, optimizer=descending, failed=None):
    """The weights of each model, after a training of one fleet."""
    generators = [np.random.default_rng([seed, k]) for k in range(TEACHERS)]
    fleet = Fleet(make, optimizer)
    shard = np.arange(len(x)) % TEACHERS
    models = train_disjoint(fleet, x, y, shard, Steps(steps, 6), generators, failed=failed)
    rows = [value.detach().flatten(1) for item in models.stacks for value in [next(iter(item.parameters.values()))]]
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("optimizer", [clipping, scheduled])
def test_an_optimizer_with_code_of_somebody_else_mixes_no_fleet(optimizer, monkeypatch):
    """A common norm of all models' gradients: one record moved every teacher, by a claim that they are apart."""
    x, y = data()
    odd = x.copy()
    odd[7] *= 50
    with pytest.raises(tacit.BadInput, match="may mix the models"):
        trained(linear, x, y, optimizer=optimizer)
    monkeypatch.setattr("tacit.fleet.optimizers._changed", lambda optimizer: False)
    moved = (trained(linear, x, y, optimizer=optimizer) != trained(linear, odd, y, optimizer=optimizer)).any(axis=1)
    assert moved.all()


def test_teachers_whose_optimizer_has_a_hook_are_trained_one_at_a_time():
    x, y = data()
    run = PATE(
        Network(linear, steps=2, optimizer=clipping), teachers=4, aggregator=GNMax(2.0), delta=1e-5, classes=[0, 1],
        random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="one at a time"):
        run.fit(x[:40], y[:40], x[40:])
    assert KEEPS_NOTHING in run.bound_.assumptions


def test_a_hook_for_all_optimizers_is_refused_too():
    handle = everywhere.register_optimizer_step_post_hook(lambda *_: None)
    try:
        with pytest.raises(tacit.BadInput, match="Hooks"):
            trained(linear, *data())
    finally:
        handle.remove()


class Chancy(nn.Module):
    """Whether an infinite number makes it raise depends on what dropout drops."""

    def __init__(self):
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(4, 2)

    def forward(self, x):
        x = self.drop(x)
        return self.last(x + 0 * torch.bernoulli(torch.sigmoid(x)) if self.training else x)


def by_itself(self, rows, rngs):
    """Which models raise if each is trained alone: with other random numbers than in the stack."""
    return [k for k, mine in enumerate(rows) if not self._survives([mine], rngs[k : k + 1])]


def chancy(value, failed):
    x, y = data()
    x[7, 0] = value
    return [trained(Chancy, x, y, seed=seed, failed=failed.append) for seed in range(12)]


def test_who_raises_is_found_with_the_numbers_that_made_it_raise(monkeypatch):
    """Found by a training of its own it may not raise again; the error then ended the run and told of the record."""
    failed = []
    plain, odd = chancy(0.5, failed), chancy(np.inf, failed)
    assert failed
    assert set(failed) == {7 % TEACHERS}
    others = np.arange(TEACHERS) != 7 % TEACHERS
    assert all((a[others] == b[others]).all() for a, b in zip(plain, odd, strict=True))
    monkeypatch.setattr(_Training, "_raising", by_itself)
    with pytest.raises(RuntimeError, match="p_in"):
        chancy(np.inf, [])


def test_warnings_about_a_shard_are_not_shown():
    def fit(x, y, rng):
        warnings.warn(f"the rarest class has {np.bincount(y).min()} records", stacklevel=1)

        def predict(asked):
            warnings.warn(f"of {len(x)} records", stacklevel=1)
            return (asked[:, 0] > 0).astype(int)

        return predict

    x, y = data()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = train(fit, x, y, np.arange(RECORDS) % TEACHERS, teachers=TEACHERS, classes=2, rng=source(0))
        votes = made.each(x)
    assert not seen
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # else such a teacher would vote for the most frequent class
        made = train(fit, x, y, np.arange(RECORDS) % TEACHERS, teachers=TEACHERS, classes=2, rng=source(0))
    assert (made.each(x) == votes).all()


def test_a_student_repeats_with_its_seed_whatever_torch_drew_before():
    def dropping():
        return nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 2))

    x, y = data(200)
    said = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        run = PATE(
            Network(linear, steps=3), student=Network(dropping, steps=5), teachers=4, aggregator=GNMax(2.0), delta=1e-5,
            classes=[0, 1], random_state=0,
        )  # fmt: skip
        before = torch.get_rng_state()
        said.append(run.fit(x[:100], y[:100], x[100:]).predict_proba(x))
        assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(*said)


def test_fleets_of_several_threads_take_turns():
    """Each draws from torch's one generator, as this augmentation does."""
    x, y = data()
    how = Network(linear, steps=40, augment=lambda batch, generator: batch + torch.randn(batch.shape))
    shard = np.arange(RECORDS) % TEACHERS

    def votes(seed):
        made = train(how, x, y, shard, teachers=TEACHERS, classes=2, rng=source(seed))
        return next(iter(made.models.stacks[0].parameters.values())).detach().numpy()

    alone = [votes(seed) for seed in range(4)]
    found = [None] * 4
    threads = [threading.Thread(target=lambda k=k: found.__setitem__(k, votes(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(a, b) for a, b in zip(alone, found, strict=True))


class Counting:
    """A ledger that counts charges."""

    charged = 0

    def charge(self, event, *, key=None, purpose=""):
        self.charged += 1


def logistic(**more):
    from sklearn.linear_model import LogisticRegression

    given = {"teachers": 4, "aggregator": GNMax(2.0), "delta": 1e-5, "classes": [0, 1], "random_state": 0}
    return PATE(LogisticRegression(), **(given | more))


def test_whole_numbers_may_be_floats():
    """teachers=4.0 was paid for, and raised then; with steps=3.0 all teachers abstained."""
    x, y = data(200)
    held = Counting()
    assert logistic(teachers=4.0, queries=10.0, ledger=held).fit(x[:100], y[:100], x[100:]).answered_ == 10
    assert held.charged == 1
    made = train(Network(linear, steps=3.0), x, y, np.arange(200) % 4, teachers=4, classes=2, rng=source(0))
    assert (made.each(x) >= 0).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"aggregator": InteractiveGNMax(3, 2, 2)}, "with rounds=1 there is none"),
        ({"student": "semisupervised"}, "semi-supervised"),
    ],
)
def test_settings_that_do_nothing_are_told_before_anything_is_paid(change, said):
    x, y = data(200)
    held = Counting()
    with pytest.raises(tacit.BadInput, match=said):
        logistic(**change, ledger=held).fit(x[:100], y[:100], x[100:])
    assert not held.charged


def test_a_released_bound_says_that_it_counts_one_release():
    x, y = data(400)
    run = logistic(aggregator=GNMax(3.0), queries=20).fit(x[:200], y[:200], x[200:])
    first, second = (run.release_bound(epsilon=0.5) for _ in range(2))
    assert all(ONCE in bound.assumptions for bound in (first, second))
    assert ONCE in run.evidence().provenance["data-dependent epsilon 2, meaning"]
