"""Generators that a training keeps: found wherever they are, and started afresh for every run."""

import contextlib
import contextvars
import functools
import itertools
import random
import sys
import time
import types

import numpy as np
import pytest

from tacit.audits.canary import Pair
from tacit.audits.planting import OneSeed
from tacit.audits.runs import generators as libraries
from tacit.audits.runs import workers
from tacit.audits.runs.batched import Call
from tacit.audits.runs.generators import fixed, generators, given_back, started_afresh
from tacit.audits.runs.tasks import Run
from tacit.audits.runs.workers import Job, run_all
from tacit.core import Adjacency

RNG = np.random.default_rng(3)


def drawing(coin, words):
    """A run that draws its noise from a generator of its module."""
    return float(RNG.normal()), ""


def jobs(count, first=0):
    return [Job(True, (first + k, 1, 2, 3)) for k in range(count)]


def scores(task, calls=2, isolation="process"):
    given = {"isolation": isolation, "limit": 600.0, "deadline": time.monotonic() + 600.0}
    return [result.score for call in range(calls) for result in run_all(task, jobs(6, 10 * call), **given)]


def test_forked_runs_do_not_repeat_each_other_s_noise():
    """Every call forks workers with the same state: a true claim was refuted in 5 of 12 audits."""
    found = scores(drawing)
    assert len(set(found)) == len(found) == 12
    assert found == scores(drawing, isolation="none")


def test_without_a_fresh_start_they_do(monkeypatch):
    """The mutant."""
    monkeypatch.setattr(workers, "started_afresh", lambda task, words: None)
    assert len(set(scores(drawing))) < 12


class Slotted:
    __slots__ = ("noise", "unset")

    def __init__(self, noise):
        self.noise = noise


class Odd:
    """Attributes raise, and it has no hash."""

    __hash__ = None

    def __init__(self, noise):
        self.noise = noise

    def __eq__(self, other):
        raise ValueError

    def __call__(self, x, y, rng):
        return self.noise.random()

    @property
    def broken(self):
        raise RuntimeError


def holders():
    """Where a training may keep a generator, by name."""

    def closed(noise):
        return lambda x, y, rng: noise

    def default(noise):
        return lambda x, y, rng, use=noise: use

    def moved(noise):
        module = types.ModuleType("somebodys_noise")
        module.__file__, module.RNG = "/somewhere/somebodys_noise.py", noise
        sys.modules["somebodys_noise"] = module
        return lambda x, y, rng: module

    return {
        "closure": closed, "default": default, "module": moved, "slot": Slotted, "odd": Odd,
        "method": lambda noise: Odd(noise).__call__, "partial": lambda noise: functools.partial(print, noise),
        "containers": lambda noise: closed([{"a": (noise,)}]),
    }  # fmt: skip


@pytest.mark.parametrize("place", holders())
@pytest.mark.parametrize(
    "make",
    [np.random.default_rng, np.random.RandomState, np.random.Philox, random.Random],
    ids=lambda make: make.__name__,
)
def test_generators_are_found_and_started_by_the_words_of_a_run(place, make):
    noise = make(5)
    draw = {np.random.Philox: lambda: noise.random_raw()}.get(make, lambda: noise.random())
    fit = holders()[place](noise)
    assert any(item is noise for item in generators(fit))
    drawn = []
    for words in ((1, 2), (1, 2), (3, 2)):
        started_afresh(fit, words)
        drawn.append(draw())
    assert drawn[0] == drawn[1] != drawn[2]


def test_normal_numbers_that_were_drawn_in_advance_are_forgotten():
    noise = np.random.RandomState(5)

    def fit(x, y, rng):
        return noise

    started_afresh(fit, (1, 2))
    first = noise.normal(size=3).tolist()
    started_afresh(fit, (1, 2))
    assert noise.normal(size=3).tolist() == first


def test_huge_and_circular_things_are_no_trouble():
    circle = [np.random.default_rng(1), list(range(10**6))]
    circle.append(circle)
    assert len(generators(functools.partial(print, circle))) == 1


def test_one_seed_for_all_runs_is_still_one_seed():
    """The planted fault reaches generators of the module, too."""

    def fit(x, y, rng):
        return RNG.normal()

    fault = OneSeed(fit)
    started_afresh(fault, (8, 9))
    first = fault(None, None, None)
    started_afresh(fault, (9, 9))
    assert fault(None, None, None) == first


def drawn_by(kind):
    """A generator with entropy of the machine, and a draw from it."""
    import torch

    made = {"numpy": np.random.default_rng, "old": np.random.RandomState, "python": random.Random}
    noise = torch.Generator() if kind == "torch" else made[kind]()
    if kind == "torch":
        noise.seed()
    return noise, lambda: torch.rand(1, generator=noise).item() if kind == "torch" else noise.random()


def ambient():
    import torch

    return random.random(), np.random.random(), torch.rand(1).item()


@pytest.mark.parametrize("kind", ["numpy", "old", "python", "torch"])
@pytest.mark.parametrize("failing", [False, True])
def test_runs_here_leave_every_generator_as_it_was(kind, failing):
    """The caller may draw real noise afterwards: it followed from the audit's seed, or from this code's own words."""
    draw = drawn_by(kind)[1]

    def task(coin, words):
        if failing:
            raise KeyboardInterrupt
        return OneSeed(lambda x, y, rng: draw())(None, None, None), ""

    def after():
        with pytest.raises(KeyboardInterrupt) if failing else contextlib.nullcontext():
            scores(task, calls=1, isolation="none")
        return draw(), *ambient()

    first = after()
    assert all(a != b for a, b in zip(first, after(), strict=True))


def test_without_their_states_given_back_they_draw_what_is_known(monkeypatch):
    """The mutant."""
    monkeypatch.setattr(workers, "given_back", lambda task: contextlib.nullcontext())
    draw = drawn_by("numpy")[1]
    found = [(scores(lambda coin, words: (draw(), ""), calls=1, isolation="none"), draw())[1] for _ in range(2)]
    assert found[0] == found[1]


def test_seeds_that_were_written_down_are_counted():
    import torch

    unseeded, sequence = torch.Generator(), np.random.SeedSequence(7).spawn(1)[0]
    written = [np.random.default_rng(0), np.random.Philox([1, 2]), np.random.default_rng(sequence)]
    written += [torch.Generator().manual_seed(3), unseeded]  # without a seed, torch takes a constant
    drawn = [np.random.default_rng(), np.random.PCG64(), np.random.default_rng(1 << 120)]
    drawn += [drawn_by("torch")[0], random.Random(0)]  # which does not keep its seed
    assert fixed(functools.partial(print, written)) == len(written)
    assert fixed(functools.partial(print, drawn)) == 0


def test_what_is_put_around_a_training_does_not_hide_where_it_comes_from(monkeypatch):
    """An installed package of the user's own: its modules were taken for a library's in planted and batched runs."""
    module = types.ModuleType("theirs")
    module.__file__ = f"{libraries._LIBRARIES[0]}/theirs.py"
    exec("import numpy as np\nRNG = np.random.default_rng()\ndef fit(x, y, rng): return RNG.random()", vars(module))
    monkeypatch.setitem(sys.modules, "theirs", module)
    pair = Pair(np.zeros((2, 1)), np.array([0, 1]), np.zeros((1, 1)), np.array([0]), Adjacency.ADD_REMOVE)
    for task in (module.fit, OneSeed(module.fit), Call(Run(OneSeed(module.fit), pair))):
        assert generators(task) == (module.RNG,)


def test_generators_behind_inherited_methods_are_found(monkeypatch):
    """A subclass that only sets an attribute: its own module says nothing of the one in which the method lives."""
    base, child = types.ModuleType("base_of_mine"), types.ModuleType("child_of_mine")
    base.__file__, child.__file__ = "/mine/base.py", "/mine/child.py"
    for module in (base, child):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("import numpy\nRNG = numpy.random.default_rng()\nclass Fit:\n    def __call__(self): return RNG", vars(base))
    exec("class Fit(__import__('base_of_mine').Fit):\n    rate = 0.5", vars(child))
    assert generators(child.Fit()) == (base.RNG,)


def endless(noise):
    while True:
        yield noise.normal()


class Hidden:
    __slots__ = ("__noise",)

    def __init__(self, noise):
        self.__noise = noise

    def draw(self):
        return self.__noise.normal()


class OneSlot:
    __slots__ = "noise"

    def __init__(self, noise):
        self.noise = noise


def remembered(noise):
    kept = functools.lru_cache(lambda number: noise_of(number))
    noise_of = {1: noise}.__getitem__
    kept(1)
    return kept


def in_context(noise):
    held = contextvars.ContextVar("held")
    held.set(noise)
    return held


def drawn_from(held):
    return held.draw()


def child_of(seeds):
    return np.random.default_rng(seeds.spawn(1)[0]).normal()


OUT_OF_SIGHT = {
    "a suspended generator": (endless, next),
    "an iterator": (lambda noise: itertools.starmap(noise.normal, itertools.repeat(())), next),
    "a cache": (remembered, lambda held: held(1).normal()),
    "a context variable": (in_context, lambda held: held.get().normal()),
    "a key": (lambda noise: {noise: 1}, lambda held: next(iter(held)).normal()),
    "a read-only mapping": (lambda noise: types.MappingProxyType({"a": noise}), lambda held: held["a"].normal()),
    "an array of objects": (lambda noise: np.array([noise], dtype=object), lambda held: held[0].normal()),
    "a private slot": (Hidden, Hidden.draw),
    "one slot": (OneSlot, lambda held: held.noise.normal()),
    "a static method": (
        lambda noise: type("A", (), {"draw": staticmethod(lambda: noise.normal())}),
        lambda a: a.draw(),
    ),
    "its children": (lambda noise: noise, lambda held: held.spawn(1)[0].normal()),
    "seeds": (
        lambda noise: noise.bit_generator.seed_seq,
        lambda held: np.random.default_rng(held.spawn(1)[0]).normal(),
    ),
}


@pytest.mark.parametrize("place", OUT_OF_SIGHT)
def test_generators_out_of_sight_are_started_afresh_and_given_back(place):
    """Forked workers drew the same noise from each of these: the audit of a true claim was not valid."""
    make, draw = OUT_OF_SIGHT[place]
    held = make(np.random.default_rng(5))

    def task(coin, words):
        return float(draw(held)), ""

    drawn = []
    for words in ((1, 2), (1, 2), (3, 4)):
        started_afresh(task, words)
        drawn.append(task(True, words)[0])
    assert drawn[0] == drawn[1] != drawn[2]
    with given_back(task):
        first = task(True, ())[0]
    assert task(True, ())[0] == first
