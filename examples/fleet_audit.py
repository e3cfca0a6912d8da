"""A torch network's private training, audited in a fleet: many runs at once, each with randomness of its own.

    tacit audit examples.fleet_audit:fit       --event examples/claim.json --data digits --runs 400 --canary unseen
    tacit audit examples.fleet_audit:fit_weak  --event examples/claim.json --data digits --runs 400 --canary unseen

Both claim the quickstart's plan: rate 0.2, 100 steps, noise multiplier 2.375, which is epsilon 4 at delta 1e-5. The
second trains with a third of that noise. `fit(x, y, rng)` is one run and `fit.many(x, y, member, rngs)` many; the audit
makes some runs both ways and refuses a fleet whose runs are not those that `fit` makes.
"""

import torch
from torch import nn

from tacit import Plan
from tacit.fleet import Fleet, Runs

CLAIMED = Plan(public_size=1797, rate=0.2, steps=100, noise_multiplier=2.375)
WEAK = Plan(public_size=1797, rate=0.2, steps=100, noise_multiplier=2.375 / 3)


def start():
    """All runs start from the same parameters, which are public."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def descent(parameters):
    return torch.optim.SGD(parameters, lr=2.0)


fit = Runs(Fleet(start(), descent), CLAIMED)
fit_weak = Runs(Fleet(start(), descent), WEAK)
