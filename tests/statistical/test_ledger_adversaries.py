"""The ledger's filter against the best adaptive adversaries, and two mutants that they break (soundness rule 2)."""

import pytest

from ledger_adversaries import by_distribution, longest, ours, unshared, worst
from tacit.events import ApproximateDP, Gaussian, RandomizedResponse
from tacit.loss import privacy_loss

BUDGET = (1.0, 1e-6)
LOOK = [Gaussian(1 / mu) for mu in (0.05, 0.1, 0.15, 0.18)]
MENU = [
    *(Gaussian(1 / mu) for mu in (0.05, 0.1, 0.12, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19, 0.2)),
    *(RandomizedResponse(epsilon) for epsilon in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)),
    *(ApproximateDP(0.0, delta) for delta in (4e-8, 5e-8, 2e-7, 5e-7, 9e-7)),
]


@pytest.mark.parametrize("event", [Gaussian(5.0), RandomizedResponse(0.7)])
def test_the_value_of_one_release_is_its_own_delta(event):
    found = worst(0.5, lambda path: True, [event], first=[event], depth=1)
    truth = privacy_loss(event, "add-remove").delta(0.5).upper
    assert found == pytest.approx(truth, rel=0.01)


def test_no_adversary_beats_the_filter():
    found = worst(*BUDGET[:1], ours(*BUDGET), MENU, first=[*LOOK, *MENU], depth=2)
    assert 1e-7 < found <= BUDGET[1]


@pytest.mark.slow
def test_no_adversary_of_three_releases_beats_the_filter():
    few = [MENU[0], MENU[4], MENU[10], MENU[12], MENU[17]]
    found = worst(*BUDGET[:1], ours(*BUDGET), few, first=[*LOOK, *few], depth=3)
    assert 1e-7 < found <= BUDGET[1]


@pytest.mark.parametrize(
    ("epsilon", "delta", "menu"), [(3.0, 1e-3, [(1, 0.0), (4, 0.0)]), (3.0, 1e-2, [(1, 0.0), (8, 1e-4)])]
)
def test_no_adversary_of_many_releases_beats_the_filter(epsilon, delta, menu):
    """Of any length: dozens of releases, each chosen after all earlier answers."""
    found, charges = longest(epsilon, delta, 1 / 8, menu)
    assert 0.2 * delta < found <= delta
    assert charges > 24  # more than the plain sum allows


@pytest.mark.parametrize("mutant", [by_distribution, unshared])
def test_mutants_are_broken(mutant):
    """Choosing by looking, each path alone within the budget, comes to more than the budget."""
    assert worst(*BUDGET[:1], mutant(*BUDGET), MENU, first=LOOK, depth=2) > 1.2 * BUDGET[1]
