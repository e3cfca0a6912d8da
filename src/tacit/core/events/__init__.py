"""Events: frozen, public, serialisable descriptions of a release.

An event holds public parameters only and its meaning never changes: a new meaning is a new event. What it costs is
not its business; `tacit.privacy_loss(event, adjacency)` says that. Counts live in `Repeat` alone, so that no leaf can
forget them.
"""

from ..event import SCHEMA, Event, family, rescaled, walk
from .combinations import Compose, OneOf, Repeat, RepeatAndSelect
from .mechanisms import (
    ZCDP,
    AboveThreshold,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyMax,
    NonPrivate,
    NoOp,
    PartitionSelection,
    RandomizedResponse,
)
from .samplings import Allocation, FixedSize, Poisson, Shuffled, TruncatedPoisson
from .trainings import BandedFactorisation, CyclicPoisson, LastIterate, MatrixFactorisation, ObjectivePerturbation

__all__ = [
    "AboveThreshold",
    "Allocation",
    "ApproximateDP",
    "BandedFactorisation",
    "BoundedRange",
    "Compose",
    "CyclicPoisson",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "FixedSize",
    "Gaussian",
    "Laplace",
    "LastIterate",
    "MatrixFactorisation",
    "NoOp",
    "NoisyMax",
    "NonPrivate",
    "ObjectivePerturbation",
    "OneOf",
    "PartitionSelection",
    "Poisson",
    "RandomizedResponse",
    "Repeat",
    "RepeatAndSelect",
    "SCHEMA",
    "Shuffled",
    "TruncatedPoisson",
    "ZCDP",
    "family",
    "rescaled",
    "walk",
]
