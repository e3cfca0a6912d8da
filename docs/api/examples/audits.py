# %% audit CANARIES
import numpy as np

from tacit.audits import CANARIES, audit

x = np.random.default_rng(0).normal(size=(40, 2))
y = (x[:, 0] > 0).astype(int)


def fit(x, y, rng):  # class means with noise
    means = [x[y == k].sum(axis=0) / 20 + rng.normal(size=2) for k in (0, 1)]

    def predict(asked):
        near = np.stack([-((asked - mean) ** 2).sum(axis=1) for mean in means], axis=1)
        return np.exp(near) / np.exp(near).sum(axis=1, keepdims=True)

    return predict


print(sorted(CANARIES))
print(audit(fit, (x, y), claim=(8.0, 1e-3), canary="blank", runs=40, isolation="none", rng=0).verdict)

# %% stated play demonstrate null planted_leak
import numpy as np

from tacit.audits import demonstrate, null, planted_leak, play, stated

rng = np.random.default_rng(0)


def runner(coins):  # run k saw the canary where coins[k] says so; its score is one number
    return coins + rng.laplace(scale=0.25, size=len(coins))  # the claim below needs scale 1


claim = stated((1.0, 0.0), delta=0.0, adjacency="add-remove")
scores = play(runner, 1000, 0)
for found in demonstrate(scores, claim=claim, confidence=0.95, rng=0, game="runs", canary="mine", planned=1000, failed=0):
    print(found.bound.epsilon, found.bound.contradicts(claim.bound))
print(null(scores, 0).passed, planted_leak(scores, 0).passed)  # controls of the procedure itself

# %% demonstrate_once Played watch demonstrate_updates
import numpy as np

import tacit
from tacit.audits import Played, demonstrate_once, demonstrate_updates, stated, watch
from tacit.events import Gaussian, Repeat

rng = np.random.default_rng(0)
coins = rng.random(1000) < 0.5
once = tacit.Scores(rng.normal(size=1000) + 4.0 * coins, coins, attack="mine", randomised=True)
pair = stated((1.0, 1e-5), delta=1e-5, adjacency="add-remove")
print(demonstrate_once(once, claim=pair, confidence=0.95, played=Played("one-run", "mine", 1000))[0].bound.epsilon)


def batches():  # runs that come in batches: the game ends when the claim is refuted
    for k in range(10):
        member = np.arange(100) % 2 == 0
        run = 100 * k + np.arange(100)
        yield tacit.Scores(rng.normal(size=100) + 4.0 * member, member, attack="mine", randomised=True, target=run)


print(watch(batches(), claim=pair, confidence=0.95, played=Played("sequential", "mine", 1000))[0].bound.epsilon)

steps = stated(Repeat(Gaussian(3.0), 50), delta=1e-5)  # one score for each of 50 steps of 20 runs
coin = rng.random(1000) < 0.5
seen = tacit.Scores(
    coin + rng.normal(scale=3.0, size=1000), coin, attack="mine", randomised=True, target=np.repeat(np.arange(20), 50)
)
print(demonstrate_updates(seen, claim=steps, confidence=0.95, rng=0, played=Played("updates", "mine", 20))[0].bound.epsilon)

# %% Estimator ClopperPearson Exact Curve ExactCurve Anytime AnytimeCurve OneRun OneRunCurve UpdatesCurve Limits credible
from tacit import Adjacency
from tacit.audits import ClopperPearson, Curve, Exact, ExactCurve, credible
from tacit.core.evidence import Counts
from tacit.events import Gaussian

counts = Counts(420, 60, 500, 500)  # hits of 500 runs with the canary, alarms of 500 without
for estimator in (ClopperPearson(1e-5), Exact(1e-5)):  # whatever the mechanism
    print(type(estimator).__name__, estimator.read(counts, 0.95))
for family in (Curve, ExactCurve):  # if the noise is of the claimed kind: often more
    print(family.__name__, family(Gaussian(1.0), Adjacency.ADD_REMOVE, 1e-5).read(counts, 0.95))
print(credible(counts, 1e-5, 0.95))  # what a Bayesian would believe; in no verdict

# %% Verification Recomputed
import tacit

evidence = tacit.audit_mechanism(lambda data, rng: len(data) + rng.laplace(), ([1], [1, 1]), claim=(1.0, 0.0), runs=400, rng=0)
found = tacit.verify(evidence)
print(found.ok, [(row.method, row.stored, row.recomputed) for row in found.bounds])
