"""Laws of every way to draw batches: a new one is tested by being registered."""

import re
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.core import Adjacency, Unsupported
from tacit.loss import Plan, Sampling
from tacit.train.noise.keys import Keystream
from tacit.train.sample.draw import DRAWS, Sampler

NAMES = sorted(Sampling.registry)
UNITS, DELTA = 40, 1e-6


def plan_of(name: str, adjacency: Adjacency | None = None, **more) -> Plan:
    kind = Sampling.registry[name]
    rate = kind().nearest_rate(10, UNITS)
    given = {"adjacency": adjacency or kind.adjacencies[0], "sampling": name, **more}
    return Plan(UNITS, rate, 8 * round(1 / rate), 2.0, **given)


def test_the_six_are_there() -> None:
    assert NAMES == ["allocation", "cyclic", "fixed-size", "full", "poisson", "shuffled"]
    assert set(DRAWS) == set(Sampling.registry.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_as_good_as_the_value(name: str) -> None:
    value = Sampling.of(name)
    assert value.name == name
    assert value.words
    assert Sampling.of(value) is value
    by_name, by_value = plan_of(name), plan_of(name, sampling=value)
    assert by_name == by_value
    assert repr(by_name) == repr(by_value)
    assert by_name.event == by_value.event


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_stated_adjacency_has_a_theorem_and_no_other_has_one(name: str, adjacency: Adjacency) -> None:
    if adjacency in Sampling.registry[name].adjacencies:
        assert plan_of(name, adjacency).bound(DELTA).epsilon > 0
        return
    with pytest.raises(Unsupported):
        plan_of(name, adjacency)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_begun_counts_and_never_more_than_the_whole(name: str) -> None:
    plan = plan_of(name)
    spent = [plan.spent(step, DELTA).epsilon for step in (1, plan.steps // 2, plan.steps)]
    assert spent == sorted(spent)
    assert spent[-1] == plan.bound(DELTA).epsilon
    for step in range(1, plan.steps + 1):
        assert step <= plan.sampling.begun(plan.rate, step) <= plan.steps


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_is_what_the_plan_says(name: str) -> None:
    plan = plan_of(name)
    drawn = DRAWS[type(plan.sampling)](plan, UNITS, Keystream(bytes(32)))
    assert len(drawn) == plan.steps_per_pass
    for batch in drawn:
        assert batch.dtype == np.int64
        assert (np.diff(batch) > 0).all()
        assert ((batch >= 0) & (batch < UNITS)).all()
    if plan.sampling.in_passes:
        assert sorted(np.concatenate(drawn)) == list(range(UNITS))
    if plan.sampling.exact:
        assert {len(batch) for batch in drawn} == {plan.expected_batch}


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_right_on_average(name: str) -> None:
    """Within five standard deviations of a sum of independent units: one test of all six in a million is wrong."""
    plan, total, times = plan_of(name), 0, 300
    sampler = Sampler(plan, UNITS)
    for draw in range(times):
        total += len(sampler(draw, draw.to_bytes(32, "little")))
    deviation = (times * UNITS * plan.rate * (1 - plan.rate)) ** 0.5
    assert abs(total - times * plan.expected_batch) <= 5 * deviation


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_for_a_target_has_whole_passes(name: str) -> None:
    adjacency = Sampling.registry[name].adjacencies[0]
    made = tacit.plan(UNITS, epsilon=3.0, delta=1e-3, epochs=3, batch_size=11, adjacency=adjacency, sampling=name)
    assert made.sampling.name == name
    assert made.bound(1e-3).epsilon <= 3.0
    if made.sampling.in_passes:
        assert made.steps == 3 * made.steps_per_pass


def test_nobody_asks_a_plan_for_the_name_of_its_sampling() -> None:
    """Smell 1: a ladder over names would have to know every new one."""
    sources = Path(tacit.__file__).parent.rglob("*.py")
    pattern = re.compile(r"sampling(\.name)? *(==|!=|(not )?in \()")
    found = [f"{path.name}:{n}" for path in sources for n, line in enumerate(path.read_text().splitlines(), 1)
             if pattern.search(line) and "cli" not in path.parts]  # fmt: skip
    assert found == []
