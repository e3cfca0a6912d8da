"""Fleets in parts, here and on Ray: bit for bit those of one process; they go on where they stopped; signals."""

import collections
import dataclasses
import datetime
import decimal
import functools
import itertools
import logging
import operator
import random
import re
import types

import numpy as np
import pytest
import torch
from torch import nn

import tacit.fleet.spread as spread_module
from tacit import BadInput, Plan
from tacit.fleet import Epochs, Fleet
from tacit.fleet.identity import described, made_of
from tacit.fleet.signals import signals
from tacit.fleet.spread import spread
from tacit.fleet.stack import stack
from tacit.train import checkpoint

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 40)
MODELS = 150
MEMBER = RNG.random((40, MODELS)) < 0.5
PLAN = Plan(20, rate=0.25, steps=4, noise_multiplier=1.0)
SCHEDULES = [Epochs(2, 10), PLAN]


def make():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def fleet(**more):
    return Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=0.5), models_at_once=64, **more)


def same(first, second):
    return all(
        torch.equal(value, other.parameters[name])
        for stack, other in zip(first.stacks, second.stacks, strict=True)
        for name, value in stack.parameters.items()
    )


@pytest.mark.parametrize("order", ["shared", "own"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=["plain", "private"])
def test_parts_are_the_whole(schedule, order):
    own = [3] if schedule is PLAN else []
    whole = fleet(order=order).train(X, Y, MEMBER, schedule, own=own, rng=1)
    parts = spread(fleet(order=order), X, Y, MEMBER, schedule, own=own, rng=1)
    assert same(whole, parts)
    assert not same(whole, spread(fleet(order=order), X, Y, MEMBER, schedule, own=own, rng=2))
    assert parts.randomness == whole.randomness
    np.testing.assert_array_equal(parts.logits(X), whole.logits(X))


@pytest.mark.slow
@pytest.mark.needs("ray")
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_what_one_process_gives(tmp_path):
    whole = fleet().train(X, Y, MEMBER, PLAN, rng=1)
    seen = []
    found = spread(
        fleet(), X, Y, MEMBER, PLAN, rng=1, workers=2, folder=tmp_path / "f", progress=lambda a, b: seen.append((a, b))
    )
    assert same(whole, found)
    assert seen[-1] == (MODELS, MODELS)
    assert len(list((tmp_path / "f").glob("part-*.pt"))) == 3


class Stop(Exception):
    pass


def interrupted(done, count):
    raise Stop


def test_an_interrupted_fleet_goes_on(tmp_path):
    trained = []

    def make_and_note():
        trained.append(1)
        return make()

    def stop(done, count):
        if done >= 128:
            raise Stop

    mine = Fleet(make_and_note, lambda parameters: torch.optim.SGD(parameters, lr=0.5), models_at_once=64)
    with pytest.raises(Stop):
        spread(mine, X, Y, MEMBER, PLAN, folder=tmp_path / "f", progress=stop)
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == ["fleet.pt", "part-0.pt", "part-1.pt"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "f").iterdir())
    seeds = checkpoint.read(tmp_path / "f" / "fleet.pt")["words"]
    trained.clear()
    found = spread(mine, X, Y, MEMBER, PLAN, folder=tmp_path / "f")
    assert len(trained) < MODELS - 64  # the last 22, and one to have its shape per part
    from tacit.fleet.spread import _Part

    words = seeds.numpy().view(np.uint64)
    assert same(found, fleet().train(X, Y, MEMBER, PLAN, rng=_Part(words, slice(0, MODELS))))
    assert "words" not in checkpoint.read(tmp_path / "f" / "fleet.pt")
    with pytest.raises(BadInput, match="another fleet"):  # what the maker holds may change what it makes
        spread(mine, X, Y, MEMBER, PLAN, folder=tmp_path / "f")
    trained.clear()
    assert same(found, spread(mine, X, Y, MEMBER, PLAN, folder=tmp_path / "f"))


def test_a_folder_holds_one_fleet(tmp_path):
    def go(member=MEMBER, rng=1, schedule=SCHEDULES[0], folder="f", stop=False):
        progress = interrupted if stop else None
        return spread(fleet(), X, Y, member, schedule, rng=rng, folder=tmp_path / folder, progress=progress)

    with pytest.raises(Stop):
        go(stop=True)
    for other in (2, None):  # a fleet from a seed is none from a secret
        with pytest.raises(BadInput, match="another seed"):
            go(rng=other)
    with pytest.raises(BadInput, match="another fleet"):
        go(member=~MEMBER)
    with pytest.raises(BadInput, match="another fleet"):
        go(schedule=Epochs(3, 10))
    assert same(go(), go())
    for other in (2, None):  # a finished fleet holds no seeds, and is told apart all the same
        with pytest.raises(BadInput, match="another seed"):
            go(rng=other)
    (tmp_path / "f" / "part-1.pt").unlink()
    with pytest.raises(BadInput, match="lacks a part"):
        go()
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "fleet.pt").write_text("no", encoding="utf-8")
    with pytest.raises(BadInput, match="not a checkpoint"):
        go(folder="g")


@pytest.mark.parametrize("network", ["linear", "any"])
def test_signals_in_parts_on_disk_are_those_in_memory(tmp_path, network):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make()

        def forward(self, x):
            return self.inner(x)

    start = make if network == "linear" else Wrapped
    member = MEMBER[:, :70]
    models = Fleet(start, models_at_once=64).train(X, Y, member, Epochs(1, 10), rng=1)
    names = ("loss", "margin", "probability", "logits", "gradient_norm")
    found = signals(models, X, Y, member=member, names=names, folder=tmp_path, rows=7)
    expected = models.observations(X, Y, member)
    for name in names[:-1]:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy", mmap_mode="r"), getattr(found, name))
    model = start()
    for k in (0, 69):
        stack, place = models.stacks[k // 64], k % 64
        model.load_state_dict({name: value[place] for name, value in stack.parameters.items()})
        model.zero_grad()
        nn.functional.cross_entropy(model(torch.as_tensor(X[3:4])), torch.as_tensor(Y[3:4])).backward()
        norm = np.sqrt(sum(float(value.grad.square().sum()) for value in model.parameters()))
        assert found.gradient_norm[3, k] == pytest.approx(norm, rel=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda models: signals(models, X, Y[:5]),
        lambda models: signals(models, X, Y, names=("luck",)),
        lambda models: signals(models, X, Y, names=()),
        lambda models: signals(models, X, Y, rows=0),
        lambda models: spread(fleet(), X, Y, MEMBER[:, 0], SCHEDULES[0]),
        lambda models: spread(fleet(), X, Y, MEMBER, SCHEDULES[0], workers=-1),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call(fleet().train(X, Y, MEMBER[:, :2], Epochs(1, 20), rng=1))


class Squared(nn.Tanh):
    def forward(self, x):
        return x * x


FACTOR = 2.0


class Scaled(nn.Module):
    """A setting that neither the weights nor `extra_repr` show, and a helper that `forward` calls."""

    def __init__(self, scale, helper=None):
        super().__init__()
        self.layer, self.scale, self.helper = nn.Linear(4, 3), scale, helper

    def forward(self, x):
        x = x if self.helper is None else self.helper(x)
        return self.scale * self.layer(x)


def _written(number):
    """A class whose forward holds a number, under one name whatever the number is."""
    body = {}
    exec(f"def forward(self, x):\n    return {number} * self.layer(x)", body)
    return type("Written", (Scaled,), {"forward": body["forward"]})


def _times(factor):
    return lambda x: factor * x


class Halving(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)


class Doubling(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        return super().step(closure)


Doubling.__qualname__ = Halving.__qualname__


def _with_rule(template, parameters, rule):
    return stack(template, parameters)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Fleet(lambda: Scaled(1.0)), Fleet(lambda: Scaled(5.0))),
        (Fleet(lambda: Scaled([1.0, {"a": 2}])), Fleet(lambda: Scaled([1.0, {"a": 3}]))),
        (Fleet(lambda: Scaled(torch.zeros(2))), Fleet(lambda: Scaled(torch.ones(2)))),
        (Fleet(lambda: _written(2.0)(1.0)), Fleet(lambda: _written(3.0)(1.0))),
        (Fleet(lambda: Scaled(1.0, _times(2.0))), Fleet(lambda: Scaled(1.0, _times(3.0)))),
        (Fleet(make, functools.partial(Halving, lr=0.1)), Fleet(make, functools.partial(Doubling, lr=0.1))),
        (
            Fleet(make, stack=functools.partial(_with_rule, rule=1.0)),
            Fleet(make, stack=functools.partial(_with_rule, rule=2.0)),
        ),
    ],
    ids=["setting", "nested", "tensor", "constant", "closure", "optimizer's code", "rule"],
)
def test_what_weights_do_not_show_is_sealed(one, other):
    assert made_of(one)[0] == made_of(one)[0]
    assert made_of(one)[0] != made_of(other)[0]


class Attribute(torch.optim.SGD):
    def __init__(self, parameters, times):
        super().__init__(parameters, lr=0.1)
        self.times = times


def _hooked(times):
    made = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    made.register_step_pre_hook(_times(times))
    return made


def _by_size(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.1 if len(parameters) == 1 else rate)


def _by_chance(size):
    def start():
        layer = nn.Linear(4, 3)
        with torch.no_grad():
            layer.weight.mul_(1.0 if torch.rand(()) < 2.0 else size)
        return layer

    return start


def _hung(name, times):
    layer = nn.Linear(4, 3)
    if name == "gradient":
        layer.weight.register_hook(_times(times))
    elif name == "training":
        layer.train(times > 2)
    else:
        getattr(layer, f"register_{name}")(_times(times))
    return layer


@pytest.mark.parametrize(
    "fleet_of",
    [
        lambda k: Fleet(make, functools.partial(Attribute, times=k)),
        lambda k: Fleet(make, lambda parameters: _hooked(k)),
        lambda k: Fleet(make, _by_size(k)),
        lambda k: Fleet(_by_chance(k)),
        lambda k: Fleet(_hung("forward_hook", k)),
        lambda k: Fleet(_hung("forward_pre_hook", k)),
        lambda k: Fleet(_hung("full_backward_hook", k)),
        lambda k: Fleet(_hung("gradient", k)),
        lambda k: Fleet(_hung("training", k)),
    ],
    ids=["attribute", "step hook", "size", "chance", "hook", "pre-hook", "backward hook", "gradient hook", "mode"],
)
def test_what_hangs_on_networks_and_optimizers_is_sealed(fleet_of):
    """Nine ways to change a fleet between two runs that a folder of finished parts once accepted."""
    assert made_of(fleet_of(2.0))[0] == made_of(fleet_of(2.0))[0]
    assert made_of(fleet_of(2.0))[0] != made_of(fleet_of(3.0))[0]


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate):
        self.rate = rate


def _kind(**parts):
    return type("Kind", (Scaled,), {"__module__": __name__, **parts})


def _doubled(self):
    return 2.0


def _tripled(self):
    return 3.0


FIRST, SECOND = {"a": 1}, {"a": 2}


@dataclasses.dataclass
class Settings:
    rate: float


class Given:
    """A descriptor: what a class's attribute is worth."""

    def __init__(self, rate):
        self.rate = rate

    def __get__(self, owner, kind):
        return self.rate


def _with_attribute(rate):
    def helper(x):
        return helper.rate * x

    helper.rate = rate
    return helper


def _of_module(**parts):
    """A function that reads a module of the user's own: a function, an object, a module within it."""
    own, inner = types.ModuleType("helpers_of_somebody"), types.ModuleType("helpers_of_somebody.inner")
    vars(own).update(parts, inner=inner)
    inner.RATE = parts.get("inner_rate")
    body = {"own": own}
    exec("def reading(x):\n    return own.scale(x) * own.conf.rate * own.inner.RATE", body)
    return body["reading"]


UNSEEN = {
    "attribute of a function": _with_attribute,
    "function of a module": lambda k: _of_module(scale=_times(k)),
    "object of a module": lambda k: _of_module(conf=Settings(k)),
    "module of a module": lambda k: _of_module(inner_rate=k),
    "class's object": lambda k: _kind(conf=Settings(k)),
    "class's number": lambda k: _kind(rate=np.float32(k)),
    "class's layer": lambda k: _kind(layer=nn.LeakyReLU(k)),
    "class's partial": lambda k: _kind(rule=functools.partial(torch.mul, k)),
    "class's method": lambda k: _kind(forward=functools.partialmethod(Scaled.forward, k)),
    "cached property": lambda k: _kind(rate=functools.cached_property(_doubled if k == 2 else _tripled)),
    "descriptor": lambda k: _kind(rate=Given(k)),
    "range": range,
    "slice": slice,
    "queue": lambda k: collections.deque([k]),
    "decimal": lambda k: decimal.Decimal(k),
    "getter": operator.itemgetter,
    "caller": lambda k: operator.methodcaller("mul", k),
    "pattern": lambda k: re.compile(f"a{k}"),
    "time": lambda k: datetime.timedelta(k),
    "random": random.Random,
    "numpy's generator": np.random.default_rng,
    "torch's generator": lambda k: torch.Generator().manual_seed(k),
    "bytes": lambda k: bytearray([k]),
    "iterator": lambda k: iter([k]),
    "repeat": lambda k: itertools.repeat(k),
    "cached function": lambda k: functools.lru_cache(_times(k)),
}
"""Settings by a number that a folder of finished parts once did not see."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Slotted(1.0), Slotted(2.0)),
        (_kind(sizes=(4, 2)), _kind(sizes=(8, 2))),
        (_kind(rate=property(_doubled)), _kind(rate=property(_tripled))),
        (_kind(rate=staticmethod(_doubled)), _kind(rate=staticmethod(_tripled))),
        ([FIRST, SECOND, FIRST], [FIRST, SECOND, SECOND]),
        (np.tanh, np.sin),
        (np.array([_doubled, 1], dtype=object), np.array([_tripled, 1], dtype=object)),
        (torch.zeros(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
        (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.float16)),
        *((make(2), make(3)) for make in UNSEEN.values()),
    ],
    ids=[
        *("slots", "tuple", "property", "static", "seen before", "ufunc", "objects", "bfloat16", "precision"),
        *UNSEEN,
    ],
)
def test_settings_that_were_not_read(one, other):
    assert described(one) == described(one)
    assert described(one) != described(other)


def test_a_network_in_bfloat16_is_sealed():
    made, weights = made_of(Fleet(lambda: make().bfloat16()))
    assert made != made_of(Fleet(make))[0]
    assert all(np.isfinite(part).all() for part in weights)


def test_globals_of_inner_functions_and_of_own_modules_are_sealed(monkeypatch):
    def helper(x):
        return [FACTOR * each for each in x], (lambda: FACTOR)()

    own = types.ModuleType("settings_of_somebody")
    own.RATE = 1.0
    monkeypatch.setitem(globals(), "SETTINGS", own)

    def reading(x):
        return SETTINGS.RATE * x  # noqa: F821

    before = described(helper), described(reading)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    own.RATE = 2.0
    assert described(helper) != before[0]
    assert described(reading) != before[1]


def test_a_global_that_forward_reads_is_sealed(monkeypatch):
    def helper(x):
        return FACTOR * x

    mine = Fleet(lambda: Scaled(1.0, helper))
    before = made_of(mine)[0]
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert made_of(mine)[0] != before


def test_what_a_library_keeps_does_not_change_a_description():
    """A logger, whose state hangs on what else was imported and written, made every fleet another one."""
    logger = logging.getLogger("somebody")

    def forward(x):
        logger.debug("called")
        return x

    before = described(forward)
    logger.setLevel(logging.ERROR)
    logging.getLogger("somebody.else").isEnabledFor(logging.DEBUG)
    assert described(forward) == before
    assert len(str(before)) < 2000


def test_a_description_holds_no_address():
    for value in (object(), Scaled(1.0, _times(2.0)), _times, Fleet, torch.optim.SGD, [lambda: 1], {1: {2, 3}}):
        assert "0x" not in str(described(value))


@pytest.mark.parametrize(
    "other",
    [
        Fleet(make, lambda parameters: torch.optim.Adam(parameters, lr=0.5), models_at_once=64),
        Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=0.4), models_at_once=64),
        Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=0.5, momentum=0.9), models_at_once=64),
        Fleet(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), fleet().optimizer, models_at_once=64),
        Fleet(lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), fleet().optimizer, models_at_once=64),
        Fleet(lambda: nn.Sequential(nn.Linear(4, 5), Squared(), nn.Linear(5, 3)), fleet().optimizer, models_at_once=64),
        Fleet(make(), fleet().optimizer, models_at_once=64),
    ],
    ids=["optimizer", "learning rate", "momentum", "width", "activation", "forward", "start"],
)
def test_another_network_or_optimizer_is_another_fleet(tmp_path, other):
    with pytest.raises(Stop):
        spread(fleet(), X, Y, MEMBER, SCHEDULES[0], rng=1, folder=tmp_path / "f", progress=interrupted)
    with pytest.raises(BadInput, match="another fleet"):
        spread(other, X, Y, MEMBER, SCHEDULES[0], rng=1, folder=tmp_path / "f")


@pytest.mark.parametrize("place", ["link", "replace", "fsync", "unlink"])
def test_a_process_that_ends_while_it_forgets_the_seeds_loses_no_model(tmp_path, monkeypatch, place):
    """All parts are there; what is left of the seeds is destroyed by the next call, and nothing else is."""
    import os
    from pathlib import Path

    class Killed(BaseException):
        pass

    whole = fleet().train(X, Y, MEMBER, PLAN, rng=1)
    folder, ready = tmp_path / "f", []

    def armed(real):
        def call(*given, **more):
            if ready:
                ready.clear()
                raise Killed
            return real(*given, **more)

        return call

    owner = os if place in ("link", "fsync") else Path
    monkeypatch.setattr(owner, place, armed(getattr(owner, place)))
    real = spread_module._Store.forget

    def forget(store):
        ready.append("words" in store._state)
        real(store)

    monkeypatch.setattr(spread_module._Store, "forget", forget)
    with pytest.raises(Killed):
        spread(fleet(), X, Y, MEMBER, PLAN, rng=1, folder=folder)
    monkeypatch.undo()
    assert same(whole, spread(fleet(), X, Y, MEMBER, PLAN, rng=1, folder=folder))
    assert "words" not in checkpoint.read(folder / "fleet.pt")
    assert not [path for path in folder.iterdir() if "old" in path.name]
