# %% laplace gaussian skellam classic_noise_multiplier
from tacit import mechanism

print(mechanism.laplace(4711, sensitivity=1, epsilon=0.5))
print(mechanism.gaussian([3.0, 4.0], sensitivity=1.0, epsilon=0.5, delta=1e-6))
print(mechanism.skellam(4711, sensitivity=1, epsilon=0.5, delta=1e-6))
print(mechanism.classic_noise_multiplier(0.5, 1e-6))

# %% exponential noisy_max permute_and_flip top
from tacit import mechanism

votes = [500, 399, 10]
print(mechanism.exponential(votes, sensitivity=1, epsilon=0.5))
print(mechanism.noisy_max(votes, sensitivity=1, epsilon=0.5, monotone=True))
print(mechanism.permute_and_flip(votes, sensitivity=1, epsilon=0.5))
print(mechanism.top(votes, 2, sensitivity=1, epsilon=0.5, monotone=True))

# %% quantile median exponential_range clipping_bound
import numpy as np

from tacit import mechanism

ages = np.random.default_rng(0).integers(0, 100, 2000)
print(mechanism.median(ages, bounds=(0, 120), epsilon=0.5))
print(mechanism.quantile(ages, 0.9, bounds=(0, 120), epsilon=0.5))
print(mechanism.clipping_bound(ages, epsilon=0.5))
print(mechanism.exponential_range(np.array([0, 5, 0]), [40.0, 60.0], bounds=(0, 120), sensitivity=1, epsilon=0.5))

# %% smooth_median propose_test_release subsample_and_aggregate
import numpy as np

from tacit import mechanism

ages = np.random.default_rng(0).integers(40, 60, 2000)
print(mechanism.smooth_median(ages, bounds=(0, 120), epsilon=0.5, delta=1e-6))
print(mechanism.propose_test_release(ages, proposal=5.0, bounds=(0, 120), epsilon=0.5, delta=1e-6))
print(mechanism.subsample_and_aggregate(ages, np.mean, blocks=40, bounds=(0, 120), epsilon=0.5))

# %% above_threshold
from tacit import mechanism

print(mechanism.above_threshold([10, 20, 900, 5], 500, sensitivity=1, epsilon=0.5))

# %% auction
from tacit import mechanism

print(mechanism.auction([1.0, 1.0, 3.0, 2.5], [1, 2, 3], epsilon=0.5))

# %% unknown_keys
from tacit import mechanism

print(mechanism.unknown_keys({"flu": 900, "rare disease": 1}, epsilon=1.0, delta=1e-6))

# %% respond randomized_response estimate
from tacit import mechanism

answers = [1] * 300 + [0] * 700
print(mechanism.respond(1, epsilon=1.0))  # on the device of one person
print(mechanism.randomized_response(answers, epsilon=1.0))
print(mechanism.estimate([mechanism.respond(a, epsilon=1.0) for a in answers], epsilon=1.0))

# %% Account
import tacit
from tacit import mechanism

ledger = tacit.Ledger.create("clinic.db", epsilon=1.0, delta=1e-6, unit="record")
print(mechanism.laplace(40, sensitivity=1, epsilon=0.25, ledger=mechanism.Account(ledger, analyst="ann")))

# %% Ladder Thresholdout
import numpy as np

from tacit import mechanism

ladder = mechanism.Ladder(np.array([0, 1, 1, 0]))
print(ladder)
print(mechanism.Thresholdout(size=1000, threshold=0.1, epsilon=1.0, budget=5))
