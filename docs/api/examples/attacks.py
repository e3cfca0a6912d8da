# %% ATTACKS Attack References attack named fitting
import numpy as np

import tacit
from tacit.attacks import ATTACKS, References, attack, fitting, named

member = np.random.default_rng(0).random((200, 9)) < 0.5  # records x models, made up
margin = np.random.default_rng(1).normal(size=(200, 9)) + 2.0 * member
seen = tacit.Observations.from_margin(margin, member=member)
target, others = seen.select(models=[0]), seen.select(models=range(1, 9))
print([found.name for found in fitting(target, others)])  # what these observations allow
print(len(ATTACKS), named("lira")(target, others).auc().value)


@attack("example-margin", needs=("margin",), references=References.NONE)
def by_margin(target):
    """A rule of one's own: a large margin means member. With references it takes a second argument."""
    return target.need("margin")


print(by_margin(target).auc().value)
ATTACKS.pop("example-margin")  # an example is not left in the registry

# %% loss_threshold label entropy modified_entropy lira lira_offline rmia rmia_offline student student_offline reference population calibrated calibrated_online label_calibrated modified_entropy_per_class shadow combined
import numpy as np

import tacit
from tacit import attacks

rng = np.random.default_rng(0)
member, label = rng.random((300, 9)) < 0.5, rng.integers(0, 4, 300)  # made up: 300 records, 9 models, 4 classes
logits = rng.normal(0, 0.3, (300, 9, 4))
logits[np.arange(300), :, label] += rng.normal(size=(300, 1)) + 2.0 * member
seen = tacit.Observations.from_logits(logits, label, member=member)
target, others = seen.select(models=[0]), seen.select(models=range(1, 9))
for alone in (attacks.loss_threshold, attacks.label, attacks.entropy, attacks.modified_entropy):
    print(alone.name, round(alone(target).auc().value, 2))
for with_references in (
    attacks.lira, attacks.lira_offline, attacks.rmia, attacks.rmia_offline, attacks.student, attacks.student_offline,
    attacks.reference, attacks.population, attacks.calibrated, attacks.calibrated_online, attacks.label_calibrated,
    attacks.modified_entropy_per_class, attacks.shadow, attacks.combined,
):
    print(with_references.name, round(with_references(target, others).auc().value, 2))

# %% quantile accuse Accusations known_split
from dataclasses import replace

import numpy as np

import tacit
from tacit import attacks

rng = np.random.default_rng(0)
member = np.arange(400) % 2 == 0
features = rng.normal(size=(400, 3))
margin = features[:, 0] + 2.0 * member + rng.normal(size=400)
seen = tacit.Observations.from_margin(margin[:, None], member=member[:, None], record=np.arange(400))
seen = replace(seen, features=features)
judged, known = attacks.known_split(seen, 0)  # half of the records may be learned from
print(attacks.quantile(judged, known).auc().value)
found = attacks.accuse(judged, known, 0.05, 1)  # at most 5 % of outsiders accused, on average
print(found.tpr, found.false_alarms)

# %% gradient_norm learned_black_box white_box_outputs white_box_gradients with_snapshots
import numpy as np
import torch

from tacit import attacks
from tacit.attacks.internals import look_inside

torch.manual_seed(0)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(120, 5)).astype(np.float32), rng.integers(0, 2, 120)
member = np.arange(120) % 2 == 0
net = torch.nn.Sequential(torch.nn.Linear(5, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
early = look_inside(net, x, y, member=member)
for _ in range(100):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(torch.as_tensor(x[member])), torch.as_tensor(y[member])).backward()
    optimizer.step()
seen = look_inside(net, x, y, member=member)
print(attacks.gradient_norm(seen).auc().value)
judged, known = attacks.known_split(attacks.with_snapshots(seen, [early]), 0)
for attack in (attacks.learned_black_box, attacks.white_box_outputs, attacks.white_box_gradients):
    print(attack.name, attack(judged, known).auc().value)

# %% leave_one_out joined measure snapshots
import numpy as np

import tacit
from tacit import attacks

member = np.random.default_rng(0).random((300, 9)) < 0.5  # made up: records x models
seen = [
    tacit.Observations.from_margin(np.random.default_rng(k).normal(size=(300, 9)) + k * member, member=member)
    for k in (1, 2)  # two snapshots of the same runs
]
scores = attacks.leave_one_out(attacks.lira, seen[1], range(3))  # three targets, each with the others as references
print(attacks.measure(scores, [0.01]).tpr_at_fpr)
parts = [
    attacks.snapshots([s.select(models=[k]) for s in seen], [s.select(models=[j for j in range(9) if j != k]) for s in seen])
    for k in range(2)
]
print(len(attacks.joined(parts)))

# %% outsiders_needed
import numpy as np

import tacit
from tacit import attacks

drawn, member = np.random.default_rng(0).normal(size=600), np.arange(600) < 300  # made up: a weak attack, few records
scores = tacit.Scores(drawn + 0.8 * member, member, attack="mine", randomised=False)
print(attacks.outsiders_needed(attacks.measure(scores, [0.01]), 0.01))

# %% memorisation exposed Exposure models_needed distribution disparity GroupRisk
import numpy as np

import tacit
from tacit import attacks

rng = np.random.default_rng(0)
member = rng.random((200, 32)) < 0.5  # made up: records x models
margin = rng.normal(size=(200, 32)) + np.where(np.arange(200) < 5, 6.0, 0.2)[:, None] * member  # five stand out
seen = tacit.Observations.from_margin(margin, member=member)
print(attacks.memorisation(seen)[:6].round(2), attacks.models_needed(5))
print([found.record for found in attacks.exposed(seen, 5, 0)])
print(len(attacks.distribution(seen)))
group = np.where(np.arange(2000) % 4 == 0, "few", "many")
scores = tacit.Scores(rng.normal(size=2000) + (np.arange(2000) < 1000), np.arange(2000) < 1000, attack="mine", randomised=False, group=group)
print([(found.group, found.p_value) for found in attacks.disparity(scores, 0)])

# %% null planted_leak leaking blind_baseline near_duplicates Copies natural
import numpy as np

import tacit
from tacit import attacks

rng = np.random.default_rng(0)
member = rng.random((300, 9)) < 0.5  # made up: records x models
seen = tacit.Observations.from_margin(rng.normal(size=(300, 9)) + member, member=member)
target, others = seen.select(models=[0]), seen.select(models=range(1, 9))
print(attacks.null(attacks.lira, target, others, 0).passed)  # with shuffled membership nothing may be found
print(attacks.planted_leak(attacks.lira, target, others).passed, attacks.leaking(target).models)
features = rng.normal(size=(300, 4))
print(attacks.blind_baseline(features, member[:, 0], 0)[1].passed)  # members and outsiders differ by membership alone
copies = attacks.near_duplicates(features, member[:, 0])
print(int(copies.of_members.sum()), attacks.natural(0, 150, 0, 150))
