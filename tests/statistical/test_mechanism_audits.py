"""Our own audit against our own releases: it finds nothing in them, and refutes their twins. Seeded throughout.

benchmarks/mechanism.py does the same for every release, value and twin with 200,000 runs each.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit import mechanism

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import mechanism_cases as cases

sys.path.pop(0)
CONFIDENCE = 1 - 1e-5


def audited(release, pair, claim, adjacency="add-remove", runs=3000):
    return tacit.audit_mechanism(
        release, pair, claim=claim, runs=runs, confidence=CONFIDENCE, rng=7, delta=claim[1], adjacency=adjacency
    )


@pytest.mark.parametrize("move", cases.MOVES, ids=lambda move: f"{move[0]:.3g}-{move[1]:.3g}")
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_numbers_have_no_holes(name, move):
    """Values 0, 1, 1/3, 1e9 and 1e-9: no grain, no exact value and no scale tells neighbours apart too well."""
    extra, step = ({"delta": 1e-6} if name == "gaussian" else {}), max(move[1] - move[0], 1e-9)
    step = 1.0 if step > 0.5 and step < 2 else step
    release = getattr(mechanism, name)
    found = audited(
        lambda data, rng: release(data, sensitivity=step, epsilon=1.0, rng=rng, **extra).value,
        move,
        (1.0, extra.get("delta", 0.0)),
    )
    assert found.verdict is not tacit.Verdict.REFUTED


def test_floating_point_twins_are_refuted():
    for case in cases.floating_twins():
        if "laplace" in case.name and "1/3" not in case.name:
            assert audited(case.release, case.pair, case.claim, runs=8000).verdict is tacit.Verdict.REFUTED


SHARP = {"permute_and_flip": 6000, "noisy_max laplace": 8000, "unknown_keys": 4000, "randomized_response": 4000}


@pytest.mark.parametrize("name", SHARP)
def test_half_the_noise_is_refuted_and_the_whole_is_not(name):
    right, half = ({case.name: case for case in cases.selections(epsilon)}[name] for epsilon in (1.0, 2.0))
    for case, refuted in ((right, False), (half, True)):
        release = _seeded(name, 1.0 if case is right else 2.0)
        found = audited(release, case.pair, case.claim, case.adjacency, runs=SHARP[name])
        assert (found.verdict is tacit.Verdict.REFUTED) == refuted


def _seeded(name, epsilon):
    """The cases draw from the operating system; a test that must not fail by chance draws from the audit's seed."""
    if name == "permute_and_flip":
        return lambda d, rng: mechanism.permute_and_flip(d, sensitivity=1, epsilon=epsilon, rng=rng).value
    if name == "noisy_max laplace":
        return lambda d, rng: mechanism.noisy_max(d, sensitivity=1, epsilon=epsilon, noise="laplace", rng=rng).value
    if name == "unknown_keys":
        return lambda d, rng: mechanism.unknown_keys(d, epsilon=epsilon, delta=1e-6, rng=rng).value.get("a", 0)
    return lambda d, rng: np.asarray(mechanism.randomized_response(d, epsilon=epsilon, categories=4, rng=rng).value)
