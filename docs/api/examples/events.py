# %% Gaussian Laplace DiscreteGaussian DiscreteLaplace RandomizedResponse NoisyMax BoundedRange AboveThreshold
import tacit
from tacit.events import (
    AboveThreshold, BoundedRange, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, NoisyMax, RandomizedResponse,
)

for event in (
    Gaussian(4.0), Laplace(2.0), DiscreteGaussian(4.0), DiscreteLaplace(2.0), RandomizedResponse(1.0), NoisyMax(0.5),
    BoundedRange(0.5), AboveThreshold(0.5),
):
    print(event, tacit.privacy_loss(event, "replace").epsilon(1e-5).upper)

# %% ApproximateDP ZCDP PartitionSelection NonPrivate NoOp
import tacit
from tacit.events import ApproximateDP, NonPrivate, NoOp, PartitionSelection, ZCDP

for event in (ApproximateDP(1.0, 1e-6), ZCDP(0.1), PartitionSelection(1.0, 1e-6), NoOp(), NonPrivate()):
    print(event, tacit.privacy_loss(event, "add-remove").epsilon(1e-5).upper)

# %% Repeat Compose OneOf RepeatAndSelect
import tacit
from tacit.events import Compose, Gaussian, Laplace, OneOf, Repeat, RepeatAndSelect

for event in (
    Repeat(Gaussian(10.0), 100), Compose((Gaussian(4.0), Laplace(5.0))), OneOf((Gaussian(4.0), Laplace(5.0))),
    RepeatAndSelect(Gaussian(10.0), mean=5.0),
):
    print(event, tacit.privacy_loss(event, "add-remove").epsilon(1e-5).upper)

# %% Poisson FixedSize Shuffled Allocation TruncatedPoisson
import tacit
from tacit.events import Allocation, FixedSize, Gaussian, Poisson, Shuffled, TruncatedPoisson

for event, adjacency in (
    (Poisson(0.01, Gaussian(1.0)), "add-remove"), (FixedSize(10, 1000, Gaussian(1.0)), "replace"),
    (Shuffled(10, Gaussian(1.0)), "replace"), (Allocation(1, 4, Gaussian(1.0)), "add-remove"),
    (TruncatedPoisson(0.01, 40, Gaussian(1.0), size=1000), "add-remove"),
):
    print(event, tacit.privacy_loss(event, adjacency).epsilon(1e-5).upper)

# %% LastIterate ObjectivePerturbation MatrixFactorisation BandedFactorisation CyclicPoisson
import tacit
from tacit.events import BandedFactorisation, CyclicPoisson, LastIterate, MatrixFactorisation, ObjectivePerturbation

for event in (
    LastIterate(6.0, 1000, step_size=2.0, lipschitz=1.0, smoothness=0.25, size=1000, rate=0.25, diameter=1.0),
    ObjectivePerturbation(4.0, smoothness=0.25, regularization=1.0),
    MatrixFactorisation(4.0, ((1.0,), (0.5, 1.0))),
    BandedFactorisation(4.0, (1.0, 0.5), steps=10, participations=1, separation=10),
    CyclicPoisson(4.0, 0.5, (1.0, 0.5), steps=8, cycle=4),
):
    try:
        print(event, tacit.privacy_loss(event, "replace").epsilon(1e-5).upper)
    except tacit.Unsupported:
        print(event, tacit.privacy_loss(event, "add-remove").epsilon(1e-5).upper)

# %% Event family
from tacit.events import Event, Gaussian, Poisson, Repeat, family

event = Repeat(Poisson(0.01, Gaussian(1.0)), 100)
print(family(event))
assert Event.from_json(event.to_json()) == event
