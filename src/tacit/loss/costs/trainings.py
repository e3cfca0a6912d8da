"""What whole procedures cost: correlated noise, objective perturbation, the last iterate."""

from __future__ import annotations

from ...core.adjacency import Adjacency
from ...core.errors import Unsupported
from ...core.events import (
    BandedFactorisation,
    CyclicPoisson,
    Gaussian,
    LastIterate,
    MatrixFactorisation,
    ObjectivePerturbation,
    Poisson,
)
from ..allocation import NOTHING
from ..composed import Composed, Release
from ..computed import Bracketed
from ..factorised import sensitivity, turns
from ..iterate import last_iterate
from ..noise import GaussianNoise
from ..objective import Folded
from ..pairs import Location
from .registry import loss_of, once


@loss_of.register
def _(event: MatrixFactorisation | BandedFactorisation, adjacency: Adjacency, group: int) -> Composed:
    """One Gaussian whose shift is how far a record can move C G. Reference: docs/proofs/mechanisms.md, Theorem 2."""
    attained, bound = (group * adjacency.sensitivity * value for value in sensitivity(event))
    if bound == 0:
        return Composed()
    above = Location(GaussianNoise(event.noise_multiplier / bound), ((1.0, 1.0),))
    if attained == bound:
        return once(Release.symmetric(above))
    below = Location(GaussianNoise(event.noise_multiplier / attained), ((1.0, 1.0),)) if attained > 0 else NOTHING
    return once(Release.symmetric(Bracketed(above, below)))


@loss_of.register
def _(event: CyclicPoisson, adjacency: Adjacency, group: int) -> Composed:
    """One Poisson-sampled Gaussian for every turn of a record's group, as its columns of C have no row in common.

    Reference: docs/proofs/mechanisms.md, Theorem 2b; Choquette-Choo et al. 2023, (Amplified) banded matrix
    factorization, Theorem 4, with the last column cut off where C ends.
    """
    if group > 1:
        raise Unsupported(event, adjacency, fix="Cyclic Poisson sampling is supported for one record.")
    return Composed.of(
        [
            count * loss_of(Poisson(event.rate, Gaussian(event.noise_multiplier / length)), adjacency, 1)
            for length, count in turns(event)
            if length > 0 and count > 0
        ]
    )


@loss_of.register
def _(event: ObjectivePerturbation, adjacency: Adjacency, group: int) -> Composed:
    """With the record the determinant is larger, so only that direction pays for it; replacing pays in both.

    Reference: docs/proofs/mechanisms.md, Theorem 3.
    """
    if group > 1:
        raise Unsupported(event, adjacency, fix="Objective perturbation is supported for one record.")
    growth = event.smoothness / event.regularization
    if adjacency is Adjacency.REPLACE:
        return once(Release.symmetric(Folded(event.noise_multiplier, 2.0, growth, 2), tight=False))
    remove, add = (Folded(event.noise_multiplier, 1.0, kappa, 1) for kappa in (growth, 0.0))
    return once(Release(remove, add, tight=False))


@loss_of.register
def _(event: LastIterate, adjacency: Adjacency, group: int) -> Composed:
    """Reference: docs/proofs/dynamics.md, Theorems 1 and 2."""
    return last_iterate(event, adjacency, group)
