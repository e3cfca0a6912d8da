"""Evidence as real runs make it: exact Gaussian claims, simulated attackers, exact Clopper-Pearson bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import optimize, special

from tacit.audits.bounds.estimators import Estimator
from tacit.core import (
    Bin,
    Bound,
    Claim,
    Control,
    Counts,
    Demonstration,
    Estimate,
    Evidence,
    Exposure,
    GroupRisk,
    Measurement,
    Scores,
    Spent,
)
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.core.fault import Fault
from tacit.core.histogram import Histogram
from tacit.core.proportion import clopper_pearson, lower_proportion, upper_proportion

DELTA = 1e-5
RATES = (0.1, 0.01, 0.001, 0.0001)


def gaussian_epsilon(noise_multiplier: float, delta: float = DELTA) -> float:
    """Balle and Wang 2018, Theorem 8: the exact epsilon of one Gaussian release of sensitivity 1."""
    mu = 1 / noise_multiplier

    def excess(epsilon: float) -> float:
        return special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu) - delta

    return float(optimize.brentq(excess, 0.0, 200.0))


def frontier(noise_multiplier: float, points: int = 61) -> tuple[tuple[float, float], ...]:
    """The largest true-positive rate of a Gaussian release at each false-positive rate."""
    rates = np.concatenate(([0.0], np.logspace(-5, 0, points)))
    allowed = special.ndtr(special.ndtri(rates) + 1 / noise_multiplier)
    return tuple((float(x), float(y)) for x, y in zip(rates, allowed, strict=True))


def gaussian_claim(noise_multiplier: float) -> Claim:
    """A proven claim whose event is one subsampled step repeated (here rate 1, so the Gaussian formula is exact)."""
    bound = Bound(gaussian_epsilon(noise_multiplier), DELTA, "upper", 1.0, "Gaussian, closed form", "add-remove")
    event = Repeat(Poisson(1.0, Gaussian(noise_multiplier * math.sqrt(40))), 40)
    return Claim(bound, event, frontier(noise_multiplier))


def demonstration(shift: float, runs: int, *, confidence: float = 0.95, seed: int = 7) -> Demonstration:
    """An ideal attacker's count over runs with and without a canary, threshold fixed beforehand."""
    rng = np.random.default_rng(seed)
    threshold = 2.2
    hits = int((rng.normal(shift, 1, runs) > threshold).sum())
    alarms = int((rng.normal(0, 1, runs) > threshold).sum())
    return Demonstration(
        bound=Bound(
            _lower(hits, alarms, runs, confidence),
            DELTA,
            "lower",
            confidence,
            "clopper-pearson",
            "add-remove",
            assumptions=Estimator.assumptions,
        ),
        counts=Counts(hits, alarms, runs, runs),
        attainable=_lower(runs, 0, runs, confidence),
        threshold=threshold,
        game="runs",
        canary="mislabelled",
        planned=2 * runs,
    )


def measurement(attack: str, shift: float, *, members: int = 3000, seed: int = 3) -> Measurement:
    """A likelihood-ratio attacker on simulated scores: what an attack room would hand over."""
    rng = np.random.default_rng(seed)
    score = np.concatenate((rng.normal(shift, 1, members), rng.normal(0, 1, members)))
    scores = Scores(score, np.arange(2 * members) < members, attack=attack, randomised=False)
    roc = scores.roc()
    keep = np.unique(np.searchsorted(roc.fpr, np.logspace(-4, 0, 150)).clip(0, roc.fpr.size - 1))
    lower, upper = clopper_pearson(np.rint(roc.tpr[keep] * members), members)
    points = zip(roc.fpr[keep], roc.tpr[keep], lower, upper, strict=True)
    return Measurement(
        attack=attack,
        auc=scores.auc(),
        tpr_at_fpr=tuple((rate, scores.tpr(rate)) for rate in RATES),
        members=members,
        nonmembers=members,
        roc=tuple(tuple(float(number) for number in point) for point in points),
    )


def plain() -> Evidence:
    """A model trained without protection: attacked, nothing claimed."""
    return Evidence(
        "plain model",
        demonstrations=(demonstration(3.0, 1000),),
        measurements=(measurement("LiRA", 1.6), measurement("RMIA", 1.3, seed=4), measurement("loss", 0.5, seed=5)),
        utility={"accuracy": 0.971, "training accuracy": 1.0},
        controls=_controls(),
        not_covered=_not_covered(),
        threat=_threat(),
        provenance=_provenance(),
    )


def private() -> Evidence:
    """The same training with differential privacy: the audit could have contradicted the claim and did not."""
    return plain().with_(
        subject="private model",
        claim=gaussian_claim(1.0),
        demonstrations=(demonstration(1.0, 5000),),
        measurements=(measurement("LiRA", 0.3), measurement("RMIA", 0.2, seed=4), measurement("loss", 0.1, seed=5)),
        utility={"accuracy": 0.924, "training accuracy": 0.931},
    )


BARS = (1, 4, 17, 60, 141, 180, 77, 20)
"""Scores of an audit's runs with a canary; mirrored, those without."""


def detailed() -> Evidence:
    """With everything below the average: records, groups, and the budget step by step."""
    shares = [(0.61, 0.31, 0.84), (0.4, -0.05, 0.71)]
    return private().with_(
        subject="private model in detail",
        exposures=tuple(
            Exposure(17 * k, 0.5 + k / 100, Estimate(value, lower, upper, 0.975, 24))
            for k, (value, lower, upper) in enumerate(shares)
        ),
        risk=tuple(Bin(k / 20, (k + 1) / 20, records) for k, records in enumerate((4012, 310, 41, 0, 3))),
        groups=(
            GroupRisk("women", Estimate(0.032, -0.011, 0.075, 0.95, 1204), 0.41),
            GroupRisk("<men & others>", Estimate(0.081, 0.02, 0.142, 0.95, 1101), 0.004),
        ),
        histograms=(Histogram("canary", tuple(k / 2 for k in range(9)), BARS, BARS[::-1]),),
        budget=tuple(Spent(step, gaussian_epsilon(math.sqrt(40 / step))) for step in (1, 10, 20, 30, 40)),
    )


def refuted() -> Evidence:
    """Noise far too small: the audit contradicts the claim."""
    return private().with_(
        subject="model with a planted bug", claim=gaussian_claim(4.0), demonstrations=(demonstration(4.0, 2000),)
    )


def failed_control() -> Evidence:
    """The null control found a leak where there is none: nothing else can be relied on."""
    broken = Control("null model", "no attack beats chance", "LiRA: 212 of 1,000 members at 1 % false positives", False)
    return private().with_(subject="model in a broken experiment", controls=(*_controls()[1:], broken))


def uninformative() -> Evidence:
    """Too few runs: even a perfect attacker could not have contradicted the claim."""
    return private().with_(
        subject="model with a small audit", demonstrations=(demonstration(1.0, 60),), measurements=(), utility={}
    )


def bare() -> Evidence:
    """A claim that somebody states, without event, measurements, controls or anything else."""
    return Evidence("somebody's model", Claim(Bound(3.0, 1e-6, "upper", 1.0, "stated", "replace", unit="user")))


def trained() -> Evidence:
    """What a training writes: a proof, described by its owner, that nobody has tested."""
    return private().with_(
        subject="run",
        demonstrations=(),
        measurements=(),
        controls=(),
        provenance={**_provenance(), "public_size": 1797},
        described={
            "title": "Readmission within 30 days",
            "owner": "Clinic of Anywhere, data office",
            "purpose": "to plan beds",
            "data": "admissions 2019 to 2023",
        },
    )


ATTACKS = ("loss", "modified-entropy", "lira", "rmia", "student", "combined", "blind baseline")


def bracketed() -> Evidence:
    """What a bracket of a table's model writes: six attacks, wide chances, a long list of what is not covered."""
    chances = {
        "no noise": (1.0, 1.0, 1.0),
        "noise 2 times too small": (2e-4, 0.979, 1.0),
        "no clipping": (5e-17, 0.006, 0.99),
    }
    columns = ", ".join(f"column_{k}" for k in range(43))
    return detailed().with_(
        subject="people",
        measurements=tuple(measurement(name, 0.05, seed=k, members=900) for k, name in enumerate(ATTACKS)),
        utility={"test accuracy": 0.948, "most frequent class": 0.722},
        not_covered=(*_not_covered() * 3, f"kind, range or words of {columns}: they were read off the data"),
        caught=tuple(
            Fault(name, Estimate(value, low, high, 0.95, 300, "planted in this training, 300 runs"))
            for name, (low, value, high) in chances.items()
        )
        + (Fault("one seed for all runs"),),
    )


def of_users() -> Evidence:
    """A training that protects users, each with several records: its plan counts users."""
    claim = gaussian_claim(1.0)
    return trained().with_(
        subject="table of users", claim=replace(claim, bound=replace(claim.bound, unit="user")),
        provenance={"public_size": 32, "made": "2026-11-16T10:15:47+00:00"},
    )  # fmt: skip


def disclosed() -> Evidence:
    """What attacks on a table found."""
    from tacit.disclosure import evidence, of_table

    table = {"zip": [1, 1, 1, 2, 2, 3], "born": [1, 1, 2, 2, 2, 3], "ill": [0, 0, 1, 1, 1, 0]}
    return evidence(of_table(table, ["zip", "born"], "ill", k=2), release="patients.csv", known=["zip", "born"])


SAMPLES = {
    "of users": of_users,
    "bracketed": bracketed,
    "detailed": detailed,
    "plain": plain,
    "private": private,
    "refuted": refuted,
    "failed control": failed_control,
    "uninformative": uninformative,
    "bare": bare,
    "disclosed": disclosed,
    "trained": trained,
}


def _lower(hits: int, alarms: int, runs: int, confidence: float) -> float:
    each = (1 + confidence) / 2
    ratio = (lower_proportion(hits, runs, each) - DELTA) / upper_proportion(alarms, runs, each)
    return max(0.0, float(np.log(ratio))) if ratio > 0 else 0.0


def _controls() -> tuple[Control, ...]:
    return (
        Control("null model", "no attack beats chance", "best lower limit 0.0081 at false-positive rate 0.01", True),
        Control("planted leak", "the attack finds it", "998 of 1,000 planted members found", True),
        Control("blind baseline", "members cannot be told without the model", "AUC 0.502 (0.487 to 0.517)", True),
    )


def _not_covered() -> tuple[str, ...]:
    return (
        "Accuracy was computed on held-out data without noise.",
        "The learning rate was chosen on public data.",
        "Model inversion and attribute inference were not tried.",
    )


def _threat() -> dict[str, str]:
    return {
        "released": "the final model's weights",
        "attacker": "sees the weights and knows all records but one",
        "composition": "this one training run",
        "tuning": "no private data was used for tuning",
    }


def _provenance() -> dict[str, str | int | float | bool | None]:
    return {
        "tacit": "0.1.0",
        "python": "3.11.7",
        "randomness": "cryptographic, from the operating system",
        "data": "hmac-sha256:5f1d3c9a",
        "records": 1797,
        "seconds": 41.25,
    }
