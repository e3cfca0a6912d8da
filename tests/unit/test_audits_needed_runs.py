"""What a failed control of an audit says: how many runs would have been needed."""

import numpy as np
import pytest

from tacit.audits.controls import planted_leak
from tacit.audits.scoring import scored


def control(runs, failing):
    rng = np.random.default_rng(0)
    score = np.where(rng.random(runs) < failing, np.nan, rng.normal(size=runs))
    return planted_leak(scored(score, np.arange(runs) % 2 == 0), 1)


@pytest.mark.parametrize(
    ("runs", "failing", "words"),
    [
        (10, 0.0, "more runs or canaries are needed: about 80"),
        (30, 0.0, "more runs or canaries are needed: about 60"),
        (40, 0.2, "more runs or canaries are needed: about 160"),
        (400, 0.6, "too many of them fail"),
    ],
)
def test_a_control_that_cannot_be_passed_says_how_many_runs_it_takes(runs, failing, words):
    found = control(runs, failing)
    assert not found.passed
    assert words in found.found


@pytest.mark.parametrize(("runs", "failing"), [(80, 0.0), (60, 0.0), (160, 0.2)])
def test_so_many_runs_pass(runs, failing):
    assert control(runs, failing).passed
