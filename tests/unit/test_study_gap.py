"""Leakage against the generalisation gap: both grow with overfitting, and the picture shows every setting."""

import re
from itertools import combinations

import numpy as np
import pytest

from tacit import BadInput
from tacit.core import Estimate
from tacit.study.gap import Setting, leakage_by_gap, picture

pytest.importorskip("sklearn")
from sklearn.tree import DecisionTreeClassifier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 8))
Y = (X[:, 0] + RNG.normal(size=800) > 0).astype(int)
TREES = {f"depth {depth}": DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (2, None)}


def test_overfitting_leaks_more(tmp_path):
    rows = leakage_by_gap(TREES, (X, Y), references=4, rng=1)
    small, large = rows
    assert large.gap > small.gap + 0.1
    assert large.area.value > small.area.value + 0.1
    assert large.train_accuracy == 1.0
    drawn = picture(rows, tmp_path / "gap.svg").read_text()
    assert "depth 2" in drawn
    assert drawn.count("<circle") == 2


def test_sizes_of_the_training_set():
    rows = leakage_by_gap({"tree": TREES["depth 2"]}, (X, Y), sizes=(50, 400), references=4, rng=1)
    assert [row.members for row in rows] == [50, 400]
    assert rows[0].name == "tree, 50 records"


@pytest.mark.parametrize(
    "call",
    [
        lambda: leakage_by_gap({}, (X, Y)),
        lambda: leakage_by_gap({"a": 5}, (X, Y)),
        lambda: leakage_by_gap(TREES, (X, Y), sizes=(500,)),
        lambda: picture([]),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


def test_numbers_of_settings_that_lie_close_do_not_cover_each_other(tmp_path):
    same = Estimate(0.6, 0.55, 0.65, 0.95, 100)
    rows = [Setting(f"<{place}>", 100, 0.9, 0.9 - place / 1000, same, same) for place in range(8)]
    drawn = picture(rows, tmp_path / "gap.svg").read_text()
    assert "&lt;7&gt;" in drawn
    found = re.findall(r'<text x="([\d.]+)" y="([-\d.]+)" text-anchor="middle">\d</text>', drawn)
    assert len(found) == len(rows)
    for (x, y), (other, height) in combinations([(float(a), float(b)) for a, b in found], 2):
        assert abs(x - other) >= 14 or abs(y - height) >= 10.9
