"""Against dp-accounting's PLD, an upper bound of unknown slack: ours lies below it, within what its grid explains.

Known defects of the peer (0.6.0), not compared: Renyi accounting under replace-one forgets the factor 2, repeated
randomized response forgets the count; Laplace under replace-one is missing.
"""

import pytest

dp_accounting = pytest.importorskip("dp_accounting")

from dp_accounting.pld import PLDAccountant  # noqa: E402

from tacit.core.events import (  # noqa: E402
    Compose,
    Gaussian,
    Laplace,
    Poisson,
    Repeat,
    RepeatAndSelect,
    TruncatedPoisson,
)
from tacit.loss import privacy_loss  # noqa: E402
from tacit.loss.exchange import to_dp_accounting  # noqa: E402

ADD_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
REPLACED = {
    (1.1, 256 / 60_000, 14_062, 1e-5): 4.2214,
    (0.6, 0.01, 5000, 1e-5): 20.9467,
    (9.4, 16_384 / 50_000, 2000, 1e-5): 17.5030,
    (1.0, 0.001, 100_000, 1e-6): 3.1918,
    (20.0, 1.0, 1000, 1e-6): 19.4237,
}


def peer(event, delta, relation, grid=1e-3):
    accountant = PLDAccountant(relation, value_discretization_interval=grid)
    accountant.compose(event)
    return accountant.get_epsilon(delta)


def theirs(event):
    if isinstance(event, Gaussian):
        return dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, Laplace):
        return dp_accounting.LaplaceDpEvent(event.noise_multiplier)
    if isinstance(event, Poisson):
        return dp_accounting.PoissonSampledDpEvent(event.rate, theirs(event.event))
    if isinstance(event, Repeat):
        return dp_accounting.SelfComposedDpEvent(theirs(event.event), event.steps)
    return dp_accounting.ComposedDpEvent([theirs(part) for part in event.events])


@pytest.mark.parametrize(
    "event",
    [
        Repeat(Poisson(0.01, Gaussian(1.0)), 500),
        Repeat(Poisson(0.2, Gaussian(2.0)), 30),
        Repeat(Laplace(5.0), 20),
        Repeat(Poisson(0.1, Laplace(1.0)), 20),
        Compose((Gaussian(2.0), Repeat(Poisson(0.01, Gaussian(1.0)), 200), Laplace(4.0))),
        Poisson(0.05, Gaussian(0.7)),
    ],
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_add_remove(event, delta):
    ours, other = privacy_loss(event, "add-remove").epsilon(delta), peer(theirs(event), delta, ADD_REMOVE)
    assert ours.lower <= other * (1 + 1e-9)
    assert other <= ours.upper * 1.01 + 2e-3


@pytest.mark.parametrize("event", [Repeat(Poisson(0.05, Gaussian(1.2)), 100), Repeat(Gaussian(5.0), 10)])
def test_replace(event):
    ours, other = privacy_loss(event, "replace").epsilon(1e-5), peer(theirs(event), 1e-5, REPLACE)
    assert ours.lower <= other * (1 + 1e-9)
    assert other <= ours.upper * 1.01 + 2e-3


@pytest.mark.parametrize(("adjacency", "relation"), [("add-remove", ADD_REMOVE), ("replace", REPLACE)])
def test_truncated_poisson(adjacency, relation):
    """The peer's own analysis, independent of ours: an upper bound too, a little finer where cuts are common."""
    event = Repeat(TruncatedPoisson(0.1, 50, Gaussian(1.0), 300), 5)
    ours, other = privacy_loss(event, adjacency).epsilon(1e-5), peer(to_dp_accounting(event), 1e-5, relation)
    assert ours.lower <= other
    assert other <= ours.upper * 1.002
    assert ours.upper <= 1.03 * other


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
def test_private_selection(shape):
    event = RepeatAndSelect(Gaussian(5.0), 5.0, shape)
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(to_dp_accounting(event))
    ours = privacy_loss(event, "add-remove").epsilon(1e-5).upper
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


@pytest.mark.parametrize("setting", REPLACED)
def test_the_five_settings_under_replace_agree_from_below(setting):
    """The peer's figures at its default grid of 1e-4, as measured once."""
    noise, rate, steps, delta = setting
    ours = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), "replace").epsilon(delta)
    assert ours.gap <= 1e-6
    assert ours.upper <= REPLACED[setting] + 6e-5
    assert ours.upper >= REPLACED[setting] - 1e-3
