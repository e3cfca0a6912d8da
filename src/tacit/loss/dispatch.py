r"""What each event costs: one short function per event, open to new ones by `@loss_of.register`.

A function here returns the dominating pairs its theorem gives for the event under the adjacency and raises
`Unsupported` where there is no theorem. Counts are the business of `Repeat` and `Compose` alone.
"""

from __future__ import annotations

import math
from functools import singledispatch

from scipy.stats import binom

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import Unsupported
from ..core.events import Compose, Event, Gaussian, Laplace, NonPrivate, NoOp, Poisson, RandomizedResponse, Repeat
from ..core.privacy_loss import PrivacyLoss
from .composed import Composed, Release
from .noise import GaussianNoise, LaplaceNoise, Noise
from .pairs import Discrete, Location, Parts


def privacy_loss(event: Event, adjacency: Adjacency | str, *, group: int = 1) -> PrivacyLoss:
    """What `event` costs when data sets differ in `group` records under `adjacency`.

    Guarantee: every reading of the result is an interval that holds the true value.
    """
    return loss_of(event, Adjacency.of(adjacency), check.whole("group", group))


@singledispatch
def loss_of(event: Event, adjacency: Adjacency, group: int) -> Composed:
    """The open registry behind `privacy_loss`."""
    raise Unsupported(event, adjacency)


def once(release: Release) -> Composed:
    return Composed(((release, 1),))


@loss_of.register
def _(event: NoOp, adjacency: Adjacency, group: int) -> Composed:
    return Composed()


@loss_of.register
def _(event: NonPrivate, adjacency: Adjacency, group: int) -> Composed:
    return once(Release.symmetric(Discrete(((1.0, 0.0), (0.0, 1.0)))))


@loss_of.register
def _(event: Gaussian, adjacency: Adjacency, group: int) -> Composed:
    """N(c, z^2) against N(0, z^2), c = group x sensitivity. Reference: Balle and Wang 2018, Theorem 8."""
    return once(_shift(GaussianNoise(event.noise_multiplier), group * adjacency.sensitivity))


@loss_of.register
def _(event: Laplace, adjacency: Adjacency, group: int) -> Composed:
    """Lap(c, z) against Lap(0, z); in any dimension the whole shift on one axis is worst (docs/proofs, Lemma 3)."""
    return once(_shift(LaplaceNoise(event.noise_multiplier), group * adjacency.sensitivity))


@loss_of.register
def _(event: RandomizedResponse, adjacency: Adjacency, group: int) -> Composed:
    """Truth, the neighbour's truth, and the k - 2 answers that say nothing; one slot per record."""
    others = event.categories - 1
    lie = 1 / (math.exp(event.epsilon) + others)
    truth = 1 - others * lie if event.epsilon < 30 else 1 / (1 + others * math.exp(-event.epsilon))
    atoms = ((truth, lie), (lie, truth)) + (((others - 1) * lie,) * 2,) * (others > 1)
    return group * once(Release.symmetric(Discrete(atoms, (-event.epsilon, event.epsilon) if event.epsilon else None)))


@loss_of.register
def _(event: Repeat, adjacency: Adjacency, group: int) -> Composed:
    return event.steps * loss_of(event.event, adjacency, group)


@loss_of.register
def _(event: Compose, adjacency: Adjacency, group: int) -> Composed:
    total = Composed()
    for part in event.events:
        total = total + loss_of(part, adjacency, group)
    return total


@loss_of.register
def _(event: Poisson, adjacency: Adjacency, group: int) -> Composed:
    r"""A sample holds j of the group's records with probability Bin(group, rate)(j), and these move the sum by at most j.

    Remove: sum_j w_j g(x - j) against g(x); add: the mirror image; replace: against sum_j w_j g(x + j).
    Reference: docs/proofs/accounting.md, Lemma 1 (Zhu, Dong and Wang 2022, Theorem 11, for one record).
    """
    if event.rate == 0:
        return Composed()
    if event.rate == 1:
        return loss_of(event.event, adjacency, group)
    inner = loss_of(event.event, Adjacency.ADD_REMOVE, 1)
    base = _plain(inner)
    if base is None:
        return _sampled_atoms(event, inner, adjacency, group)
    noise, shift = base
    weights = binom.pmf(range(group + 1), group, event.rate)
    moved: Parts = tuple((float(weight), shift * j) for j, weight in enumerate(weights) if weight > 0)
    if adjacency is Adjacency.REPLACE:
        return once(Release.symmetric(Location(noise, moved, tuple((weight, -place) for weight, place in moved))))
    return once(Release.mirrored(Location(noise, moved)))


def _shift(noise: Noise, distance: float) -> Release:
    return Release.symmetric(Location(noise, ((1.0, distance),)))


def _plain(loss: Composed) -> tuple[Noise, float] | None:
    """The noise and shift of one additive release; several Gaussians on one sample are one of the joint multiplier."""
    pairs = [(release.remove, count) for release, count in loss.releases]
    if not pairs or not all(isinstance(pair, Location) and len(pair.p) == len(pair.q) == 1 for pair, _ in pairs):
        return None
    located = [(pair, count) for pair, count in pairs if isinstance(pair, Location)]
    if all(isinstance(pair.noise, GaussianNoise) for pair, _ in located):
        total = math.fsum(count * (pair.p[0][1] / pair.noise.scale) ** 2 for pair, count in located)
        return GaussianNoise(1 / math.sqrt(total)), 1.0
    pair, count = located[0]
    return (pair.noise, pair.p[0][1]) if len(located) == 1 and count == 1 else None


def _sampled_atoms(event: Poisson, inner: Composed, adjacency: Adjacency, group: int) -> Composed:
    """One finite pair on a sample, for one record added or removed. Reference: Zhu, Dong and Wang 2022, Theorem 11."""
    counted = [(release.remove, count) for release, count in inner.releases]
    if not counted:
        return Composed()
    pair, count = counted[0]
    if len(counted) > 1 or count > 1 or not isinstance(pair, Discrete) or adjacency is Adjacency.REPLACE or group > 1:
        raise Unsupported(event, adjacency)
    atoms = tuple(((1 - event.rate) * q + event.rate * p, q) for p, q in pair.atoms)
    return once(Release.mirrored(Discrete(atoms)))
