# %% epsilon Interval
import tacit

spent = tacit.epsilon(noise_multiplier=1.1, rate=0.01, steps=1000, delta=1e-5)
print(spent.lower, spent.upper)  # the truth lies between; claim the upper end

# %% calibrate Setting
import tacit

setting = tacit.calibrate(epsilon=3.0, rate=0.01, steps=1000, delta=1e-5)
print(setting.noise_multiplier)

# %% plan Plan
import tacit

plan = tacit.plan(60_000, epsilon=3.0, delta=1e-5, epochs=10)
print(plan.noise_multiplier, plan.steps, plan.event)

# %% privacy_loss PrivacyLoss Adjacency Event
import tacit
from tacit.events import Gaussian, Laplace

loss = tacit.privacy_loss(Gaussian(2.0), tacit.Adjacency.REPLACE) + tacit.privacy_loss(Laplace(10.0), "replace")
print(loss.epsilon(1e-6).upper, loss.delta(1.0).upper)
print(tacit.Event.from_json(Gaussian(2.0).to_json()))

# %% explain Theorem
import tacit
from tacit.events import Gaussian, Repeat

for theorem in tacit.explain(Repeat(Gaussian(5.0), 10), delta=1e-5):
    print(theorem)

# %% fit private Speed
import torch

import tacit

x, y = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 2
plan = tacit.plan(200, epsilon=4.0, delta=1e-3, epochs=2)
trained = tacit.fit(torch.nn.Linear(4, 2), (x, y), plan, delta=1e-3)
print(trained.evidence.sentence)

model = torch.nn.Linear(4, 2)  # or keep your own loop
step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan, speed=tacit.Speed())
for batch in step.batches((x, y)):
    step(batch)
print(step.spent(1e-3).epsilon)

# %% attack Evidence Verdict Estimate
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier

import tacit

x, y = load_digits(return_X_y=True)
model = DecisionTreeClassifier(random_state=0).fit(x[::2], y[::2])
evidence = tacit.attack(model, (x[::2], y[::2]), (x[1::2], y[1::2]), references=0, rng=0)
print(evidence.sentence)
assert evidence.verdict is tacit.Verdict.NO_CLAIM

# %% audit_mechanism
import tacit


def count(data, rng):  # claims epsilon 1, with a third of the noise
    return len(data) + rng.laplace(scale=1 / 3)


evidence = tacit.audit_mechanism(count, ([1] * 10, [1] * 11), claim=(1.0, 0.0), runs=2000, rng=0)
print(evidence.verdict, evidence.sentence)

# %% audit bracket
import numpy as np

import tacit

x = np.random.default_rng(0).normal(size=(40, 2))
y = (x[:, 0] > 0).astype(int)


def fit(x, y, rng):  # noisy means of two classes
    means = [x[y == k].sum(axis=0) / 20 + rng.normal(size=2) for k in (0, 1)]

    def predict(asked):
        near = np.stack([-((asked - mean) ** 2).sum(axis=1) for mean in means], axis=1)
        odds = np.exp(near - near.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    return predict


print(tacit.audit(fit, (x, y), claim=(8.0, 1e-3), runs=40, isolation="none", rng=0).verdict)
evidence = tacit.bracket(fit, (x, y), claim=(8.0, 1e-3), references=4, runs=40, isolation="none", rng=0)
print(evidence.sentence)

# %% choose lower_bound Choice Scores Bound
import numpy as np

import tacit

rng = np.random.default_rng(0)
member = np.arange(2000) % 2 == 0
scores = tacit.Scores(rng.normal(size=2000) + 2.0 * member, member, attack="mine", randomised=True)
first, second = scores.split(0)
how = {"delta": 1e-5, "adjacency": "add-remove", "confidence": 0.95}
bound = tacit.lower_bound(second, tacit.choose(first, **how), **how)
print(bound.epsilon, bound.side, bound.confidence)

# %% Observations
import numpy as np

import tacit

seen = tacit.Observations.from_logits(np.zeros((6, 1, 2)), np.array([0, 1, 0, 1, 0, 1]), member=np.arange(6)[:, None] < 3)
print(seen.records, seen.models)

# %% verify report
import tacit

evidence = tacit.audit_mechanism(lambda data, rng: len(data) + rng.laplace(), ([1], [1, 1]), claim=(1.0, 0.0), runs=400, rng=0)
print(tacit.verify(evidence).ok)
page = tacit.report(evidence, "report.html")
print(page.path, page.verdict)

# %% Ledger BudgetExceeded
import tacit
from tacit.events import Laplace

ledger = tacit.Ledger.create("budget.db", epsilon=1.0, delta=1e-6, unit="record")
print(ledger.charge(Laplace(2.0), key="first count").remaining)
try:
    ledger.charge(Laplace(1.0), key="second count")
except tacit.BudgetExceeded as refused:
    print(refused)

# %% Schema Column
import tacit

people = tacit.Schema(
    (tacit.Column("age", "number", range=(0, 120)), tacit.Column("ill", "category", words=("no", "yes"))), label="ill"
)
print(people.width)

# %% Table
import pandas as pd

import tacit

visits = pd.DataFrame({"person": range(1000), "city": ["Basel", "Bern"] * 500})
table = tacit.Table(visits, unit="person")
print(table.group_by("city", keys=["Basel", "Bern"]).count().release(epsilon=1.0, rng=1))

# %% PATE
import numpy as np
from sklearn.linear_model import LogisticRegression

import tacit
from tacit.pate import GNMax

x = np.random.default_rng(0).normal(size=(1200, 3))
y = (x[:, 0] > 0).astype(int)
run = tacit.PATE(LogisticRegression(), teachers=40, aggregator=GNMax(8), queries=20, delta=1e-4, classes=[0, 1])
print(run.fit(x[:1000], y[:1000], x[1000:]).bound_.epsilon)

# %% search
import numpy as np

import tacit
from tacit.events import Gaussian


def make_run(rate, source):  # a trial: its model, and its score with noise of its own
    return f"model at {rate}", -abs(rate - 0.3) + 0.1 * source.generator().normal()


found = tacit.search(make_run, [0.1, 0.3, 1.0], event=Gaussian(4.0), delta=1e-5, rng=0)
print(found.evidence.claim.bound.epsilon)

# %% TacitError BadInput Unsupported Mismatch MissingExtra NotFinished
import tacit

try:
    tacit.epsilon(noise_multiplier=-1.0, rate=0.01, steps=10, delta=1e-5)
except tacit.BadInput as error:  # every error of tacit is a TacitError
    print(error)

# %% PrivacyWarning SlowWarning
import warnings

import tacit

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    tacit.plan(1000, epsilon=1.0, delta=0.01)  # delta above 1 over the number of records
print(said[0].category is tacit.PrivacyWarning)
