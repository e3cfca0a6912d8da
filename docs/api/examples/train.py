# %% PrivateStep StepInfo Flat PerLayer Automatic Adaptive
import torch

import tacit
from tacit.train import Adaptive, Automatic, Flat, PerLayer

x, y = torch.randn(100, 4), torch.arange(100) % 2
for clipping in (Flat(), PerLayer(), Automatic(), Adaptive()):
    plan = tacit.plan(100, epsilon=4.0, delta=1e-3, epochs=1, clipping=clipping)
    model = torch.nn.Linear(4, 2)
    step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan)
    for batch in step.batches((x, y)):
        info = step(batch)
    print(clipping, info)

# %% Trained Progress ball
import torch

import tacit
from tacit.train import Progress, Trained, ball

x, y = torch.randn(100, 4), torch.arange(100) % 2
plan = tacit.plan(100, epsilon=4.0, delta=1e-3, epochs=1)
trained = tacit.fit(torch.nn.Linear(4, 2), (x, y), plan, delta=1e-3, project=ball(5.0), progress=Progress(1e-3))
print(trained.evidence.sentence)

folder = trained.save("released-model")  # weights and evidence, nothing that is secret
again = Trained.load(folder, torch.nn.Linear(4, 2))
print(again.predict(x[:3]))

# %% rules freeze_batch_norm replace_batch_norm
import torch

from tacit.train import freeze_batch_norm, replace_batch_norm, rules

model = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8, 2))
print(freeze_batch_norm(model))  # or replace_batch_norm, which trains group norms instead
print(rules(replace_batch_norm(model)))

# %% Augment flip_and_crop Scattering
import torch

from tacit.train import Scattering, flip_and_crop

print(flip_and_crop(4))  # give it to fit(..., augment=)
print(Scattering(28, 28)(torch.zeros(2, 1, 28, 28)).shape)

# %% Buckets
from tacit.train import Buckets

print(Buckets([16, 64], pad=0))  # give it to fit(..., collate=): texts are padded to public lengths

# %% PrivateTrainer PrivateCallback
from tacit.train import PrivateCallback, PrivateTrainer

print(PrivateTrainer, PrivateCallback)  # for the loops of Hugging Face and Lightning: the tutorial on fine-tuning
