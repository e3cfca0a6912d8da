"""Beliefs about epsilon: what drawing from the posterior gives, beside the bound and never above it in the verdict."""

import numpy as np
import pytest

from tacit.audits import ClopperPearson, credible, stated, verify
from tacit.audits.demonstration import demonstrate
from tacit.audits.scoring import scored
from tacit.core import Counts, Evidence
from tacit.core.events import Gaussian


def drawn(counts, delta, confidence, draws=400_000):
    """The naive way: draw rates, take the largest of the four log ratios."""
    rng = np.random.default_rng(0)
    p = rng.beta(counts.true_positives + 0.5, counts.n_in - counts.true_positives + 0.5, draws)
    q = rng.beta(counts.false_positives + 0.5, counts.n_out - counts.false_positives + 0.5, draws)
    with np.errstate(divide="ignore"):
        ratios = [
            np.log(np.maximum(one - delta, 0)) - np.log(other)
            for one, other in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))
        ]
    epsilon = np.maximum(np.max(ratios, axis=0), 0.0)
    return np.quantile(epsilon, [(1 - confidence) / 2, (1 + confidence) / 2])


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("counts", [Counts(80, 5, 100, 100), Counts(50, 50, 100, 100), Counts(3, 40, 50, 60)])
def test_quadrature_gives_what_drawing_gives(counts, delta):
    assert credible(counts, delta, 0.95) == pytest.approx(tuple(drawn(counts, delta, 0.95)), abs=0.01)


def test_it_is_narrower_than_what_holds_for_certain():
    counts = Counts(900, 60, 1000, 1000)
    low, high = credible(counts, 1e-5, 0.9)
    assert ClopperPearson(1e-5).read(counts, 0.95) < low < np.log(0.9 / 0.06) < high


def test_it_stands_beside_the_bound_and_can_be_recomputed():
    rng = np.random.default_rng(1)
    coins = np.arange(400) % 2 == 0
    scores = scored(rng.normal(size=400) + coins, coins)
    claim = stated(Gaussian(1.0), delta=1e-5)
    shown = demonstrate(
        scores, claim=claim, confidence=0.95, rng=1, game="runs", canary="x", planned=400, failed=0
    )  # fmt: skip
    assert shown[0].credible is not None
    assert shown[1].credible is None  # a family has no such reading
    evidence = Evidence("m", claim, shown)
    assert evidence.lower.bound.epsilon == max(item.bound.epsilon for item in shown)
    back = Evidence.from_json(evidence.to_json())
    assert back.demonstrations == evidence.demonstrations
    assert verify(back).ok
    changed = evidence.to_json()
    changed["demonstrations"][0]["credible"]["upper"] += 0.5
    assert not verify(Evidence.from_json(changed)).ok
