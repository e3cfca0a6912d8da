"""Small gradients side by side give the sums and norms that they give one by one."""

import pytest
import torch

from tacit.train.clip import Clipper, Compiled
from tacit.train.clip.compile import compiled, small
from tacit.train.clip.compile.small import apart, side_by_side
from tacit.train.clip.rules.outer import Outer
from tacit.train.clip.rules.terms import Dense
from tacit.train.clip.sums import clipped_terms
from tacit.train.clip.weigh import Weigh
from train_zoo import ZOO, furthest, naive, trainable

ROWS = 5
WEIGHS = [Weigh(), Weigh((0.6, 0.8), None, {"a": 0, "b": 1, "c": 1, "d": 0, "e": 1, "f": 0, "g": 1})]


def terms():
    torch.manual_seed(3)
    sides = torch.randn(ROWS, 1, 2, 8), torch.randn(ROWS, 1, 2, 8)
    return {
        "a": [Dense(torch.randn(ROWS, 3))],
        "b": [Outer(*sides, torch.Size((8, 8)))],
        "c": [Dense(torch.randn(ROWS, 2, 4))],
        "d": [Dense(torch.randn(ROWS))],
        "e": [Dense(torch.randn(ROWS, small.SMALL + 1) / 100)],
        "f": [Dense(torch.randn(ROWS, 7), key=1)],
        "g": [Dense(torch.randn(ROWS, 1))],
    }


@pytest.mark.parametrize("weigh", WEIGHS)
def test_sums_and_norms_are_those_of_terms_one_by_one(weigh):
    shapes = {"a": (3,), "b": (8, 8), "c": (2, 4), "d": (), "e": (small.SMALL + 1,), "f": (7,), "g": (1,)}
    named = {name: torch.zeros(shape) for name, shape in shapes.items()}
    known = torch.zeros(ROWS), torch.ones(ROWS, dtype=torch.bool), 0.7, weigh
    right = clipped_terms(named, terms(), *known)
    joined, whose = side_by_side(terms(), weigh)
    found = clipped_terms({name: named[name] for name in joined}, joined, *known)
    assert len(joined) < len(named)
    assert {"b", "e", "f"} <= set(joined)  # another form, a large one, and one that belongs to another term
    torch.testing.assert_close(found.norms, right.norms)
    sums = apart(found.sums, whose)
    assert sums.keys() == named.keys()
    for name, total in right.sums.items():
        torch.testing.assert_close(sums[name], total)


def test_groups_of_parameters_stay_apart():
    """Every group is clipped to its own share, so terms of two groups are not joined."""
    joined, whose = side_by_side(terms(), WEIGHS[1])
    assert [set(members) for members in whose.values()] == [{"a", "d"}, {"c", "g"}]
    assert joined.keys() == {"a", "b", "c", "e", "f"}


@pytest.mark.parametrize("name", ["unused layer", "single numbers", "tied words", "more convolutions"])
def test_a_traced_step_with_small_gradients_joined_is_the_loop(name, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    monkeypatch.setattr(compiled, "pays", lambda _: True)
    torch.manual_seed(1)
    case = ZOO[name]
    model, batch = case.make(), case.batch(4)
    found = Compiled(Clipper(model, case.loss, trainable(model), 0.5))(batch, torch.ones(4, dtype=torch.bool))
    sums, norms = naive(model, case.loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-5
