"""Plans of every sampling: their events, what they cost, what they refuse."""

import pytest

from tacit.core import Adjacency, BadInput, Unsupported
from tacit.core.events import Allocation, Compose, FixedSize, Gaussian, Repeat, Shuffled
from tacit.loss import Adaptive, Plan, plan, privacy_loss


@pytest.mark.parametrize(
    ("sampling", "adjacency", "event"),
    [
        ("fixed-size", "replace", Repeat(FixedSize(100, 1000, Gaussian(2.0)), 20)),
        ("shuffled", "replace", Repeat(Shuffled(10, Gaussian(2.0)), 2)),
        ("shuffled", "zero-out", Repeat(Shuffled(10, Gaussian(2.0)), 2)),
        ("allocation", "add-remove", Repeat(Allocation(1, 10, Gaussian(2.0)), 2)),
    ],
)
def test_each_sampling_has_its_own_event(sampling, adjacency, event):
    made = Plan(1000, 0.1, 20, 2.0, adjacency=adjacency, sampling=sampling)
    assert made.event == event
    bound = made.bound(1e-5)
    assert bound.epsilon == privacy_loss(event, adjacency).epsilon(1e-5).upper
    assert not any("Poisson" in text for text in bound.assumptions)


def test_a_full_batch_is_not_sampled_at_all():
    made = Plan(1000, 1.0, 20, 5.0, sampling="full")
    assert made.event == Repeat(Gaussian(5.0), 20)
    assert made.bound(1e-5).epsilon == pytest.approx(Plan(1000, 1.0, 20, 5.0).bound(1e-5).epsilon, rel=1e-9)


def test_a_shuffle_is_never_accounted_as_poisson():
    """One epoch without amplification: far dearer than the Poisson reading the field prints for it."""
    honest = Plan(60_000, 1 / 200, 200, 1.0, adjacency="zero-out", sampling="shuffled").bound(1e-5).epsilon
    wishful = Plan(60_000, 1 / 200, 200, 1.0, adjacency="zero-out").bound(1e-5).epsilon
    assert honest > 4 * wishful
    assert honest == pytest.approx(privacy_loss(Gaussian(1.0), "zero-out").epsilon(1e-5).upper, rel=1e-9)


@pytest.mark.parametrize(
    ("sampling", "bad"),
    [("fixed-size", "add-remove"), ("fixed-size", "zero-out"), ("shuffled", "add-remove"), ("allocation", "replace")],
)
def test_pairs_without_a_theorem_are_refused_when_the_plan_is_made(sampling, bad):
    with pytest.raises(Unsupported, match=sampling):
        Plan(1000, 0.1, 20, 2.0, adjacency=bad, sampling=sampling)
    with pytest.raises(Unsupported):
        privacy_loss(Plan(1000, 0.1, 20, 2.0, adjacency=_good(sampling), sampling=sampling).event, bad)


def _good(sampling):
    return Adjacency.ADD_REMOVE if sampling == "allocation" else Adjacency.REPLACE


def test_schedules_that_do_not_fit_are_refused():
    with pytest.raises(BadInput, match="not a whole number"):
        Plan(1001, 0.1, 20, 2.0, adjacency="replace", sampling="fixed-size")
    with pytest.raises(BadInput, match="passes of 10 steps"):
        Plan(1000, 0.1, 25, 2.0, sampling="allocation")
    with pytest.raises(BadInput, match="not a whole number"):
        Plan(1000, 0.3, 25, 2.0, sampling="allocation")
    with pytest.raises(BadInput, match="rate must be 1"):
        Plan(1000, 0.3, 25, 2.0, sampling="full")
    with pytest.raises(BadInput, match="not known"):
        Plan(1000, 0.3, 25, 2.0, sampling="sorted")


@pytest.mark.parametrize(
    ("sampling", "adjacency"),
    [("shuffled", "zero-out"), ("full", "add-remove")],
)
def test_calibration_meets_the_target_by_the_plans_own_event(sampling, adjacency):
    made = plan(900, epsilon=3.0, delta=1e-5, epochs=2, batch_size=100, adjacency=adjacency, sampling=sampling)
    assert 2.99 < made.bound(1e-5).epsilon <= 3.0
    assert made.expected_batch == (900 if sampling == "full" else 100)


@pytest.mark.slow
@pytest.mark.parametrize(("sampling", "adjacency"), [("fixed-size", "replace"), ("allocation", "add-remove")])
def test_calibration_of_dearer_events(sampling, adjacency):
    made = plan(100, epsilon=3.0, delta=1e-5, epochs=1, batch_size=50, adjacency=adjacency, sampling=sampling)
    assert 2.99 < made.bound(1e-5).epsilon <= 3.0


def test_spent_counts_a_pass_that_has_begun_as_whole():
    made = Plan(1000, 0.1, 30, 2.0, adjacency="replace", sampling="shuffled")
    spent = [made.spent(step, 1e-5).epsilon for step in (0, 1, 10, 11, 30)]
    assert spent[0] < spent[1] == spent[2] < spent[3] < spent[4] == made.bound(1e-5).epsilon


@pytest.mark.parametrize(
    ("sampling", "adjacency"), [("fixed-size", "replace"), ("shuffled", "replace"), ("allocation", "add-remove")]
)
def test_an_adaptive_norm_is_paid_inside_the_sample(sampling, adjacency):
    made = Plan(1000, 0.1, 10, 1.5, adjacency=adjacency, sampling=sampling, clipping=Adaptive(count_noise=1.5))
    (inner,) = [made.event.event.event]
    assert inner == Compose((Gaussian(1.5), Gaussian(1.5)))
    joint = Plan(1000, 0.1, 10, 1.5 / 2**0.5, adjacency=adjacency, sampling=sampling)
    assert made.bound(1e-5).epsilon == pytest.approx(joint.bound(1e-5).epsilon, rel=1e-6)
