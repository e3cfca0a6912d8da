"""A whole PATE run is audited through its student; noise that is too small is refuted."""

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.pate import PATE, GNMax


@dataclasses.dataclass(frozen=True)
class Quiet(GNMax):
    """A mutant: charges for its noise and draws a twentieth of it."""

    def told(self, *arguments):
        return GNMax(self.noise_answer / 20).told(*arguments)


def heavy(x, y, rng):
    """A teacher that one large record can turn round."""
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


def student(x, y, rng):
    weight = x.T @ (2.0 * y - 1) / len(x)
    return lambda asked: 1 / (1 + np.exp(-np.stack((-(asked @ weight), asked @ weight), axis=1)))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "verdict"), [(GNMax(6.0), "consistent"), (Quiet(6.0), "refuted")])
def test_a_student_is_audited(rule, verdict):
    """One teacher, so that the canary turns every vote round: the worst case that the claim is for.

    The claim is Gaussian with mu 1.05. The mutant is told apart without an error, so that 25 runs of each kind, which
    show a false-positive rate of at most 0.14 where the claim allows 0.49 of the others, would refute it.
    """
    x = np.random.default_rng(0).normal(size=(24, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    x[:, 1] = -0.1 * (2 * y - 1)
    public = np.tile([[0.0, 1.0], [0.0, -1.0]], (10, 1)).astype(np.float32)
    run = PATE(heavy, student=student, teachers=1, aggregator=rule, delta=1e-3, classes=[0, 1], random_state=0)
    run.fit(x, y, public)
    found = tacit.audit(
        run.training(public), (x, y), claim=run.event_, delta=1e-3, runs=100, rng=1, isolation="none",
        canary=lambda x, y, rng: (np.array([0.0, 50.0], dtype=np.float32), 1),
    )  # fmt: skip
    assert found.verdict == verdict, found.sentence
