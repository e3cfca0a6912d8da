# %% Sampling Clipping Flat PerLayer Automatic Adaptive
import tacit
from tacit.loss import Adaptive, Automatic, Clipping, Flat, PerLayer, Sampling

for clipping in (Flat(), PerLayer({"head": 2.0}), Automatic(), Adaptive(quantile=0.5)):
    plan = tacit.plan(1000, epsilon=4.0, delta=1e-4, epochs=2, clipping=clipping)
    print(clipping.name, round(plan.noise_multiplier, 3))
print(Clipping.of("flat"), Sampling.of("poisson").name)  # names are accepted wherever these are

# %% NoisyDescent
from tacit.loss import NoisyDescent

descent = NoisyDescent(
    strong_convexity=0.1, smoothness=1.0, gradient_sensitivity=2.0, size=1000, step_size=0.5, noise=0.1, steps=200
)
print(descent)  # its methods give the upper and lower curves of the last iterate

# %% loss_of
from tacit.core import Adjacency
from tacit.events import Gaussian
from tacit.loss import loss_of

found = loss_of(Gaussian(2.0), Adjacency.ADD_REMOVE, 1)  # what `privacy_loss` calls; new events register here
print(found.epsilon(1e-5).upper)
