# %% Aggregator GNMax ConfidentGNMax InteractiveGNMax LNMax analyse Analysis PrivateValue
import numpy as np

from tacit.pate import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, analyse

votes = np.random.default_rng(0).multinomial(250, [0.85, 0.1, 0.05], size=100)  # made up
found = analyse(votes, ConfidentGNMax(200, 150, 40), queries=100, answers=80, delta=1e-5)
print(found.data_independent.epsilon, found.data_dependent)  # the second is private, and is not printed
print(GNMax(40), LNMax(20), InteractiveGNMax())

# %% private_predictions
import numpy as np

from tacit.pate import private_predictions

x = np.random.default_rng(0).normal(size=(500, 3))
y = (x[:, 0] > 0).astype(int)


def fit(x, y, rng):
    weight = x.T @ (2.0 * y - 1)
    return lambda asked: (asked @ weight > 0).astype(int)


print(private_predictions(fit, x, y, x[:1], classes=[0, 1], epsilon=1.0, teachers=20, rng=0))

# %% search Found
import numpy as np

from tacit.pate import search

rng = np.random.default_rng(0)
votes = rng.multinomial(250, [0.85, 0.1, 0.05], size=100)  # made up, or of public data
found = search(votes, np.zeros(100, int), delta=1e-5, epsilon=4.0, queries=50, noise_answer=[40], noise_select=[150], threshold=[200])
print(found)

# %% Student Supervised FixMatch Network
import torch

from tacit.pate import FixMatch, Network, Supervised

network = Network(lambda: torch.nn.Linear(3, 2), steps=50)
print(Supervised(network), FixMatch(network))
