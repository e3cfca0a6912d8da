"""At the ends of the numbers: a certified answer or one sentence, never a false small epsilon and never a traceback."""

import contextlib
import math

import mpmath
import pytest

import tacit
from tacit.core.errors import BadInput, Unsupported
from tacit.events import (
    ZCDP,
    Allocation,
    ApproximateDP,
    BoundedRange,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    MatrixFactorisation,
    NoisyMax,
    ObjectivePerturbation,
    Poisson,
    RandomizedResponse,
    Repeat,
    TruncatedPoisson,
)
from tacit.loss.closed import GaussianTotal


@pytest.mark.parametrize("noise", [0.1, 0.05, 0.03, 0.02, 0.01, 1e-3, 1e-6, 1e-9])
def test_more_steps_never_cost_less(noise):
    """Losses beyond what the lattice holds count as infinite: they must not vanish from the bound."""
    one, *more = (tacit.epsilon(noise_multiplier=noise, rate=0.1, steps=n, delta=1e-5) for n in (1, 2, 100))
    assert all(item.upper >= one.lower for item in more)
    replaced = tacit.epsilon(noise_multiplier=noise, rate=0.1, steps=2, delta=1e-5, adjacency="replace")
    assert replaced.upper >= one.lower


EXTREME = [
    Laplace(1e-3),
    Poisson(0.1, Laplace(1e-3)),
    DiscreteLaplace(1e-3),
    DiscreteGaussian(1e-2),
    RandomizedResponse(500.0, 2),
    RandomizedResponse(1e4, 3),
    BoundedRange(1000.0),
    NoisyMax(1000.0, "gumbel"),
    Poisson(0.1, Gaussian(1e-99)),
    Poisson(1e-300, Gaussian(1.0)),
    Gaussian(1e99),
    Gaussian(1e-90),
]


@pytest.mark.parametrize("noise", [DiscreteGaussian(3.0, 9 * 10**15), DiscreteGaussian(325.6, 10**15)], ids=str)
def test_integers_beyond_those_of_a_double_are_refused(noise):
    """A bisection between integers that doubles do not hold never ended."""
    with pytest.raises(BadInput, match=r"beyond 2\^53"):
        tacit.epsilon(Poisson(1e-4, noise), delta=1e-6, adjacency="replace")
    near = tacit.epsilon(Poisson(1e-4, DiscreteGaussian(3.0, 10**13)), delta=1e-6, adjacency="replace")
    assert near.upper == pytest.approx(
        tacit.epsilon(Poisson(1e-4, Gaussian(3.0)), delta=1e-6, adjacency="replace").upper
    )


@pytest.mark.parametrize("event", EXTREME, ids=str)
@pytest.mark.parametrize("steps", [1, 2, 2**53])
def test_an_interval_or_a_sentence(event, steps):
    with contextlib.suppress(tacit.BadInput):
        loss = tacit.privacy_loss(Repeat(event, steps), "add-remove")
        found = loss.epsilon(1e-5)
        assert 0 <= found.lower <= found.upper
        assert 0 <= loss.delta(1.0).lower <= loss.delta(1.0).upper <= 1


@pytest.mark.parametrize("mu", [1e-6, 0.3, 5.0, 60.0, 1e4, 1e8])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30])
def test_the_closed_form_holds_for_any_noise(mu, delta):
    """Both ends of epsilon, put into the formula with 60 digits."""
    found = GaussianTotal(mu).epsilon(delta)

    def exact(epsilon):
        with mpmath.workdps(60):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e + mpmath.log(mpmath.ncdf(-m / 2 - e / m)))

    assert found.gap <= 1e-7 or found.upper < 1e-5
    assert exact(found.upper) <= delta
    assert found.lower == 0 or exact(found.lower) >= delta


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise_multiplier": 1e-300},
        {"noise_multiplier": 1e300},
        {"noise_multiplier": 1.0, "steps": 10**23},
        {"noise_multiplier": math.inf},
    ],
)
def test_absurd_numbers_are_refused(arguments):
    with pytest.raises(tacit.BadInput):
        tacit.epsilon(delta=1e-5, **arguments)


def test_a_large_sampled_group_is_refused():
    with pytest.raises(tacit.Unsupported):
        tacit.privacy_loss(Poisson(0.1, Gaussian(1.0)), "add-remove", group=10**12)
    assert tacit.privacy_loss(Gaussian(1.0), "add-remove", group=10**6).epsilon(1e-5).upper > 1e11


def test_a_plan_with_next_to_no_noise_has_a_bound():
    plan = tacit.Plan(public_size=1000, rate=0.1, steps=10, noise_multiplier=1e-9)
    assert 3e18 < plan.bound(1e-5).epsilon <= 5.1e18  # six of ten steps see the record: 6/2z^2; all ten: 10/2z^2


@pytest.mark.parametrize("steps", [10**5, 10**9])
def test_an_allocation_too_long_to_tabulate_claims_no_lower_end(steps):
    """Its upper table tells all, its lower one does not: an infinite lower end would be false."""
    with contextlib.suppress(tacit.BadInput):
        assert tacit.epsilon(Allocation(1, steps, Gaussian(1.0)), delta=1e-5).lower <= 0.2


def test_a_lower_end_is_found_where_the_window_is_wide():
    """All losses are one huge number: the window has tens of thousands of points, of which a few near it show delta."""
    event = Repeat(DiscreteGaussian(0.06573079721271831), 463)
    found = tacit.privacy_loss(event, "replace").epsilon(6.711334596162503e-07)
    assert found.gap < 1e-6


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (Compose((Poisson(1.855e-5, Gaussian(12.906)), DiscreteGaussian(0.03325, 2), ZCDP(3.59e-5))), "replace"),
        (Compose((MatrixFactorisation(0.0365, ((-0.65,), (1.44, -0.37), (1.97, -0.19, 0.3))), ZCDP(1e-3))), "replace"),
        (Repeat(TruncatedPoisson(0.0634, 515, DiscreteGaussian(0.0233, 4), 82093), 57), "zero-out"),
        (FixedSize(1, 3848, DiscreteGaussian(0.017, 1)), "replace"),
        (
            Compose(
                (TruncatedPoisson(0.001, 726, Gaussian(0.01817), 1905), ObjectivePerturbation(0.094, 1.68, 0.2192))
            ),
            "add-remove",
        ),
    ],
    ids=["curve", "bracketed", "weighted", "halves", "two kinds"],
)
def test_what_has_a_theorem_is_finite(event, adjacency):
    """Of the wild sweep: huge losses where each part has a Renyi divergence in closed form."""
    assert tacit.privacy_loss(event, adjacency).epsilon(1e-8).upper < 1e7


def test_allocations_of_releases_with_two_pairs_are_refused():
    with pytest.raises(Unsupported, match="one pair for both directions"):
        tacit.privacy_loss(Allocation(13, 56, ObjectivePerturbation(571.0, 0.317, 0.0016)), "add-remove")


def test_upper_ends_fall_with_delta_where_small_and_large_losses_are_mixed():
    """A coarse lattice put the anchor at 775, and a search without a lower end gave up: smaller deltas cost less.

    350,090 Laplace releases have nearly the law of a Gaussian of mu = 17.5; with the others' the truth is near 240.
    """
    parts = (
        ApproximateDP(0.00138, 7.15e-16),
        ApproximateDP(0.5768, 6.85e-12),
        Gaussian(0.176),
        RandomizedResponse(0.0764),
    )
    loss = tacit.privacy_loss(Compose((Repeat(Laplace(33.74), 350_090), *parts)), "add-remove")
    ends = [loss.epsilon(delta).upper for delta in (2.9e-7, 2.9e-6, 2.9e-5)]
    assert ends == sorted(ends, reverse=True)
    assert 240 < ends[2] < 246
    assert ends[0] < 266


@pytest.mark.parametrize("event", [[Gaussian(1.0), Gaussian(2.0)], 1.0, None, "Gaussian"])
def test_what_is_no_event_is_named(event):
    """A list of events was said to have no theorem."""
    with pytest.raises(tacit.BadInput, match=f"needs an event, got {type(event).__name__}"):
        tacit.privacy_loss(event, "add-remove")
