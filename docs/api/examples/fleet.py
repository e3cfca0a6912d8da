# %% Fleet Epochs Models MakeOptimizer
import numpy as np
import torch

from tacit.fleet import Epochs, Fleet

rng = np.random.default_rng(0)
x = rng.normal(size=(100, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
member = rng.random((100, 8)) < 0.5  # records x models
fleet = Fleet(lambda: torch.nn.Sequential(torch.nn.Linear(4, 2)), lambda parameters: torch.optim.SGD(parameters, lr=0.5))
models = fleet.train(x, y, member, Epochs(3, 16), rng=0)
print(len(models), models.accuracy(x, y).mean())
print(models.observations(x, y, member=member).models)

# %% Runs
import numpy as np
import torch

import tacit
from tacit.fleet import Fleet, Runs

x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
plan = tacit.plan(60, epsilon=4.0, delta=1e-3, epochs=1)
fleet = Fleet(lambda: torch.nn.Sequential(torch.nn.Linear(4, 2)), lambda parameters: torch.optim.SGD(parameters, lr=1.0))
fit = Runs(fleet, plan)  # fit(x, y, rng) for one run, fit.many for all runs of an audit at once
print(tacit.audit(fit, (x, y), claim=plan, canary="blank", runs=40, delta=1e-3, isolation="fleet", rng=0).verdict)

# %% train_disjoint Steps RecordWise
import numpy as np
import torch

from tacit.fleet import Fleet, RecordWise, Steps, train_disjoint


class Shaken(RecordWise):  # every record by itself, so one call may change the batches of all teachers
    def __call__(self, x, generator):
        return x + 0.1 * torch.randn(x.shape, generator=generator)


x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
shard = np.arange(60) % 3  # three teachers, twenty records each
fleet = Fleet(lambda: torch.nn.Sequential(torch.nn.Linear(4, 2)), lambda parameters: torch.optim.SGD(parameters, lr=0.5))
own = [np.random.default_rng(k) for k in range(3)]
teachers = train_disjoint(fleet, x, y, shard, Steps(5, 10), own, augment=Shaken())
print(len(teachers))
